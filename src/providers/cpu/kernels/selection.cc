/// TopK, OneHot, NonZero, EyeLike, LpNormalization.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/kernels/attention_common.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"
#include "providers/cpu/kernels/operands.h"
#include "providers/cpu/kernels/types.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

/// Equal values: the lower index first. NaN is the largest.
class TopKKernel final : public Kernel {
 public:
  explicit TopKKernel(const KernelInfo& info)
      : axis_(info.node.Int("axis", -1)), largest_(info.node.Int("largest", 1) != 0) {}

  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    const auto& s = shapes.inputs[0].shape;
    if (s.rank < 1) return;
    const int64_t bytes = UpperProduct({s[AxisOf(axis_, s.rank)].upper, shapes.threads, 8});
    if (bytes != ops::kUnbounded) needs.push_back({static_cast<size_t>(bytes), 0, 64});
  }

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView* values = context.output(0);
    TensorView* indices = context.output(1);
    const Shape& out = values ? values->shape : indices->shape;
    const int axis = AxisOf(axis_, x.shape.rank());
    const int64_t n = x.shape[axis], k = out[axis], inner = x.shape.elements(axis + 1, x.shape.rank());
    const int64_t rows = x.shape.elements(0, axis) * inner;
    if (k == 0 || rows == 0) return;
    auto* order = static_cast<int64_t*>(
        Workspace(context, 0, static_cast<size_t>(n) * static_cast<size_t>(context.threads().size()) * 8));
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      context.threads().Run(rows, [&](int64_t row, int worker) {
        const int64_t from = row / inner * n * inner + row % inner,
                      to = row / inner * k * inner + row % inner;
        const T* in = x.as<T>() + from;
        int64_t* mine = order + worker * n;
        for (int64_t i = 0; i < n; ++i) mine[i] = i;
        const auto before = [&](int64_t i, int64_t j) {
          const auto a = Load(in[i * inner]), b = Load(in[j * inner]);
          const bool a_nan = a != a, b_nan = b != b;
          if (a_nan != b_nan) return largest_ ? a_nan : b_nan;
          if (!a_nan && a != b) return largest_ ? a > b : a < b;
          return i < j;
        };
        std::partial_sort(mine, mine + k, mine + n, before);
        for (int64_t i = 0; i < k; ++i) {
          if (values) values->as<T>()[to + i * inner] = in[mine[i] * inner];
          if (indices) indices->as<int64_t>()[to + i * inner] = mine[i];
        }
      });
    });
  }

 private:
  int64_t axis_;
  bool largest_;
};

class OneHotKernel final : public Kernel {
 public:
  explicit OneHotKernel(const KernelInfo& info) : axis_(info.node.Int("axis", -1)) {}
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    const TensorView& values = *context.input(2);
    TensorView& y = *context.output(0);
    const int axis = AxisOf(axis_, y.shape.rank());
    const int64_t depth = y.shape[axis], inner = y.shape.elements(axis + 1, y.shape.rank());
    if (y.elements() == 0) return;
    ForBytes(y.dtype, [&](auto t) {
      using T = decltype(t);
      const T off = values.as<T>()[0], on = values.as<T>()[1];
      std::fill_n(y.as<T>(), y.elements(), off);
      ForNumber(x.dtype, [&](auto it) {
        using I = decltype(it);
        for (int64_t i = 0; i < x.elements(); ++i) {
          const auto raw = Load(x.as<I>()[i]);
          if (!(static_cast<double>(raw) >= -static_cast<double>(depth) &&
                static_cast<double>(raw) < static_cast<double>(depth)))
            continue;
          int64_t index = static_cast<int64_t>(raw);
          if (index < 0) index += depth;
          if (index >= depth) continue;
          y.as<T>()[(i / inner * depth + index) * inner + i % inner] = on;
        }
      });
    });
  }

 private:
  int64_t axis_;
};

class NonZeroKernel final : public Kernel {
 public:
  explicit NonZeroKernel(const KernelInfo&) {}
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const int rank = x.shape.rank();
    ForNumberOrBool(x.dtype, [&](auto t) {
      using T = decltype(t);
      const T* in = x.as<T>();
      const auto nonzero = [&](int64_t i) { return Load(in[i]) != typename Arithmetic<T>::Type{}; };
      int64_t count = 0;
      for (int64_t i = 0; i < x.elements(); ++i) count += nonzero(i);
      context.SetOutputShape(0, {rank, count});
      auto* out = y.as<int64_t>();
      int64_t at = 0;
      for (int64_t i = 0; i < x.elements(); ++i) {
        if (!nonzero(i)) continue;
        int64_t rest = i;
        for (int d = rank - 1; d >= 0; --d) {
          out[d * count + at] = rest % x.shape[d];
          rest /= x.shape[d];
        }
        ++at;
      }
    });
  }
};

class EyeLikeKernel final : public Kernel {
 public:
  explicit EyeLikeKernel(const KernelInfo& info) : k_(info.node.Int("k", 0)) {}
  void Compute(KernelContext& context) const override {
    TensorView& y = *context.output(0);
    const int64_t rows = y.shape[0], cols = y.shape[1];
    if (y.elements() == 0) return;
    std::memset(y.data, 0, y.bytes());
    ForNumberOrBool(y.dtype, [&](auto t) {
      using T = decltype(t);
      using A = typename Arithmetic<T>::Type;
      for (int64_t r = 0; r < rows; ++r)
        if (k_ > -rows && k_ < cols && r + k_ >= 0 && r + k_ < cols)
          y.as<T>()[r * cols + r + k_] = Store<T>(static_cast<A>(1));
    });
  }

 private:
  int64_t k_;
};

/// x / |x| along the axis; 0 where the norm is 0.
class LpNormalizationKernel final : public Kernel {
 public:
  explicit LpNormalizationKernel(const KernelInfo& info)
      : axis_(info.node.Int("axis", -1)), p_(info.node.Int("p", 2)) {
    if (p_ != 1 && p_ != 2) info.Unsupported("p ", p_);
  }
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const int axis = AxisOf(axis_, x.shape.rank());
    const int64_t n = x.shape[axis], inner = x.shape.elements(axis + 1, x.shape.rank());
    const int64_t rows = x.shape.elements(0, axis) * inner;
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      using A = typename Arithmetic<T>::Type;
      if constexpr (std::is_floating_point_v<A>) {
        context.threads().Run(rows, [&](int64_t row, int) {
          const int64_t base = row / inner * n * inner + row % inner;
          double sum = 0;
          for (int64_t i = 0; i < n; ++i) {
            const double v = static_cast<double>(Load(x.as<T>()[base + i * inner]));
            sum += p_ == 1 ? std::abs(v) : v * v;
          }
          const double norm = p_ == 1 ? sum : std::sqrt(sum);
          for (int64_t i = 0; i < n; ++i) {
            const double v = static_cast<double>(Load(x.as<T>()[base + i * inner]));
            y.as<T>()[base + i * inner] = Store<T>(static_cast<A>(norm == 0 ? 0 : v / norm));
          }
        });
      }
    });
  }

 private:
  int64_t axis_, p_;
};

}  // namespace

void RegisterSelection(kernels::Registry& registry) {
  registry.Add(Define<TopKKernel>("", "TopK", {kernels::kNumbers}));
  registry.Add(Define<OneHotKernel>("", "OneHot", {kernels::kNumbers}));
  registry.Add(Define<NonZeroKernel>("", "NonZero", {kernels::kNumbersAndBool}));
  registry.Add(Define<EyeLikeKernel>("", "EyeLike", {kernels::kNumbersAndBool}));
  registry.Add(Define<LpNormalizationKernel>("", "LpNormalization", {kernels::kAllFloats}));
}

}  // namespace ullage::cpu
