/// If nodes that need no branching: the condition is known, or both branches only yield constants.
#include <algorithm>
#include <map>

#include "transforms/passes.h"
#include "transforms/rewrite.h"

namespace ullage::transforms {
namespace {

/// Moves the nodes of a body to where its owner was. The body is not used afterwards.
class Inliner {
 public:
  Inliner(graph::Graph& outer, Node& owner, graph::Graph& body) : outer_(outer), owner_(owner), body_(body) {
    for (size_t i = 0; i < body.capture_values.size() && i < owner.captures.size(); ++i)
      map_[body.capture_values[i]] = owner.captures[i];
  }

  void Run() {
    graph::Patch patch(outer_, "inline-if");
    const std::vector<ValueId> results = owner_.outputs;
    patch.Remove(owner_.id);
    // A result that a node of the body makes takes the outer value at once.
    for (size_t o = 0; o < results.size(); ++o) {
      const ValueId inner = body_.outputs[o];
      if (results[o] != kNone && body_.value(inner).producer != kNone) map_.emplace(inner, results[o]);
    }
    for (NodeId id : body_.Order()) Move(patch, body_.node(id));
    for (size_t o = 0; o < results.size(); ++o) {
      if (results[o] == kNone) continue;
      const ValueId made = Outer(patch, body_.outputs[o]);
      if (made == results[o]) continue;
      if (const auto constant = outer_.value(made).constant; constant && !outer_.value(made).is_input)
        BecomeConstant(outer_, results[o], constant);
      else
        patch.Add("", "Identity", "result", {made}, {results[o]}, {owner_.id});
    }
  }

 private:
  ValueId Outer(graph::Patch& patch, ValueId inner) {
    if (inner == kNone) return kNone;
    if (const auto it = map_.find(inner); it != map_.end()) return it->second;
    const graph::Value source = body_.value(inner);
    const std::string name = owner_.name + "/" + source.name;
    ValueId v = kNone;
    if (source.constant) {
      v = patch.NewConstant(name, source.constant);
    } else {
      v = patch.NewValue(name, source.dtype);
      outer_.value(v).declared = source.declared;
      outer_.value(v).kind = source.kind;
    }
    map_[inner] = v;
    return v;
  }

  void Move(graph::Patch& patch, Node& node) {
    const auto mapped = [&](const std::vector<ValueId>& list) {
      std::vector<ValueId> out;
      for (ValueId v : list) out.push_back(Outer(patch, v));
      return out;
    };
    auto inputs = mapped(node.inputs);
    auto outputs = mapped(node.outputs);
    auto captures = mapped(node.captures);
    if (const auto it = body_.opsets.find(node.domain); it != body_.opsets.end())
      outer_.opsets.emplace(it->first, it->second);
    Node& added =
        patch.Add(node.domain, node.op, node.name, std::move(inputs), std::move(outputs), {owner_.id});
    added.opset = node.opset;
    added.attributes = std::move(node.attributes);
    added.provenance = node.provenance;
    if (!node.annotation.empty()) added.annotation = node.annotation;
    for (const auto& [key, text] : node.metadata) added.metadata[key] = text;
    if (!captures.empty()) outer_.SetCaptures(added, std::move(captures));
  }

  graph::Graph& outer_;
  Node& owner_;
  graph::Graph& body_;
  std::map<ValueId, ValueId> map_;
};

/// The constant that a branch yields as result `o`, or null.
graph::ConstantPtr Yielded(const graph::Graph& outer, const Node& owner, const graph::Graph& body, size_t o) {
  const ValueId v = body.outputs[o];
  const graph::Value& value = body.value(v);
  if (value.producer != kNone || !value.constant) return nullptr;
  // A captured constant must be one outside as well, not the default of an input.
  for (size_t i = 0; i < body.capture_values.size(); ++i)
    if (body.capture_values[i] == v) {
      const graph::Value& source = outer.value(owner.captures[i]);
      return source.is_input ? nullptr : source.constant;
    }
  return value.constant;
}

std::shared_ptr<graph::Graph> Branch(const Node& node, std::string_view key) {
  auto body = node.Subgraph(key);
  return body && body->inputs.empty() && body->outputs.size() == node.outputs.size() ? body : nullptr;
}

}  // namespace

int InlineConditionals(PassContext& context) {
  graph::Graph& g = context.graph();
  Lens lens(context);
  int count = 0;
  for (NodeId id : g.Order()) {
    Node& node = g.node(id);
    if (!node.Is("", "If") || !node.has_input(0)) continue;
    const auto condition = lens.Ints(node.input(0));
    if (!condition || condition->size() != 1) continue;
    const auto body = Branch(node, condition->front() != 0 ? "then_branch" : "else_branch");
    if (!body) continue;
    Inliner(g, node, *body).Run();
    ++count;
  }
  if (count > 0) graph::RemoveDeadNodes(g);
  return count;
}

int SelectConstants(PassContext& context) {
  graph::Graph& g = context.graph();
  int count = 0;
  for (NodeId id : g.Order()) {
    Node& node = g.node(id);
    if (!node.Is("", "If") || !node.has_input(0)) continue;
    const auto then_body = Branch(node, "then_branch"), else_body = Branch(node, "else_branch");
    if (!then_body || !else_body) continue;
    std::vector<std::pair<graph::ConstantPtr, graph::ConstantPtr>> pairs;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      auto a = Yielded(g, node, *then_body, o), b = Yielded(g, node, *else_body, o);
      if (!a || !b || a->dtype != b->dtype || !a->block_type.empty() || !b->block_type.empty()) break;
      pairs.emplace_back(std::move(a), std::move(b));
    }
    if (pairs.size() != node.outputs.size()) continue;
    graph::Patch patch(g, "select");
    const std::vector<ValueId> outputs = node.outputs;
    g.opsets.emplace(kUllageDomain, 1);
    patch.Remove(id);
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (outputs[o] == kNone) continue;
      const std::string name = g.value(outputs[o]).name;
      const ValueId a = patch.NewConstant(name + "/then", pairs[o].first);
      const ValueId b = patch.NewConstant(name + "/else", pairs[o].second);
      Node& added = patch.Add(kUllageDomain, "Select", outputs.size() > 1 ? name : "Select",
                              {node.input(0), a, b}, {outputs[o]}, {id});
      // The branches' own nodes, if any are left, stand behind it as well.
      for (const auto* body : {then_body.get(), else_body.get()})
        for (NodeId inner : body->Order())
          for (const auto& p : body->node(inner).provenance) added.provenance.push_back(p);
    }
    ++count;
  }
  return count;
}

}  // namespace ullage::transforms
