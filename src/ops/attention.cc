#include "ops/attention.h"

#include "ops/families.h"

namespace ullage::ops {
namespace {

int64_t Heads(const ShapeContext& c, std::string_view key) {
  const int64_t n = c.node().RequiredInt(key);
  if (n <= 0 || n > INT32_MAX) c.Fail("attribute ", key, " is ", n);
  return n;
}

// A hidden size over a number of heads; fails when it does not divide.
Bound PerHead(const ShapeContext& c, const Bound& hidden, int64_t heads) {
  if (hidden.exact() && hidden.lower % heads != 0)
    c.Fail("a hidden size of ", hidden.lower, " for ", heads, " heads");
  return c.math().DivExact(hidden, Bound::Exactly(heads));
}

// query, key?, value?, past_key?, past_value?, seqlens_k, total_sequence_length, ...
void GroupQueryAttention(ShapeContext& c) {
  const int64_t n = Heads(c, "num_heads"), kv = Heads(c, "kv_num_heads");
  if (n % kv != 0) c.Fail(n, " heads are no multiple of ", kv, " key/value heads");
  CheckRank(c, 0, 3);
  const BoundMath& math = c.math();
  const BoundedShape& q = c.shape(0);
  const Bound batch = q.known_rank() ? q[0] : Bound(), rows = q.known_rank() ? q[1] : Bound();
  Bound width;  // N * H
  const bool packed = !c.has(1);
  if (q.known_rank()) {
    width = q[2];
    if (packed) {
      const Bound head = PerHead(c, q[2], n + 2 * kv);
      width = math.Mul(head, Bound::Exactly(n));
    } else {
      CheckRank(c, 1, 3);
      if (!c.has(2)) c.Fail("a key without a value");
    }
  }
  const Bound head = PerHead(c, width, n);
  if (!packed && c.shape(1).known_rank())
    CheckEqual(c, c.shape(1)[2], math.Mul(head, Bound::Exactly(kv)), "key sizes");
  if (c.has(7) && c.shape(7).rank == 2 && head.exact() && c.shape(7)[1].exact() &&
      2 * c.shape(7)[1].lower > head.lower)
    c.Fail("a cos_cache of width ", c.shape(7)[1].lower, " for heads of ", head.lower);
  c.Set(0, c.dtype(0), BoundedShape::OfDims({batch, rows, width}));

  const bool window = c.node().Int("sliding_window_cache", 0) != 0;
  const Bound total = CheckedDim(
      c, ScalarValue(c, 6).lower < 0 ? Bound::Between(0, ScalarValue(c, 6).upper) : ScalarValue(c, 6));
  for (int o = 1; o < 3; ++o) {
    if (!c.wants(o)) continue;
    const int past = o + 2;
    if (!c.has(past)) {
      // Without a cache all keys are new.
      const Bound keys = packed || !c.shape(1).known_rank() ? rows : c.shape(1)[1];
      c.Set(o, c.dtype(0), BoundedShape::OfDims({batch, Bound::Exactly(kv), keys, head}));
      continue;
    }
    CheckRank(c, past, 4);
    BoundedShape present = c.shape(past);
    if (!present.known_rank()) present = BoundedShape::OfDims({batch, Bound::Exactly(kv), Bound(), Bound()});
    present.max_elements = kUnbounded;
    CheckEqual(c, present[1], Bound::Exactly(kv), "heads of the cache and kv_num_heads");
    if (!window) {
      // A shared buffer keeps its size, a fresh one has all tokens; never more than past and new together.
      const Bound most = math.Add(present[2], rows);
      if (total.lower > most.upper)
        c.Fail("total_sequence_length is ", total.lower, " with ", present[2].upper, " past and ", rows.upper,
               " new tokens");
      Bound length = math.ProvenEqual(total, most) ? most : math.Max(total, present[2]);
      if (length.upper > most.upper) length.upper = most.upper;
      if (length.exact()) length.expr = kNoExpr;
      present[2] = length;
    }
    c.Set(o, c.dtype(past), present);
  }
  if (c.wants(3)) c.Set(3, c.dtype(0), BoundedShape::OfDims({batch, Bound::Exactly(n), rows, total}));
}

// query, key?, value?, bias?, key_padding_mask?, attention_bias?, past_key?, past_value?,
// past_sequence_length?
void MultiHeadAttention(ShapeContext& c) {
  const int64_t n = Heads(c, "num_heads");
  const BoundMath& math = c.math();
  const BoundedShape &q = c.shape(0), &k = c.shape(1), &v = c.shape(2);
  const Bound heads = Bound::Exactly(n);
  Bound batch, rows, keys, head, width;
  if (q.known_rank()) {
    if (q.rank != 3 && q.rank != 5) c.Fail("a query of shape ", q.ToString());
    batch = q[0];
    rows = q[1];
    head = q.rank == 5 ? q[4] : PerHead(c, q[2], n);
    keys = rows;
    width = q.rank == 5 ? math.Mul(q[2], q[4]) : q[2];
  }
  Bound value_head = head;
  bool ready = false;  // key and value are a cache that is complete
  if (c.has(1) && k.known_rank()) {
    if (k.rank == 5) {
      keys = k[1];
    } else if (k.rank == 4) {
      keys = k[2];
      ready = true;
    } else if (k.rank == 3) {
      keys = k[1];
    } else {
      c.Fail("a key of shape ", k.ToString());
    }
  } else if (c.has(1)) {
    keys = Bound();
  }
  if (c.has(2)) {
    width = value_head = Bound();
    if (v.known_rank()) {
      if (v.rank != 3 && v.rank != 4) c.Fail("a value of shape ", v.ToString());
      value_head = v.rank == 4 ? v[3] : PerHead(c, v[2], n);
      width = v.rank == 4 ? math.Mul(v[1], v[3]) : v[2];
    }
  }
  c.Set(0, c.dtype(0), BoundedShape::OfDims({batch, rows, width}));
  const bool shared = c.has(8);
  for (int o = 1; o < 3; ++o) {
    if (!c.wants(o)) continue;
    const int past = o + 5;
    Bound length = keys, size = o == 1 ? head : value_head;
    if (c.has(past)) {
      CheckRank(c, past, 4);
      const BoundedShape& p = c.shape(past);
      length = !p.known_rank() ? Bound() : shared ? p[2] : ready ? keys : math.Add(p[2], keys);
      if (p.known_rank() && c.dtype(past) == DType::kInt8) size = p[3];  // codes and scales
    }
    c.Set(o, c.dtype(c.has(past) ? past : 0), BoundedShape::OfDims({batch, heads, length, size}));
  }
  if (c.wants(3)) {
    const Bound total = c.has(6) && c.shape(6).known_rank() && !ready ? math.Add(c.shape(6)[2], keys) : keys;
    c.Set(3, c.dtype(0), BoundedShape::OfDims({batch, heads, rows, total}));
  }
}

// input [B, S, D], weights [D, Dq + Dk + Dv], bias?, mask_index?, past? [2, B, N, P, H], ...
void FusedQkvAttention(ShapeContext& c, int weights, int past) {
  const int64_t n = Heads(c, "num_heads");
  CheckRank(c, 0, 3);
  const BoundMath& math = c.math();
  const BoundedShape &x = c.shape(0), &w = c.shape(weights);
  Bound batch, rows, width, value_width, all;
  if (x.known_rank()) {
    batch = x[0];
    rows = x[1];
  }
  CheckRank(c, weights, 2);
  if (w.known_rank()) {
    if (x.known_rank()) CheckEqual(c, x[2], w[0], "the input's last dimension and the weight's first");
    all = w[1];
    width = value_width = math.DivExact(all, Bound::Exactly(3));
  }
  const auto sizes = c.node().IntsView("qkv_hidden_sizes");
  if (!sizes.empty()) {
    if (sizes.size() != 3) c.Fail("qkv_hidden_sizes has ", sizes.size(), " elements");
    width = CheckedDim(c, Bound::Exactly(sizes[0]));
    value_width = CheckedDim(c, Bound::Exactly(sizes[2]));
  }
  c.Set(0, x.known_rank() || c.dtype(0) != DType::kUndefined ? c.dtype(0) : DType::kFloat,
        BoundedShape::OfDims({batch, rows, value_width}));
  if (!c.wants(1)) return;
  Bound length = rows;
  if (c.has(past)) {
    CheckRank(c, past, 5);
    const BoundedShape& p = c.shape(past);
    const bool shared = c.node().Int("past_present_share_buffer", 0) != 0;
    length = !p.known_rank() ? Bound() : shared ? p[3] : math.Add(p[3], rows);
  }
  c.Set(1, c.dtype(0),
        BoundedShape::OfDims({Bound::Exactly(2), batch, Bound::Exactly(n), length, PerHead(c, width, n)}));
}

void MsAttention(ShapeContext& c) {
  FusedQkvAttention(c, 1, 4);
}

// input, weight, bias, input_scale, weight_scale, mask_index?, input_zp?, weight_zp?, past?: float results.
void QAttention(ShapeContext& c) {
  const int64_t n = Heads(c, "num_heads");
  CheckRank(c, 0, 3);
  CheckRank(c, 1, 2);
  Bound batch, rows, width;
  if (c.shape(0).known_rank()) {
    batch = c.shape(0)[0];
    rows = c.shape(0)[1];
  }
  if (c.shape(1).known_rank()) width = c.math().DivExact(c.shape(1)[1], Bound::Exactly(3));
  const DType type = c.dtype(3);
  c.Set(0, type, BoundedShape::OfDims({batch, rows, width}));
  if (!c.wants(1)) return;
  Bound length = rows;
  if (c.has(8)) length = c.shape(8).rank == 5 ? c.math().Add(c.shape(8)[3], rows) : Bound();
  c.Set(1, type,
        BoundedShape::OfDims({Bound::Exactly(2), batch, Bound::Exactly(n), length, PerHead(c, width, n)}));
}

// query [tokens, N*H] or packed, key?, value?, key_cache [blocks, block, Nkv, H], value_cache, ...
void PagedAttention(ShapeContext& c) {
  const int64_t n = Heads(c, "num_heads"), kv = Heads(c, "kv_num_heads");
  CheckRank(c, 0, 2);
  BoundedShape out = c.shape(0);
  if (!out.known_rank()) out = AnyDims(2);
  out.max_elements = kUnbounded;
  if (!c.has(1)) out[1] = c.math().Mul(PerHead(c, out[1], n + 2 * kv), Bound::Exactly(n));
  c.Set(0, c.dtype(0), out);
  for (int o = 1; o < 3; ++o)
    if (c.wants(o)) c.Set(o, c.dtype(o + 2), c.shape(o + 2));
}

void Rotary(ShapeContext& c) {
  const BoundedShape& x = c.shape(0);
  if (x.known_rank() && x.rank != 3 && x.rank != 4) c.Fail("an input of shape ", x.ToString());
  SameAsInput(c);
}

void OnnxAttention(ShapeContext& c) {
  StandardAttention(c, {.mask = 3, .past_key = 4, .past_value = 5, .nonpad = 6});
}

}  // namespace

void StandardAttention(ShapeContext& c, const AttentionInputs& in) {
  const BoundMath& math = c.math();
  const BoundedShape &q = c.shape(0), &k = c.shape(1), &v = c.shape(2);
  if (!q.known_rank() || !k.known_rank() || !v.known_rank()) {
    for (int o = 0; o < c.output_count(); ++o)
      if (c.wants(o)) c.Set(o, c.dtype(0), o == 0 ? BoundedShape::Unknown() : AnyDims(4));
    return;
  }
  if ((q.rank != 3 && q.rank != 4) || k.rank != q.rank || v.rank != q.rank)
    c.Fail("Q, K and V of shapes ", q.ToString(), ", ", k.ToString(), ", ", v.ToString());
  const bool flat = q.rank == 3;
  const int64_t nq = flat ? Heads(c, "q_num_heads") : 0, nkv = flat ? Heads(c, "kv_num_heads") : 0;
  const Bound q_heads = flat ? Bound::Exactly(nq) : q[1], kv_heads = flat ? Bound::Exactly(nkv) : k[1];
  const Bound rows = q[flat ? 1 : 2],
              keys = Equated(c, k[flat ? 1 : 2], v[flat ? 1 : 2], "lengths of K and V");
  const Bound head = flat ? PerHead(c, k[2], nkv) : k[3];
  const Bound value_head = flat ? PerHead(c, v[2], nkv) : v[3];
  CheckEqual(c, flat ? PerHead(c, q[2], nq) : q[3], head, "head sizes of Q and K");
  const Bound batch = Equated(c, q[0], k[0], "batch sizes");
  if (q_heads.exact() && kv_heads.exact() && (kv_heads.lower == 0 || q_heads.lower % kv_heads.lower != 0))
    c.Fail(q_heads.lower, " heads for ", kv_heads.lower, " key/value heads");
  BoundedShape y = BoundedShape::OfDims({batch, rows, math.Mul(q_heads, value_head)});
  if (!flat) y = BoundedShape::OfDims({batch, q_heads, rows, value_head});
  c.Set(0, c.dtype(0), y);
  Bound total = keys;
  for (int o = 1; o < 3; ++o) {
    const int past = o == 1 ? in.past_key : in.past_value;
    Bound length = keys, size = o == 1 ? head : value_head;
    const bool has_past = past >= 0 && c.has(past);
    if (has_past) {
      CheckRank(c, past, 4);
      // Caches may be of another type than keys; rows of integers hold codes and scales.
      if (c.shape(past).known_rank() && c.dtype(past) == DType::kInt8) size = c.shape(past)[3];
      length = c.shape(past).known_rank() ? math.Add(c.shape(past)[2], keys)
                                          : Bound::Between(keys.lower, kUnbounded);
      if (o == 1) total = length;
    }
    if (c.wants(o))
      c.Set(o, c.dtype(has_past ? past : o), BoundedShape::OfDims({batch, kv_heads, length, size}));
  }
  if (c.wants(3)) c.Set(3, c.dtype(0), BoundedShape::OfDims({batch, q_heads, rows, total}));
}

void RegisterAttention(Registry& ops) {
  const std::string_view ms = graph::kMsDomain;
  ops.push_back({.domain = ms,
                 .name = "GroupQueryAttention",
                 .min_inputs = 1,
                 .max_inputs = 16,
                 .max_outputs = 4,
                 .rule = GroupQueryAttention,
                 .reads_values = Bits(6)});
  ops.push_back({.domain = ms,
                 .name = "MultiHeadAttention",
                 .min_inputs = 1,
                 .max_inputs = 10,
                 .max_outputs = 4,
                 .rule = MultiHeadAttention});
  ops.push_back({.domain = ms,
                 .name = "Attention",
                 .min_inputs = 2,
                 .max_inputs = 7,
                 .max_outputs = 2,
                 .rule = MsAttention});
  ops.push_back({.domain = ms,
                 .name = "QAttention",
                 .min_inputs = 5,
                 .max_inputs = 9,
                 .max_outputs = 2,
                 .rule = QAttention});
  ops.push_back({.domain = ms,
                 .name = "PagedAttention",
                 .min_inputs = 1,
                 .max_inputs = 17,
                 .max_outputs = 3,
                 .rule = PagedAttention});
  ops.push_back({.domain = ms,
                 .name = "RotaryEmbedding",
                 .min_inputs = 4,
                 .max_inputs = 4,
                 .rule = Rotary,
                 .in_place = Bits(0)});
  ops.push_back({.domain = ms,
                 .name = "MRotaryEmbedding",
                 .min_inputs = 4,
                 .max_inputs = 4,
                 .rule = Rotary,
                 .in_place = Bits(0)});
  ops.push_back({.name = "RotaryEmbedding",
                 .since = 23,
                 .min_inputs = 3,
                 .max_inputs = 4,
                 .rule = Rotary,
                 .in_place = Bits(0)});
  ops.push_back({.name = "Attention",
                 .since = 23,
                 .min_inputs = 3,
                 .max_inputs = 7,
                 .max_outputs = 4,
                 .rule = OnnxAttention});
}

}  // namespace ullage::ops
