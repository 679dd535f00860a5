#include "ops/families.h"

namespace ullage::ops {
namespace {

// X [S, B, I] (layout 0) or [B, S, I] (layout 1); hidden size from the attribute or a weight's dimension.
void Recurrent(ShapeContext& c, int hidden_at, int hidden_axis, int states) {
  CheckRank(c, 0, 3);
  const BoundedShape& x = c.shape(0);
  const std::string_view direction = c.node().StrView("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    c.Fail("attribute direction is ", direction);
  const Bound directions = Bound::Exactly(direction == "bidirectional" ? 2 : 1);
  const bool batch_first = c.node().Int("layout", 0) != 0;
  Bound steps, batch, hidden;
  if (x.known_rank()) {
    steps = x[batch_first ? 1 : 0];
    batch = x[batch_first ? 0 : 1];
  }
  if (c.has(hidden_at) && c.shape(hidden_at).known_rank()) {
    CheckRank(c, hidden_at, 3);
    hidden = c.shape(hidden_at)[hidden_axis];
    CheckEqual(c, c.shape(hidden_at)[0], directions, "directions of the weight and the node");
  }
  if (c.node().has_attr("hidden_size"))
    hidden = Equated(c, CheckedDim(c, Bound::Exactly(c.node().Int("hidden_size", 0))), hidden,
                     "hidden_size and the weight");
  if (c.wants(0))
    c.Set(0, c.dtype(0),
          batch_first ? BoundedShape::OfDims({batch, steps, directions, hidden})
                      : BoundedShape::OfDims({steps, directions, batch, hidden}));
  for (int o = 1; o <= states; ++o)
    if (c.wants(o))
      c.Set(o, c.dtype(0),
            batch_first ? BoundedShape::OfDims({batch, directions, hidden})
                        : BoundedShape::OfDims({directions, batch, hidden}));
}

void Lstm(ShapeContext& c) {
  Recurrent(c, 2, 2, 2);
}

void OneState(ShapeContext& c) {
  Recurrent(c, 2, 2, 1);
}

// Weights are stored transposed: R is [directions, hidden, 4 * hidden].
void DynamicQuantizeLstm(ShapeContext& c) {
  Recurrent(c, 2, 1, 2);
}

}  // namespace

void RegisterRecurrent(Registry& ops) {
  ops.push_back(
      {.name = "LSTM", .since = 1, .min_inputs = 3, .max_inputs = 8, .max_outputs = 3, .rule = Lstm});
  ops.push_back(
      {.name = "GRU", .since = 1, .min_inputs = 3, .max_inputs = 6, .max_outputs = 2, .rule = OneState});
  ops.push_back(
      {.name = "RNN", .since = 1, .min_inputs = 3, .max_inputs = 6, .max_outputs = 2, .rule = OneState});
  ops.push_back({.domain = graph::kMsDomain,
                 .name = "DynamicQuantizeLSTM",
                 .min_inputs = 3,
                 .max_inputs = 12,
                 .max_outputs = 3,
                 .rule = DynamicQuantizeLstm});
}

}  // namespace ullage::ops
