// com.microsoft:MultiHeadAttention, ai.onnx:Attention, ullage:CachedAttention.
#include <algorithm>
#include <cmath>

#include "ops/attention_base.h"
#include "ops/attention_ops.h"
#include "spread.h"

namespace ullage_opencl {
namespace {

/// Where things lie: inputs of queries, keys, values, bias of the three, mask, past; SIZE_MAX: the operator
/// has none.
struct Form {
  size_t bias = SIZE_MAX, mask = SIZE_MAX, past_key = SIZE_MAX, past_value = SIZE_MAX, nonpad = SIZE_MAX;
};

struct Sizes {
  int64_t batch = 0, seq = 0, q_heads = 0, kv_heads = 0, keys = 0, head = 0, value = 0;
};

/// Queries stand behind the past; without one at key 0 (ai.onnx), at the end (com.microsoft), or where
/// nonpad_kv_seqlen ends. com.microsoft may pack them: queries, keys and values as [B, S, N, 3, H], or keys
/// and values as [B, Kv, N, 2, H].
class Attention final : public AttentionOp {
 public:
  explicit Attention(const ullage_kernel_info& info) : AttentionOp(info) {
    const Facts facts = node_.facts();
    multi_ = node_.op() == "MultiHeadAttention";
    cached_ = node_.op() == "CachedAttention";
    if (multi_)
      form_ = {3, 5, 6, 7, SIZE_MAX};
    else if (cached_)
      form_ = {SIZE_MAX, 5, 3, 4, SIZE_MAX};
    else
      form_ = {SIZE_MAX, 3, 4, 5, 6};
    q_heads_ = node_.Int(multi_ ? "num_heads" : "q_num_heads", 0);
    kv_heads_ = multi_ ? q_heads_ : node_.Int("kv_num_heads", 0);
    if (facts.out(3).present) node_.Unsupported("the output of scores");
    if (multi_ && facts.in(9).present) node_.Unsupported("beams");
    const ValueFacts &q = facts.in(0), &k = facts.in(1), &v = facts.in(2);
    all_packed_ = multi_ && q.rank() == 5 && !k.present;
    pair_packed_ = multi_ && q.rank() == 3 && k.rank() == 5;
    if (!all_packed_ && !pair_packed_) {
      if (q.rank() != 3 && q.rank() != 4) node_.Unsupported("queries of rank " + std::to_string(q.rank()));
      if (k.rank() != q.rank() && !(multi_ && k.rank() == 4)) node_.Unsupported("keys of another rank");
      if (v.rank() != k.rank()) node_.Unsupported("values of another rank");
    } else if (v.present) {
      node_.Invalid("values beside packed ones");
    }
    if (q.rank() != 4 && (q_heads_ < 1 || kv_heads_ < 1)) node_.Invalid("no number of heads");
    const int64_t head = q.rank() == 3 ? q.Fixed(2) / q_heads_ : q.Fixed(q.rank() == 4 ? 3 : 4);
    const int64_t value = all_packed_ || pair_packed_ ? head
                          : v.rank() == 4             ? v.Fixed(3)
                                                      : v.Fixed(2) / kv_heads_;
    has_past_ = facts.in(form_.past_key).present;
    if (has_past_ != facts.in(form_.past_value).present)
      node_.Invalid("one of past_key and past_value is left out");
    presents_ = facts.out(1).present || facts.out(2).present;
    if (facts.out(1).present != facts.out(2).present) node_.Unsupported("one cache without the other");
    biased_ = facts.in(form_.bias).present;
    type_ = q.dtype;
    if ((k.present && k.dtype != type_) || (v.present && v.dtype != type_))
      node_.Unsupported("operands of different types");
    if (biased_ && facts.in(form_.bias).dtype != type_) node_.Unsupported("operands of different types");
    cache_type_ = has_past_              ? facts.in(form_.past_key).dtype
                  : facts.out(1).present ? facts.out(1).dtype
                                         : type_;
    if (const int64_t block = node_.Int("kv_block", 0); block > 0 && (has_past_ || presents_))
      codec_ = {1, block};
    if (!((codec_.kind == 0 ? kFloats : Bit(kInt8)) & Bit(cache_type_)))
      node_.Unsupported("caches of type " + std::to_string(cache_type_));
    if (has_past_ && facts.in(form_.past_value).dtype != cache_type_)
      node_.Unsupported("caches of different types");
    copies_ = has_past_ || presents_ || biased_;
    if (multi_ && k.rank() == 4 && (has_past_ || presents_))
      node_.Unsupported("a finished cache beside a past");
    if (multi_ && k.rank() == 4) copies_ = false;
    softcap_ = node_.Float("softcap", 0);
    const float scale = node_.Float("scale", 0);
    const bool given = multi_ ? scale != 0 : node_.HasFloat("scale");
    scale_ = given ? scale : 1.0f / std::sqrt(static_cast<float>(std::max<int64_t>(head, 1)));
    left_ = node_.Int("left_window_size", -1);
    right_ =
        node_.Int(multi_ ? "unidirectional" : "is_causal", 0) != 0 ? 0 : node_.Int("right_window_size", -1);
    filter_ = node_.Float("mask_filter_value", -10000);
    const auto append = [&](int64_t size) {
      return &Use(
          "rotary.cl",
          HeadsOptions(type_, cache_type_, type_, type_, kInt64, kInt64, 0, false, false, codec_, size),
          "heads");
    };
    if (copies_) {
      append_keys_ = append(head);
      append_values_ = codec_.kind == 0 || value == head ? append_keys_ : append(value);
    }
    if (biased_)
      queries_ =
          &Use("rotary.cl", HeadsOptions(type_, kFloat, type_, type_, kInt64, kInt64, 0, false), "heads");
    Types types;
    types.q = biased_ ? static_cast<int32_t>(kFloat) : type_;
    types.k = copies_ ? cache_type_ : type_;
    types.y = type_;
    types.k_codec = types.v_codec = codec_;
    if (multi_ && facts.in(kPadding).present) types.padding = facts.in(kPadding).dtype;
    types.mask = facts.in(form_.mask).present ? facts.in(form_.mask).dtype : static_cast<int32_t>(kFloat);
    const Sizes z = MostOf(facts);
    const int64_t group = z.kv_heads > 0 ? z.q_heads / z.kv_heads : 1;
    UseAttention(types, head, value, BoundsOf(q, q.rank() == 4 ? 2 : 1, group, MostKeys(facts, z)));
  }

  void Declare(const Facts& shapes, std::vector<Slot>& slots) const override {
    const Sizes z = MostOf(shapes);
    const int64_t total = MostKeys(shapes, z);
    const int64_t group = z.kv_heads > 0 ? z.q_heads / z.kv_heads : 1;
    slots.push_back({kParts, total < 0 ? -1 : PartBytes(z.batch, z.q_heads, group, z.seq, total, z.value)});
    if (biased_) slots.push_back({kQueries, Product({z.batch, z.seq, z.q_heads, z.head, 4})});
    if (copies_ && !presents_) {
      slots.push_back({kKeys, RowBytes(z, total, z.head)});
      slots.push_back({kValues, RowBytes(z, total, z.value)});
    }
  }

  void Compute(const Context& c) const override {
    const Tensor &q = *c.in(0), &y = *c.out(0);
    const Tensor& k = all_packed_ ? q : *c.in(1);
    const Tensor& v = all_packed_ ? q : pair_packed_ ? k : *c.in(2);
    const Sizes z = SizesOf([&](size_t i) { return c.in(i) ? c.in(i)->rank : -1; },
                            [&](size_t i, size_t axis) { return c.in(i)->dims[axis]; });
    const auto expect = [&](const Tensor& t, int64_t heads, int64_t rows, int64_t size) {
      const bool fits = t.rank == 3   ? t[0] == z.batch && t[1] == rows && t[2] == heads * size
                        : t.rank == 4 ? t[0] == z.batch && t[1] == heads && t[2] == rows && t[3] == size
                                      : t[0] == z.batch && t[1] == rows && t[2] == heads &&
                                            t[3] == (all_packed_ ? 3 : 2) && t[4] == size;
      if (!fits) node_.Invalid("an operand of shape " + t.ToString());
    };
    expect(q, z.q_heads, z.seq, z.head);
    expect(k, z.kv_heads, z.keys, z.head);
    expect(v, z.kv_heads, z.keys, z.value);
    if (z.q_heads % z.kv_heads != 0) node_.Invalid("heads that do not divide");
    const Tensor* past = has_past_ ? c.in(form_.past_key) : nullptr;
    int64_t before = past ? (*past)[2] : 0;
    if (const Tensor* length = multi_ ? c.in(kPastLength) : nullptr) {
      const auto given = length->HostInts();
      if (given.empty() || given[0] < 0 || given[0] > before) node_.Invalid("past_sequence_length");
      before = given[0];
    }
    const int64_t total = before + z.keys;
    const auto layout = [](const Tensor& t, int64_t heads, int64_t rows, int64_t size) {
      const int64_t parts = t.rank == 5 ? t[3] : 1;
      return t.rank == 4 ? HeadsFirst(heads, rows, size)
                         : HeadLayout{rows * heads * parts * size, heads * parts * size, parts * size};
    };
    const Tensor* bias = c.in(form_.bias);
    const KeyRows new_keys = {Within(k, all_packed_ ? z.head : 0), layout(k, z.kv_heads, z.keys, z.head)};
    const KeyRows new_values = {Within(v, all_packed_    ? 2 * z.head
                                          : pair_packed_ ? z.head
                                                         : 0),
                                layout(v, z.kv_heads, z.keys, z.value)};
    const KeyRows keys =
        Rows(c, new_keys, past, c.out(1), kKeys, z, z.head, before, bias, z.q_heads * z.head);
    const KeyRows values = Rows(c, new_values, has_past_ ? c.in(form_.past_value) : nullptr, c.out(2),
                                kValues, z, z.value, before, bias, 2 * z.q_heads * z.head);
    KeyRows queries = {q, layout(q, z.q_heads, z.seq, z.head)};
    if (biased_) {
      HeadsArgs a = Args(queries.layout, Packed(z.seq, z.q_heads * z.head, z.head), z.q_heads, z.seq, z.head);
      a.biased = 1;
      HeadsTensors t;
      t.bias = bias;
      const Tensor target =
          InRegion(c.Workspace(kQueries, Product({z.batch, z.seq, z.q_heads, z.head, 4})), kFloat);
      RunHeads(c, *queries_, q, target, t, a, z.batch);
      queries = {target, Packed(z.seq, z.q_heads * z.head, z.head)};
    }
    AttentionArgs args;
    args.seq = Int32(z.seq, "rows");
    args.q_heads = Int32(z.q_heads, "heads");
    args.group = Int32(z.q_heads / z.kv_heads, "heads");
    args.size = Int32(z.head, "elements of a head");
    args.values = Int32(z.value, "elements of a head");
    args.keys = Int32(total, "keys");
    args.past = multi_ ? total - z.seq : before;
    args.left = left_ < 0 ? -1 : Int32(left_, "keys of a window");
    args.right = right_ < 0 ? -1 : Int32(right_, "keys of a window");
    args.scale = scale_;
    args.softcap = softcap_;
    const Tensor* nonpad = c.in(form_.nonpad);
    if (nonpad) {
      if (nonpad->elements() < z.batch) node_.Invalid("nonpad_kv_seqlen of shape " + nonpad->ToString());
      args.lengths = 2;
    }
    const Tensor* mask = c.in(form_.mask);
    SetMask(mask, total, !multi_ && !cached_, &args);
    const Tensor* padding = multi_ ? c.in(kPadding) : nullptr;
    SetPadding(padding, z.batch, before, filter_, &args);
    Operands operands;
    operands.mask = mask;
    operands.lengths = nonpad;
    operands.padding = padding;
    Attend(c, queries, keys, values, {y, layout(y, z.q_heads, z.seq, z.value)}, operands, args, z.batch);
  }

 private:
  enum Input : size_t { kPadding = 4, kPastLength = 8 };

  template <class Rank, class Dim>
  Sizes SizesOf(const Rank& rank, const Dim& dim) const {
    const auto over = [](int64_t n, int64_t by) { return n < 0 ? n : n / by; };
    Sizes z;
    z.batch = dim(0, 0);
    if (all_packed_) {
      z.q_heads = z.kv_heads = q_heads_;
      z.seq = z.keys = dim(0, 1);
      z.head = z.value = dim(0, 4);
      return z;
    }
    if (rank(0) == 4) {
      z.q_heads = dim(0, 1);
      z.seq = dim(0, 2);
      z.head = dim(0, 3);
    } else {
      z.q_heads = q_heads_;
      z.seq = dim(0, 1);
      z.head = over(dim(0, 2), q_heads_);
    }
    if (pair_packed_) {
      z.kv_heads = kv_heads_;
      z.keys = dim(1, 1);
      z.value = dim(1, 4);
    } else if (rank(1) == 4) {
      z.kv_heads = dim(1, 1);
      z.keys = dim(1, 2);
      z.value = dim(2, 3);
    } else {
      z.kv_heads = kv_heads_;
      z.keys = dim(1, 1);
      z.value = over(dim(2, 2), kv_heads_);
    }
    return z;
  }

  Sizes MostOf(const Facts& shapes) const {
    return SizesOf([&](size_t i) { return shapes.in(i).rank(); },
                   [&](size_t i, size_t axis) { return Upper(shapes.in(i), axis); });
  }
  int64_t MostKeys(const Facts& shapes, const Sizes& z) const {
    if (!has_past_) return z.keys;
    const int64_t past = Upper(shapes.in(form_.past_key), 2);
    return past < 0 || z.keys < 0 ? -1 : past + z.keys;
  }

  static HeadsArgs Args(const HeadLayout& from, const HeadLayout& to, int64_t heads, int64_t rows,
                        int64_t size) {
    HeadsArgs a;
    a.size = Int32(size, "elements of a head");
    a.heads = Int32(heads, "heads");
    a.seq = Int32(rows, "rows");
    a.x_batch = from.batch;
    a.x_row = from.row;
    a.x_head = from.head;
    a.y_batch = to.batch;
    a.y_row = to.row;
    a.y_head = to.head;
    return a;
  }

  /// Past and new rows together; new ones where they are when nothing is added to them.
  KeyRows Rows(const Context& c, const KeyRows& fresh, const Tensor* past, const Tensor* present,
               uint32_t slot, const Sizes& z, int64_t size, int64_t before, const Tensor* bias,
               int64_t bias_at) const {
    if (!copies_) return fresh;
    const int64_t total = before + z.keys;
    KeyRows to;
    if (present) {
      if (present->rank != 4 || present->rows() < total || (*present)[3] != codec_.Width(size) ||
          (*present)[1] != z.kv_heads)
        node_.Invalid("a cache of shape " + present->ToString());
      to = Cache(*present);
    } else {
      to = {InRegion(c.Workspace(slot, RowBytes(z, total, size)), cache_type_),
            HeadsFirst(z.kv_heads, total, codec_.Width(size))};
    }
    if (past && (past->rank != 4 || (*past)[3] != codec_.Width(size) || (*past)[1] != z.kv_heads))
      node_.Invalid("a past of shape " + past->ToString());
    if (past && !(past->buffer == to.data.buffer && past->offset == to.data.offset))
      CopyRows(c, Cache(*past), 0, to, 0, z.batch, z.kv_heads, before, (*past)[3]);
    HeadsArgs a = Args(fresh.layout, to.layout, z.kv_heads, z.keys, size);
    a.row0 = before;
    HeadsTensors t;
    Tensor part;
    if (bias) {
      part = Within(*bias, bias_at);
      t.bias = &part;
      a.biased = 1;
    }
    RunHeads(c, slot == kKeys ? *append_keys_ : *append_values_, fresh.data, to.data, t, a, z.batch);
    return to;
  }

  int64_t RowBytes(const Sizes& z, int64_t rows, int64_t size) const {
    return Product({z.batch, z.kv_heads, rows, codec_.Width(size), SizeOf(cache_type_)});
  }

  bool multi_ = false, cached_ = false, has_past_ = false, presents_ = false, biased_ = false,
       copies_ = false, all_packed_ = false, pair_packed_ = false;
  Form form_;
  RowCodec codec_;
  int64_t q_heads_ = 0, kv_heads_ = 0, left_ = -1, right_ = -1;
  int32_t type_ = kFloat, cache_type_ = kFloat;
  float scale_ = 1, softcap_ = 0, filter_ = -10000;
  KernelRef *append_keys_ = nullptr, *append_values_ = nullptr, *queries_ = nullptr;
};

}  // namespace

void AddMultiHeadAttention(std::vector<OpEntry>& ops) {
  constexpr uint64_t kMask = kFloats | Bit(kBool), kCaches = kFloats | Bit(kInt8);
  OpEntry e;
  e.make = Make<Attention>;
  e.domain = kMicrosoft;
  e.op = "MultiHeadAttention";
  e.types = {kFloats, kFloats, kFloats, kFloats, kIndices, kFloats, kCaches, kCaches, kIndices};
  e.caches = {{6, 1}, {7, 2}};
  e.input_spaces.assign(9, ULLAGE_SPACE_DEVICE);
  e.input_spaces[8] = ULLAGE_SPACE_HOST;
  ops.push_back(e);
  e.input_spaces.clear();
  e.domain = "";
  e.op = "Attention";
  e.since = 23;
  e.types = {kFloats, kFloats, kFloats, kMask, kCaches, kCaches, Bit(kInt64)};
  e.caches = {{4, 1}, {5, 2}};
  ops.push_back(e);
  e.domain = kUllage;
  e.op = "CachedAttention";
  e.since = 1;
  e.types = {kFloats, kFloats, kFloats, kCaches, kCaches, kMask};
  e.caches = {{3, 1}, {4, 2}};
  ops.push_back(e);
}

void AddAttention(std::vector<OpEntry>& ops) {
  AddGroupQueryAttention(ops);
  AddMultiHeadAttention(ops);
  AddPackedAttention(ops);
}

}  // namespace ullage_opencl
