/// Random quantised weights for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/block_format.h"
#include "core/checked.h"
#include "core/gguf_block.h"
#include "core/half.h"

namespace ullage::quant {

/// A weight that owns its parts.
struct TestWeight {
  BlockFormat format;
  int64_t n = 0, k = 0;
  std::vector<std::byte> data, scales, zero_points, g_idx;

  BlockWeightView view() const { return {format, n, k, data, scales, zero_points, g_idx}; }
  /// [n][k], by the reference decoder.
  std::vector<float> Dequantized() const {
    std::vector<float> w(static_cast<size_t>(n * k));
    DequantizeRows(view(), 0, n, w.data(), k);
    return w;
  }
};

inline void PutHalf(std::byte* p, float value) {
  const uint16_t bits = FloatToHalf(value);
  std::memcpy(p, &bits, sizeof bits);
}

inline std::vector<size_t> HalfOffsets(GgufType type) {
  switch (type) {
    case GgufType::kQ4_1:
    case GgufType::kQ5_1:
    case GgufType::kQ4_K:
    case GgufType::kQ5_K:
      return {0, 2};
    case GgufType::kQ2_K:
      return {80, 82};
    case GgufType::kQ3_K:
      return {108};
    case GgufType::kQ6_K:
      return {208};
    default:
      return {0};
  }
}

inline TestWeight RandomWeight(const BlockFormat& format, int64_t n, int64_t k, uint32_t seed,
                               bool with_g_idx = false) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0, 0.02f);
  const auto fill = [&](std::vector<std::byte>& v, size_t bytes) {
    v.resize(bytes);
    for (std::byte& b : v) b = static_cast<std::byte>(rng() & 255);
  };
  const auto fill_floats = [&](std::vector<std::byte>& v, size_t bytes, float factor) {
    v.resize(bytes);
    const size_t each = format.scale_dtype == DType::kFloat ? 4 : 2;
    for (size_t i = 0; i < bytes; i += each) {
      const float value = normal(rng) * factor;
      if (each == 4) {
        std::memcpy(v.data() + i, &value, 4);
      } else {
        const uint16_t bits =
            format.scale_dtype == DType::kFloat16 ? FloatToHalf(value) : FloatToBFloat16(value);
        std::memcpy(v.data() + i, &bits, 2);
      }
    }
  };
  TestWeight w;
  w.format = format;
  w.n = n;
  w.k = k;
  fill(w.data, format.DataBytes(n, k));
  if (format.kind == BlockKind::kGguf) {
    const GgufTraits& t = TraitsOf(format.gguf);
    for (size_t block = 0; block < w.data.size(); block += static_cast<size_t>(t.bytes))
      for (size_t offset : HalfOffsets(format.gguf)) PutHalf(w.data.data() + block + offset, normal(rng));
    return w;
  }
  fill_floats(w.scales, format.ScaleBytes(n, k), 1);
  if (format.zero_point == ZeroPoint::kPacked) fill(w.zero_points, format.ZeroPointBytes(n, k));
  if (format.zero_point == ZeroPoint::kFloat) fill_floats(w.zero_points, format.ZeroPointBytes(n, k), 400);
  if (with_g_idx) {
    w.g_idx.resize(static_cast<size_t>(k) * 4);
    for (int64_t i = 0; i < k; ++i) {
      const int32_t block = static_cast<int32_t>(rng() % static_cast<uint32_t>(format.Blocks(k)));
      std::memcpy(w.g_idx.data() + i * 4, &block, 4);
    }
  }
  return w;
}

struct FormatCase {
  std::string name;
  BlockFormat format;
  int64_t k_step = 1;  ///< K must be a multiple
  bool g_idx = false;
};

/// Every format, with each kind of scale and zero point.
inline std::vector<FormatCase> AllFormats() {
  std::vector<FormatCase> cases;
  for (GgufType type : {GgufType::kQ4_0, GgufType::kQ4_1, GgufType::kQ5_0, GgufType::kQ5_1, GgufType::kQ8_0,
                        GgufType::kQ2_K, GgufType::kQ3_K, GgufType::kQ4_K, GgufType::kQ5_K, GgufType::kQ6_K,
                        GgufType::kIQ4_NL, GgufType::kIQ4_XS})
    cases.push_back({TraitsOf(type).name, BlockFormat::Gguf(type), TraitsOf(type).elements});
  const auto add = [&](const BlockFormat& f, bool g_idx = false) {
    cases.push_back({f.Name() + (g_idx ? ", group index" : ""), f, 1, g_idx});
  };
  for (int bits : {2, 4, 8})
    for (int64_t block : {16, 32, 64, 128, 256})
      add(BlockFormat::NBits(bits, block, block == 64 ? DType::kFloat16 : DType::kFloat,
                             block == 128 ? ZeroPoint::kPacked : ZeroPoint::kMiddle));
  for (int bits : {2, 4, 8}) add(BlockFormat::NBits(bits, 16, DType::kFloat16, ZeroPoint::kPacked));
  add(BlockFormat::NBits(4, 32, DType::kBFloat16, ZeroPoint::kPacked));
  add(BlockFormat::NBits(4, 32, DType::kFloat16, ZeroPoint::kFloat));
  add(BlockFormat::NBits(4, 32, DType::kFloat, ZeroPoint::kFloat));
  add(BlockFormat::NBits(4, 32, DType::kFloat, ZeroPoint::kPacked), true);
  add(BlockFormat::NBits(8, 16, DType::kFloat, ZeroPoint::kMiddle), true);
  for (bool k_first : {false, true}) {
    add(BlockFormat::Qdq(DType::kInt4, k_first, 32, DType::kFloat, true));
    add(BlockFormat::Qdq(DType::kUInt4, k_first, 32, DType::kFloat16, false));
    add(BlockFormat::Qdq(DType::kInt8, k_first, 0, DType::kFloat, false));
    add(BlockFormat::Qdq(DType::kUInt8, k_first, 0, DType::kFloat, true));
    add(BlockFormat::Qdq(DType::kInt4, k_first, 24, DType::kFloat, true));  // 32 does not divide it
    BlockFormat tensor = BlockFormat::Qdq(DType::kUInt8, k_first, 0, DType::kFloat, true);
    tensor.per_tensor = true;
    add(tensor);
  }
  return cases;
}

/// Sizes that are no multiples of anything: {n, k}, k rounded up to the case's step.
inline std::vector<std::pair<int64_t, int64_t>> OddSizes(const FormatCase& c) {
  std::vector<std::pair<int64_t, int64_t>> sizes;
  for (auto [n, k] : {std::pair<int64_t, int64_t>{1, 1}, {16, 32}, {17, 20}, {37, 100}, {35, 2100}})
    sizes.emplace_back(n, AlignUp(k, c.k_step));
  return sizes;
}

}  // namespace ullage::quant
