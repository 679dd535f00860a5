// com.microsoft:MultiHeadAttention, ai.onnx:Attention, ullage:CachedAttention.
#include <algorithm>
#include <cmath>

#include "ops/attention_base.h"
#include "ops/attention_ops.h"
#include "spread.h"

namespace ullage_opencl {
namespace {

int64_t Upper(const ValueFacts& f, size_t axis) {
  return f.known && axis < f.upper.size() ? f.upper[axis] : -1;
}

/// Where things lie: inputs of queries, keys, values, bias of the three, mask, past; SIZE_MAX: the operator
/// has none.
struct Form {
  size_t bias = SIZE_MAX, mask = SIZE_MAX, past_key = SIZE_MAX, past_value = SIZE_MAX, nonpad = SIZE_MAX;
};

struct Sizes {
  int64_t batch = 0, seq = 0, q_heads = 0, kv_heads = 0, keys = 0, head = 0, value = 0;
};

/// Queries stand behind the past; without one at key 0 (ai.onnx), at the end (com.microsoft), or where
/// nonpad_kv_seqlen ends.
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
    if (node_.Int("kv_block", 0) != 0) node_.Unsupported("quantised caches");
    if (multi_)
      for (size_t i : {4u, 8u, 9u})
        if (facts.in(i).present) node_.Unsupported("input " + std::to_string(i));
    if (multi_ && (!facts.in(1).present || !facts.in(2).present)) node_.Unsupported("packed keys and values");
    const ValueFacts &q = facts.in(0), &k = facts.in(1), &v = facts.in(2);
    if (q.rank() != 3 && q.rank() != 4) node_.Unsupported("queries of rank " + std::to_string(q.rank()));
    if (k.rank() != q.rank() && !(multi_ && k.rank() == 4)) node_.Unsupported("keys of another rank");
    if (v.rank() != k.rank()) node_.Unsupported("values of another rank");
    if (q.rank() == 3 && (q_heads_ < 1 || kv_heads_ < 1)) node_.Invalid("no number of heads");
    const int64_t head = q.rank() == 4 ? q.Fixed(3) : q.Fixed(2) / q_heads_;
    const int64_t value = v.rank() == 4 ? v.Fixed(3) : v.Fixed(2) / kv_heads_;
    has_past_ = facts.in(form_.past_key).present;
    if (has_past_ != facts.in(form_.past_value).present)
      node_.Invalid("one of past_key and past_value is left out");
    presents_ = facts.out(1).present || facts.out(2).present;
    if (facts.out(1).present != facts.out(2).present) node_.Unsupported("one cache without the other");
    biased_ = facts.in(form_.bias).present;
    type_ = q.dtype;
    if (k.dtype != type_ || v.dtype != type_) node_.Unsupported("operands of different types");
    if (biased_ && facts.in(form_.bias).dtype != type_) node_.Unsupported("operands of different types");
    cache_type_ = has_past_              ? facts.in(form_.past_key).dtype
                  : facts.out(1).present ? facts.out(1).dtype
                                         : type_;
    if (!(kFloats & Bit(cache_type_))) node_.Unsupported("caches of type " + std::to_string(cache_type_));
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
    if (copies_)
      append_ = &Use("rotary.cl", HeadsOptions(type_, cache_type_, type_, type_, kInt64, kInt64, 0, false),
                     "heads");
    if (biased_)
      queries_ =
          &Use("rotary.cl", HeadsOptions(type_, kFloat, type_, type_, kInt64, kInt64, 0, false), "heads");
    Types types;
    types.q = biased_ ? static_cast<int32_t>(kFloat) : type_;
    types.k = copies_ ? cache_type_ : type_;
    types.y = type_;
    types.mask = facts.in(form_.mask).present ? facts.in(form_.mask).dtype : static_cast<int32_t>(kFloat);
    UseAttention(types, head, value);
  }

  void Declare(const Facts& shapes, std::vector<Slot>& slots) const override {
    const Sizes z = SizesOf([&](size_t i) { return shapes.in(i).rank(); },
                            [&](size_t i, size_t axis) { return Upper(shapes.in(i), axis); });
    int64_t total = z.keys;
    if (has_past_) {
      const int64_t past = Upper(shapes.in(form_.past_key), 2);
      total = past < 0 || z.keys < 0 ? -1 : past + z.keys;
    }
    slots.push_back({kParts, total < 0 ? -1 : PartBytes(z.batch, z.q_heads, z.seq, total, z.value)});
    if (biased_) slots.push_back({kQueries, Product({z.batch, z.seq, z.q_heads, z.head, 4})});
    if (copies_ && !presents_) {
      slots.push_back({kKeys, Product({z.batch, z.kv_heads, total, z.head, SizeOf(cache_type_)})});
      slots.push_back({kValues, Product({z.batch, z.kv_heads, total, z.value, SizeOf(cache_type_)})});
    }
  }

  void Compute(const Context& c) const override {
    const Tensor &q = *c.in(0), &k = *c.in(1), &v = *c.in(2), &y = *c.out(0);
    const Sizes z = SizesOf([&](size_t i) { return c.in(i)->rank; },
                            [&](size_t i, size_t axis) { return c.in(i)->dims[axis]; });
    const auto expect = [&](const Tensor& t, int64_t heads, int64_t rows, int64_t size) {
      const bool fits = t.rank == 3 ? t[0] == z.batch && t[1] == rows && t[2] == heads * size
                                    : t[0] == z.batch && t[1] == heads && t[2] == rows && t[3] == size;
      if (!fits) node_.Invalid("an operand of shape " + t.ToString());
    };
    expect(q, z.q_heads, z.seq, z.head);
    expect(k, z.kv_heads, z.keys, z.head);
    expect(v, z.kv_heads, z.keys, z.value);
    if (z.q_heads % z.kv_heads != 0) node_.Invalid("heads that do not divide");
    const Tensor* past = has_past_ ? c.in(form_.past_key) : nullptr;
    const int64_t before = past ? (*past)[2] : 0, total = before + z.keys;
    const auto layout = [](const Tensor& t, int64_t heads, int64_t rows, int64_t size) {
      return t.rank == 3 ? Packed(rows, heads * size, size) : HeadsFirst(heads, rows, size);
    };
    const Tensor* bias = c.in(form_.bias);
    const KeyRows keys = Rows(c, {k, layout(k, z.kv_heads, z.keys, z.head)}, past, c.out(1), kKeys, z, z.head,
                              before, bias, z.q_heads * z.head);
    const KeyRows values =
        Rows(c, {v, layout(v, z.kv_heads, z.keys, z.value)}, has_past_ ? c.in(form_.past_value) : nullptr,
             c.out(2), kValues, z, z.value, before, bias, 2 * z.q_heads * z.head);
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
    Attend(c, queries, keys, values, {y, layout(y, z.q_heads, z.seq, z.value)}, {mask, nonpad, nullptr}, args,
           z.batch);
  }

 private:
  template <class Rank, class Dim>
  Sizes SizesOf(const Rank& rank, const Dim& dim) const {
    const auto over = [](int64_t n, int64_t by) { return n < 0 ? n : n / by; };
    Sizes z;
    z.batch = dim(0, 0);
    if (rank(0) == 4) {
      z.q_heads = dim(0, 1);
      z.seq = dim(0, 2);
      z.head = dim(0, 3);
    } else {
      z.q_heads = q_heads_;
      z.seq = dim(0, 1);
      z.head = over(dim(0, 2), q_heads_);
    }
    if (rank(1) == 4) {
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
      if (present->rank != 4 || present->rows() < total || (*present)[3] != size ||
          (*present)[1] != z.kv_heads)
        node_.Invalid("a cache of shape " + present->ToString());
      to = Cache(*present);
    } else {
      to = {InRegion(c.Workspace(slot, Product({z.batch, z.kv_heads, total, size, SizeOf(cache_type_)})),
                     cache_type_),
            HeadsFirst(z.kv_heads, total, size)};
    }
    if (past && !(past->buffer == to.data.buffer && past->offset == to.data.offset))
      CopyRows(c, Cache(*past), 0, to, 0, z.batch, z.kv_heads, before, size);
    HeadsArgs a = Args(fresh.layout, to.layout, z.kv_heads, z.keys, size);
    a.row0 = before;
    HeadsTensors t;
    Tensor part;
    if (bias) {
      part = *bias;
      part.offset += static_cast<uint64_t>(bias_at * SizeOf(bias->dtype));
      t.bias = &part;
      a.biased = 1;
    }
    RunHeads(c, *append_, fresh.data, to.data, t, a, z.batch);
    return to;
  }

  bool multi_ = false, cached_ = false, has_past_ = false, presents_ = false, biased_ = false,
       copies_ = false;
  Form form_;
  int64_t q_heads_ = 0, kv_heads_ = 0, left_ = -1, right_ = -1;
  int32_t type_ = kFloat, cache_type_ = kFloat;
  float scale_ = 1, softcap_ = 0;
  KernelRef *append_ = nullptr, *queries_ = nullptr;
};

}  // namespace

void AddMultiHeadAttention(std::vector<OpEntry>& ops) {
  constexpr uint64_t kMask = kFloats | Bit(kBool);
  OpEntry e;
  e.make = Make<Attention>;
  e.domain = kMicrosoft;
  e.op = "MultiHeadAttention";
  e.types = {kFloats, kFloats, kFloats, kFloats, kAnyType, kFloats, kFloats, kFloats};
  e.caches = {{6, 1}, {7, 2}};
  ops.push_back(e);
  e.domain = "";
  e.op = "Attention";
  e.since = 23;
  e.types = {kFloats, kFloats, kFloats, kMask, kFloats, kFloats, Bit(kInt64)};
  e.caches = {{4, 1}, {5, 2}};
  ops.push_back(e);
  e.domain = kUllage;
  e.op = "CachedAttention";
  e.since = 1;
  e.types = {kFloats, kFloats, kFloats, kFloats, kFloats, kMask};
  e.caches = {{3, 1}, {4, 2}};
  ops.push_back(e);
}

void AddAttention(std::vector<OpEntry>& ops) {
  AddGroupQueryAttention(ops);
  AddMultiHeadAttention(ops);
}

}  // namespace ullage_opencl
