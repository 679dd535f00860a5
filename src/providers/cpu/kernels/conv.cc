/// Conv and com.microsoft:FusedConv: a convolution, its bias, an addend and an activation.
#include <limits>

#include "core/error.h"
#include "providers/cpu/kernels/attention_common.h"
#include "providers/cpu/kernels/conv_form.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/tensor_families.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

struct Activation {
  dense::ConvActivation kind = dense::ConvActivation::kNone;
  float alpha = 0, beta = 0;
};

/// Attributes `activation` and `activation_params`: those of ONNX Runtime, and Silu, HardSwish and Gelu.
Activation ReadActivation(const KernelInfo& info) {
  using dense::ConvActivation;
  const std::string name = info.node.Str("activation", "");
  const auto params = info.node.FloatsView("activation_params");
  const auto param = [&](size_t i, float def) { return i < params.size() ? params[i] : def; };
  if (name.empty()) return {};
  if (name == "Relu") return {ConvActivation::kRelu};
  if (name == "Clip")
    return {ConvActivation::kClip, param(0, std::numeric_limits<float>::lowest()),
            param(1, std::numeric_limits<float>::max())};
  if (name == "LeakyRelu") return {ConvActivation::kLeakyRelu, param(0, 0.01f)};
  if (name == "Sigmoid") return {ConvActivation::kSigmoid};
  if (name == "Tanh") return {ConvActivation::kTanh};
  if (name == "HardSigmoid") return {ConvActivation::kHardSigmoid, param(0, 0.2f), param(1, 0.5f)};
  if (name == "HardSwish") return {ConvActivation::kHardSwish};
  if (name == "Silu") return {ConvActivation::kSilu, param(0, 1)};
  if (name == "Gelu") return {ConvActivation::kGelu};
  info.Unsupported("activation ", name);
}

class ConvKernel final : public Kernel {
 public:
  explicit ConvKernel(const KernelInfo& info) : form_(info, 0, 1), activation_(ReadActivation(info)) {}

  std::vector<kernels::PrepackRequirement> PlanPrepack() const override { return form_.PlanPrepack(); }
  void Prepack(int, std::byte* out, ThreadTeam& team) override { form_.Prepack(out, team); }
  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    form_.Declare(shapes, needs);
  }

  void Compute(KernelContext& context) const override {
    const TensorView& y = *context.output(0);
    if (y.elements() == 0) return;
    dense::ConvArgs args = form_.Args(context);
    args.bias = ArrayOf(context.input(2));
    if (const TensorView* z = context.input(3)) {
      if (z->shape != y.shape || z->dtype != y.dtype)
        Throw(Code::kInvalidModel, "addend of shape ", z->shape.ToString(), " and type ", NameOf(z->dtype),
              ", expected ", y.shape.ToString());
      args.residual = ArrayOf(z);
    }
    args.activation = activation_.kind;
    args.alpha = activation_.alpha;
    args.beta = activation_.beta;
    form_.Run(context, args);
  }

 private:
  ConvForm form_;
  Activation activation_;
};

/// ConvInteger: x, w, x_zero?, w_zero?. QLinearConv: x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero,
/// bias?. Sums are exact.
class IntegerConvKernel final : public Kernel {
 public:
  explicit IntegerConvKernel(const KernelInfo& info)
      : scaled_(info.node.op == "QLinearConv"), form_(info, 0, scaled_ ? 3 : 1, scaled_ ? 5 : 3) {}

  std::vector<kernels::PrepackRequirement> PlanPrepack() const override { return form_.PlanPrepack(); }
  void Prepack(int, std::byte* out, ThreadTeam& team) override { form_.Prepack(out, team); }
  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    form_.Declare(shapes, needs);
    if (!scaled_) return;
    const int64_t scales = shapes.inputs[4].shape.ElementsUpper();
    if (scales != ops::kUnbounded)
      needs.push_back({static_cast<size_t>(scales) * sizeof(float), kScales, 64});
  }

  void Compute(KernelContext& context) const override {
    const TensorView& y = *context.output(0);
    if (y.elements() == 0) return;
    dense::ConvArgs args = form_.Args(context);
    args.x_zero = ZeroPoint(context.input(2));
    if (scaled_) {
      const TensorView& w_scale = *context.input(4);
      const int64_t n = w_scale.elements(), filters = args.groups * args.filters;
      for (int i : {1, 6})
        if (context.input(i)->elements() != 1) Throw(Code::kInvalidModel, "input ", i, " is not one scale");
      if (n != 1 && n != filters) Throw(Code::kInvalidModel, n, " scales for ", filters, " filters");
      auto* scales = static_cast<float*>(Workspace(context, kScales, static_cast<size_t>(n) * sizeof(float)));
      const float x_scale = *context.input(1)->as<float>(), y_scale = *context.input(6)->as<float>();
      for (int64_t i = 0; i < n; ++i) scales[i] = x_scale * w_scale.as<float>()[i] / y_scale;
      args.scales = scales;
      args.scale_stride = n == 1 ? 0 : 1;
      args.y_zero = ZeroPoint(context.input(7));
      args.bias = ArrayOf(context.input(8));
      if (args.bias.data && context.input(8)->elements() != filters)
        Throw(Code::kInvalidModel, "a bias of shape ", context.input(8)->shape.ToString());
    }
    form_.Run(context, args);
  }

 private:
  static constexpr int kScales = 2;
  static int ZeroPoint(const TensorView* v) {
    if (!v) return 0;
    if (v->elements() != 1) Throw(Code::kUnsupported, "zero points of shape ", v->shape.ToString());
    return v->dtype == DType::kInt8 ? *v->as<int8_t>() : *v->as<uint8_t>();
  }

  bool scaled_;
  ConvForm form_;
};

}  // namespace

void RegisterConv(kernels::Registry& registry) {
  constexpr kernels::TypeSet kBytes = {DType::kInt8, DType::kUInt8};
  for (std::string_view domain : {std::string_view(), graph::kMsDomain}) {
    kernels::KernelDef def;
    def.domain = domain;
    def.op = domain.empty() ? "Conv" : "FusedConv";
    def.types = {kernels::kFloats, kernels::kFloats, kernels::kFloats, kernels::kFloats};
    def.create = Make<ConvKernel>;
    registry.Add(std::move(def));
  }
  kernels::KernelDef integers;
  integers.op = "ConvInteger";
  integers.types = {kBytes, kBytes, kBytes, kBytes};
  integers.create = Make<IntegerConvKernel>;
  registry.Add(integers);
  integers.op = "QLinearConv";
  integers.types = {kBytes, kernels::kFloat32, kBytes, kBytes,         kernels::kFloat32,
                    kBytes, kernels::kFloat32, kBytes, {DType::kInt32}};
  registry.Add(std::move(integers));
}

}  // namespace ullage::cpu
