// What the tiles of convolutions share: reading the input, activations; compiled once per instruction set.

#if defined(ULLAGE_DENSE_CONV_PARTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ULLAGE_DENSE_CONV_PARTS_INL_H_
#undef ULLAGE_DENSE_CONV_PARTS_INL_H_
#else
#define ULLAGE_DENSE_CONV_PARTS_INL_H_
#endif

#include <algorithm>
#include <type_traits>

#include "hwy/cache_control.h"
#include "providers/cpu/dense/conv_tile.h"
#include "providers/cpu/dense/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ullage::dense {
namespace HWY_NAMESPACE {

/// As LoadFirst() and StoreFirst(), faster where masked accesses touch nothing but their lanes.
template <class E>
HWY_INLINE VF LoadPart(const typename E::T* p, int64_t n) {
#if HWY_TARGET <= HWY_AVX2
  if constexpr (E::kDType == DType::kFloat)
    return hn::MaskedLoad(hn::FirstN(DF(), static_cast<size_t>(n)), DF(), p);
#endif
  return LoadFirst<E>(p, n);
}
template <class E>
HWY_INLINE void StorePart(VF v, typename E::T* p, int64_t n) {
#if HWY_TARGET <= HWY_AVX2
  if constexpr (E::kDType == DType::kFloat)
    return hn::BlendedStore(v, hn::FirstN(DF(), static_cast<size_t>(n)), DF(), p);
#endif
  StoreFirst<E>(v, p, n);
}

/// How elements of the input become floats.
template <class E>
struct FloatReader {
  using T = typename E::T;
  VF operator()(const T* p) const { return Load<E>(p); }
  VF Part(const T* p, int64_t n) const { return LoadPart<E>(p, n); }
  float One(T x) const { return E::Get(x); }
};
template <class I>
struct IntegerReader {
  using T = I;
  float zero;
  VF operator()(const T* p) const {
    const hn::Rebind<I, DF> narrow;
    return hn::Sub(hn::ConvertTo(DF(), hn::PromoteTo(DI(), hn::LoadU(narrow, p))), Set(zero));
  }
  VF Part(const T* p, int64_t n) const {
    HWY_ALIGN float buffer[kLanes] = {};
    for (int64_t i = 0; i < n; ++i) buffer[i] = One(p[i]);
    return hn::Load(DF(), buffer);
  }
  float One(T x) const { return static_cast<float>(x) - zero; }
};

/// Columns first + j * stride for j in [0, cols), of which [begin, end) are inside of [0, width).
struct RowReads {
  RowReads(int64_t width, int64_t first_column, int64_t step, int64_t count)
      : first(first_column), stride(step), cols(count) {
    const auto up = [&](int64_t n) { return step == 1 ? n : (n + step - 1) / step; };
    begin = first >= 0 ? 0 : std::min(cols, up(-first));
    end = first >= width ? begin : std::clamp(up(width - first), begin, cols);
  }
  int64_t first, stride, cols, begin, end;
};

/// out[j] = the input row at those columns, 0 outside of it. May write zeros to a vector of memory behind.
template <class R>
HWY_INLINE void FillRow(const R& read, const typename R::T* row, const RowReads& reads,
                        float* HWY_RESTRICT out) {
  const int64_t stride = reads.stride, begin = reads.begin, end = reads.end;
  int64_t j = 0;
  for (; j < begin; ++j) out[j] = 0;
  const auto* from = row + reads.first + begin * stride;
  if (stride == 1) {
    for (; j + kLanes <= end; j += kLanes, from += kLanes) hn::StoreU(read(from), DF(), out + j);
    if (j < end) {
      hn::StoreU(read.Part(from, end - j), DF(), out + j);
      j += kLanes;
    }
  } else {
    if constexpr (std::is_same_v<typename R::T, float>) {
      if (stride == 2) {
        for (; j + kLanes < end; j += kLanes, from += 2 * kLanes) {
          VF even, odd;
          hn::LoadInterleaved2(DF(), from, even, odd);
          hn::StoreU(even, DF(), out + j);
        }
#if HWY_TARGET != HWY_SCALAR
        if (j < end) {
          const int64_t n = 2 * (end - j) - 1;
          const VF low = n >= kLanes ? read(from) : read.Part(from, n);
          const VF high = n > kLanes ? read.Part(from + kLanes, n - kLanes) : Zero();
          hn::StoreU(hn::ConcatEven(DF(), high, low), DF(), out + j);
          j += kLanes;
        }
#endif
      }
    }
    for (; j < end; ++j, from += stride) out[j] = read.One(*from);
  }
  for (; j < reads.cols; ++j) out[j] = 0;
}

/// What of a channel some channels further on is fetched ahead: elements [first, last) of it, a line at a
/// time.
struct Ahead {
  int64_t channels = INT64_MAX / 2, first = 0, last = 0, step = 1;
};
template <class T>
HWY_INLINE Ahead AheadOf(const ConvTask& t) {
  constexpr int64_t kBytes = 4096;
  const ConvPlan& p = *t.plan;
  const ConvAxis *height = &t.args->axes[1], *width = &t.args->axes[2];
  Ahead a;
  if (t.args->axes[0].in != 1 || (p.tile_cols < width->out && height->out > 1)) return a;
  const auto inside = [](int64_t i, int64_t n) { return std::clamp<int64_t>(i, 0, n - 1); };
  const int64_t y0 = t.row0 * height->stride + height->tap0, x0 = t.col0 * width->stride + width->tap0;
  a.first = inside(y0, height->in) * width->in + inside(x0, width->in);
  a.last = inside(y0 + p.tile_rows * height->stride, height->in) * width->in +
           inside(x0 + p.tile_cols * width->stride, width->in);
  a.step = 64 / static_cast<int64_t>(sizeof(T));
  const auto bytes = std::max<int64_t>((a.last - a.first) * static_cast<int64_t>(sizeof(T)), 1);
  a.channels = std::clamp<int64_t>(kBytes / bytes, 1, 8);
  return a;
}

/// Channels [c0, c0 + count) of the task's group, padded and split by phases.
template <class R>
HWY_NOINLINE void FillTile(const ConvTask& t, const R& read, int64_t c0, int64_t count) {
  const ConvArgs& g = *t.args;
  const ConvPlan& p = *t.plan;
  const ConvAxis *depth = &g.axes[0], *height = &g.axes[1], *width = &g.axes[2];
  const int64_t plane = height->in * width->in;
  const auto* x = static_cast<const typename R::T*>(g.x.data) +
                  ((t.batch * g.groups + t.group) * g.channels + c0) * depth->in * plane;
  const Ahead ahead = AheadOf<typename R::T>(t);
  for (int64_t c = 0; c < count; ++c, x += depth->in * plane) {
    float* out = t.tile + c * p.channel_floats;
    if (c + ahead.channels < count)
      for (int64_t i = ahead.first; i < ahead.last; i += ahead.step)
        hwy::Prefetch(x + ahead.channels * plane + i);
    std::fill(out + p.used_floats, out + p.channel_floats, 0.0f);
    for (int64_t d = 0; d < depth->taps; ++d) {
      const int64_t z = t.depth * depth->stride + depth->tap0 + d * depth->tap_step;
      const bool inside = z >= 0 && z < depth->in;
      for (int64_t ph = 0; ph < p.reads[1].phases; ++ph) {
        const int64_t y0 =
            t.row0 * height->stride + p.reads[1].lowest + p.reads[1].PhaseOffset(ph, height->stride);
        for (int64_t pw = 0; pw < p.reads[2].phases; ++pw) {
          const int64_t x0 =
              t.col0 * width->stride + p.reads[2].lowest + p.reads[2].PhaseOffset(pw, width->stride);
          const RowReads columns(width->in, x0, p.reads[2].fill_step, p.pitch);
          for (int64_t r = 0; r < p.phase_rows; ++r, out += p.pitch) {
            const int64_t y = y0 + r * p.reads[1].fill_step;
            if (!inside || y < 0 || y >= height->in) {
              std::fill_n(out, p.pitch, 0.0f);
            } else {
              FillRow(read, x + z * plane + y * width->in, columns, out);
            }
          }
        }
      }
    }
  }
}

HWY_INLINE void Fill(const ConvTask& t, int64_t c0, int64_t count) {
  const ConvArgs& g = *t.args;
  const auto zero = static_cast<float>(g.x_zero);
  switch (g.x.dtype) {
    case DType::kFloat16:
      return FillTile(t, FloatReader<F16>(), c0, count);
    case DType::kBFloat16:
      return FillTile(t, FloatReader<BF16>(), c0, count);
    case DType::kUInt8:
      return FillTile(t, IntegerReader<uint8_t>{zero}, c0, count);
    case DType::kInt8:
      return FillTile(t, IntegerReader<int8_t>{zero}, c0, count);
    default:
      return FillTile(t, FloatReader<F32>(), c0, count);
  }
}

/// Calls fn(function from vector to vector).
template <class Fn>
HWY_INLINE void WithActivation(const ConvArgs& g, const Fn& fn) {
  const VF alpha = Set(g.alpha), beta = Set(g.beta), one = Set(1.0f), zero = Zero();
  switch (g.activation) {
    case ConvActivation::kNone:
      return fn([](VF x) HWY_ATTR { return x; });
    case ConvActivation::kRelu:
      return fn([=](VF x) HWY_ATTR { return MaxKeepNaN(zero, x); });
    case ConvActivation::kClip:
      return fn([=](VF x) HWY_ATTR { return MinKeepNaN(beta, MaxKeepNaN(alpha, x)); });
    case ConvActivation::kLeakyRelu:
      return fn([=](VF x) HWY_ATTR { return hn::IfThenElse(hn::Lt(x, zero), hn::Mul(alpha, x), x); });
    case ConvActivation::kSigmoid:
      return fn([](VF x) HWY_ATTR { return Sigmoid(x); });
    case ConvActivation::kTanh:
      return fn([](VF x) HWY_ATTR { return Tanh(x); });
    case ConvActivation::kHardSigmoid:
      return fn([=](VF x) HWY_ATTR { return MinKeepNaN(one, MaxKeepNaN(zero, hn::MulAdd(alpha, x, beta))); });
    case ConvActivation::kHardSwish:
      return fn([=](VF x) HWY_ATTR {
        const VF gate = hn::MulAdd(x, Set(1.0f / 6), Set(0.5f));
        return hn::Mul(x, MinKeepNaN(one, MaxKeepNaN(zero, gate)));
      });
    case ConvActivation::kSilu:
      return fn([=](VF x) HWY_ATTR { return hn::Mul(x, Sigmoid(hn::Mul(alpha, x))); });
    case ConvActivation::kGelu:
      return fn([](VF x) HWY_ATTR { return GeluErf(x); });
  }
}

/// Calls fn(first, out, count) for the runs of outputs among positions [p0, p1) of a tile: `count` from
/// position `first` on, the first of which is element `out` of a channel of y.
template <class Fn>
HWY_INLINE void ForRuns(const ConvTask& t, int64_t p0, int64_t p1, const Fn& fn) {
  const ConvPlan& p = *t.plan;
  const ConvAxis *depth = &t.args->axes[0], *height = &t.args->axes[1], *width = &t.args->axes[2];
  const int64_t rows = std::min(p.tile_rows, height->out - t.row0),
                cols = std::min(p.tile_cols, width->out - t.col0);
  for (int64_t r = p0 / p.row_positions; r < rows && r * p.row_positions < p1; ++r) {
    const int64_t begin = std::max<int64_t>(p0 - r * p.row_positions, 0),
                  end = std::min(cols, p1 - r * p.row_positions);
    if (begin >= end) continue;
    const int64_t row = (depth->out0 + t.depth * depth->out_step) * height->out_size + height->out0 +
                        (t.row0 + r) * height->out_step;
    fn(r * p.row_positions + begin, row * width->out_size + width->out0 + (t.col0 + begin) * width->out_step,
       end - begin);
  }
}

/// First element of a channel in y.
HWY_INLINE int64_t ChannelStart(const ConvTask& t, int64_t channel) {
  const ConvArgs& g = *t.args;
  return (t.batch * g.groups * g.filters + channel) * g.axes[0].out_size * g.axes[1].out_size *
         g.axes[2].out_size;
}

}  // namespace HWY_NAMESPACE
}  // namespace ullage::dense
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
