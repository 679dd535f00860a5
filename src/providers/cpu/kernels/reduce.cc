/// Reductions over axes, ArgMax and ArgMin, Softmax, LogSoftmax, LpNormalization.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "providers/cpu/dense/elementwise.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"
#include "providers/cpu/kernels/types.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

enum class Op { kSum, kMean, kMax, kMin, kProd, kL1, kL2, kLogSum, kLogSumExp, kSumSquare };
struct Name {
  std::string_view name;
  Op op;
};
constexpr Name kNames[] = {{"ReduceSum", Op::kSum},
                           {"ReduceMean", Op::kMean},
                           {"ReduceMax", Op::kMax},
                           {"ReduceMin", Op::kMin},
                           {"ReduceProd", Op::kProd},
                           {"ReduceL1", Op::kL1},
                           {"ReduceL2", Op::kL2},
                           {"ReduceLogSum", Op::kLogSum},
                           {"ReduceLogSumExp", Op::kLogSumExp},
                           {"ReduceSumSquare", Op::kSumSquare}};

/// Which axes go: bit d.
uint32_t AxesMask(const std::vector<int64_t>& attribute, const TensorView* input, int rank, bool noop,
                  bool* none) {
  uint32_t mask = 0;
  *none = false;
  const int64_t n = input ? input->elements() : static_cast<int64_t>(attribute.size());
  if (n == 0) {
    *none = noop;
    return noop ? 0 : (1u << rank) - 1;
  }
  for (int64_t i = 0; i < n; ++i) {
    int64_t a = !input                          ? attribute[static_cast<size_t>(i)]
                : input->dtype == DType::kInt64 ? input->as<int64_t>()[i]
                                                : input->as<int32_t>()[i];
    if (a < 0) a += rank;
    if (a < 0 || a >= rank) Throw(Code::kInvalidModel, "axis ", a, " for rank ", rank);
    mask |= 1u << a;
  }
  return mask;
}

class ReduceKernel final : public Kernel {
 public:
  explicit ReduceKernel(const KernelInfo& info)
      : axes_(info.node.Ints("axes")), noop_(info.node.Int("noop_with_empty_axes", 0) != 0) {
    for (const auto& [name, op] : kNames)
      if (name == info.node.op) op_ = op;
  }
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const int r = x.shape.rank();
    bool none = false;
    const uint32_t mask = AxesMask(axes_, context.input(1), r, noop_, &none);
    // Kept and reduced dimensions, as loops over the input.
    int64_t strides[kMaxRank];
    int64_t s = 1;
    for (int d = r - 1; d >= 0; --d) {
      strides[d] = s;
      s *= x.shape[d];
    }
    int kept = 0, gone = 0;
    int64_t kd[kMaxRank], ks[kMaxRank], gd[kMaxRank], gs[kMaxRank], count = 1;
    for (int d = 0; d < r; ++d) {
      if (mask >> d & 1) {
        gd[gone] = x.shape[d];
        gs[gone++] = strides[d];
        count *= x.shape[d];
      } else {
        kd[kept] = x.shape[d];
        ks[kept++] = strides[d];
      }
    }
    ForNumberOrBool(x.dtype, [&](auto t) {
      using T = decltype(t);
      using A = typename Arithmetic<T>::Type;
      // Sums of floats in double, of integers modulo 2^64.
      using S = std::conditional_t<std::is_floating_point_v<A>, double,
                                   std::conditional_t<std::is_signed_v<A>, int64_t, uint64_t>>;
      const auto one = [&](int64_t o) {
        int64_t base = 0, rest = o;
        for (int d = kept - 1; d >= 0; --d) {
          base += rest % kd[d] * ks[d];
          rest /= kd[d];
        }
        const auto each = [&](auto&& fn) {
          int64_t index[kMaxRank] = {}, at = base;
          const int64_t inner = gone ? gd[gone - 1] : 1, step = gone ? gs[gone - 1] : 0;
          for (int64_t done = 0; done < count; done += inner) {
            for (int64_t i = 0; i < inner; ++i) fn(static_cast<S>(Load(x.as<T>()[at + i * step])));
            for (int d = gone - 2; d >= 0; --d) {
              at += gs[d];
              if (++index[d] < gd[d]) break;
              at -= gd[d] * gs[d];
              index[d] = 0;
            }
          }
        };
        y.as<T>()[o] = Store<T>(static_cast<A>(Reduce<S, A>(each, count)));
      };
      const int64_t n = y.elements();
      if (n * count < 32768)
        for (int64_t o = 0; o < n; ++o) one(o);
      else
        context.threads().Run(n, [&](int64_t o, int) { one(o); });
    });
  }

 private:
  /// A: the type of the result.
  template <class S, class A, class Each>
  S Reduce(const Each& each, int64_t count) const {
    using Limits = std::numeric_limits<A>;
    S acc{};
    using Wide = std::conditional_t<std::is_integral_v<S>, uint64_t, S>;  // integers wrap
    switch (op_) {
      case Op::kSum:
      case Op::kMean:
      case Op::kLogSum: {
        Wide w{};
        each([&](S v) { w += static_cast<Wide>(v); });
        acc = static_cast<S>(w);
        if (op_ == Op::kMean) return count ? static_cast<S>(acc / static_cast<S>(count)) : acc;
        return op_ == Op::kLogSum ? static_cast<S>(std::log(static_cast<double>(acc))) : acc;
      }
      case Op::kMax:
        acc = static_cast<S>(Limits::has_infinity ? -Limits::infinity() : Limits::lowest());
        each([&](S v) { acc = v != v ? v : (acc < v ? v : acc); });
        return acc;
      case Op::kMin:
        acc = static_cast<S>(Limits::has_infinity ? Limits::infinity() : Limits::max());
        each([&](S v) { acc = v != v ? v : (v < acc ? v : acc); });
        return acc;
      case Op::kProd: {
        Wide w = 1;
        each([&](S v) { w *= static_cast<Wide>(v); });
        return static_cast<S>(w);
      }
      case Op::kL1:
        each([&](S v) { acc += v < S{0} ? static_cast<S>(S{0} - v) : v; });
        return acc;
      case Op::kL2:
      case Op::kSumSquare: {
        Wide w{};
        each([&](S v) { w += static_cast<Wide>(v) * static_cast<Wide>(v); });
        acc = static_cast<S>(w);
        return op_ == Op::kL2 ? static_cast<S>(std::sqrt(static_cast<double>(acc))) : acc;
      }
      case Op::kLogSumExp: {
        double top = -std::numeric_limits<double>::infinity(), sum = 0;
        each([&](S v) { top = std::max(top, static_cast<double>(v)); });
        if (std::isinf(top)) return static_cast<S>(top);
        each([&](S v) { sum += std::exp(static_cast<double>(v) - top); });
        return static_cast<S>(std::log(sum) + top);
      }
    }
    return acc;
  }
  Op op_ = Op::kSum;
  std::vector<int64_t> axes_;
  bool noop_;
};

class ArgKernel final : public Kernel {
 public:
  explicit ArgKernel(const KernelInfo& info)
      : max_(info.node.op == "ArgMax"),
        last_(info.node.Int("select_last_index", 0) != 0),
        axis_(info.node.Int("axis", 0)) {}
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    auto* y = context.output(0)->as<int64_t>();
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + x.shape.rank() : axis_);
    const int64_t outer = x.shape.elements(0, axis), n = x.shape[axis],
                  inner = x.shape.elements(axis + 1, x.shape.rank());
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t i = 0; i < inner; ++i) {
          int64_t best = 0;
          for (int64_t k = 1; k < n; ++k) {
            const auto a = Load(x.as<T>()[(o * n + k) * inner + i]),
                       b = Load(x.as<T>()[(o * n + best) * inner + i]);
            if (max_ ? b < a : a < b)
              best = k;
            else if (last_ && a == b)
              best = k;
          }
          y[o * inner + i] = best;
        }
    });
  }

 private:
  bool max_, last_;
  int64_t axis_;
};

class SoftmaxKernel final : public Kernel {
 public:
  explicit SoftmaxKernel(const KernelInfo& info)
      : log_(info.node.op == "LogSoftmax"),
        flatten_(info.node.opset < 13),
        axis_(info.node.Int("axis", info.node.opset < 13 ? 1 : -1)) {}
  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes&,
                                    std::vector<memory::WorkspaceRequirement>&) const override {}
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const int r = x.shape.rank(), axis = static_cast<int>(axis_ < 0 ? axis_ + r : axis_);
    const int64_t outer = x.shape.elements(0, axis);
    const int64_t cols = flatten_ ? x.shape.elements(axis, r) : r ? x.shape[axis] : 1;
    const int64_t inner = flatten_ ? 1 : x.shape.elements(axis + 1, r);
    if (x.elements() == 0) return;
    if (inner == 1 && x.dtype != DType::kDouble) {
      dense::Softmax(context.threads(), {x.data, x.dtype}, outer, cols, {y.data, y.dtype}, log_);
      return;
    }
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      using A = typename Arithmetic<T>::Type;
      if constexpr (std::is_floating_point_v<A>) {
        context.threads().Run(outer * inner, [&](int64_t row, int) {
          const int64_t base = row / inner * cols * inner + row % inner;
          double top = -std::numeric_limits<double>::infinity(), sum = 0;
          for (int64_t k = 0; k < cols; ++k) top = std::max<double>(top, Load(x.as<T>()[base + k * inner]));
          for (int64_t k = 0; k < cols; ++k) sum += std::exp(Load(x.as<T>()[base + k * inner]) - top);
          for (int64_t k = 0; k < cols; ++k) {
            const double d = Load(x.as<T>()[base + k * inner]) - top;
            y.as<T>()[base + k * inner] =
                Store<T>(static_cast<A>(log_ ? d - std::log(sum) : std::exp(d) / sum));
          }
        });
      }
    });
  }

 private:
  bool log_, flatten_;
  int64_t axis_;
};

}  // namespace

void RegisterReduce(kernels::Registry& registry) {
  for (const auto& [name, op] : kNames)
    registry.Add(Define<ReduceKernel>("", name, {kernels::kNumbersAndBool}));
  registry.Add(Define<ArgKernel>("", "ArgMax", {kernels::kNumbers}));
  registry.Add(Define<ArgKernel>("", "ArgMin", {kernels::kNumbers}));
  registry.Add(Define<SoftmaxKernel>("", "Softmax", {kernels::kAllFloats}));
  registry.Add(Define<SoftmaxKernel>("", "LogSoftmax", {kernels::kAllFloats}));
}

}  // namespace ullage::cpu
