#include "providers/cpu/quant/activations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "core/cpu_features.h"
#include "providers/cpu/quant/aligned_test_buffer.h"
#include "providers/cpu/quant/every_isa_test.h"

namespace ullage::quant {
namespace {

class ActivationsOnIsa : public EveryIsa {};
INSTANTIATE_TEST_SUITE_P(Quant, ActivationsOnIsa, AllIsas(), IsaTestName);

std::vector<float> RandomRows(int64_t count, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<float> a(static_cast<size_t>(count));
  for (float& x : a) x = normal(rng);
  return a;
}

// Every record against the definition, in double precision.
TEST_P(ActivationsOnIsa, FollowsTheDefinition) {
  constexpr int64_t m = 5, lda = 120;
  for (const int64_t k : {1, 15, 16, 17, 31, 32, 33, 48, 100}) {
    for (const Activations form : {Activations::kInt8, Activations::kInt16, Activations::kInt24}) {
      const std::vector<float> a = RandomRows(m * lda, static_cast<uint32_t>(k));
      AlignedTestBuffer out(ActivationBytes(form, m, k));
      ThreadTeam team(2);
      QuantizeActivations(form, a.data(), lda, m, k, out.data(), team);
      out.CheckEnd();
      const int digits = DigitsOf(form);
      const double limit = digits == 1 ? 127 : digits == 2 ? 32639 : 8355711;
      const ActivationBlock* blocks = reinterpret_cast<const ActivationBlock*>(out.data());
      for (int64_t b = 0; b < (k + 31) / 32; ++b) {
        for (int64_t t = 0; t < m; ++t) {
          const ActivationBlock* record = blocks + (b * m + t) * digits;
          float largest = 0;
          for (int64_t i = b * 32; i < std::min(k, b * 32 + 32); ++i)
            largest = std::max(largest, std::fabs(a[static_cast<size_t>(t * lda + i)]));
          ASSERT_EQ(record->scale, largest / static_cast<float>(limit));
          int64_t halves[2] = {};
          for (int i = 0; i < 32; ++i) {
            int64_t code = 0;
            for (int d = 0; d < digits; ++d) code = code * 256 + record[d].q[i];
            halves[i / 16] += code;
            const double x = b * 32 + i < k ? a[static_cast<size_t>(t * lda + b * 32 + i)] : 0;
            ASSERT_LE(std::abs(static_cast<double>(code)), limit);
            // Half a step, and what float division and multiplication may shift the border by.
            ASSERT_NEAR(static_cast<double>(code), x * limit / largest,
                        digits == 1   ? 0.50002
                        : digits == 2 ? 0.505
                                      : 1.5);
            if (x == 0) {
              ASSERT_EQ(code, 0);
            }
          }
          ASSERT_EQ(record->value_sum, record->scale * static_cast<float>(halves[0] + halves[1]));
          for (int h = 0; h < 2; ++h)
            ASSERT_EQ(record->half_sum[h], record->scale * static_cast<float>(halves[h]));
          for (int d = 0; d < digits; ++d) {
            int32_t sums[2] = {};
            for (int i = 0; i < 32; ++i) sums[i / 16] += record[d].q[i];
            ASSERT_EQ(record[d].minus_half[0], -sums[0]);
            ASSERT_EQ(record[d].minus_half[1], -sums[1]);
            ASSERT_EQ(record[d].minus_sum, -sums[0] - sums[1]);
          }
        }
      }
    }
  }
}

TEST_P(ActivationsOnIsa, SameBitsAsPortableCode) {
  constexpr int64_t m = 33, k = 333;
  std::vector<float> a = RandomRows(m * k, 7);
  for (size_t i = 0; i < a.size(); i += 7) a[i] *= 1000;
  for (size_t i = 0; i < a.size(); i += 11) a[i] *= 1e-20f;
  // Values on the border between two codes.
  for (int i = 0; i < 32; ++i) a[static_cast<size_t>(i)] = i == 0 ? 127.0f : static_cast<float>(i) + 0.5f;
  for (const Activations form :
       {Activations::kInt8, Activations::kInt16, Activations::kInt24, Activations::kFloat}) {
    const size_t bytes = ActivationBytes(form, m, k);
    AlignedTestBuffer out(bytes), expected(bytes);
    QuantizeActivationRows(form, a.data(), k, m, k, 0, m, out.data());
    ForceIsa(Isa::kScalar);
    QuantizeActivationRows(form, a.data(), k, m, k, 0, m, expected.data());
    ForceIsa(GetParam());
    EXPECT_EQ(std::memcmp(out.data(), expected.data(), bytes), 0);
  }
}

TEST_P(ActivationsOnIsa, SpecialValues) {
  for (const Activations form : {Activations::kInt8, Activations::kInt16, Activations::kInt24}) {
    AlignedTestBuffer out(ActivationBytes(form, 1, 32));
    const ActivationBlock* record = reinterpret_cast<const ActivationBlock*>(out.data());
    const auto quantize = [&](float special) {
      std::vector<float> a(32, 1.0f);
      a[13] = special;
      QuantizeActivationRows(form, a.data(), 32, 1, 32, 0, 1, out.data());
    };
    for (float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                      std::numeric_limits<float>::quiet_NaN()}) {
      quantize(bad);
      EXPECT_TRUE(std::isnan(record->scale));
      EXPECT_TRUE(std::isnan(record->value_sum));
    }
    quantize(std::numeric_limits<float>::max());
    EXPECT_TRUE(std::isfinite(record->scale));
    EXPECT_EQ(record->q[13], 127);
    std::vector<float> tiny(32, 1e-39f);
    QuantizeActivationRows(form, tiny.data(), 32, 1, 32, 0, 1, out.data());
    EXPECT_EQ(record->scale, 0);
    EXPECT_EQ(record->minus_sum, 0);
  }
}

}  // namespace
}  // namespace ullage::quant
