/// The parts of weights whose scales lie apart from the codes (BlockKind::kNBits, kQdqNK, kQdqKN). What
/// DequantizeRow and the packing of weights for a device both start from.
#pragma once

#include <cstdint>

#include "core/block_format.h"

namespace ullage {

/// Reads a view that has passed CheckView. Keeps a copy of the view, so the parts must stay.
class ScaledReader {
 public:
  explicit ScaledReader(const BlockWeightView& view);

  int64_t block_size() const { return block_size_; }
  int64_t blocks() const { return blocks_; }

  /// Codes of row n, elements [k, k+count) of W, as unsigned numbers: signed codes are shifted by 2^(bits-1).
  /// k + count
  /// <= K.
  void Codes(int64_t n, int64_t k, int64_t count, uint8_t* codes) const;
  /// The same for rows [n, n+rows), row i at codes + i * pitch; reads [K, N] data along N.
  void CodeTile(int64_t n, int64_t rows, int64_t k, int64_t count, uint8_t* codes, int64_t pitch) const;

  /// Scales of blocks [b, b+count) of row n.
  void Scales(int64_t n, int64_t b, int64_t count, float* scales) const;
  /// Scale of block b of row n, and its bits where the scales have 16.
  float Scale(int64_t n, int64_t b) const;
  uint16_t ScaleBits(int64_t n, int64_t b) const;
  /// Zero point of block b of row n for unsigned codes as Codes() gives them: w = (code - zero point) *
  /// scale. Integral unless the format has float zero points.
  float Zero(int64_t n, int64_t b) const;
  /// The block that element k of a row belongs to, by the group index where there is one.
  int64_t BlockOf(int64_t k) const;

 private:
  int64_t ScaleIndex(int64_t n, int64_t b) const {
    return view_.format.per_tensor ? 0 : n * row_step_ + b * block_step_;
  }

  BlockWeightView view_;
  int64_t block_size_, blocks_;
  int64_t row_elements_;           // of data, from one row to the next (not for [K, N])
  int64_t row_step_, block_step_;  // of scales and zero points
  int64_t zero_row_bytes_;         // where the rows of zero points are padded
  uint8_t flip_;                   // turns signed codes to unsigned ones
};

/// The zero point that all blocks share, for unsigned codes as above; only for ZeroPoint::kZero and kMiddle.
int CommonZeroPoint(const BlockFormat& format);

}  // namespace ullage
