#include "providers/cpu/dense/conv.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "core/checked.h"
#include "core/error.h"
#include "core/half.h"
#include "providers/cpu/dense/conv_tile.h"
#include "providers/cpu/dense/tasks.h"

namespace ullage::dense {
namespace {

constexpr int64_t kLine = static_cast<int64_t>(kScratchAlignment / sizeof(float));
constexpr int64_t kTileFloats = 64 * 1024;  ///< of the second-level cache
constexpr int64_t kSumFloats = 64 * 1024;
constexpr int64_t kMostPositions = 2048;
constexpr int64_t kTileOutputs = 1024;    ///< of a tile, at most
constexpr int64_t kSparePositions = 8;    ///< of sums by filters: what a kernel may compute beyond the last
constexpr int64_t kFewOutputs = 64;       ///< of a tile, however large its channels are
constexpr int64_t kBlockDepth = 512;      ///< channels times taps of a tile that should be there at a time
constexpr int64_t kMostFloats = 1 << 28;  ///< of a tile; beyond, a convolution is refused

bool IsInteger(const ConvArgs& g) {
  return g.x.dtype == DType::kInt8 || g.x.dtype == DType::kUInt8;
}

/// min(a * b, limit) for numbers >= 0.
int64_t Times(int64_t a, int64_t b, int64_t limit) {
  int64_t r = 0;
  return __builtin_mul_overflow(a, b, &r) ? limit : std::min(r, limit);
}
int64_t Plus(int64_t a, int64_t b) {
  int64_t r = 0;
  return __builtin_add_overflow(a, b, &r) ? INT64_MAX : r;
}

/// An odd number of cache lines.
int64_t Padded(int64_t floats) {
  return CeilDiv(floats, kLine) / 2 * 2 * kLine + kLine;
}

struct Tile {
  int64_t rows, cols;
};

int64_t PhaseCount(const ConvPlan& p) {
  return p.reads[1].phases * p.reads[2].phases;
}

void SetTile(const ConvArgs& g, const Tile& tile, ConvPlan* p) {
  p->tile_rows = tile.rows;
  p->tile_cols = tile.cols;
  p->pitch = p->reads[2].Length(tile.cols);
  p->phase_rows = p->reads[1].Length(tile.rows);
  p->used_floats = std::max<int64_t>(g.axes[0].taps, 1) * PhaseCount(*p) * p->phase_rows * p->pitch;
  p->channel_floats = Padded(p->used_floats);
  p->row_positions = p->by_filters ? tile.cols : p->pitch;
  p->positions = (tile.rows - 1) * p->row_positions + tile.cols;
  p->c_pitch = p->by_filters ? p->positions + kSparePositions : Padded(p->positions);
}

/// Even parts of at most `most`.
int64_t Part(int64_t n, int64_t most) {
  most = std::max<int64_t>(most, 1);
  return CeilDiv(n, CeilDiv(n, most));
}

/// A tile of about `outputs` outputs: whole rows where they fit.
Tile TileOf(const ConvArgs& g, int64_t outputs) {
  const int64_t height = g.axes[1].out, width = g.axes[2].out;
  Tile t{1, width};
  if (width > outputs) t.cols = Part(width, height > 1 ? std::max<int64_t>(outputs / 2, 32) : outputs);
  t.rows = Part(height, outputs / t.cols);
  return t;
}

ConvPlan MakePlan(const ConvArgs& g, int threads) {
  ConvPlan p;
  p.by_filters = ByFilters(g.filters, g.channels * g.taps(), IsInteger(g));
  for (int i = 0; i < 3; ++i) p.reads[i] = ReadsOf(g.axes[i], p.by_filters);
  const int64_t taps = std::max<int64_t>(g.taps(), 1);
  const int64_t wanted = std::clamp<int64_t>(kBlockDepth / taps, 1, std::max<int64_t>(g.channels, 1));
  // Halve the tile until the channels of one block fit.
  for (int64_t outputs = p.by_filters ? kTileOutputs / 2 : kTileOutputs;; outputs /= 2) {
    SetTile(g, TileOf(g, outputs), &p);
    if (outputs <= kFewOutputs) break;
    if (p.positions <= kMostPositions && Times(p.channel_floats, wanted, INT64_MAX) <= kTileFloats) break;
  }
  p.block_channels = std::clamp<int64_t>(kTileFloats / std::max<int64_t>(p.channel_floats, 1), 1,
                                         std::max<int64_t>(g.channels, 1));
  if (taps * p.block_channels > kBlockDepth)  // even blocks
    p.block_channels = Part(std::max<int64_t>(g.channels, 1), std::min(p.block_channels, wanted));

  const int64_t tiles =
      g.batch * g.axes[0].out * CeilDiv(g.axes[1].out, p.tile_rows) * CeilDiv(g.axes[2].out, p.tile_cols);
  // Filters of a task: as many as there is room for sums, fewer where there would be too few tasks.
  const int64_t rows = p.by_filters ? kFilterLanes : kFilterRows;
  int64_t chunk = std::max(rows, kSumFloats / p.c_pitch / rows * rows);
  while (chunk > 4 * rows && g.groups * tiles * CeilDiv(g.filters, chunk) < 4 * int64_t{threads})
    chunk = AlignUp(chunk / 2, rows);
  p.filter_chunk = g.filters <= chunk ? g.filters : AlignUp(Part(g.filters, chunk), rows);
  // Groups of a task: enough to be worth a task.
  const double work = static_cast<double>(p.tile_rows * p.tile_cols) * static_cast<double>(taps) *
                      static_cast<double>(g.channels) *
                      static_cast<double>(std::max<int64_t>(p.filter_chunk, 1));
  constexpr double kWorthATask = 65536;
  p.group_chunk =
      Part(g.groups, static_cast<int64_t>(std::clamp(kWorthATask / std::max(work, 1.0), 1.0, 256.0)));
  return p;
}

/// Floats of scratch: [offsets as int32][places as int32] and per worker [tile][sums].
struct Scratch {
  int64_t offsets, places, tile, sums;
  int64_t per_worker() const { return tile + sums; }
};

/// Upper bounds that grow with every size in `g`, for any plan that MakePlan() may make.
Scratch ScratchOf(const ConvArgs& g, bool by_filters) {
  AxisReads reads[3];
  for (int i = 0; i < 3; ++i) reads[i] = ReadsOf(g.axes[i], by_filters);
  const int64_t taps = std::max<int64_t>(g.taps(), 1);
  const int64_t depth_taps = std::max<int64_t>(g.axes[0].taps, 1);
  const int64_t height = g.axes[1].out, width = g.axes[2].out, channels = std::max<int64_t>(g.channels, 1);
  const int64_t down = reads[1].shifts, right = reads[2].shifts, tall = reads[1].scale, wide = reads[2].scale;
  const int64_t phases = depth_taps * reads[1].phases * reads[2].phases;
  // (rows * tall + down) * (cols * wide + right) where rows * cols <= kFewOutputs
  const int64_t rows = std::min(height, kFewOutputs), cols = std::min(width, kFewOutputs);
  const auto product = [](int64_t a, int64_t b, int64_t c = 1) {
    return Times(Times(a, b, kMostFloats), c, kMostFloats);
  };
  const int64_t few =
      Plus(product(kFewOutputs, tall, wide),
           Plus(product(rows, tall, right), Plus(product(cols, wide, down), product(down, right))));
  const int64_t plane = Times(Plus(Times(height, tall, INT64_MAX), down),
                              Plus(Times(width, wide, INT64_MAX), right), INT64_MAX);
  const int64_t limit = std::max(kTileFloats, Times(few, phases, kMostFloats - 2 * kLine) + 2 * kLine);
  if (limit == kMostFloats)
    Throw(Code::kUnsupported, "a window that reaches over ", down, " by ", right, " positions");
  Scratch s;
  const int64_t channel = Plus(Times(plane, phases, limit), 2 * kLine);
  s.tile = AlignUp(std::min(limit, Times(channel, channels, limit)) + kConvAlign, kLine);
  s.offsets = 2 * AlignUp(std::min(std::max(kBlockDepth, taps), Times(channels, taps, INT64_MAX)), kLine);
  s.places = 0;
  if (by_filters) {
    const int64_t positions = std::min(kTileOutputs, Times(height, width, INT64_MAX)) + kSparePositions;
    s.places = AlignUp(positions, kLine);
    s.sums = AlignUp(
        Times(AlignUp(g.filters, kFilterLanes), positions, std::max(kSumFloats, kFilterLanes * positions)),
        kLine);
    return s;
  }
  const int64_t positions = std::min(
      {std::max(kMostPositions, kFewOutputs + rows * right), Times(height, Plus(width, right), INT64_MAX)});
  const int64_t pitch = positions + 2 * kLine;
  const int64_t sum_rows =
      Times(AlignUp(g.filters, kFilterRows), pitch, std::max(kSumFloats, kFilterRows * pitch));
  s.sums = AlignUp(sum_rows + (IsInteger(g) ? kFilterRows * pitch : 0), kLine) + kLine;
  return s;
}

/// For either way: sizes that are smaller than `g` may take the other.
Scratch ScratchOf(const ConvArgs& g) {
  Scratch s = ScratchOf(g, false);
  if (IsInteger(g) || g.filters <= kFilterRows) return s;
  const Scratch by_filters = ScratchOf(g, true);
  s.places = by_filters.places;
  s.tile = std::max(s.tile, by_filters.tile);
  s.sums = std::max(s.sums, by_filters.sums);
  return s;
}

void FillOffsets(const ConvArgs& g, const ConvPlan& p, int32_t* out) {
  const auto at = [&](int axis, int64_t t, int64_t* phase, int64_t* shift) {
    const AxisReads& r = p.reads[axis];
    const ConvAxis& a = g.axes[axis];
    if (a.tap_step < 0) t = a.taps - 1 - t;
    *phase = t % r.phases;
    *shift = p.by_filters ? (a.taps == 1 ? 0 : t * r.step) : t * r.step / a.stride;
  };
  for (int64_t c = 0; c < p.block_channels; ++c) {
    for (int64_t d = 0; d < g.axes[0].taps; ++d) {
      for (int64_t h = 0; h < g.axes[1].taps; ++h) {
        for (int64_t w = 0; w < g.axes[2].taps; ++w) {
          int64_t ph, sh, pw, sw;
          at(1, h, &ph, &sh);
          at(2, w, &pw, &sw);
          const int64_t plane = (d * p.reads[1].phases + ph) * p.reads[2].phases + pw;
          *out++ = static_cast<int32_t>(c * p.channel_floats + (plane * p.phase_rows + sh) * p.pitch + sw);
        }
      }
    }
  }
}

/// A product of a few filters with x as it lies there: cheaper than a copy of x.
bool ReadsInPlace(const ConvArgs& g) {
  const ConvAxis& width = g.axes[2];
  if (g.x.dtype != DType::kFloat || g.taps() != 1 || g.filters > 2 * kFilterRows ||
      ByFilters(g.filters, g.channels, false))
    return false;
  if (width.stride != 1 || width.tap0 != 0 || width.in != width.out) return false;
  if (g.axes[0].in != 1 || g.axes[0].out != 1 || g.axes[1].in != 1 || g.axes[1].out != 1) return false;
  return g.axes[0].tap0 == 0 && g.axes[1].tap0 == 0 && width.in <= INT32_MAX / kBlockDepth;
}

float NumberAt(ConstArray a, int64_t i) {
  switch (a.dtype) {
    case DType::kFloat:
      return static_cast<const float*>(a.data)[i];
    case DType::kFloat16:
      return HalfToFloat(static_cast<const uint16_t*>(a.data)[i]);
    case DType::kBFloat16:
      return BFloat16ToFloat(static_cast<const uint16_t*>(a.data)[i]);
    case DType::kInt8:
      return static_cast<const int8_t*>(a.data)[i];
    default:
      return static_cast<const uint8_t*>(a.data)[i];
  }
}

}  // namespace

AxisReads ReadsOf(const ConvAxis& axis, bool by_filters) {
  AxisReads r;
  r.fill_step = axis.stride;
  if (axis.taps == 0) return r;
  r.step = std::abs(axis.tap_step);
  r.lowest = axis.tap_step > 0 ? axis.tap0 : axis.tap0 + (axis.taps - 1) * axis.tap_step;
  if (by_filters) {
    if (axis.taps == 1) return r;
    r.scale = axis.stride;
    r.fill_step = 1;
    r.shifts = (axis.taps - 1) * r.step;
    return r;
  }
  r.phases = std::min(axis.taps, axis.stride / std::gcd(axis.stride, r.step));
  r.shifts = (axis.taps - 1) * r.step / axis.stride;
  return r;
}

size_t ConvScratchBytes(const ConvArgs& args, int threads) {
  const Scratch s = ScratchOf(args);
  const int64_t floats = CheckedAdd(s.offsets + s.places,
                                    CheckedMul(s.per_worker(), int64_t{threads}, "workspace"), "workspace");
  return CheckedMul(static_cast<size_t>(floats), sizeof(float), "workspace");
}

void Conv(ThreadTeam& team, const ConvArgs& given, void* scratch) {
  ConvArgs g = given;
  const ConvAxis* a = g.axes;
  if (g.batch == 0 || g.groups == 0 || g.filters == 0 || a[0].out == 0 || a[1].out == 0 || a[2].out == 0)
    return;
  ConvPlan plan = MakePlan(g, team.size());
  const Scratch s = ScratchOf(g);
  auto* offsets = static_cast<int32_t*>(scratch);
  FillOffsets(g, plan, offsets);
  plan.offsets = offsets;
  if (ReadsInPlace(g)) {
    int32_t* direct = offsets + s.offsets / 2;
    for (int64_t c = 0; c < plan.block_channels; ++c) direct[c] = static_cast<int32_t>(c * a[2].in);
    plan.direct = direct;
  }
  if (plan.by_filters) {
    int32_t* places = offsets + s.offsets;
    for (int64_t i = 0; i < plan.c_pitch; ++i) {
      const int64_t at = std::min(i, plan.positions - 1);
      places[i] = static_cast<int32_t>(at / plan.tile_cols * plan.reads[1].scale * plan.pitch +
                                       at % plan.tile_cols * plan.reads[2].scale);
    }
    plan.places = places;
  }
  float* const base = static_cast<float*>(scratch) + s.offsets + s.places;
  const int64_t cols = CeilDiv(a[2].out, plan.tile_cols), rows = CeilDiv(a[1].out, plan.tile_rows);
  const int64_t chunks = CeilDiv(g.filters, plan.filter_chunk), depths = a[0].out;
  const int64_t group_chunks = CeilDiv(g.groups, plan.group_chunk);
  const int64_t group_floats = PackedFilterFloats(1, g.filters, g.channels * g.taps(), IsInteger(g));
  const double work = static_cast<double>(g.batch * g.groups * g.filters) * static_cast<double>(g.channels) *
                      static_cast<double>(g.taps()) * static_cast<double>(a[0].out * a[1].out * a[2].out);
  RunTasks(team, g.batch * group_chunks * chunks * depths * rows * cols,
           static_cast<int64_t>(std::min(work, 1e9)), [&](int64_t task, int worker) {
             ConvTask t;
             t.args = &g;
             t.plan = &plan;
             const auto take = [&](int64_t n) {
               const int64_t i = task % n;
               task /= n;
               return i;
             };
             t.col0 = take(cols) * plan.tile_cols;
             t.row0 = take(rows) * plan.tile_rows;
             t.depth = take(depths);
             t.filter0 = take(chunks) * plan.filter_chunk;
             t.filter1 = std::min(g.filters, t.filter0 + plan.filter_chunk);
             const int64_t first = take(group_chunks) * plan.group_chunk;
             t.batch = task;
             t.tile = base + worker * s.per_worker();
             t.sums = t.tile + s.tile;
             for (t.group = first; t.group < std::min(g.groups, first + plan.group_chunk); ++t.group) {
               t.packed = g.packed + t.group * group_floats;
               plan.by_filters ? RunConvTileByFilters(t) : RunConvTile(t);
             }
           });
}

int64_t PackedFilterFloats(int64_t groups, int64_t filters, int64_t depth, bool integers) {
  const int64_t left = filters % kFilterRows;
  const int64_t rows = ByFilters(filters, depth, integers)
                           ? AlignUp(filters, kFilterLanes)
                           : filters - left + (left ? FilterBlockRows(left) : 0);
  return CheckedMul(CheckedMul(groups, rows, "filters"), depth, "filters");
}

void PackFilters(ThreadTeam& team, const FilterSource& s, float* packed) {
  const bool integers = s.data.dtype == DType::kInt8 || s.data.dtype == DType::kUInt8;
  const int64_t depth = s.channels * s.axes[0].taps * s.axes[1].taps * s.axes[2].taps;
  const bool by_filters = ByFilters(s.filters, depth, integers);
  const int64_t block = by_filters ? kFilterLanes : kFilterRows, blocks = CeilDiv(s.filters, block);
  const int64_t group_floats = PackedFilterFloats(1, s.filters, depth, integers);
  team.Run(s.groups * blocks, [&](int64_t task, int) {
    const int64_t group = task / blocks, f0 = task % blocks * block;
    const int64_t valid = std::min(block, s.filters - f0);
    const int64_t rows = by_filters ? kFilterLanes : FilterBlockRows(valid);
    float* out = packed + group * group_floats + f0 * depth;
    for (int64_t i = 0; i < rows; ++i) {
      float* to = out + i;
      if (i >= valid) {
        for (int64_t k = 0; k < depth; ++k) to[k * rows] = 0;
        continue;
      }
      const int64_t filter = f0 + i;
      const float zero = s.zero.data ? NumberAt(s.zero, (group * s.filters + filter) * s.zero_stride) : 0.0f;
      const int64_t base = group * s.group_stride + filter * s.filter_stride;
      for (int64_t c = 0; c < s.channels; ++c) {
        for (int64_t d = 0; d < s.axes[0].taps; ++d) {
          for (int64_t h = 0; h < s.axes[1].taps; ++h) {
            int64_t at = base + c * s.channel_stride +
                         (s.axes[0].first + d * s.axes[0].step) * s.axes[0].stride +
                         (s.axes[1].first + h * s.axes[1].step) * s.axes[1].stride +
                         s.axes[2].first * s.axes[2].stride;
            for (int64_t w = 0; w < s.axes[2].taps; ++w, at += s.axes[2].step * s.axes[2].stride, to += rows)
              *to = NumberAt(s.data, at) - zero;
          }
        }
      }
    }
  });
}

}  // namespace ullage::dense
