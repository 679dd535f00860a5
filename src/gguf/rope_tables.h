/// Sine and cosine tables of the rotary embedding, as GroupQueryAttention takes them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gguf/hyperparameters.h"
#include "graph/constant.h"

namespace ullage::gguf {

struct RopeTables {
  graph::ConstantPtr cos;  ///< float32 [positions, dimensions / 2]
  graph::ConstantPtr sin;
};

/// Radians per position of each pair, and the factor of the table's values. `factors` divide the unscaled
/// frequencies: empty, or one per pair.
struct RopeFrequencies {
  std::vector<double> per_position;
  double magnitude = 1;
};
RopeFrequencies FrequenciesOf(const Rope& rope, std::span<const float> factors);

/// The tables for positions [0, positions). Angles are taken in double precision.
RopeTables MakeRopeTables(const Rope& rope, std::span<const float> factors, int64_t positions);

}  // namespace ullage::gguf
