// The portable kernels, which also define what the others compute.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/block_format.h"
#include "core/half.h"
#include "providers/cpu/quant/dispatch-inl.h"

namespace ullage::quant {
namespace {

void SumDigits(const int32_t* values, ActivationBlock* digits, int count, float scale) {
  int32_t halves[2] = {};
  for (int i = 0; i < 32; ++i) halves[i / 16] += values[i];
  for (int d = 0; d < count; ++d) {
    ActivationBlock& b = digits[d];
    int32_t sums[2] = {};
    for (int i = 0; i < 32; ++i) sums[i / 16] += b.q[i];
    b.scale = scale;
    b.value_sum = scale * static_cast<float>(halves[0] + halves[1]);
    b.half_sum[0] = scale * static_cast<float>(halves[0]);
    b.half_sum[1] = scale * static_cast<float>(halves[1]);
    b.minus_sum = -(sums[0] + sums[1]);
    b.minus_half[0] = -sums[0];
    b.minus_half[1] = -sums[1];
    b.reserved = 0;
  }
}

void Quantize(Activations form, const float* a, int64_t count, void* record) {
  if (form == Activations::kFloat) {
    float* out = static_cast<float*>(record);
    for (int64_t i = 0; i < kBlock; ++i) out[i] = i < count ? a[i] : 0.0f;
    return;
  }
  uint32_t largest_bits = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(a[i]) & 0x7fffffffu;
    if (bits > largest_bits) largest_bits = bits;
  }
  const int32_t limit = form == Activations::kInt8    ? 127
                        : form == Activations::kInt16 ? kMaxInt16
                                                      : kMaxInt24;
  const float largest = std::bit_cast<float>(largest_bits);
  int32_t values[32] = {};
  float scale = 0;
  if (largest_bits >= kInfinityBits) {
    scale = std::numeric_limits<float>::quiet_NaN();
  } else if (largest_bits >= kTinyBits) {
    scale = largest / static_cast<float>(limit);
    const float inverse = static_cast<float>(limit) / largest;
    for (int64_t i = 0; i < count; ++i) {
      const int32_t v = static_cast<int32_t>(std::nearbyint(a[i] * inverse));
      values[i] = v > limit ? limit : v < -limit ? -limit : v;
    }
  }
  ActivationBlock* digits = static_cast<ActivationBlock*>(record);
  if (form == Activations::kInt8) {
    for (int i = 0; i < 32; ++i) digits[0].q[i] = static_cast<int8_t>(values[i]);
    SumDigits(values, digits, 1, scale);
    return;
  }
  if (form == Activations::kInt16) {
    for (int i = 0; i < 32; ++i) {
      const int8_t low = static_cast<int8_t>(values[i] & 255);
      digits[1].q[i] = low;
      digits[0].q[i] = static_cast<int8_t>((values[i] - low) / 256);
    }
    SumDigits(values, digits, 2, scale);
    return;
  }
  for (int i = 0; i < 32; ++i) {
    const int8_t low = static_cast<int8_t>(values[i] & 255);
    const int32_t rest = (values[i] - low) / 256;
    const int8_t middle = static_cast<int8_t>(rest & 255);
    digits[2].q[i] = low;
    digits[1].q[i] = middle;
    digits[0].q[i] = static_cast<int8_t>((rest - middle) / 256);
  }
  SumDigits(values, digits, 3, scale);
}

float Half(const uint8_t* part, int64_t i) {
  uint16_t bits;
  std::memcpy(&bits, part + i * 2, sizeof bits);
  return HalfToFloat(bits);
}

float Float(const uint8_t* part, int64_t i) {
  float value;
  std::memcpy(&value, part + i * 4, sizeof value);
  return value;
}

float BFloat(const uint8_t* part, int64_t i) {
  uint16_t bits;
  std::memcpy(&bits, part + i * 2, sizeof bits);
  return BFloat16ToFloat(bits);
}

void Expand(const PackedLayout& l, const uint8_t* group, int64_t first, int64_t blocks, float* scales,
            float* mins) {
  const GroupParts parts = PartsOf(l);
  const int64_t per_block = l.span == 16 ? 2 : 1;
  for (int64_t e = 0; e < blocks * per_block; ++e) {
    const int64_t element = first * kBlock + e * (kBlock / per_block);
    const int64_t j = element / l.span, super = element / 256;
    for (int r = 0; r < 16; ++r) {
      const int64_t i = j * 16 + r;
      float s = 0, m = 0;
      switch (l.scale_form) {
        case ScaleForm::kFloat16:
        case ScaleForm::kFloat16Row:
          s = Half(group + parts.scale, i);
          break;
        case ScaleForm::kBFloat16:
          s = BFloat(group + parts.scale, i);
          break;
        case ScaleForm::kFloat32:
          s = Float(group + parts.scale, i);
          break;
        case ScaleForm::kSuper:
          s = Half(group + parts.super_scale, super * 16 + r) *
              static_cast<float>(static_cast<int8_t>(group[parts.scale + static_cast<size_t>(i)]));
          break;
      }
      switch (l.min_form) {
        case MinForm::kOffset:
          break;
        case MinForm::kZeroPoint:
          m = -s * static_cast<float>(group[parts.min + static_cast<size_t>(i)]);
          break;
        case MinForm::kFloat16:
          m = Half(group + parts.min, i);
          break;
        case MinForm::kFloat32:
          m = Float(group + parts.min, i);
          break;
        case MinForm::kSuper:
          m = -Half(group + parts.super_min, super * 16 + r) *
              static_cast<float>(group[parts.min + static_cast<size_t>(i)]);
          break;
      }
      scales[e * 16 + r] = s;
      if (l.min_form != MinForm::kOffset) mins[e * 16 + r] = m;
    }
  }
}

void UnpackBlock(int bits, const uint8_t* in, uint8_t* out) {
  for (int i = 0; i < 512; ++i) {
    const int q = i / 64, byte = i % 64;
    const uint8_t* plane = in;
    int code = 0, shift = 0;
    if (bits == 8) {
      code = in[i];
    } else {
      if (bits >= 4) {
        code = plane[q % 4 * 64 + byte] >> (q / 4 * 4) & 15;
        plane += 256;
        shift = 4;
      }
      if (bits & 2) {
        code |= (plane[q % 2 * 64 + byte] >> (q / 2 * 2) & 3) << shift;
        plane += 128;
        shift += 2;
      }
      if (bits & 1) code |= (plane[byte] >> q & 1) << shift;
    }
    out[i] = static_cast<uint8_t>(code);
  }
}

void Unpack(int bits, bool iq4, const uint8_t* codes, int64_t blocks, uint8_t* out) {
  for (int64_t b = 0; b < blocks; ++b) {
    UnpackBlock(bits, codes + b * static_cast<int64_t>(CodeBlockBytes(bits)), out + b * 512);
    if (iq4)
      for (int i = 0; i < 512; ++i)
        out[b * 512 + i] = static_cast<uint8_t>(kIq4Values[out[b * 512 + i]] + 128);
  }
}

int32_t DotInteger(const uint8_t* codes, const ActivationBlock& a, int row, int first, int last) {
  int32_t sum = 0;
  for (int k = first; k < last; ++k) sum += codes[k / 4 * 64 + row * 4 + k % 4] * a.q[k];
  return sum;
}

struct Loops {
  static constexpr Build kTiles[] = {{1, 1}, {2, 1}, {3, 1}};
  template <int, bool kHalf, bool kMin, int kDigits, int>
  static void Tile(const DotArgs& args);
};

template <int, bool kHalf, bool kMin, int kDigits, int>
void Loops::Tile(const DotArgs& args) {
  constexpr int kParts = kHalf ? 2 : 1, kElements = 32 / kParts;
  for (int64_t b = 0; b < args.blocks; ++b) {
    const uint8_t* codes = args.codes + b * 512;
    const ActivationBlock* digits =
        reinterpret_cast<const ActivationBlock*>(args.activations + b * args.block_stride);
    for (int part = 0; part < kParts; ++part) {
      for (int r = 0; r < 16; ++r) {
        const int64_t e = (b * kParts + part) * 16 + r;
        int32_t value[3] = {};
        for (int d = 0; d < kDigits; ++d) {
          const int32_t minus_sum = kHalf ? digits[d].minus_half[part] : digits[d].minus_sum;
          const int32_t offset = !kMin && args.offset_shift < 32 ? minus_sum * (1 << args.offset_shift) : 0;
          value[d] = DotInteger(codes, digits[d], r, part * kElements, (part + 1) * kElements) + offset;
        }
        float x = static_cast<float>(kDigits == 2 ? value[0] * 256 + value[1] : value[0]);
        if (kDigits == 3) x = std::fma(x, 65536.0f, static_cast<float>(value[1] * 256 + value[2]));
        float acc = std::fma(x, args.scales[e] * digits[0].scale, args.acc[r]);
        if (kMin) acc = std::fma(args.mins[e], kHalf ? digits[0].half_sum[part] : digits[0].value_sum, acc);
        args.acc[r] = acc;
      }
    }
  }
}

void Indexed(const IndexedArgs& args) {
  const PackedLayout& l = *args.layout;
  const GroupParts parts = PartsOf(l);
  uint8_t codes[512];
  for (int64_t b = 0; b < l.blocks; ++b) {
    UnpackBlock(l.bits, args.group + parts.code + b * static_cast<int64_t>(CodeBlockBytes(l.bits)), codes);
    for (int64_t t = 0; t < args.tokens; ++t) {
      const float* a = args.activations + b * args.block_stride + t * kBlock;
      float* acc = args.acc + t * 16;
      for (int i = 0; i < 32; ++i) {
        const int64_t e = int64_t{args.index[b * kBlock + i]} * 16;
        for (int r = 0; r < 16; ++r) {
          const float code = codes[i / 4 * 64 + r * 4 + i % 4];
          const float w =
              std::fma(code, Float(args.group + parts.scale, e + r), Float(args.group + parts.min, e + r));
          acc[r] = std::fma(w, a[i], acc[r]);
        }
      }
    }
  }
}

}  // namespace

const KernelSet& KernelsScalar() {
  static constexpr KernelSet kSet = {
      Quantize,           Expand,  Unpack, [](const DotKind&, int) -> DotFn { return nullptr; },
      FindTile<Loops, 8>, Indexed, {}};
  return kSet;
}

}  // namespace ullage::quant
