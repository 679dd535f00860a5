#include "providers/cpu/dense/conv_tile.h"

#include <algorithm>
#include <type_traits>

#include "providers/cpu/dense/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/dense/conv_tile.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "providers/cpu/dense/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ullage::dense {
namespace HWY_NAMESPACE {
namespace {

#define ULLAGE_CONV_UNROLL _Pragma("GCC unroll 16")

/// How elements of the input become floats.
template <class E>
struct FloatReader {
  using T = typename E::T;
  VF operator()(const T* p) const { return Load<E>(p); }
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
  float One(T x) const { return static_cast<float>(x) - zero; }
};

/// out[j] = the input row at column first + j * stride, for j in [0, cols); 0 outside of [0, width).
template <class R>
HWY_INLINE void FillRow(const R& read, const typename R::T* row, int64_t width, int64_t first, int64_t stride,
                        int64_t cols, float* HWY_RESTRICT out) {
  const int64_t begin = first >= 0 ? 0 : std::min(cols, (-first + stride - 1) / stride);
  const int64_t end = first >= width ? begin : std::clamp((width - 1 - first) / stride + 1, begin, cols);
  int64_t j = 0;
  for (; j < begin; ++j) out[j] = 0;
  const auto* from = row + first + begin * stride;
  if (stride == 1) {
    for (; j + kLanes <= end; j += kLanes, from += kLanes) hn::StoreU(read(from), DF(), out + j);
    for (; j < end; ++j, ++from) out[j] = read.One(*from);
  } else {
    if constexpr (std::is_same_v<typename R::T, float>) {
      if (stride == 2) {
        for (; j + kLanes < end; j += kLanes, from += 2 * kLanes) {
          VF even, odd;
          hn::LoadInterleaved2(DF(), from, even, odd);
          hn::StoreU(even, DF(), out + j);
        }
      }
    }
    for (; j < end; ++j, from += stride) out[j] = read.One(*from);
  }
  for (; j < cols; ++j) out[j] = 0;
}

/// Channels [c0, c0 + count) of the task's group, padded and split by phases.
template <class R>
void FillTile(const ConvTask& t, const R& read, int64_t c0, int64_t count) {
  const ConvArgs& g = *t.args;
  const ConvPlan& p = *t.plan;
  const ConvAxis *depth = &g.axes[0], *height = &g.axes[1], *width = &g.axes[2];
  const int64_t plane = height->in * width->in;
  const auto* x = static_cast<const typename R::T*>(g.x.data) +
                  ((t.batch * g.groups + t.group) * g.channels + c0) * depth->in * plane;
  float* out = t.tile;
  for (int64_t c = 0; c < count; ++c, x += depth->in * plane) {
    for (int64_t d = 0; d < depth->taps; ++d) {
      const int64_t z = t.depth * depth->stride + depth->tap0 + d * depth->tap_step;
      const bool inside = z >= 0 && z < depth->in;
      for (int64_t ph = 0; ph < p.reads[1].phases; ++ph) {
        const int64_t y0 =
            t.row0 * height->stride + p.reads[1].lowest + p.reads[1].PhaseOffset(ph, height->stride);
        for (int64_t pw = 0; pw < p.reads[2].phases; ++pw) {
          const int64_t x0 =
              t.col0 * width->stride + p.reads[2].lowest + p.reads[2].PhaseOffset(pw, width->stride);
          for (int64_t r = 0; r < p.phase_rows; ++r, out += p.pitch) {
            const int64_t y = y0 + r * height->stride;
            if (!inside || y < 0 || y >= height->in) {
              std::fill_n(out, p.pitch, 0.0f);
            } else {
              FillRow(read, x + z * plane + y * width->in, width->in, x0, width->stride, p.pitch, out);
            }
          }
        }
      }
    }
  }
}

/// kRows sums of kVectors vectors each. a[k][a_step], b at offsets[k]. bias: what the sums start with; null:
/// with what is in c.
template <int kRows, int kVectors>
HWY_INLINE void Kernel(const float* HWY_RESTRICT a, int64_t a_step, const float* HWY_RESTRICT b,
                       const int32_t* HWY_RESTRICT offsets, int64_t depth, const float* bias,
                       float* HWY_RESTRICT c, int64_t pitch) {
  VF acc[kRows][kVectors];
  ULLAGE_CONV_UNROLL for (int i = 0; i < kRows; ++i) {
    ULLAGE_CONV_UNROLL for (int v = 0; v < kVectors; ++v) {
      acc[i][v] = bias ? Set(bias[i]) : hn::LoadU(DF(), c + i * pitch + v * kLanes);
    }
  }
  for (int64_t k = 0; k < depth; ++k, a += a_step) {
    const float* bk = b + offsets[k];
    VF bv[kVectors];
    ULLAGE_CONV_UNROLL for (int v = 0; v < kVectors; ++v) bv[v] = hn::LoadU(DF(), bk + v * kLanes);
    ULLAGE_CONV_UNROLL for (int i = 0; i < kRows; ++i) {
      const VF av = Set(a[i]);
      ULLAGE_CONV_UNROLL for (int v = 0; v < kVectors; ++v) acc[i][v] = hn::MulAdd(av, bv[v], acc[i][v]);
    }
  }
  ULLAGE_CONV_UNROLL for (int i = 0; i < kRows; ++i) {
    ULLAGE_CONV_UNROLL for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(acc[i][v], DF(), c + i * pitch + v * kLanes);
    }
  }
}

/// All positions for kRows filters.
template <int kRows, int kVectors>
HWY_NOINLINE void Sweep(const float* a, int64_t a_step, const float* b, const int32_t* offsets, int64_t depth,
                        const float* bias, float* c, int64_t pitch, int64_t positions) {
  constexpr int64_t kStep = kVectors * kLanes;
  int64_t p = 0;
  for (; p + kStep - kLanes < positions; p += kStep) {
    Kernel<kRows, kVectors>(a, a_step, b + p, offsets, depth, bias, c + p, pitch);
  }
  for (; p < positions; p += kLanes) {
    Kernel<kRows, 1>(a, a_step, b + p, offsets, depth, bias, c + p, pitch);
  }
}

// Registers: rows times vectors of sums, and the vectors of b. Once per instruction set.
#undef ULLAGE_CONV_SWEEP
#if HWY_TARGET <= HWY_AVX3
#define ULLAGE_CONV_SWEEP(n, v512, v256, vmore) Sweep<n, v512>
#elif HWY_TARGET == HWY_AVX2
#define ULLAGE_CONV_SWEEP(n, v512, v256, vmore) Sweep<n, v256>
#else
#define ULLAGE_CONV_SWEEP(n, v512, v256, vmore) Sweep<n, vmore>
#endif

void SweepRows(int64_t rows, const float* a, const float* b, const int32_t* offsets, int64_t depth,
               const float* bias, float* c, int64_t pitch, int64_t positions) {
  const int64_t step = rows;
  const auto at = [&](auto sweep, int64_t row) {
    sweep(a + row, step, b, offsets, depth, bias ? bias + row : nullptr, c + row * pitch, pitch, positions);
  };
  switch (rows) {
    case 1:
      return at(ULLAGE_CONV_SWEEP(1, 8, 8, 8), 0);
    case 2:
      return at(ULLAGE_CONV_SWEEP(2, 8, 4, 8), 0);
    case 4:
      return at(ULLAGE_CONV_SWEEP(4, 4, 2, 4), 0);
    case 6:
      return at(ULLAGE_CONV_SWEEP(6, 4, 2, 4), 0);
    case 8:
#if HWY_TARGET <= HWY_AVX3
      return at(Sweep<8, 2>, 0);
#else
      at(ULLAGE_CONV_SWEEP(4, 4, 2, 4), 0);
      return at(ULLAGE_CONV_SWEEP(4, 4, 2, 4), 4);
#endif
    default:
#if HWY_TARGET <= HWY_AVX3
      return at(Sweep<12, 2>, 0);
#else
      at(ULLAGE_CONV_SWEEP(6, 4, 2, 4), 0);
      return at(ULLAGE_CONV_SWEEP(6, 4, 2, 4), 6);
#endif
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

/// Calls fn(row, sums, index of the first output in y, how many columns) for each row of outputs of a block.
template <class Fn>
HWY_INLINE void ForOutputRows(const ConvTask& t, int64_t filter0, int64_t filters, const Fn& fn) {
  const ConvArgs& g = *t.args;
  const ConvPlan& p = *t.plan;
  const ConvAxis *depth = &g.axes[0], *height = &g.axes[1], *width = &g.axes[2];
  const int64_t rows = std::min(p.tile_rows, height->out - t.row0),
                cols = std::min(p.tile_cols, width->out - t.col0);
  for (int64_t i = 0; i < filters; ++i) {
    const int64_t channel = t.group * g.filters + filter0 + i;
    const int64_t slice = (t.batch * g.groups * g.filters + channel) * depth->out_size + depth->out0 +
                          t.depth * depth->out_step;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t row = slice * height->out_size + height->out0 + (t.row0 + r) * height->out_step;
      fn(i, channel, r * p.pitch, row * width->out_size + width->out0 + t.col0 * width->out_step, cols);
    }
  }
}

template <class E>
void StoreFloats(const ConvTask& t, int64_t filter0, int64_t filters, const float* sums) {
  const ConvArgs& g = *t.args;
  const int64_t step = g.axes[2].out_step;
  auto* y = static_cast<typename E::T*>(g.y.data);
  WithActivation(g, [&](const auto& act) HWY_ATTR {
    ForOutputRows(t, filter0, filters,
                  [&](int64_t i, int64_t, int64_t at, int64_t out, int64_t cols) HWY_ATTR {
                    const float* row = sums + i * t.plan->c_pitch + at;
                    if (step == 1) {
                      int64_t j = 0;
                      for (; j + kLanes <= cols; j += kLanes) {
                        VF v = hn::LoadU(DF(), row + j);
                        if (g.residual.data)
                          v = hn::Add(v, LoadAny(g.residual.data, g.residual.dtype, out + j));
                        Store<E>(act(v), y + out + j);
                      }
                      if (j < cols) {
                        VF v = LoadFirst<F32>(row + j, cols - j);
                        if (g.residual.data)
                          v = hn::Add(v, LoadAny(g.residual.data, g.residual.dtype, out + j, cols - j));
                        StoreFirst<E>(act(v), y + out + j, cols - j);
                      }
                      return;
                    }
                    HWY_ALIGN float buffer[kLanes];
                    for (int64_t j = 0; j < cols; j += kLanes) {
                      const int64_t n = std::min(kLanes, cols - j);
                      for (int64_t l = 0; l < n; ++l) {
                        buffer[l] = row[j + l];
                        if (g.residual.data)
                          buffer[l] += GetAny(g.residual.data, g.residual.dtype, out + (j + l) * step);
                      }
                      hn::Store(act(LoadFirst<F32>(buffer, n)), DF(), buffer);
                      for (int64_t l = 0; l < n; ++l) y[out + (j + l) * step] = E::Make(buffer[l]);
                    }
                  });
  });
}

void StoreIntegers(const ConvTask& t, int64_t filter0, int64_t filters, const int32_t* sums) {
  const ConvArgs& g = *t.args;
  const int64_t step = g.axes[2].out_step;
  const auto* bias = static_cast<const int32_t*>(g.bias.data);
  ForOutputRows(
      t, filter0, filters, [&](int64_t i, int64_t channel, int64_t at, int64_t out, int64_t cols) HWY_ATTR {
        const int32_t* row = sums + i * t.plan->c_pitch + at;
        const uint32_t add = bias ? static_cast<uint32_t>(bias[channel]) : 0u;  // sums wrap
        if (g.y.dtype == DType::kInt32) {
          auto* y = static_cast<int32_t*>(g.y.data) + out;
          for (int64_t j = 0; j < cols; ++j)
            y[j * step] = static_cast<int32_t>(static_cast<uint32_t>(row[j]) + add);
          return;
        }
        const VF scale = Set(g.scales[channel * g.scale_stride]);
        const bool is_signed = g.y.dtype == DType::kInt8;
        const auto zero = hn::Set(DI(), g.y_zero);
        const auto low = hn::Set(DI(), is_signed ? -128 : 0), high = hn::Set(DI(), is_signed ? 127 : 255);
        HWY_ALIGN int32_t buffer[kLanes];
        for (int64_t j = 0; j < cols; j += kLanes) {
          const int64_t n = std::min(kLanes, cols - j);
          // Memory behind the row belongs to the sums, too.
          const auto sum = hn::Add(hn::LoadU(DI(), row + j), hn::Set(DI(), static_cast<int32_t>(add)));
          const VF scaled = hn::Mul(hn::ConvertTo(DF(), sum), scale);
          const VF clamped = hn::Min(Set(1e6f), hn::Max(Set(-1e6f), scaled));
          const auto v = hn::Min(high, hn::Max(low, hn::Add(hn::NearestInt(clamped), zero)));
          hn::Store(v, DI(), buffer);
          auto* y = static_cast<uint8_t*>(g.y.data) + out;
          for (int64_t l = 0; l < n; ++l) y[(j + l) * step] = static_cast<uint8_t>(buffer[l]);
        }
      });
}

void Fill(const ConvTask& t, int64_t c0, int64_t count) {
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

/// Sums of one block of channels [k0, k0 + depth) for the rows of a block; integers: added up in int32.
void Accumulate(const ConvTask& t, int64_t rows, const float* a, int64_t depth, bool first, const float* bias,
                float* sums, float* exact) {
  const ConvPlan& p = *t.plan;
  if (exact == nullptr) {
    SweepRows(rows, a, t.tile, p.offsets, depth, first ? bias : nullptr, sums, p.c_pitch, p.positions);
    return;
  }
  auto* total = reinterpret_cast<int32_t*>(sums);
  int64_t k = 0;
  do {
    const int64_t part = std::min(kExactDepth, depth - k);
    SweepRows(rows, a + k * rows, t.tile, p.offsets + k, part, bias, exact, p.c_pitch, p.positions);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < p.positions; j += kLanes) {
        const int64_t at = i * p.c_pitch + j;
        auto v = hn::NearestInt(hn::LoadU(DF(), exact + at));
        if (!first || k > 0) v = hn::Add(v, hn::LoadU(DI(), total + at));
        hn::StoreU(v, DI(), total + at);
      }
    }
    k += part;
  } while (k < depth);
}

}  // namespace

void ConvTile(const ConvTask& t) {
  const ConvArgs& g = *t.args;
  const ConvPlan& p = *t.plan;
  const bool integers = g.x.dtype == DType::kUInt8 || g.x.dtype == DType::kInt8;
  const int64_t taps = g.taps(), depth = g.channels * taps;
  const int64_t filters = t.filter1 - t.filter0;
  const bool whole = depth == 0 || p.block_channels >= g.channels;
  float* const exact =
      integers ? t.sums + (whole ? kFilterRows : (filters + kFilterRows - 1) / kFilterRows * kFilterRows) *
                              p.c_pitch
               : nullptr;
  int64_t c = 0;
  do {
    const int64_t count = depth == 0 ? g.channels : std::min(p.block_channels, g.channels - c);
    if (depth > 0) {
      Fill(t, c, count);
      std::fill_n(t.tile + count * p.channel_floats, kConvAlign, 0.0f);
    }
    const bool last = c + count >= g.channels;
    for (int64_t f = t.filter0; f < t.filter1; f += kFilterRows) {
      const int64_t valid = std::min(kFilterRows, t.filter1 - f), rows = FilterBlockRows(valid);
      HWY_ALIGN float bias[kFilterRows] = {};
      if (!integers && g.bias.data)
        for (int64_t i = 0; i < valid; ++i)
          bias[i] = GetAny(g.bias.data, g.bias.dtype, t.group * g.filters + f + i);
      float* sums = t.sums + (whole ? 0 : (f - t.filter0) * p.c_pitch);
      Accumulate(t, rows, t.packed + f * depth + c * taps * rows, depth == 0 ? 0 : count * taps, c == 0, bias,
                 sums, exact);
      if (!last) continue;
      if (integers) {
        StoreIntegers(t, f, valid, reinterpret_cast<const int32_t*>(sums));
      } else {
        WithType(g.y.dtype, [&](auto type) HWY_ATTR { StoreFloats<decltype(type)>(t, f, valid, sums); });
      }
    }
    c += count;
  } while (c < g.channels);
}

}  // namespace HWY_NAMESPACE
}  // namespace ullage::dense
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ullage::dense {

HWY_EXPORT(ConvTile);
void RunConvTile(const ConvTask& task) {
  HWY_DYNAMIC_DISPATCH(ConvTile)(task);
}

}  // namespace ullage::dense
#endif
