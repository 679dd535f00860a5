#include "gguf/rope_tables.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/checked.h"

namespace ullage::gguf {
namespace {

/// The (fractional) pair that turns `rotations` times within the original context.
double PairOfRotations(const Rope& rope, double rotations) {
  const auto d = static_cast<double>(rope.dimensions);
  const auto context = static_cast<double>(rope.original_context);
  return d * std::log(context / (rotations * 2 * std::numbers::pi)) / (2 * std::log(rope.base));
}

double YarnMagnitude(double factor, double multiplier) {
  return factor <= 1 ? 1 : 0.1 * multiplier * std::log(factor) + 1;
}

}  // namespace

RopeFrequencies FrequenciesOf(const Rope& rope, std::span<const float> factors) {
  RopeFrequencies out;
  out.magnitude = rope.attention_factor;
  const auto pairs = static_cast<size_t>(rope.dimensions / 2);
  out.per_position.resize(pairs);
  double low = 0;
  double high = 0;
  const bool yarn = rope.scaling == RopeScaling::kYarn;
  if (yarn) {
    low = std::max(0.0, std::floor(PairOfRotations(rope, rope.yarn_beta_fast)));
    high = std::min(static_cast<double>(rope.dimensions - 1),
                    std::ceil(PairOfRotations(rope, rope.yarn_beta_slow)));
    if (rope.yarn_extrapolation != 0)
      out.magnitude *= YarnMagnitude(rope.factor, 1) / YarnMagnitude(rope.factor, rope.yarn_log_multiplier);
  }
  for (size_t i = 0; i < pairs; ++i) {
    const double exponent = -2 * static_cast<double>(i) / static_cast<double>(rope.dimensions);
    double unscaled = std::pow(rope.base, exponent);
    if (!factors.empty()) unscaled /= static_cast<double>(factors[i]);
    double f = unscaled / rope.factor;
    if (yarn) {
      const double ramp = (static_cast<double>(i) - low) / std::max(0.001, high - low);
      const double mix = (1 - std::clamp(ramp, 0.0, 1.0)) * rope.yarn_extrapolation;
      f = f * (1 - mix) + unscaled * mix;
    }
    out.per_position[i] = f;
  }
  return out;
}

RopeTables MakeRopeTables(const Rope& rope, std::span<const float> factors, int64_t positions) {
  const RopeFrequencies f = FrequenciesOf(rope, factors);
  const size_t pairs = f.per_position.size();
  const Shape shape{positions, static_cast<int64_t>(pairs)};
  const auto cos = graph::MakeConstant(DType::kFloat, shape);
  const auto sin = graph::MakeConstant(DType::kFloat, shape);
  auto* cos_out = reinterpret_cast<float*>(cos.data);
  auto* sin_out = reinterpret_cast<float*>(sin.data);

  // Each run of positions starts from exact angles and goes on by rotating with the step; the error of 64
  // rotations in double precision is far below float's.
  constexpr int64_t kRun = 64;
  std::vector<double> step_cos(pairs), step_sin(pairs), c(pairs), s(pairs);
  for (size_t i = 0; i < pairs; ++i) {
    step_cos[i] = std::cos(f.per_position[i]);
    step_sin[i] = std::sin(f.per_position[i]);
  }
  for (int64_t start = 0; start < positions; start += kRun) {
    for (size_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<double>(start) * f.per_position[i];
      c[i] = f.magnitude * std::cos(angle);
      s[i] = f.magnitude * std::sin(angle);
    }
    const int64_t end = std::min(positions, start + kRun);
    for (int64_t p = start; p < end; ++p) {
      for (size_t i = 0; i < pairs; ++i) {
        *cos_out++ = static_cast<float>(c[i]);
        *sin_out++ = static_cast<float>(s[i]);
        const double next = c[i] * step_cos[i] - s[i] * step_sin[i];
        s[i] = s[i] * step_cos[i] + c[i] * step_sin[i];
        c[i] = next;
      }
    }
  }
  return {cos.constant, sin.constant};
}

}  // namespace ullage::gguf
