/// Normalisations over the last axis, with float statistics.
/// Sources: ai.onnx LayerNormalization-17, RMSNormalization-23; com.microsoft SkipLayerNormalization,
/// SkipSimplifiedLayerNormalization, SimplifiedLayerNormalization.
#pragma once

#include <cstdint>

#include "core/thread_team.h"
#include "providers/cpu/dense/array.h"

namespace ullage::dense {

/// y[r,:] = normalise(x[r,:] + skip + skip_bias) * scale + shift.
///
/// RMS: v / sqrt(mean(v^2) + epsilon). Layer: (v - mean(v)) / sqrt(var(v) + epsilon). The sum of x, skip and
/// skip_bias is rounded to the type of x first (as if an Add had stored it), whether or not `sum` is asked
/// for. y and sum may be x or skip (same type and pitch). A per-head norm is a norm with cols = head size.
struct NormArgs {
  int64_t rows = 0;
  int64_t cols = 0;
  bool rms = true;  ///< false: subtract the mean
  float epsilon = 1e-5f;
  bool round_before_scale =
      false;  ///< round the normalised value to the type of x before scaling (RMSNormalization)

  ConstArray x;
  int64_t x_pitch = 0;  ///< elements between rows
  ConstArray scale;     ///< [cols]; data may be null (1)
  ConstArray shift;     ///< [cols]; data may be null (0)
  Array y;
  int64_t y_pitch = 0;

  ConstArray skip;  ///< data may be null; row r is skip row r % skip_rows; type of x
  int64_t skip_pitch = 0;
  int64_t skip_rows = 0;  ///< 0: as many as rows
  ConstArray skip_bias;   ///< [cols]; data may be null
  Array sum;              ///< x + skip + skip_bias in the type of x; data may be null
  int64_t sum_pitch = 0;
  float* mean = nullptr;     ///< [rows], optional (0 for RMS)
  float* inv_std = nullptr;  ///< [rows], optional: 1 / sqrt(... + epsilon)
};

void Norm(ThreadTeam& team, const NormArgs& args);

}  // namespace ullage::dense
