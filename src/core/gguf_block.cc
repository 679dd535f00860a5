#include "core/gguf_block.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace ullage {
namespace {

const uint8_t* Bytes(const std::byte* p) {
  return reinterpret_cast<const uint8_t*>(p);
}

uint16_t Load16(const std::byte* p) {
  uint16_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

uint32_t Load32(const std::byte* p) {
  uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// Eight bytes at a time.
constexpr uint64_t kEachByte = 0x0101010101010101;

uint64_t Load64(const uint8_t* p) {
  uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

void Store64(uint8_t* p, uint64_t v) {
  std::memcpy(p, &v, sizeof v);
}

template <int kBytes>
void LowThenHighNibbles(const uint8_t* src, uint8_t* out) {
  for (int i = 0; i < kBytes; i += 8) {
    const uint64_t v = Load64(src + i);
    Store64(out + i, v & (kEachByte * 15));
    Store64(out + i + kBytes, (v >> 4) & (kEachByte * 15));
  }
}

// Sets bit 4 of the codes whose bit in `high` is set.
void AddHighBits(uint32_t high, uint8_t* codes) {
  constexpr uint64_t kDiagonal = 0x8040201008040201;
  for (int i = 0; i < 32; i += 8) {
    const uint64_t picked = ((high >> i & 255) * kEachByte) & kDiagonal;
    const uint64_t bits = ((picked + kEachByte * 127) & (kEachByte * 128)) >> 3;
    Store64(codes + i, Load64(codes + i) | bits);
  }
}

// Puts field j of `width` bits of 32 bytes at bit `to` of 32 codes.
void AddFields(const uint8_t* fields, int j, int width, int to, uint8_t* codes) {
  const uint64_t mask = kEachByte * ((1u << width) - 1);
  for (int i = 0; i < 32; i += 8)
    Store64(codes + i, Load64(codes + i) | (Load64(fields + i) >> (j * width) & mask) << to);
}

// The eight 6-bit scales and minima of Q4_K and Q5_K.
void ScalesOfK4(const uint8_t* q, GgufScales* s) {
  for (int j = 0; j < 4; ++j) {
    s->scale[j] = static_cast<int8_t>(q[j] & 63);
    s->min[j] = q[j + 4] & 63;
    s->scale[j + 4] = static_cast<int8_t>((q[j + 8] & 15) | (q[j] >> 6) << 4);
    s->min[j + 4] = static_cast<uint8_t>(q[j + 8] >> 4 | (q[j + 4] >> 6) << 4);
  }
}

// The 2-bit fields of Q2_K and Q3_K: each half of 128 elements lies in 32 bytes.
void TwoBitFields(const uint8_t* qs, uint8_t* codes) {
  std::memset(codes, 0, 256);
  for (int j = 0; j < 8; ++j) AddFields(qs + j / 4 * 32, j % 4, 2, 0, codes + j * 32);
}

void CodesOfQ3K(const uint8_t* block, uint8_t* codes) {
  TwoBitFields(block + 32, codes);
  for (int j = 0; j < 8; ++j) AddFields(block, j, 1, 2, codes + j * 32);
}

void CodesOfQ4K(const uint8_t* nibbles, uint8_t* codes) {
  for (int pair = 0; pair < 4; ++pair) LowThenHighNibbles<32>(nibbles + pair * 32, codes + pair * 64);
}

void CodesOfQ5K(const uint8_t* block, uint8_t* codes) {
  CodesOfQ4K(block + 48, codes);
  for (int j = 0; j < 8; ++j) AddFields(block + 16, j, 1, 4, codes + j * 32);
}

void CodesOfQ6K(const uint8_t* block, uint8_t* codes) {
  for (int half = 0; half < 2; ++half) {
    LowThenHighNibbles<64>(block + half * 64, codes + half * 128);
    for (int j = 0; j < 4; ++j) AddFields(block + 128 + half * 32, j, 2, 4, codes + half * 128 + j * 32);
  }
}

struct TypedTraits {
  GgufType type;
  GgufTraits traits;
};
constexpr TypedTraits kTraits[] = {
    {GgufType::kQ4_0, {"Q4_0", 32, 18, 4, 32, false, false, false, 8}},
    {GgufType::kQ4_1, {"Q4_1", 32, 20, 4, 32, false, true, false, 0}},
    {GgufType::kQ5_0, {"Q5_0", 32, 22, 5, 32, false, false, false, 16}},
    {GgufType::kQ5_1, {"Q5_1", 32, 24, 5, 32, false, true, false, 0}},
    {GgufType::kQ8_0, {"Q8_0", 32, 34, 8, 32, false, false, false, 128}},
    {GgufType::kQ2_K, {"Q2_K", 256, 84, 2, 16, true, true, false, 0}},
    {GgufType::kQ3_K, {"Q3_K", 256, 110, 3, 16, true, false, false, 4}},
    {GgufType::kQ4_K, {"Q4_K", 256, 144, 4, 32, true, true, false, 0}},
    {GgufType::kQ5_K, {"Q5_K", 256, 176, 5, 32, true, true, false, 0}},
    {GgufType::kQ6_K, {"Q6_K", 256, 210, 6, 16, true, false, false, 32}},
    {GgufType::kIQ4_NL, {"IQ4_NL", 32, 18, 4, 32, false, false, true, 0}},
    {GgufType::kIQ4_XS, {"IQ4_XS", 256, 136, 4, 32, true, false, true, 0}},
};

const GgufTraits* FindTraits(GgufType type) {
  for (const TypedTraits& t : kTraits)
    if (t.type == type) return &t.traits;
  return nullptr;
}

}  // namespace

bool IsGgufBlockType(int32_t type) {
  return FindTraits(static_cast<GgufType>(type)) != nullptr;
}

std::optional<GgufType> GgufTypeOf(std::string_view name) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  const auto same = [&](char known, char given) { return lower(known) == given; };
  for (const TypedTraits& t : kTraits) {
    const std::string_view known = t.traits.name;
    if (std::equal(known.begin(), known.end(), name.begin(), name.end(), same)) return t.type;
  }
  return std::nullopt;
}

const GgufTraits& TraitsOf(GgufType type) {
  const GgufTraits* traits = FindTraits(type);
  if (traits == nullptr)
    Throw(Code::kUnsupported, "GGUF tensor type ", static_cast<int32_t>(type), " is not supported");
  return *traits;
}

GgufScales GgufScalesOf(GgufType type, const std::byte* block) {
  GgufScales s;
  const uint8_t* b = Bytes(block);
  switch (type) {
    case GgufType::kQ4_0:
    case GgufType::kQ5_0:
    case GgufType::kQ8_0:
    case GgufType::kIQ4_NL:
      s.d = Load16(block);
      break;
    case GgufType::kQ4_1:
    case GgufType::kQ5_1:
      s.d = Load16(block);
      s.dmin = Load16(block + 2);
      break;
    case GgufType::kQ2_K:
      for (int j = 0; j < 16; ++j) {
        s.scale[j] = static_cast<int8_t>(b[j] & 15);
        s.min[j] = static_cast<uint8_t>(b[j] >> 4);
      }
      s.d = Load16(block + 80);
      s.dmin = Load16(block + 82);
      break;
    case GgufType::kQ3_K: {
      const uint8_t* q = b + 96;
      for (int j = 0; j < 16; ++j) {
        const int low = j < 8 ? q[j] & 15 : q[j - 8] >> 4;
        const int high = q[8 + j % 4] >> (2 * (j / 4)) & 3;
        s.scale[j] = static_cast<int8_t>((low | high << 4) - 32);
      }
      s.d = Load16(block + 108);
      break;
    }
    case GgufType::kQ4_K:
    case GgufType::kQ5_K:
      s.d = Load16(block);
      s.dmin = Load16(block + 2);
      ScalesOfK4(b + 4, &s);
      break;
    case GgufType::kQ6_K:
      std::memcpy(s.scale, b + 192, 16);
      s.d = Load16(block + 208);
      break;
    case GgufType::kIQ4_XS: {
      s.d = Load16(block);
      const int high = Load16(block + 2);
      for (int j = 0; j < 8; ++j) {
        const int low = b[4 + j / 2] >> (4 * (j % 2)) & 15;
        s.scale[j] = static_cast<int8_t>((low | (high >> (2 * j) & 3) << 4) - 32);
      }
      break;
    }
  }
  return s;
}

void GgufCodesOf(GgufType type, const std::byte* block, uint8_t* codes) {
  const uint8_t* b = Bytes(block);
  switch (type) {
    case GgufType::kQ4_0:
    case GgufType::kIQ4_NL:
      LowThenHighNibbles<16>(b + 2, codes);
      break;
    case GgufType::kQ4_1:
      LowThenHighNibbles<16>(b + 4, codes);
      break;
    case GgufType::kQ5_0:
      LowThenHighNibbles<16>(b + 6, codes);
      AddHighBits(Load32(block + 2), codes);
      break;
    case GgufType::kQ5_1:
      LowThenHighNibbles<16>(b + 8, codes);
      AddHighBits(Load32(block + 4), codes);
      break;
    case GgufType::kQ8_0:
      for (int i = 0; i < 32; ++i) codes[i] = b[2 + i] ^ 0x80;
      break;
    case GgufType::kQ2_K:
      TwoBitFields(b + 16, codes);
      break;
    case GgufType::kQ3_K:
      CodesOfQ3K(b, codes);
      break;
    case GgufType::kQ4_K:
      CodesOfQ4K(b + 16, codes);
      break;
    case GgufType::kQ5_K:
      CodesOfQ5K(b, codes);
      break;
    case GgufType::kQ6_K:
      CodesOfQ6K(b, codes);
      break;
    case GgufType::kIQ4_XS:
      for (int j = 0; j < 8; ++j) LowThenHighNibbles<16>(b + 8 + j * 16, codes + j * 32);
      break;
  }
}

}  // namespace ullage
