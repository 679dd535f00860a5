/// The part of Conv() that is compiled per instruction set.
#pragma once

#include <cstdint>

#include "providers/cpu/dense/conv.h"

namespace ullage::dense {

inline constexpr int64_t kFilterRows = 12;  ///< filters of a block
/// Depth after which sums of products of 9-bit integers must leave float: 256 * 255 * 255 < 2^24.
inline constexpr int64_t kExactDepth = 256;
/// Outputs that are computed at a time and what may be read behind a tile: a multiple of every vector group.
inline constexpr int64_t kConvAlign = 128;

/// Rows that a block with `left` filters to go has; rows beyond the filters are zeros.
inline int64_t FilterBlockRows(int64_t left) {
  return left >= 9 ? 12 : left >= 7 ? 8 : left >= 5 ? 6 : left >= 3 ? 4 : left;
}

/// How the taps of one axis read a tile: tap t at phase t' % phases and shift t' * |step| / stride, t' being
/// t in the order of ascending offsets.
struct AxisReads {
  int64_t lowest = 0;  ///< smallest offset
  int64_t step = 1;    ///< > 0
  int64_t phases = 1;
  int64_t shifts = 0;  ///< largest shift
  int64_t PhaseOffset(int64_t phase, int64_t stride) const { return phase * step % stride; }
};
AxisReads ReadsOf(const ConvAxis& axis);

/// The same for all tiles of one call.
struct ConvPlan {
  AxisReads reads[3];
  int64_t tile_rows = 1, tile_cols = 1;  ///< outputs of a tile
  int64_t pitch = 1;                     ///< columns in memory
  int64_t phase_rows = 1;                ///< rows in memory of one phase
  int64_t channel_floats = 0;  ///< of one channel: [taps of depth][row phases][col phases][rows][pitch]
  int64_t block_channels = 1;
  int64_t positions = 0;     ///< from the first to the last output of a tile, gaps included
  int64_t c_pitch = 0;       ///< row pitch of sums
  int64_t filter_chunk = 0;  ///< a multiple of kFilterRows, or all
  int64_t group_chunk = 1;
  const int32_t* offsets = nullptr;  ///< [block_channels * taps]: where a channel and tap begins in a tile
};

struct ConvTask {
  const ConvArgs* args = nullptr;
  const ConvPlan* plan = nullptr;
  int64_t batch = 0, group = 0, filter0 = 0, filter1 = 0;
  int64_t depth = 0, row0 = 0, col0 = 0;
  const float* packed = nullptr;  ///< of the group
  float* tile = nullptr;          ///< block_channels * channel_floats + kConvAlign
  float* sums = nullptr;          ///< [rows][c_pitch]; integers: kFilterRows more
};

void RunConvTile(const ConvTask& task);

}  // namespace ullage::dense
