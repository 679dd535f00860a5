/// com.microsoft:GroupQueryAttention.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/checked.h"
#include "core/error.h"
#include "kernels/kv_rows.h"
#include "providers/cpu/kernels/attention_common.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

enum Slot { kQueries, kAttention, kLengths, kWindow, kCodes };

class GroupQueryAttention final : public Kernel {
 public:
  explicit GroupQueryAttention(const KernelInfo& info) {
    const graph::Node& n = info.node;
    heads_ = n.RequiredInt("num_heads");
    kv_heads_ = n.RequiredInt("kv_num_heads");
    if (heads_ < 1 || kv_heads_ < 1 || heads_ % kv_heads_ != 0)
      Throw(Code::kInvalidModel, "node ", n.name, ": num_heads ", heads_, " with kv_num_heads ", kv_heads_);
    scale_ = n.Float("scale", 0);
    window_ = n.Int("local_window_size", -1);
    softcap_ = n.Float("softcap", 0);
    rotary_ = n.Int("do_rotary", 0) != 0;
    interleaved_ = n.Int("rotary_interleaved", 0) != 0;
    smooth_ = n.Int("smooth_softmax", 0) > 0;
    causal_ = n.Int("causal", 1) != 0;
    sliding_cache_ = n.Int("sliding_window_cache", 0) != 0;
    keep_ = n.Int(kernels::kWindowKeepAttribute, window_);
    norm_epsilon_ = n.Float("qk_norm_epsilon", 1e-6f);
    const int64_t mode = n.Int("qk_output", 0);
    qk_mode_ = mode == 1   ? dense::QkOutput::kMasked
               : mode == 2 ? dense::QkOutput::kSoftmax
                           : dense::QkOutput::kNone;
    if (n.has_output(3) && qk_mode_ == dense::QkOutput::kNone)
      Throw(Code::kInvalidModel, "node ", n.name, ": output_qk is wanted, and qk_output is ", mode,
            "; expected 1 or 2");
    packed_ = !n.has_input(1) && !n.has_input(2);
    if (n.has_input(1) != n.has_input(2)) Throw(Code::kInvalidModel, "node ", n.name, ": key without value");
    if (n.has_input(3) != n.has_input(4))
      Throw(Code::kInvalidModel, "node ", n.name, ": past_key without past_value");
    const dense::KvCodec blocks = BlockCodec(n);
    k_codec_ = blocks.quantized() ? blocks : FixedCodec(info, "k_quant_type", 12);
    v_codec_ = blocks.quantized() ? blocks : FixedCodec(info, "v_quant_type", 13);
    if ((k_codec_.quantized() || v_codec_.quantized()) && !n.has_input(3))
      info.Unsupported("quantised keys and values without a past");
    if (rotary_ && (!n.has_input(7) || !n.has_input(8)))
      Throw(Code::kInvalidModel, "node ", n.name, ": do_rotary without cos_cache and sin_cache");
    if (sliding_cache_ && (window_ < 1 || keep_ < window_ || !n.has_input(3)))
      Throw(Code::kInvalidModel, "node ", n.name, ": sliding_window_cache without a window");
  }

  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    const auto& query = shapes.inputs[0].shape;
    if (query.rank != 3) return;
    const int64_t head = HeadSize(query[2].upper);
    dense::AttentionArgs args;
    args.batch = query[0].upper;
    args.seq = query[1].upper;
    args.q_heads = heads_;
    args.kv_heads = kv_heads_;
    args.head_size = args.v_head_size = head;
    const DType cache = shapes.inputs.size() > 3 && shapes.inputs[3].dtype != DType::kUndefined
                            ? shapes.inputs[3].dtype
                            : shapes.inputs[0].dtype;
    const bool has_past = shapes.inputs.size() > 3 && shapes.inputs[3].shape.rank == 4;
    const bool has_present = shapes.outputs.size() > 1 && shapes.outputs[1].shape.rank == 4;
    args.max_keys = has_present ? shapes.outputs[1].shape[2].upper : args.seq;
    if (has_past) {
      const int64_t past = shapes.inputs[3].shape[2].upper;
      if (has_present || past == ops::kUnbounded || args.seq == ops::kUnbounded)
        args.max_keys = std::max(args.max_keys, past);
      else
        args.max_keys = CheckedAdd(past, args.seq);
    }
    if (sliding_cache_) args.max_keys = CheckedAdd(args.max_keys, args.seq);
    if (args.batch == ops::kUnbounded || args.seq == ops::kUnbounded || args.max_keys == ops::kUnbounded)
      return;
    args.q.dtype = args.y.dtype = shapes.inputs[0].dtype;
    args.k.dtype = args.v.dtype = cache;
    args.k_codec = k_codec_;
    args.v_codec = v_codec_;
    if (shapes.outputs.size() > 3 && shapes.outputs[3].dtype != DType::kUndefined) args.qk_mode = qk_mode_;
    args.right_window = causal_ ? 0 : -1;
    if (has_past && shapes.inputs.size() > 10) args.bias.dtype = shapes.inputs[10].dtype;
    if (NeedsQueries(shapes.inputs.size() > 14 && shapes.inputs[14].dtype != DType::kUndefined))
      needs.push_back(
          {CheckedMul<size_t>(static_cast<size_t>(args.batch * args.seq * heads_ * head), 4), kQueries, 64});
    needs.push_back({dense::AttentionScratchBytes(args, shapes.threads), kAttention, 64});
    needs.push_back({static_cast<size_t>(args.batch) * 4 * sizeof(int64_t), kLengths, 64});
    if (k_codec_.quantized() || v_codec_.quantized())
      needs.push_back({dense::AppendKvScratchBytes(args.batch, args.seq, kv_heads_, head), kCodes, 64});
    // Without a present output, keys go to a buffer of their own; windowed caches need one to shift rows.
    if (!has_present || sliding_cache_)
      needs.push_back(
          {CheckedMul<size_t>(
               BytesOf(cache, args.batch * kv_heads_ * (k_codec_.RowWidth(head) + v_codec_.RowWidth(head))),
               static_cast<size_t>(args.max_keys)),
           kWindow, 64});
  }

  void Compute(KernelContext& context) const override {
    const TensorView& query = *context.input(0);
    const TensorView* key = context.input(1);
    const TensorView* value = context.input(2);
    const TensorView* past_k = context.input(3);
    const TensorView* past_v = context.input(4);
    TensorView& y = *context.output(0);
    TensorView* present_k = context.output(1);
    TensorView* present_v = context.output(2);
    ThreadTeam& team = context.threads();
    if (query.shape.rank() != 3)
      Throw(Code::kInvalidModel, "query has shape ", query.shape.ToString(), ", expected rank 3");
    const int64_t batch = query.shape[0], seq = query.shape[1], row = query.shape[2], head = HeadSize(row);
    if (batch == 0 || seq == 0) return;
    const dense::KvCodec k_codec = WithScales(context, k_codec_, 12, head);
    const dense::KvCodec v_codec = WithScales(context, v_codec_, 13, head);
    CheckShapes(context, batch, seq, head);
    const int64_t total = IndexOf(*context.input(6), 0);
    const TensorView& lens = *context.input(5);
    if (lens.shape.elements() < batch)
      Throw(Code::kInvalidInput, "seqlens_k has ", lens.shape.elements(), " elements for a batch of ", batch);

    auto* past_len =
        static_cast<int64_t*>(Workspace(context, kLengths, static_cast<size_t>(batch) * 4 * sizeof(int64_t)));
    int64_t* key_len = past_len + batch;
    int64_t* offset = key_len + batch;
    int64_t* position = offset + batch;
    const bool first = seq == total;
    for (int64_t b = 0; b < batch; ++b) {
      key_len[b] = IndexOf(lens, b) + 1;
      past_len[b] = first ? 0 : key_len[b] - seq;
      if (past_len[b] < 0 || key_len[b] > total)
        Throw(Code::kInvalidInput, "seqlens_k[", b, "] is ", key_len[b] - 1, " with ", seq,
              " new tokens and a total of ", total);
      offset[b] = position[b] = past_len[b];
    }

    const TensorView* cos = context.input(7);
    const TensorView* sin = context.input(8);
    dense::RopeTable rope;
    if (rotary_) {
      rope.cos = ArrayOf(cos);
      rope.sin = ArrayOf(sin);
      rope.rows = cos->shape[0];
      rope.pitch = cos->shape.at(-1);
      rope.rotary_dim = 2 * rope.pitch;
      rope.interleaved = interleaved_;
      if (rope.rotary_dim > head)
        Throw(Code::kInvalidModel, "cos_cache has ", rope.pitch, " columns for heads of ", head);
    }
    dense::RopePositions positions;
    if (const TensorView* ids = context.input(9)) {
      positions.ids = ids->as<int64_t>();
      positions.ids_batch_stride = ids->shape.rank() > 1 && ids->shape[0] > 1 ? seq : 0;
    } else {
      positions.start = position;
    }

    const size_t element = dense::ElementBytes(query.dtype);
    const auto* base = static_cast<const std::byte*>(query.data);
    const int64_t key_row = packed_ ? row : kv_heads_ * head;
    dense::AppendKvArgs append;
    append.batch = batch;
    append.seq = packed_ || key->shape[1] > 0 ? seq : 0;
    append.kv_heads = kv_heads_;
    append.head_size = append.v_head_size = head;
    append.past_len = past_len;
    append.key = packed_ ? dense::ConstArray{base + static_cast<size_t>(heads_ * head) * element, query.dtype}
                         : ArrayOf(key);
    append.value = packed_
                       ? dense::ConstArray{base + static_cast<size_t>((heads_ + kv_heads_) * head) * element,
                                           query.dtype}
                       : ArrayOf(value);
    append.key_layout = append.value_layout = PackedLayout(seq, key_row, head);
    if (k_codec.quantized() || v_codec.quantized())
      append.scratch = Workspace(context, kCodes, dense::AppendKvScratchBytes(batch, seq, kv_heads_, head));
    append.k_norm_weight = ArrayOf(context.input(15));
    append.k_norm_epsilon = norm_epsilon_;
    append.rope = rope;
    append.positions = positions;

    dense::AttentionArgs args;
    args.batch = batch;
    args.seq = seq;
    args.q_heads = heads_;
    args.kv_heads = kv_heads_;
    args.head_size = args.v_head_size = head;
    args.max_keys = total;
    args.key_len = key_len;
    args.query_offset = offset;
    if (window_ > 0) args.left_window = window_ - 1;
    args.right_window = causal_ ? 0 : -1;
    args.scale = scale_ != 0 ? scale_ : 1.0f / std::sqrt(static_cast<float>(head));
    args.softcap = softcap_;
    args.head_sink = ArrayOf(context.input(11));
    args.smooth_softmax = smooth_;
    args.y = {y.data, y.dtype};
    args.y_layout = PackedLayout(seq, heads_ * head, head);

    // Queries: as they are, or normalised and rotated into a buffer of floats.
    args.q = {query.data, query.dtype};
    args.q_layout = PackedLayout(seq, row, head);
    if (NeedsQueries(context.input(14) != nullptr)) {
      dense::HeadTransformArgs t;
      t.batch = batch;
      t.seq = seq;
      t.heads = heads_;
      t.head_size = head;
      t.src = args.q;
      t.src_layout = args.q_layout;
      t.dst = {Workspace(context, kQueries, static_cast<size_t>(batch * seq * heads_ * head) * sizeof(float)),
               DType::kFloat};
      t.dst_layout = PackedLayout(seq, heads_ * head, head);
      t.norm_weight = ArrayOf(context.input(14));
      t.norm_epsilon = norm_epsilon_;
      t.rope = rope;
      t.positions = positions;
      dense::TransformHeads(team, t);
      args.q = t.dst;
      args.q_layout = t.dst_layout;
    }

    dense::CacheArray keys, values;
    args.k_codec = k_codec;
    args.v_codec = v_codec;
    if (sliding_cache_) {
      Slide(context, append, past_k, past_v, *present_k, *present_v, total, args, keys, values);
    } else {
      if (present_k) {
        append.capacity = CapacityOf(*present_k);
        keys = CacheOf(present_k, k_codec);
        values = CacheOf(present_v, v_codec);
        if (past_k && past_k->data != present_k->data) {
          append.past_key = CacheOf(past_k, k_codec);
          append.past_value = CacheOf(past_v, v_codec);
        }
      } else {
        append.capacity = total;
        Temporary(context, batch, total, head, past_k ? past_k->dtype : query.dtype, args, keys, values);
        if (past_k) {
          append.past_key = CacheOf(past_k, k_codec);
          append.past_value = CacheOf(past_v, v_codec);
        }
      }
      append.present_key = keys;
      append.present_value = values;
      dense::AppendKv(team, append);
    }
    args.k = keys.data;
    args.v = values.data;
    args.k_layout = LayoutOf(keys);
    args.v_layout = LayoutOf(values);
    SetBias(context.input(10), &args);
    if (TensorView* qk = context.output(3)) {
      args.qk_mode = qk_mode_;
      args.qk = {qk->data, qk->dtype};
    }
    dense::Attention(team, args,
                     Workspace(context, kAttention, dense::AttentionScratchBytes(args, team.size())));
  }

 private:
  int64_t HeadSize(int64_t row) const { return row / (packed_ ? heads_ + 2 * kv_heads_ : heads_); }
  bool NeedsQueries(bool norm) const { return rotary_ || norm; }

  void CheckShapes(KernelContext& context, int64_t batch, int64_t seq, int64_t head) const {
    const auto expect = [&](int i, const char* name, bool fits, const Shape& want) {
      if (!fits)
        Throw(Code::kInvalidModel, name, " has shape ", context.input(i)->shape.ToString(), ", expected ",
              want.ToString());
    };
    if (!packed_)
      for (int i : {1, 2}) {
        const Shape& s = context.input(i)->shape;
        const Shape want = {batch, seq, kv_heads_ * head};
        expect(i, i == 1 ? "key" : "value", s == want || (s.rank() == 3 && s[1] == 0), want);
      }
    for (int i : {3, 4})
      if (const TensorView* past = context.input(i)) {
        const Shape& s = past->shape;
        const int64_t width = (i == 3 ? k_codec_ : v_codec_).RowWidth(head);
        const bool fits = s.rank() == 4 && s[0] == batch && s[1] == kv_heads_ && s[3] == width &&
                          s[2] == context.input(3)->shape[2];
        expect(i, i == 3 ? "past_key" : "past_value", fits,
               {batch, kv_heads_, s.rank() == 4 ? s[2] : 0, width});
      }
    if (rotary_) {
      const Shape& cos = context.input(7)->shape;
      expect(7, "cos_cache", cos.rank() == 2, {0, head / 2});
      expect(8, "sin_cache", context.input(8)->shape == cos, cos);
      if (const TensorView* ids = context.input(9))
        expect(9, "position_ids",
               ids->shape.rank() > 0 && ids->shape.at(-1) == seq &&
                   (ids->elements() == seq || ids->elements() == batch * seq),
               {batch, seq});
    }
  }

  /// Keys and values of `rows` rows for this step only.
  void Temporary(KernelContext& context, int64_t batch, int64_t rows, int64_t head, DType dtype,
                 const dense::AttentionArgs& args, dense::CacheArray& keys, dense::CacheArray& values) const {
    size_t bytes = 0;
    for (auto* c : {&keys, &values}) {
      c->codec = c == &keys ? args.k_codec : args.v_codec;
      c->row = c->codec.RowWidth(head);
      c->head_stride = rows * c->row;
      c->batch_stride = kv_heads_ * c->head_stride;
      c->data = {nullptr, dtype};
      bytes += BytesOf(dtype, batch * c->batch_stride);
    }
    auto* p = static_cast<std::byte*>(Workspace(context, kWindow, bytes));
    keys.data.data = p;
    values.data.data = p + BytesOf(dtype, batch * keys.batch_stride);
  }

  /// Scales of inputs 12 and 13; the numbers are known when the node runs.
  static dense::KvCodec FixedCodec(const KernelInfo& info, const char* attribute, size_t input) {
    dense::KvCodec codec;
    const std::string type = info.node.Str(attribute, "NONE");
    if (type == "NONE") return codec;
    if (type != "PER_TENSOR" && type != "PER_CHANNEL") info.Unsupported(attribute, " ", type);
    if (!info.node.has_input(input))
      Throw(Code::kInvalidModel, "node ", info.node.name, ": ", attribute, " ", type, " without scales");
    codec.bits = static_cast<int>(info.node.Int("kv_cache_bit_width", 8));
    if (codec.bits != 4 && codec.bits != 8) info.Unsupported("kv_cache_bit_width ", codec.bits);
    const DType want = codec.bits == 8 ? DType::kInt8 : DType::kUInt8;
    for (size_t past : {size_t{3}, size_t{4}})
      if (info.node.has_input(past) && info.input_dtype(past) != want)
        info.Unsupported("caches of type ", NameOf(info.input_dtype(past)), " with ", codec.bits, " bits");
    return codec;
  }

  dense::KvCodec WithScales(KernelContext& context, dense::KvCodec codec, int input, int64_t head) const {
    if (!codec.quantized() || codec.block > 0) return codec;
    const TensorView& scales = *context.input(input);
    const int64_t count = scales.elements();
    if (scales.dtype != DType::kFloat)
      Throw(Code::kUnsupported, input == 12 ? "k_scale" : "v_scale", " of type ", NameOf(scales.dtype));
    if (count != 1 && count != kv_heads_ * head)
      Throw(Code::kInvalidModel, input == 12 ? "k_scale" : "v_scale", " has shape ", scales.shape.ToString(),
            ", expected 1 or ", kv_heads_ * head, " elements");
    codec.scales = scales.as<float>();
    codec.element_stride = count == 1 ? 0 : 1;
    codec.head_stride = count == 1 ? 0 : head;
    return codec;
  }

  /// A windowed cache: capacity C rows of which the first L(T) hold the last tokens. Attention sees the rows
  /// that were resident and the new ones; then the last L(T) rows stay.
  void Slide(KernelContext& context, dense::AppendKvArgs& append, const TensorView* past_k,
             const TensorView* past_v, TensorView& present_k, TensorView& present_v, int64_t total,
             dense::AttentionArgs& args, dense::CacheArray& keys, dense::CacheArray& values) const {
    ThreadTeam& team = context.threads();
    const int64_t batch = args.batch, seq = args.seq, head = args.head_size;
    const int64_t capacity = past_k->shape[2];
    if (capacity < keep_)
      Throw(Code::kInvalidInput, "the windowed cache has ", capacity, " rows, fewer than the window of ",
            keep_);
    const int64_t past = total - seq, resident = kernels::WindowedRows(past, capacity, keep_);
    const int64_t keep = kernels::WindowedRows(total, capacity, keep_);
    for (int64_t b = 0; b < batch; ++b)
      if (batch > 1 && args.key_len[b] != total && past > 0)
        Throw(Code::kUnsupported, "batches of unequal lengths with a windowed cache");
    auto* rows = const_cast<int64_t*>(args.query_offset);
    auto* lens = const_cast<int64_t*>(args.key_len);
    auto* start = const_cast<int64_t*>(append.past_len);
    const bool in_place = keep == resident + seq;
    // The rotation keeps the true positions; everything else counts rows of the buffer.
    for (int64_t b = 0; b < batch; ++b) {
      lens[b] = resident + (lens[b] - start[b]);
      rows[b] = resident;
      start[b] = resident;
    }
    args.max_keys = resident + seq;
    const bool copied = past_k->data != present_k.data;
    if (in_place) {
      append.capacity = capacity;
      keys = CacheOf(&present_k, args.k_codec);
      values = CacheOf(&present_v, args.v_codec);
      if (copied) {
        append.past_key = CacheOf(past_k, args.k_codec);
        append.past_value = CacheOf(past_v, args.v_codec);
      }
      append.present_key = keys;
      append.present_value = values;
      dense::AppendKv(team, append);
      return;
    }
    append.capacity = resident + seq;
    Temporary(context, batch, resident + seq, head, past_k->dtype, args, keys, values);
    append.past_key = CacheOf(past_k, args.k_codec);
    append.past_value = CacheOf(past_v, args.v_codec);
    append.present_key = keys;
    append.present_value = values;
    dense::AppendKv(team, append);
    const auto store = [&](const dense::CacheArray& from, TensorView& to) {
      const dense::CacheArray out = CacheOf(&to, from.codec);
      const size_t row_bytes = BytesOf(past_k->dtype, from.row);
      for (int64_t b = 0; b < batch; ++b)
        for (int64_t h = 0; h < kv_heads_; ++h) {
          const auto at = static_cast<size_t>((b * from.batch_stride + h * from.head_stride) / from.row);
          const auto into = static_cast<size_t>((b * out.batch_stride + h * out.head_stride) / out.row);
          std::memcpy(static_cast<std::byte*>(out.data.data) + into * row_bytes,
                      static_cast<const std::byte*>(from.data.data) +
                          (at + static_cast<size_t>(resident + seq - keep)) * row_bytes,
                      static_cast<size_t>(keep) * row_bytes);
        }
    };
    store(keys, present_k);
    store(values, present_v);
  }

  int64_t heads_ = 0, kv_heads_ = 0, window_ = -1, keep_ = -1;
  float scale_ = 0, softcap_ = 0, norm_epsilon_ = 1e-6f;
  bool rotary_ = false, interleaved_ = false, smooth_ = false, causal_ = true, sliding_cache_ = false,
       packed_ = false;
  dense::QkOutput qk_mode_ = dense::QkOutput::kNone;
  dense::KvCodec k_codec_, v_codec_;
};

}  // namespace

void RegisterGroupQueryAttention(kernels::Registry& registry) {
  const kernels::TypeSet caches = kernels::kFloats | kernels::TypeSet{DType::kInt8, DType::kUInt8};
  kernels::KernelDef def;
  def.domain = graph::kMsDomain;
  def.op = "GroupQueryAttention";
  def.types = {kernels::kFloats,
               kernels::kFloats,
               kernels::kFloats,
               caches,
               caches,
               kernels::TypeSet{DType::kInt32, DType::kInt64},
               kernels::TypeSet{DType::kInt32, DType::kInt64}};
  def.create = Make<GroupQueryAttention>;
  def.cache_inputs = 1u << 3 | 1u << 4;
  def.cache_pairs = {{3, 1}, {4, 2}};
  registry.Add(std::move(def));
}

}  // namespace ullage::cpu
