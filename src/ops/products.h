/// Shapes of matrix products. Internal to ops.
#pragma once

#include "ops/rule_util.h"

namespace ullage::ops {

/// numpy matmul of two shapes.
BoundedShape MatMulShape(ShapeContext& c, const BoundedShape& a, const BoundedShape& b);
/// A [.., K] times a weight of N columns: [.., N]. Checks K.
BoundedShape LinearShape(ShapeContext& c, const BoundedShape& a, int64_t k, const Bound& n);

}  // namespace ullage::ops
