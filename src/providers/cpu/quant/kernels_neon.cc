// The kernels for AArch64 with the dot-product instructions. One vector holds a quad of 4 rows; a group of 16
// rows is worked on in four quarters.
#include <arm_neon.h>

#include <cstdint>
#include <utility>

#include "core/block_format.h"
#include "providers/cpu/quant/kernels.h"

namespace ullage::quant {
namespace {

#define ULLAGE_INLINE __attribute__((always_inline)) inline

constexpr int64_t kRecord = 64;             // of one digit
constexpr int64_t kAhead = 1024;            // bytes between what is used and what is fetched
constexpr int32_t kMaxInt16 = 32639;        // 127 * (256 + 1)
constexpr int32_t kMaxInt24 = 8355711;      // 127 * (65536 + 256 + 1)
constexpr uint32_t kTinyBits = 0x0d800000;  // 2^-100
constexpr uint32_t kInfinityBits = 0x7f800000;

// Calls fn(integral_constant 0), …, fn(integral_constant kCount-1): lanes must be constants.
template <int kCount, class Fn>
ULLAGE_INLINE void Repeat(const Fn& fn) {
  [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
    (fn(std::integral_constant<int, i>{}), ...);
  }
  (std::make_integer_sequence<int, kCount>{});
}

ULLAGE_INLINE const ActivationBlock& RecordAt(const uint8_t* p) {
  return *reinterpret_cast<const ActivationBlock*>(p);
}

template <int kShift>  // to the right; negative: to the left
ULLAGE_INLINE uint8x16_t Shift(uint8x16_t v) {
  if constexpr (kShift > 0) return vshrq_n_u8(v, kShift);
  if constexpr (kShift < 0) return vshlq_n_u8(v, -kShift);
  return v;
}

// Quad q (elements 4q…4q+3) of a block as bytes, for rows 4*quarter…4*quarter+3.
template <int kBits, bool kIq4, int q>
ULLAGE_INLINE uint8x16_t UnpackQuad(const uint8_t* in, int quarter) {
  in += quarter * 16;
  if constexpr (kBits == 8) return vld1q_u8(in + q * 64);
  constexpr int kPairShift = kBits >= 4 ? 4 : 0, kBitShift = kPairShift + (kBits & 2);
  uint8x16_t u = vdupq_n_u8(0);
  if constexpr (kBits >= 4) {
    const uint8x16_t line = vld1q_u8(in + q % 4 * 64);
    u = q < 4 ? vandq_u8(line, vdupq_n_u8(15)) : vshrq_n_u8(line, 4);
    in += 256;
  }
  if constexpr ((kBits & 2) != 0) {
    const uint8x16_t line = Shift<q / 2 * 2 - kPairShift>(vld1q_u8(in + q % 2 * 64));
    u = vorrq_u8(u, vandq_u8(line, vdupq_n_u8(3 << kPairShift)));
    in += 128;
  }
  if constexpr ((kBits & 1) != 0)
    u = vorrq_u8(u, vandq_u8(Shift<q - kBitShift>(vld1q_u8(in)), vdupq_n_u8(1 << kBitShift)));
  if constexpr (kIq4) {
    static constexpr uint8_t kTable[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                           129, 141, 153, 166, 181, 197, 217, 241};
    u = vqtbl1q_u8(vld1q_u8(kTable), u);
  }
  return u;
}

template <int kDigits>
ULLAGE_INLINE float32x4_t JoinDigits(const int32x4_t* sums) {
  const float32x4_t first = vcvtq_f32_s32(sums[0]);
  if constexpr (kDigits == 1) {
    return first;
  } else if constexpr (kDigits == 2) {
    return vcvtq_f32_s32(vaddq_s32(vshlq_n_s32(sums[0], 8), sums[1]));
  } else {
    const int32x4_t low = vaddq_s32(vshlq_n_s32(sums[1], 8), sums[2]);
    return vfmaq_f32(vcvtq_f32_s32(low), first, vdupq_n_f32(65536.0f));
  }
}

// kPacked: codes are packed with kBits; otherwise bytes below 2^kBits.
template <int kBits, bool kIq4, bool kPacked, bool kHalf, bool kMin, int kDigits, int kTokens>
void Dot(const DotArgs& args) {
  constexpr int kParts = kHalf ? 2 : 1, kQuads = 8 / kParts;
  constexpr bool kWide =
      kIq4 || kBits == 8;  // codes above 127: 128 is taken off, as the instruction is signed
  constexpr int64_t kCodeBytes = kPacked ? kBits * 64 : 512;
  const uint8_t* codes = args.codes;
  const uint8_t* records = args.activations;
  const float* scales = args.scales;
  const float* mins = args.mins;
  // What minus the sum of the activations is multiplied with.
  const int32_t offset = (!kMin && args.offset_shift < 32 ? 1 << args.offset_shift : 0) - (kWide ? 128 : 0);
  float32x4_t acc[4][kTokens];
  for (int h = 0; h < 4; ++h)
    for (int t = 0; t < kTokens; ++t) acc[h][t] = vld1q_f32(args.acc + t * 16 + h * 4);
  for (int64_t b = 0; b < args.blocks; ++b) {
    if constexpr (kPacked)
      for (int i = 0; i < kBits; ++i) __builtin_prefetch(codes + kAhead + i * 64);
    Repeat<4>([&](auto quarter) __attribute__((always_inline)) {
      constexpr int h = quarter;
      Repeat<kParts>([&](auto part_index) __attribute__((always_inline)) {
        constexpr int part = part_index;
        int32x4_t sums[kTokens][kDigits];
        Repeat<kTokens * kDigits>([&](auto i) __attribute__((always_inline)) {
          const ActivationBlock& digit = RecordAt(records + i * kRecord);
          sums[i / kDigits][i % kDigits] =
              vdupq_n_s32(offset * (kHalf ? digit.minus_half[part] : digit.minus_sum));
        });
        Repeat<kQuads>([&](auto i) __attribute__((always_inline)) {
          constexpr int q = part * kQuads + i;
          uint8x16_t u;
          if constexpr (kPacked) {
            u = UnpackQuad<kBits, kIq4, q>(codes, h);
          } else {
            u = vld1q_u8(codes + q * 64 + h * 16);
          }
          if constexpr (kWide) u = veorq_u8(u, vdupq_n_u8(128));
          Repeat<kTokens * kDigits>([&](auto j) __attribute__((always_inline)) {
            const int8x16_t a = vld1q_s8(RecordAt(records + j * kRecord).q + q / 4 * 16);
            int32x4_t& sum = sums[j / kDigits][j % kDigits];
            sum = vdotq_laneq_s32(sum, vreinterpretq_s8_u8(u), a, q % 4);
          });
        });
        const float32x4_t scale = vld1q_f32(scales + part * 16 + h * 4);
        Repeat<kTokens>([&](auto t) __attribute__((always_inline)) {
          const ActivationBlock& a = RecordAt(records + t * kDigits * kRecord);
          acc[h][t] = vfmaq_f32(acc[h][t], JoinDigits<kDigits>(sums[t]), vmulq_n_f32(scale, a.scale));
          if constexpr (kMin)
            acc[h][t] = vfmaq_f32(acc[h][t], vld1q_f32(mins + part * 16 + h * 4),
                                  vdupq_n_f32(kHalf ? a.half_sum[part] : a.value_sum));
        });
      });
    });
    codes += kCodeBytes;
    records += args.block_stride;
    scales += kParts * 16;
    mins += kParts * 16;
  }
  for (int h = 0; h < 4; ++h)
    for (int t = 0; t < kTokens; ++t) vst1q_f32(args.acc + t * 16 + h * 4, acc[h][t]);
}

template <int kBits, bool kIq4, bool kHalf, bool kMin>
DotFn PickFused(int digits) {
  return digits == 3   ? Dot<kBits, kIq4, true, kHalf, kMin, 3, 1>
         : digits == 2 ? Dot<kBits, kIq4, true, kHalf, kMin, 2, 1>
                       : Dot<kBits, kIq4, true, kHalf, kMin, 1, 1>;
}

template <int kBits>
DotFn PickFused(const DotKind& kind) {
  if (kind.half)
    return kind.min ? PickFused<kBits, false, true, true>(kind.digits)
                    : PickFused<kBits, false, true, false>(kind.digits);
  return kind.min ? PickFused<kBits, false, false, true>(kind.digits)
                  : PickFused<kBits, false, false, false>(kind.digits);
}

DotFn FindFused(const DotKind& kind, int tokens) {
  if (tokens != 1) return nullptr;
  if (kind.iq4) return kind.half || kind.min ? nullptr : PickFused<4, true, false, false>(kind.digits);
  switch (kind.bits) {
    case 2:
      return PickFused<2>(kind);
    case 3:
      return kind.half && !kind.min ? PickFused<3, false, true, false>(kind.digits) : nullptr;
    case 4:
      return PickFused<4>(kind);
    case 5:
      if (kind.half) return nullptr;
      return kind.min ? PickFused<5, false, false, true>(kind.digits)
                      : PickFused<5, false, false, false>(kind.digits);
    case 6:
      return kind.half && !kind.min ? PickFused<6, false, true, false>(kind.digits) : nullptr;
    case 8:
      return PickFused<8>(kind);
    default:
      return nullptr;
  }
}

template <int kBits, int kDigits, int kTokens>
DotFn PickTile(const DotKind& kind) {
  if (kind.half)
    return kind.min ? Dot<kBits, false, false, true, true, kDigits, kTokens>
                    : Dot<kBits, false, false, true, false, kDigits, kTokens>;
  return kind.min ? Dot<kBits, false, false, false, true, kDigits, kTokens>
                  : Dot<kBits, false, false, false, false, kDigits, kTokens>;
}

template <int kBits>
DotFn PickTile(const DotKind& kind, int tokens) {
  if (kind.digits == 3) return tokens == 1 ? PickTile<kBits, 3, 1>(kind) : nullptr;
  if (kind.digits == 2)
    return tokens == 1 ? PickTile<kBits, 2, 1>(kind) : tokens == 2 ? PickTile<kBits, 2, 2>(kind) : nullptr;
  switch (tokens) {
    case 1:
      return PickTile<kBits, 1, 1>(kind);
    case 4:
      return PickTile<kBits, 1, 4>(kind);
    default:
      return nullptr;
  }
}

DotFn FindTile(const DotKind& kind, int tokens) {
  return kind.bits < 8 ? PickTile<6>(kind, tokens) : PickTile<8>(kind, tokens);
}

// Eight vectors of 4 values of a digit.
ULLAGE_INLINE void PutDigit(ActivationBlock* b, const int32x4_t* v) {
  int32x4_t s0 = v[0], s1 = v[4];
  for (int i = 0; i < 8; i += 4) {
    const int16x8_t low = vcombine_s16(vmovn_s32(v[i]), vmovn_s32(v[i + 1]));
    const int16x8_t high = vcombine_s16(vmovn_s32(v[i + 2]), vmovn_s32(v[i + 3]));
    vst1q_s8(b->q + i * 4, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
  }
  for (int i = 1; i < 4; ++i) {
    s0 = vaddq_s32(s0, v[i]);
    s1 = vaddq_s32(s1, v[4 + i]);
  }
  const int32_t sum0 = vaddvq_s32(s0), sum1 = vaddvq_s32(s1);
  b->minus_sum = -(sum0 + sum1);
  b->minus_half[0] = -sum0;
  b->minus_half[1] = -sum1;
  b->reserved = 0;
}

// Takes the lowest balanced digit off the values.
ULLAGE_INLINE void TakeDigit(int32x4_t* values, int32x4_t* digit) {
  for (int i = 0; i < 8; ++i) {
    digit[i] = vshrq_n_s32(vshlq_n_s32(values[i], 24), 24);
    values[i] = vshrq_n_s32(vsubq_s32(values[i], digit[i]), 8);
  }
}

void Quantize(Activations form, const float* a, int64_t count, void* record) {
  float padded[32] = {};
  if (count < 32) {
    for (int64_t i = 0; i < count; ++i) padded[i] = a[i];
    a = padded;
  }
  float32x4_t x[8];
  for (int i = 0; i < 8; ++i) x[i] = vld1q_f32(a + i * 4);
  if (form == Activations::kFloat) {
    for (int i = 0; i < 8; ++i) vst1q_f32(static_cast<float*>(record) + i * 4, x[i]);
    return;
  }
  const bool int8 = form == Activations::kInt8;
  uint32x4_t lanes = vdupq_n_u32(0);
  for (int i = 0; i < 8; ++i)
    lanes = vmaxq_u32(lanes, vandq_u32(vreinterpretq_u32_f32(x[i]), vdupq_n_u32(0x7fffffff)));
  const uint32_t bits = vmaxvq_u32(lanes);
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
  int32x4_t v[8];
  for (int i = 0; i < 8; ++i) {
    v[i] = vdupq_n_s32(0);
    if (inverse != 0)
      v[i] = vmaxq_s32(vdupq_n_s32(-limit),
                       vminq_s32(vdupq_n_s32(limit), vcvtnq_s32_f32(vmulq_n_f32(x[i], inverse))));
  }
  ActivationBlock* digits = static_cast<ActivationBlock*>(record);
  int32x4_t s0 = v[0], s1 = v[4];
  for (int i = 1; i < 4; ++i) {
    s0 = vaddq_s32(s0, v[i]);
    s1 = vaddq_s32(s1, v[4 + i]);
  }
  const int32_t h0 = vaddvq_s32(s0), h1 = vaddvq_s32(s1);
  for (int d = 0; d < (int8 ? 1 : int16 ? 2 : 3); ++d) {
    digits[d].scale = scale;
    digits[d].value_sum = scale * static_cast<float>(h0 + h1);
    digits[d].half_sum[0] = scale * static_cast<float>(h0);
    digits[d].half_sum[1] = scale * static_cast<float>(h1);
  }
  if (!int8) {
    int32x4_t digit[8];
    if (!int16) {
      TakeDigit(v, digit);
      PutDigit(&digits[2], digit);
    }
    TakeDigit(v, digit);
    PutDigit(&digits[1], digit);
  }
  PutDigit(&digits[0], v);
}

// 4 entries from entry 16 * j + 4 * quarter.
ULLAGE_INLINE float32x4_t HalfEntry(const uint8_t* part, int64_t j, int quarter) {
  float16x4_t h;
  __builtin_memcpy(&h, part + j * 32 + quarter * 8, sizeof h);
  return vcvt_f32_f16(h);
}

ULLAGE_INLINE float32x4_t FloatEntry(const uint8_t* part, int64_t j, int quarter) {
  float32x4_t f;
  __builtin_memcpy(&f, part + j * 64 + quarter * 16, sizeof f);
  return f;
}

ULLAGE_INLINE float32x4_t ByteEntry(const uint8_t* part, int64_t j, int quarter, bool is_signed) {
  uint32_t four;
  __builtin_memcpy(&four, part + j * 16 + quarter * 4, sizeof four);
  const uint8x8_t bytes = vcreate_u8(four);
  if (is_signed) return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(bytes)))));
  return vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes))));
}

ULLAGE_INLINE float32x4_t ScaleEntry(ScaleForm form, const uint8_t* scale, const uint8_t* super, int64_t j,
                                     int64_t s, int quarter) {
  switch (form) {
    case ScaleForm::kFloat32:
      return FloatEntry(scale, j, quarter);
    case ScaleForm::kBFloat16: {
      uint16x4_t bits;
      __builtin_memcpy(&bits, scale + j * 32 + quarter * 8, sizeof bits);
      return vreinterpretq_f32_u32(vshll_n_u16(bits, 16));
    }
    case ScaleForm::kSuper:
      return vmulq_f32(HalfEntry(super, s, quarter), ByteEntry(scale, j, quarter, true));
    default:
      return HalfEntry(scale, j, quarter);
  }
}

void Expand(const PackedLayout& l, const uint8_t* group, int64_t first, int64_t blocks, float* scales,
            float* mins) {
  const GroupParts parts = PartsOf(l);
  const int64_t per_block = l.span == 16 ? 2 : 1, step = kBlock / per_block;
  int64_t j = first * kBlock / l.span, end = (j + 1) * l.span;  // scale, and where its span ends
  int64_t element = first * kBlock;
  const uint8_t* min_part = group + parts.min;
  for (int64_t e = 0; e < blocks * per_block; ++e, element += step) {
    if (element >= end) {
      ++j;
      end += l.span;
    }
    for (int h = 0; h < 4; ++h) {
      const float32x4_t s =
          ScaleEntry(l.scale_form, group + parts.scale, group + parts.super_scale, j, element / 256, h);
      float* min_out = mins + e * 16 + h * 4;
      vst1q_f32(scales + e * 16 + h * 4, s);
      switch (l.min_form) {
        case MinForm::kOffset:
          break;
        case MinForm::kZeroPoint:
          vst1q_f32(min_out, vmulq_f32(vnegq_f32(s), ByteEntry(min_part, j, h, false)));
          break;
        case MinForm::kFloat16:
          vst1q_f32(min_out, HalfEntry(min_part, j, h));
          break;
        case MinForm::kFloat32:
          vst1q_f32(min_out, FloatEntry(min_part, j, h));
          break;
        case MinForm::kSuper:
          vst1q_f32(min_out, vmulq_f32(vnegq_f32(HalfEntry(group + parts.super_min, element / 256, h)),
                                       ByteEntry(min_part, j, h, false)));
          break;
      }
    }
  }
}

template <int kBits, bool kIq4>
void UnpackBlocks(const uint8_t* codes, int64_t blocks, uint8_t* out) {
  for (int64_t b = 0; b < blocks; ++b)
    for (int h = 0; h < 4; ++h)
      Repeat<8>([&](auto q) __attribute__((always_inline)) {
        vst1q_u8(out + b * 512 + q * 64 + h * 16, UnpackQuad<kBits, kIq4, q>(codes + b * kBits * 64, h));
      });
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
  uint8_t codes[512];
  float w[32 * 16];
  for (int64_t b = 0; b < l.blocks; ++b) {
    Unpack(l.bits, false, args.group + parts.code + b * l.bits * 64, 1, codes);
    for (int i = 0; i < 32; ++i) {
      const int64_t j = args.index[b * kBlock + i];
      for (int h = 0; h < 4; ++h) {
        const uint32x4_t quad = vreinterpretq_u32_u8(vld1q_u8(codes + i / 4 * 64 + h * 16));
        const uint32x4_t code = vandq_u32(vshlq_u32(quad, vdupq_n_s32(i % 4 * -8)), vdupq_n_u32(255));
        vst1q_f32(w + i * 16 + h * 4, vfmaq_f32(FloatEntry(args.group + parts.min, j, h), vcvtq_f32_u32(code),
                                                FloatEntry(args.group + parts.scale, j, h)));
      }
    }
    for (int64_t t = 0; t < args.tokens; ++t) {
      const float* a = args.activations + b * args.block_stride + t * kBlock;
      for (int h = 0; h < 4; ++h) {
        float32x4_t acc = vld1q_f32(args.acc + t * 16 + h * 4);
        for (int i = 0; i < 32; ++i) acc = vfmaq_n_f32(acc, vld1q_f32(w + i * 16 + h * 4), a[i]);
        vst1q_f32(args.acc + t * 16 + h * 4, acc);
      }
    }
  }
}

constexpr KernelSet kSet = {Quantize, Expand, Unpack, FindFused, FindTile, Indexed, {}};

}  // namespace

const KernelSet& KernelsNeon() {
  return kSet;
}

}  // namespace ullage::quant
