// The second part of avx2-inl.h: everything besides the products.
namespace ullage::quant {
namespace {

ULLAGE_INLINE int32_t SumLanes(__m256i v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
  return _mm_cvtsi128_si32(s);
}

ULLAGE_INLINE int32_t MaxLane(__m256i v) {
  __m128i s = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_max_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  s = _mm_max_epi32(s, _mm_shuffle_epi32(s, 0xb1));
  return _mm_cvtsi128_si32(s);
}

// 32 values of a digit, 8 to a vector.
ULLAGE_INLINE void PutDigit(ActivationBlock* b, const __m256i* v) {
  const __m256i words = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
  Store(b->q, _mm256_permutevar8x32_epi32(words, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
  const int32_t s0 = SumLanes(_mm256_add_epi32(v[0], v[1])), s1 = SumLanes(_mm256_add_epi32(v[2], v[3]));
  b->minus_sum = -(s0 + s1);
  b->minus_half[0] = -s0;
  b->minus_half[1] = -s1;
  b->reserved = 0;
}

// Takes the lowest balanced digit off the values.
ULLAGE_INLINE void TakeDigit(__m256i* values, __m256i* digit) {
  for (int i = 0; i < 4; ++i) {
    digit[i] = _mm256_srai_epi32(_mm256_slli_epi32(values[i], 24), 24);
    values[i] = _mm256_srai_epi32(_mm256_sub_epi32(values[i], digit[i]), 8);
  }
}

void Quantize(Activations form, const float* a, int64_t count, void* record) {
  alignas(32) float padded[32] = {};
  if (count < 32) {
    for (int64_t i = 0; i < count; ++i) padded[i] = a[i];
    a = padded;
  }
  __m256 x[4];
  for (int i = 0; i < 4; ++i) x[i] = _mm256_loadu_ps(a + i * 8);
  if (form == Activations::kFloat) {
    for (int i = 0; i < 4; ++i) _mm256_storeu_ps(static_cast<float*>(record) + i * 8, x[i]);
    return;
  }
  const bool int8 = form == Activations::kInt8;
  __m256i largest_lanes = _mm256_setzero_si256();
  for (int i = 0; i < 4; ++i)
    largest_lanes = _mm256_max_epi32(
        largest_lanes, _mm256_and_si256(_mm256_castps_si256(x[i]), _mm256_set1_epi32(0x7fffffff)));
  const uint32_t bits = static_cast<uint32_t>(MaxLane(largest_lanes));
  const bool int16 = form == Activations::kInt16;
  const BlockScale block(form, bits);
  __m256i v[4];
  const __m256 factor = _mm256_set1_ps(block.inverse);
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_setzero_si256();
    if (block.inverse != 0)
      v[i] = _mm256_max_epi32(
          _mm256_set1_epi32(-block.limit),
          _mm256_min_epi32(_mm256_set1_epi32(block.limit), _mm256_cvtps_epi32(_mm256_mul_ps(x[i], factor))));
  }
  ActivationBlock* digits = static_cast<ActivationBlock*>(record);
  const int32_t h0 = SumLanes(_mm256_add_epi32(v[0], v[1])), h1 = SumLanes(_mm256_add_epi32(v[2], v[3]));
  PutScale(digits, form, block.scale, h0, h1);
  if (!int8) {
    __m256i digit[4];
    if (!int16) {
      TakeDigit(v, digit);
      PutDigit(&digits[2], digit);
    }
    TakeDigit(v, digit);
    PutDigit(&digits[1], digit);
  }
  PutDigit(&digits[0], v);
}

// Rows 8*h…8*h+7 of an entry.
struct Lanes {
  static constexpr int kLanes = 8;
  using Vector = __m256;
  static ULLAGE_INLINE __m256 Zero() { return _mm256_setzero_ps(); }
  static ULLAGE_INLINE __m256 Negated(__m256 x) { return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f)); }
  static ULLAGE_INLINE __m256 Product(__m256 a, __m256 b) { return _mm256_mul_ps(a, b); }
  static ULLAGE_INLINE void Store(float* to, __m256 x) { _mm256_storeu_ps(to, x); }
  static ULLAGE_INLINE __m128i Words(const uint8_t* part, int64_t j, int h) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(part + j * 32 + h * 16));
  }
  static ULLAGE_INLINE __m128i Bytes(const uint8_t* part, int64_t j, int h) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(part + j * 16 + h * 8));
  }
  static ULLAGE_INLINE __m256 Half(const uint8_t* part, int64_t j, int h) {
    return _mm256_cvtph_ps(Words(part, j, h));
  }
  static ULLAGE_INLINE __m256 BFloat(const uint8_t* part, int64_t j, int h) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(Words(part, j, h)), 16));
  }
  static ULLAGE_INLINE __m256 Float(const uint8_t* part, int64_t j, int h) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(part + j * 64 + h * 32));
  }
  static ULLAGE_INLINE __m256 Signed(const uint8_t* part, int64_t j, int h) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(Bytes(part, j, h)));
  }
  static ULLAGE_INLINE __m256 Unsigned(const uint8_t* part, int64_t j, int h) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(Bytes(part, j, h)));
  }
};

void Indexed(const IndexedArgs& args) {
  const PackedLayout& l = *args.layout;
  const GroupParts parts = PartsOf(l);
  alignas(32) uint8_t codes[512];
  alignas(32) float w[32 * 16];
  for (int64_t b = 0; b < l.blocks; ++b) {
    Unpack<Loops>(l.bits, false, args.group + parts.code + b * l.bits * 64, 1, codes);
    for (int i = 0; i < 32; ++i) {
      const int64_t j = args.index[b * kBlock + i];
      for (int h = 0; h < 2; ++h) {
        const __m256i quad = Load(codes + i / 4 * 64 + h * 32);
        const __m256i code =
            _mm256_and_si256(_mm256_srlv_epi32(quad, _mm256_set1_epi32(i % 4 * 8)), _mm256_set1_epi32(255));
        _mm256_store_ps(w + i * 16 + h * 8, _mm256_fmadd_ps(_mm256_cvtepi32_ps(code),
                                                            Lanes::Float(args.group + parts.scale, j, h),
                                                            Lanes::Float(args.group + parts.min, j, h)));
      }
    }
    for (int64_t t = 0; t < args.tokens; ++t) {
      const float* a = args.activations + b * args.block_stride + t * kBlock;
      __m256 acc0 = _mm256_loadu_ps(args.acc + t * 16), acc1 = _mm256_loadu_ps(args.acc + t * 16 + 8);
      for (int i = 0; i < 32; ++i) {
        const __m256 x = _mm256_set1_ps(a[i]);
        acc0 = _mm256_fmadd_ps(_mm256_load_ps(w + i * 16), x, acc0);
        acc1 = _mm256_fmadd_ps(_mm256_load_ps(w + i * 16 + 8), x, acc1);
      }
      _mm256_storeu_ps(args.acc + t * 16, acc0);
      _mm256_storeu_ps(args.acc + t * 16 + 8, acc1);
    }
  }
}

constexpr KernelSet kSet = {Quantize, Expand<Lanes>, Unpack<Loops>, FindFused<Loops>, FindTile, Indexed, {}};

}  // namespace
}  // namespace ullage::quant
