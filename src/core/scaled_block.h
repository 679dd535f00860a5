/// The parts of weights whose scales lie apart from the codes (BlockKind::kNBits, kQdqNK, kQdqKN). What
/// DequantizeRow and the packing of weights for a device both start from. Views must have passed CheckView.
#pragma once

#include <cstdint>

#include "core/block_format.h"

namespace ullage {

/// Codes of row n, elements [k, k+count) of W, as unsigned numbers: signed codes are shifted by 2^(bits-1). k
/// + count
/// <= K.
void ScaledCodes(const BlockWeightView& view, int64_t n, int64_t k, int64_t count, uint8_t* codes);
/// The same for rows [n, n+rows), row i at codes + i * pitch; reads [K, N] data along N.
void ScaledCodeTile(const BlockWeightView& view, int64_t n, int64_t rows, int64_t k, int64_t count,
                    uint8_t* codes, int64_t pitch);

/// Scale of block b of row n, and its bits where the scales have 16.
float ScaleOf(const BlockWeightView& view, int64_t n, int64_t b);
uint16_t ScaleBitsOf(const BlockWeightView& view, int64_t n, int64_t b);
/// Zero point of block b of row n for unsigned codes as ScaledCodes gives them: w = (code - zero point) *
/// scale. Integral unless the format has float zero points.
float ZeroPointOf(const BlockWeightView& view, int64_t n, int64_t b);
/// The zero point that all blocks share; only for ZeroPoint::kZero and kMiddle.
int CommonZeroPoint(const BlockFormat& format);
/// The block that element k of a row belongs to, by the group index where there is one.
int64_t BlockOf(const BlockWeightView& view, int64_t k);

}  // namespace ullage
