#include "providers/cpu/quant/avx512.h"

namespace ullage::quant {
namespace {

constexpr int32_t kMaxInt16 = 32639;        // 127 * (256 + 1)
constexpr int32_t kMaxInt24 = 8355711;      // 127 * (65536 + 256 + 1)
constexpr uint32_t kTinyBits = 0x0d800000;  // 2^-100
constexpr uint32_t kInfinityBits = 0x7f800000;

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
  const int32_t limit = int8 ? 127 : int16 ? kMaxInt16 : kMaxInt24;
  float scale = 0, inverse = 0;
  if (bits >= kInfinityBits) {
    const uint32_t nan = 0x7fc00000;
    __builtin_memcpy(&scale, &nan, sizeof scale);
  } else if (bits >= kTinyBits) {
    float largest;
    __builtin_memcpy(&largest, &bits, sizeof largest);
    scale = largest / static_cast<float>(limit);
    inverse = static_cast<float>(limit) / largest;
  }
  __m512i v0 = _mm512_setzero_si512(), v1 = v0;
  if (inverse != 0) {
    const __m512 factor = _mm512_set1_ps(inverse);
    const __m512i top = _mm512_set1_epi32(limit), bottom = _mm512_set1_epi32(-limit);
    v0 = _mm512_max_epi32(bottom, _mm512_min_epi32(top, _mm512_cvtps_epi32(_mm512_mul_ps(x0, factor))));
    v1 = _mm512_max_epi32(bottom, _mm512_min_epi32(top, _mm512_cvtps_epi32(_mm512_mul_ps(x1, factor))));
  }
  ActivationBlock* digits = static_cast<ActivationBlock*>(record);
  const int32_t h0 = _mm512_reduce_add_epi32(v0), h1 = _mm512_reduce_add_epi32(v1);
  const int count_digits = int8 ? 1 : int16 ? 2 : 3;
  for (int d = 0; d < count_digits; ++d) {
    digits[d].scale = scale;
    digits[d].value_sum = scale * static_cast<float>(h0 + h1);
    digits[d].half_sum[0] = scale * static_cast<float>(h0);
    digits[d].half_sum[1] = scale * static_cast<float>(h1);
  }
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

ULLAGE_INLINE __m512 HalfEntry(const uint8_t* part, int64_t j) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(part + j * 32)));
}

ULLAGE_INLINE __m128i ByteEntry(const uint8_t* part, int64_t j) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(part + j * 16));
}

ULLAGE_INLINE __m512 Negated(__m512 x) {
  return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MIN)));
}

template <ScaleForm kForm>
ULLAGE_INLINE __m512 ScaleEntry(const uint8_t* scale, int64_t j, __m512 super) {
  switch (kForm) {
    case ScaleForm::kFloat16:
    case ScaleForm::kFloat16Row:
      return HalfEntry(scale, j);
    case ScaleForm::kFloat32:
      return _mm512_loadu_ps(scale + j * 64);
    case ScaleForm::kBFloat16: {
      const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(scale + j * 32));
      return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
    }
    case ScaleForm::kSuper:
      return _mm512_mul_ps(super, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(ByteEntry(scale, j))));
  }
}

template <ScaleForm kForm, MinForm kMin>
void ExpandForm(const PackedLayout& l, const uint8_t* group, int64_t first, int64_t blocks, float* scales,
                float* mins) {
  const GroupParts parts = PartsOf(l);
  const int64_t per_block = l.span == 16 ? 2 : 1, step = kBlock / per_block;
  int64_t j = first * kBlock / l.span, end = (j + 1) * l.span;  // scale, and where its span ends
  int64_t element = first * kBlock, super_end = element;
  const uint8_t* min_part = group + parts.min;
  __m512 super = _mm512_setzero_ps(), minus_super_min = super;
  for (int64_t e = 0; e < blocks * per_block; ++e, element += step) {
    if (element >= end) {
      ++j;
      end += l.span;
    }
    if (element >= super_end) {
      const int64_t i = element / 256;
      if constexpr (kForm == ScaleForm::kSuper) super = HalfEntry(group + parts.super_scale, i);
      if constexpr (kMin == MinForm::kSuper) minus_super_min = Negated(HalfEntry(group + parts.super_min, i));
      super_end = (i + 1) * 256;
    }
    const __m512 s = ScaleEntry<kForm>(group + parts.scale, j, super);
    _mm512_storeu_ps(scales + e * 16, s);
    if constexpr (kMin == MinForm::kZeroPoint || kMin == MinForm::kSuper) {
      const __m512 z = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(ByteEntry(min_part, j)));
      _mm512_storeu_ps(mins + e * 16,
                       _mm512_mul_ps(kMin == MinForm::kSuper ? minus_super_min : Negated(s), z));
    } else if constexpr (kMin == MinForm::kFloat16) {
      _mm512_storeu_ps(mins + e * 16, HalfEntry(min_part, j));
    } else if constexpr (kMin == MinForm::kFloat32) {
      _mm512_storeu_ps(mins + e * 16, _mm512_loadu_ps(min_part + j * 64));
    }
  }
}

template <ScaleForm kForm>
void ExpandMin(const PackedLayout& l, const uint8_t* group, int64_t first, int64_t blocks, float* scales,
               float* mins) {
  switch (l.min_form) {
    case MinForm::kOffset:
      return ExpandForm<kForm, MinForm::kOffset>(l, group, first, blocks, scales, mins);
    case MinForm::kZeroPoint:
      return ExpandForm<kForm, MinForm::kZeroPoint>(l, group, first, blocks, scales, mins);
    case MinForm::kFloat16:
      return ExpandForm<kForm, MinForm::kFloat16>(l, group, first, blocks, scales, mins);
    case MinForm::kFloat32:
      return ExpandForm<kForm, MinForm::kFloat32>(l, group, first, blocks, scales, mins);
    case MinForm::kSuper:
      return ExpandForm<kForm, MinForm::kSuper>(l, group, first, blocks, scales, mins);
  }
}

void Expand(const PackedLayout& l, const uint8_t* group, int64_t first, int64_t blocks, float* scales,
            float* mins) {
  switch (l.scale_form) {
    case ScaleForm::kFloat16:
    case ScaleForm::kFloat16Row:
      return ExpandMin<ScaleForm::kFloat16>(l, group, first, blocks, scales, mins);
    case ScaleForm::kBFloat16:
      return ExpandMin<ScaleForm::kBFloat16>(l, group, first, blocks, scales, mins);
    case ScaleForm::kFloat32:
      return ExpandMin<ScaleForm::kFloat32>(l, group, first, blocks, scales, mins);
    case ScaleForm::kSuper:
      return ExpandMin<ScaleForm::kSuper>(l, group, first, blocks, scales, mins);
  }
}

template <int kBits, bool kIq4>
void UnpackBlocks(const uint8_t* codes, int64_t blocks, uint8_t* out) {
  for (int64_t b = 0; b < blocks; ++b) {
    const Quads u = UnpackQuads<kBits, kIq4>(codes + b * kBits * 64);
    ULLAGE_UNROLL
    for (int q = 0; q < 8; ++q) _mm512_storeu_si512(out + b * 512 + q * 64, u.q[q]);
  }
}

void Unpack(int bits, bool iq4, const uint8_t* codes, int64_t blocks, uint8_t* out) {
  if (iq4) return UnpackBlocks<4, true>(codes, blocks, out);
  switch (bits) {
    case 2:
      return UnpackBlocks<2, false>(codes, blocks, out);
    case 3:
      return UnpackBlocks<3, false>(codes, blocks, out);
    case 4:
      return UnpackBlocks<4, false>(codes, blocks, out);
    case 5:
      return UnpackBlocks<5, false>(codes, blocks, out);
    case 6:
      return UnpackBlocks<6, false>(codes, blocks, out);
    default:
      return UnpackBlocks<8, false>(codes, blocks, out);
  }
}

void Indexed(const IndexedArgs& args) {
  const PackedLayout& l = *args.layout;
  const GroupParts parts = PartsOf(l);
  const uint8_t* scale_part = args.group + parts.scale;
  const uint8_t* min_part = args.group + parts.min;
  alignas(64) uint8_t codes[512];
  alignas(64) float w[32 * 16];
  for (int64_t b = 0; b < l.blocks; ++b) {
    Unpack(l.bits, false, args.group + parts.code + b * l.bits * 64, 1, codes);
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

constexpr KernelSet kSet = {Quantize, Expand, Unpack, FindFusedAvx512, FindTileAvx512, Indexed, {}};

}  // namespace

const KernelSet& KernelsAvx512() {
  return kSet;
}

}  // namespace ullage::quant
