/// Resize and Upsample: nearest, linear and cubic interpolation, with and without antialiasing.
///
/// Interpolation is separable: for each axis a table says which elements make an output and with which
/// weights. A row of outputs is made from one row that combines the rows of all outer axes.
#include <algorithm>
#include <cmath>
#include <cstring>

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

enum class Mode { kNearest, kLinear, kCubic };
enum class Position {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kTfHalfPixel,
  kCrop
};
enum class Nearest { kPreferFloor, kPreferCeil, kFloor, kCeil };

/// How an axis is resized.
struct AxisScale {
  int64_t in = 1, out = 1;
  float scale = 1;
  float begin = 0, end = 1;  ///< region of interest, for kCrop
};

/// One axis' table: element `at[o * taps + t]` with weight `weight[o * taps + t]`; at < 0 marks an output
/// outside of the region.
struct Table {
  int64_t taps = 1;
  int32_t* at = nullptr;
  float* weight = nullptr;
};

float CubicWeight(float x, float a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

class ResizeKernel final : public Kernel {
 public:
  explicit ResizeKernel(const KernelInfo& info) {
    const graph::Node& n = info.node;
    const bool old = n.op == "Upsample" || (n.opset > 0 && n.opset < 11);
    scales_at_ = n.op == "Upsample" && !n.has_input(1) ? -1 : old ? 1 : 2;
    sizes_at_ = old ? -1 : 3;
    const auto given = n.FloatsView("scales");
    attribute_scales_.assign(given.begin(), given.end());
    const std::string mode = n.Str("mode", "nearest");
    mode_ = mode == "nearest"                        ? Mode::kNearest
            : mode == "linear" || mode == "bilinear" ? Mode::kLinear
            : mode == "cubic"                        ? Mode::kCubic
                                                     : (info.Unsupported("mode ", mode), Mode::kNearest);
    const std::string position = n.Str("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
    static constexpr std::pair<std::string_view, Position> kPositions[] = {
        {"half_pixel", Position::kHalfPixel},
        {"half_pixel_symmetric", Position::kHalfPixelSymmetric},
        {"pytorch_half_pixel", Position::kPytorchHalfPixel},
        {"align_corners", Position::kAlignCorners},
        {"asymmetric", Position::kAsymmetric},
        {"tf_half_pixel_for_nn", Position::kTfHalfPixel},
        {"tf_crop_and_resize", Position::kCrop}};
    const auto* found = std::find_if(std::begin(kPositions), std::end(kPositions),
                                     [&](const auto& p) { return p.first == position; });
    if (found == std::end(kPositions)) info.Unsupported("coordinate_transformation_mode ", position);
    position_ = found->second;
    const std::string nearest = n.Str("nearest_mode", old ? "floor" : "round_prefer_floor");
    nearest_ = nearest == "round_prefer_floor"  ? Nearest::kPreferFloor
               : nearest == "round_prefer_ceil" ? Nearest::kPreferCeil
               : nearest == "floor"             ? Nearest::kFloor
               : nearest == "ceil"              ? Nearest::kCeil
                                   : (info.Unsupported("nearest_mode ", nearest), Nearest::kCeil);
    cubic_ = n.Float("cubic_coeff_a", -0.75f);
    exclude_outside_ = n.Int("exclude_outside", 0) != 0;
    extrapolation_ = n.Float("extrapolation_value", 0);
    antialias_ = n.Int("antialias", 0) != 0 && mode_ != Mode::kNearest;
    const auto axes = n.IntsView("axes");
    axes_.assign(axes.begin(), axes.end());
    keep_ratio_ = n.Str("keep_aspect_ratio_policy", "stretch");
  }

  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    const auto &x = shapes.inputs[0].shape, &y = shapes.outputs[0].shape;
    if (x.rank < 1 || y.rank != x.rank) return;
    int64_t entries = 0;
    for (int i = 0; i < x.rank; ++i) {
      if (!x[i].bounded() || !y[i].bounded()) return;
      const bool same =
          x[i].exact() && y[i].exact() && x[i].lower == y[i].lower && position_ != Position::kCrop;
      const double least = static_cast<double>(std::max<int64_t>(y[i].lower, 1)) /
                           static_cast<double>(std::max<int64_t>(x[i].upper, 1));
      // The scale of a given size may be a little smaller than the ratio of the sizes.
      const int64_t taps = same ? 1 : std::min(Taps(static_cast<float>(least / 2)), MostTaps(x[i].upper));
      entries = CheckedAdd(entries, CheckedMul(y[i].upper, taps, "workspace"), "workspace");
    }
    needs.push_back({TableBytes(entries), 0, 64});
    needs.push_back({RowBytes(x.at(-1).upper) * static_cast<size_t>(shapes.threads), 1, 64});
  }

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const int rank = x.shape.rank();
    if (y.elements() == 0) return;
    if (x.elements() == 0) Throw(Code::kInvalidInput, "nothing to interpolate in shape ", x.shape.ToString());
    if (rank == 0) {
      std::memcpy(y.data, x.data, x.bytes());
      return;
    }
    AxisScale axes[kMaxRank];
    ReadScales(context, axes);
    Table tables[kMaxRank];
    int64_t entries = 0;
    for (int i = 0; i < rank; ++i) {
      tables[i].taps = axes[i].in == axes[i].out && axes[i].scale == 1 && position_ != Position::kCrop
                           ? 1
                           : std::min(Taps(axes[i].scale), MostTaps(axes[i].in));
      entries += axes[i].out * tables[i].taps;
    }
    auto* at = static_cast<int32_t*>(Workspace(context, 0, TableBytes(entries)));
    auto* weight = reinterpret_cast<float*>(at + entries);
    for (int i = 0; i < rank; ++i) {
      tables[i].at = at;
      tables[i].weight = weight;
      FillTable(axes[i], tables[i]);
      at += axes[i].out * tables[i].taps;
      weight += axes[i].out * tables[i].taps;
    }
    if (mode_ == Mode::kNearest)
      ForBytes(x.dtype, [&](auto t) { Copy<decltype(t)>(context, x, y, tables); });
    else
      ForNumber(x.dtype, [&](auto t) { Blend<decltype(t)>(context, x, y, tables); });
  }

 private:
  static size_t TableBytes(int64_t entries) {
    return CheckedMul<size_t>(static_cast<size_t>(entries), 8, "workspace");
  }
  static size_t RowBytes(int64_t width) {
    return AlignUp<size_t>(CheckedMul<size_t>(static_cast<size_t>(width), 8, "workspace"), 64);
  }
  /// Elements that may contribute to an output of an axis of n elements, edges repeated.
  int64_t MostTaps(int64_t n) const { return antialias_ ? 2 * n + 8 : 8; }

  int64_t Taps(float scale) const {
    if (mode_ == Mode::kNearest) return 1;
    const float reach = mode_ == Mode::kLinear ? 1 : 2;
    if (!antialias_ || scale >= 1) return static_cast<int64_t>(2 * reach);
    const float start = std::floor(-reach / scale) + 1;
    return 2 - 2 * static_cast<int64_t>(std::max(start, -1e9f));
  }

  void ReadScales(KernelContext& context, AxisScale* axes) const {
    const TensorView& x = *context.input(0);
    const Shape& out = context.output(0)->shape;
    const int rank = x.shape.rank();
    const auto present = [&](int i) {
      return i >= 0 && context.input(i) && context.input(i)->elements() > 0;
    };
    const int64_t count = axes_.empty() ? rank : static_cast<int64_t>(axes_.size());
    const auto axis_of = [&](int64_t i) {
      const int64_t a = axes_.empty() ? i : axes_[static_cast<size_t>(i)];
      return static_cast<int>(a < 0 ? a + rank : a);
    };
    for (int i = 0; i < rank; ++i) axes[i] = {x.shape[i], out[i], 1, 0, 1};
    if (present(sizes_at_)) {
      const TensorView& sizes = *context.input(sizes_at_);
      const auto ratio = [&](int64_t i) {
        return static_cast<float>(IndexOf(sizes, i)) / static_cast<float>(x.shape[axis_of(i)]);
      };
      float common = ratio(0);
      for (int64_t i = 1; i < count; ++i)
        common = keep_ratio_ == "not_smaller" ? std::max(common, ratio(i)) : std::min(common, ratio(i));
      for (int64_t i = 0; i < count; ++i)
        axes[axis_of(i)].scale = keep_ratio_ == "stretch" ? ratio(i) : common;
    } else {
      for (int64_t i = 0; i < count; ++i) {
        axes[axis_of(i)].scale = present(scales_at_)
                                     ? static_cast<float>(NumberOf(*context.input(scales_at_), i))
                                     : attribute_scales_.at(static_cast<size_t>(i));
      }
    }
    if (position_ != Position::kCrop) return;
    const TensorView* roi = context.input(1);
    if (!roi || roi->elements() != 2 * count) Throw(Code::kInvalidModel, "roi needs ", 2 * count, " numbers");
    for (int64_t i = 0; i < count; ++i) {
      axes[axis_of(i)].begin = static_cast<float>(NumberOf(*roi, i));
      axes[axis_of(i)].end = static_cast<float>(NumberOf(*roi, count + i));
    }
  }

  /// Where output o lies among the input's elements.
  float Source(const AxisScale& a, int64_t o) const {
    const auto x = static_cast<float>(o), in = static_cast<float>(a.in);
    // Scales may ask for a size that is no integer; the outputs still lie as they would in that size.
    const float wanted = a.scale * in, rounded = static_cast<float>(a.out);
    const float out = std::abs(wanted - rounded) < 1e-4f * rounded ? rounded : wanted;
    if (a.scale == 1 && a.in == a.out && position_ != Position::kCrop) return x;
    switch (position_) {
      case Position::kHalfPixel:
        return (x + 0.5f) / a.scale - 0.5f;
      case Position::kHalfPixelSymmetric:
        return in / 2 * (1 - rounded / wanted) + (x + 0.5f) / a.scale - 0.5f;
      case Position::kPytorchHalfPixel:
        return a.out > 1 ? (x + 0.5f) / a.scale - 0.5f : 0;
      case Position::kAlignCorners:
        return out != 1 ? x * (in - 1) / (out - 1) : 0;
      case Position::kAsymmetric:
        return x / a.scale;
      case Position::kTfHalfPixel:
        return (x + 0.5f) / a.scale;
      case Position::kCrop:
        return out != 1 ? a.begin * (in - 1) + x * (a.end - a.begin) * (in - 1) / (out - 1)
                        : 0.5f * (a.begin + a.end) * (in - 1);
    }
    return x;
  }

  float Rounded(float x) const {
    switch (nearest_) {
      case Nearest::kPreferFloor:
        return std::ceil(x - 0.5f);
      case Nearest::kPreferCeil:
        return std::floor(x + 0.5f);
      case Nearest::kFloor:
        return std::floor(x);
      case Nearest::kCeil:
        return std::ceil(x);
    }
    return x;
  }

  void FillTable(const AxisScale& a, const Table& t) const {
    const float last = static_cast<float>(a.in - 1);
    for (int64_t o = 0; o < a.out; ++o) {
      int32_t* at = t.at + o * t.taps;
      float* weight = t.weight + o * t.taps;
      const float x = Source(a, o);
      if (position_ == Position::kCrop && (x < 0 || x > last)) {
        std::fill_n(at, t.taps, -1);
        std::fill_n(weight, t.taps, 0.0f);
        continue;
      }
      const auto clamp = [&](float i) { return static_cast<int32_t>(std::clamp(i, 0.0f, last)); };
      if (t.taps == 1) {
        at[0] = clamp(mode_ == Mode::kNearest ? Rounded(x) : std::floor(x));
        weight[0] = 1;
        continue;
      }
      const float scale = antialias_ ? std::min(a.scale, 1.0f) : 1.0f;
      // The first of the taps around x; an integer x counts as the end of the step before it.
      const float base = std::ceil(x) - 1, ratio = x - base;
      const float first = 1 - static_cast<float>(t.taps) / 2;
      float sum = 0;
      for (int64_t i = 0; i < t.taps; ++i) {
        const float offset = first + static_cast<float>(i), distance = (offset - ratio) * scale;
        float w =
            mode_ == Mode::kLinear ? std::max(0.0f, 1 - std::abs(distance)) : CubicWeight(distance, cubic_);
        const float from = base + offset;
        if (exclude_outside_ && (from < 0 || from > last)) w = 0;
        at[i] = clamp(from);
        weight[i] = w;
        sum += w;
      }
      if ((antialias_ || exclude_outside_) && sum != 0)
        for (int64_t i = 0; i < t.taps; ++i) weight[i] /= sum;
    }
  }

  /// Calls fn(row of y, worker); rows in parallel.
  template <class Fn>
  static void Rows(KernelContext& context, const TensorView& y, int64_t cost, const Fn& fn) {
    const int64_t width = y.shape.at(-1), rows = y.elements() / width;
    const int64_t per = std::max<int64_t>(1, 4096 / width);
    dense::RunTasks(context.threads(), CeilDiv(rows, per), y.elements() * cost,
                    [&](int64_t task, int worker) {
                      for (int64_t row = task * per; row < std::min(rows, (task + 1) * per); ++row)
                        fn(row, worker);
                    });
  }

  template <class T>
  void Copy(KernelContext& context, const TensorView& x, TensorView& y, const Table* tables) const {
    const int rank = x.shape.rank();
    const int64_t width = y.shape.at(-1);
    T outside{};
    if (position_ == Position::kCrop)
      ForNumber(x.dtype, [&](auto t) {
        using N = decltype(t);
        if constexpr (sizeof(N) == sizeof(T)) {
          const N v = Store<N>(static_cast<typename Arithmetic<N>::Type>(extrapolation_));
          std::memcpy(&outside, &v, sizeof(T));
        }
      });
    Rows(context, y, 1, [&](int64_t row, int) {
      int64_t rest = row, from = 0, stride = x.shape.at(-1);
      bool inside = true;
      for (int i = rank - 2; i >= 0; --i) {
        const int32_t at = tables[i].at[rest % y.shape[i]];
        inside = inside && at >= 0;
        from += at * stride;
        stride *= x.shape[i];
        rest /= y.shape[i];
      }
      const T* in = x.as<T>() + from;
      T* out = y.as<T>() + row * width;
      const int32_t* at = tables[rank - 1].at;
      for (int64_t i = 0; i < width; ++i) out[i] = inside && at[i] >= 0 ? in[at[i]] : outside;
    });
  }

  template <class T>
  void Blend(KernelContext& context, const TensorView& x, TensorView& y, const Table* tables) const {
    using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const int rank = x.shape.rank();
    const int64_t width = y.shape.at(-1), in_width = x.shape.at(-1);
    const Table& last = tables[rank - 1];
    const size_t row_bytes = RowBytes(in_width);
    auto* rows = static_cast<std::byte*>(
        Workspace(context, 1, row_bytes * static_cast<size_t>(context.threads().size())));
    int64_t combinations = 1;
    for (int i = 0; i + 1 < rank; ++i) combinations *= tables[i].taps;
    const auto to_output = [](A v) {
      using N = typename Arithmetic<T>::Type;
      if constexpr (std::is_integral_v<N>) {
        constexpr auto kLow = static_cast<A>(std::numeric_limits<N>::lowest());
        constexpr auto kHigh = static_cast<A>(std::numeric_limits<N>::max());
        return v <= kLow    ? std::numeric_limits<N>::lowest()
               : v >= kHigh ? std::numeric_limits<N>::max()
                            : static_cast<N>(v);
      } else {
        return Store<T>(static_cast<N>(v));
      }
    };
    Rows(context, y, combinations + last.taps, [&](int64_t row, int worker) {
      auto* blended = reinterpret_cast<A*>(rows + static_cast<size_t>(worker) * row_bytes);
      std::fill_n(blended, in_width, A{0});
      bool inside = true;
      for (int64_t k = 0; k < combinations; ++k) {
        int64_t rest = row, taps = k, from = 0, stride = in_width;
        float weight = 1;
        for (int i = rank - 2; i >= 0; --i) {
          const Table& t = tables[i];
          const int64_t entry = rest % y.shape[i] * t.taps + taps % t.taps;
          inside = inside && t.at[entry] >= 0;
          weight *= t.weight[entry];
          from += t.at[entry] * stride;
          stride *= x.shape[i];
          rest /= y.shape[i];
          taps /= t.taps;
        }
        if (!inside) break;
        if (weight == 0) continue;
        const T* in = x.as<T>() + from;
        const A w = static_cast<A>(weight);
        for (int64_t i = 0; i < in_width; ++i) blended[i] += w * static_cast<A>(Load(in[i]));
      }
      T* out = y.as<T>() + row * width;
      const int32_t* at = last.at;
      const float* weight = last.weight;
      for (int64_t i = 0; i < width; ++i, at += last.taps, weight += last.taps) {
        if (!inside || at[0] < 0) {
          out[i] = to_output(static_cast<A>(extrapolation_));
          continue;
        }
        A sum = 0;
        for (int64_t t = 0; t < last.taps; ++t) sum += static_cast<A>(weight[t]) * blended[at[t]];
        out[i] = to_output(sum);
      }
    });
  }

  int scales_at_, sizes_at_;
  std::vector<float> attribute_scales_;
  std::vector<int64_t> axes_;
  std::string keep_ratio_;
  Mode mode_ = Mode::kNearest;
  Position position_ = Position::kHalfPixel;
  Nearest nearest_ = Nearest::kPreferFloor;
  float cubic_, extrapolation_;
  bool exclude_outside_, antialias_;
};

}  // namespace

void RegisterResize(kernels::Registry& registry) {
  for (std::string_view op : {"Resize", "Upsample"}) {
    kernels::KernelDef def;
    def.op = op;
    def.types = {kernels::kNumbers};
    def.create = Make<ResizeKernel>;
    registry.Add(std::move(def));
  }
}

}  // namespace ullage::cpu
