#include "providers/cpu/quant/planes.h"

#include <cstring>

namespace ullage::quant {
namespace {

// Eight codes, or eight bytes of a block, at a time.
constexpr uint64_t kEach = 0x0101010101010101;
constexpr uint64_t kLow4 = kEach * 15, kLow2 = kEach * 3;

uint64_t Load(const uint8_t* p) {
  uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

void Store(uint8_t* p, uint64_t v) {
  std::memcpy(p, &v, sizeof v);
}

/// 16 bytes: elements 0…15 in the low nibbles, 16…31 in the high ones. Takes the nibbles at bit `shift` of 32
/// bytes.
void NibblePlane(const uint8_t* bytes, int shift, uint8_t* out) {
  for (int i = 0; i < 16; i += 8)
    Store(out + i, (Load(bytes + i) >> shift & kLow4) | (Load(bytes + 16 + i) >> shift & kLow4) << 4);
}

/// 8 bytes: elements 8p…8p+7 in bits 2p, 2p+1. Takes the pairs of bits at bit `shift` of 32 bytes.
void PairPlane(const uint8_t* bytes, int shift, uint8_t* out) {
  uint64_t v = 0;
  for (int p = 0; p < 4; ++p) v |= (Load(bytes + 8 * p) >> shift & kLow2) << (2 * p);
  Store(out, v);
}

/// 4 bytes: elements 4q…4q+3 in bit q. Takes the bits at bit `shift` of 32 bytes.
void BitPlane(const uint8_t* bytes, int shift, uint8_t* out) {
  uint64_t even = 0;  // quad 2m in bit 2m of the lower half, quad 2m+1 there of the upper half
  for (int m = 0; m < 4; ++m) even |= (Load(bytes + 8 * m) >> shift & kEach) << (2 * m);
  const auto word = static_cast<uint32_t>(even | even >> 32 << 1);
  std::memcpy(out, &word, sizeof word);
}

/// The same from 32 bits, one per element.
void BitPlaneOf(uint32_t bits, uint8_t* out) {
  for (int i = 0; i < 4; i += 2) {  // bits 4q + i and 4q + i + 1, each to the lowest byte of its half
    constexpr uint64_t kNibbles = 0x1111111111111111;
    uint64_t v = ((bits >> i) | static_cast<uint64_t>(bits) >> (i + 1) << 32) & kNibbles;
    v = (v | v >> 3) & 0x0303030303030303;
    v = (v | v >> 6) & 0x000f000f000f000f;
    v |= v >> 12;
    out[i] = static_cast<uint8_t>(v);
    out[i + 1] = static_cast<uint8_t>(v >> 32);
  }
}

template <int kBytes>
void Copy(const uint8_t* from, uint8_t* out) {
  std::memcpy(out, from, kBytes);
}

}  // namespace

void PlanesOfCodes(int bits, const uint8_t* codes, uint8_t* planes) {
  if (bits == 8) return Copy<32>(codes, planes);
  int shift = 0;
  if (bits >= 4) {
    NibblePlane(codes, 0, planes);
    planes += 16;
    shift = 4;
  }
  if (bits & 2) {
    PairPlane(codes, shift, planes);
    planes += 8;
    shift += 2;
  }
  if (bits & 1) BitPlane(codes, shift, planes);
}

void PlanesOfGguf(GgufType type, const std::byte* block, uint8_t* planes) {
  const auto* b = reinterpret_cast<const uint8_t*>(block);
  switch (type) {
    // Nibbles lie as in the plane.
    case GgufType::kQ4_0:
    case GgufType::kIQ4_NL:
      return Copy<16>(b + 2, planes);
    case GgufType::kQ4_1:
      return Copy<16>(b + 4, planes);
    case GgufType::kIQ4_XS:
      return Copy<128>(b + 8, planes);
    case GgufType::kQ8_0:
      for (int i = 0; i < 32; i += 8) Store(planes + i, Load(b + 2 + i) ^ kEach * 128);
      return;
    case GgufType::kQ4_K:
    case GgufType::kQ5_K: {
      const uint8_t* nibbles = b + (type == GgufType::kQ4_K ? 16 : 48);
      const size_t step = type == GgufType::kQ4_K ? 16 : 20;
      for (int j = 0; j < 8; ++j, planes += step) {
        NibblePlane(nibbles + j / 2 * 32, j % 2 * 4, planes);
        if (type == GgufType::kQ5_K) BitPlane(b + 16, j, planes + 16);
      }
      return;
    }
    case GgufType::kQ6_K:
      for (int j = 0; j < 8; ++j, planes += 24) {
        NibblePlane(b + j / 4 * 64 + j % 2 * 32, j % 4 / 2 * 4, planes);
        PairPlane(b + 128 + j / 4 * 32, j % 4 * 2, planes + 16);
      }
      return;
    case GgufType::kQ2_K:
      for (int j = 0; j < 8; ++j) PairPlane(b + 16 + j / 4 * 32, j % 4 * 2, planes + 8 * j);
      return;
    case GgufType::kQ3_K:
      for (int j = 0; j < 8; ++j, planes += 12) {
        PairPlane(b + 32 + j / 4 * 32, j % 4 * 2, planes);
        BitPlane(b, j, planes + 8);
      }
      return;
    case GgufType::kQ5_0:
    case GgufType::kQ5_1: {
      const uint8_t* high = b + (type == GgufType::kQ5_0 ? 2 : 4);
      uint32_t bits;
      std::memcpy(&bits, high, sizeof bits);
      Copy<16>(high + 4, planes);
      return BitPlaneOf(bits, planes + 16);
    }
  }
}

}  // namespace ullage::quant
