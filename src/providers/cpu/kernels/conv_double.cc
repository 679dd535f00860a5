/// Conv in double, output by output: for graphs that are computed in double for the sake of a check.
#include <algorithm>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/tensor_families.h"
#include "providers/cpu/kernels/window.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

class DoubleConvKernel final : public Kernel {
 public:
  explicit DoubleConvKernel(const KernelInfo& info)
      : windows_(Windows::Read(info, RankOf(info, 0))), groups_(info.node.Int("group", 1)) {}

  void Compute(KernelContext& context) const override {
    const TensorView &x = *context.input(0), &w = *context.input(1);
    const TensorView* bias = context.input(2);
    TensorView& y = *context.output(0);
    if (y.elements() == 0) return;
    const int64_t filters = w.shape[0], channels = w.shape[1];
    Axis axes[kMaxSpatial];
    for (int i = 0; i < windows_.spatial; ++i) {
      const auto at = static_cast<size_t>(i);
      Windows windows = windows_;
      windows.kernel[at] = w.shape[i + 2];
      Axis& axis = axes[i + kMaxSpatial - windows_.spatial];
      axis = {x.shape[i + 2],        y.shape[i + 2],
              w.shape[i + 2],        windows_.stride[at],
              windows_.dilation[at], windows.PadBefore(i, x.shape[i + 2], y.shape[i + 2])};
    }
    const auto plane = [&](auto member) { return axes[0].*member * axes[1].*member * axes[2].*member; };
    const int64_t in = plane(&Axis::in), taps = plane(&Axis::taps), out = plane(&Axis::out);
    context.threads().Run(x.shape[0] * filters, [&](int64_t task, int) {
      const int64_t n = task / filters, f = task % filters;
      const int64_t first = n * x.shape[1] + f / (filters / groups_) * channels;
      const double* from = x.as<double>() + first * in;
      const double* weights = w.as<double>() + f * channels * taps;
      double* to = y.as<double>() + task * out;
      for (int64_t d = 0; d < axes[0].out; ++d)
        for (int64_t h = 0; h < axes[1].out; ++h)
          for (int64_t v = 0; v < axes[2].out; ++v)
            *to++ = (bias ? bias->as<double>()[f] : 0.0) +
                    Sum(axes, {axes[0].Of(d), axes[1].Of(h), axes[2].Of(v)}, channels, from, weights);
    });
  }

 private:
  /// Where a window begins, and which of its taps are inside.
  struct Reads {
    int64_t start, first, last;
  };
  struct Axis {
    int64_t in = 1, out = 1, taps = 1, stride = 1, dilation = 1, pad = 0;
    Reads Of(int64_t o) const {
      const int64_t start = o * stride - pad;
      const int64_t first = start >= 0 ? 0 : CeilDiv(-start, dilation);
      return {start, first, start >= in ? 0 : std::min(taps, (in - 1 - start) / dilation + 1)};
    }
  };

  static double Sum(const Axis* axes, const std::array<Reads, kMaxSpatial>& at, int64_t channels,
                    const double* x, const double* w) {
    double sum = 0;
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t i = at[0].first; i < at[0].last; ++i)
        for (int64_t j = at[1].first; j < at[1].last; ++j) {
          const int64_t z = c * axes[0].in + at[0].start + i * axes[0].dilation;
          const double* row = x + (z * axes[1].in + at[1].start + j * axes[1].dilation) * axes[2].in;
          const double* taps = w + ((c * axes[0].taps + i) * axes[1].taps + j) * axes[2].taps;
          for (int64_t k = at[2].first; k < at[2].last; ++k)
            sum += row[at[2].start + k * axes[2].dilation] * taps[k];
        }
    return sum;
  }

  Windows windows_;
  int64_t groups_;
};

}  // namespace

void RegisterDoubleConv(kernels::Registry& registry) {
  constexpr kernels::TypeSet kDouble = {DType::kDouble};
  registry.Add(Define<DoubleConvKernel>("", "Conv", {kDouble, kDouble, kDouble}));
}

}  // namespace ullage::cpu
