// Products with packed codes for one or two tokens: decode reads every byte of the weight once and does
// nothing else.
#include "providers/cpu/quant/avx512.h"

namespace ullage::quant {
namespace {

constexpr int64_t kAhead = 3072;  // bytes between what is used and what is fetched

template <int kBits, bool kIq4, bool kHalf, bool kMin, int kDigits, int kTokens>
ULLAGE_INLINE void Products(const DotArgs& args) {
  constexpr int64_t kCodeBytes = kBits * 64;
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
    for (int i = 0; i < kBits; ++i)
      _mm_prefetch(reinterpret_cast<const char*>(codes) + kAhead + i * 64, _MM_HINT_T0);
    const Quads u = UnpackQuads<kBits, kIq4>(codes);
    ULLAGE_UNROLL
    for (int part = 0; part < kParts; ++part) {
      const __m512 scale = _mm512_loadu_ps(scales + part * 16);
      __m512 min;
      if constexpr (kMin) min = _mm512_loadu_ps(mins + part * 16);
      ULLAGE_UNROLL
      for (int t = 0; t < kTokens; ++t) {
        const uint8_t* record = records + t * kDigits * kRecord;
        const ActivationBlock& a = RecordAt(record);
        __m512i sums[kDigits];
        ULLAGE_UNROLL
        for (int d = 0; d < kDigits; ++d) {
          const ActivationBlock& digit = RecordAt(record + d * kRecord);
          __m512i even = _mm512_setzero_si512(), odd = _mm512_setzero_si512();
          if constexpr (!kMin)
            even = _mm512_sllv_epi32(Broadcast(kHalf ? &digit.minus_half[part] : &digit.minus_sum), shift);
          ULLAGE_UNROLL
          for (int q = part * kQuads; q < (part + 1) * kQuads; q += 2) {
            even = _mm512_dpbusd_epi32(even, u.q[q], Broadcast(digit.q + q * 4));
            odd = _mm512_dpbusd_epi32(odd, u.q[q + 1], Broadcast(digit.q + q * 4 + 4));
          }
          sums[d] = _mm512_add_epi32(even, odd);
        }
        acc[t] =
            _mm512_fmadd_ps(JoinDigits<kDigits>(sums), _mm512_mul_ps(scale, _mm512_set1_ps(a.scale)), acc[t]);
        if constexpr (kMin)
          acc[t] = _mm512_fmadd_ps(min, _mm512_set1_ps(kHalf ? a.half_sum[part] : a.value_sum), acc[t]);
      }
    }
    codes += kCodeBytes;
    records += args.block_stride;
    scales += kParts * 16;
    mins += kParts * 16;
  }
  ULLAGE_UNROLL
  for (int t = 0; t < kTokens; ++t) _mm512_storeu_ps(args.acc + t * 16, acc[t]);
}

struct Loops {
  static constexpr Build kFused[] = {{1, 1}, {1, 2}, {2, 1}, {3, 1}};
  template <int kBits, bool kIq4, bool kHalf, bool kMin, int kDigits, int kTokens>
  static void Fused(const DotArgs& args) {
    Products<kBits, kIq4, kHalf, kMin, kDigits, kTokens>(args);
  }
};

}  // namespace

DotFn FindFusedAvx512(const DotKind& kind, int tokens) {
  return FindFused<Loops>(kind, tokens);
}

}  // namespace ullage::quant
