#include "core/block_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "core/gguf_block.h"
#include "core/half.h"
#include "ullage/error.h"

namespace ullage {
namespace {

std::vector<std::byte> FromHex(const std::string& hex) {
  std::vector<std::byte> out(hex.size() / 2);
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::byte>(std::stoi(hex.substr(i * 2, 2), nullptr, 16));
  return out;
}

template <class T>
std::vector<std::byte> BytesOfValues(const std::vector<T>& values) {
  std::vector<std::byte> out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

const std::vector<GgufType> kAllTypes = {
    GgufType::kQ4_0, GgufType::kQ4_1, GgufType::kQ5_0, GgufType::kQ5_1, GgufType::kQ8_0,   GgufType::kQ2_K,
    GgufType::kQ3_K, GgufType::kQ4_K, GgufType::kQ5_K, GgufType::kQ6_K, GgufType::kIQ4_NL, GgufType::kIQ4_XS};

TEST(BlockFormat, GgufRowsEqualThoseOfThePythonPackage) {
  std::ifstream file(ULLAGE_SOURCE_DIR "/src/core/testdata/gguf_vectors.txt");
  ASSERT_TRUE(file);
  size_t types = 0;
  std::string name, block_hex, value_hex;
  int64_t rows = 0, elements = 0;
  while (file >> name >> rows >> elements >> block_hex >> value_hex) {
    SCOPED_TRACE(name);
    const auto type = std::find_if(kAllTypes.begin(), kAllTypes.end(),
                                   [&](GgufType t) { return TraitsOf(t).name == name; });
    ASSERT_NE(type, kAllTypes.end());
    const std::vector<std::byte> data = FromHex(block_hex), values = FromHex(value_hex);
    BlockWeightView view;
    view.format = BlockFormat::Gguf(*type);
    view.n = rows;
    view.k = elements;
    view.data = data;
    EXPECT_EQ(view.format.DataBytes(rows, elements), data.size());
    CheckView(view);
    std::vector<float> out(static_cast<size_t>(rows * elements));
    DequantizeRows(view, 0, rows, out.data(), elements);
    for (size_t i = 0; i < out.size(); ++i) {
      float expected;
      std::memcpy(&expected, values.data() + i * 4, 4);
      ASSERT_EQ(out[i], expected) << "element " << i;
    }
    ++types;
  }
  EXPECT_EQ(types, kAllTypes.size());
}

TEST(BlockFormat, MatMulNBitsByHand) {
  const std::vector<std::byte> data = FromHex(
      "1032547698badcfe1032000000000000"
      "436587a9cbed0f214365000000000000");
  const auto scales = BytesOfValues<float>({1, 0.5f, -2, 0.25f});
  const std::vector<std::byte> zero_points = FromHex("7819");
  BlockWeightView view;
  view.format = BlockFormat::NBits(4, 16, DType::kFloat, ZeroPoint::kMiddle);
  view.n = 2;
  view.k = 20;
  view.data = data;
  view.scales = scales;
  CheckView(view);
  for (bool with_zero_points : {false, true}) {
    if (with_zero_points) {
      view.format.zero_point = ZeroPoint::kPacked;
      view.zero_points = zero_points;
      CheckView(view);
    }
    float sums[2] = {};
    for (int n = 0; n < 2; ++n) {
      float w[20];
      DequantizeRow(view, n, w);
      const float s[2][2] = {{1, 0.5f}, {-2, 0.25f}};
      const int z[2][2] = {{8, 7}, {9, 1}};
      for (int k = 0; k < 20; ++k) {
        const int q = (k + 3 * n) % 16;
        EXPECT_EQ(w[k], static_cast<float>(q - (with_zero_points ? z[n][k / 16] : 8)) * s[n][k / 16]);
        sums[n] += w[k] * static_cast<float>(k);
      }
    }
    EXPECT_EQ(sums[0], with_zero_points ? 90.0f : 55.0f);
    EXPECT_EQ(sums[1], with_zero_points ? 366.5f : 4.0f);
  }
}

TEST(BlockFormat, GatherBlockQuantizedByHand) {
  const std::vector<std::byte> data = FromHex(
      "1032547698badcfe1032000000000000"
      "436587a9cbed0f214365000000000000");
  const auto scales = BytesOfValues<float>({1, 0.5f, -2, 0.25f});
  BlockWeightView view;
  view.format = BlockFormat::Qdq(DType::kUInt4, false, 16, DType::kFloat, false);
  view.format.zero_point = ZeroPoint::kMiddle;
  view.n = 2;
  view.k = 32;
  view.data = data;
  view.scales = scales;
  CheckView(view);
  float w[32];
  DequantizeRow(view, 1, w);
  EXPECT_EQ(w[0], 10);
  EXPECT_EQ(w[1], 8);
  EXPECT_EQ(w[2], 6);
  EXPECT_EQ(w[3], 4);
}

// W[n][k] of an int4 DequantizeLinear, computed from unpacked integers.
TEST(BlockFormat, QdqInBothOrders) {
  constexpr int64_t n = 5, k = 21, block = 8, blocks = 3;
  for (const bool k_first : {false, true}) {
    for (const bool is_signed : {false, true}) {
      SCOPED_TRACE(testing::Message() << "k first " << k_first << " signed " << is_signed);
      const auto at = [&](int64_t row, int64_t column) {
        return k_first ? column * n + row : row * k + column;
      };
      const auto block_at = [&](int64_t row, int64_t b) { return k_first ? b * n + row : row * blocks + b; };
      std::vector<uint8_t> data((n * k + 1) / 2), zero_points((n * blocks + 1) / 2);
      std::vector<uint16_t> scales(n * blocks);
      std::vector<float> expected(n * k);
      const auto put = [](std::vector<uint8_t>& v, int64_t i, int x) {
        v[static_cast<size_t>(i / 2)] =
            static_cast<uint8_t>(v[static_cast<size_t>(i / 2)] | (x & 15) << (i % 2 * 4));
      };
      const auto zero = [&](int64_t row, int64_t b) {
        return static_cast<int>((row * 3 + b * 5) % 16) - (is_signed ? 8 : 0);
      };
      for (int64_t row = 0; row < n; ++row) {
        for (int64_t b = 0; b < blocks; ++b) {
          scales[static_cast<size_t>(block_at(row, b))] =
              FloatToHalf(0.25f * static_cast<float>(row + b + 1));
          put(zero_points, block_at(row, b), zero(row, b));
        }
        for (int64_t column = 0; column < k; ++column) {
          const int q = static_cast<int>((row * 7 + column * 11) % 16) - (is_signed ? 8 : 0);
          put(data, at(row, column), q);
          const int64_t b = column / block;
          expected[static_cast<size_t>(row * k + column)] =
              static_cast<float>(q - zero(row, b)) * 0.25f * static_cast<float>(row + b + 1);
        }
      }
      BlockWeightView view;
      view.format =
          BlockFormat::Qdq(is_signed ? DType::kInt4 : DType::kUInt4, k_first, block, DType::kFloat16, true);
      view.n = n;
      view.k = k;
      view.data = std::as_bytes(std::span(data));
      view.scales = std::as_bytes(std::span(scales));
      view.zero_points = std::as_bytes(std::span(zero_points));
      CheckView(view);
      std::vector<float> out(n * k);
      DequantizeRows(view, 0, n, out.data(), k);
      EXPECT_EQ(out, expected);
    }
  }
}

TEST(BlockFormat, PerTensorAndPerRowInt8) {
  const std::vector<int8_t> data = {1, -2, 3, -128, 127, 0};
  const auto scales = BytesOfValues<float>({0.5f, 2});
  const std::vector<int8_t> zero_points = {-3, 4};
  BlockWeightView view;
  view.format = BlockFormat::Qdq(DType::kInt8, true, 0, DType::kFloat, true);
  view.n = 2;
  view.k = 3;
  view.data = std::as_bytes(std::span(data));
  view.scales = scales;
  view.zero_points = std::as_bytes(std::span(zero_points));
  CheckView(view);
  float w[3];
  DequantizeRow(view, 1, w);  // the column -2, -128, 0 of [K, N]
  EXPECT_EQ(w[0], -12);
  EXPECT_EQ(w[1], -264);
  EXPECT_EQ(w[2], -8);
  view.format.per_tensor = true;
  view.scales = view.scales.first(4);
  view.zero_points = view.zero_points.first(1);
  CheckView(view);
  DequantizeRow(view, 1, w);
  EXPECT_EQ(w[0], 0.5f);
  EXPECT_EQ(w[1], -62.5f);
  EXPECT_EQ(w[2], 1.5f);
}

TEST(BlockFormat, GroupIndexPicksTheBlock) {
  const std::vector<uint8_t> data(2 * 16, 0x53);  // codes 3 and 5
  const auto scales = BytesOfValues<float>({1, 10});
  std::vector<int32_t> g_idx(32);
  for (int k = 0; k < 32; ++k) g_idx[static_cast<size_t>(k)] = k % 2;
  BlockWeightView view;
  view.format = BlockFormat::NBits(4, 16, DType::kFloat, ZeroPoint::kMiddle);
  view.n = 1;
  view.k = 32;
  view.data = std::as_bytes(std::span(data));
  view.scales = scales;
  view.g_idx = std::as_bytes(std::span(g_idx));
  CheckView(view);
  float w[32];
  DequantizeRow(view, 0, w);
  for (int k = 0; k < 32; ++k) EXPECT_EQ(w[k], k % 2 == 0 ? -5 : -30);
  g_idx[7] = 2;
  EXPECT_THROW(CheckView(view), Error);
  g_idx[7] = -1;
  EXPECT_THROW(CheckView(view), Error);
}

TEST(BlockFormat, SizesAreJudged) {
  EXPECT_EQ(BlockFormat::Gguf(GgufType::kQ4_K).DataBytes(3, 512), 3u * 2 * 144);
  EXPECT_THROW(BlockFormat::Gguf(GgufType::kQ4_K).DataBytes(3, 96), Error);
  EXPECT_THROW(BlockFormat::Gguf(GgufType::kQ8_0).DataBytes(int64_t{1} << 40, int64_t{1} << 40), Error);
  EXPECT_THROW(BlockFormat::Gguf(static_cast<GgufType>(999)), Error);
  EXPECT_THROW(BlockFormat::NBits(3, 32, DType::kFloat, ZeroPoint::kMiddle), Error);
  EXPECT_THROW(BlockFormat::NBits(4, 24, DType::kFloat, ZeroPoint::kMiddle), Error);
  EXPECT_THROW(BlockFormat::NBits(4, 8, DType::kFloat, ZeroPoint::kMiddle), Error);
  EXPECT_THROW(BlockFormat::NBits(4, 32, DType::kInt32, ZeroPoint::kMiddle), Error);
  EXPECT_THROW(BlockFormat::Qdq(DType::kInt16, true, 0, DType::kFloat, false), Error);
  const BlockFormat f = BlockFormat::NBits(4, 32, DType::kFloat16, ZeroPoint::kPacked);
  EXPECT_EQ(f.DataBytes(3, 100), 3u * 4 * 16);
  EXPECT_EQ(f.ScaleBytes(3, 100), 3u * 4 * 2);
  EXPECT_EQ(f.ZeroPointBytes(3, 100), 3u * 2);
  EXPECT_THROW(f.DataBytes(-1, 32), Error);
  EXPECT_THROW(f.DataBytes(std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max()), Error);
  std::vector<std::byte> data(191), scales(24), zero_points(6);
  BlockWeightView view;
  view.format = f;
  view.n = 3;
  view.k = 100;
  view.data = data;
  view.scales = scales;
  view.zero_points = zero_points;
  EXPECT_THROW(CheckView(view), Error);
  data.resize(192);
  view.data = data;
  CheckView(view);
  view.scales = view.scales.first(23);
  EXPECT_THROW(CheckView(view), Error);
}

TEST(BlockFormat, TypeNumbers) {
  EXPECT_TRUE(IsGgufBlockType(2));
  EXPECT_TRUE(IsGgufBlockType(23));
  for (int32_t type : {-1, 0, 1, 4, 5, 9, 15, 30, 1000}) EXPECT_FALSE(IsGgufBlockType(type)) << type;
}

}  // namespace
}  // namespace ullage
