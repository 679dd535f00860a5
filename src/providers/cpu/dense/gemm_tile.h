/// One tile of a matrix product; the part of Gemm() that is compiled per instruction set.
#pragma once

#include <cstdint>

#include "providers/cpu/dense/gemm.h"

namespace ullage::dense {

inline constexpr int64_t kTileRows = 96;   ///< a multiple of every kernel's rows
inline constexpr int64_t kTileCols = 256;  ///< a multiple of kPanel
inline constexpr int64_t kKernelRows =
    12;                                  ///< most rows of one kernel on any instruction set; 6 is the other
inline constexpr int64_t kBlockK = 256;  ///< depth of one pass over a tile of many rows
inline constexpr int64_t kDeepK = 2048;  ///< depth of one pass over a tile of at most kKernelRows rows

/// Scratch of one worker, in floats.
struct TileScratch {
  float* a = nullptr;  ///< packed rows of A
  float* b = nullptr;  ///< one packed block of a panel of B
  float* c = nullptr;  ///< the tile
};

/// Rows [m0, m1) and columns [n0, n1) of one batch; n0 is a multiple of kPanel.
struct TileTask {
  const GemmArgs* args = nullptr;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  const void* bias = nullptr;
  int64_t m0 = 0, m1 = 0;
  int64_t n0 = 0, n1 = 0;
  TileScratch scratch;
};

void RunGemmTile(const TileTask& task);

}  // namespace ullage::dense
