/// Small questions that kernels ask about their inputs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/error.h"
#include "core/integers.h"

namespace ullage::cpu {

/// Bytes of one element; throws kUnsupported where several share a byte.
inline size_t ElementOf(const TensorView& v) {
  const int bits = BitsOf(v.dtype);
  if (bits < 8) Throw(Code::kUnsupported, "elements of type ", NameOf(v.dtype));
  return static_cast<size_t>(bits / 8);
}

/// Element i of an index tensor for an axis of `dim`, made non-negative; throws kInvalidInput outside of
/// [-dim, dim).
inline int64_t IndexIn(const TensorView& v, int64_t i, int64_t dim) {
  const int64_t index = IntAt(v, i);
  if (index < -dim || index >= dim)
    Throw(Code::kInvalidInput, "index ", index, " is outside of an axis of ", dim);
  return index < 0 ? index + dim : index;
}

/// `axis` made non-negative; throws kInvalidModel outside of [-rank, rank).
inline int AxisOf(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) Throw(Code::kInvalidModel, "axis ", axis, " of a tensor of rank ", rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace ullage::cpu
