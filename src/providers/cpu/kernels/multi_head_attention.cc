/// com.microsoft:MultiHeadAttention.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"
#include "providers/cpu/kernels/padding_mask.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

enum Input {
  kQuery,
  kKey,
  kValue,
  kBias,
  kPadding,
  kScores,
  kPastKey,
  kPastValue,
  kPastLength,
  kIndirection
};
enum Slot { kAttention, kLengths, kQueries, kKeys, kValues, kMask, kCodes, kBeamKeys, kBeamValues };

struct Sizes {
  int64_t batch = 0, seq = 0, keys = 0, head = 0, v_head = 0;
};

/// Query [B,S,D] with key and value [B,Kv,D]; packed [B,S,N,3,H]; a packed key [B,Kv,N,2,H]; or key and value
/// as a finished cache [B,N,Kv,H] (cross attention).
class MultiHeadAttention final : public Kernel {
 public:
  explicit MultiHeadAttention(const KernelInfo& info) {
    const graph::Node& n = info.node;
    heads_ = n.RequiredInt("num_heads");
    scale_ = n.Float("scale", 0);
    filter_ = n.Float("mask_filter_value", -10000);
    causal_ = n.Int("unidirectional", 0) != 0;
    if (heads_ < 1) Throw(Code::kInvalidModel, "node ", n.name, ": num_heads ", heads_);
    if (n.has_input(kPastKey) != n.has_input(kPastValue))
      Throw(Code::kInvalidModel, "node ", n.name, ": past_key and past_value come together");
    beams_ = n.has_input(kIndirection);
    if (beams_ && !n.has_input(kPastKey))
      Throw(Code::kInvalidModel, "node ", n.name, ": cache_indirection without a past");
    if (n.has_input(kPastLength) && !n.has_input(kPastKey)) info.Unsupported("past_sequence_length, no past");
    codec_ = BlockCodec(n);
    biased_ = n.has_input(kBias);
    scored_ = n.has_output(3);
  }

  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    const auto fact = [&](size_t i) -> const ops::ValueFacts* {
      return i < shapes.inputs.size() && shapes.inputs[i].dtype != DType::kUndefined ? &shapes.inputs[i]
                                                                                     : nullptr;
    };
    for (size_t i : {kQuery, kKey, kValue, kPastKey})
      if (const auto* f = fact(i); f && !f->shape.known_rank()) return;
    const auto rank = [&](size_t i) { return fact(i) ? fact(i)->shape.rank : -1; };
    const Sizes z = SizesOf(rank, [&](size_t i, int d) { return fact(i)->shape[d].upper; });
    int64_t total = z.keys;
    if (const auto* past = fact(kPastKey)) {
      if (past->shape.rank != 4 || past->shape[2].upper == ops::kUnbounded || total == ops::kUnbounded)
        return;
      total = CheckedAdd(total, past->shape[2].upper);
    }
    if (UpperProduct({z.batch, heads_, std::max(z.seq, total), std::max(z.head, z.v_head), 4}) ==
        ops::kUnbounded)
      return;
    const int64_t mask = MaskBytes(fact(kPadding), fact(kScores), z.batch, heads_, z.seq, total);
    if (mask == ops::kUnbounded) return;
    dense::AttentionArgs args = Args(z, total);
    needs.push_back({dense::AttentionScratchBytes(args, shapes.threads), kAttention, 64});
    needs.push_back({static_cast<size_t>(z.batch) * sizeof(int64_t), kLengths, 64});
    if (mask > 0) needs.push_back({static_cast<size_t>(mask), kMask, 64});
    if (biased_) needs.push_back({static_cast<size_t>(z.batch * z.seq * heads_ * z.head) * 4, kQueries, 64});
    if (beams_)
      for (const auto& [slot, size] : {std::pair{kBeamKeys, z.head}, std::pair{kBeamValues, z.v_head}})
        needs.push_back(
            {BytesOf(fact(kPastKey)->dtype, z.batch * heads_ * total * codec_.RowWidth(size)), slot, 64});
    const auto wanted = [&](size_t o) {
      return o < shapes.outputs.size() && shapes.outputs[o].dtype != DType::kUndefined;
    };
    if (codec_.quantized())
      needs.push_back(
          {dense::AppendKvScratchBytes(z.batch, z.keys, heads_, std::max(z.head, z.v_head)), kCodes, 64});
    const bool copies = fact(kPastKey) || (biased_ && rank(kKey) != 4);
    const auto append = [&](size_t output, size_t past, int64_t size, int slot) {
      if (!copies || wanted(output)) return;
      const DType dtype = fact(past) ? fact(past)->dtype : fact(kQuery)->dtype;
      needs.push_back({BytesOf(dtype, z.batch * heads_ * total * codec_.RowWidth(size)), slot, 64});
    };
    append(1, kPastKey, z.head, kKeys);
    append(2, kPastValue, z.v_head, kValues);
  }

  void Compute(KernelContext& context) const override {
    const TensorView& query = *context.input(kQuery);
    const TensorView* key = context.input(kKey);
    const TensorView* value = context.input(kValue);
    const TensorView* bias = context.input(kBias);
    const TensorView* past_k = context.input(kPastKey);
    const TensorView* past_v = context.input(kPastValue);
    TensorView& y = *context.output(0);
    const auto rank = [&](int i) { return context.input(i) ? context.input(i)->shape.rank() : -1; };
    const Sizes z = SizesOf(rank, [&](int i, int d) { return context.input(i)->shape[d]; });
    CheckShapes(context, z);
    int64_t past = past_k ? past_k->shape.rank() == 4 ? past_k->shape[2] : 0 : 0;
    if (const TensorView* length = context.input(kPastLength)) {
      const int64_t n = IndexOf(*length, 0);
      if (n < 0 || n > past)
        Throw(Code::kInvalidInput, "past_sequence_length is ", n, " for a past of ", past, " rows");
      past = n;
    }
    const int64_t total = past + z.keys;
    dense::AttentionArgs args = Args(z, total);

    // Where queries and new keys and values lie, without the bias.
    const DType dtype = query.dtype;
    const auto at = [&](const TensorView& t, int64_t elements) {
      return static_cast<const std::byte*>(t.data) +
             elements * static_cast<int64_t>(dense::ElementBytes(t.dtype));
    };
    NewRows k, v;
    k.count = v.count = z.keys;
    k.codec = v.codec = codec_;
    k.size = z.head;
    v.size = z.v_head;
    k.dtype = v.dtype = key ? key->dtype : dtype;
    args.q = {query.data, dtype};
    args.q_layout = PackedLayout(z.seq, heads_ * z.head, z.head);
    const bool ready = key && key->shape.rank() == 4;
    if (!key) {
      const dense::HeadLayout packed{z.seq * heads_ * 3 * z.head, heads_ * 3 * z.head, 3 * z.head};
      args.q_layout = k.layout = v.layout = packed;
      k.data = at(query, z.head);
      v.data = at(query, 2 * z.head);
    } else if (key->shape.rank() == 5) {
      k.layout = v.layout = {z.keys * heads_ * 2 * z.head, heads_ * 2 * z.head, 2 * z.head};
      k.data = key->data;
      v.data = at(*key, z.head);
    } else {
      k.data = key->data;
      v.data = value->data;
      v.dtype = value->dtype;
      k.layout = ready ? HeadsFirst(heads_, z.keys, z.head) : PackedLayout(z.keys, heads_ * z.head, z.head);
      v.layout =
          ready ? HeadsFirst(heads_, z.keys, z.v_head) : PackedLayout(z.keys, heads_ * z.v_head, z.v_head);
    }
    if (bias) {
      const int64_t width = heads_ * z.head;
      dense::HeadTransformArgs t;
      t.batch = z.batch;
      t.seq = z.seq;
      t.heads = heads_;
      t.head_size = z.head;
      t.src = args.q;
      t.src_layout = args.q_layout;
      t.bias = ArrayOf(bias);
      t.dst = {Workspace(context, kQueries, static_cast<size_t>(z.batch * z.seq * width) * 4), DType::kFloat};
      t.dst_layout = PackedLayout(z.seq, width, z.head);
      dense::TransformHeads(context.threads(), t);
      args.q = t.dst;
      args.q_layout = t.dst_layout;
      if (!ready) {
        k.bias = {at(*bias, width), bias->dtype};
        v.bias = {at(*bias, 2 * width), bias->dtype};
      }
    }
    KeyRows keys = AppendRows(context, z.batch, heads_, past, k, past_k, context.output(1), kKeys, kCodes);
    KeyRows values =
        AppendRows(context, z.batch, heads_, past, v, past_v, context.output(2), kValues, kCodes);
    if (const TensorView* beams = context.input(kIndirection)) {
      keys = OfBeams(context, *beams, keys, z.batch, past, total, codec_.RowWidth(z.head), kBeamKeys);
      values = OfBeams(context, *beams, values, z.batch, past, total, codec_.RowWidth(z.v_head), kBeamValues);
    }
    args.k = keys.data;
    args.k_layout = keys.layout;
    args.k_codec = keys.codec;
    args.v = values.data;
    args.v_layout = values.layout;
    args.v_codec = values.codec;
    args.y = {y.data, y.dtype};
    args.y_layout = PackedLayout(z.seq, heads_ * z.v_head, z.v_head);
    auto* offset =
        static_cast<int64_t*>(Workspace(context, kLengths, static_cast<size_t>(z.batch) * sizeof(int64_t)));
    std::fill_n(offset, z.batch, total - z.seq);
    args.query_offset = offset;
    SetMask(context, {context.input(kPadding), context.input(kScores), filter_, past}, kMask, &args);
    if (TensorView* qk = context.output(3)) args.qk = {qk->data, qk->dtype};
    const size_t bytes = dense::AttentionScratchBytes(args, context.threads().size());
    dense::Attention(context.threads(), args, Workspace(context, kAttention, bytes));
  }

 private:
  template <class Rank, class Dim>
  Sizes SizesOf(const Rank& rank, const Dim& dim) const {
    Sizes z;
    z.batch = dim(kQuery, 0);
    z.seq = z.keys = dim(kQuery, 1);
    z.head = z.v_head = rank(kQuery) == 5 ? dim(kQuery, 4) : dim(kQuery, 2) / heads_;
    if (rank(kKey) == 4) {
      z.keys = dim(kKey, 2);
      if (rank(kValue) == 4) z.v_head = dim(kValue, 3);
    } else if (rank(kKey) >= 0) {
      z.keys = dim(kKey, 1);
      if (rank(kValue) == 3) z.v_head = dim(kValue, 2) / heads_;
    }
    return z;
  }

  /// The rows that each beam comes from: past token t of beam j of batch b lies with beam indirection[b, j,
  /// t].
  KeyRows OfBeams(KernelContext& context, const TensorView& beams, const KeyRows& rows, int64_t batch,
                  int64_t past, int64_t total, int64_t width, int slot) const {
    const Shape& s = beams.shape;
    if (beams.dtype != DType::kInt32 || s.rank() != 3 || s[0] * s[1] != batch || s[2] < past)
      Throw(Code::kInvalidModel, "cache_indirection has type ", NameOf(beams.dtype), " and shape ",
            s.ToString(), ", expected int32 [batches, beams, >=", past, "] for ", batch, " rows");
    const int64_t count = s[1];
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t t = 0; t < past; ++t)
        if (const int32_t from = beams.as<int32_t>()[b * s[2] + t]; from < 0 || from >= count)
          Throw(Code::kInvalidInput, "cache_indirection names beam ", from, " of ", count);
    const auto element = static_cast<int64_t>(BytesOf(rows.data.dtype, 1));
    const size_t row = static_cast<size_t>(width * element);
    auto* out =
        static_cast<std::byte*>(Workspace(context, slot, static_cast<size_t>(batch * heads_ * total) * row));
    const auto* in = static_cast<const std::byte*>(rows.data.data);
    context.threads().Run(batch * heads_, [&](int64_t task, int) {
      const int64_t b = task / heads_, h = task % heads_;
      for (int64_t t = 0; t < total; ++t) {
        const int64_t from = t < past ? b / count * count + beams.as<int32_t>()[b * s[2] + t] : b;
        std::memcpy(out + static_cast<size_t>(task * total + t) * row,
                    in + (from * rows.layout.batch_stride + h * rows.layout.head_stride +
                          t * rows.layout.seq_stride) *
                             element,
                    row);
      }
    });
    return {{out, rows.data.dtype}, HeadsFirst(heads_, total, width), rows.codec};
  }

  void CheckShapes(KernelContext& context, const Sizes& z) const {
    const auto expect = [&](int i, const char* name, const Shape& want) {
      const TensorView* t = context.input(i);
      if (!t || !(t->shape == want))
        Throw(Code::kInvalidModel, name, " has shape ", t ? t->shape.ToString() : "none", ", expected ",
              want.ToString());
    };
    const TensorView* key = context.input(kKey);
    if (!key) {
      expect(kQuery, "query", {z.batch, z.seq, heads_, 3, z.head});
      if (context.input(kValue)) Throw(Code::kInvalidModel, "a value without a key");
    } else {
      expect(kQuery, "query", {z.batch, z.seq, heads_ * z.head});
      if (key->shape.rank() == 5) {
        expect(kKey, "key", {z.batch, z.keys, heads_, 2, z.head});
        if (context.input(kValue)) Throw(Code::kInvalidModel, "a value beside a packed key");
      } else if (key->shape.rank() == 4) {
        expect(kKey, "key", {z.batch, heads_, z.keys, z.head});
        expect(kValue, "value", {z.batch, heads_, z.keys, z.v_head});
        if (context.input(kPastKey)) Throw(Code::kUnsupported, "a finished cache beside a past");
      } else {
        expect(kKey, "key", {z.batch, z.keys, heads_ * z.head});
        expect(kValue, "value", {z.batch, z.keys, heads_ * z.v_head});
      }
    }
    if (context.input(kBias)) expect(kBias, "bias", {heads_ * (2 * z.head + z.v_head)});
  }

  dense::AttentionArgs Args(const Sizes& z, int64_t total) const {
    dense::AttentionArgs args;
    args.batch = z.batch;
    args.seq = z.seq;
    args.q_heads = args.kv_heads = heads_;
    args.head_size = z.head;
    args.v_head_size = z.v_head;
    args.max_keys = total;
    args.scale = scale_ != 0 ? scale_ : 1.0f / std::sqrt(static_cast<float>(std::max<int64_t>(z.head, 1)));
    args.right_window = causal_ ? 0 : -1;
    args.k_codec = args.v_codec = codec_;
    args.qk_mode = scored_ ? dense::QkOutput::kMasked : dense::QkOutput::kNone;
    return args;
  }

  int64_t heads_ = 0;
  dense::KvCodec codec_;
  float scale_ = 0, filter_ = -10000;
  bool causal_ = false, biased_ = false, scored_ = false, beams_ = false;
};

}  // namespace

void RegisterMultiHeadAttention(kernels::Registry& registry) {
  kernels::KernelDef def;
  def.domain = graph::kMsDomain;
  def.op = "MultiHeadAttention";
  const kernels::TypeSet floats = kernels::kFloats, ints = {DType::kInt32, DType::kInt64};
  const kernels::TypeSet caches = floats | kernels::TypeSet{DType::kInt8};
  def.types = {floats, floats, floats, floats, ints, floats, caches, caches, ints};
  def.create = Make<MultiHeadAttention>;
  def.cache_inputs = 1u << kPastKey | 1u << kPastValue;
  def.cache_pairs = {{kPastKey, 1}, {kPastValue, 2}};
  registry.Add(std::move(def));
}

}  // namespace ullage::cpu
