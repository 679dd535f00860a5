/// How large a value may get.
#pragma once

#include <cstdint>

#include "ops/shape_context.h"

namespace ullage::kernels {

/// Bytes of the largest value within the facts, of a sequence with all that it may hold; -1 when there is no
/// bound, or none that memory could hold.
int64_t BytesUpper(const ops::ValueFacts& facts);

/// Rank and every dimension are bounded: a kernel can say what it needs for such a tensor.
bool HasBoundedShape(const ops::ValueFacts& facts);

}  // namespace ullage::kernels
