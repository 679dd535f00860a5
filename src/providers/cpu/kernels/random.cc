/// Random numbers: RandomNormal, RandomUniform, both Like, Bernoulli, Multinomial.
///
/// Number i of call c is a function of (seed, c, i) alone, so that threads do not show. Without the attribute
/// `seed` the node's name is the seed: nodes differ, and so do runs of one session; sessions repeat.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <numbers>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/element.h"
#include "providers/cpu/kernels/tensor_families.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

/// The finaliser of splitmix64.
uint64_t Mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

class Stream {
 public:
  Stream(uint64_t seed, uint64_t call) : key_(Mix(seed + Mix(call + kStep))) {}
  /// In [0, 1), a multiple of 2^-53.
  double Uniform(int64_t i) const {
    return static_cast<double>(Mix(key_ + (static_cast<uint64_t>(i) + 1) * kStep) >> 11) * 0x1p-53;
  }
  double Normal(int64_t i) const {
    const double radius = std::sqrt(-2 * std::log(1 - Uniform(2 * i)));
    return radius * std::cos(2 * std::numbers::pi * Uniform(2 * i + 1));
  }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
  uint64_t key_;
};

uint64_t SeedOf(const KernelInfo& info) {
  if (info.node.has_attr("seed")) return std::bit_cast<uint32_t>(info.node.Float("seed", 0));
  uint64_t seed = 0;
  for (const char c : info.node.name) seed = Mix(seed ^ static_cast<uint8_t>(c));
  return Mix(seed + 1);
}

constexpr int64_t kTaskElements = 4096;

/// Calls fn(T{}, first, last) for parts of a tensor of `count` elements.
template <class Fn>
void ForParts(KernelContext& context, DType dtype, int64_t count, const Fn& fn) {
  ForNumberOrBool(dtype, [&](auto type) {
    context.threads().Run(CeilDiv(count, kTaskElements), [&](int64_t task, int) {
      fn(type, task * kTaskElements, std::min(count, (task + 1) * kTaskElements));
    });
  });
}

class DistributionKernel final : public Kernel {
 public:
  explicit DistributionKernel(const KernelInfo& info)
      : normal_(info.node.op.find("Normal") != std::string::npos), seed_(SeedOf(info)) {
    const graph::Node& n = info.node;
    first_ = n.Float(normal_ ? "mean" : "low", 0);
    second_ = n.Float(normal_ ? "scale" : "high", 1);
    const DType type = info.outputs[0].dtype;
    if (!kernels::kAllFloats.contains(type)) info.Unsupported("random numbers of type ", NameOf(type));
  }

  void Compute(KernelContext& context) const override {
    TensorView& y = *context.output(0);
    const Stream stream(seed_, calls_.fetch_add(1, std::memory_order_relaxed));
    ForParts(context, y.dtype, y.elements(), [&](auto type, int64_t begin, int64_t end) {
      using T = decltype(type);
      using A = typename Arithmetic<T>::Type;
      for (int64_t i = begin; i < end; ++i) {
        const double v =
            normal_ ? first_ + second_ * stream.Normal(i) : first_ + (second_ - first_) * stream.Uniform(i);
        y.as<T>()[i] = Store<T>(static_cast<A>(v));
      }
    });
  }

 private:
  bool normal_;
  uint64_t seed_;
  double first_ = 0, second_ = 1;
  mutable std::atomic<uint64_t> calls_{0};
};

class BernoulliKernel final : public Kernel {
 public:
  explicit BernoulliKernel(const KernelInfo& info) : seed_(SeedOf(info)) {}

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const Stream stream(seed_, calls_.fetch_add(1, std::memory_order_relaxed));
    ForParts(context, y.dtype, y.elements(), [&](auto type, int64_t begin, int64_t end) {
      using T = decltype(type);
      using A = typename Arithmetic<T>::Type;
      for (int64_t i = begin; i < end; ++i)
        y.as<T>()[i] = Store<T>(static_cast<A>(stream.Uniform(i) < NumberOf(x, i) ? 1 : 0));
    });
  }

 private:
  uint64_t seed_;
  mutable std::atomic<uint64_t> calls_{0};
};

/// Rows of logarithms of weights -> numbers of classes.
class MultinomialKernel final : public Kernel {
 public:
  explicit MultinomialKernel(const KernelInfo& info) : seed_(SeedOf(info)) {
    const DType type = info.outputs[0].dtype;
    if (type != DType::kInt32 && type != DType::kInt64) info.Unsupported("samples of type ", NameOf(type));
  }

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const int64_t classes = x.shape[1], samples = y.shape[1];
    if (y.elements() == 0) return;
    if (classes == 0) Throw(Code::kInvalidInput, "samples of no classes");
    const Stream stream(seed_, calls_.fetch_add(1, std::memory_order_relaxed));
    context.threads().Run(y.shape[0], [&](int64_t row, int) {
      double most = -INFINITY, total = 0;
      for (int64_t c = 0; c < classes; ++c) most = std::max(most, NumberOf(x, row * classes + c));
      const auto weight = [&](int64_t c) { return std::exp(NumberOf(x, row * classes + c) - most); };
      for (int64_t c = 0; c < classes; ++c) total += weight(c);
      for (int64_t s = 0; s < samples; ++s) {
        const int64_t at = row * samples + s;
        double left = stream.Uniform(at) * total;
        int64_t chosen = 0;
        for (; chosen + 1 < classes; ++chosen)
          if ((left -= weight(chosen)) < 0) break;
        if (y.dtype == DType::kInt32)
          y.as<int32_t>()[at] = static_cast<int32_t>(chosen);
        else
          y.as<int64_t>()[at] = chosen;
      }
    });
  }

 private:
  uint64_t seed_;
  mutable std::atomic<uint64_t> calls_{0};
};

}  // namespace

void RegisterRandom(kernels::Registry& registry) {
  for (std::string_view op : {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"})
    registry.Add(Define<DistributionKernel>("", op));
  registry.Add(Define<BernoulliKernel>("", "Bernoulli", {kernels::kAllFloats}));
  registry.Add(Define<MultinomialKernel>("", "Multinomial", {kernels::kAllFloats}));
}

}  // namespace ullage::cpu
