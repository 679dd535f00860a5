#include "gguf/rope_tables.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ullage::gguf {
namespace {

Rope Plain(int64_t dimensions, double base) {
  Rope r;
  r.dimensions = dimensions;
  r.base = base;
  return r;
}

TEST(RopeTables, FollowTheDefinitionFarOut) {
  constexpr int64_t kPositions = 40000;
  const Rope rope = Plain(16, 5e5);
  const auto t = MakeRopeTables(rope, {}, kPositions);
  ASSERT_EQ(t.cos->shape, (Shape{kPositions, 8}));
  ASSERT_EQ(t.sin->shape, t.cos->shape);
  const auto* cos = reinterpret_cast<const float*>(t.cos->bytes);
  const auto* sin = reinterpret_cast<const float*>(t.sin->bytes);
  for (int64_t p = 0; p < kPositions; p += 7) {
    for (int64_t i = 0; i < 8; ++i) {
      const double angle = static_cast<double>(p) * std::pow(5e5, -static_cast<double>(i) / 8);
      EXPECT_NEAR(cos[p * 8 + i], std::cos(angle), 1e-7) << p << " " << i;
      EXPECT_NEAR(sin[p * 8 + i], std::sin(angle), 1e-7) << p << " " << i;
    }
  }
}

TEST(RopeTables, LinearScalingFactorsAndMagnitude) {
  Rope rope = Plain(4, 100);
  rope.scaling = RopeScaling::kLinear;
  rope.factor = 4;
  rope.attention_factor = 2;
  const float factors[] = {1, 5};
  const auto f = FrequenciesOf(rope, factors);
  EXPECT_DOUBLE_EQ(f.per_position[0], 0.25);
  EXPECT_DOUBLE_EQ(f.per_position[1], 0.1 / 5 / 4);
  const auto t = MakeRopeTables(rope, factors, 3);
  const auto* cos = reinterpret_cast<const float*>(t.cos->bytes);
  EXPECT_FLOAT_EQ(cos[0], 2);
  EXPECT_FLOAT_EQ(cos[4], static_cast<float>(2 * std::cos(0.5)));
}

// Expected numbers: the formula of the YaRN paper, evaluated with numpy.
TEST(RopeTables, Yarn) {
  Rope rope = Plain(64, 1e4);
  rope.scaling = RopeScaling::kYarn;
  rope.factor = 4;
  rope.original_context = 32;
  auto f = FrequenciesOf(rope, {});
  const std::pair<size_t, double> small[] = {
      {0, 1},     {1, 0.656157433166},    {3, 0.263560314643}, {6, 0.044456985251},
      {8, 0.025}, {31, 3.33380358041e-05}};
  for (const auto& [i, expected] : small) EXPECT_NEAR(f.per_position[i] / expected, 1, 1e-10) << i;
  EXPECT_NEAR(f.magnitude, 1.138629436112, 1e-12);

  rope = Plain(128, 1e6);
  rope.scaling = RopeScaling::kYarn;
  rope.factor = 4;
  rope.original_context = 32768;
  f = FrequenciesOf(rope, {});
  const std::pair<size_t, double> large[] = {{0, 1},
                                             {20, 0.0133352143216},
                                             {25, 0.00413173802252},
                                             {30, 0.00106436098125},
                                             {40, 4.4456985251e-05},
                                             {63, 3.10234440188e-07}};
  for (const auto& [i, expected] : large) EXPECT_NEAR(f.per_position[i] / expected, 1, 1e-10) << i;

  // No extrapolation: plain interpolation, no magnitude.
  rope.yarn_extrapolation = 0;
  f = FrequenciesOf(rope, {});
  EXPECT_DOUBLE_EQ(f.per_position[0], 0.25);
  EXPECT_EQ(f.magnitude, 1);
  // The two multipliers of the magnitude cancel.
  rope.yarn_extrapolation = 1;
  rope.yarn_log_multiplier = 1;
  EXPECT_EQ(FrequenciesOf(rope, {}).magnitude, 1);
}

}  // namespace
}  // namespace ullage::gguf
