// Products with codes as bytes for several tokens at once.
#include "providers/cpu/quant/avx512.h"

namespace ullage::quant {
namespace {

template <bool kHalf, bool kMin, int kDigits, int kTokens>
ULLAGE_INLINE void Products(const DotArgs& args) {
  constexpr int kParts = kHalf ? 2 : 1, kQuads = 8 / kParts;
  const uint8_t* codes = args.codes;
  const uint8_t* records = args.activations;
  const float* scales = args.scales;
  const float* mins = args.mins;
  const __m512i shift = _mm512_set1_epi32(args.offset_shift);
  __m512 acc[kTokens];
  ULLAGE_UNROLL
  for (int t = 0; t < kTokens; ++t) acc[t] = _mm512_loadu_ps(args.acc + t * 16);
  for (int64_t b = 0; b < args.blocks; ++b) {
    ULLAGE_UNROLL
    for (int part = 0; part < kParts; ++part) {
      __m512i sums[kTokens][kDigits];
      ULLAGE_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        ULLAGE_UNROLL
        for (int d = 0; d < kDigits; ++d) {
          const ActivationBlock& digit = RecordAt(records + (t * kDigits + d) * kRecord);
          sums[t][d] =
              kMin ? _mm512_setzero_si512()
                   : _mm512_sllv_epi32(Broadcast(kHalf ? &digit.minus_half[part] : &digit.minus_sum), shift);
        }
      }
      ULLAGE_UNROLL
      for (int q = part * kQuads; q < (part + 1) * kQuads; ++q) {
        const __m512i u = LoadLine(codes + q * 64);
        ULLAGE_UNROLL
        for (int t = 0; t < kTokens; ++t) {
          ULLAGE_UNROLL
          for (int d = 0; d < kDigits; ++d)
            sums[t][d] =
                _mm512_dpbusd_epi32(sums[t][d], u, Broadcast(records + (t * kDigits + d) * kRecord + q * 4));
        }
      }
      const __m512 scale = _mm512_loadu_ps(scales + part * 16);
      __m512 min;
      if constexpr (kMin) min = _mm512_loadu_ps(mins + part * 16);
      ULLAGE_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        const ActivationBlock& a = RecordAt(records + t * kDigits * kRecord);
        acc[t] = _mm512_fmadd_ps(JoinDigits<kDigits>(sums[t]), _mm512_mul_ps(scale, _mm512_set1_ps(a.scale)),
                                 acc[t]);
        if constexpr (kMin)
          acc[t] = _mm512_fmadd_ps(min, _mm512_set1_ps(kHalf ? a.half_sum[part] : a.value_sum), acc[t]);
      }
    }
    codes += 512;
    records += args.block_stride;
    scales += kParts * 16;
    mins += kParts * 16;
  }
  ULLAGE_UNROLL
  for (int t = 0; t < kTokens; ++t) _mm512_storeu_ps(args.acc + t * 16, acc[t]);
}

struct Loops {
  static constexpr Build kTiles[] = {{1, 1}, {1, 2}, {1, 4}, {1, 8}, {1, 12},
                                     {2, 1}, {2, 4}, {2, 6}, {3, 1}, {3, 4}};
  template <int, bool kHalf, bool kMin, int kDigits, int kTokens>
  static void Tile(const DotArgs& args) {
    Products<kHalf, kMin, kDigits, kTokens>(args);
  }
};

}  // namespace

DotFn FindTileAvx512(const DotKind& kind, int tokens) {
  return FindTile<Loops, 8>(kind, tokens);
}

}  // namespace ullage::quant
