/// Arithmetic on the contents of small integer tensors, as operators define it. Internal to ops.
#pragma once

#include "ops/rule_util.h"

namespace ullage::ops::value_math {

/// Bounds of one result element; nullopt-like results are Bound::Anything().
using Binary = Bound (*)(const ShapeContext& c, DType dtype, const Bound& a, const Bound& b);
using Unary = Bound (*)(const ShapeContext& c, DType dtype, const Bound& a);

Bound Add(const ShapeContext& c, DType dtype, const Bound& a, const Bound& b);
Bound Sub(const ShapeContext& c, DType dtype, const Bound& a, const Bound& b);
Bound Mul(const ShapeContext& c, DType dtype, const Bound& a, const Bound& b);
/// Integers: truncates towards zero. Floating point: Anything() unless the quotient is an integer.
Bound Div(const ShapeContext& c, DType dtype, const Bound& a, const Bound& b);
/// Sign of the divisor, or of the dividend with attribute fmod.
Bound Mod(const ShapeContext& c, DType dtype, const Bound& a, const Bound& b);
Bound Max(const ShapeContext& c, DType dtype, const Bound& a, const Bound& b);
Bound Min(const ShapeContext& c, DType dtype, const Bound& a, const Bound& b);
Bound Equal(const ShapeContext& c, DType dtype, const Bound& a, const Bound& b);
Bound Less(const ShapeContext& c, DType dtype, const Bound& a, const Bound& b);
Bound LessOrEqual(const ShapeContext& c, DType dtype, const Bound& a, const Bound& b);
Bound Greater(const ShapeContext& c, DType dtype, const Bound& a, const Bound& b);
Bound GreaterOrEqual(const ShapeContext& c, DType dtype, const Bound& a, const Bound& b);
Bound And(const ShapeContext& c, DType dtype, const Bound& a, const Bound& b);
Bound Or(const ShapeContext& c, DType dtype, const Bound& a, const Bound& b);
Bound Xor(const ShapeContext& c, DType dtype, const Bound& a, const Bound& b);

Bound Not(const ShapeContext& c, DType dtype, const Bound& a);
Bound Neg(const ShapeContext& c, DType dtype, const Bound& a);
Bound Abs(const ShapeContext& c, DType dtype, const Bound& a);
Bound Relu(const ShapeContext& c, DType dtype, const Bound& a);
Bound Sign(const ShapeContext& c, DType dtype, const Bound& a);
Bound Same(const ShapeContext& c, DType dtype, const Bound& a);

/// cond ? a : b
Bound Choose(const ShapeContext& c, const Bound& cond, const Bound& a, const Bound& b);

/// Index into a row-major tensor of exact shape `s` of the element that broadcasting to `out` pairs with flat
/// index `flat` of `out`.
int BroadcastIndex(const BoundedShape& s, const BoundedShape& out, int flat);

}  // namespace ullage::ops::value_math
