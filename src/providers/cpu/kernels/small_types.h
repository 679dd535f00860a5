/// Elements of 8 bits and fewer: float8, float4 and packed integers. Scalar access; nothing here is hot.
#pragma once

#include <cstdint>

#include "ullage/dtype.h"

namespace ullage::cpu {

/// float8 and float4 kinds, and powers of two in 8 bits.
bool IsSmallFloat(DType dtype);
/// Integers of 4 and 2 bits.
bool IsPackedInteger(DType dtype);

/// How a number that fits no element is stored.
enum class SmallRounding { kNearest, kUp, kDown };

float DecodeSmallFloat(DType dtype, uint8_t code);
/// Nearest even (float8e8m0: as `rounding` says). Beyond the largest number: that number when `saturate`,
/// else infinity or NaN, whichever the type has. float4 always saturates.
uint8_t EncodeSmallFloat(DType dtype, float value, bool saturate,
                         SmallRounding rounding = SmallRounding::kUp);

/// Element i of a packed array (low bits first).
inline int PackedAt(const void* data, DType dtype, int64_t i) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  if (dtype == DType::kInt4 || dtype == DType::kUInt4 || dtype == DType::kFloat4E2M1) {
    const int v = bytes[i >> 1] >> (4 * (i & 1)) & 15;
    return dtype == DType::kInt4 ? (v ^ 8) - 8 : v;
  }
  const int v = bytes[i >> 2] >> (2 * (i & 3)) & 3;
  return dtype == DType::kInt2 ? (v ^ 2) - 2 : v;
}
/// Stores the low bits of v. Neighbours share a byte: one writer at a time.
inline void SetPacked(void* data, DType dtype, int64_t i, int v) {
  auto* bytes = static_cast<uint8_t*>(data);
  const bool four = dtype == DType::kInt4 || dtype == DType::kUInt4 || dtype == DType::kFloat4E2M1;
  const int shift = four ? static_cast<int>(4 * (i & 1)) : static_cast<int>(2 * (i & 3));
  const int mask = (four ? 15 : 3) << shift;
  uint8_t& byte = bytes[four ? i >> 1 : i >> 2];
  byte = static_cast<uint8_t>((byte & ~mask) | (v << shift & mask));
}

/// Element i as a number, of float8, float4 and packed integer types.
float SmallAt(const void* data, DType dtype, int64_t i);

}  // namespace ullage::cpu
