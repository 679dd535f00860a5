// The kernels for AArch64 with the dot-product instructions. One vector holds a quad of 4 rows; a group of 16
// rows is worked on in four quarters.
#include <arm_neon.h>

#include <cstdint>
#include <utility>

#include "core/block_format.h"
#include "providers/cpu/quant/dispatch-inl.h"

namespace ullage::quant {
namespace {

#define ULLAGE_INLINE __attribute__((always_inline)) inline

constexpr int64_t kRecord = 64;   // of one digit
constexpr int64_t kAhead = 1024;  // bytes between what is used and what is fetched

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
ULLAGE_INLINE void Dot(const DotArgs& args) {
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

struct Loops {
  static constexpr Build kFused[] = {{1, 1}, {2, 1}, {3, 1}};
  static constexpr Build kTiles[] = {{1, 1}, {1, 4}, {2, 1}, {2, 2}, {3, 1}};
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
    for (int64_t b = 0; b < blocks; ++b)
      for (int h = 0; h < 4; ++h)
        Repeat<8>([&](auto q) __attribute__((always_inline)) {
          vst1q_u8(out + b * 512 + q * 64 + h * 16, UnpackQuad<kBits, kIq4, q>(codes + b * kBits * 64, h));
        });
  }
};

DotFn FindTile(const DotKind& kind, int tokens) {
  return kind.bits < 8 ? FindTile<Loops, 6>(kind, tokens) : FindTile<Loops, 8>(kind, tokens);
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
  const BlockScale block(form, bits);
  int32x4_t v[8];
  for (int i = 0; i < 8; ++i) {
    v[i] = vdupq_n_s32(0);
    if (block.inverse != 0)
      v[i] = vmaxq_s32(vdupq_n_s32(-block.limit),
                       vminq_s32(vdupq_n_s32(block.limit), vcvtnq_s32_f32(vmulq_n_f32(x[i], block.inverse))));
  }
  ActivationBlock* digits = static_cast<ActivationBlock*>(record);
  int32x4_t s0 = v[0], s1 = v[4];
  for (int i = 1; i < 4; ++i) {
    s0 = vaddq_s32(s0, v[i]);
    s1 = vaddq_s32(s1, v[4 + i]);
  }
  const int32_t h0 = vaddvq_s32(s0), h1 = vaddvq_s32(s1);
  PutScale(digits, form, block.scale, h0, h1);
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

// Rows 4*h…4*h+3 of an entry.
struct Lanes {
  static constexpr int kLanes = 4;
  using Vector = float32x4_t;
  static ULLAGE_INLINE float32x4_t Zero() { return vdupq_n_f32(0); }
  static ULLAGE_INLINE float32x4_t Negated(float32x4_t x) { return vnegq_f32(x); }
  static ULLAGE_INLINE float32x4_t Product(float32x4_t a, float32x4_t b) { return vmulq_f32(a, b); }
  static ULLAGE_INLINE void Store(float* to, float32x4_t x) { vst1q_f32(to, x); }
  static ULLAGE_INLINE uint8x8_t Bytes(const uint8_t* part, int64_t j, int h) {
    uint32_t four;
    __builtin_memcpy(&four, part + j * 16 + h * 4, sizeof four);
    return vcreate_u8(four);
  }
  static ULLAGE_INLINE float32x4_t Half(const uint8_t* part, int64_t j, int h) {
    float16x4_t v;
    __builtin_memcpy(&v, part + j * 32 + h * 8, sizeof v);
    return vcvt_f32_f16(v);
  }
  static ULLAGE_INLINE float32x4_t BFloat(const uint8_t* part, int64_t j, int h) {
    uint16x4_t v;
    __builtin_memcpy(&v, part + j * 32 + h * 8, sizeof v);
    return vreinterpretq_f32_u32(vshll_n_u16(v, 16));
  }
  static ULLAGE_INLINE float32x4_t Float(const uint8_t* part, int64_t j, int h) {
    float32x4_t v;
    __builtin_memcpy(&v, part + j * 64 + h * 16, sizeof v);
    return v;
  }
  static ULLAGE_INLINE float32x4_t Signed(const uint8_t* part, int64_t j, int h) {
    const int8x8_t bytes = vreinterpret_s8_u8(Bytes(part, j, h));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))));
  }
  static ULLAGE_INLINE float32x4_t Unsigned(const uint8_t* part, int64_t j, int h) {
    return vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(Bytes(part, j, h)))));
  }
};

void Indexed(const IndexedArgs& args) {
  const PackedLayout& l = *args.layout;
  const GroupParts parts = PartsOf(l);
  uint8_t codes[512];
  float w[32 * 16];
  for (int64_t b = 0; b < l.blocks; ++b) {
    Unpack<Loops>(l.bits, false, args.group + parts.code + b * l.bits * 64, 1, codes);
    for (int i = 0; i < 32; ++i) {
      const int64_t j = args.index[b * kBlock + i];
      for (int h = 0; h < 4; ++h) {
        const uint32x4_t quad = vreinterpretq_u32_u8(vld1q_u8(codes + i / 4 * 64 + h * 16));
        const uint32x4_t code = vandq_u32(vshlq_u32(quad, vdupq_n_s32(i % 4 * -8)), vdupq_n_u32(255));
        vst1q_f32(w + i * 16 + h * 4,
                  vfmaq_f32(Lanes::Float(args.group + parts.min, j, h), vcvtq_f32_u32(code),
                            Lanes::Float(args.group + parts.scale, j, h)));
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

constexpr KernelSet kSet = {Quantize, Expand<Lanes>, Unpack<Loops>, FindFused<Loops>, FindTile, Indexed, {}};

}  // namespace

const KernelSet& KernelsNeon() {
  return kSet;
}

}  // namespace ullage::quant
