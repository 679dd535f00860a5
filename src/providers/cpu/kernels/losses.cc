/// NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss.
#include <cmath>
#include <optional>

#include "core/error.h"
#include "providers/cpu/dense/tasks.h"
#include "providers/cpu/kernels/attention_common.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/element.h"
#include "providers/cpu/kernels/tensor_families.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

enum class Reduction { kNone, kSum, kMean };

/// scores (logarithms of probabilities; SoftmaxCrossEntropyLoss: before the softmax) [N, C, d..],
/// target [N, d..], weight? [C] -> loss, and the logarithms.
class ClassLossKernel final : public Kernel {
 public:
  explicit ClassLossKernel(const KernelInfo& info) : softmax_(info.node.op == "SoftmaxCrossEntropyLoss") {
    const std::string reduction = info.node.Str("reduction", "mean");
    reduction_ = reduction == "none"  ? Reduction::kNone
                 : reduction == "sum" ? Reduction::kSum
                                      : Reduction::kMean;
    if (info.node.has_attr("ignore_index")) ignore_ = info.node.Int("ignore_index", 0);
  }

  void Compute(KernelContext& context) const override {
    const TensorView &x = *context.input(0), &target = *context.input(1);
    const TensorView* weight = context.input(2);
    TensorView& y = *context.output(0);
    TensorView* logarithms = context.output(1);
    const int64_t classes = x.shape[1], inner = x.shape.elements(2, x.shape.rank()),
                  points = target.elements();
    if (points != x.shape[0] * inner)
      Throw(Code::kInvalidInput, "targets of shape ", target.shape.ToString(), " for ", x.shape.ToString());
    if (weight && weight->elements() != classes)
      Throw(Code::kInvalidModel, "weights of shape ", weight->shape.ToString(), " for ", classes, " classes");
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      using A = typename Arithmetic<T>::Type;
      const auto first = [&](int64_t point) {
        return point / inner * classes * inner + point % inner;  // of the point's scores, `inner` apart
      };
      double total = 0, weights = 0;
      for (int64_t p = 0; p < points; ++p) {
        const T* scores = x.as<T>() + first(p);
        const double shift = softmax_ ? LogSum(scores, classes, inner) : 0;
        if (logarithms)
          for (int64_t c = 0; c < classes; ++c)
            logarithms->as<T>()[first(p) + c * inner] =
                Store<T>(static_cast<A>(static_cast<double>(Load(scores[c * inner])) - shift));
        const int64_t c = IndexOf(target, p);
        double loss = 0;
        if (c != ignore_) {
          if (c < 0 || c >= classes) Throw(Code::kInvalidInput, "target ", c, " of ", classes, " classes");
          const double w = weight ? NumberOf(*weight, c) : 1;
          loss = -(static_cast<double>(Load(scores[c * inner])) - shift) * w;
          weights += w;
        }
        if (reduction_ == Reduction::kNone) y.as<T>()[p] = Store<T>(static_cast<A>(loss));
        total += loss;
      }
      if (reduction_ == Reduction::kNone) return;
      if (reduction_ == Reduction::kMean) total /= weights;
      y.as<T>()[0] = Store<T>(static_cast<A>(total));
    });
  }

 private:
  template <class T>
  static double LogSum(const T* x, int64_t n, int64_t stride) {
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; ++i) most = std::max(most, static_cast<double>(Load(x[i * stride])));
    if (std::isinf(most)) return most;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(Load(x[i * stride])) - most);
    return most + std::log(sum);
  }

  bool softmax_;
  Reduction reduction_;
  std::optional<int64_t> ignore_;
};

}  // namespace

void RegisterLosses(kernels::Registry& registry) {
  for (std::string_view op : {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}) {
    kernels::KernelDef def;
    def.op = op;
    def.types = {kernels::kAllFloats, {DType::kInt32, DType::kInt64}, kernels::kAllFloats};
    def.create = Make<ClassLossKernel>;
    registry.Add(std::move(def));
  }
}

}  // namespace ullage::cpu
