/// Add and the normalisation of the sum become one node that yields both.
#include "transforms/passes.h"
#include "transforms/rewrite.h"

namespace ullage::transforms {
namespace {

bool IsNorm(const Node& n) {
  return (n.op == "SimplifiedLayerNormalization" && (n.domain.empty() || n.domain == kMsDomain)) ||
         n.Is("", "RMSNormalization") || n.Is("", "LayerNormalization");
}

}  // namespace

int FuseResidualNorm(PassContext& context) {
  graph::Graph& g = context.graph();
  Lens lens(context);
  int count = 0;
  for (NodeId id : g.Order()) {
    const Node& norm = g.node(id);
    if (!IsNorm(norm) || !norm.has_output(0) || norm.has_output(1) || norm.has_output(2) ||
        norm.Int("stash_type", 1) != 1)
      continue;
    const Node* add = lens.From(norm.input(0), "Add");
    if (!add) continue;
    const ValueId sum = norm.input(0), a = add->input(0), b = add->input(1);
    const auto& shape = lens.facts(sum).shape;
    if (shape.rank < 2 || AxisOf(norm.Int("axis", -1), shape.rank) != shape.rank - 1) continue;
    if (!lens.SameShape(a, sum) || !lens.SameShape(b, sum) || lens.constant(a) || lens.constant(b)) continue;
    bool rows = true;
    for (size_t i = 1; i < norm.inputs.size(); ++i) {
      const auto& w = lens.facts(norm.input(i)).shape;
      rows = rows && norm.has_input(i) && w.rank == 1 && ops::Same(w[0], shape.at(-1)) &&
             lens.dtype(norm.input(i)) == lens.dtype(sum);
    }
    if (!rows) continue;
    const bool layer = norm.op == "LayerNormalization";
    std::vector<ValueId> inputs = {a, b};
    inputs.insert(inputs.end(), norm.inputs.begin() + 1, norm.inputs.end());
    const ValueId y = norm.output(0);
    const float epsilon = norm.Float("epsilon", 1e-5f);
    const NodeId added = add->id;
    std::vector<ValueId> outputs = {y};
    graph::Patch patch(g, "residual-norm");
    patch.Remove(id);
    patch.Remove(added);
    if (!lens.Unused(sum)) outputs = {y, kNone, kNone, sum};
    g.opsets.emplace(kMsDomain, 1);
    patch
        .Add(kMsDomain, layer ? "SkipLayerNormalization" : "SkipSimplifiedLayerNormalization", "SkipNorm",
             std::move(inputs), std::move(outputs), {id, added})
        .attributes["epsilon"] = epsilon;
    ++count;
  }
  return count;
}

}  // namespace ullage::transforms
