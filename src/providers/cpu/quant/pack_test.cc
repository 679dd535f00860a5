#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "providers/cpu/quant/aligned_test_buffer.h"
#include "providers/cpu/quant/pack_blocks.h"
#include "providers/cpu/quant/packed_weight.h"
#include "providers/cpu/quant/quant_test_util.h"
#include "ullage/error.h"

namespace ullage::quant {
namespace {

// The packed form holds what the source holds: exactly, or with scales rounded to 11 bits.
TEST(Pack, KeepsTheValuesOfEveryFormat) {
  for (const FormatCase& c : AllFormats()) {
    for (const auto& [n, k] : OddSizes(c)) {
      for (const Accuracy accuracy : {Accuracy::kInt8, Accuracy::kInt16, Accuracy::kFloat}) {
        SCOPED_TRACE(testing::Message() << c.name << " [" << n << "," << k << "]");
        const TestWeight w = RandomWeight(c.format, n, k, static_cast<uint32_t>(n + k), c.g_idx);
        CheckView(w.view());
        const PackedLayout layout = PlanPack(c.format, n, k, accuracy, c.g_idx);
        AlignedTestBuffer packed(layout.bytes);
        Pack(w.view(), layout, 0, layout.groups, packed.data());
        packed.CheckEnd();
        const std::vector<float> expected = w.Dequantized();
        std::vector<float> row(static_cast<size_t>(k));
        const bool rounded = layout.scale_form == ScaleForm::kFloat16Row;
        for (int64_t i = 0; i < n; ++i) {
          DequantizePackedRow(layout, packed.data(), i, row.data());
          for (int64_t j = 0; j < k; ++j) {
            const float e = expected[static_cast<size_t>(i * k + j)], f = row[static_cast<size_t>(j)];
            // Minima of float zero points: the products round differently.
            const bool float_min = layout.min_form == MinForm::kFloat32;
            if (rounded || float_min) {
              const double slack = rounded ? 1.0 / 2048 : 0;
              ASSERT_NEAR(f, e, std::fabs(e) * slack + (float_min ? 2e-6 : 1e-9))
                  << "row " << i << " element " << j;
            } else {
              ASSERT_EQ(f, e) << "row " << i << " element " << j;
            }
          }
        }
      }
    }
  }
}

TEST(Pack, RangesOfGroupsMakeTheSameBytes) {
  for (const FormatCase& c : AllFormats()) {
    SCOPED_TRACE(c.name);
    const int64_t n = 16 * 21 + 3, k = AlignUp<int64_t>(170, c.k_step);
    const TestWeight w = RandomWeight(c.format, n, k, 3, c.g_idx);
    const PackedLayout layout = PlanPack(c.format, n, k, Accuracy::kInt8, c.g_idx);
    AlignedTestBuffer whole(layout.bytes), parts(layout.bytes);
    Pack(w.view(), layout, 0, layout.groups, whole.data());
    for (int64_t g = layout.groups; g > 0; g -= 5)
      Pack(w.view(), layout, std::max<int64_t>(0, g - 5), g, parts.data());
    EXPECT_EQ(std::memcmp(whole.data(), parts.data(), layout.bytes), 0);
    if (c.format.kind == BlockKind::kGguf) continue;
    AlignedTestBuffer slabs(layout.bytes);
    for (int64_t b = 0; b < layout.blocks; b += 2)
      PackBlocks(w.view(), layout, 0, layout.groups, b, std::min(layout.blocks, b + 2), slabs.data());
    EXPECT_EQ(std::memcmp(whole.data(), slabs.data(), layout.bytes), 0);
  }
}

// A copy that ends at a page which must not be touched.
class GuardedBytes {
 public:
  explicit GuardedBytes(const std::vector<std::byte>& bytes) : size_(bytes.size()) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = AlignUp(size_, page) + page;
    base_ = static_cast<std::byte*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + mapped_ - page, page, PROT_NONE);
    start_ = base_ + mapped_ - page - size_;
    if (size_ != 0) std::memcpy(start_, bytes.data(), size_);
  }
  ~GuardedBytes() { munmap(base_, mapped_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  std::span<const std::byte> span() const { return {start_, size_}; }

 private:
  size_t size_, mapped_;
  std::byte *base_, *start_;
};

TEST(Pack, ReadsNothingBehindTheSource) {
  for (const FormatCase& c : AllFormats()) {
    for (const auto& [n, k] : OddSizes(c)) {
      const TestWeight w = RandomWeight(c.format, n, k, 5, c.g_idx);
      const GuardedBytes data(w.data), scales(w.scales), zero_points(w.zero_points), g_idx(w.g_idx);
      BlockWeightView view = w.view();
      view.data = data.span();
      view.scales = scales.span();
      view.zero_points = zero_points.span();
      view.g_idx = g_idx.span();
      CheckView(view);
      const PackedLayout layout = PlanPack(c.format, n, k, Accuracy::kInt8, c.g_idx);
      AlignedTestBuffer packed(layout.bytes), expected(layout.bytes);
      Pack(view, layout, 0, layout.groups, packed.data());
      Pack(w.view(), layout, 0, layout.groups, expected.data());
      EXPECT_EQ(std::memcmp(packed.data(), expected.data(), layout.bytes), 0) << c.name;
      std::vector<float> row(static_cast<size_t>(k));
      DequantizeRow(view, n - 1, row.data());
    }
  }
}

TEST(Pack, BytesPerWeightStayNearTheSource) {
  constexpr int64_t n = 4096, k = 4096;
  const auto bits = [](const BlockFormat& f, Accuracy accuracy = Accuracy::kInt8) {
    return static_cast<double>(PlanPack(f, n, k, accuracy).bytes) * 8 / (n * k);
  };
  EXPECT_EQ(bits(BlockFormat::Gguf(GgufType::kQ4_0)), 4.5);
  EXPECT_EQ(bits(BlockFormat::Gguf(GgufType::kQ4_1)), 5);
  EXPECT_EQ(bits(BlockFormat::Gguf(GgufType::kQ5_0)), 5.5);
  EXPECT_EQ(bits(BlockFormat::Gguf(GgufType::kQ8_0)), 8.5);
  EXPECT_EQ(bits(BlockFormat::Gguf(GgufType::kQ2_K)), 3.125);
  EXPECT_EQ(bits(BlockFormat::Gguf(GgufType::kQ3_K)), 3.5625);
  EXPECT_EQ(bits(BlockFormat::Gguf(GgufType::kQ4_K)), 4.625);
  EXPECT_EQ(bits(BlockFormat::Gguf(GgufType::kQ5_K)), 5.625);
  EXPECT_EQ(bits(BlockFormat::Gguf(GgufType::kQ6_K)), 6.5625);
  EXPECT_EQ(bits(BlockFormat::Gguf(GgufType::kIQ4_XS)), 4.3125);
  EXPECT_NEAR(bits(BlockFormat::NBits(4, 32, DType::kFloat, ZeroPoint::kMiddle)), 4.5, 0.01);
  EXPECT_NEAR(bits(BlockFormat::NBits(4, 32, DType::kFloat, ZeroPoint::kPacked)), 4.75, 0.01);
  EXPECT_EQ(bits(BlockFormat::NBits(4, 128, DType::kFloat16, ZeroPoint::kMiddle)), 4.125);
  EXPECT_EQ(bits(BlockFormat::NBits(4, 32, DType::kFloat, ZeroPoint::kMiddle), Accuracy::kFloat), 5);
}

TEST(Pack, RefusesWhatWasNotPlanned) {
  const BlockFormat f = BlockFormat::Gguf(GgufType::kQ4_0);
  EXPECT_THROW(PlanPack(f, 16, 33, Accuracy::kInt8), Error);
  EXPECT_THROW(PlanPack(f, -1, 32, Accuracy::kInt8), Error);
  EXPECT_THROW(PlanPack(f, int64_t{1} << 41, 32, Accuracy::kInt8), Error);
  EXPECT_THROW(PlanPack(f, 16, 32, Accuracy::kInt8, true), Error);
  const TestWeight w = RandomWeight(f, 16, 32, 1);
  const PackedLayout layout = PlanPack(f, 16, 64, Accuracy::kInt8);
  AlignedTestBuffer packed(layout.bytes);
  EXPECT_THROW(Pack(w.view(), layout, 0, layout.groups, packed.data()), Error);
}

}  // namespace
}  // namespace ullage::quant
