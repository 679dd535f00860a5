/// The part of Conv() that is compiled per instruction set.
#pragma once

#include <cstdint>

#include "providers/cpu/dense/conv.h"

namespace ullage::dense {

inline constexpr int64_t kFilterRows = 12;   ///< filters of a block, where vectors hold outputs of one filter
inline constexpr int64_t kFilterLanes = 16;  ///< the same, where vectors hold one output of several filters
/// Depth of one pass over a panel: its values and the filters of a block take half of a first-level cache, of
/// which another thread of the core may use the rest. Sums of products of 9-bit integers are exact in float
/// for twice as long: 256 * 255 * 255 < 2^24.
inline constexpr int64_t kConvDepth = 128;
inline constexpr int64_t kConvPanel = 32;  ///< outputs that one pass over the depth computes
/// Outputs that are computed at a time and what may be read behind a tile: a multiple of every vector group.
inline constexpr int64_t kConvAlign = 128;

/// Rows that a block with `left` filters to go has; rows beyond the filters are zeros.
inline int64_t FilterBlockRows(int64_t left) {
  return left >= 9 ? 12 : left >= 7 ? 8 : left >= 5 ? 6 : left >= 3 ? 4 : left;
}

/// Vectors hold neighbouring outputs of one filter, or one output of neighbouring filters. The second
/// computes no gaps between rows and needs no phases of a stride, but turns its sums around to store them:
/// for full vectors of filters, and a depth that is worth it.
inline bool ByFilters(int64_t filters, int64_t depth, bool integers) {
  constexpr int64_t kLeastDepth = 48;
  return !integers && depth >= kLeastDepth && filters > kFilterRows &&
         (filters + kFilterLanes - 1) / kFilterLanes * kFilterLanes * 5 <= filters * 6;
}

/// How the taps of one axis read a tile: tap t at phase t' % phases and shift t' * |step| / stride, t' being
/// t in the order of ascending offsets.
struct AxisReads {
  int64_t lowest = 0;  ///< smallest offset
  int64_t step = 1;    ///< > 0
  int64_t phases = 1;
  int64_t shifts = 0;     ///< largest shift
  int64_t scale = 1;      ///< elements of a tile from one output to the next: 1 where phases are split
  int64_t fill_step = 1;  ///< elements of the input from one element of a tile to the next
  /// Elements of a tile for that many outputs.
  int64_t Length(int64_t outputs) const { return (outputs - 1) * scale + shifts + 1; }
  int64_t PhaseOffset(int64_t phase, int64_t stride) const { return phase * step % stride; }
};
/// With `by_filters` there is one phase, at shift t' * step, or 0 for a single tap.
AxisReads ReadsOf(const ConvAxis& axis, bool by_filters);

/// The same for all tiles of one call.
struct ConvPlan {
  bool by_filters = false;
  AxisReads reads[3];
  int64_t tile_rows = 1, tile_cols = 1;  ///< outputs of a tile
  int64_t pitch = 1;                     ///< columns in memory
  int64_t phase_rows = 1;                ///< rows in memory of one phase
  /// Of one channel: [taps of depth][row phases][col phases][rows][pitch], and padding: an odd number of
  /// cache lines, so that the channels of a panel do not fall upon each other in a cache.
  int64_t channel_floats = 0;
  int64_t used_floats = 0;  ///< without the padding
  int64_t block_channels = 1;
  int64_t row_positions = 0;  ///< from one row of a tile to the next
  int64_t positions = 0;      ///< from the first to the last output of a tile, gaps included
  int64_t c_pitch = 0;        ///< row pitch of sums; by filters: positions that sums have room for
  int64_t filter_chunk = 0;   ///< a multiple of kFilterRows, or all
  int64_t group_chunk = 1;
  const int32_t* offsets = nullptr;  ///< [block_channels * taps]: where a channel and tap begins in a tile
  /// [block_channels]: where a channel begins in x, if x is read in place; else null.
  const int32_t* direct = nullptr;
  const int32_t* places = nullptr;  ///< [c_pitch]: where a position begins in a tile; by filters only
};

struct ConvTask {
  const ConvArgs* args = nullptr;
  const ConvPlan* plan = nullptr;
  int64_t batch = 0, group = 0, filter0 = 0, filter1 = 0;
  int64_t depth = 0, row0 = 0, col0 = 0;
  const float* packed = nullptr;  ///< of the group
  float* tile = nullptr;          ///< block_channels * channel_floats + kConvAlign
  /// [rows][c_pitch]; integers: kFilterRows rows more. By filters: [blocks][c_pitch][kFilterLanes].
  float* sums = nullptr;
};

void RunConvTile(const ConvTask& task);
void RunConvTileByFilters(const ConvTask& task);

}  // namespace ullage::dense
