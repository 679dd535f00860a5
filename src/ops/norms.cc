#include "ops/families.h"

namespace ullage::ops {
namespace {

// Scale (and bias) span the normalised axes, or broadcast to them.
void CheckSpan(ShapeContext& c, int input) {
  if (!c.has(input)) return;
  const BoundedShape &x = c.shape(0), &s = c.shape(input);
  if (!x.known_rank() || !s.known_rank()) return;
  if (s.rank > x.rank)
    c.Fail("input ", input, " of shape ", s.ToString(), " for data of shape ", x.ToString());
  for (int k = 1; k <= s.rank; ++k)
    if (s.at(-k).lower > 1) CheckEqual(c, s.at(-k), x.at(-k), "scale or bias and data dimensions");
}

void LayerNorm(ShapeContext& c) {
  const BoundedShape& x = c.shape(0);
  SameAsInput(c);
  if (!x.known_rank()) {
    for (int o = 1; o < c.output_count(); ++o)
      if (c.wants(o)) c.Set(o, DType::kFloat, BoundedShape::Unknown());
    return;
  }
  const int axis = c.Axis(c.node().Int("axis", -1), x.rank);
  for (int i = 1; i < c.input_count(); ++i) CheckSpan(c, i);
  BoundedShape reduced = x;
  reduced.max_elements = kUnbounded;
  for (int i = axis; i < x.rank; ++i) reduced[i] = Bound::Exactly(1);
  const DType stash = DTypeFromOnnx(static_cast<int32_t>(c.node().Int("stash_type", 1)));
  for (int o = 1; o < c.output_count(); ++o)
    if (c.wants(o)) c.Set(o, stash, reduced);
}

// input, skip, gamma, ... -> output, mean?, inv_std_var?, input_skip_bias_sum?
void SkipNorm(ShapeContext& c) {
  const BoundedShape &x = c.shape(0), &skip = c.shape(1);
  CheckSameType(c, 0, 1);
  CheckRankAtLeast(c, 0, 1);
  if (x.known_rank() && skip.known_rank()) {
    if (skip.rank > x.rank)
      c.Fail("a skip of shape ", skip.ToString(), " for an input of shape ", x.ToString());
    for (int k = 1; k <= skip.rank; ++k)
      if (skip.at(-k).lower > 1) CheckEqual(c, skip.at(-k), x.at(-k), "skip and input dimensions");
    for (int i = 2; i < c.input_count(); ++i) {
      if (!c.has(i) || !c.shape(i).known_rank()) continue;
      CheckRank(c, i, 1);
      CheckEqual(c, c.shape(i)[0], x.at(-1), "gamma, beta or bias and the last dimension");
    }
  }
  SameAsInput(c);
  BoundedShape reduced = x;
  reduced.max_elements = kUnbounded;
  if (x.known_rank()) reduced[x.rank - 1] = Bound::Exactly(1);
  for (int o = 1; o < 3; ++o)
    if (c.wants(o)) c.Set(o, DType::kFloat, reduced);
  if (c.wants(3)) SameShape(c, 0, 3);
}

// input_ids, segment_ids?, word [V, D], position [P, D], segment? [.., D], gamma, beta, mask?, position_ids?
void EmbedLayerNorm(ShapeContext& c) {
  CheckRank(c, 0, 2);
  CheckRank(c, 2, 2);
  BoundedShape ids = c.shape(0), out = AnyDims(3);
  if (ids.known_rank()) {
    out[0] = ids[0];
    out[1] = ids[1];
  }
  if (c.shape(2).known_rank()) out[2] = c.shape(2)[1];
  c.Set(0, c.dtype(2), out);
  if (c.wants(1)) c.Set(1, DType::kInt32, BoundedShape::OfDims({out[0]}));
  if (c.wants(2)) c.Set(2, c.dtype(2), out);
}

void BatchNorm(ShapeContext& c) {
  CheckRankAtLeast(c, 0, 1);
  SameAsInput(c);
  const BoundedShape& x = c.shape(0);
  if (x.known_rank() && x.rank > 1)
    for (int i = 1; i < 5; ++i)
      if (c.shape(i).rank == 1) CheckEqual(c, c.shape(i)[0], x[1], "parameters and channels");
  for (int o = 1; o < c.output_count(); ++o)
    if (c.wants(o)) {
      // Running mean and variance; older versions add the saved ones.
      const int like = o == 1 || o == 3 ? 3 : 4;
      c.Set(o, c.dtype(like), c.shape(like));
    }
}

void ChannelNorm(ShapeContext& c) {
  CheckRankAtLeast(c, 0, 2);
  SameAsInput(c);
  const BoundedShape& x = c.shape(0);
  // Group normalisation had per-group parameters before version 21.
  if (c.node().op == "InstanceNormalization" && x.known_rank())
    for (int i = 1; i < 3; ++i)
      if (c.shape(i).rank == 1) CheckEqual(c, c.shape(i)[0], x[1], "parameters and channels");
}

// X [.., D], gate like X, weight [D]
void GatedRmsNorm(ShapeContext& c) {
  CheckRankAtLeast(c, 0, 1);
  SameAsInput(c);
}

}  // namespace

void RegisterNorms(Registry& ops) {
  const std::string_view ms = graph::kMsDomain;
  ops.push_back({.name = "LayerNormalization",
                 .since = 1,
                 .min_inputs = 2,
                 .max_inputs = 3,
                 .max_outputs = 3,
                 .rule = LayerNorm,
                 .in_place = Bits(0)});
  for (std::string_view domain : {std::string_view(), ms})
    ops.push_back({.domain = domain,
                   .name = "SimplifiedLayerNormalization",
                   .since = 1,
                   .min_inputs = 2,
                   .max_inputs = 2,
                   .max_outputs = 2,
                   .rule = LayerNorm,
                   .in_place = Bits(0)});
  ops.push_back({.name = "RMSNormalization",
                 .since = 23,
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .rule = LayerNorm,
                 .in_place = Bits(0)});
  ops.push_back({.domain = ms,
                 .name = "SkipSimplifiedLayerNormalization",
                 .min_inputs = 3,
                 .max_inputs = 4,
                 .max_outputs = 4,
                 .rule = SkipNorm,
                 .in_place = Bits(0)});
  ops.push_back({.domain = ms,
                 .name = "SkipLayerNormalization",
                 .min_inputs = 3,
                 .max_inputs = 5,
                 .max_outputs = 4,
                 .rule = SkipNorm,
                 .in_place = Bits(0)});
  ops.push_back({.domain = ms,
                 .name = "EmbedLayerNormalization",
                 .min_inputs = 1,
                 .max_inputs = 9,
                 .max_outputs = 3,
                 .rule = EmbedLayerNorm});
  ops.push_back({.name = "BatchNormalization",
                 .since = 1,
                 .min_inputs = 5,
                 .max_inputs = 5,
                 .max_outputs = 5,
                 .rule = BatchNorm,
                 .in_place = Bits(0)});
  ops.push_back(
      {.name = "InstanceNormalization", .since = 1, .min_inputs = 3, .max_inputs = 3, .rule = ChannelNorm});
  ops.push_back(
      {.name = "GroupNormalization", .since = 18, .min_inputs = 3, .max_inputs = 3, .rule = ChannelNorm});
  ops.push_back({.name = "LRN", .since = 1, .rule = SameAsInput});
  ops.push_back({.name = "MeanVarianceNormalization", .since = 9, .rule = SameAsInput});
  ops.push_back(
      {.domain = ms, .name = "GatedRMSNorm", .min_inputs = 2, .max_inputs = 3, .rule = GatedRmsNorm});
}

}  // namespace ullage::ops
