#include "core/scaled_block.h"

#include <cstring>

#include "core/checked.h"
#include "core/half.h"

namespace ullage {
namespace {

const uint8_t* Bytes(std::span<const std::byte> s) {
  return reinterpret_cast<const uint8_t*>(s.data());
}

int64_t ScaleIndex(const BlockWeightView& view, int64_t n, int64_t b) {
  if (view.format.per_tensor) return 0;
  return view.format.kind == BlockKind::kQdqKN ? b * view.n + n : n * view.format.Blocks(view.k) + b;
}

// Element `index` of integers of `bits` bits packed from the low end.
int PackedInteger(const uint8_t* data, int64_t index, int bits) {
  const int64_t bit = index * bits;
  return data[bit / 8] >> (bit % 8) & ((1 << bits) - 1);
}

float FloatAt(std::span<const std::byte> data, DType dtype, int64_t index) {
  if (dtype == DType::kFloat) {
    float value;
    std::memcpy(&value, data.data() + index * 4, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, data.data() + index * 2, sizeof bits);
  return dtype == DType::kFloat16 ? HalfToFloat(bits) : BFloat16ToFloat(bits);
}

// `count` codes that lie one after the other from element `first`; flip: 2^(bits-1) for signed codes, else 0.
void DenseCodes(const uint8_t* data, int64_t first, int64_t count, int bits, uint8_t flip, uint8_t* codes) {
  if (bits == 8) {
    for (int64_t i = 0; i < count; ++i) codes[i] = data[first + i] ^ flip;
    return;
  }
  int64_t i = 0;
  if (bits == 4 && first % 2 == 0) {
    const uint8_t* src = data + first / 2;
    for (; i + 1 < count; i += 2) {
      codes[i] = static_cast<uint8_t>((src[i / 2] & 15) ^ flip);
      codes[i + 1] = static_cast<uint8_t>((src[i / 2] >> 4) ^ flip);
    }
  }
  for (; i < count; ++i) codes[i] = static_cast<uint8_t>(PackedInteger(data, first + i, bits) ^ flip);
}

uint8_t FlipOf(const BlockFormat& format) {
  return static_cast<uint8_t>(format.is_signed ? 1 << (format.bits - 1) : 0);
}

}  // namespace

void ScaledCodes(const BlockWeightView& view, int64_t n, int64_t k, int64_t count, uint8_t* codes) {
  const BlockFormat& f = view.format;
  const uint8_t* data = Bytes(view.data);
  const uint8_t flip = FlipOf(f);
  if (f.kind == BlockKind::kQdqKN) {
    for (int64_t i = 0; i < count; ++i)
      codes[i] = static_cast<uint8_t>(PackedInteger(data, (k + i) * view.n + n, f.bits) ^ flip);
    return;
  }
  const int64_t row = f.kind == BlockKind::kNBits ? f.Blocks(view.k) * f.block_size : view.k;
  DenseCodes(data, n * row + k, count, f.bits, flip, codes);
}

void ScaledCodeTile(const BlockWeightView& view, int64_t n, int64_t rows, int64_t k, int64_t count,
                    uint8_t* codes, int64_t pitch) {
  if (view.format.kind != BlockKind::kQdqKN) {
    for (int64_t i = 0; i < rows; ++i) ScaledCodes(view, n + i, k, count, codes + i * pitch);
    return;
  }
  const uint8_t* data = Bytes(view.data);
  const uint8_t flip = FlipOf(view.format);
  uint8_t line[64];
  for (int64_t first = 0; first < rows; first += 64) {
    const int64_t width = rows - first < 64 ? rows - first : 64;
    for (int64_t i = 0; i < count; ++i) {
      DenseCodes(data, (k + i) * view.n + n + first, width, view.format.bits, flip, line);
      for (int64_t r = 0; r < width; ++r) codes[(first + r) * pitch + i] = line[r];
    }
  }
}

float ScaleOf(const BlockWeightView& view, int64_t n, int64_t b) {
  return FloatAt(view.scales, view.format.scale_dtype, ScaleIndex(view, n, b));
}

uint16_t ScaleBitsOf(const BlockWeightView& view, int64_t n, int64_t b) {
  uint16_t bits;
  std::memcpy(&bits, view.scales.data() + ScaleIndex(view, n, b) * 2, sizeof bits);
  return bits;
}

float ZeroPointOf(const BlockWeightView& view, int64_t n, int64_t b) {
  const BlockFormat& f = view.format;
  switch (f.zero_point) {
    case ZeroPoint::kZero:
    case ZeroPoint::kMiddle:
      return static_cast<float>(CommonZeroPoint(f));
    case ZeroPoint::kFloat:
      return FloatAt(view.zero_points, f.scale_dtype, ScaleIndex(view, n, b)) + (f.is_signed ? FlipOf(f) : 0);
    case ZeroPoint::kPacked:
      break;
  }
  const uint8_t* data = Bytes(view.zero_points);
  int64_t index = ScaleIndex(view, n, b);
  if (f.zero_point_rows_padded) {
    const int64_t blocks = f.Blocks(view.k);
    data += n * CeilDiv<int64_t>(blocks * f.bits, 8);
    index = b;
  }
  return static_cast<float>(PackedInteger(data, index, f.bits) ^ FlipOf(f));
}

int CommonZeroPoint(const BlockFormat& format) {
  // Signed codes come shifted by 2^(bits-1), and so does their zero.
  return format.zero_point == ZeroPoint::kMiddle || format.is_signed ? 1 << (format.bits - 1) : 0;
}

int64_t BlockOf(const BlockWeightView& view, int64_t k) {
  if (view.g_idx.empty()) return k / view.format.BlockSize(view.k);
  int32_t block;
  std::memcpy(&block, view.g_idx.data() + k * 4, sizeof block);
  return block;
}

}  // namespace ullage
