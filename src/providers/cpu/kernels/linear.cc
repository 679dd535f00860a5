/// Products with constant weights: ullage:Linear, ullage:MultiLinear, com.microsoft:MatMulNBits.
#include <algorithm>

#include "core/checked.h"
#include "core/error.h"
#include "core/half.h"
#include "providers/cpu/dense/elementwise.h"
#include "providers/cpu/dense/gemm.h"
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
    const int64_t m = shapes.inputs[0].shape.ElementsUpper() / k_;
    const DType dtype = shapes.inputs[0].dtype;
    size_t gemm = 0, activations = 0;
    int64_t widest = 0;
    for (const LinearPart& part : parts_) {
      widest = std::max(widest, part.weight.n);
      if (part.weight.dense()) {
        gemm = std::max(gemm, dense::GemmScratchBytes(Args(part, m, dtype), shapes.threads));
      } else {
        activations = std::max(activations, quant::ActivationBytes(part.layout.activations, m, k_));
      }
    }
    const auto add = [&](int slot, size_t bytes) {
      if (bytes > 0) needs.push_back({bytes, slot, 64});
    };
    add(0, activations);
    add(1, gemm);
    if (activations > 0 && dtype != DType::kFloat) {
      add(2, CheckedMul<size_t>(static_cast<size_t>(m * k_), sizeof(float)));
      add(3, CheckedMul<size_t>(static_cast<size_t>(m * widest), sizeof(float)));
    }
    size_t biases = 0;
    for (const LinearPart& part : parts_)
      if (part.bias >= 0 && !part.weight.dense() && dtype != DType::kFloat)
        biases = std::max(biases, static_cast<size_t>(part.weight.n) * 4);
    add(4, biases);
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
    void* activations = context.GetPreallocatedWorkspace(0);
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
        dense::Gemm(team, args, context.GetPreallocatedWorkspace(1));
        continue;
      }
      if (ready != part.layout.activations) {
        flush();
        if (!is_float && values == a.data) {
          auto* converted = static_cast<float*>(context.GetPreallocatedWorkspace(2));
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
        args.out = static_cast<float*>(context.GetPreallocatedWorkspace(3));
        if (bias) {
          auto* b = static_cast<float*>(context.GetPreallocatedWorkspace(4));
          dense::Cast(team, {bias->data, bias->dtype}, part.weight.n, {b, DType::kFloat});
          args.bias = b;
        }
        quant::MatMul(args, team);
        dense::Cast(team, {args.out, DType::kFloat}, m * part.weight.n, {out->data, out->dtype});
      }
    }
    flush();
  }

 private:
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

std::unique_ptr<Kernel> Create(const KernelInfo& info) {
  return std::make_unique<LinearKernel>(info);
}

}  // namespace

void RegisterLinear(kernels::Registry& registry) {
  for (auto [domain, op] : {std::pair<std::string_view, std::string_view>{graph::kUllageDomain, "Linear"},
                            {graph::kUllageDomain, "MultiLinear"},
                            {graph::kMsDomain, "MatMulNBits"}}) {
    kernels::KernelDef def;
    def.domain = domain;
    def.op = op;
    def.types = {kernels::kFloats};
    def.create = Create;
    registry.Add(std::move(def));
  }
}

}  // namespace ullage::cpu
