// com.microsoft:Attention without a past: projection to queries, keys and values, then attention.
#include <algorithm>
#include <cmath>

#include "ops/attention_base.h"
#include "ops/attention_ops.h"

namespace ullage_opencl {
namespace {

enum Input : size_t { kX, kWeight, kBias, kMaskIndex, kPast, kScores };

/// X [B, S, D] times W [D, Dq + Dk + Dv] (+ bias).
class PackedAttention final : public AttentionOp {
 public:
  explicit PackedAttention(const ullage_kernel_info& info) : AttentionOp(info) {
    const Facts facts = node_.facts();
    heads_ = node_.Int("num_heads", 0);
    if (heads_ < 1) node_.Invalid("num_heads " + std::to_string(heads_));
    if (node_.Int("do_rotary", 0) != 0) node_.Unsupported("do_rotary");
    if (facts.in(kPast).present || facts.out(1).present) node_.Unsupported("a past");
    const ValueFacts &x = facts.in(kX), &w = facts.in(kWeight);
    for (size_t i : {kWeight, kBias})
      if (facts.in(i).present && facts.in(i).dtype != x.dtype)
        node_.Unsupported("operands of different types");
    type_ = x.dtype;
    all_ = w.Fixed(1);
    if (all_ < 1) node_.Unsupported("weights of unknown shape");
    const auto sizes = node_.Ints("qkv_hidden_sizes");
    if (sizes.empty()) {
      width_ = values_ = all_ / 3;
    } else {
      if (sizes.size() != 3 || sizes[0] != sizes[1]) node_.Unsupported("qkv_hidden_sizes");
      width_ = sizes[0];
      values_ = sizes[2];
    }
    if (width_ < 1 || values_ < 1 || width_ % heads_ != 0 || values_ % heads_ != 0 ||
        all_ - 2 * width_ != values_)
      node_.Invalid("weights of " + std::to_string(all_) + " columns for " + std::to_string(heads_) +
                    " heads");
    right_ = node_.Int("unidirectional", 0) != 0 ? 0 : -1;
    const float scale = node_.Float("scale", 0);
    scale_ = scale != 0 ? scale : 1.0f / std::sqrt(static_cast<float>(width_ / heads_));
    filter_ = node_.Float("mask_filter_value", -10000);
    product_ = GemmKernels::Of(RowsOf(x, 0), Define("T", TypeCode(type_)) + Define("FORM", kRowsK),
                               [&](const std::string& options, const char* kernel) -> KernelRef& {
                                 return Use("gemm.cl", options, kernel);
                               });
    Types types;
    types.q = types.k = types.y = type_;
    if (facts.in(kMaskIndex).present) types.padding = facts.in(kMaskIndex).dtype;
    if (facts.in(kScores).present) types.mask = facts.in(kScores).dtype;
    UseAttention(types, width_ / heads_, values_ / heads_, BoundsOf(x, 1, 1, Upper(x, 1)));
  }

  void Declare(const Facts& shapes, std::vector<Slot>& slots) const override {
    const int64_t batch = Upper(shapes.in(kX), 0), seq = Upper(shapes.in(kX), 1);
    slots.push_back({kProducts, ProductBytes(batch, seq)});
    slots.push_back({kParts, PartBytes(batch, heads_, 1, seq, seq, values_ / heads_)});
  }

  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(kX), &w = *c.in(kWeight), &y = *c.out(0);
    const Tensor* bias = c.in(kBias);
    if (x.rank != 3 || w.rank != 2 || w[0] != x[2] || w[1] != all_ || (bias && bias->elements() != all_))
      node_.Invalid("an input of shape " + x.ToString() + " and weights of shape " + w.ToString());
    if (y.elements() == 0) return;
    const int64_t batch = x[0], seq = x[1], head = width_ / heads_, value = values_ / heads_;
    const Tensor all = InRegion(c.Workspace(kProducts, ProductBytes(batch, seq)), type_);
    GemmArgs gemm;
    gemm.m = Int32(batch * seq, "rows of a product");
    gemm.n = Int32(all_, "columns of a product");
    gemm.k = Int32(x[2], "K of a product");
    gemm.a_row = x[2];
    gemm.w_row = gemm.y_row = all_;
    gemm.beta = bias ? 1.0f : 0.0f;
    gemm.c_column = 1;
    RunGemm(c, product_, kRowsK, x, w, bias, all, gemm);
    AttentionArgs args;
    args.seq = args.keys = Int32(seq, "rows");
    args.q_heads = Int32(heads_, "heads");
    args.size = Int32(head, "elements of a head");
    args.values = Int32(value, "elements of a head");
    args.right = static_cast<int32_t>(right_);
    args.scale = scale_;
    SetMask(c.in(kScores), seq, false, &args);
    SetPadding(c.in(kMaskIndex), batch, 0, filter_, &args);
    Operands operands;
    operands.mask = c.in(kScores);
    operands.padding = c.in(kMaskIndex);
    Attend(c, {all, Packed(seq, all_, head)}, {Within(all, width_), Packed(seq, all_, head)},
           {Within(all, 2 * width_), Packed(seq, all_, value)}, {y, Packed(seq, values_, value)}, operands,
           args, batch);
  }

 private:
  int64_t ProductBytes(int64_t batch, int64_t seq) const {
    return Product({batch, seq, all_, SizeOf(type_)});
  }

  int64_t heads_ = 0, all_ = 0, width_ = 0, values_ = 0, right_ = -1;
  int32_t type_ = kFloat;
  float scale_ = 1, filter_ = -10000;
  GemmKernels product_;
};

}  // namespace

void AddPackedAttention(std::vector<OpEntry>& ops) {
  OpEntry e;
  e.domain = kMicrosoft;
  e.op = "Attention";
  e.types = {kFloats, kFloats, kFloats, kIndices, kFloats, kFloats};
  e.make = Make<PackedAttention>;
  ops.push_back(e);
}

}  // namespace ullage_opencl
