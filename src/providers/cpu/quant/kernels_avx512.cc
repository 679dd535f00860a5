#include "providers/cpu/quant/avx512.h"

namespace ullage::quant {
namespace {

ULLAGE_INLINE __mmask16 FirstLanes(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffff : (1u << (count > 0 ? count : 0)) - 1);
}

// 32 values of a digit and the sums of its halves.
ULLAGE_INLINE void PutDigit(ActivationBlock* b, __m512i low, __m512i high, int32_t s0, int32_t s1) {
  _mm_store_si128(reinterpret_cast<__m128i*>(b->q), _mm512_cvtepi32_epi8(low));
  _mm_store_si128(reinterpret_cast<__m128i*>(b->q + 16), _mm512_cvtepi32_epi8(high));
  b->minus_sum = -(s0 + s1);
  b->minus_half[0] = -s0;
  b->minus_half[1] = -s1;
  b->reserved = 0;
}

ULLAGE_INLINE void PutDigit(ActivationBlock* b, __m512i low, __m512i high) {
  PutDigit(b, low, high, _mm512_reduce_add_epi32(low), _mm512_reduce_add_epi32(high));
}

// Takes the lowest balanced digit off the value.
ULLAGE_INLINE __m512i TakeDigit(__m512i* value) {
  const __m512i digit = _mm512_srai_epi32(_mm512_slli_epi32(*value, 24), 24);
  *value = _mm512_srai_epi32(_mm512_sub_epi32(*value, digit), 8);
  return digit;
}

void Quantize(Activations form, const float* a, int64_t count, void* record) {
  const __m512 x0 = _mm512_maskz_loadu_ps(FirstLanes(count), a);
  const __mmask16 upper = FirstLanes(count - 16);
  const __m512 x1 = upper != 0 ? _mm512_maskz_loadu_ps(upper, a + 16) : _mm512_setzero_ps();
  if (form == Activations::kFloat) {
    _mm512_storeu_ps(record, x0);
    _mm512_storeu_ps(static_cast<float*>(record) + 16, x1);
    return;
  }
  const bool int8 = form == Activations::kInt8;
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  const uint32_t bits = static_cast<uint32_t>(
      _mm512_reduce_max_epi32(_mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(x0), magnitude),
                                               _mm512_and_si512(_mm512_castps_si512(x1), magnitude))));
  const bool int16 = form == Activations::kInt16;
  const BlockScale block(form, bits);
  __m512i v0 = _mm512_setzero_si512(), v1 = v0;
  if (block.inverse != 0) {
    const __m512 factor = _mm512_set1_ps(block.inverse);
    const __m512i top = _mm512_set1_epi32(block.limit), bottom = _mm512_set1_epi32(-block.limit);
    v0 = _mm512_max_epi32(bottom, _mm512_min_epi32(top, _mm512_cvtps_epi32(_mm512_mul_ps(x0, factor))));
    v1 = _mm512_max_epi32(bottom, _mm512_min_epi32(top, _mm512_cvtps_epi32(_mm512_mul_ps(x1, factor))));
  }
  ActivationBlock* digits = static_cast<ActivationBlock*>(record);
  const int32_t h0 = _mm512_reduce_add_epi32(v0), h1 = _mm512_reduce_add_epi32(v1);
  PutScale(digits, form, block.scale, h0, h1);
  if (int8) {
    PutDigit(&digits[0], v0, v1, h0, h1);
  } else if (int16) {
    const __m512i a0 = TakeDigit(&v0), a1 = TakeDigit(&v1);
    PutDigit(&digits[1], a0, a1);
    PutDigit(&digits[0], v0, v1);
  } else {
    const __m512i a0 = TakeDigit(&v0), a1 = TakeDigit(&v1);
    PutDigit(&digits[2], a0, a1);
    const __m512i b0 = TakeDigit(&v0), b1 = TakeDigit(&v1);
    PutDigit(&digits[1], b0, b1);
    PutDigit(&digits[0], v0, v1);
  }
}

struct Lanes {
  static constexpr int kLanes = 16;
  using Vector = __m512;
  static ULLAGE_INLINE __m512 Zero() { return _mm512_setzero_ps(); }
  static ULLAGE_INLINE __m512 Negated(__m512 x) {
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MIN)));
  }
  static ULLAGE_INLINE __m512 Product(__m512 a, __m512 b) { return _mm512_mul_ps(a, b); }
  static ULLAGE_INLINE void Store(float* to, __m512 x) { _mm512_storeu_ps(to, x); }
  static ULLAGE_INLINE __m256i Words(const uint8_t* part, int64_t j) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(part + j * 32));
  }
  static ULLAGE_INLINE __m128i Bytes(const uint8_t* part, int64_t j) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(part + j * 16));
  }
  static ULLAGE_INLINE __m512 Half(const uint8_t* part, int64_t j, int) {
    return _mm512_cvtph_ps(Words(part, j));
  }
  static ULLAGE_INLINE __m512 BFloat(const uint8_t* part, int64_t j, int) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(Words(part, j)), 16));
  }
  static ULLAGE_INLINE __m512 Float(const uint8_t* part, int64_t j, int) {
    return _mm512_loadu_ps(part + j * 64);
  }
  static ULLAGE_INLINE __m512 Signed(const uint8_t* part, int64_t j, int) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(Bytes(part, j)));
  }
  static ULLAGE_INLINE __m512 Unsigned(const uint8_t* part, int64_t j, int) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(Bytes(part, j)));
  }
};

struct Loops {
  template <int kBits, bool kIq4>
  static void Unpack(const uint8_t* codes, int64_t blocks, uint8_t* out) {
    for (int64_t b = 0; b < blocks; ++b) {
      const Quads u = UnpackQuads<kBits, kIq4>(codes + b * kBits * 64);
      ULLAGE_UNROLL
      for (int q = 0; q < 8; ++q) _mm512_storeu_si512(out + b * 512 + q * 64, u.q[q]);
    }
  }
};

void Indexed(const IndexedArgs& args) {
  const PackedLayout& l = *args.layout;
  const GroupParts parts = PartsOf(l);
  const uint8_t* scale_part = args.group + parts.scale;
  const uint8_t* min_part = args.group + parts.min;
  alignas(64) uint8_t codes[512];
  alignas(64) float w[32 * 16];
  for (int64_t b = 0; b < l.blocks; ++b) {
    Unpack<Loops>(l.bits, false, args.group + parts.code + b * l.bits * 64, 1, codes);
    for (int i = 0; i < 32; ++i) {
      const int64_t e = int64_t{args.index[b * kBlock + i]} * 64;
      const __m512i quad = LoadLine(codes + i / 4 * 64);
      const __m512i code =
          _mm512_and_si512(_mm512_srlv_epi32(quad, _mm512_set1_epi32(i % 4 * 8)), _mm512_set1_epi32(255));
      _mm512_store_ps(w + i * 16, _mm512_fmadd_ps(_mm512_cvtepi32_ps(code), _mm512_loadu_ps(scale_part + e),
                                                  _mm512_loadu_ps(min_part + e)));
    }
    for (int64_t t = 0; t < args.tokens; ++t) {
      const float* a = args.activations + b * args.block_stride + t * kBlock;
      __m512 acc = _mm512_loadu_ps(args.acc + t * 16);
      ULLAGE_UNROLL
      for (int i = 0; i < 32; ++i)
        acc = _mm512_fmadd_ps(_mm512_load_ps(w + i * 16), _mm512_set1_ps(a[i]), acc);
      _mm512_storeu_ps(args.acc + t * 16, acc);
    }
  }
}

constexpr KernelSet kSet = {Quantize, Expand<Lanes>, Unpack<Loops>, FindFusedAvx512, FindTileAvx512, Indexed,
                            {}};

}  // namespace

const KernelSet& KernelsAvx512() {
  return kSet;
}

}  // namespace ullage::quant
