/// Products with constant weights: ullage:Linear, ullage:MultiLinear, com.microsoft:MatMulNBits.
#include <algorithm>

#include "core/checked.h"
#include "core/error.h"
#include "core/half.h"
#include "providers/cpu/dense/elementwise.h"
#include "providers/cpu/dense/gemm.h"
#include "providers/cpu/kernels/block_weight.h"
#include "providers/cpu/kernels/families.h"
#include "providers/cpu/quant/activations.h"
#include "providers/cpu/quant/matmul.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

constexpr int kInputsPerPart = 5;  // weight, scales, zero points, group index, bias

struct Part {
  WeightSpec weight;
  quant::PackedLayout layout;  // block-quantised weights
  int bias = -1;               // input index
};

/// Y_p = A * W_p^T (+ bias_p) for one or several weights over the same activations, which are quantised once.
class LinearKernel final : public Kernel {
 public:
  explicit LinearKernel(const KernelInfo& info) {
    const graph::Node& node = info.node;
    const bool multi = node.op == "MultiLinear";
    k_ = node.RequiredInt("K");
    const int64_t wanted = info.options ? info.options->Int("ep.cpu.activation_bits") : 0;
    if (wanted != 0 && wanted != 8 && wanted != 16 && wanted != 24)
      Throw(Code::kUsage, "option ep.cpu.activation_bits: expected 0, 8, 16 or 24, found ", wanted);
    const int64_t level = node.Int("accuracy_level", 0);
    const auto ns = multi ? node.Ints("N") : std::vector<int64_t>{node.RequiredInt("N")};
    const auto bits = multi ? node.Ints("bits") : std::vector<int64_t>{node.Int("bits", 4)};
    const auto blocks = multi ? node.Ints("block_size") : std::vector<int64_t>{node.Int("block_size", 0)};
    std::vector<std::string> formats;
    if (!multi) formats = {node.op == "MatMulNBits" ? "nbits" : node.Str("format", "")};
    if (multi)
      if (const auto it = node.attributes.find("format"); it != node.attributes.end())
        if (const auto* list = std::get_if<std::vector<std::string>>(&it->second)) formats = *list;
    if (k_ < 1 || formats.size() != ns.size() || bits.size() != ns.size() || blocks.size() != ns.size())
      Throw(Code::kInvalidModel, "node ", node.name,
            ": attributes K, N, format, bits and block_size disagree");
    for (size_t p = 0; p < ns.size(); ++p) {
      const size_t base = 1 + p * kInputsPerPart;
      Part part;
      part.weight.format = formats[p];
      part.weight.n = ns[p];
      part.weight.k = k_;
      part.weight.bits = bits[p];
      part.weight.block_size = blocks[p];
      part.weight.data = info.constant(base);
      part.weight.scales = info.constant(base + 1);
      part.weight.zero_points = info.constant(base + 2);
      part.weight.g_idx = info.constant(base + 3);
      if (!part.weight.data) info.Unsupported("the weight must be a constant");
      if (node.has_input(base + 1) && !part.weight.scales) info.Unsupported("the scales must be constant");
      if (node.has_input(base + 2) && !part.weight.zero_points)
        info.Unsupported("the zero points must be constant");
      if (node.has_input(base + 3) && !part.weight.g_idx)
        info.Unsupported("the group index must be constant");
      if (node.has_input(base + 4)) part.bias = static_cast<int>(base + 4);
      if (!part.weight.dense()) {
        const int64_t own = part.weight.format == "ggml" || level == 4 ? 16 : 24;
        const int64_t bits_of_a = wanted != 0 ? wanted : own;
        const auto accuracy = bits_of_a == 8    ? quant::Accuracy::kInt8
                              : bits_of_a == 16 ? quant::Accuracy::kInt16
                                                : quant::Accuracy::kFloat;
        part.layout = quant::PlanPack(part.weight.block_format(), part.weight.n, k_, accuracy,
                                      part.weight.g_idx != nullptr);
      } else if (part.weight.data->elements() != CheckedMul(part.weight.n, k_)) {
        Throw(Code::kInvalidModel, "node ", node.name, ": the weight has shape ",
              part.weight.data->shape.ToString(), ", expected ", part.weight.n, " x ", k_);
      }
      parts_.push_back(std::move(part));
    }
  }

  std::vector<kernels::PrepackRequirement> PlanPrepack() const override {
    std::vector<kernels::PrepackRequirement> out;
    for (size_t p = 0; p < parts_.size(); ++p) {
      const Part& part = parts_[p];
      kernels::PrepackRequirement need;
      const int base = 1 + static_cast<int>(p) * kInputsPerPart;
      if (part.weight.dense()) {
        need.bytes = dense::PackedBBytes(part.weight.n, k_, part.weight.data->dtype);
        need.replaces = {base};
        need.share_key = StrCat(part.weight.format, " ", part.weight.n, "x", k_);
      } else {
        need.bytes = part.layout.bytes;
        need.replaces = {base, base + 1, base + 2, base + 3};
        need.share_key = StrCat(part.layout.Name(), " ", part.weight.n, "x", k_);
      }
      out.push_back(std::move(need));
    }
    return out;
  }

  void Prepack(int index, std::byte* out, ThreadTeam& team) override {
    const Part& part = parts_[static_cast<size_t>(index)];
    const WeightSpec& w = part.weight;
    if (w.dense()) {
      const bool transposed = w.format == "dense_nk";
      dense::PackB(team, {w.data->data().data(), w.data->dtype}, transposed, transposed ? k_ : w.n, w.n, k_,
                   out);
    } else {
      const BlockWeightView view = w.view();
      CheckView(view);
      // Ranges of groups, large enough to read [K, N] sources well.
      const int64_t step = 16;
      team.Run(CeilDiv(part.layout.groups, step), [&](int64_t task, int) {
        quant::Pack(view, part.layout, task * step, std::min(part.layout.groups, (task + 1) * step), out);
      });
    }
    ReleasePages(*w.data);
  }

  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    const int64_t m = shapes.inputs[0].shape.ElementsUpper() / k_;
    const DType dtype = shapes.inputs[0].dtype;
    size_t gemm = 0, activations = 0;
    int64_t widest = 0;
    for (const Part& part : parts_) {
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
    for (const Part& part : parts_)
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
      const Part& part = parts_[p];
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
  dense::GemmArgs Args(const Part& part, int64_t m, DType dtype) const {
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
  std::vector<Part> parts_;
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
