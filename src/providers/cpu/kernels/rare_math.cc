/// BitShift, PRelu, CumProd, Hardmax, and Dropout where its mask is wanted.
#include <algorithm>
#include <cstring>
#include <limits>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/kernels/broadcast.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"
#include "providers/cpu/kernels/operands.h"
#include "providers/cpu/kernels/types.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

/// out = fn(a, b) with spreading.
template <class T, class Fn>
void Spread(ThreadTeam& team, const TensorView& a, const TensorView& b, TensorView& out, const Fn& fn) {
  if (out.elements() == 0) return;
  const Broadcast loop(out.shape, &a.shape, &b.shape);
  team.Run(loop.rows(), [&](int64_t r, int) {
    const T* x = a.as<T>() + loop.offset(0, r);
    const T* y = b.as<T>() + loop.offset(1, r);
    T* z = out.as<T>() + r * loop.row_length();
    for (int64_t i = 0; i < loop.row_length(); ++i) z[i] = fn(x[i * loop.step(0)], y[i * loop.step(1)]);
  });
}

class BitShiftKernel final : public Kernel {
 public:
  explicit BitShiftKernel(const KernelInfo& info) {
    const std::string direction = info.node.Str("direction", "");
    if (direction != "LEFT" && direction != "RIGHT") info.Unsupported("direction \"", direction, "\"");
    left_ = direction == "LEFT";
  }
  void Compute(KernelContext& context) const override {
    const TensorView &a = *context.input(0), &b = *context.input(1);
    ForNumber(a.dtype, [&](auto t) {
      using T = decltype(t);
      if constexpr (std::is_integral_v<T>) {
        using U = std::make_unsigned_t<T>;
        constexpr int kBits = std::numeric_limits<U>::digits;
        Spread<T>(context.threads(), a, b, *context.output(0), [&](T x, T by) {
          // Shifting by the width or more leaves nothing but copies of the sign.
          const bool all = static_cast<uint64_t>(by) >= static_cast<uint64_t>(kBits);
          if (left_) return all ? T{0} : static_cast<T>(static_cast<U>(static_cast<uint64_t>(x) << by));
          return static_cast<T>(x >> (all ? kBits - 1 : static_cast<int>(by)) >>
                                (all && std::is_unsigned_v<T> ? 1 : 0));
        });
      }
    });
  }

 private:
  bool left_ = false;
};

class PReluKernel final : public Kernel {
 public:
  explicit PReluKernel(const KernelInfo&) {}
  void Compute(KernelContext& context) const override {
    const TensorView &x = *context.input(0), &slope = *context.input(1);
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      using A = typename Arithmetic<T>::Type;
      Spread<T>(context.threads(), x, slope, *context.output(0), [](T v, T s) {
        const A a = Load(v);
        return a < A{} ? Store<T>(static_cast<A>(a * Load(s))) : v;
      });
    });
  }
};

class CumProdKernel final : public Kernel {
 public:
  explicit CumProdKernel(const KernelInfo& info)
      : exclusive_(info.node.Int("exclusive", 0) != 0), reverse_(info.node.Int("reverse", 0) != 0) {}
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    const TensorView& a = *context.input(1);
    TensorView& y = *context.output(0);
    const int rank = x.shape.rank();
    const int axis = static_cast<int>(IndexIn(a, 0, rank));
    const int64_t n = x.shape[axis], inner = x.shape.elements(axis + 1, rank);
    const int64_t rows = x.shape.elements(0, axis) * inner;
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      using A = typename Arithmetic<T>::Type;
      for (int64_t row = 0; row < rows; ++row) {
        A product{1};
        for (int64_t k = 0; k < n; ++k) {
          const int64_t at = (row / inner * n + (reverse_ ? n - 1 - k : k)) * inner + row % inner;
          const A v = Load(x.as<T>()[at]);
          if (exclusive_) y.as<T>()[at] = Store<T>(product);
          product = static_cast<A>(product * v);
          if (!exclusive_) y.as<T>()[at] = Store<T>(product);
        }
      }
    });
  }

 private:
  bool exclusive_, reverse_;
};

/// 1 at the first largest element, else 0. Before opset 13 over all axes from `axis` on.
class HardmaxKernel final : public Kernel {
 public:
  explicit HardmaxKernel(const KernelInfo& info)
      : flatten_(info.node.opset < 13), axis_(info.node.Int("axis", flatten_ ? 1 : -1)) {}
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const int r = x.shape.rank(), axis = static_cast<int>(axis_ < 0 ? axis_ + r : axis_);
    const int64_t cols = flatten_ ? x.shape.elements(axis, r) : r ? x.shape[axis] : 1;
    const int64_t inner = flatten_ || r == 0 ? 1 : x.shape.elements(axis + 1, r);
    if (x.elements() == 0) return;
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      using A = typename Arithmetic<T>::Type;
      for (int64_t row = 0; row < x.elements() / cols; ++row) {
        const int64_t base = row / inner * cols * inner + row % inner;
        int64_t best = 0;
        for (int64_t k = 1; k < cols; ++k)
          if (Load(x.as<T>()[base + k * inner]) > Load(x.as<T>()[base + best * inner])) best = k;
        for (int64_t k = 0; k < cols; ++k) y.as<T>()[base + k * inner] = Store<T>(static_cast<A>(k == best));
      }
    });
  }

 private:
  bool flatten_;
  int64_t axis_;
};

/// Inference: the input, and a mask of ones.
class DropoutKernel final : public Kernel {
 public:
  explicit DropoutKernel(const KernelInfo&) {}
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    if (TensorView* y = context.output(0); y && y->data != x.data && x.bytes() > 0)
      std::memcpy(y->data, x.data, x.bytes());
    TensorView* mask = context.output(1);
    if (!mask) return;
    ForNumberOrBool(mask->dtype, [&](auto t) {
      using T = decltype(t);
      const T one = Store<T>(static_cast<typename Arithmetic<T>::Type>(1));
      std::fill_n(mask->as<T>(), mask->elements(), one);
    });
  }
};

}  // namespace

void RegisterRareMath(kernels::Registry& registry) {
  registry.Add(Define<BitShiftKernel>("", "BitShift", {kernels::kInts}));
  registry.Add(Define<PReluKernel>("", "PRelu", {kernels::kNumbers}));
  registry.Add(Define<CumProdKernel>("", "CumProd", {kernels::kNumbers}));
  registry.Add(Define<HardmaxKernel>("", "Hardmax", {kernels::kAllFloats}));
  registry.Add(Define<DropoutKernel>("", "Dropout", {kernels::kAllFloats}));
}

}  // namespace ullage::cpu
