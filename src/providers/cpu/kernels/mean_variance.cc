/// MeanVarianceNormalization: (x - mean) / (deviation + 1e-9) over the axes, in double.
#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/kernels/attention_common.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/tensor_families.h"
#include "providers/cpu/kernels/types.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

class MeanVarianceKernel final : public Kernel {
 public:
  explicit MeanVarianceKernel(const KernelInfo& info) {
    const auto axes = info.node.IntsView("axes");
    axes_ = axes.empty() ? std::vector<int64_t>{0, 2, 3} : std::vector<int64_t>(axes.begin(), axes.end());
    const int rank = info.inputs[0].shape.rank;
    for (int64_t& axis : axes_) {
      if (rank >= 0 && (axis < -rank || axis >= rank))
        Throw(Code::kInvalidModel, "node ", info.node.name, ": axis ", axis, " of a tensor of rank ", rank);
    }
  }

  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    const auto& x = shapes.inputs[0].shape;
    if (x.rank < 0) return;
    int64_t kept = 1;
    for (int d = 0; d < x.rank; ++d) {
      if (Reduced(d, x.rank)) continue;
      if (!x[d].bounded()) return;
      kept = CheckedMul(kept, std::max<int64_t>(x[d].upper, 1), "workspace");
    }
    needs.push_back({CheckedMul(static_cast<size_t>(kept), 2 * sizeof(double), "workspace"), 0, 64});
  }

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const int rank = x.shape.rank();
    const int64_t count = x.elements();
    if (count == 0) return;
    for (int64_t axis : axes_)
      if (axis < -rank || axis >= rank)
        Throw(Code::kInvalidModel, "axis ", axis, " of a tensor of rank ", rank);
    int64_t kept = 1;
    int64_t strides[kMaxRank] = {};  // of the kept elements
    for (int d = rank - 1; d >= 0; --d) {
      if (Reduced(d, rank)) continue;
      strides[d] = kept;
      kept *= x.shape[d];
    }
    auto* mean = static_cast<double*>(Workspace(context, 0, static_cast<size_t>(kept) * 2 * sizeof(double)));
    double* const spread = mean + kept;
    std::fill_n(mean, 2 * kept, 0.0);
    const double each = static_cast<double>(kept) / static_cast<double>(count);
    ForNumber(x.dtype, [&](auto type) {
      using T = decltype(type);
      const T* from = x.as<T>();
      const auto value = [&](int64_t i) { return static_cast<double>(Load(from[i])); };
      ForElements(x.shape, strides, [&](int64_t i, int64_t k) { mean[k] += value(i) * each; });
      ForElements(x.shape, strides, [&](int64_t i, int64_t k) {
        const double off = value(i) - mean[k];
        spread[k] += off * off * each;
      });
      for (int64_t k = 0; k < kept; ++k) spread[k] = std::sqrt(spread[k]) + 1e-9;
      ForElements(x.shape, strides, [&](int64_t i, int64_t k) {
        using A = typename Arithmetic<T>::Type;
        y.as<T>()[i] = Store<T>(static_cast<A>((value(i) - mean[k]) / spread[k]));
      });
    });
  }

 private:
  bool Reduced(int d, int rank) const {
    return std::any_of(axes_.begin(), axes_.end(),
                       [&](int64_t axis) { return (axis < 0 ? axis + rank : axis) == d; });
  }

  /// Calls fn(element, the kept element that it belongs to) for all elements in order.
  template <class Fn>
  static void ForElements(const Shape& shape, const int64_t* strides, const Fn& fn) {
    int64_t at[kMaxRank] = {};
    int64_t kept = 0;
    const int64_t count = shape.elements();
    for (int64_t i = 0; i < count; ++i) {
      fn(i, kept);
      for (int d = shape.rank() - 1; d >= 0; --d) {
        kept += strides[d];
        if (++at[d] < shape[d]) break;
        kept -= strides[d] * shape[d];
        at[d] = 0;
      }
    }
  }

  std::vector<int64_t> axes_;
};

}  // namespace

void RegisterMeanVariance(kernels::Registry& registry) {
  registry.Add(Define<MeanVarianceKernel>("", "MeanVarianceNormalization", {kernels::kAllFloats}));
}

}  // namespace ullage::cpu
