#include "providers/cpu/dense/conv_tile.h"

#include <algorithm>
#include <type_traits>

#include "providers/cpu/dense/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/dense/conv_tile.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "providers/cpu/dense/conv_parts-inl.h"
#include "providers/cpu/dense/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ullage::dense {
namespace HWY_NAMESPACE {
namespace {

#define ULLAGE_CONV_UNROLL _Pragma("GCC unroll 16")

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
  if constexpr (kVectors > 2) {
    for (; p + kLanes < positions; p += 2 * kLanes)
      Kernel<kRows, 2>(a, a_step, b + p, offsets, depth, bias, c + p, pitch);
  }
  for (; p < positions; p += kLanes) {
    Kernel<kRows, 1>(a, a_step, b + p, offsets, depth, bias, c + p, pitch);
  }
}

/// Vectors of a panel that are summed at a time: as many as there are registers for, next to those of b.
constexpr int VectorsFor(int rows) {
#if HWY_TARGET <= HWY_AVX3
  return rows <= 2 ? 8 : rows <= 6 ? 4 : 2;
#elif HWY_TARGET == HWY_AVX2
  return rows == 1 ? 8 : rows == 2 ? 4 : 2;
#else
  return rows <= 2 ? 8 : 4;
#endif
}

void SweepRows(int64_t rows, const float* a, const float* b, const int32_t* offsets, int64_t depth,
               const float* bias, float* c, int64_t pitch, int64_t positions) {
  const int64_t step = rows;
  const auto at = [&](auto sweep, int64_t row) {
    sweep(a + row, step, b, offsets, depth, bias ? bias + row : nullptr, c + row * pitch, pitch, positions);
  };
  switch (rows) {
    case 1:
      return at(Sweep<1, VectorsFor(1)>, 0);
    case 2:
      return at(Sweep<2, VectorsFor(2)>, 0);
    case 4:
      return at(Sweep<4, VectorsFor(4)>, 0);
    case 6:
      return at(Sweep<6, VectorsFor(6)>, 0);
    case 8:
#if HWY_TARGET <= HWY_AVX3
      return at(Sweep<8, 2>, 0);
#else
      at(Sweep<4, VectorsFor(4)>, 0);
      return at(Sweep<4, VectorsFor(4)>, 4);
#endif
    default:
#if HWY_TARGET <= HWY_AVX3
      return at(Sweep<12, 2>, 0);
#else
      at(Sweep<6, VectorsFor(6)>, 0);
      return at(Sweep<6, VectorsFor(6)>, 6);
#endif
  }
}

template <class E>
void StoreFloats(const ConvTask& t, int64_t filter0, int64_t filters, const float* sums, int64_t p0,
                 int64_t p1) {
  const ConvArgs& g = *t.args;
  const int64_t step = g.axes[2].out_step, pitch = t.plan->c_pitch;
  const int64_t channel = t.group * g.filters + filter0,
                channel_size = ChannelStart(t, 1) - ChannelStart(t, 0);
  const int64_t start = ChannelStart(t, channel);
  auto* y = static_cast<typename E::T*>(g.y.data);
  WithActivation(g, [&](const auto& act) HWY_ATTR {
    ForRuns(t, p0, p1, [&](int64_t first, int64_t run_out, int64_t count) HWY_ATTR {
      for (int64_t i = 0; i < filters; ++i) {
        const float* row = sums + i * pitch + first;
        const int64_t out = start + i * channel_size + run_out;
        int64_t j = 0;
        if (step == 1) {
          for (; j + kLanes <= count; j += kLanes) {
            VF v = hn::LoadU(DF(), row + j);
            if (g.residual.data)
              v = hn::Add(v, Load<E>(static_cast<const typename E::T*>(g.residual.data) + out + j));
            Store<E>(act(v), y + out + j);
          }
          if (j < count) {
            const int64_t rest = count - j;
            VF v = hn::LoadU(DF(), row + j);  // what lies behind belongs to the sums, too
            if (g.residual.data)
              v = hn::Add(v, LoadPart<E>(static_cast<const typename E::T*>(g.residual.data) + out + j, rest));
            StorePart<E>(act(v), y + out + j, rest);
          }
          continue;
        }
        HWY_ALIGN float buffer[kLanes];
        for (; j < count; j += kLanes) {
          const int64_t n = std::min(kLanes, count - j);
          for (int64_t l = 0; l < n; ++l) {
            buffer[l] = row[j + l];
            if (g.residual.data) buffer[l] += GetAny(g.residual.data, g.residual.dtype, out + (j + l) * step);
          }
          hn::Store(act(LoadFirst<F32>(buffer, n)), DF(), buffer);
          for (int64_t l = 0; l < n; ++l) y[out + (j + l) * step] = E::Make(buffer[l]);
        }
      }
    });
  });
}

void StoreIntegers(const ConvTask& t, int64_t filter0, int64_t filters, const int32_t* sums, int64_t p0,
                   int64_t p1) {
  const ConvArgs& g = *t.args;
  const int64_t step = g.axes[2].out_step;
  const auto* bias = static_cast<const int32_t*>(g.bias.data);
  const bool is_signed = g.y.dtype == DType::kInt8;
  const auto zero = hn::Set(DI(), g.y_zero);
  const auto low = hn::Set(DI(), is_signed ? -128 : 0), high = hn::Set(DI(), is_signed ? 127 : 255);
  ForRuns(t, p0, p1, [&](int64_t first, int64_t run_out, int64_t count) HWY_ATTR {
    for (int64_t i = 0; i < filters; ++i) {
      const int64_t channel = t.group * g.filters + filter0 + i, out = ChannelStart(t, channel) + run_out;
      const int32_t* row = sums + i * t.plan->c_pitch + first;
      const uint32_t add = bias ? static_cast<uint32_t>(bias[channel]) : 0u;  // sums wrap
      if (g.y.dtype == DType::kInt32) {
        auto* y = static_cast<int32_t*>(g.y.data) + out;
        for (int64_t j = 0; j < count; ++j)
          y[j * step] = static_cast<int32_t>(static_cast<uint32_t>(row[j]) + add);
        continue;
      }
      const VF scale = Set(g.scales[channel * g.scale_stride]);
      HWY_ALIGN int32_t buffer[kLanes];
      for (int64_t j = 0; j < count; j += kLanes) {
        const auto sum = hn::Add(hn::LoadU(DI(), row + j), hn::Set(DI(), static_cast<int32_t>(add)));
        const VF scaled = hn::Mul(hn::ConvertTo(DF(), sum), scale);
        const VF clamped = hn::Min(Set(1e6f), hn::Max(Set(-1e6f), scaled));
        const auto v = hn::Min(high, hn::Max(low, hn::Add(hn::NearestInt(clamped), zero)));
        hn::Store(v, DI(), buffer);
        auto* y = static_cast<uint8_t*>(g.y.data) + out;
        for (int64_t l = 0; l < std::min(kLanes, count - j); ++l)
          y[(j + l) * step] = static_cast<uint8_t>(buffer[l]);
      }
    }
  });
}

/// True when x may be read where it lies: no vector reaches behind its end.
bool InPlace(const ConvTask& t) {
  const ConvArgs& g = *t.args;
  if (!t.plan->direct) return false;
  const int64_t in = g.axes[2].in;
  const int64_t planes = ((g.batch - t.batch) * g.groups - t.group) * g.channels - (g.channels - 1);
  return t.col0 + (t.plan->positions + kLanes - 1) / kLanes * kLanes <= planes * in;
}

/// Adds integers in float to sums in int32.
void AddExact(const float* part, int64_t rows, int64_t pitch, int64_t positions, bool first, int32_t* sums) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < positions; j += kLanes) {
      auto v = hn::NearestInt(hn::LoadU(DF(), part + i * pitch + j));
      if (!first) v = hn::Add(v, hn::LoadU(DI(), sums + i * pitch + j));
      hn::StoreU(v, DI(), sums + i * pitch + j);
    }
  }
}

/// A part of the depth: offsets [k0, k1) of a block of channels that begins at `b`.
struct DepthPart {
  const float* b;
  const int32_t* offsets;
  int64_t k0, k1;
  int64_t before;  ///< depth of the blocks before this one
  bool first, last;
};

/// All filters and positions of a task, for a part of the depth.
void RunPart(const ConvTask& t, const DepthPart& part, bool in_parts) {
  const ConvArgs& g = *t.args;
  const ConvPlan& p = *t.plan;
  const bool integers = g.x.dtype == DType::kUInt8 || g.x.dtype == DType::kInt8;
  const int64_t filters = t.filter1 - t.filter0, depth = g.channels * g.taps();
  const int64_t sum_rows = in_parts ? (filters + kFilterRows - 1) / kFilterRows * kFilterRows : kFilterRows;
  float* const exact = integers ? t.sums + sum_rows * p.c_pitch : nullptr;
  // Filters one block after the other over the values of one panel, which stay in the cache.
  const int64_t panel = filters > kFilterRows ? kConvPanel : p.positions;
  HWY_ALIGN float start[kFilterRows] = {};
  for (int64_t p0 = 0; p0 < p.positions; p0 += panel) {
    const int64_t p1 = std::min(p.positions, p0 + panel);
    for (int64_t f = t.filter0; f < t.filter1; f += kFilterRows) {
      const int64_t valid = std::min(kFilterRows, t.filter1 - f), rows = FilterBlockRows(valid);
      const float* bias = nullptr;
      if (part.first || exact) {
        bias = start;
        if (!integers && g.bias.data) {
          const int64_t channel = t.group * g.filters + f;
          if (valid == rows && g.bias.dtype == DType::kFloat)
            bias = static_cast<const float*>(g.bias.data) + channel;
          else
            for (int64_t i = 0; i < valid; ++i) start[i] = GetAny(g.bias.data, g.bias.dtype, channel + i);
        }
      }
      float* sums = t.sums + (in_parts ? (f - t.filter0) * p.c_pitch : 0);
      const float* a = t.packed + f * depth + (part.before + part.k0) * rows;
      SweepRows(rows, a, part.b + p0, part.offsets + part.k0, part.k1 - part.k0, bias,
                (exact ? exact : sums) + p0, p.c_pitch, p1 - p0);
      auto* totals = reinterpret_cast<int32_t*>(sums);
      if (exact) AddExact(exact + p0, rows, p.c_pitch, p1 - p0, part.first, totals + p0);
      if (!part.last) continue;
      if (integers)
        StoreIntegers(t, f, valid, totals, p0, p1);
      else
        WithType(g.y.dtype,
                 [&](auto type) HWY_ATTR { StoreFloats<decltype(type)>(t, f, valid, sums, p0, p1); });
    }
  }
}

/// One filter over one channel, which is in the tile: sums go straight to y.
template <class E>
void RunSingle(const ConvTask& t) {
  constexpr int kUnits = 8;
  const ConvArgs& g = *t.args;
  const ConvPlan& p = *t.plan;
  const int64_t taps = g.taps(), start = ChannelStart(t, t.group);
  const float* const a = t.packed;
  const VF bias = Set(g.bias.data ? GetAny(g.bias.data, g.bias.dtype, t.group) : 0.0f);
  auto* y = static_cast<typename E::T*>(g.y.data);
  const auto* residual = static_cast<const typename E::T*>(g.residual.data);
  struct {
    const float* from;
    int64_t out, count;
  } units[kUnits];
  WithActivation(g, [&](const auto& act) HWY_ATTR {
    int n = 0;
    const auto finish = [&]() HWY_ATTR {
      VF acc[kUnits];
      for (int i = n; i < kUnits; ++i) units[i].from = units[0].from;
      ULLAGE_CONV_UNROLL for (int i = 0; i < kUnits; ++i) acc[i] = bias;
      for (int64_t k = 0; k < taps; ++k) {
        const VF w = Set(a[k]);
        const int64_t at = p.offsets[k];
        ULLAGE_CONV_UNROLL for (int i = 0; i < kUnits; ++i) {
          acc[i] = hn::MulAdd(w, hn::LoadU(DF(), units[i].from + at), acc[i]);
        }
      }
      HWY_ALIGN float sums[kUnits * kLanes];
      ULLAGE_CONV_UNROLL for (int i = 0; i < kUnits; ++i) hn::Store(acc[i], DF(), sums + i * kLanes);
      for (int i = 0; i < n; ++i) {
        const int64_t out = units[i].out, count = units[i].count;
        VF v = hn::Load(DF(), sums + i * kLanes);
        if (count == kLanes) {
          if (residual) v = hn::Add(v, Load<E>(residual + out));
          Store<E>(act(v), y + out);
        } else {
          if (residual) v = hn::Add(v, LoadPart<E>(residual + out, count));
          StorePart<E>(act(v), y + out, count);
        }
      }
      n = 0;
    };
    ForRuns(t, 0, p.positions, [&](int64_t first, int64_t run_out, int64_t count) HWY_ATTR {
      for (int64_t j = 0; j < count; j += kLanes) {
        units[n++] = {t.tile + first + j, start + run_out + j, std::min(kLanes, count - j)};
        if (n == kUnits) finish();
      }
    });
    if (n > 0) finish();
  });
}

}  // namespace

void ConvTile(const ConvTask& t) {
  const ConvArgs& g = *t.args;
  const ConvPlan& p = *t.plan;
  const int64_t taps = g.taps(), depth = g.channels * taps;
  if (depth == 0) return RunPart(t, {t.tile, p.offsets, 0, 0, 0, true, true}, false);
  if (g.channels == 1 && g.filters == 1 && g.axes[2].out_step == 1 && IsFloating(g.y.dtype)) {
    Fill(t, 0, 1);
    std::fill_n(t.tile + p.channel_floats, kConvAlign, 0.0f);
    return WithType(g.y.dtype, [&](auto type) HWY_ATTR { RunSingle<decltype(type)>(t); });
  }
  const bool in_place = InPlace(t), in_parts = depth > kConvDepth || p.block_channels < g.channels;
  for (int64_t c = 0; c < g.channels; c += p.block_channels) {
    const int64_t count = std::min(p.block_channels, g.channels - c);
    DepthPart part{t.tile, p.offsets, 0, 0, c * taps, false, false};
    if (in_place) {
      part.b = static_cast<const float*>(g.x.data) +
               ((t.batch * g.groups + t.group) * g.channels + c) * g.axes[2].in + t.col0;
      part.offsets = p.direct;
    } else {
      Fill(t, c, count);
      std::fill_n(t.tile + count * p.channel_floats, kConvAlign, 0.0f);
    }
    for (int64_t k = 0; k < count * taps; k += kConvDepth) {
      part.k0 = k;
      part.k1 = std::min(count * taps, k + kConvDepth);
      part.first = c == 0 && k == 0;
      part.last = c + count == g.channels && part.k1 == count * taps;
      RunPart(t, part, in_parts);
    }
  }
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
