/// SimplifiedLayerNormalization, RMSNormalization, LayerNormalization and their Skip forms.
#include "providers/cpu/dense/norm.h"
#include "core/error.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

dense::ConstArray ArrayOf(const TensorView* v) {
  return v ? dense::ConstArray{v->data, v->dtype} : dense::ConstArray{};
}

class NormKernel final : public Kernel {
 public:
  explicit NormKernel(const KernelInfo& info) {
    const graph::Node& n = info.node;
    rms_ = n.op != "LayerNormalization";
    axis_ = n.Int("axis", -1);
    epsilon_ = n.Float("epsilon", 1e-5f);
    round_ = n.op == "RMSNormalization";
    if (n.Int("stash_type", 1) != 1) info.Unsupported("stash_type ", n.Int("stash_type", 1));
  }
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + x.shape.rank() : axis_);
    dense::NormArgs args;
    args.rows = x.shape.elements(0, axis);
    args.cols = x.shape.elements(axis, x.shape.rank());
    args.rms = rms_;
    args.epsilon = epsilon_;
    args.round_before_scale = round_;
    args.x = ArrayOf(&x);
    args.scale = ArrayOf(context.input(1));
    if (!rms_) args.shift = ArrayOf(context.input(2));
    const auto fits = [&](int i) {
      const TensorView* v = context.input(i);
      if (v && v->shape.elements() != args.cols)
        Throw(Code::kInvalidModel, "input ", i, " has shape ", v->shape.ToString(), ", expected ", args.cols,
              " elements");
    };
    fits(1);
    if (!rms_) fits(2);
    args.x_pitch = args.y_pitch = args.cols;
    args.y = {context.output(0)->data, context.output(0)->dtype};
    // SimplifiedLayerNormalization has the inverse deviation as output 1, LayerNormalization the mean.
    if (TensorView* v = context.output(rms_ ? 1 : 2)) args.inv_std = Statistics(*v);
    if (!rms_)
      if (TensorView* v = context.output(1)) args.mean = Statistics(*v);
    dense::Norm(context.threads(), args);
  }

 private:
  static float* Statistics(TensorView& v) {
    if (v.dtype != DType::kFloat) Throw(Code::kUnsupported, "statistics of type ", NameOf(v.dtype));
    return v.as<float>();
  }
  bool rms_ = true, round_ = false;
  int64_t axis_ = -1;
  float epsilon_ = 0;
};

class SkipNormKernel final : public Kernel {
 public:
  explicit SkipNormKernel(const KernelInfo& info) {
    rms_ = info.node.op == "SkipSimplifiedLayerNormalization";
    epsilon_ = info.node.Float("epsilon", 1e-12f);
  }
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    const TensorView& skip = *context.input(1);
    dense::NormArgs args;
    args.cols = x.shape.rank() ? x.shape.at(-1) : 1;
    args.rows = args.cols ? x.shape.elements() / args.cols : 0;
    args.rms = rms_;
    args.epsilon = epsilon_;
    args.x = ArrayOf(&x);
    args.skip = ArrayOf(&skip);
    args.skip_rows = args.cols ? skip.shape.elements() / args.cols : 0;
    if (args.rows > 0 && (args.skip_rows == 0 || args.rows % args.skip_rows != 0))
      Throw(Code::kInvalidModel, "skip of shape ", skip.shape.ToString(), " does not spread over ",
            x.shape.ToString());
    args.scale = ArrayOf(context.input(2));
    if (!rms_) args.shift = ArrayOf(context.input(3));
    args.skip_bias = ArrayOf(context.input(rms_ ? 3 : 4));
    args.x_pitch = args.y_pitch = args.skip_pitch = args.sum_pitch = args.cols;
    args.y = {context.output(0)->data, context.output(0)->dtype};
    if (TensorView* v = context.output(1)) args.mean = v->as<float>();
    if (TensorView* v = context.output(2)) args.inv_std = v->as<float>();
    if (TensorView* v = context.output(3)) args.sum = {v->data, v->dtype};
    dense::Norm(context.threads(), args);
  }

 private:
  bool rms_ = true;
  float epsilon_ = 0;
};

}  // namespace

void RegisterNorm(kernels::Registry& registry) {
  const std::vector<kernels::TypeSet> types(3, kernels::kFloats);
  registry.Add(Define<NormKernel>("", "SimplifiedLayerNormalization", types));
  registry.Add(Define<NormKernel>(graph::kMsDomain, "SimplifiedLayerNormalization", types));
  registry.Add(Define<NormKernel>("", "RMSNormalization", types));
  registry.Add(Define<NormKernel>("", "LayerNormalization", types));
  registry.Add(Define<SkipNormKernel>(graph::kMsDomain, "SkipSimplifiedLayerNormalization", types));
  registry.Add(Define<SkipNormKernel>(graph::kMsDomain, "SkipLayerNormalization", types));
}

}  // namespace ullage::cpu
