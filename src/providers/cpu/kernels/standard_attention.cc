/// ai.onnx:Attention (23 and later) and ullage:CachedAttention.
#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/kernels/attention_common.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

enum Slot { kAttention, kLengths, kKeys, kValues, kCodes };

struct Sizes {
  int64_t batch = 0, seq = 0, q_heads = 0, kv_heads = 0, keys = 0, head = 0, v_head = 0;
};

/// Inputs: Q, K, V and those named here. Queries stand behind the past; without one, at key 0 (Attention), or
/// where nonpad_kv_seqlen ends.
class StandardAttention final : public Kernel {
 public:
  explicit StandardAttention(const KernelInfo& info) {
    const graph::Node& n = info.node;
    cached_ = n.domain == graph::kUllageDomain;
    if (cached_) {
      past_key_ = 3;
      past_value_ = 4;
      mask_ = 5;
      nonpad_ = -1;
    }
    causal_ = n.Int("is_causal", 0) != 0;
    left_ = n.Int("left_window_size", -1);
    right_ = n.Int("right_window_size", -1);
    scale_ = n.Float("scale", 0);
    has_scale_ = n.has_attr("scale");
    softcap_ = n.Float("softcap", 0);
    codec_ = BlockCodec(n);
    q_heads_ = n.Int("q_num_heads", 0);
    kv_heads_ = n.Int("kv_num_heads", 0);
    if (n.has_output(3)) {
      const int64_t mode = n.Int("qk_matmul_output_mode", 0);
      if (mode < 0 || mode > 3) info.Unsupported("qk_matmul_output_mode ", mode);
      constexpr dense::QkOutput kModes[] = {dense::QkOutput::kScaled, dense::QkOutput::kSoftcapped,
                                            dense::QkOutput::kMasked, dense::QkOutput::kSoftmax};
      qk_mode_ = kModes[mode];
    }
    if (n.has_input(Index(past_key_)) != n.has_input(Index(past_value_)))
      Throw(Code::kInvalidModel, "node ", n.name, ": past_key and past_value come together");
    if (nonpad_ >= 0 && n.has_input(Index(nonpad_)) && n.has_input(Index(past_key_)))
      Throw(Code::kInvalidModel, "node ", n.name, ": nonpad_kv_seqlen with a past");
  }

  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    const auto& in = shapes.inputs;
    if (!in[0].shape.known_rank() || !in[1].shape.known_rank() || !in[2].shape.known_rank()) return;
    const Sizes z =
        SizesOf(in[0].shape.rank, [&](int i, int d) { return in[static_cast<size_t>(i)].shape[d].upper; });
    const auto present = [&](int i) {
      return Index(i) < in.size() && in[Index(i)].dtype != DType::kUndefined ? &in[Index(i)] : nullptr;
    };
    const auto* past = present(past_key_);
    const auto* past_value = present(past_value_);
    int64_t total = z.keys;
    if (past) {
      if (!past->shape.known_rank() || !past->shape[2].bounded() || !z.keys) return;
      if (__builtin_add_overflow(past->shape[2].upper, z.keys, &total)) return;
    }
    const int64_t all = UpperProduct({z.batch, z.kv_heads, total, std::max(z.head, z.v_head)});
    if (all == ops::kUnbounded || UpperProduct({z.batch, z.seq, z.q_heads, total}) == ops::kUnbounded) return;
    dense::AttentionArgs args = Args(z, total);
    args.q.dtype = args.y.dtype = in[0].dtype;
    args.k.dtype = in[1].dtype;
    args.v.dtype = in[2].dtype;
    needs.push_back({dense::AttentionScratchBytes(args, shapes.threads), kAttention, 64});
    needs.push_back({CheckedMul<size_t>(static_cast<size_t>(z.batch), 2 * sizeof(int64_t)), kLengths, 64});
    const auto wanted = [&](size_t o) {
      return o < shapes.outputs.size() && shapes.outputs[o].dtype != DType::kUndefined;
    };
    if (codec_.quantized())
      needs.push_back(
          {dense::AppendKvScratchBytes(z.batch, z.keys, z.kv_heads, std::max(z.head, z.v_head)), kCodes, 64});
    if (past && !wanted(1))
      needs.push_back(
          {BytesOf(past->dtype, z.batch * z.kv_heads * total * codec_.RowWidth(z.head)), kKeys, 64});
    if (past_value && !wanted(2))
      needs.push_back({BytesOf(past_value->dtype, z.batch * z.kv_heads * total * codec_.RowWidth(z.v_head)),
                       kValues, 64});
  }

  void Compute(KernelContext& context) const override {
    const TensorView& q = *context.input(0);
    const TensorView& k = *context.input(1);
    const TensorView& v = *context.input(2);
    const TensorView* past_k = context.input(past_key_);
    const TensorView* past_v = context.input(past_value_);
    TensorView& y = *context.output(0);
    const Shape* shapes[] = {&q.shape, &k.shape, &v.shape};
    const bool flat = q.shape.rank() == 3;
    const Sizes z = SizesOf(q.shape.rank(), [&](int i, int d) { return (*shapes[i])[d]; });
    const auto expect = [&](const TensorView& t, const char* name, int64_t heads, int64_t rows,
                            int64_t size) {
      const Shape want = flat ? Shape{z.batch, rows, heads * size} : Shape{z.batch, heads, rows, size};
      if (!(t.shape == want))
        Throw(Code::kInvalidModel, name, " has shape ", t.shape.ToString(), ", expected ", want.ToString());
    };
    expect(q, "Q", z.q_heads, z.seq, z.head);
    expect(k, "K", z.kv_heads, z.keys, z.head);
    expect(v, "V", z.kv_heads, z.keys, z.v_head);

    const int64_t past = past_k ? past_k->shape.rank() == 4 ? past_k->shape[2] : 0 : 0;
    const int64_t total = past + z.keys;
    const auto rows = [&](const TensorView& t, int64_t size) {
      NewRows r;
      r.data = t.data;
      r.dtype = t.dtype;
      r.layout = flat ? PackedLayout(z.keys, z.kv_heads * size, size) : HeadsFirst(z.kv_heads, z.keys, size);
      r.count = z.keys;
      r.size = size;
      r.codec = codec_;
      return r;
    };
    const KeyRows keys = AppendRows(context, z.batch, z.kv_heads, past, rows(k, z.head), past_k,
                                    context.output(1), kKeys, kCodes);
    const KeyRows values = AppendRows(context, z.batch, z.kv_heads, past, rows(v, z.v_head), past_v,
                                      context.output(2), kValues, kCodes);

    dense::AttentionArgs args = Args(z, total);
    auto* offset = static_cast<int64_t*>(
        Workspace(context, kLengths, static_cast<size_t>(z.batch) * 2 * sizeof(int64_t)));
    int64_t* length = offset + z.batch;
    const TensorView* nonpad = nonpad_ >= 0 ? context.input(nonpad_) : nullptr;
    if (nonpad && nonpad->elements() != z.batch)
      Throw(Code::kInvalidModel, "nonpad_kv_seqlen has shape ", nonpad->shape.ToString(), ", expected [",
            z.batch, "]");
    for (int64_t b = 0; b < z.batch; ++b) {
      length[b] = nonpad ? IndexOf(*nonpad, b) : total;
      offset[b] = nonpad ? length[b] - z.seq : past;
    }
    args.key_len = length;
    args.query_offset = offset;
    args.q = {q.data, q.dtype};
    args.q_layout =
        flat ? PackedLayout(z.seq, z.q_heads * z.head, z.head) : HeadsFirst(z.q_heads, z.seq, z.head);
    args.k = keys.data;
    args.k_layout = keys.layout;
    args.k_codec = keys.codec;
    args.v = values.data;
    args.v_layout = values.layout;
    args.v_codec = values.codec;
    args.y = {y.data, y.dtype};
    args.y_layout =
        flat ? PackedLayout(z.seq, z.q_heads * z.v_head, z.v_head) : HeadsFirst(z.q_heads, z.seq, z.v_head);
    SetBias(context.input(mask_), &args, !cached_);
    if (TensorView* qk = context.output(3)) args.qk = {qk->data, qk->dtype};
    const size_t bytes = dense::AttentionScratchBytes(args, context.threads().size());
    dense::Attention(context.threads(), args, Workspace(context, kAttention, bytes));
  }

 private:
  static size_t Index(int i) { return static_cast<size_t>(i); }

  template <class Dim>
  Sizes SizesOf(int rank, const Dim& dim) const {
    Sizes z;
    z.batch = dim(0, 0);
    if (rank == 4) {
      z.q_heads = dim(0, 1);
      z.seq = dim(0, 2);
      z.head = dim(0, 3);
      z.kv_heads = dim(1, 1);
      z.keys = dim(1, 2);
      z.v_head = dim(2, 3);
    } else {
      if (q_heads_ < 1 || kv_heads_ < 1)
        Throw(Code::kInvalidModel, "q_num_heads ", q_heads_, " and kv_num_heads ", kv_heads_);
      z.q_heads = q_heads_;
      z.kv_heads = kv_heads_;
      z.seq = dim(0, 1);
      z.keys = dim(1, 1);
      z.head = dim(0, 2) / q_heads_;
      z.v_head = dim(2, 2) / kv_heads_;
    }
    return z;
  }

  dense::AttentionArgs Args(const Sizes& z, int64_t total) const {
    dense::AttentionArgs args;
    args.batch = z.batch;
    args.seq = z.seq;
    args.q_heads = z.q_heads;
    args.kv_heads = z.kv_heads;
    args.head_size = z.head;
    args.v_head_size = z.v_head;
    args.max_keys = total;
    args.scale = has_scale_ ? scale_ : 1.0f / std::sqrt(static_cast<float>(std::max<int64_t>(z.head, 1)));
    args.softcap = softcap_;
    args.left_window = left_;
    args.right_window = causal_ ? 0 : right_;
    args.qk_mode = qk_mode_;
    args.k_codec = args.v_codec = codec_;
    return args;
  }

  bool cached_ = false, causal_ = false, has_scale_ = false;
  int mask_ = 3, past_key_ = 4, past_value_ = 5, nonpad_ = 6;
  int64_t left_ = -1, right_ = -1, q_heads_ = 0, kv_heads_ = 0;
  float scale_ = 0, softcap_ = 0;
  dense::KvCodec codec_;
  dense::QkOutput qk_mode_ = dense::QkOutput::kNone;
};

}  // namespace

void RegisterStandardAttention(kernels::Registry& registry) {
  const kernels::TypeSet caches = kernels::kFloats | kernels::TypeSet{DType::kInt8};
  const kernels::TypeSet mask = kernels::kFloats | kernels::TypeSet{DType::kBool};
  kernels::KernelDef def;
  def.op = "Attention";
  def.types = {kernels::kFloats, kernels::kFloats, kernels::kFloats, mask, caches, caches, {DType::kInt64}};
  def.create = Make<StandardAttention>;
  def.cache_inputs = 1u << 4 | 1u << 5;
  def.cache_pairs = {{4, 1}, {5, 2}};
  registry.Add(def);
  def.domain = graph::kUllageDomain;
  def.op = "CachedAttention";
  def.types = {kernels::kFloats, kernels::kFloats, kernels::kFloats, caches, caches, mask};
  def.cache_inputs = 1u << 3 | 1u << 4;
  def.cache_pairs = {{3, 1}, {4, 2}};
  registry.Add(std::move(def));
}

}  // namespace ullage::cpu
