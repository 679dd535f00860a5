// Operators that only our own passes and importers make (domain "ullage").
#include "ops/attention.h"
#include "ops/families.h"
#include "ops/products.h"

namespace ullage::ops {
namespace {

int64_t Size(const ShapeContext& c, std::string_view key) {
  const int64_t n = c.node().RequiredInt(key);
  if (n <= 0) c.Fail("attribute ", key, " is ", n);
  return n;
}

/// Linear: A [.., K], W, scales?, zero_points?, g_idx?, bias? -> [.., N] of A's type. Attributes K, N,
/// format.
void Linear(ShapeContext& c) {
  c.Set(0, c.dtype(0), LinearShape(c, c.shape(0), Size(c, "K"), Bound::Exactly(Size(c, "N"))));
}

/// MultiLinear: A [.., K], then weight, scales?, zero_points?, g_idx?, bias? per part -> [.., N_p] per part.
void MultiLinear(ShapeContext& c) {
  const int64_t k = Size(c, "K");
  const auto n = c.node().IntsView("N");
  const int parts = static_cast<int>(n.size());
  if (c.output_count() > parts || c.input_count() > 1 + 5 * parts)
    c.Fail(c.input_count(), " inputs and ", c.output_count(), " outputs for ", parts, " parts");
  for (int p = 0; p < c.output_count(); ++p) {
    if (n[static_cast<size_t>(p)] <= 0) c.Fail("attribute N has ", n[static_cast<size_t>(p)]);
    if (c.wants(p))
      c.Set(p, c.dtype(0), LinearShape(c, c.shape(0), k, Bound::Exactly(n[static_cast<size_t>(p)])));
  }
}

/// ApplyRotary: X [B, N, S, H], cos, sin [B or 1, S, R], R <= H even -> shape of X. The first R elements of
/// each head become x * cos + concat(-x[R/2:R], x[:R/2]) * sin.
void ApplyRotary(ShapeContext& c) {
  CheckRank(c, 0, 4);
  const BoundedShape& x = c.shape(0);
  for (int i = 1; i < 3; ++i) {
    CheckRank(c, i, 3);
    CheckSameType(c, 0, i);
    const BoundedShape& table = c.shape(i);
    if (!table.known_rank() || !x.known_rank()) continue;
    if (table[2].exact() && table[2].lower % 2 != 0) c.Fail("a table of width ", table[2].lower);
    if (table[2].lower > x[3].upper) c.Fail("a table of shape ", table.ToString(), " for ", x.ToString());
    CheckEqual(c, table[1], x[2], "positions of the table and of the input");
    if (table[0].lower > 1) CheckEqual(c, table[0], x[0], "batch sizes");
  }
  SameAsInput(c);
}

/// BlockGather: data [V, D] of blocks, indices -> float [indices.., D].
void BlockGather(ShapeContext& c) {
  CheckRank(c, 0, 2);
  BoundedShape out = c.shape(1);
  out.max_elements = kUnbounded;
  if (out.known_rank()) out.push_back(c.shape(0).known_rank() ? c.shape(0)[1] : Bound());
  c.Set(0, DType::kFloat, out);
}

/// SwiGLU: gate, up -> their shape; or one packed input [.., 2 I] -> [.., I].
void SwiGlu(ShapeContext& c) {
  BoundedShape out = c.shape(0);
  if (c.has(1)) {
    CheckSameType(c, 0, 1);
    if (out.known_rank() && c.shape(1).known_rank()) {
      CheckRank(c, 1, out.rank);
      for (int i = 0; i < out.rank; ++i) out[i] = Equated(c, out[i], c.shape(1)[i], "gate and up dimensions");
    }
  } else if (out.known_rank()) {
    CheckRankAtLeast(c, 0, 1);
    Bound& last = out[out.rank - 1];
    if (last.exact() && last.lower % 2 != 0) c.Fail("a packed input of width ", last.lower);
    last = c.math().DivExact(last, Bound::Exactly(2));
    out.max_elements = kUnbounded;
  }
  c.Set(0, c.dtype(0), out);
}

/// CachedAttention: q, k, v, past_k, past_v, mask?, ... -> y, present_k, present_v. Shapes as ai.onnx
/// Attention with a past.
void CachedAttention(ShapeContext& c) {
  StandardAttention(c, {.mask = 5, .past_key = 3, .past_value = 4});
}

/// Select: condition (bool scalar), then, else -> one of the two.
void Select(ShapeContext& c) {
  CheckSameType(c, 1, 2);
  const BoundedShape &a = c.shape(1), &b = c.shape(2);
  const Bound condition = ScalarValue(c, 0);
  BoundedShape out;
  if (condition.lower > 0) {
    out = a;
  } else if (condition.exact() && condition.lower == 0) {
    out = b;
  } else {
    out = UnionOf(c.math(), a, b);
  }
  c.Set(0, c.dtype(1), out);
}

/// LastToken: X [B, S, D], S >= 1 -> [B, 1, D].
void LastToken(ShapeContext& c) {
  CheckRank(c, 0, 3);
  BoundedShape out = c.shape(0);
  if (!out.known_rank()) out = AnyDims(3);
  if (out[1].upper < 1) c.Fail("there is no token");
  out[1] = Bound::Exactly(1);
  out.max_elements = kUnbounded;
  c.Set(0, c.dtype(0), out);
}

}  // namespace

void RegisterUllage(Registry& ops) {
  const std::string_view own = graph::kUllageDomain;
  ops.push_back({.domain = own, .name = "Linear", .min_inputs = 2, .max_inputs = 6, .rule = Linear});
  ops.push_back({.domain = own,
                 .name = "MultiLinear",
                 .min_inputs = 2,
                 .max_inputs = -1,
                 .max_outputs = -1,
                 .rule = MultiLinear});
  ops.push_back({.domain = own,
                 .name = "ApplyRotary",
                 .min_inputs = 3,
                 .max_inputs = 3,
                 .rule = ApplyRotary,
                 .in_place = Bits(0)});
  ops.push_back(
      {.domain = own, .name = "BlockGather", .min_inputs = 2, .max_inputs = 2, .rule = BlockGather});
  ops.push_back({.domain = own, .name = "SwiGLU", .max_inputs = 2, .rule = SwiGlu, .in_place = Bits(0, 1)});
  ops.push_back({.domain = own,
                 .name = "CachedAttention",
                 .min_inputs = 5,
                 .max_inputs = -1,
                 .max_outputs = 3,
                 .rule = CachedAttention});
  ops.push_back({.domain = own,
                 .name = "Select",
                 .min_inputs = 3,
                 .max_inputs = 3,
                 .rule = Select,
                 .reads_values = Bits(0)});
  ops.push_back({.domain = own, .name = "LastToken", .rule = LastToken});
}

}  // namespace ullage::ops
