// Convolutions whose vectors hold one output of several filters: filters come from their packed blocks, the
// input is broadcast, and finished sums are turned around when they are stored.
#include <algorithm>

#include "providers/cpu/dense/conv_tile.h"
#include "providers/cpu/dense/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/dense/conv_filters.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "providers/cpu/dense/conv_parts-inl.h"
#include "providers/cpu/dense/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ullage::dense {
namespace HWY_NAMESPACE {
namespace {

#define ULLAGE_FILTERS_UNROLL _Pragma("GCC unroll 16")

/// Blocks of filters that one kernel takes, and outputs: as many as there are registers for.
#if HWY_TARGET <= HWY_AVX3
constexpr int kMostBlocks = 4;
constexpr int RowsFor(int blocks) {
  return blocks == 4 ? 6 : 8;
}
#elif HWY_TARGET == HWY_AVX2
constexpr int kMostBlocks = 1;
constexpr int RowsFor(int) {
  return 6;
}
#else
constexpr int kMostBlocks = 1;
constexpr int RowsFor(int) {
  return 4;
}
#endif
constexpr int64_t kPanelPositions = 48;  ///< a multiple of every kernel's rows and of kFilterLanes
constexpr int kBlockVectors = static_cast<int>(kFilterLanes / kLanes);

/// A part of the depth of kBlocks blocks, `a_step` floats apart.
struct Product {
  const float* a;
  int64_t a_step;
  const float* b;
  const int32_t* offsets;
  int64_t depth;
  const float* bias;  ///< [blocks][kFilterLanes]: what sums start with; null: with what they are
  float* sums;        ///< [blocks][position][kFilterLanes]
  int64_t sum_step;   ///< from block to block
  const float* next;  ///< what `a` is for the next product: fetched ahead
};

/// Positions that begin at places[0..kRows).
template <int kRows, int kBlocks>
HWY_INLINE void Kernel(const Product& p, const int32_t* HWY_RESTRICT places, float* HWY_RESTRICT sums,
                       const float* next) {
  constexpr int kVectors = kBlocks * kBlockVectors;
  VF acc[kRows][kVectors];
  const auto at = [&](int i, int v) {
    return sums + v / kBlockVectors * p.sum_step + i * kFilterLanes + v % kBlockVectors * kLanes;
  };
  ULLAGE_FILTERS_UNROLL for (int i = 0; i < kRows; ++i) {
    ULLAGE_FILTERS_UNROLL for (int v = 0; v < kVectors; ++v) {
      acc[i][v] = p.bias ? hn::LoadU(DF(), p.bias + v * kLanes) : hn::LoadU(DF(), at(i, v));
    }
  }
  const float* b[kRows];
  ULLAGE_FILTERS_UNROLL for (int i = 0; i < kRows; ++i) b[i] = p.b + places[i];
  const float* HWY_RESTRICT a = p.a;
  const int64_t a_step = p.a_step;
  const int32_t* HWY_RESTRICT offsets = p.offsets;
  for (const int32_t* end = offsets + p.depth; offsets != end;
       ++offsets, a += kFilterLanes, next += kFilterLanes) {
    hwy::Prefetch(next);
    const int64_t k = *offsets;
    VF av[kVectors];
    ULLAGE_FILTERS_UNROLL for (int v = 0; v < kVectors; ++v) {
      av[v] = hn::LoadU(DF(), a + v / kBlockVectors * a_step + v % kBlockVectors * kLanes);
    }
    ULLAGE_FILTERS_UNROLL for (int i = 0; i < kRows; ++i) {
      const VF bv = Set(b[i][k]);
      ULLAGE_FILTERS_UNROLL for (int v = 0; v < kVectors; ++v) acc[i][v] = hn::MulAdd(av[v], bv, acc[i][v]);
    }
  }
  ULLAGE_FILTERS_UNROLL for (int i = 0; i < kRows; ++i) {
    ULLAGE_FILTERS_UNROLL for (int v = 0; v < kVectors; ++v) hn::StoreU(acc[i][v], DF(), at(i, v));
  }
}

template <int kBlocks>
HWY_NOINLINE void Sweep(const Product& p, const int32_t* places, int64_t positions) {
  constexpr int kRows = RowsFor(kBlocks);
  float* sums = p.sums;
  int64_t left = positions, block = 0;
  const auto step = [&](auto rows) {
    constexpr int kStep = decltype(rows)::value;
    Kernel<kStep, kBlocks>(p, places, sums, p.next && block < kBlocks ? p.next + block++ * p.a_step : p.a);
    places += kStep;
    sums += kStep * kFilterLanes;
    left -= kStep;
  };
  while (left >= kRows) step(std::integral_constant<int, kRows>());
  if constexpr (kRows > 4)
    if (left > 4) step(std::integral_constant<int, kRows>());
  if (left > 2) step(std::integral_constant<int, 4>());
  if (left == 2) step(std::integral_constant<int, 2>());
  if (left == 1) step(std::integral_constant<int, 1>());
}

void SweepBlocks(int64_t blocks, const Product& p, const int32_t* places, int64_t positions) {
#if HWY_TARGET <= HWY_AVX3
  switch (blocks) {
    case 4:
      return Sweep<4>(p, places, positions);
    case 3:
      return Sweep<3>(p, places, positions);
    case 2:
      return Sweep<2>(p, places, positions);
    default:
      return Sweep<1>(p, places, positions);
  }
#else
  static_cast<void>(blocks);
  Sweep<1>(p, places, positions);
#endif
}

/// out[filter][position] = sums[position][filter], 16 by 16.
HWY_INLINE void Turn(const float* HWY_RESTRICT sums, float* HWY_RESTRICT out) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < kFilterLanes; ++i)
    for (int64_t j = 0; j < kFilterLanes; ++j) out[j * kFilterLanes + i] = sums[i * kFilterLanes + j];
#else
  const hn::RepartitionToWide<DF> d2;
  // quads[g][j]: filters j, 4 + j.. of the positions 4g.., four positions each.
  HWY_ALIGN float quads[4][4][kFilterLanes];
  for (int g = 0; g < 4; ++g) {
    for (int64_t v = 0; v < kFilterLanes; v += kLanes) {
      const float* from = sums + 4 * g * kFilterLanes + v;
      const VF a = hn::LoadU(DF(), from), b = hn::LoadU(DF(), from + kFilterLanes),
               c = hn::LoadU(DF(), from + 2 * kFilterLanes), d = hn::LoadU(DF(), from + 3 * kFilterLanes);
      const auto ab_lo = hn::BitCast(d2, hn::InterleaveLower(DF(), a, b));
      const auto ab_hi = hn::BitCast(d2, hn::InterleaveUpper(DF(), a, b));
      const auto cd_lo = hn::BitCast(d2, hn::InterleaveLower(DF(), c, d));
      const auto cd_hi = hn::BitCast(d2, hn::InterleaveUpper(DF(), c, d));
      hn::Store(hn::BitCast(DF(), hn::InterleaveLower(d2, ab_lo, cd_lo)), DF(), &quads[g][0][v]);
      hn::Store(hn::BitCast(DF(), hn::InterleaveUpper(d2, ab_lo, cd_lo)), DF(), &quads[g][1][v]);
      hn::Store(hn::BitCast(DF(), hn::InterleaveLower(d2, ab_hi, cd_hi)), DF(), &quads[g][2][v]);
      hn::Store(hn::BitCast(DF(), hn::InterleaveUpper(d2, ab_hi, cd_hi)), DF(), &quads[g][3][v]);
    }
  }
  const hn::FixedTag<float, 4> d4;
  for (int f = 0; f < kFilterLanes; ++f) {
    float* row = out + f * kFilterLanes;
    const auto quad = [&](int g) HWY_ATTR { return hn::Load(d4, &quads[g][f % 4][f / 4 * 4]); };
#if HWY_TARGET <= HWY_AVX3
    const hn::FixedTag<float, 8> d8;
    hn::Store(hn::Combine(DF(), hn::Combine(d8, quad(3), quad(2)), hn::Combine(d8, quad(1), quad(0))), DF(),
              row);
#elif HWY_TARGET == HWY_AVX2
    hn::Store(hn::Combine(DF(), quad(1), quad(0)), DF(), row);
    hn::Store(hn::Combine(DF(), quad(3), quad(2)), DF(), row + 8);
#else
    for (int g = 0; g < 4; ++g) hn::Store(quad(g), d4, row + 4 * g);
#endif
  }
#endif
}

/// Calls fn(first, out, count) as ForRuns() does, once for all rows where they are neighbours in y.
template <class Fn>
HWY_INLINE void ForWholeRuns(const ConvTask& t, int64_t p0, int64_t p1, const Fn& fn) {
  const ConvAxis *height = &t.args->axes[1], *width = &t.args->axes[2];
  const bool whole = t.plan->tile_cols == width->out_size && width->out_step == 1 && height->out_step == 1;
  if (!whole) return ForRuns(t, p0, p1, fn);
  const ConvAxis* depth = &t.args->axes[0];
  const int64_t row = (depth->out0 + t.depth * depth->out_step) * height->out_size + height->out0 + t.row0;
  fn(p0, row * width->out_size + width->out0 + p0, p1 - p0);
}

/// Sums of one block, of which `filters` are there, into y.
template <class E>
void StoreBlock(const ConvTask& t, int64_t filter, int64_t filters, int64_t p0, int64_t p1,
                const float* sums) {
  const ConvArgs& g = *t.args;
  const int64_t step = g.axes[2].out_step, channel_size = ChannelStart(t, 1) - ChannelStart(t, 0);
  const int64_t start = ChannelStart(t, t.group * g.filters + filter);
  auto* y = static_cast<typename E::T*>(g.y.data);
  const auto* residual = static_cast<const typename E::T*>(g.residual.data);
  WithActivation(g, [&](const auto& act) HWY_ATTR {
    ForWholeRuns(t, p0, p1, [&](int64_t first, int64_t run_out, int64_t count) HWY_ATTR {
      HWY_ALIGN float square[kFilterLanes * kFilterLanes];
      for (int64_t p = 0; p < count; p += kFilterLanes) {
        // What lies behind the last position belongs to the sums, too.
        Turn(sums + (first + p) * kFilterLanes, square);
        const int64_t n = std::min(kFilterLanes, count - p);
        for (int64_t i = 0; i < filters; ++i) {
          const int64_t out = start + i * channel_size + run_out + p * step;
          const float* row = square + i * kFilterLanes;
          for (int64_t j = 0; j < n; j += kLanes) {
            VF v = hn::Load(DF(), row + j);
            const int64_t at = out + j * step, rest = n - j;
            if (step != 1) {
              HWY_ALIGN float buffer[kLanes];
              if (residual) {
                for (int64_t l = 0; l < std::min(kLanes, rest); ++l)
                  buffer[l] = E::Get(residual[at + l * step]);
                v = hn::Add(v, hn::Load(DF(), buffer));
              }
              hn::Store(act(v), DF(), buffer);
              for (int64_t l = 0; l < std::min(kLanes, rest); ++l) y[at + l * step] = E::Make(buffer[l]);
            } else if (rest >= kLanes) {
              if (residual) v = hn::Add(v, Load<E>(residual + at));
              Store<E>(act(v), y + at);
            } else {
              if (residual) v = hn::Add(v, LoadPart<E>(residual + at, rest));
              StorePart<E>(act(v), y + at, rest);
            }
          }
        }
      }
    });
  });
}

/// All filters and positions of a task, for the part [k0, k1) of the depth of a block of channels with
/// `before` before it.
void RunPart(const ConvTask& t, int64_t k0, int64_t k1, int64_t before, bool first, bool last) {
  const ConvArgs& g = *t.args;
  const ConvPlan& p = *t.plan;
  const int64_t rows = std::min(p.tile_rows, g.axes[1].out - t.row0), positions = rows * p.tile_cols;
  const int64_t depth = g.channels * g.taps();
  const int64_t blocks = (t.filter1 - t.filter0 + kFilterLanes - 1) / kFilterLanes;
  HWY_ALIGN float start[kMostBlocks * kFilterLanes];
  // Even groups of blocks.
  int64_t groups = (blocks + kMostBlocks - 1) / kMostBlocks;
  for (int64_t b = 0; groups > 0; --groups) {
    const int64_t count = (blocks - b + groups - 1) / groups;
    const int64_t filter = t.filter0 + b * kFilterLanes;
    if (first) {
      std::fill_n(start, count * kFilterLanes, 0.0f);
      const int64_t valid = std::min(count * kFilterLanes, t.filter1 - filter);
      if (g.bias.data)
        for (int64_t i = 0; i < valid; ++i)
          start[i] = GetAny(g.bias.data, g.bias.dtype, t.group * g.filters + filter + i);
    }
    float* const sums = t.sums + b * p.c_pitch * kFilterLanes;
    const float* const a = t.packed + filter * depth + (before + k0) * kFilterLanes;
    Product product{a,
                    depth * kFilterLanes,
                    t.tile,
                    p.offsets + k0,
                    k1 - k0,
                    first ? start : nullptr,
                    sums,
                    p.c_pitch * kFilterLanes,
                    groups > 1 ? a + count * kFilterLanes * depth
                               : t.packed + t.filter0 * depth + (before + k1) * kFilterLanes};
    // Finished sums are stored while they are in the first-level cache.
    const int64_t panel = last ? kPanelPositions : positions;
    for (int64_t p0 = 0; p0 < positions; p0 += panel) {
      const int64_t p1 = std::min(positions, p0 + panel);
      product.sums = sums + p0 * kFilterLanes;
      SweepBlocks(count, product, p.places + p0, p1 - p0);
      product.next = nullptr;
      for (int64_t i = 0; last && i < count; ++i) {
        const int64_t f = filter + i * kFilterLanes;
        WithType(g.y.dtype, [&](auto type) HWY_ATTR {
          StoreBlock<decltype(type)>(t, f, std::min(kFilterLanes, t.filter1 - f), p0, p1,
                                     sums + i * p.c_pitch * kFilterLanes);
        });
      }
    }
    b += count;
  }
}

}  // namespace

void ConvTileByFilters(const ConvTask& t) {
  const ConvArgs& g = *t.args;
  const ConvPlan& p = *t.plan;
  const int64_t taps = g.taps();
  if (g.channels * taps == 0) return RunPart(t, 0, 0, 0, true, true);
  for (int64_t c = 0; c < g.channels; c += p.block_channels) {
    const int64_t count = std::min(p.block_channels, g.channels - c);
    Fill(t, c, count);
    for (int64_t k = 0; k < count * taps; k += kConvDepth) {
      const int64_t k1 = std::min(count * taps, k + kConvDepth);
      RunPart(t, k, k1, c * taps, c == 0 && k == 0, c + count == g.channels && k1 == count * taps);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ullage::dense
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ullage::dense {

HWY_EXPORT(ConvTileByFilters);
void RunConvTileByFilters(const ConvTask& task) {
  HWY_DYNAMIC_DISPATCH(ConvTileByFilters)(task);
}

}  // namespace ullage::dense
#endif
