/// Operators on images: DepthToSpace, SpaceToDepth, GridSample, AffineGrid, Col2Im, MaxUnpool, DeformConv.
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
#include "providers/cpu/kernels/window.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

template <class T>
constexpr bool kIsFloat = std::is_floating_point_v<typename Arithmetic<T>::Type>;

/// Blocks of channels to blocks of pixels, or back.
class BlocksKernel final : public Kernel {
 public:
  explicit BlocksKernel(const KernelInfo& info)
      : to_space_(info.node.op == "DepthToSpace"),
        block_(info.node.RequiredInt("blocksize")),
        channels_first_(info.node.Str("mode", "DCR") == "CRD") {}

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    if (y.elements() == 0) return;
    const TensorView& wide = to_space_ ? x : y;  // the one with more channels
    const int64_t deep = wide.shape[1], height = wide.shape[2], width = wide.shape[3];
    const int64_t channels = deep / (block_ * block_);
    ForBytes(x.dtype, [&](auto t) {
      using T = decltype(t);
      context.threads().Run(wide.shape[0] * deep, [&](int64_t plane, int) {
        const int64_t d = plane % deep, n = plane / deep;
        const int64_t c = channels_first_ ? d / (block_ * block_) : d % channels;
        const int64_t at = channels_first_ ? d % (block_ * block_) : d / channels;
        const int64_t row = at / block_, column = at % block_;
        for (int64_t h = 0; h < height; ++h) {
          const int64_t a = (plane * height + h) * width;
          const int64_t b = (((n * channels + c) * height + h) * block_ + row) * width * block_ + column;
          for (int64_t w = 0; w < width; ++w) {
            if (to_space_)
              y.as<T>()[b + w * block_] = x.as<T>()[a + w];
            else
              y.as<T>()[a + w] = x.as<T>()[b + w * block_];
          }
        }
      });
    });
  }

 private:
  bool to_space_;
  int64_t block_;
  bool channels_first_;
};

enum class Interpolation { kNearest, kLinear, kCubic };
enum class Padding { kZeros, kBorder, kReflection };

double Reflect(double x, double low, double high) {
  const double range = high - low;
  if (!(range > 0)) return low;
  const double distance = x < low ? low - x : x > high ? x - high : -1;
  if (distance < 0) return x;
  const double times = std::floor(distance / range), rest = distance - times * range;
  const bool even = std::fmod(times, 2) == 0;
  return (x < low) == even ? low + rest : high - rest;
}

/// X [N, C, in..], grid [N, out.., axes]; the grid's last dimension counts from the last axis.
class GridSampleKernel final : public Kernel {
 public:
  explicit GridSampleKernel(const KernelInfo& info) : align_(info.node.Int("align_corners", 0) != 0) {
    const std::string mode = info.node.Str("mode", "linear"),
                      padding = info.node.Str("padding_mode", "zeros");
    mode_ = mode == "linear" || mode == "bilinear" ? Interpolation::kLinear
            : mode == "cubic" || mode == "bicubic" ? Interpolation::kCubic
            : mode == "nearest"                    ? Interpolation::kNearest
                                : (info.Unsupported("mode ", mode), Interpolation::kLinear);
    padding_ = padding == "zeros"        ? Padding::kZeros
               : padding == "border"     ? Padding::kBorder
               : padding == "reflection" ? Padding::kReflection
                                         : (info.Unsupported("padding_mode ", padding), Padding::kZeros);
    if (RankOf(info, 0) - 2 > kMaxSpatial) info.Unsupported(RankOf(info, 0) - 2, " spatial axes, at most 3");
  }

  void Compute(KernelContext& context) const override {
    const TensorView &x = *context.input(0), &grid = *context.input(1);
    TensorView& y = *context.output(0);
    if (y.elements() == 0) return;
    const int axes = x.shape.rank() - 2;
    const int64_t channels = x.shape[1], in = x.shape.elements(2, axes + 2),
                  out = y.shape.elements(2, axes + 2);
    if (in == 0) Throw(Code::kInvalidInput, "nothing to sample in shape ", x.shape.ToString());
    const int64_t row = y.shape.at(-1);
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      if constexpr (kIsFloat<T>) {
        dense::RunTasks(context.threads(), x.shape[0] * out / row, y.elements() * 16, [&](int64_t task, int) {
          for (int64_t i = task * row; i < (task + 1) * row; ++i) {
            const int64_t n = i / out;
            double at[kMaxSpatial];
            for (int a = 0; a < axes; ++a)
              at[a] = Position(NumberOf(grid, i * axes + axes - 1 - a), x.shape[a + 2]);
            for (int64_t c = 0; c < channels; ++c) {
              const T* from = x.as<T>() + (n * channels + c) * in;
              y.as<T>()[(n * channels + c) * out + i % out] =
                  Store<T>(static_cast<typename Arithmetic<T>::Type>(Sample(from, x.shape, axes, at, 0, 0)));
            }
          }
        });
      }
    });
  }

 private:
  double Low() const { return align_ ? 0 : -0.5; }
  double High(int64_t n) const { return static_cast<double>(n) - (align_ ? 1 : 0.5); }

  double Position(double g, int64_t n) const {
    const auto size = static_cast<double>(n);
    double x = align_ ? (g + 1) / 2 * (size - 1) : ((g + 1) * size - 1) / 2;
    if (mode_ == Interpolation::kNearest) x = std::nearbyint(x);
    if (!(std::abs(x) < 1e15)) x = -1e9;  // not a number, or nowhere near
    if (x >= Low() && x <= High(n)) return x;
    if (padding_ == Padding::kBorder) return std::clamp(x, 0.0, size - 1);
    return padding_ == Padding::kReflection ? Reflect(x, Low(), High(n)) : x;
  }

  /// Element i of an axis with n, or -1.
  int64_t Index(double i, int64_t n) const {
    if (i >= 0 && i < static_cast<double>(n)) return static_cast<int64_t>(i);
    if (padding_ == Padding::kZeros) return -1;
    const double r = padding_ == Padding::kReflection ? Reflect(i, Low(), High(n)) : i;
    return std::clamp(static_cast<int64_t>(r), int64_t{0}, n - 1);
  }

  /// Interpolates over the axes from `axis` on; `offset` is the element chosen on those before.
  template <class T>
  double Sample(const T* x, const Shape& shape, int axes, const double* at, int axis, int64_t offset) const {
    if (axis == axes) return static_cast<double>(Load(x[offset]));
    const int64_t n = shape[axis + 2];
    const auto value = [&](double i) {
      const int64_t index = Index(i, n);
      return index < 0 ? 0.0 : Sample(x, shape, axes, at, axis + 1, offset * n + index);
    };
    const double p = at[axis], base = std::floor(p), r = p - base;
    switch (mode_) {
      case Interpolation::kNearest:
        return value(std::nearbyint(p));
      case Interpolation::kLinear:
        return (r < 1 ? (1 - r) * value(base) : 0) + (r > 0 ? r * value(base + 1) : 0);
      case Interpolation::kCubic: {
        double sum = 0;
        for (int k = -1; k <= 2; ++k) {
          const double d = std::abs(r - k), a = -0.75;
          const double w =
              d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
          sum += w * value(base + k);
        }
        return sum;
      }
    }
    return 0;
  }

  bool align_;
  Interpolation mode_ = Interpolation::kLinear;
  Padding padding_ = Padding::kZeros;
};

/// theta [N, axes, axes + 1] -> [N, out.., axes]
class AffineGridKernel final : public Kernel {
 public:
  explicit AffineGridKernel(const KernelInfo& info) : align_(info.node.Int("align_corners", 0) != 0) {}

  void Compute(KernelContext& context) const override {
    const TensorView& theta = *context.input(0);
    TensorView& y = *context.output(0);
    const int axes = y.shape.rank() - 2;
    if (theta.shape != Shape{y.shape[0], axes, axes + 1})
      Throw(Code::kInvalidModel, "theta of shape ", theta.shape.ToString(), " for a grid of shape ",
            y.shape.ToString());
    const int64_t points = y.shape.elements(1, axes + 1);
    ForNumber(y.dtype, [&](auto t) {
      using T = decltype(t);
      if constexpr (kIsFloat<T>) {
        dense::RunTasks(context.threads(), y.shape[0] * points, y.elements() * 4, [&](int64_t i, int) {
          double at[kMaxSpatial + 1] = {0, 0, 0, 0};
          int64_t rest = i % points;
          for (int a = axes - 1; a >= 0; --a) {  // x is the last axis
            const auto n = static_cast<double>(y.shape[a + 1]),
                       k = static_cast<double>(rest % y.shape[a + 1]);
            at[axes - 1 - a] = align_ ? (n > 1 ? -1 + 2 * k / (n - 1) : 0) : (2 * k + 1) / n - 1;
            rest /= y.shape[a + 1];
          }
          at[axes] = 1;
          const T* m = theta.as<T>() + i / points * axes * (axes + 1);
          for (int r = 0; r < axes; ++r) {
            double sum = 0;
            for (int c = 0; c <= axes; ++c) sum += static_cast<double>(Load(m[r * (axes + 1) + c])) * at[c];
            y.as<T>()[i * axes + r] = Store<T>(static_cast<typename Arithmetic<T>::Type>(sum));
          }
        });
      }
    });
  }

 private:
  bool align_;
};

/// X [N, C * block, L], image_shape, block_shape -> [N, C, image..]: overlapping blocks are added up.
class Col2ImKernel final : public Kernel {
 public:
  explicit Col2ImKernel(const KernelInfo& info)
      : dilations_(info.node.Ints("dilations")),
        pads_(info.node.Ints("pads")),
        strides_(info.node.Ints("strides")) {}

  void Compute(KernelContext& context) const override {
    const TensorView &x = *context.input(0), &block = *context.input(2);
    TensorView& y = *context.output(0);
    const int axes = y.shape.rank() - 2;
    int64_t steps[kMaxRank], taps = 1, windows = 1;
    for (const auto* list : {&dilations_, &strides_})
      if (!list->empty() && static_cast<int>(list->size()) != axes)
        Throw(Code::kInvalidModel, "attributes of ", list->size(), " numbers");
    if (!pads_.empty() && static_cast<int>(pads_.size()) != 2 * axes)
      Throw(Code::kInvalidModel, "pads has ", pads_.size(), " numbers");
    for (int a = 0; a < axes; ++a) {
      const int64_t k = IndexOf(block, a);
      if (k < 1 || Stride(a) < 1 || Dilation(a) < 1)
        Throw(Code::kInvalidModel, "blocks, strides and dilations are 1 or more");
      const int64_t room = y.shape[a + 2] + Pad(a) + Pad(a + axes) - (k - 1) * Dilation(a) - 1;
      steps[a] = room < 0 ? 0 : room / Stride(a) + 1;
      taps *= k;
      windows *= steps[a];
    }
    if (windows != x.shape[2])
      Throw(Code::kInvalidModel, x.shape[2], " blocks, but ", windows, " fit the image");
    const int64_t size = y.shape.elements(2, axes + 2);
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      using A = typename Arithmetic<T>::Type;
      context.threads().Run(y.shape[0] * y.shape[1], [&](int64_t plane, int) {
        T* out = y.as<T>() + plane * size;
        std::fill_n(out, size, Store<T>(A{}));
        for (int64_t k = 0; k < taps; ++k) {
          const T* in = x.as<T>() + (plane * taps + k) * windows;
          for (int64_t w = 0; w < windows; ++w) {
            int64_t tap = k, window = w, at = 0, stride = 1;
            bool inside = true;
            for (int a = axes - 1; a >= 0; --a) {
              const int64_t kernel = IndexOf(block, a), n = y.shape[a + 2];
              const int64_t i = window % steps[a] * Stride(a) + tap % kernel * Dilation(a) - Pad(a);
              inside = inside && i >= 0 && i < n;
              at += i * stride;
              stride *= n;
              window /= steps[a];
              tap /= kernel;
            }
            if (inside) out[at] = Store<T>(static_cast<A>(Load(out[at]) + Load(in[w])));
          }
        }
      });
    });
  }

 private:
  int64_t Stride(int a) const { return strides_.empty() ? 1 : strides_[static_cast<size_t>(a)]; }
  int64_t Dilation(int a) const { return dilations_.empty() ? 1 : dilations_[static_cast<size_t>(a)]; }
  int64_t Pad(int a) const { return pads_.empty() ? 0 : pads_[static_cast<size_t>(a)]; }

  std::vector<int64_t> dilations_, pads_, strides_;
};

/// X, indices, output_shape?: elements go where MaxPool found them; indices count in the shape that the
/// attributes give, whatever output_shape says.
class MaxUnpoolKernel final : public Kernel {
 public:
  explicit MaxUnpoolKernel(const KernelInfo& info) : windows_(Windows::Read(info, RankOf(info, 0))) {}

  void Compute(KernelContext& context) const override {
    const TensorView &x = *context.input(0), &indices = *context.input(1);
    TensorView& y = *context.output(0);
    const int rank = x.shape.rank();
    if (indices.shape != x.shape) Throw(Code::kInvalidInput, "indices of shape ", indices.shape.ToString());
    Shape inner = x.shape;
    for (int i = 0; i < windows_.spatial; ++i) {
      const auto at = static_cast<size_t>(i);
      inner[i + 2] = (x.shape[i + 2] - 1) * windows_.stride[at] + windows_.kernel[at] - windows_.before[at] -
                     windows_.after[at];
      if (inner[i + 2] < 0) Throw(Code::kInvalidModel, "the padding is larger than the result");
    }
    const int64_t count = inner.elements();
    std::memset(y.data, 0, y.bytes());
    ForBytes(x.dtype, [&](auto t) {
      using T = decltype(t);
      for (int64_t i = 0; i < x.elements(); ++i) {
        int64_t index = IndexOf(indices, i);
        if (index < 0 || index >= count)
          Throw(Code::kInvalidInput, "index ", index, " of ", count, " elements");
        int64_t at = 0, stride = 1;
        for (int d = rank - 1; d >= 0; --d) {
          const int64_t here = index % inner[d];
          if (here >= y.shape[d])
            Throw(Code::kInvalidInput, "index ", IndexOf(indices, i), " is outside of the output");
          at += here * stride;
          stride *= y.shape[d];
          index /= inner[d];
        }
        y.as<T>()[at] = x.as<T>()[i];
      }
    });
  }

 private:
  Windows windows_;
};

/// X [N, C, H, W], W, offset [N, groups * taps * 2, oH, oW], B?, mask?: every tap reads between pixels.
class DeformConvKernel final : public Kernel {
 public:
  explicit DeformConvKernel(const KernelInfo& info)
      : windows_(Windows::Read(info, RankOf(info, 0))),
        groups_(info.node.Int("group", 1)),
        offset_groups_(info.node.Int("offset_group", 1)) {
    if (windows_.spatial != 2) info.Unsupported(windows_.spatial, " spatial axes, expected 2");
    if (groups_ < 1 || offset_groups_ < 1) info.Unsupported("group and offset_group are 1 or more");
  }

  void Compute(KernelContext& context) const override {
    const TensorView &x = *context.input(0), &w = *context.input(1), &offset = *context.input(2);
    const TensorView *bias = context.input(3), *mask = context.input(4);
    TensorView& y = *context.output(0);
    const int64_t channels = x.shape[1], height = x.shape[2], width = x.shape[3];
    const int64_t filters = w.shape[0], group_channels = w.shape[1], kh = w.shape[2], kw = w.shape[3],
                  taps = kh * kw;
    const int64_t out_h = y.shape[2], out_w = y.shape[3];
    const auto expect = [&](const TensorView* v, const Shape& shape) {
      if (v && v->shape != shape)
        Throw(Code::kInvalidModel, "an input of shape ", v->shape.ToString(), ", expected ",
              shape.ToString());
    };
    expect(&offset, {x.shape[0], offset_groups_ * taps * 2, out_h, out_w});
    expect(mask, {x.shape[0], offset_groups_ * taps, out_h, out_w});
    expect(bias, {filters});
    if (channels % offset_groups_ != 0 || filters % groups_ != 0)
      Throw(Code::kInvalidModel, "channels do not divide into groups");
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      if constexpr (kIsFloat<T>) {
        context.threads().Run(x.shape[0] * out_h, [&](int64_t task, int) {
          const int64_t n = task / out_h, oh = task % out_h;
          for (int64_t f = 0; f < filters; ++f) {
            for (int64_t ow = 0; ow < out_w; ++ow) {
              double sum = bias ? NumberOf(*bias, f) : 0;
              for (int64_t c = 0; c < group_channels; ++c) {
                const int64_t channel = f / (filters / groups_) * group_channels + c;
                const int64_t g = channel / (channels / offset_groups_);
                const T* plane = x.as<T>() + (n * channels + channel) * height * width;
                for (int64_t k = 0; k < taps; ++k) {
                  const auto at = [&](const TensorView& v, int64_t row, int64_t rows) {
                    return static_cast<double>(Load(v.as<T>()[((n * rows + row) * out_h + oh) * out_w + ow]));
                  };
                  const int64_t row = (g * taps + k) * 2, rows = offset_groups_ * taps;
                  const double r = static_cast<double>(oh * windows_.stride[0] - windows_.before[0] +
                                                       k / kw * windows_.dilation[0]) +
                                   at(offset, row, 2 * rows);
                  const double q = static_cast<double>(ow * windows_.stride[1] - windows_.before[1] +
                                                       k % kw * windows_.dilation[1]) +
                                   at(offset, row + 1, 2 * rows);
                  const double m = mask ? at(*mask, g * taps + k, rows) : 1;
                  sum += m * Pixel(plane, height, width, r, q) *
                         static_cast<double>(Load(w.as<T>()[(f * group_channels + c) * taps + k]));
                }
              }
              y.as<T>()[((n * filters + f) * out_h + oh) * out_w + ow] =
                  Store<T>(static_cast<typename Arithmetic<T>::Type>(sum));
            }
          }
        });
      }
    });
  }

 private:
  template <class T>
  static double Pixel(const T* plane, int64_t height, int64_t width, double r, double q) {
    if (!(r > -1 && r < static_cast<double>(height) && q > -1 && q < static_cast<double>(width))) return 0;
    const double r0 = std::floor(r), q0 = std::floor(q);
    const auto i = static_cast<int64_t>(r0), j = static_cast<int64_t>(q0);
    const auto at = [&](int64_t a, int64_t b) {
      return a < 0 || a >= height || b < 0 || b >= width ? 0.0
                                                         : static_cast<double>(Load(plane[a * width + b]));
    };
    const double u = r - r0, v = q - q0;
    return (1 - u) * ((1 - v) * at(i, j) + v * at(i, j + 1)) +
           u * ((1 - v) * at(i + 1, j) + v * at(i + 1, j + 1));
  }

  Windows windows_;
  int64_t groups_, offset_groups_;
};

}  // namespace

void RegisterImages(kernels::Registry& registry) {
  constexpr kernels::TypeSet kIndices = {DType::kInt64, DType::kInt32};
  using kernels::kAllFloats;
  registry.Add(Define<BlocksKernel>("", "DepthToSpace", {kernels::kNumbersAndBool}));
  registry.Add(Define<BlocksKernel>("", "SpaceToDepth", {kernels::kNumbersAndBool}));
  registry.Add(Define<GridSampleKernel>("", "GridSample", {kAllFloats, kAllFloats}));
  registry.Add(Define<AffineGridKernel>("", "AffineGrid", {kAllFloats}));
  registry.Add(Define<Col2ImKernel>("", "Col2Im", {kernels::kNumbers}));
  registry.Add(Define<MaxUnpoolKernel>("", "MaxUnpool", {kernels::kNumbers, kIndices}));
  registry.Add(Define<DeformConvKernel>("", "DeformConv",
                                        {kAllFloats, kAllFloats, kAllFloats, kAllFloats, kAllFloats}));
}

}  // namespace ullage::cpu
