// The AVX-512 kernels, with products of 16 tokens at once by 8-bit tiles.
//
// A block of 32 is one tile product: [16 tokens][32] times [8 quads][16 rows][4]. While the tile unit works
// on a block, the vector units scale the 16 x 16 integers of the block before.
#include "providers/cpu/quant/avx512.h"

namespace ullage::quant {
namespace {

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

constexpr int kTokens = 16;

// Tiles 0, 1, 6 and 7: sums; 2 and 3: activations; 4 and 5: codes.
void Begin() {
  TileConfig config;
  for (int i = 0; i < 2; ++i) {
    config.rows[i] = config.rows[6 + i] = kTokens;
    config.row_bytes[i] = config.row_bytes[6 + i] = 64;
    config.rows[2 + i] = kTokens;
    config.row_bytes[2 + i] = 32;
    config.rows[4 + i] = 8;
    config.row_bytes[4 + i] = 64;
  }
  asm volatile("" : : "r"(&config) : "memory");  // GCC 12's intrinsic names 8 of the 64 bytes as read
  _tile_loadconfig(&config);
}

void End() {
  _tile_release();
}

void Subtract(int offset, int64_t blocks, uint8_t* codes) {
  const __m512i v = _mm512_set1_epi8(static_cast<char>(offset));
  for (int64_t i = 0; i < blocks * 8; ++i)
    _mm512_storeu_si512(codes + i * 64, _mm512_sub_epi8(LoadLine(codes + i * 64), v));
}

#define ULLAGE_TILE_PRODUCT(sum, a, b)                  \
  do {                                                  \
    _tile_zero(sum);                                    \
    _tile_loadd(a, records, static_cast<int>(kRecord)); \
    _tile_loadd(b, codes, 64);                          \
    if constexpr (kSigned) {                            \
      _tile_dpbssd(sum, a, b);                          \
    } else {                                            \
      _tile_dpbsud(sum, a, b);                          \
    }                                                   \
    _tile_stored(sum, sums[sum], 64);                   \
  } while (false)

template <bool kMin>
ULLAGE_INLINE void Scale(const int32_t* sums, const uint8_t* records, const float* scales, const float* mins,
                         __m512* acc) {
  const __m512 scale = _mm512_loadu_ps(scales);
  __m512 min;
  if constexpr (kMin) min = _mm512_loadu_ps(mins);
  ULLAGE_UNROLL
  for (int t = 0; t < kTokens; ++t) {
    const ActivationBlock& a = RecordAt(records + t * kRecord);
    const __m512 x = _mm512_cvtepi32_ps(_mm512_load_si512(sums + t * 16));
    acc[t] = _mm512_fmadd_ps(x, _mm512_mul_ps(scale, _mm512_set1_ps(a.scale)), acc[t]);
    if constexpr (kMin) acc[t] = _mm512_fmadd_ps(min, _mm512_set1_ps(a.value_sum), acc[t]);
  }
}

template <bool kSigned, bool kMin>
void Tile(const DotArgs& args) {
  alignas(64) int32_t sums[2][kTokens * 16];
  __m512 acc[kTokens];
  ULLAGE_UNROLL
  for (int t = 0; t < kTokens; ++t) acc[t] = _mm512_loadu_ps(args.acc + t * 16);
  const uint8_t* codes = args.codes;
  const uint8_t* records = args.activations;
  const float* scales = args.scales;
  const float* mins = args.mins;
  const int64_t stride = args.block_stride;
  const auto advance = [&] {
    codes += 512;
    records += stride;
  };
  ULLAGE_TILE_PRODUCT(0, 2, 4);
  advance();
  int64_t left = args.blocks - 1;
  for (; left >= 2; left -= 2) {
    ULLAGE_TILE_PRODUCT(1, 3, 5);
    Scale<kMin>(sums[0], records - stride, scales, mins, acc);
    advance();
    ULLAGE_TILE_PRODUCT(0, 2, 4);
    Scale<kMin>(sums[1], records - stride, scales + 16, mins + 16, acc);
    advance();
    scales += 32;
    mins += 32;
  }
  if (left == 1) {
    ULLAGE_TILE_PRODUCT(1, 3, 5);
    Scale<kMin>(sums[0], records - stride, scales, mins, acc);
    Scale<kMin>(sums[1], records, scales + 16, mins + 16, acc);
  } else {
    Scale<kMin>(sums[0], records - stride, scales, mins, acc);
  }
  ULLAGE_UNROLL
  for (int t = 0; t < kTokens; ++t) _mm512_storeu_ps(args.acc + t * 16, acc[t]);
}

// Two digits: a product each for the high and the low one, joined as integers.
#define ULLAGE_DIGIT_PRODUCTS(high, low, b, out)                      \
  do {                                                                \
    _tile_zero(high);                                                 \
    _tile_zero(low);                                                  \
    _tile_loadd(b, codes, 64);                                        \
    _tile_loadd(2, records, static_cast<int>(2 * kRecord));           \
    _tile_loadd(3, records + kRecord, static_cast<int>(2 * kRecord)); \
    if constexpr (kSigned) {                                          \
      _tile_dpbssd(high, 2, b);                                       \
      _tile_dpbssd(low, 3, b);                                        \
    } else {                                                          \
      _tile_dpbsud(high, 2, b);                                       \
      _tile_dpbsud(low, 3, b);                                        \
    }                                                                 \
    _tile_stored(high, (out)[0], 64);                                 \
    _tile_stored(low, (out)[1], 64);                                  \
  } while (false)

template <bool kMin>
ULLAGE_INLINE void ScaleDigits(const int32_t (*sums)[kTokens * 16], const uint8_t* records,
                               const float* scales, const float* mins, __m512* acc) {
  const __m512 scale = _mm512_loadu_ps(scales);
  __m512 min;
  if constexpr (kMin) min = _mm512_loadu_ps(mins);
  ULLAGE_UNROLL
  for (int t = 0; t < kTokens; ++t) {
    const ActivationBlock& a = RecordAt(records + 2 * t * kRecord);
    const __m512i digits[2] = {_mm512_load_si512(sums[0] + t * 16), _mm512_load_si512(sums[1] + t * 16)};
    acc[t] = _mm512_fmadd_ps(JoinDigits<2>(digits), _mm512_mul_ps(scale, _mm512_set1_ps(a.scale)), acc[t]);
    if constexpr (kMin) acc[t] = _mm512_fmadd_ps(min, _mm512_set1_ps(a.value_sum), acc[t]);
  }
}

template <bool kSigned, bool kMin>
void TileDigits(const DotArgs& args) {
  alignas(64) int32_t sums[2][2][kTokens * 16];
  __m512 acc[kTokens];
  ULLAGE_UNROLL
  for (int t = 0; t < kTokens; ++t) acc[t] = _mm512_loadu_ps(args.acc + t * 16);
  const uint8_t* codes = args.codes;
  const uint8_t* records = args.activations;
  const float* scales = args.scales;
  const float* mins = args.mins;
  const int64_t stride = args.block_stride;
  const auto advance = [&] {
    codes += 512;
    records += stride;
  };
  ULLAGE_DIGIT_PRODUCTS(0, 1, 4, sums[0]);
  advance();
  int64_t left = args.blocks - 1;
  for (; left >= 2; left -= 2) {
    ULLAGE_DIGIT_PRODUCTS(6, 7, 5, sums[1]);
    ScaleDigits<kMin>(sums[0], records - stride, scales, mins, acc);
    advance();
    ULLAGE_DIGIT_PRODUCTS(0, 1, 4, sums[0]);
    ScaleDigits<kMin>(sums[1], records - stride, scales + 16, mins + 16, acc);
    advance();
    scales += 32;
    mins += 32;
  }
  if (left == 1) {
    ULLAGE_DIGIT_PRODUCTS(6, 7, 5, sums[1]);
    ScaleDigits<kMin>(sums[0], records - stride, scales, mins, acc);
    ScaleDigits<kMin>(sums[1], records, scales + 16, mins + 16, acc);
  } else {
    ScaleDigits<kMin>(sums[0], records - stride, scales, mins, acc);
  }
  ULLAGE_UNROLL
  for (int t = 0; t < kTokens; ++t) _mm512_storeu_ps(args.acc + t * 16, acc[t]);
}

DotFn Find(const DotKind& kind, bool is_signed) {
  if (kind.half || kind.digits > 2) return nullptr;
  if (kind.digits == 2) {
    if (is_signed) return kind.min ? nullptr : TileDigits<true, false>;
    return kind.min ? TileDigits<false, true> : TileDigits<false, false>;
  }
  if (is_signed) return kind.min ? nullptr : Tile<true, false>;
  return kind.min ? Tile<false, true> : Tile<false, false>;
}

}  // namespace

const KernelSet& KernelsAmx() {
  static const KernelSet set = [] {
    KernelSet s = KernelsAvx512();
    s.block16 = {Begin, End, Subtract, Find};
    return s;
  }();
  return set;
}

}  // namespace ullage::quant
