/// Normalisation per channel of [N, C, spatial..]: BatchNormalization, InstanceNormalization,
/// GroupNormalization, MeanVarianceNormalization over the same planes, LRN.
#include <algorithm>
#include <cmath>

#include "core/checked.h"
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

/// Sum of map(x[i]) in independent chains.
template <class T, class Map>
double SumOf(const T* x, int64_t n, const Map& map) {
  constexpr int64_t kParts = 8;
  double parts[kParts] = {};
  int64_t i = 0;
  for (; i + kParts <= n; i += kParts)
    for (int64_t j = 0; j < kParts; ++j) parts[j] += map(static_cast<double>(Load(x[i + j])));
  for (; i < n; ++i) parts[0] += map(static_cast<double>(Load(x[i])));
  for (int64_t j = 1; j < kParts; ++j) parts[0] += parts[j];
  return parts[0];
}

template <class T>
void Affine(const T* x, int64_t n, double scale, double shift, T* y) {
  using A = typename Arithmetic<T>::Type;
  const A a = static_cast<A>(scale), b = static_cast<A>(shift);
  for (int64_t i = 0; i < n; ++i) y[i] = Store<T>(Load(x[i]) * a + b);
}

void CheckParameters(KernelContext& context, int first, int last, int64_t wanted) {
  for (int i = first; i < last; ++i) {
    const TensorView& v = *context.input(i);
    if (v.elements() != wanted)
      Throw(Code::kInvalidModel, "input ", i, " has shape ", v.shape.ToString(), ", expected ", wanted,
            " elements");
  }
}

/// X, scale, B, mean, var -> Y, and in training the running mean and variance.
class BatchNormKernel final : public Kernel {
 public:
  explicit BatchNormKernel(const KernelInfo& info)
      : epsilon_(info.node.Float("epsilon", 1e-5f)),
        momentum_(info.node.Float("momentum", 0.9f)),
        training_(info.node.Int("training_mode", 0) != 0) {
    if (info.node.opset < 9 && info.node.Int("spatial", 1) == 0) info.Unsupported("spatial = 0");
    if (info.node.opset < 7 && info.node.Int("is_test", 0) == 0) info.Unsupported("is_test = 0");
  }

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const int rank = x.shape.rank();
    const int64_t channels = rank > 1 ? x.shape[1] : 1, batch = rank > 0 ? x.shape[0] : 1;
    const int64_t size = rank > 2 ? x.shape.elements(2, rank) : 1;
    CheckParameters(context, 1, 5, channels);
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      if constexpr (std::is_floating_point_v<typename Arithmetic<T>::Type>) {
        if (training_) return Train<T>(context, x, y, batch, channels, size);
        // Few elements per channel: rows of channels rather than planes.
        const int64_t per = std::max<int64_t>(1, 4096 / std::max<int64_t>(size, 1));
        dense::RunTasks(
            context.threads(), CeilDiv(batch * channels, per), x.elements(), [&](int64_t task, int) {
              for (int64_t p = task * per; p < std::min(batch * channels, (task + 1) * per); ++p) {
                const int64_t c = p % channels;
                Plane(context, c, NumberOf(*context.input(3), c), NumberOf(*context.input(4), c),
                      x.as<T>() + p * size, size, y.as<T>() + p * size);
              }
            });
      }
    });
  }

 private:
  template <class T>
  void Plane(KernelContext& context, int64_t c, double mean, double variance, const T* x, int64_t n,
             T* y) const {
    const double scale = NumberOf(*context.input(1), c) / std::sqrt(variance + static_cast<double>(epsilon_));
    Affine(x, n, scale, NumberOf(*context.input(2), c) - mean * scale, y);
  }

  template <class T>
  void Train(KernelContext& context, const TensorView& x, TensorView& y, int64_t batch, int64_t channels,
             int64_t size) const {
    const double count = static_cast<double>(batch * size);
    dense::RunTasks(context.threads(), channels, x.elements(), [&](int64_t c, int) {
      const auto at = [&](int64_t b) { return x.as<T>() + (b * channels + c) * size; };
      double mean = 0, variance = 0;
      for (int64_t b = 0; b < batch; ++b) mean += SumOf(at(b), size, [](double v) { return v; });
      mean /= count;
      for (int64_t b = 0; b < batch; ++b)
        variance += SumOf(at(b), size, [&](double v) { return (v - mean) * (v - mean); });
      variance /= count;
      for (int i = 1; i < 3; ++i) {
        TensorView* running = context.output(i);
        if (!running) continue;
        const double old = NumberOf(*context.input(i + 2), c), now = i == 1 ? mean : variance;
        const double m = static_cast<double>(momentum_);
        SetNumber(*running, c, old * m + now * (1 - m));
      }
      for (int64_t b = 0; b < batch; ++b)
        Plane(context, c, mean, variance, at(b), size, y.as<T>() + (b * channels + c) * size);
    });
  }
  static void SetNumber(TensorView& v, int64_t i, double value) {
    ForNumber(v.dtype, [&](auto t) {
      using T = decltype(t);
      v.as<T>()[i] = Store<T>(static_cast<typename Arithmetic<T>::Type>(value));
    });
  }

  float epsilon_, momentum_;
  bool training_;
};

/// X, scale, bias: each group of channels of each image has mean 0 and variance 1, then scale and shift per
/// channel (or per group, GroupNormalization 18).
class GroupNormKernel final : public Kernel {
 public:
  explicit GroupNormKernel(const KernelInfo& info)
      : epsilon_(info.node.Float("epsilon", 1e-5f)),
        groups_(info.node.op == "GroupNormalization" ? info.node.RequiredInt("num_groups") : 0) {
    if (groups_ < 0) info.Unsupported("num_groups ", groups_);
  }

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const int64_t channels = x.shape[1], groups = groups_ ? groups_ : channels;
    if (x.elements() == 0) return;
    if (channels % groups != 0) Throw(Code::kInvalidModel, channels, " channels in ", groups, " groups");
    const int64_t size = x.shape.elements(2, x.shape.rank()), wide = channels / groups;
    const bool per_group = context.input(1)->elements() == groups && groups != channels;
    CheckParameters(context, 1, 3, per_group ? groups : channels);
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      if constexpr (std::is_floating_point_v<typename Arithmetic<T>::Type>) {
        dense::RunTasks(context.threads(), x.shape[0] * groups, 2 * x.elements(), [&](int64_t task, int) {
          const int64_t g = task % groups, n = wide * size;
          const T* from = x.as<T>() + task * n;
          const double mean = SumOf(from, n, [](double v) { return v; }) / static_cast<double>(n);
          const double variance =
              SumOf(from, n, [&](double v) { return (v - mean) * (v - mean); }) / static_cast<double>(n);
          const double inverse = 1 / std::sqrt(variance + static_cast<double>(epsilon_));
          for (int64_t c = 0; c < wide; ++c) {
            const int64_t parameter = per_group ? g : g * wide + c;
            const double scale = NumberOf(*context.input(1), parameter) * inverse;
            Affine(from + c * size, size, scale, NumberOf(*context.input(2), parameter) - mean * scale,
                   y.as<T>() + task * n + c * size);
          }
        });
      }
    });
  }

 private:
  float epsilon_;
  int64_t groups_;
};

/// y = x / (bias + alpha / size * sum of x^2 over `size` neighbouring channels)^beta
class LrnKernel final : public Kernel {
 public:
  explicit LrnKernel(const KernelInfo& info)
      : alpha_(info.node.Float("alpha", 1e-4f)),
        beta_(info.node.Float("beta", 0.75f)),
        bias_(info.node.Float("bias", 1)),
        size_(info.node.RequiredInt("size")) {
    if (size_ < 1) info.Unsupported("size ", size_);
  }

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    if (x.shape.rank() < 2 || x.elements() == 0) return;
    const int64_t channels = x.shape[1], size = x.shape.elements(2, x.shape.rank());
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      using A = typename Arithmetic<T>::Type;
      if constexpr (std::is_floating_point_v<A>) {
        dense::RunTasks(
            context.threads(), x.shape[0] * channels, x.elements() * (size_ + 16), [&](int64_t p, int) {
              const int64_t c = p % channels;
              const int64_t first = std::max<int64_t>(0, c - (size_ - 1) / 2);
              const int64_t last = std::min(channels - 1, c + size_ / 2);
              const T* image = x.as<T>() + (p - c) * size;
              T* out = y.as<T>() + p * size;
              for (int64_t i = 0; i < size; ++i) {
                A sum = 0;
                for (int64_t k = first; k <= last; ++k) {
                  const A v = Load(image[k * size + i]);
                  sum += v * v;
                }
                const A base = static_cast<A>(bias_) + static_cast<A>(alpha_) / static_cast<A>(size_) * sum;
                out[i] = Store<T>(Load(image[c * size + i]) / std::pow(base, static_cast<A>(beta_)));
              }
            });
      }
    });
  }

 private:
  float alpha_, beta_, bias_;
  int64_t size_;
};

}  // namespace

void RegisterChannelNorm(kernels::Registry& registry) {
  const std::vector<kernels::TypeSet> types(5, kernels::kAllFloats);
  registry.Add(Define<BatchNormKernel>("", "BatchNormalization", types));
  registry.Add(Define<GroupNormKernel>("", "InstanceNormalization", types));
  registry.Add(Define<GroupNormKernel>("", "GroupNormalization", types));
  registry.Add(Define<LrnKernel>("", "LRN", types));
}

}  // namespace ullage::cpu
