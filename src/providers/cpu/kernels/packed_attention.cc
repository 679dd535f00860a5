/// com.microsoft:Attention: projection to queries, keys and values, then attention.
#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/dense/gemm.h"
#include "providers/cpu/kernels/block_weight.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"
#include "providers/cpu/kernels/padding_mask.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

enum Input { kX, kWeight, kBias, kMaskIndex, kPast, kScores, kPastLength };
enum Slot { kAttention, kLengths, kProjected, kGemm, kKeys, kValues, kMask };

/// X [B,S,D] times W [D, Dq+Dk+Dv] (+ bias); past and present are [2, B, N, rows, H], keys before values.
class PackedAttention final : public Kernel {
 public:
  explicit PackedAttention(const KernelInfo& info) {
    const graph::Node& n = info.node;
    heads_ = n.RequiredInt("num_heads");
    if (heads_ < 1) Throw(Code::kInvalidModel, "node ", n.name, ": num_heads ", heads_);
    causal_ = n.Int("unidirectional", 0) != 0;
    scale_ = n.Float("scale", 0);
    filter_ = n.Float("mask_filter_value", -10000);
    if (n.Int("do_rotary", 0) != 0) info.Unsupported("do_rotary");
    sizes_ = n.Ints("qkv_hidden_sizes");
    if (!sizes_.empty() && sizes_.size() != 3)
      info.Unsupported("qkv_hidden_sizes of ", sizes_.size(), " elements");
    for (int64_t size : sizes_)
      if (size < 1 || size % heads_ != 0)
        Throw(Code::kInvalidModel, "node ", n.name, ": qkv_hidden_sizes ", size, " for ", heads_, " heads");
    if (!sizes_.empty() && sizes_[0] != sizes_[1])
      Throw(Code::kInvalidModel, "node ", n.name, ": queries of width ", sizes_[0], ", keys of ", sizes_[1]);
    w_ = info.constant(kWeight);
    if (w_ && (w_->shape.rank() != 2 || w_->elements() == 0)) w_ = nullptr;
  }

  std::vector<kernels::PrepackRequirement> PlanPrepack() const override {
    if (!w_) return {};
    kernels::PrepackRequirement need;
    need.bytes = dense::PackedBBytes(w_->shape[1], w_->shape[0], w_->dtype);
    need.replaces = {kWeight};
    need.share_key = StrCat("dense_kn ", w_->shape[1], "x", w_->shape[0]);
    return {need};
  }
  void Prepack(int, std::byte* out, ThreadTeam& team) override {
    const int64_t n = w_->shape[1];
    dense::PackB(team, {w_->data().data(), w_->dtype}, false, n, n, w_->shape[0], out);
    ReleasePages(*w_);
  }

  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    const auto fact = [&](size_t i) -> const ops::ValueFacts* {
      return i < shapes.inputs.size() && shapes.inputs[i].dtype != DType::kUndefined ? &shapes.inputs[i]
                                                                                     : nullptr;
    };
    const auto &x = fact(kX)->shape, &w = fact(kWeight)->shape;
    if (x.rank != 3 || w.rank != 2) return;
    const int64_t batch = x[0].upper, seq = x[1].upper, width = x[2].upper, all = w[1].upper;
    int64_t total = seq;
    if (const auto* past = fact(kPast)) {
      if (past->shape.rank != 5 || !past->shape[3].bounded() || seq == ops::kUnbounded) return;
      total = CheckedAdd(total, past->shape[3].upper);
    }
    if (UpperProduct({batch, total, std::max(all, width), heads_, 4}) == ops::kUnbounded) return;
    const int64_t mask = MaskBytes(fact(kMaskIndex), fact(kScores), batch, heads_, seq, total);
    if (mask == ops::kUnbounded) return;
    const DType dtype = fact(kX)->dtype;
    const Widths widths = WidthsOf(all);
    needs.push_back(
        {dense::GemmScratchBytes(Projection(batch * seq, all, width, dtype), shapes.threads), kGemm, 64});
    needs.push_back({static_cast<size_t>(batch * seq * all) * sizeof(float), kProjected, 64});
    dense::AttentionArgs args = Args(batch, seq, total, widths);
    needs.push_back({dense::AttentionScratchBytes(args, shapes.threads), kAttention, 64});
    needs.push_back({static_cast<size_t>(batch) * sizeof(int64_t), kLengths, 64});
    if (mask > 0) needs.push_back({static_cast<size_t>(mask), kMask, 64});
    const bool present = shapes.outputs.size() > 1 && shapes.outputs[1].dtype != DType::kUndefined;
    if (present || !fact(kPast)) return;
    needs.push_back({BytesOf(dtype, batch * total * widths.key), kKeys, 64});
    needs.push_back({BytesOf(dtype, batch * total * widths.value), kValues, 64});
  }

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(kX);
    const TensorView& w = *context.input(kWeight);
    const TensorView* bias = context.input(kBias);
    TensorView& y = *context.output(0);
    ThreadTeam& team = context.threads();
    if (x.shape.rank() != 3 || w.shape.rank() != 2 || w.shape[0] != x.shape[2])
      Throw(Code::kInvalidModel, "an input of shape ", x.shape.ToString(), " and weights of shape ",
            w.shape.ToString());
    const int64_t batch = x.shape[0], seq = x.shape[1], all = w.shape[1];
    const Widths widths = WidthsOf(all);
    if (2 * widths.key + widths.value != all || all % heads_ != 0)
      Throw(Code::kInvalidModel, "weights of shape ", w.shape.ToString(), " for ", heads_, " heads");
    if (bias && bias->elements() != all)
      Throw(Code::kInvalidModel, "a bias of shape ", bias->shape.ToString(), ", expected [", all, "]");

    auto* projected = static_cast<float*>(
        Workspace(context, kProjected, static_cast<size_t>(batch * seq * all) * sizeof(float)));
    dense::GemmArgs gemm = Projection(batch * seq, all, x.shape[2], x.dtype);
    gemm.a.data = x.data;
    gemm.b = {w_ ? static_cast<const void*>(context.prepacked(0)) : w.data, w.dtype};
    gemm.c = {projected, DType::kFloat};
    if (bias) gemm.bias = ArrayOf(bias);
    dense::Gemm(team, gemm, Workspace(context, kGemm, dense::GemmScratchBytes(gemm, team.size())));

    const int64_t head = widths.key / heads_, v_head = widths.value / heads_;
    const TensorView* past = context.input(kPast);
    TensorView* present = context.output(1);
    if ((past || present) && head != v_head)
      Throw(Code::kUnsupported, "a cache for keys of ", head, " and values of ", v_head);
    int64_t rows = past ? past->shape.rank() == 5 ? past->shape[3] : 0 : 0;
    if (past && past->shape.at(0) != 2)
      Throw(Code::kInvalidModel, "a past of shape ", past->shape.ToString());
    TensorView halves[4];
    const auto half = [&](const TensorView* v, int which) -> TensorView* {
      if (!v) return nullptr;
      TensorView& h = halves[which];
      h.dtype = v->dtype;
      for (int d = 1; d < v->shape.rank(); ++d) h.shape.push_back(v->shape[d]);
      h.data = static_cast<std::byte*>(v->data) + (which & 1 ? h.bytes() : 0);
      return &h;
    };
    if (const TensorView* length = context.input(kPastLength); length && past) {
      const int64_t n = IndexOf(*length, 0);
      if (n < 0 || n > rows)
        Throw(Code::kInvalidInput, "past_sequence_length is ", n, " for a past of ", rows, " rows");
      rows = n;
    }
    const int64_t total = rows + seq;
    NewRows k, v;
    k.data = projected + widths.key;
    v.data = projected + 2 * widths.key;
    k.layout = PackedLayout(seq, all, head);
    v.layout = PackedLayout(seq, all, v_head);
    k.count = v.count = seq;
    k.size = head;
    v.size = v_head;
    const KeyRows keys = AppendRows(context, batch, heads_, rows, k, half(past, 0), half(present, 2), kKeys);
    const KeyRows values =
        AppendRows(context, batch, heads_, rows, v, half(past, 1), half(present, 3), kValues);
    dense::AttentionArgs args = Args(batch, seq, total, widths);
    args.q = {projected, DType::kFloat};
    args.q_layout = PackedLayout(seq, all, head);
    args.k = keys.data;
    args.k_layout = keys.layout;
    args.v = values.data;
    args.v_layout = values.layout;
    args.y = {y.data, y.dtype};
    args.y_layout = PackedLayout(seq, widths.value, v_head);
    auto* offset =
        static_cast<int64_t*>(Workspace(context, kLengths, static_cast<size_t>(batch) * sizeof(int64_t)));
    std::fill_n(offset, batch, rows);
    args.query_offset = offset;
    SetMask(context, {context.input(kMaskIndex), context.input(kScores), filter_, rows}, kMask, &args);
    dense::Attention(team, args,
                     Workspace(context, kAttention, dense::AttentionScratchBytes(args, team.size())));
  }

 private:
  struct Widths {
    int64_t key = 0, value = 0;
  };
  Widths WidthsOf(int64_t all) const {
    return sizes_.empty() ? Widths{all / 3, all / 3} : Widths{sizes_[1], sizes_[2]};
  }
  dense::GemmArgs Projection(int64_t m, int64_t n, int64_t k, DType dtype) const {
    dense::GemmArgs args;
    args.m = m;
    args.n = n;
    args.k = k;
    args.a.dtype = dtype;
    args.lda = k;
    args.b.dtype = dtype;
    args.b_packed = w_ != nullptr;
    args.ldb = n;
    args.c.dtype = DType::kFloat;
    args.ldc = n;
    return args;
  }
  dense::AttentionArgs Args(int64_t batch, int64_t seq, int64_t total, const Widths& widths) const {
    dense::AttentionArgs args;
    args.batch = batch;
    args.seq = seq;
    args.q_heads = args.kv_heads = heads_;
    args.head_size = widths.key / heads_;
    args.v_head_size = widths.value / heads_;
    args.max_keys = total;
    args.right_window = causal_ ? 0 : -1;
    args.scale =
        scale_ != 0 ? scale_ : 1.0f / std::sqrt(static_cast<float>(std::max<int64_t>(args.head_size, 1)));
    return args;
  }

  int64_t heads_ = 0;
  bool causal_ = false;
  float scale_ = 0, filter_ = -10000;
  std::vector<int64_t> sizes_;
  graph::ConstantPtr w_;
};

}  // namespace

void RegisterPackedAttention(kernels::Registry& registry) {
  kernels::KernelDef def;
  def.domain = graph::kMsDomain;
  def.op = "Attention";
  const kernels::TypeSet floats = kernels::kFloats, ints = {DType::kInt32, DType::kInt64};
  def.types = {floats, floats, floats, ints, floats, floats, ints};
  def.create = Make<PackedAttention>;
  registry.Add(std::move(def));
}

}  // namespace ullage::cpu
