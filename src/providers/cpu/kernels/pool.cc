/// MaxPool, AveragePool, LpPool and their global forms.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/dense/tasks.h"
#include "providers/cpu/kernels/attention_common.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/element.h"
#include "providers/cpu/kernels/tensor_families.h"
#include "providers/cpu/kernels/window.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

enum class Fold { kMax, kMean, kLp };

/// One plane of [depth, height, width]; missing axes have one element and windows of one.
struct Axis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, before = 0;
  int64_t padded_end = 1;  ///< end of the padding behind the data

  int64_t Start(int64_t o) const { return o * stride - before; }
  /// Taps [first, last) of window o that lie in [0, end).
  void Taps(int64_t o, int64_t end, int64_t* first, int64_t* last) const {
    const int64_t start = Start(o);
    *first = 0;
    *last = kernel;
    if (start >= 0 && start + (kernel - 1) * dilation < end) return;
    *first = start < 0 ? std::min(kernel, CeilDiv(-start, dilation)) : 0;
    *last = start >= end ? *first : std::clamp((end - 1 - start) / dilation + 1, *first, kernel);
  }
  /// Taps of window o that count when padding does.
  int64_t PaddedTaps(int64_t o) const {
    const int64_t start = Start(o);
    return start >= padded_end ? 0 : std::min(kernel, (padded_end - 1 - start) / dilation + 1);
  }
};

/// What is folded: Max in the type itself, sums in float or double.
template <Fold kFold, class T>
struct Folding {
  using A = typename Arithmetic<T>::Type;
  int p = 2;
  static A Zero() {
    if constexpr (kFold != Fold::kMax) return A{};
    if constexpr (std::is_floating_point_v<A>) return -std::numeric_limits<A>::infinity();
    return std::numeric_limits<A>::lowest();
  }
  A Map(A v) const {
    if constexpr (kFold == Fold::kLp && std::is_floating_point_v<A>) {
      return p == 1 ? std::abs(v) : p == 2 ? v * v : std::pow(std::abs(v), static_cast<A>(p));
    } else {
      return v;
    }
  }
  static A Add(A a, A b) {
    if constexpr (kFold == Fold::kMax) return b > a ? b : a;
    return static_cast<A>(a + b);
  }
  A Finish(A sum, int64_t count) const {
    if constexpr (kFold == Fold::kMean) return count > 0 ? sum / static_cast<A>(count) : A{};
    if constexpr (kFold == Fold::kLp && std::is_floating_point_v<A>)
      return p == 1 ? sum : p == 2 ? std::sqrt(sum) : std::pow(sum, A{1} / static_cast<A>(p));
    return sum;
  }
};

class PoolKernel final : public Kernel {
 public:
  explicit PoolKernel(const KernelInfo& info) {
    const graph::Node& n = info.node;
    global_ = n.op.starts_with("Global");
    if (!global_) windows_ = Windows::Read(info, RankOf(info, 0));
    fold_ = n.op.ends_with("MaxPool") ? Fold::kMax : n.op.ends_with("AveragePool") ? Fold::kMean : Fold::kLp;
    // Version 1 of LpPool had a float.
    p_ = n.op.ends_with("LpPool") ? static_cast<int>(std::clamp<int64_t>(n.Int("p", 2), 1, 1 << 20)) : 2;
    include_pad_ = n.Int("count_include_pad", 0) != 0;
    column_major_ = n.Int("storage_order", 0) != 0;
  }

  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    const auto& x = shapes.inputs[0].shape;
    if (global_ || x.rank < 3 || !x.at(-1).bounded()) return;
    needs.push_back({RowBytes(x.at(-1).upper) * static_cast<size_t>(shapes.threads), 0, 64});
  }

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    if (y.elements() == 0) return;
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      if constexpr (std::is_floating_point_v<typename Arithmetic<T>::Type>) {
        if (fold_ == Fold::kMean) return Run<Fold::kMean, T>(context, x, y);
        if (fold_ == Fold::kLp) return Run<Fold::kLp, T>(context, x, y);
      }
      if (fold_ == Fold::kMax) return Run<Fold::kMax, T>(context, x, y);
      Throw(Code::kUnsupported, "means of type ", NameOf(x.dtype));
    });
  }

 private:
  static size_t RowBytes(int64_t width) {
    return AlignUp<size_t>(CheckedMul<size_t>(static_cast<size_t>(width), 8), 64);
  }

  template <Fold kFold, class T>
  void Run(KernelContext& context, const TensorView& x, TensorView& y) const {
    Folding<kFold, T> folding{p_};
    if (global_) return Global(context, folding, x.as<T>(), x, y.as<T>());
    Axis axes[kMaxSpatial];
    for (int i = 0; i < windows_.spatial; ++i) {
      const auto at = static_cast<size_t>(i);
      Axis& a = axes[i + kMaxSpatial - windows_.spatial];
      a = {x.shape[i + 2],
           y.shape[i + 2],
           windows_.kernel[at],
           windows_.stride[at],
           windows_.dilation[at],
           0,
           0};
      a.before = windows_.PadBefore(i, a.in, a.out);
      a.padded_end = windows_.pad == Windows::Pad::kExplicit
                         ? a.in + windows_.after[at]
                         : std::max(a.in, a.Start(a.out - 1) + windows_.extent(i));
    }
    if (TensorView* indices = context.output(1)) {
      if constexpr (kFold == Fold::kMax) return WithIndices(context, axes, x, y, *indices);
    }
    const size_t row_bytes = RowBytes(axes[2].in);
    auto* rows = static_cast<std::byte*>(
        Workspace(context, 0, row_bytes * static_cast<size_t>(context.threads().size())));
    const int64_t planes = x.shape[0] * x.shape[1], lines = axes[0].out * axes[1].out;
    const int64_t work = y.elements() * axes[0].kernel * axes[1].kernel * axes[2].kernel;
    dense::RunTasks(context.threads(), planes, work, [&](int64_t plane, int worker) {
      using A = typename Folding<kFold, T>::A;
      auto* row = reinterpret_cast<A*>(rows + static_cast<size_t>(worker) * row_bytes);
      const T* from = x.as<T>() + plane * axes[0].in * axes[1].in * axes[2].in;
      for (int64_t line = 0; line < lines; ++line)
        Line(folding, axes, from, line / axes[1].out, line % axes[1].out, row,
             y.as<T>() + (plane * lines + line) * axes[2].out);
    });
  }

  /// One row of outputs: first the rows of the window into one, then the columns.
  template <class F, class T>
  void Line(const F& folding, const Axis* axes, const T* x, int64_t z, int64_t y, typename F::A* row,
            T* out) const {
    using A = typename F::A;
    const Axis &depth = axes[0], &height = axes[1], &width = axes[2];
    int64_t d0, d1, h0, h1;
    depth.Taps(z, depth.in, &d0, &d1);
    height.Taps(y, height.in, &h0, &h1);
    std::fill_n(row, width.in, F::Zero());
    for (int64_t d = d0; d < d1; ++d) {
      for (int64_t h = h0; h < h1; ++h) {
        const T* from =
            x + ((depth.Start(z) + d * depth.dilation) * height.in + height.Start(y) + h * height.dilation) *
                    width.in;
        for (int64_t i = 0; i < width.in; ++i) row[i] = F::Add(row[i], folding.Map(Load(from[i])));
      }
    }
    const int64_t outer = include_pad_ ? depth.PaddedTaps(z) * height.PaddedTaps(y) : (d1 - d0) * (h1 - h0);
    for (int64_t o = 0; o < width.out; ++o) {
      int64_t w0, w1;
      width.Taps(o, width.in, &w0, &w1);
      A sum = F::Zero();
      const A* at = row + width.Start(o);
      for (int64_t w = w0; w < w1; ++w) sum = F::Add(sum, at[w * width.dilation]);
      out[o] = Store<T>(folding.Finish(sum, outer * (include_pad_ ? width.PaddedTaps(o) : w1 - w0)));
    }
  }

  template <class T>
  void WithIndicesOf(KernelContext& context, const Axis* axes, const T* x, T* y, int64_t* indices,
                     int64_t planes) const {
    const Axis &depth = axes[0], &height = axes[1], &width = axes[2];
    const int64_t size = depth.in * height.in * width.in, outs = depth.out * height.out * width.out;
    context.threads().Run(planes, [&](int64_t plane, int) {
      const T* from = x + plane * size;
      int64_t at = plane * outs;
      for (int64_t z = 0; z < depth.out; ++z) {
        for (int64_t h = 0; h < height.out; ++h) {
          for (int64_t w = 0; w < width.out; ++w, ++at) {
            int64_t first[3], last[3];
            depth.Taps(z, depth.in, &first[0], &last[0]);
            height.Taps(h, height.in, &first[1], &last[1]);
            width.Taps(w, width.in, &first[2], &last[2]);
            int64_t best = -1, index = 0;
            for (int64_t i = first[0]; i < last[0]; ++i) {
              for (int64_t j = first[1]; j < last[1]; ++j) {
                for (int64_t k = first[2]; k < last[2]; ++k) {
                  const int64_t d = depth.Start(z) + i * depth.dilation,
                                r = height.Start(h) + j * height.dilation,
                                c = width.Start(w) + k * width.dilation;
                  const int64_t here = (d * height.in + r) * width.in + c;
                  if (best >= 0 && !(Load(from[here]) > Load(from[best]))) continue;
                  best = here;
                  // Column major: the first of the spatial axes that the tensor has runs fastest.
                  if (!column_major_)
                    index = here;
                  else if (windows_.spatial == 3)
                    index = d + (r + c * height.in) * depth.in;
                  else
                    index = r + c * height.in;
                }
              }
            }
            y[at] = best < 0 ? Store<T>(Folding<Fold::kMax, T>::Zero()) : from[best];
            indices[at] = plane * size + index;
          }
        }
      }
    });
  }
  void WithIndices(KernelContext& context, const Axis* axes, const TensorView& x, TensorView& y,
                   TensorView& indices) const {
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      WithIndicesOf(context, axes, x.as<T>(), y.as<T>(), indices.as<int64_t>(), x.shape[0] * x.shape[1]);
    });
  }

  template <class F, class T>
  void Global(KernelContext& context, const F& folding, const T* x, const TensorView& view, T* y) const {
    const int64_t planes = view.shape[0] * view.shape[1], size = view.shape.elements(2, view.shape.rank());
    dense::RunTasks(context.threads(), planes, view.elements(), [&](int64_t plane, int) {
      using A = typename F::A;
      constexpr int64_t kParts = 16;  // independent chains
      A parts[kParts];
      std::fill_n(parts, kParts, F::Zero());
      const T* from = x + plane * size;
      int64_t i = 0;
      for (; i + kParts <= size; i += kParts)
        for (int64_t j = 0; j < kParts; ++j) parts[j] = F::Add(parts[j], folding.Map(Load(from[i + j])));
      for (int64_t j = 0; i < size; ++i, ++j) parts[j] = F::Add(parts[j], folding.Map(Load(from[i])));
      for (int64_t half = kParts / 2; half > 0; half /= 2)
        for (int64_t j = 0; j < half; ++j) parts[j] = F::Add(parts[j], parts[j + half]);
      y[plane] = Store<T>(folding.Finish(parts[0], size));
    });
  }

  Windows windows_;
  bool global_ = false, include_pad_ = false, column_major_ = false;
  Fold fold_ = Fold::kMax;
  int p_ = 2;
};

}  // namespace

void RegisterPool(kernels::Registry& registry) {
  const auto add = [&](std::string_view op, kernels::TypeSet types) {
    kernels::KernelDef def;
    def.op = op;
    def.types = {types};
    def.create = Make<PoolKernel>;
    registry.Add(std::move(def));
  };
  for (std::string_view op : {"MaxPool", "GlobalMaxPool"}) add(op, kernels::kNumbers);
  for (std::string_view op : {"AveragePool", "LpPool", "GlobalAveragePool", "GlobalLpPool"})
    add(op, kernels::kAllFloats);
}

}  // namespace ullage::cpu
