/// Casts without effect, and Identity.
#include "transforms/passes.h"
#include "transforms/rewrite.h"

namespace ullage::transforms {
namespace {

/// Every number of type `narrow` exists in `wide`, and comes back unchanged.
bool Widens(DType narrow, DType wide) {
  const auto is = [](DType t, auto... any) { return ((t == any) || ...); };
  switch (narrow) {
    case DType::kFloat16:
    case DType::kBFloat16:
      return is(wide, DType::kFloat, DType::kDouble);
    case DType::kFloat:
      return wide == DType::kDouble;
    case DType::kInt8:
    case DType::kUInt8:
      return is(wide, DType::kInt16, DType::kInt32, DType::kInt64);
    case DType::kInt32:
      return wide == DType::kInt64;
    default:
      return false;
  }
}

DType Target(const Node& cast) {
  return DTypeFromOnnx(static_cast<int32_t>(cast.Int("to", 0)));
}

}  // namespace

int DropCasts(PassContext& context) {
  graph::Graph& g = context.graph();
  Lens lens(context);
  int dropped = 0;
  for (NodeId id : g.Order()) {
    const Node& node = g.node(id);
    if (!node.has_input(0) || !node.has_output(0) || (!node.Is("", "Cast") && !node.Is("", "Identity")))
      continue;
    ValueId source = node.input(0);
    const DType to = node.op == "Cast" ? Target(node) : lens.dtype(source);
    if (lens.dtype(source) != to) {
      // Back to the type from which the producer widened.
      const Node* before = lens.From(source, "Cast");
      if (!before || lens.dtype(before->input(0)) != to || !Widens(to, Target(*before))) continue;
      source = before->input(0);
    }
    if (node.op == "Cast" && to == DType::kUndefined) continue;
    graph::Patch patch(g, "cast");
    if (!Redirect(patch, node.output(0), source)) continue;
    patch.Remove(id);
    ++dropped;
  }
  if (dropped > 0) graph::RemoveDeadNodes(g);
  return dropped;
}

}  // namespace ullage::transforms
