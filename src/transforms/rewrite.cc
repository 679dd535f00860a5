#include "transforms/rewrite.h"

#include <algorithm>
#include <cmath>

namespace ullage::transforms {

graph::ConstantPtr Lens::constant(ValueId v) const {
  if (v == kNone) return nullptr;
  const graph::Value& value = graph_.value(v);
  if (value.is_input && std::find(graph_.inputs.begin(), graph_.inputs.end(), v) != graph_.inputs.end())
    return nullptr;
  return value.constant;
}

std::optional<double> Lens::Scalar(ValueId v) const {
  const auto c = constant(v);
  if (!c || c->elements() != 1 || !c->available() || !c->block_type.empty()) return {};
  if (!IsFloating(c->dtype) && !IsInteger(c->dtype)) return {};
  return c->AsDoubles().front();
}

bool Lens::IsNear(ValueId v, double expected) const {
  const auto s = Scalar(v);
  return s && std::abs(*s - expected) <= 1e-3 * std::abs(expected);
}

std::optional<std::vector<int64_t>> Lens::Ints(ValueId v) const {
  if (v == kNone) return {};
  if (const auto c = constant(v)) {
    if (!c->available() || !c->block_type.empty() || c->elements() > ops::BoundedValues::kMax) return {};
    if (!IsInteger(c->dtype) && c->dtype != DType::kBool) return {};
    return c->AsInts();
  }
  const auto& known = facts(v).values;
  if (!known || !known->exact()) return {};
  std::vector<int64_t> out;
  for (int i = 0; i < known->count; ++i) out.push_back((*known)[i].lower);
  return out;
}

bool Lens::OneUse(ValueId v) const {
  return v != kNone && graph_.value(v).consumers.size() == 1 && !graph_.IsOutput(v);
}

const Node* Lens::From(ValueId v, std::string_view op, std::string_view domain) const {
  const Node* n = graph_.ProducerOf(v);
  return n && n->Is(domain, op) ? n : nullptr;
}

const Node* Lens::Inner(ValueId v, std::string_view op, std::string_view domain) const {
  const Node* n = From(v, op, domain);
  return n && OneUse(v) ? n : nullptr;
}

const ops::ValueFacts& Lens::facts(ValueId v) const {
  static const ops::ValueFacts kUnknown;
  const auto& all = context_.facts();
  return v == kNone || static_cast<size_t>(v) >= all.values.size() ? kUnknown : all.of(v);
}

DType Lens::dtype(ValueId v) const {
  if (v == kNone) return DType::kUndefined;
  if (const auto c = constant(v)) return c->dtype;
  const DType known = facts(v).dtype;
  return known != DType::kUndefined ? known : graph_.value(v).dtype;
}

int64_t Lens::LastDim(ValueId v) const {
  if (const auto c = constant(v)) return c->shape.rank() ? c->shape.at(-1) : -1;
  const auto& shape = facts(v).shape;
  if (shape.rank < 1 || !shape.at(-1).exact()) return -1;
  return shape.at(-1).lower;
}

bool Lens::SameShape(ValueId a, ValueId b) const {
  const auto &x = facts(a).shape, &y = facts(b).shape;
  if (!x.known_rank() || x.rank != y.rank) return false;
  for (int i = 0; i < x.rank; ++i)
    if (!ops::Same(x[i], y[i])) return false;
  return true;
}

Node& Fuse(graph::Patch& patch, std::string_view domain, std::string_view op, std::string_view suffix,
           std::vector<ValueId> inputs, std::vector<ValueId> outputs, std::vector<NodeId> matched) {
  graph::Graph& g = patch.graph();
  if (!domain.empty()) g.opsets.emplace(domain, 1);
  std::sort(matched.begin(), matched.end());
  matched.erase(std::unique(matched.begin(), matched.end()), matched.end());
  for (ValueId v : outputs)
    if (const Node* producer = g.ProducerOf(v)) patch.Remove(producer->id);
  Node& added = patch.Add(domain, op, suffix, std::move(inputs), std::move(outputs), matched);
  for (bool again = true; again;) {
    again = false;
    for (auto it = matched.rbegin(); it != matched.rend(); ++it) {
      const Node& n = g.node(*it);
      const bool used = std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) {
        return v != kNone && (!g.value(v).consumers.empty() || g.IsOutput(v));
      });
      if (!n.alive || used) continue;
      patch.Remove(*it);
      again = true;
    }
  }
  return added;
}

void BecomeConstant(graph::Graph& graph, ValueId v, graph::ConstantPtr constant) {
  graph::Value& value = graph.value(v);
  value.dtype = constant->dtype;
  value.constant = std::move(constant);
  for (NodeId id : std::vector<NodeId>(value.consumers)) {
    Node& n = graph.node(id);
    if (std::find(n.captures.begin(), n.captures.end(), v) != n.captures.end()) graph.SyncCaptures(n);
  }
}

bool Redirect(graph::Patch& patch, ValueId from, ValueId to) {
  if (patch.graph().IsOutput(from)) return false;
  patch.ReplaceUses(from, to);
  return true;
}

bool DependsOn(const graph::Graph& graph, ValueId v, const std::vector<NodeId>& sources) {
  std::vector<bool> seen(graph.node_slots(), false);
  std::vector<ValueId> open = {v};
  while (!open.empty()) {
    const ValueId at = open.back();
    open.pop_back();
    const Node* n = graph.ProducerOf(at);
    if (!n || seen[static_cast<size_t>(n->id)]) continue;
    seen[static_cast<size_t>(n->id)] = true;
    if (std::find(sources.begin(), sources.end(), n->id) != sources.end()) return true;
    for (ValueId u : n->inputs)
      if (u != kNone) open.push_back(u);
    open.insert(open.end(), n->captures.begin(), n->captures.end());
  }
  return false;
}

std::optional<Repeat> ReadRepeat(const Lens& lens, const Node& reshape) {
  const Node* expand = lens.Inner(reshape.input(0), "Expand");
  const Node* unsqueeze = expand ? lens.Inner(expand->input(0), "Unsqueeze") : nullptr;
  if (!unsqueeze) return {};
  const ValueId source = unsqueeze->input(0);
  const auto axes = AxesOf(lens, *unsqueeze, 1, 5);
  const auto &from = lens.facts(source).shape, &wide = lens.facts(expand->output(0)).shape;
  const auto& to = lens.facts(reshape.output(0)).shape;
  const auto& target = lens.facts(reshape.input(1)).values;
  if (!axes || *axes != std::vector<int64_t>{2} || from.rank != 4 || wide.rank != 5 || to.rank != 4)
    return {};
  if (!from[1].exact() || !wide[2].exact()) return {};
  for (int i = 0; i < 4; ++i)
    if (!ops::Same(wide[i < 2 ? i : i + 1], from[i])) return {};
  const ops::Bound want[] = {from[0], ops::Bound::Exactly(from[1].lower * wide[2].lower), from[2], from[3]};
  for (int i = 0; i < 4; ++i) {
    const bool asked = target && target->count == 4 && ops::Same((*target)[i], want[i]);
    if (!asked && !ops::Same(to[i], want[i])) return {};
  }
  return Repeat{source, expand->id, unsqueeze->id, from[2]};
}

std::optional<std::vector<int64_t>> AxesOf(const Lens& lens, const Node& node, size_t input, int rank) {
  std::optional<std::vector<int64_t>> axes;
  if (node.has_input(input))
    axes = lens.Ints(node.input(input));
  else if (node.has_attr("axes"))
    axes = node.Ints("axes");
  if (!axes) return {};
  for (int64_t& a : *axes) {
    a = AxisOf(a, rank);
    if (a < 0) return {};
  }
  return axes;
}

}  // namespace ullage::transforms
