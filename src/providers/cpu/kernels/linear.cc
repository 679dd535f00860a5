/// Products with constant weights: ullage:Linear, ullage:MultiLinear, com.microsoft:MatMulNBits.
#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "core/checked.h"
#include "core/error.h"
#include "core/half.h"
#include "providers/cpu/dense/elementwise.h"
#include "providers/cpu/dense/gemm.h"
#include "providers/cpu/kernels/attention_common.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"
#include "providers/cpu/kernels/linear_parts.h"
#include "providers/cpu/quant/activations.h"
#include "providers/cpu/quant/matmul.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

/// Y_p = A * W_p^T (+ bias_p) for one or several weights over the same activations, which are quantised once.
class LinearKernel final : public Kernel {
 public:
  explicit LinearKernel(const KernelInfo& info)
      : k_(info.node.RequiredInt("K")), parts_(LinearPartsOf(info.node, info.graph, info.options)) {}

  std::vector<kernels::PrepackRequirement> PlanPrepack() const override {
    std::vector<kernels::PrepackRequirement> out;
    for (const LinearPart& part : parts_) {
      const int base = part.first_input;
      out.push_back(part.Requirement({base, base + 1, base + 2, base + 3}));
    }
    return out;
  }

  void Prepack(int index, std::byte* out, ThreadTeam& team) override {
    parts_[static_cast<size_t>(index)].Pack(out, team);
  }

  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    const int64_t elements = shapes.inputs[0].shape.ElementsUpper();
    if (elements == ops::kUnbounded) return;
    const SlotBytes bytes = BytesFor(elements / k_, shapes.inputs[0].dtype, shapes.threads);
    for (int slot = 0; slot < kSlots; ++slot)
      if (bytes[slot] > 0) needs.push_back({bytes[slot], slot, 64});
  }

  void Compute(KernelContext& context) const override {
    const TensorView& a = *context.input(0);
    const int64_t m = a.shape.elements() / k_;
    if (m == 0) return;
    ThreadTeam& team = context.threads();
    const bool is_float = a.dtype == DType::kFloat;
    const auto* values = static_cast<const float*>(a.data);
    std::array<quant::MatMulArgs, quant::kMaxBatch> batch;
    int queued = 0;
    std::optional<quant::Activations> ready;
    const SlotBytes bytes = BytesFor(m, a.dtype, team.size());
    const auto slot = [&](int i) { return bytes[i] > 0 ? Workspace(context, i, bytes[i]) : nullptr; };
    void* activations = slot(kActivations);
    void* gemm = slot(kGemm);
    auto* converted = static_cast<float*>(slot(kConverted));
    auto* product = static_cast<float*>(slot(kProduct));
    auto* converted_bias = static_cast<float*>(slot(kBias));
    const auto flush = [&] {
      if (queued > 0)
        quant::MatMul(std::span<const quant::MatMulArgs>(batch.data(), static_cast<size_t>(queued)), team);
      queued = 0;
    };
    for (size_t p = 0; p < parts_.size(); ++p) {
      const LinearPart& part = parts_[p];
      TensorView* out = context.output(static_cast<int>(p));
      if (!out) continue;
      const TensorView* bias = part.bias >= 0 ? context.input(part.bias) : nullptr;
      if (part.weight.dense()) {
        dense::GemmArgs args = Args(part, m, a.dtype);
        args.a.data = a.data;
        args.b.data = context.prepacked(static_cast<int>(p));
        args.c.data = out->data;
        if (bias) args.bias = {bias->data, bias->dtype};
        dense::Gemm(team, args, gemm);
        continue;
      }
      if (ready != part.layout.activations) {
        flush();
        if (!is_float && values == a.data) {
          dense::Cast(team, {a.data, a.dtype}, m * k_, {converted, DType::kFloat});
          values = converted;
        }
        quant::QuantizeActivations(part.layout.activations, values, k_, m, k_, activations, team);
        ready = part.layout.activations;
      }
      quant::MatMulArgs args;
      args.layout = &part.layout;
      args.packed = context.prepacked(static_cast<int>(p));
      args.activations = activations;
      args.m = m;
      args.ldo = part.weight.n;
      if (is_float) {
        args.out = out->as<float>();
        if (bias) args.bias = bias->as<float>();
        batch[static_cast<size_t>(queued++)] = args;
        if (queued == quant::kMaxBatch) flush();
      } else {
        args.out = product;
        if (bias) {
          dense::Cast(team, {bias->data, bias->dtype}, part.weight.n, {converted_bias, DType::kFloat});
          args.bias = converted_bias;
        }
        quant::MatMul(args, team);
        dense::Cast(team, {args.out, DType::kFloat}, m * part.weight.n, {out->data, out->dtype});
      }
    }
    flush();
  }

 private:
  enum Slot { kActivations, kGemm, kConverted, kProduct, kBias, kSlots };
  using SlotBytes = std::array<size_t, kSlots>;

  /// Workspace for m rows of `dtype`; throws kInvalidModel when it does not fit 64 bits.
  SlotBytes BytesFor(int64_t m, DType dtype, int threads) const {
    SlotBytes bytes = {};
    const auto most = [](size_t* slot, size_t wanted) { *slot = std::max(*slot, wanted); };
    const auto floats = [](int64_t rows, int64_t columns) {
      const size_t count = CheckedMul(static_cast<size_t>(rows), static_cast<size_t>(columns), "workspace");
      return CheckedMul(count, sizeof(float), "workspace");
    };
    for (const LinearPart& part : parts_) {
      if (part.weight.dense()) {
        most(&bytes[kGemm], dense::GemmScratchBytes(Args(part, m, dtype), threads));
        continue;
      }
      most(&bytes[kActivations], quant::ActivationBytes(part.layout.activations, m, k_));
      if (dtype == DType::kFloat) continue;
      most(&bytes[kConverted], floats(m, k_));
      most(&bytes[kProduct], floats(m, part.weight.n));
      if (part.bias >= 0) most(&bytes[kBias], floats(1, part.weight.n));
    }
    return bytes;
  }

  dense::GemmArgs Args(const LinearPart& part, int64_t m, DType dtype) const {
    dense::GemmArgs args;
    args.m = m;
    args.n = part.weight.n;
    args.k = k_;
    args.a.dtype = dtype;
    args.lda = k_;
    args.b.dtype = part.weight.data->dtype;
    args.b_packed = true;
    args.c.dtype = dtype;
    args.ldc = part.weight.n;
    return args;
  }

  int64_t k_ = 0;
  std::vector<LinearPart> parts_;
};

}  // namespace

void RegisterLinear(kernels::Registry& registry) {
  for (auto [domain, op] : {std::pair<std::string_view, std::string_view>{graph::kUllageDomain, "Linear"},
                            {graph::kUllageDomain, "MultiLinear"},
                            {graph::kMsDomain, "MatMulNBits"}}) {
    kernels::KernelDef def;
    def.domain = domain;
    def.op = op;
    def.types = {kernels::kFloats};
    def.create = Make<LinearKernel>;
    registry.Add(std::move(def));
  }
}

}  // namespace ullage::cpu
