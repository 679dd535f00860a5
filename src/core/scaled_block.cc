#include "core/scaled_block.h"

#include <cstring>

#include "core/checked.h"
#include "core/half.h"

namespace ullage {
namespace {

const uint8_t* Bytes(std::span<const std::byte> s) {
  return reinterpret_cast<const uint8_t*>(s.data());
}

// Element `index` of integers of `bits` bits packed from the low end.
int PackedInteger(const uint8_t* data, int64_t index, int bits) {
  const uint64_t bit = static_cast<uint64_t>(index) * static_cast<uint64_t>(bits);
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

// Eight 4-bit integers to a byte each.
uint64_t SpreadNibbles(const uint8_t* src) {
  uint32_t packed;
  std::memcpy(&packed, src, sizeof packed);
  uint64_t v = packed;
  v = (v | v << 16) & 0x0000ffff0000ffff;
  v = (v | v << 8) & 0x00ff00ff00ff00ff;
  return (v | v << 4) & 0x0f0f0f0f0f0f0f0f;
}

// Eight 2-bit integers to a byte each.
uint64_t SpreadPairs(const uint8_t* src) {
  uint16_t packed;
  std::memcpy(&packed, src, sizeof packed);
  uint64_t v = packed;
  v = (v | v << 24) & 0x000000ff000000ff;
  v = (v | v << 12) & 0x000f000f000f000f;
  return (v | v << 6) & 0x0303030303030303;
}

// `count` codes that lie one after the other from element `first`; flip: 2^(bits-1) for signed codes, else 0.
void DenseCodes(const uint8_t* data, int64_t first, int64_t count, int bits, uint8_t flip, uint8_t* codes) {
  if (bits == 8) {
    for (int64_t i = 0; i < count; ++i) codes[i] = data[first + i] ^ flip;
    return;
  }
  int64_t i = 0;
  const int log_per_byte = bits == 4 ? 1 : 2;
  if ((first & ((1 << log_per_byte) - 1)) == 0) {
    const uint8_t* src = data + (first >> log_per_byte);
    for (; i + 8 <= count; i += 8, src += bits) {
      const uint64_t spread =
          (bits == 4 ? SpreadNibbles(src) : SpreadPairs(src)) ^ flip * 0x0101010101010101u;
      std::memcpy(codes + i, &spread, sizeof spread);
    }
  }
  for (; i < count; ++i) codes[i] = static_cast<uint8_t>(PackedInteger(data, first + i, bits) ^ flip);
}

uint8_t FlipOf(const BlockFormat& format) {
  return static_cast<uint8_t>(format.is_signed ? 1 << (format.bits - 1) : 0);
}

}  // namespace

ScaledReader::ScaledReader(const BlockWeightView& view) : view_(view) {
  const BlockFormat& f = view.format;
  const bool k_first = f.kind == BlockKind::kQdqKN;
  block_size_ = f.BlockSize(view.k);
  blocks_ = f.Blocks(view.k);
  row_elements_ = f.kind == BlockKind::kNBits ? blocks_ * f.block_size : view.k;
  row_step_ = k_first ? 1 : blocks_;
  block_step_ = k_first ? view.n : 1;
  zero_row_bytes_ = CeilDiv<int64_t>(blocks_ * f.bits, 8);
  flip_ = FlipOf(f);
}

void ScaledReader::Codes(int64_t n, int64_t k, int64_t count, uint8_t* codes) const {
  const BlockFormat& f = view_.format;
  const uint8_t* data = Bytes(view_.data);
  if (f.kind == BlockKind::kQdqKN) {
    for (int64_t i = 0; i < count; ++i)
      codes[i] = static_cast<uint8_t>(PackedInteger(data, (k + i) * view_.n + n, f.bits) ^ flip_);
    return;
  }
  DenseCodes(data, n * row_elements_ + k, count, f.bits, flip_, codes);
}

void ScaledReader::CodeTile(int64_t n, int64_t rows, int64_t k, int64_t count, uint8_t* codes,
                            int64_t pitch) const {
  if (view_.format.kind != BlockKind::kQdqKN) {
    for (int64_t i = 0; i < rows; ++i) Codes(n + i, k, count, codes + i * pitch);
    return;
  }
  constexpr int64_t kLine = 128;
  uint8_t line[kLine];
  for (int64_t first = 0; first < rows; first += kLine) {
    const int64_t width = rows - first < kLine ? rows - first : kLine;
    for (int64_t i = 0; i < count; ++i) {
      DenseCodes(Bytes(view_.data), (k + i) * view_.n + n + first, width, view_.format.bits, flip_, line);
      for (int64_t r = 0; r < width; ++r) codes[(first + r) * pitch + i] = line[r];
    }
  }
}

void ScaledReader::Scales(int64_t n, int64_t b, int64_t count, float* scales) const {
  if (view_.format.scale_dtype == DType::kFloat && block_step_ == 1 && !view_.format.per_tensor) {
    std::memcpy(scales, view_.scales.data() + ScaleIndex(n, b) * 4, static_cast<size_t>(count) * 4);
    return;
  }
  for (int64_t i = 0; i < count; ++i) scales[i] = Scale(n, b + i);
}

float ScaledReader::Scale(int64_t n, int64_t b) const {
  return FloatAt(view_.scales, view_.format.scale_dtype, ScaleIndex(n, b));
}

uint16_t ScaledReader::ScaleBits(int64_t n, int64_t b) const {
  uint16_t bits;
  std::memcpy(&bits, view_.scales.data() + ScaleIndex(n, b) * 2, sizeof bits);
  return bits;
}

float ScaledReader::Zero(int64_t n, int64_t b) const {
  const BlockFormat& f = view_.format;
  switch (f.zero_point) {
    case ZeroPoint::kZero:
    case ZeroPoint::kMiddle:
      return static_cast<float>(CommonZeroPoint(f));
    case ZeroPoint::kFloat:
      return FloatAt(view_.zero_points, f.scale_dtype, ScaleIndex(n, b)) + static_cast<float>(flip_);
    case ZeroPoint::kPacked:
      break;
  }
  const uint8_t* data = Bytes(view_.zero_points);
  int64_t index = ScaleIndex(n, b);
  if (f.zero_point_rows_padded) {
    data += n * zero_row_bytes_;
    index = b;
  }
  return static_cast<float>(PackedInteger(data, index, f.bits) ^ flip_);
}

int64_t ScaledReader::BlockOf(int64_t k) const {
  if (view_.g_idx.empty()) return k / block_size_;
  int32_t block;
  std::memcpy(&block, view_.g_idx.data() + k * 4, sizeof block);
  return block;
}

int CommonZeroPoint(const BlockFormat& format) {
  // Signed codes come shifted by 2^(bits-1), and so does their zero.
  return format.zero_point == ZeroPoint::kMiddle || format.is_signed ? 1 << (format.bits - 1) : 0;
}

}  // namespace ullage
