#include "shapes/propagate.h"

#include <algorithm>

#include "core/error.h"

namespace ullage::shapes {
namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::ValueId;
using ops::Bound;
using ops::BoundedShape;
using ops::BoundedValues;
using ops::ValueFacts;

// Facts of a constant: exact shape, contents of small integer tensors (and of floating-point ones that hold
// integers).
ValueFacts ConstantFacts(const graph::Constant& constant) {
  ValueFacts f;
  f.dtype = constant.dtype;
  f.shape = BoundedShape::Of(constant.shape);
  const bool integer = IsInteger(f.dtype) || f.dtype == DType::kBool;
  if ((!integer && !IsFloating(f.dtype)) || !constant.available() || !constant.block_type.empty() ||
      constant.elements() > BoundedValues::kMax)
    return f;
  auto v = std::make_shared<BoundedValues>();
  if (integer) {
    for (int64_t n : constant.AsInts()) (*v)[v->count++] = Bound::Exactly(n);
  } else {
    for (double d : constant.AsDoubles()) {
      const auto n = static_cast<int64_t>(std::clamp(d, -1e9, 1e9));
      if (static_cast<double>(n) != d || n > (1 << 24) || n < -(1 << 24)) return f;
      (*v)[v->count++] = Bound::Exactly(n);
    }
  }
  f.values = std::move(v);
  return f;
}

class Propagation {
 public:
  Propagation(const Graph& graph, ops::SymbolTable& table, bool may_name, bool trial, GraphFacts& facts)
      : graph_(graph), table_(table), may_name_(may_name), trial_(trial), facts_(facts) {}

  void Run(const std::vector<ValueFacts>& inputs, const std::vector<ValueFacts>& captures);
  std::vector<ValueFacts> Outputs() const {
    std::vector<ValueFacts> out;
    for (ValueId v : graph_.outputs) out.push_back(facts_.of(v));
    return out;
  }

 private:
  friend class Context;
  void RunFrom(size_t first);
  void NameDims(const Node& node);
  void RefuseBranches(size_t at);
  void Refuse(const Node& node, const std::string& key, std::string_view reason);

  const Graph& graph_;
  ops::SymbolTable& table_;
  const bool may_name_;  // false inside loop bodies, where one name would stand for a number per round
  const bool trial_;     // it is only asked whether this fails
  GraphFacts& facts_;
  std::vector<graph::NodeId> order_;
};

class Context final : public ops::ShapeContext {
 public:
  Context(Propagation& p, const Node& node) : ShapeContext(node, ops::BoundMath(&p.table_)), p_(p) {}

  const BoundedShape& shape(int i) const override { return facts(i).shape; }
  DType dtype(int i) const override { return facts(i).dtype; }
  graph::TypeKind kind(int i) const override { return facts(i).kind; }
  Bound length(int i) const override { return facts(i).length; }
  const BoundedValues* values(int i) const override { return facts(i).values.get(); }

  const graph::Constant* constant(int i) const override {
    const ValueId v = node_->input(static_cast<size_t>(i));
    if (v == kNone) return nullptr;
    const graph::Constant* c = p_.graph_.ConstantOf(v);
    const Node* from = p_.graph_.ProducerOf(v);
    if (c == nullptr && from != nullptr && from->Is("", "Constant") && from->has_attr("value"))
      c = from->Tensor("value").get();
    return c != nullptr && c->available() ? c : nullptr;
  }

  int doubles(int i, std::span<double> out) const override {
    const graph::Constant* c = constant(i);
    if (c != nullptr && c->elements() <= static_cast<int64_t>(out.size()) &&
        (IsFloating(c->dtype) || IsInteger(c->dtype))) {
      const auto all = c->AsDoubles();
      std::copy(all.begin(), all.end(), out.begin());
      return static_cast<int>(all.size());
    }
    const BoundedValues* v = node_->has_input(static_cast<size_t>(i)) ? values(i) : nullptr;
    if (v == nullptr || !v->exact() || static_cast<size_t>(v->count) > out.size()) return -1;
    for (int k = 0; k < v->count; ++k) out[static_cast<size_t>(k)] = static_cast<double>((*v)[k].lower);
    return v->count;
  }

  std::vector<ValueFacts> RunSubgraph(const Graph& body, std::span<const ValueFacts> inputs) override {
    const std::string key = KeyOf(body);
    // The body names what it captures; the node's captures are the outer values of those names.
    std::vector<ValueFacts> captured;
    for (const std::string& name : body.capture_names) {
      const auto it = std::find_if(node_->captures.begin(), node_->captures.end(),
                                   [&](ValueId v) { return p_.graph_.value(v).name == name; });
      if (it == node_->captures.end()) Fail("sub-graph ", key, " reads ", name, ", which is not captured");
      captured.push_back(p_.facts_.of(*it));
    }
    auto body_facts = std::make_unique<GraphFacts>();
    Propagation inner(body, p_.table_, p_.may_name_ && node_->op == "If", p_.trial_, *body_facts);
    inner.Run({inputs.begin(), inputs.end()}, captured);
    auto results = inner.Outputs();
    p_.facts_.bodies[{node_->id, key}] = std::move(body_facts);
    return results;
  }
  void RefuseSubgraph(const Graph& body, std::string_view reason) override {
    p_.Refuse(*node_, KeyOf(body), reason);
  }

  void Set(int o, DType dtype, const BoundedShape& shape) override {
    if (!wants(o)) return;
    ValueFacts& f = out(o);
    f.dtype = dtype;
    f.shape = shape;
    f.values = nullptr;
  }
  void SetKind(int o, graph::TypeKind kind, const Bound& length) override {
    if (!wants(o)) return;
    out(o).kind = kind;
    out(o).length = length;
  }
  void SetValues(int o, const BoundedValues& values) override {
    if (!wants(o) || !out(o).shape.exact()) return;
    const Bound n = out(o).shape.Elements(ops::BoundMath());
    if (!n.exact() || n.lower != values.count) return;
    out(o).values = std::make_shared<BoundedValues>(values);
  }
  Bound Fresh(int64_t lower, int64_t upper) override {
    if (!p_.may_name_ || lower == upper) return Bound::Between(lower, upper);
    return p_.table_.Fresh(node_->name, lower, upper);
  }

 private:
  std::string KeyOf(const Graph& body) const {
    for (const auto& [name, attribute] : node_->attributes) {
      const auto* sub = std::get_if<std::shared_ptr<Graph>>(&attribute);
      if (sub != nullptr && sub->get() == &body) return name;
    }
    return {};
  }
  const ValueFacts& facts(int i) const {
    static const ValueFacts kAbsent;
    const ValueId v = node_->input(static_cast<size_t>(i));
    return v == kNone ? kAbsent : p_.facts_.of(v);
  }
  ValueFacts& out(int o) const {
    return p_.facts_.values[static_cast<size_t>(node_->outputs[static_cast<size_t>(o)])];
  }

  Propagation& p_;
};

void Propagation::Run(const std::vector<ValueFacts>& inputs, const std::vector<ValueFacts>& captures) {
  facts_.values.assign(graph_.value_count(), {});
  if (inputs.size() != graph_.inputs.size())
    Throw(Code::kInvalidModel, "graph ", graph_.name, ": ", inputs.size(), " inputs given, expected ",
          graph_.inputs.size());
  if (captures.size() != graph_.capture_values.size())
    Throw(Code::kInvalidModel, "graph ", graph_.name, ": ", captures.size(), " captures given, expected ",
          graph_.capture_values.size());
  for (size_t i = 0; i < graph_.value_count(); ++i)
    if (const auto* c = graph_.ConstantOf(static_cast<ValueId>(i))) facts_.values[i] = ConstantFacts(*c);
  for (size_t i = 0; i < inputs.size(); ++i) facts_.values[static_cast<size_t>(graph_.inputs[i])] = inputs[i];
  for (size_t i = 0; i < captures.size(); ++i)
    facts_.values[static_cast<size_t>(graph_.capture_values[i])] = captures[i];
  order_ = graph_.Order();
  RunFrom(0);
}

void Propagation::RunFrom(size_t first) {
  for (size_t at = first; at < order_.size(); ++at) {
    const Node& node = graph_.node(order_[at]);
    Context context(*this, node);
    ops::ApplyRule(context);
    if (!trial_ && node.Is("", "If")) RefuseBranches(at);
    if (may_name_) NameDims(node);
  }
}

void Propagation::Refuse(const Node& node, const std::string& key, std::string_view reason) {
  facts_.bodies.erase({node.id, key});
  facts_.refused[{node.id, key}] = reason;
}

// Where the branches give results of different ranks, and what follows fails with one of them, every valid
// run takes the other.
void Propagation::RefuseBranches(size_t at) {
  const Node& node = graph_.node(order_[at]);
  const auto results = [&](const char* key) {
    std::vector<ValueFacts> r;
    const auto it = facts_.bodies.find({node.id, key});
    if (it == facts_.bodies.end()) return r;
    const auto& body = *node.Subgraph(key);
    for (size_t o = 0; o < node.outputs.size(); ++o) r.push_back(it->second->of(body.outputs[o]));
    return r;
  };
  const char* const keys[] = {"then_branch", "else_branch"};
  const std::vector<ValueFacts> ways[] = {results(keys[0]), results(keys[1])};
  if (ways[0].empty() || ways[1].empty()) return;
  const auto take = [&](const std::vector<ValueFacts>& way, GraphFacts& facts) {
    for (size_t o = 0; o < node.outputs.size(); ++o)
      if (node.outputs[o] != kNone) facts.values[static_cast<size_t>(node.outputs[o])] = way[o];
  };
  bool differ = false;
  for (size_t o = 0; o < node.outputs.size(); ++o)
    differ = differ || (ways[0][o].shape.known_rank() && ways[1][o].shape.known_rank() &&
                        ways[0][o].shape.rank != ways[1][o].shape.rank);
  if (!differ) return;
  for (int way : {0, 1}) {
    GraphFacts assumed;
    assumed.values = facts_.values;
    take(ways[way], assumed);
    Propagation trial(graph_, table_, may_name_, /*trial=*/true, assumed);
    trial.order_ = order_;
    try {
      trial.RunFrom(at + 1);
    } catch (const Error& error) {
      if (error.code() != Code::kInvalidModel) continue;
      Refuse(node, keys[way], error.message());
      take(ways[1 - way], facts_);
      return;
    }
  }
}

// A dimension that no rule could express is still one number in a run: with a name, all that is computed from
// it is known to agree.
void Propagation::NameDims(const Node& node) {
  for (ValueId v : node.outputs) {
    if (v == kNone || facts_.of(v).kind != graph::TypeKind::kTensor) continue;
    BoundedShape& shape = facts_.values[static_cast<size_t>(v)].shape;
    for (int i = 0; i < shape.rank; ++i)
      if (!shape[i].exact() && shape[i].expr == ops::kNoExpr)
        shape[i] = table_.Fresh(node.name, shape[i].lower, shape[i].upper);
  }
}

}  // namespace

GraphFacts Propagate(const Graph& graph, const std::vector<ValueFacts>& inputs,
                     const std::vector<ValueFacts>& captures, ops::SymbolTable& table) {
  GraphFacts facts;
  Propagation p(graph, table, /*may_name=*/true, /*trial=*/false, facts);
  p.Run(inputs, captures);
  return facts;
}

}  // namespace ullage::shapes
