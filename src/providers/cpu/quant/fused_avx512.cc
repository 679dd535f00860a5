// Products with packed codes for one or two tokens: decode reads every byte of the weight once and does
// nothing else.
#include "providers/cpu/quant/avx512.h"

namespace ullage::quant {
namespace {

constexpr int64_t kAhead = 3072;  // bytes between what is used and what is fetched

template <int kBits, bool kIq4, bool kHalf, bool kMin, int kDigits, int kTokens>
void Fused(const DotArgs& args) {
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

template <int kBits, bool kIq4, bool kHalf, bool kMin>
DotFn Pick(int digits, int tokens) {
  if (digits == 3) return tokens == 1 ? Fused<kBits, kIq4, kHalf, kMin, 3, 1> : nullptr;
  if (digits == 2) return tokens == 1 ? Fused<kBits, kIq4, kHalf, kMin, 2, 1> : nullptr;
  if (tokens == 1) return Fused<kBits, kIq4, kHalf, kMin, 1, 1>;
  return tokens == 2 ? Fused<kBits, kIq4, kHalf, kMin, 1, 2> : nullptr;
}

template <int kBits>
DotFn PickAll(const DotKind& kind, int tokens) {
  if (kind.half)
    return kind.min ? Pick<kBits, false, true, true>(kind.digits, tokens)
                    : Pick<kBits, false, true, false>(kind.digits, tokens);
  return kind.min ? Pick<kBits, false, false, true>(kind.digits, tokens)
                  : Pick<kBits, false, false, false>(kind.digits, tokens);
}

}  // namespace

DotFn FindFusedAvx512(const DotKind& kind, int tokens) {
  if (kind.iq4) return kind.half || kind.min ? nullptr : Pick<4, true, false, false>(kind.digits, tokens);
  switch (kind.bits) {
    case 2:
      return PickAll<2>(kind, tokens);
    case 3:
      return kind.half && !kind.min ? Pick<3, false, true, false>(kind.digits, tokens) : nullptr;
    case 4:
      return PickAll<4>(kind, tokens);
    case 5:
      if (kind.half) return nullptr;
      return kind.min ? Pick<5, false, false, true>(kind.digits, tokens)
                      : Pick<5, false, false, false>(kind.digits, tokens);
    case 6:
      return kind.half && !kind.min ? Pick<6, false, true, false>(kind.digits, tokens) : nullptr;
    case 8:
      return PickAll<8>(kind, tokens);
    default:
      return nullptr;
  }
}

}  // namespace ullage::quant
