// com.microsoft:GroupQueryAttention.
#include <algorithm>
#include <cmath>

#include "ops/attention_base.h"
#include "ops/attention_ops.h"
#include "spread.h"

namespace ullage_opencl {
namespace {

enum Input : size_t {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kLengths,
  kTotal,
  kCos,
  kSin,
  kPositions,
  kMask,
  kSinks,
  kKeyScales,
  kValueScales,
  kQNorm = 14,
  kKNorm = 15
};

/// Rows that a windowed cache of `capacity` rows holds after `tokens` of them: all, else the last ones, at
/// least `keep`, in steps, so that rows move rarely. The host's runner counts on the same numbers.
int64_t WindowedRows(int64_t tokens, int64_t capacity, int64_t keep) {
  if (tokens <= capacity) return tokens;
  const int64_t step = capacity - keep + 1;
  return tokens - step * ((tokens - capacity + step - 1) / step);
}

class GroupQueryAttention : public AttentionOp {
 public:
  explicit GroupQueryAttention(const ullage_kernel_info& info) : AttentionOp(info) {
    const Facts facts = node_.facts();
    heads_ = node_.Int("num_heads", 0);
    kv_heads_ = node_.Int("kv_num_heads", 0);
    if (heads_ < 1 || kv_heads_ < 1 || heads_ % kv_heads_ != 0) node_.Invalid("num_heads and kv_num_heads");
    packed_ = !facts.in(kKey).present;
    if (packed_ != !facts.in(kValue).present || facts.in(kPastKey).present != facts.in(kPastValue).present)
      node_.Invalid("one of key and value is left out");
    if (!facts.out(1).present || !facts.out(2).present) node_.Unsupported("caches that are not wanted");
    if (facts.out(3).present) node_.Unsupported("output_qk");
    if (const int64_t block = node_.Int("kv_block", 0); block > 0) {
      k_codec_ = v_codec_ = {1, block};
    } else {
      k_codec_ = GivenScales(facts, "k_quant_type", kKeyScales);
      v_codec_ = GivenScales(facts, "v_quant_type", kValueScales);
    }
    if ((k_codec_.kind == 0) != (v_codec_.kind == 0)) node_.Unsupported("one quantised cache");
    if (k_codec_.kind != 0 && !facts.in(kPastKey).present)
      node_.Unsupported("quantised caches without a past");
    window_ = node_.Int("local_window_size", -1);
    sliding_ = node_.Int("sliding_window_cache", 0) != 0;
    keep_ = node_.Int("window_keep", window_);
    if (sliding_ && (window_ < 1 || keep_ < window_ || !facts.in(kPastKey).present))
      node_.Invalid("sliding_window_cache without a window");
    causal_ = node_.Int("causal", 1) != 0;
    smooth_ = node_.Int("smooth_softmax", 0) > 0;
    softcap_ = node_.Float("softcap", 0);
    epsilon_ = node_.Float("qk_norm_epsilon", 1e-6f);
    rotary_ = node_.Int("do_rotary", 0) != 0;
    if (rotary_ && (!facts.in(kCos).present || !facts.in(kSin).present))
      node_.Invalid("do_rotary without tables");

    const int64_t row = facts.in(kQuery).Fixed(2);
    if (row < 1) node_.Unsupported("heads of unknown size");
    head_ = row / (packed_ ? heads_ + 2 * kv_heads_ : heads_);
    const float scale = node_.Float("scale", 0);
    scale_ = scale != 0 ? scale : 1.0f / std::sqrt(static_cast<float>(head_));
    type_ = facts.in(kQuery).dtype;
    cache_type_ = facts.out(1).dtype;
    const uint64_t expected = k_codec_.kind == 0 ? kFloats : Bit(k_codec_.kind == 3 ? kUInt8 : kInt8);
    if (!(expected & Bit(cache_type_)) || facts.out(2).dtype != cache_type_)
      node_.Unsupported("caches of type " + std::to_string(cache_type_));
    for (size_t i : {kPastKey, kPastValue})
      if (facts.in(i).present && facts.in(i).dtype != cache_type_)
        node_.Unsupported("caches of different types");
    if (!packed_ && (facts.in(kKey).dtype != type_ || facts.in(kValue).dtype != type_))
      node_.Unsupported("operands of different types");
    q_norm_ = facts.in(kQNorm).present;
    k_norm_ = facts.in(kKNorm).present;
    const auto type_of = [&](size_t i, int32_t otherwise) {
      return facts.in(i).present ? facts.in(i).dtype : otherwise;
    };
    const int32_t table = type_of(kCos, kFloat), ids = type_of(kPositions, kInt64),
                  lengths = facts.in(kLengths).dtype;
    if (rotary_ && facts.in(kSin).dtype != table) node_.Unsupported("tables of different types");
    const int rotate = !rotary_ ? 0 : node_.Int("rotary_interleaved", 0) != 0 ? 2 : 1;
    const auto heads = [&](int32_t target, int32_t weight, int turn, bool norm, const RowCodec& codec = {}) {
      return &Use("rotary.cl",
                  HeadsOptions(type_, target, weight, table, ids, lengths, turn, norm, false, codec, head_),
                  "heads");
    };
    keys_ = heads(cache_type_, type_of(kKNorm, type_), rotate, k_norm_, k_codec_);
    values_ = heads(cache_type_, type_, 0, false, v_codec_);
    prepared_ = rotary_ || q_norm_;
    if (prepared_) queries_ = heads(kFloat, type_of(kQNorm, type_), rotate, q_norm_);
    Types types;
    types.q = prepared_ ? static_cast<int32_t>(kFloat) : type_;
    types.k = cache_type_;
    types.y = type_;
    types.mask = type_of(kMask, kFloat);
    types.lengths = lengths;
    types.sinks = type_of(kSinks, kFloat);
    types.k_codec = k_codec_;
    types.v_codec = v_codec_;
    const int64_t group = heads_ / kv_heads_;
    UseAttention(types, head_, head_, BoundsOf(facts.in(kQuery), 1, group, MostKeys(facts)));
  }

  void Declare(const Facts& shapes, std::vector<Slot>& slots) const override {
    const int64_t batch = Upper(shapes.in(kQuery), 0), seq = Upper(shapes.in(kQuery), 1);
    const int64_t keys = MostKeys(shapes);
    if (prepared_) slots.push_back({kQueries, Product({batch, seq, heads_, head_, 4})});
    slots.push_back({kParts, keys < 0 ? -1 : PartBytes(batch, heads_, heads_ / kv_heads_, seq, keys, head_)});
    if (sliding_)
      for (uint32_t slot : {kKeys, kValues})
        slots.push_back({slot, RowBytes(batch, keys, slot == kKeys ? k_codec_ : v_codec_)});
  }

  void Compute(const Context& c) const override {
    const Tensor &query = *c.in(kQuery), &y = *c.out(0);
    if (query.rank != 3) node_.Invalid("a query of shape " + query.ToString());
    const int64_t batch = query[0], seq = query[1], row = query[2];
    if (batch == 0 || seq == 0) return;
    const int64_t total = c.in(kTotal)->HostInts().at(0);
    Shapes(c, batch, seq, total);
    HeadsTensors operands;
    operands.cosines = rotary_ ? c.in(kCos) : nullptr;
    operands.sines = rotary_ ? c.in(kSin) : nullptr;
    operands.ids = rotary_ ? c.in(kPositions) : nullptr;
    HeadsArgs heads;
    heads.size = Int32(head_, "elements of a head");
    heads.seq = Int32(seq, "rows");
    heads.epsilon = epsilon_;
    heads.first = seq == total;
    if (rotary_) {
      heads.table_rows = Int32((*operands.cosines)[0], "rows of a table");
      heads.table_pitch = Int32(operands.cosines->back(), "columns");
      heads.rotary = 2 * heads.table_pitch;
      if (heads.rotary > head_) node_.Invalid("tables wider than heads");
      if (operands.ids) {
        heads.ids = 1;
        heads.ids_batch = operands.ids->elements() == seq ? 0 : seq;
      }
    }
    AttentionArgs args;
    args.seq = heads.seq;
    args.q_heads = Int32(heads_, "heads");
    args.group = Int32(heads_ / kv_heads_, "heads");
    args.size = args.values = heads.size;
    args.left = window_ > 0 ? Int32(window_ - 1, "keys of a window") : -1;
    args.right = causal_ ? 0 : -1;
    args.scale = scale_;
    args.softcap = softcap_;
    args.sink = c.in(kSinks) ? 1 : smooth_ ? 2 : 0;

    // Where the new rows go, and what attention reads.
    const Tensor *past_k = c.in(kPastKey), *past_v = c.in(kPastValue);
    KeyRows keys = Cache(*c.out(1)), values = Cache(*c.out(2));
    int64_t resident = 0, kept = 0;
    if (sliding_) {
      const int64_t capacity = (*past_k)[2];
      if (capacity < keep_) node_.Invalid("a windowed cache smaller than its window");
      for (int64_t last : c.in(kLengths)->HostInts())
        if (last + 1 != total) node_.Unsupported("batches of unequal lengths with a windowed cache");
      resident = WindowedRows(total - seq, capacity, keep_);
      kept = WindowedRows(total, capacity, keep_);
      heads.row0 = resident;
      heads.start = Int32(total - seq, "positions");
      args.keys = Int32(resident + seq, "keys");
      args.past = resident;
    } else {
      operands.lengths = c.in(kLengths);
      heads.lengths = 1;
      heads.row0 = -1;
      args.lengths = 1;
      args.first = heads.first;
      args.keys = Int32(total, "keys");
    }
    const bool moves = sliding_ && kept != resident + seq;
    if (moves) {
      const int64_t rows = resident + seq;
      const auto moved = [&](uint32_t slot, const RowCodec& codec) {
        return KeyRows{InRegion(c.Workspace(slot, RowBytes(batch, rows, codec)), cache_type_),
                       HeadsFirst(kv_heads_, rows, codec.Width(head_))};
      };
      keys = moved(kKeys, k_codec_);
      values = moved(kValues, v_codec_);
    }
    const int64_t rows = moves ? resident + seq : c.out(1)->rows();
    const auto take = [&](const Tensor* past, const KeyRows& to) {
      if (!past || (past->buffer == to.data.buffer && past->offset == to.data.offset)) return;
      const int64_t count = sliding_ ? resident : std::min((*past)[2], rows);
      CopyRows(c, Cache(*past), 0, to, 0, batch, kv_heads_, count, (*past)[3]);
    };
    take(past_k, keys);
    take(past_v, values);

    // New keys and values.
    const Tensor* k_scales = k_codec_.given() ? c.in(kKeyScales) : nullptr;
    const Tensor* v_scales = v_codec_.given() ? c.in(kValueScales) : nullptr;
    const auto append = [&](const KernelRef& kernel, const Tensor& source, const KeyRows& to,
                            const Tensor* norm, const Tensor* scales) {
      if (source.elements() == 0) return;  // a layer that reads the keys of another
      HeadsArgs a = heads;
      HeadsTensors t = operands;
      const HeadLayout from = Packed(seq, packed_ ? row : kv_heads_ * head_, head_);
      a.heads = Int32(kv_heads_, "heads");
      a.x_batch = from.batch;
      a.x_row = from.row;
      a.x_head = from.head;
      a.y_batch = to.layout.batch;
      a.y_row = to.layout.row;
      a.y_head = to.layout.head;
      a.rows = Int32(rows, "rows of a cache");
      t.weight = norm;
      t.scales = scales;
      a.head_scales = scales && scales->elements() > 1 ? a.size : 0;
      RunHeads(c, kernel, source, to.data, t, a, batch);
    };
    append(*keys_, packed_ ? Within(query, heads_ * head_) : *c.in(kKey), keys, c.in(kKNorm), k_scales);
    append(*values_, packed_ ? Within(query, (heads_ + kv_heads_) * head_) : *c.in(kValue), values, nullptr,
           v_scales);

    KeyRows q = {query, Packed(seq, row, head_)};
    if (prepared_) {
      HeadsArgs a = heads;
      HeadsTensors t = operands;
      const HeadLayout to = Packed(seq, heads_ * head_, head_);
      a.heads = args.q_heads;
      a.x_batch = q.layout.batch;
      a.x_row = q.layout.row;
      a.x_head = q.layout.head;
      a.y_batch = to.batch;
      a.y_row = to.row;
      a.y_head = to.head;
      a.row0 = 0;
      t.weight = c.in(kQNorm);
      const Tensor target = InRegion(c.Workspace(kQueries, batch * seq * heads_ * head_ * 4), kFloat);
      RunHeads(c, *queries_, query, target, t, a, batch);
      q = {target, to};
    }
    SetMask(c.in(kMask), args.keys, false, &args);
    Attend(c, q, keys, values, {y, Packed(seq, heads_ * head_, head_)},
           {c.in(kMask), operands.lengths, c.in(kSinks), nullptr, k_scales, v_scales}, args, batch);
    if (moves) {
      CopyRows(c, keys, resident + seq - kept, Cache(*c.out(1)), 0, batch, kv_heads_, kept,
               k_codec_.Width(head_));
      CopyRows(c, values, resident + seq - kept, Cache(*c.out(2)), 0, batch, kv_heads_, kept,
               v_codec_.Width(head_));
    }
  }

 private:
  int64_t MostKeys(const Facts& shapes) const {
    int64_t keys = Upper(shapes.out(1), 2);
    const int64_t seq = Upper(shapes.in(kQuery), 1), past = Upper(shapes.in(kPastKey), 2);
    if (shapes.in(kPastKey).present) keys = keys < 0 || past < 0 ? -1 : std::max(keys, past);
    if (sliding_) keys = keys < 0 || seq < 0 ? -1 : keys + seq;
    return keys;
  }

  /// A cache whose scales are inputs.
  RowCodec GivenScales(const Facts& facts, const char* attribute, size_t input) const {
    const std::string type = node_.Str(attribute, "NONE");
    if (type == "NONE") return {};
    if (type != "PER_TENSOR" && type != "PER_CHANNEL") node_.Unsupported(std::string(attribute) + " " + type);
    const int64_t bits = node_.Int("kv_cache_bit_width", 8);
    if (bits != 4 && bits != 8) node_.Unsupported("caches of " + std::to_string(bits) + " bits");
    if (!facts.in(input).present) node_.Invalid(std::string(attribute) + " without scales");
    if (facts.in(input).dtype != kFloat) node_.Unsupported("scales of another type than float");
    RowCodec codec;
    codec.kind = bits == 8 ? 2 : 3;
    return codec;
  }

  int64_t RowBytes(int64_t batch, int64_t rows, const RowCodec& codec) const {
    return Product({batch, kv_heads_, rows, codec.Width(head_), SizeOf(cache_type_)});
  }

  /// Sizes that decide which memory is read and written.
  void Shapes(const Context& c, int64_t batch, int64_t seq, int64_t total) const {
    const auto expect = [&](const Tensor* t, bool fits) {
      if (t && !fits) node_.Invalid("an operand of shape " + t->ToString());
    };
    for (size_t i : {kKey, kValue})
      if (const Tensor* t = packed_ ? nullptr : c.in(i))
        expect(t, t->rank == 3 && (*t)[0] == batch && ((*t)[1] == seq || (*t)[1] == 0) &&
                      (*t)[2] == kv_heads_ * head_);
    const auto cache = [&](const Tensor* t, const RowCodec& codec) {
      if (t)
        expect(t, t->rank == 4 && (*t)[0] == batch && (*t)[1] == kv_heads_ && (*t)[3] == codec.Width(head_));
    };
    cache(c.in(kPastKey), k_codec_);
    cache(c.in(kPastValue), v_codec_);
    cache(c.out(1), k_codec_);
    cache(c.out(2), v_codec_);
    const auto scales = [&](const Tensor* t, const RowCodec& codec) {
      if (codec.given()) expect(t, t->elements() == 1 || t->elements() == kv_heads_ * head_);
    };
    scales(c.in(kKeyScales), k_codec_);
    scales(c.in(kValueScales), v_codec_);
    expect(c.in(kLengths), c.in(kLengths)->elements() >= batch);
    if (const Tensor* ids = rotary_ ? c.in(kPositions) : nullptr)
      expect(ids, ids->elements() == seq || ids->elements() == batch * seq);
    if (total < seq || (!sliding_ && total > c.out(1)->rows()))
      node_.Invalid("total_sequence_length is " + std::to_string(total) + " with " + std::to_string(seq) +
                    " new tokens and room for " + std::to_string(c.out(1)->rows()));
  }

  int64_t heads_ = 0, kv_heads_ = 0, head_ = 0, window_ = -1, keep_ = -1;
  int32_t type_ = kFloat, cache_type_ = kFloat;
  RowCodec k_codec_, v_codec_;
  float scale_ = 1, softcap_ = 0, epsilon_ = 1e-6f;
  bool packed_ = false, sliding_ = false, causal_ = true, smooth_ = false, rotary_ = false, q_norm_ = false,
       k_norm_ = false, prepared_ = false;
  KernelRef *keys_ = nullptr, *values_ = nullptr, *queries_ = nullptr;
};

std::string NotSliding(const Node& node) {
  return node.Int("sliding_window_cache", 0) != 0 ? "a windowed cache" : "";
}
std::string Sliding(const Node& node) {
  return node.Int("sliding_window_cache", 0) == 0 ? "no windowed cache" : "";
}

}  // namespace

void AddGroupQueryAttention(std::vector<OpEntry>& ops) {
  OpEntry e;
  e.domain = kMicrosoft;
  e.op = "GroupQueryAttention";
  constexpr uint64_t kCaches = kFloats | Bit(kInt8) | Bit(kUInt8);
  e.types = {kFloats,  kFloats, kFloats, kCaches,  kCaches, kIndices,
             kIndices, kFloats, kFloats, kIndices, kFloats};
  e.make = Make<GroupQueryAttention>;
  e.caches = {{kPastKey, 1}, {kPastValue, 2}};
  e.refuse = NotSliding;
  e.input_spaces.assign(kSin + 1, ULLAGE_SPACE_DEVICE);
  e.input_spaces[kTotal] = ULLAGE_SPACE_HOST;
  ops.push_back(e);
  // Which rows of a windowed cache move is decided on the host.
  e.refuse = Sliding;
  e.input_spaces[kLengths] = ULLAGE_SPACE_HOST;
  ops.push_back(e);
}

}  // namespace ullage_opencl
