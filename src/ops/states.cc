#include "ops/families.h"

namespace ullage::ops {
namespace {

// input [B, C, S], weight [C, 1, k], bias?, past_state? [B, C, k-1] -> output, present_state
void CausalConv(ShapeContext& c) {
  CheckRank(c, 0, 3);
  CheckRank(c, 1, 3);
  SameAsInput(c);
  if (!c.wants(1)) return;
  if (c.has(3)) {
    c.Set(1, c.dtype(3), c.shape(3));
    return;
  }
  BoundedShape state = AnyDims(3);
  if (c.shape(0).known_rank()) {
    state[0] = c.shape(0)[0];
    state[1] = c.shape(0)[1];
  }
  if (c.shape(1).known_rank())
    state[2] = CheckedDim(c, c.math().Mul(c.math().Sub(c.shape(1)[2], Bound::Exactly(1)),
                                          Bound::Exactly(std::max<int64_t>(c.node().Int("dilation", 1), 1))));
  const int64_t window = c.node().Int("state_window", 0);
  if (window > 0) state = BoundedShape::OfDims({Bound::Exactly(window), state[0], state[1], state[2]});
  c.Set(1, c.dtype(0), state);
}

// q, k, v [B, S, heads*d], past_state? [B, Nkv, dk, dv], decay?, beta? -> out, present_state
void LinearAttention(ShapeContext& c) {
  const int64_t nq = c.node().RequiredInt("q_num_heads"), nkv = c.node().RequiredInt("kv_num_heads");
  if (nq <= 0 || nkv <= 0) c.Fail("q_num_heads is ", nq, ", kv_num_heads is ", nkv);
  for (int i = 0; i < 3; ++i) CheckRank(c, i, 3);
  const BoundMath& math = c.math();
  const BoundedShape &q = c.shape(0), &v = c.shape(2);
  Bound batch, rows, dk, dv;
  if (q.known_rank()) {
    batch = q[0];
    rows = q[1];
    dk = math.DivExact(q[2], Bound::Exactly(nq));
  }
  if (v.known_rank()) dv = math.DivExact(v[2], Bound::Exactly(nkv));
  c.Set(0, c.dtype(0), BoundedShape::OfDims({batch, rows, math.Mul(dv, Bound::Exactly(std::max(nq, nkv)))}));
  if (!c.wants(1)) return;
  if (c.has(3)) {
    c.Set(1, c.dtype(3), c.shape(3));
    return;
  }
  BoundedShape state = BoundedShape::OfDims({batch, Bound::Exactly(nkv), dk, dv});
  const int64_t window = c.node().Int("state_window", 0);
  if (window > 0) state = BoundedShape::OfDims({Bound::Exactly(window), batch, Bound::Exactly(nkv), dk, dv});
  c.Set(1, c.dtype(0), state);
}

// a [B, S, N], dt_bias [N], neg_exp_A [N], b [B, S, N] -> decay, beta like a
void LinearAttentionGate(ShapeContext& c) {
  SameAsInput(c);
  if (c.wants(1)) SameShape(c, c.has(3) ? 3 : 0, 1);
}

}  // namespace

void RegisterStates(Registry& ops) {
  for (std::string_view domain : {std::string_view(), graph::kMsDomain}) {
    const int since = domain.empty() ? 27 : 1;
    ops.push_back({.domain = domain,
                   .name = "CausalConvWithState",
                   .since = since,
                   .min_inputs = 2,
                   .max_inputs = 4,
                   .max_outputs = 2,
                   .rule = CausalConv});
    ops.push_back({.domain = domain,
                   .name = "LinearAttention",
                   .since = since,
                   .min_inputs = 3,
                   .max_inputs = 6,
                   .max_outputs = 2,
                   .rule = LinearAttention});
  }
  ops.push_back({.domain = graph::kMsDomain,
                 .name = "LinearAttentionGate",
                 .min_inputs = 1,
                 .max_inputs = 4,
                 .max_outputs = 2,
                 .rule = LinearAttentionGate});
}

}  // namespace ullage::ops
