// The kernels for 256-bit vectors. Included by one file built with AVX2, FMA and F16C (ULLAGE_QUANT_VNNI 0)
// and one built with AVX-VNNI besides (ULLAGE_QUANT_VNNI 1); everything has internal linkage.
#include <immintrin.h>

#include <cstdint>

#include "core/block_format.h"
#include "providers/cpu/quant/dispatch-inl.h"

namespace ullage::quant {
namespace {

#define ULLAGE_INLINE __attribute__((always_inline)) inline
#define ULLAGE_UNROLL _Pragma("GCC unroll 16")

constexpr int64_t kRecord = 64;   // of one digit
constexpr int64_t kAhead = 2048;  // bytes between what is used and what is fetched

ULLAGE_INLINE __m256i Load(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
ULLAGE_INLINE void Store(void* p, __m256i v) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), v);
}

ULLAGE_INLINE __m256i Broadcast(const void* p) {
  int32_t v;
  __builtin_memcpy(&v, p, sizeof v);
  return _mm256_set1_epi32(v);
}

ULLAGE_INLINE const ActivationBlock& RecordAt(const uint8_t* p) {
  return *reinterpret_cast<const ActivationBlock*>(p);
}

// Quad q (elements 4q…4q+3) of a block as bytes, for rows 8*half…8*half+7.
template <int kBits, bool kIq4>
ULLAGE_INLINE __m256i UnpackQuad(const uint8_t* in, int q, int half) {
  in += half * 32;
  if constexpr (kBits == 8) return Load(in + q * 64);
  __m256i u = _mm256_setzero_si256();
  int shift = 0;
  if constexpr (kBits >= 4) {
    const __m256i line = Load(in + q % 4 * 64);
    u = _mm256_and_si256(q < 4 ? line : _mm256_srli_epi32(line, 4), _mm256_set1_epi8(15));
    in += 256;
    shift = 4;
  }
  const auto add_bits = [&](__m256i line, int from, int mask) __attribute__((always_inline)) {
    const __m256i moved =
        from > shift ? _mm256_srli_epi32(line, from - shift) : _mm256_slli_epi32(line, shift - from);
    u = _mm256_or_si256(u, _mm256_and_si256(moved, _mm256_set1_epi8(static_cast<char>(mask << shift))));
  };
  if constexpr ((kBits & 2) != 0) {
    add_bits(Load(in + q % 2 * 64), q / 2 * 2, 3);
    in += 128;
    shift += 2;
  }
  if constexpr ((kBits & 1) != 0) add_bits(Load(in), q, 1);
  if constexpr (kIq4) {
    alignas(16) static constexpr uint8_t kTable[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                       129, 141, 153, 166, 181, 197, 217, 241};
    u = _mm256_shuffle_epi8(
        _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(kTable))), u);
  }
  return u;
}

// The exact sum over quads of unsigned codes below 2^kBits times signed bytes, for 8 rows.
template <int kBits>
class Sum {
 public:
  // Quads must come in the order of `q`; q counts within one sum.
  ULLAGE_INLINE void Add(__m256i u, __m256i a, [[maybe_unused]] int q) {
#if ULLAGE_QUANT_VNNI
    wide_ = _mm256_dpbusd_avx_epi32(wide_, u, a);
#else
    // Pairs of products are summed in 16 bits, which hold 2 * 15 * 128 * 8 quads of 4-bit codes, 4 quads of 5
    // bits, 2 of 6 bits.
    if constexpr (kBits > 6) {
      const __m256i nibble = _mm256_set1_epi8(15);
      low_ = _mm256_add_epi16(low_, _mm256_maddubs_epi16(_mm256_and_si256(u, nibble), a));
      high_ =
          _mm256_add_epi16(high_, _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi32(u, 4), nibble), a));
    } else {
      low_ = _mm256_add_epi16(low_, _mm256_maddubs_epi16(u, a));
      constexpr int kFlush = kBits <= 4 ? 8 : kBits == 5 ? 4 : 2;
      if (kFlush < 8 && q % kFlush == kFlush - 1) {
        wide_ = _mm256_add_epi32(wide_, Widen(low_));
        low_ = _mm256_setzero_si256();
      }
    }
#endif
  }
  ULLAGE_INLINE __m256i Total() const {
#if ULLAGE_QUANT_VNNI
    return wide_;
#else
    if constexpr (kBits > 6) return _mm256_add_epi32(_mm256_slli_epi32(Widen(high_), 4), Widen(low_));
    return kBits <= 4 ? Widen(low_) : wide_;
#endif
  }

 private:
  static ULLAGE_INLINE __m256i Widen(__m256i pairs) {
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  }
  __m256i wide_ = _mm256_setzero_si256();
#if !ULLAGE_QUANT_VNNI
  __m256i low_ = _mm256_setzero_si256(), high_ = _mm256_setzero_si256();
#endif
};

template <int kDigits>
ULLAGE_INLINE __m256 JoinDigits(const __m256i* sums) {
  const __m256 first = _mm256_cvtepi32_ps(sums[0]);
  if constexpr (kDigits == 1) {
    return first;
  } else if constexpr (kDigits == 2) {
    return _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_slli_epi32(sums[0], 8), sums[1]));
  } else {
    const __m256i low = _mm256_add_epi32(_mm256_slli_epi32(sums[1], 8), sums[2]);
    return _mm256_fmadd_ps(first, _mm256_set1_ps(65536.0f), _mm256_cvtepi32_ps(low));
  }
}

// kPacked: codes are packed with kBits; otherwise bytes below 2^kBits.
template <int kBits, bool kIq4, bool kPacked, bool kHalf, bool kMin, int kDigits, int kTokens>
ULLAGE_INLINE void Dot(const DotArgs& args) {
  constexpr int kParts = kHalf ? 2 : 1, kQuads = 8 / kParts, kSumBits = kIq4 ? 8 : kBits;
  constexpr int64_t kCodeBytes = kPacked ? kBits * 64 : 512;
  const uint8_t* codes = args.codes;
  const uint8_t* records = args.activations;
  const float* scales = args.scales;
  const float* mins = args.mins;
  const __m256i shift = _mm256_set1_epi32(args.offset_shift);
  __m256 acc[2][kTokens];
  ULLAGE_UNROLL
  for (int t = 0; t < kTokens; ++t)
    for (int h = 0; h < 2; ++h) acc[h][t] = _mm256_loadu_ps(args.acc + t * 16 + h * 8);
  for (int64_t b = 0; b < args.blocks; ++b) {
    if constexpr (kPacked) {
      ULLAGE_UNROLL
      for (int i = 0; i < kBits; ++i)
        _mm_prefetch(reinterpret_cast<const char*>(codes) + kAhead + i * 64, _MM_HINT_T0);
    }
    ULLAGE_UNROLL
    for (int h = 0; h < 2; ++h) {
      ULLAGE_UNROLL
      for (int part = 0; part < kParts; ++part) {
        Sum<kSumBits> sums[kTokens][kDigits];
        ULLAGE_UNROLL
        for (int q = 0; q < kQuads; ++q) {
          const int quad = part * kQuads + q;
          const __m256i u =
              kPacked ? UnpackQuad<kBits, kIq4>(codes, quad, h) : UnpackQuad<8, false>(codes, quad, h);
          ULLAGE_UNROLL
          for (int t = 0; t < kTokens; ++t) {
            ULLAGE_UNROLL
            for (int d = 0; d < kDigits; ++d)
              sums[t][d].Add(u, Broadcast(records + (t * kDigits + d) * kRecord + quad * 4), q);
          }
        }
        const __m256 scale = _mm256_loadu_ps(scales + part * 16 + h * 8);
        ULLAGE_UNROLL
        for (int t = 0; t < kTokens; ++t) {
          const uint8_t* record = records + t * kDigits * kRecord;
          const ActivationBlock& a = RecordAt(record);
          __m256i totals[kDigits];
          ULLAGE_UNROLL
          for (int d = 0; d < kDigits; ++d) {
            totals[d] = sums[t][d].Total();
            if constexpr (!kMin) {
              const ActivationBlock& digit = RecordAt(record + d * kRecord);
              totals[d] = _mm256_add_epi32(
                  totals[d],
                  _mm256_sllv_epi32(Broadcast(kHalf ? &digit.minus_half[part] : &digit.minus_sum), shift));
            }
          }
          acc[h][t] = _mm256_fmadd_ps(JoinDigits<kDigits>(totals),
                                      _mm256_mul_ps(scale, _mm256_set1_ps(a.scale)), acc[h][t]);
          if constexpr (kMin)
            acc[h][t] = _mm256_fmadd_ps(_mm256_loadu_ps(mins + part * 16 + h * 8),
                                        _mm256_set1_ps(kHalf ? a.half_sum[part] : a.value_sum), acc[h][t]);
        }
      }
    }
    codes += kCodeBytes;
    records += args.block_stride;
    scales += kParts * 16;
    mins += kParts * 16;
  }
  ULLAGE_UNROLL
  for (int t = 0; t < kTokens; ++t)
    for (int h = 0; h < 2; ++h) _mm256_storeu_ps(args.acc + t * 16 + h * 8, acc[h][t]);
}

struct Loops {
  static constexpr Build kFused[] = {{1, 1}, {2, 1}, {3, 1}};
  static constexpr Build kTiles[] = {{1, 1}, {1, 2}, {1, 4}, {2, 1}, {2, 2}, {3, 1}};
  template <int kBits, bool kIq4, bool kHalf, bool kMin, int kDigits, int kTokens>
  static void Fused(const DotArgs& args) {
    Dot<kBits, kIq4, true, kHalf, kMin, kDigits, kTokens>(args);
  }
  template <int kBits, bool kHalf, bool kMin, int kDigits, int kTokens>
  static void Tile(const DotArgs& args) {
    Dot<kBits, false, false, kHalf, kMin, kDigits, kTokens>(args);
  }
  template <int kBits, bool kIq4>
  static void Unpack(const uint8_t* codes, int64_t blocks, uint8_t* out) {
    for (int64_t b = 0; b < blocks; ++b) {
      ULLAGE_UNROLL
      for (int q = 0; q < 8; ++q)
        for (int h = 0; h < 2; ++h)
          Store(out + b * 512 + q * 64 + h * 32, UnpackQuad<kBits, kIq4>(codes + b * kBits * 64, q, h));
    }
  }
};

DotFn FindTile(const DotKind& kind, int tokens) {
#if ULLAGE_QUANT_VNNI
  return FindTile<Loops, 8>(kind, tokens);
#else
  if (kind.bits <= 4) return FindTile<Loops, 4>(kind, tokens);
  return kind.bits <= 6 ? FindTile<Loops, 6>(kind, tokens) : FindTile<Loops, 8>(kind, tokens);
#endif
}

}  // namespace
}  // namespace ullage::quant

#include "providers/cpu/quant/avx2_parts-inl.h"
