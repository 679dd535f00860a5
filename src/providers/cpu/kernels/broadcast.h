/// Loops over tensors that spread over a common shape, numpy's way.
#pragma once

#include <cstdint>

#include "ullage/tensor.h"

namespace ullage::cpu {

/// Strides (in elements, 0 where a dimension is spread) of up to three operands over the result's shape, with
/// adjacent dimensions merged where all operands allow it.
struct Broadcast {
  static constexpr int kOperands = 3;
  int rank = 0;
  int64_t dims[kMaxRank] = {};
  int64_t strides[kOperands][kMaxRank] = {};

  /// Throws kInvalidModel when an operand does not spread over `out`. Null operands have stride 0.
  Broadcast(const Shape& out, const Shape* a, const Shape* b = nullptr, const Shape* c = nullptr);

  /// Rows of the innermost dimension.
  int64_t rows() const;
  int64_t row_length() const { return rank ? dims[rank - 1] : 1; }
  /// Stride of an operand along a row.
  int64_t step(int operand) const { return rank ? strides[operand][rank - 1] : 0; }
  /// Offset in elements of an operand at the beginning of row `row`.
  int64_t offset(int operand, int64_t row) const;
};

}  // namespace ullage::cpu
