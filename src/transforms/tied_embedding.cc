/// Rows of a transposed constant are columns of the constant: the transpose of a tied embedding, which may be
/// the largest tensor of the model, is never made.
#include "transforms/passes.h"
#include "transforms/rewrite.h"

namespace ullage::transforms {

int GatherTransposed(PassContext& context) {
  graph::Graph& g = context.graph();
  Lens lens(context);
  int count = 0;
  for (NodeId id : g.Order()) {
    const Node& gather = g.node(id);
    if (!gather.Is("", "Gather") || !gather.has_input(1) || !gather.has_output(0) ||
        gather.Int("axis", 0) != 0)
      continue;
    const Node* transpose = lens.From(gather.input(0), "Transpose");
    if (!transpose) continue;
    const auto weight = lens.constant(transpose->input(0));
    const auto perm = transpose->Ints("perm");
    const int rank = lens.facts(gather.input(1)).shape.rank;
    if (!weight || weight->shape.rank() != 2 || !weight->block_type.empty() || rank < 0 ||
        rank > kMaxRank - 2 || (!perm.empty() && perm != std::vector<int64_t>{1, 0}))
      continue;
    // [D, V] at columns idx -> [D, idx..] -> [idx.., D]
    graph::Patch patch(g, "tied-embedding");
    const ValueId out = gather.output(0), indices = gather.input(1), data = transpose->input(0);
    const NodeId transposed = transpose->id;
    const ValueId columns = patch.NewValue(g.value(out).name + "/columns", weight->dtype);
    patch.Remove(id);
    Node& taken = patch.Add("", "Gather", "columns", {data, indices}, {columns}, {id, transposed});
    taken.attributes["axis"] = int64_t{1};
    std::vector<int64_t> back;
    for (int i = 1; i <= rank; ++i) back.push_back(i);
    back.push_back(0);
    patch.Add("", "Transpose", "rows", {columns}, {out}, {id, transposed}).attributes["perm"] = back;
    if (lens.Unused(g.node(transposed).output(0))) patch.Remove(transposed);
    ++count;
  }
  return count;
}

}  // namespace ullage::transforms
