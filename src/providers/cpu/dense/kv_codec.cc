// Rows of integer caches to floats and back.
#include "providers/cpu/dense/kv_codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "providers/cpu/dense/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/dense/kv_codec.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "providers/cpu/dense/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ullage::dense {
namespace HWY_NAMESPACE {
namespace {

using D8 = hn::Rebind<int8_t, DF>;

/// out[i] = codes[i] * scale_of(i), where scale_of gives a vector of scales, or a number for one element.
template <class Vector, class Number>
HWY_INLINE void Scaled(const int8_t* codes, int64_t size, const Vector& scales, const Number& scale,
                       float* out) {
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    const VF x = hn::ConvertTo(DF(), hn::PromoteTo(DI(), hn::LoadU(D8(), codes + i)));
    hn::StoreU(hn::Mul(x, scales(i)), DF(), out + i);
  }
  for (; i < size; ++i) out[i] = static_cast<float>(codes[i]) * scale(i);
}

HWY_INLINE void OneScale(const int8_t* codes, int64_t size, float scale, float* out) {
  const VF all = Set(scale);
  Scaled(
      codes, size, [&](int64_t) HWY_ATTR { return all; }, [&](int64_t) HWY_ATTR { return scale; }, out);
}

void LoadRow(const KvCodec& c, int64_t head, const uint8_t* row, int64_t size, float* out) {
  if (c.block > 0) {
    const auto* codes = reinterpret_cast<const int8_t*>(row);
    for (int64_t first = 0, j = 0; first < size; first += c.block, ++j) {
      uint16_t scale;
      std::memcpy(&scale, row + size + 2 * j, sizeof scale);
      OneScale(codes + first, std::min(c.block, size - first), HalfToFloat(scale), out + first);
    }
    return;
  }
  constexpr int64_t kPart = 128;
  int8_t unpacked[kPart];
  const float* scales = c.scales + head * c.head_stride;
  for (int64_t first = 0; first < size; first += kPart) {
    const int64_t n = std::min(kPart, size - first);
    const auto* codes = reinterpret_cast<const int8_t*>(row) + first;
    if (c.bits == 4) {
      const uint8_t* bytes = row + first / 2;
      for (int64_t i = 0; i < n; ++i)
        unpacked[i] = static_cast<int8_t>((bytes[i / 2] >> (4 * (i % 2)) & 15) - 8);
      codes = unpacked;
    }
    if (c.element_stride == 0) {
      OneScale(codes, n, scales[0], out + first);
    } else {
      Scaled(
          codes, n, [&](int64_t i) HWY_ATTR { return hn::LoadU(DF(), scales + first + i); },
          [&](int64_t i) HWY_ATTR { return scales[first + i]; }, out + first);
    }
  }
}

}  // namespace

void LoadRows(const KvCodec& codec, int64_t head, const void* rows, int64_t pitch, int64_t count,
              int64_t size, float* out) {
  for (int64_t j = 0; j < count; ++j)
    LoadRow(codec, head, static_cast<const uint8_t*>(rows) + j * pitch, size, out + j * size);
}

}  // namespace HWY_NAMESPACE
}  // namespace ullage::dense
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ullage::dense {

HWY_EXPORT(LoadRows);
void LoadKvRows(const KvCodec& codec, int64_t head, const void* rows, int64_t pitch, int64_t count,
                int64_t size, float* out) {
  HWY_DYNAMIC_DISPATCH(LoadRows)(codec, head, rows, pitch, count, size, out);
}

namespace {

int Rounded(float x, float low, float high) {
  const float inside = !(x >= low) ? low : x > high ? high : x;
  return static_cast<int>(std::nearbyint(inside));
}

}  // namespace

float KvElement(const KvCodec& c, int64_t head, const void* row, int64_t size, int64_t i) {
  const auto* bytes = static_cast<const uint8_t*>(row);
  if (c.block > 0) {
    uint16_t scale;
    std::memcpy(&scale, bytes + size + 2 * (i / c.block), sizeof scale);
    return static_cast<float>(static_cast<int8_t>(bytes[i])) * HalfToFloat(scale);
  }
  const int code = c.bits == 4 ? (bytes[i / 2] >> (4 * (i % 2)) & 15) - 8 : static_cast<int8_t>(bytes[i]);
  return static_cast<float>(code) * c.scales[head * c.head_stride + i * c.element_stride];
}

void StoreKvRow(const KvCodec& c, int64_t head, const float* x, int64_t size, void* row) {
  auto* out = static_cast<uint8_t*>(row);
  if (c.block > 0) {
    constexpr float kMostScale = 65504;  // the largest float16
    for (int64_t first = 0, j = 0; first < size; first += c.block, ++j) {
      const int64_t last = std::min(size, first + c.block);
      float largest = 0;
      for (int64_t i = first; i < last; ++i) largest = std::max(largest, std::abs(x[i]));
      const uint16_t stored = FloatToHalf(std::min(largest / 127, kMostScale));
      const float scale = HalfToFloat(stored), inverse = scale > 0 ? 1 / scale : 0;
      std::memcpy(out + size + 2 * j, &stored, sizeof stored);
      for (int64_t i = first; i < last; ++i)
        out[i] = static_cast<uint8_t>(static_cast<int8_t>(Rounded(x[i] * inverse, -127, 127)));
    }
    return;
  }
  const float* scales = c.scales + head * c.head_stride;
  const auto code = [&](int64_t i, float low, float high) {
    const float scale = scales[i * c.element_stride];
    return scale == 0 ? 0 : Rounded(x[i] / scale, low, high);
  };
  if (c.bits == 8) {
    for (int64_t i = 0; i < size; ++i) out[i] = static_cast<uint8_t>(static_cast<int8_t>(code(i, -128, 127)));
    return;
  }
  for (int64_t i = 0; i < size; i += 2) {
    const int low = code(i, -8, 7) + 8, high = i + 1 < size ? code(i + 1, -8, 7) + 8 : 0;
    out[i / 2] = static_cast<uint8_t>(low | high << 4);
  }
}

}  // namespace ullage::dense
#endif
