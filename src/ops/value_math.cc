#include "ops/value_math.h"

#include "ops/interval.h"

namespace ullage::ops::value_math {
namespace {

const Bound kTrue = Bound::Exactly(1);
const Bound kFalse = Bound::Exactly(0);
const Bound kEither = Bound::Between(0, 1);

bool HasUpper(const Bound& b) {
  return b.bounded() || b.exact();
}

bool HasLower(const Bound& b) {
  return b.lower > -kUnbounded || b.exact();
}

// Operators wrap where interval arithmetic saturates: a result that left 64 bits may be anything.
Bound Wrapped(const Bound& r, const Bound& a, const Bound& b) {
  if (r.exact()) return r;
  const bool overflow = !r.bounded() && HasUpper(a) && HasUpper(b) && HasLower(a) && HasLower(b);
  const bool underflow = r.lower <= -kUnbounded && HasLower(a) && HasLower(b) && HasUpper(a) && HasUpper(b);
  return overflow || underflow ? Bound::Anything() : r;
}

int64_t Magnitude(const Bound& b) {
  if (b.lower <= -kUnbounded || !b.bounded()) return kUnbounded;
  return std::max(b.lower < 0 ? -b.lower : b.lower, b.upper < 0 ? -b.upper : b.upper);
}

}  // namespace

Bound Add(const ShapeContext& c, DType, const Bound& a, const Bound& b) {
  return Wrapped(c.math().Add(a, b), a, b);
}

Bound Sub(const ShapeContext& c, DType, const Bound& a, const Bound& b) {
  return Wrapped(c.math().Sub(a, b), a, b);
}

Bound Mul(const ShapeContext& c, DType, const Bound& a, const Bound& b) {
  return Wrapped(c.math().Mul(a, b), a, b);
}

Bound Div(const ShapeContext& c, DType dtype, const Bound& a, const Bound& b) {
  const BoundMath& math = c.math();
  SymbolTable* table = math.table();
  // A divisor of 0 is an error of the run, or an infinity, which is no integer.
  if (b.lower >= 0 && a.lower >= 0 && table != nullptr && (a.expr != kNoExpr || b.expr != kNoExpr) &&
      (a.expr != kNoExpr || a.exact()) && (b.expr != kNoExpr || b.exact()) &&
      (b.lower > 0 || !IsFloating(dtype))) {
    if (table->DivExpr(a, b) != kNoExpr) return math.DivExact(a, b);
  }
  if (IsFloating(dtype)) {
    if (a.exact() && b.exact() && b.lower != 0 && a.lower % b.lower == 0)
      return Bound::Exactly(a.lower / b.lower);
    return Bound::Anything();
  }
  if (b.exact() && b.lower > 0) {
    if (a.lower >= 0) return math.FloorDiv(a, b.lower);
    return Bound::Between(a.lower <= -kUnbounded ? -kUnbounded : a.lower / b.lower,
                          a.bounded() ? a.upper / b.lower : kUnbounded);
  }
  if (b.exact() && b.lower < 0 && a.exact() && a.lower != INT64_MIN) return Bound::Exactly(a.lower / b.lower);
  if (a.lower >= 0 && b.lower >= 0)
    return Bound::Between(b.bounded() && b.upper > 0 ? a.lower / b.upper : 0,
                          a.bounded() ? a.upper / std::max<int64_t>(b.lower, 1) : kUnbounded);
  const int64_t magnitude = Magnitude(a);
  return magnitude == kUnbounded ? Bound::Anything() : Bound::Between(-magnitude, magnitude);
}

Bound Mod(const ShapeContext& c, DType, const Bound& a, const Bound& b) {
  const BoundMath& math = c.math();
  const bool fmod = c.node().Int("fmod", 0) != 0;
  if (b.exact() && b.lower > 0 && a.lower >= 0) {
    if (a.bounded() && a.upper < b.lower) return a;
    Bound r = math.Sub(a, math.Mul(math.FloorDiv(a, b.lower), b));
    if (a.exact()) return Bound::Exactly(a.lower % b.lower);
    const auto ends = interval::Intersect({0, b.lower - 1}, interval::EndsOf(r));
    return {ends.lower, ends.upper, ends.lower == ends.upper ? kNoExpr : r.expr};
  }
  if (a.exact() && b.exact() && b.lower != 0 && a.lower != INT64_MIN) {
    int64_t r = a.lower % b.lower;
    if (!fmod && r != 0 && (r < 0) != (b.lower < 0)) r += b.lower;
    return Bound::Exactly(r);
  }
  const int64_t magnitude = Magnitude(b);
  if (magnitude == kUnbounded) return Bound::Anything();
  return Bound::Between(-magnitude, magnitude);
}

Bound Max(const ShapeContext& c, DType, const Bound& a, const Bound& b) {
  return c.math().Max(a, b);
}

Bound Min(const ShapeContext& c, DType, const Bound& a, const Bound& b) {
  return c.math().Min(a, b);
}

Bound Equal(const ShapeContext& c, DType, const Bound& a, const Bound& b) {
  if (c.math().ProvenEqual(a, b)) return kTrue;
  if (a.lower > b.upper || b.lower > a.upper) return kFalse;
  const Bound d = c.math().Sub(a, b);
  return d.lower > 0 || d.upper < 0 ? kFalse : kEither;
}

Bound Less(const ShapeContext& c, DType, const Bound& a, const Bound& b) {
  if (a.upper < b.lower) return kTrue;
  if (c.math().ProvenAtLeast(a, b)) return kFalse;
  return c.math().Sub(b, a).lower > 0 ? kTrue : kEither;
}

Bound LessOrEqual(const ShapeContext& c, DType dtype, const Bound& a, const Bound& b) {
  return Not(c, dtype, Less(c, dtype, b, a));
}

Bound Greater(const ShapeContext& c, DType dtype, const Bound& a, const Bound& b) {
  return Less(c, dtype, b, a);
}

Bound GreaterOrEqual(const ShapeContext& c, DType dtype, const Bound& a, const Bound& b) {
  return Not(c, dtype, Less(c, dtype, a, b));
}

Bound And(const ShapeContext&, DType, const Bound& a, const Bound& b) {
  if (a.upper == 0 || b.upper == 0) return kFalse;
  return a.lower > 0 && b.lower > 0 ? kTrue : kEither;
}

Bound Or(const ShapeContext&, DType, const Bound& a, const Bound& b) {
  if (a.lower > 0 || b.lower > 0) return kTrue;
  return a.upper == 0 && b.upper == 0 ? kFalse : kEither;
}

Bound Xor(const ShapeContext&, DType, const Bound& a, const Bound& b) {
  if (!a.exact() || !b.exact()) return kEither;
  return (a.lower != 0) != (b.lower != 0) ? kTrue : kFalse;
}

Bound Not(const ShapeContext&, DType, const Bound& a) {
  if (a.lower > 0) return kFalse;
  return a.upper == 0 && a.lower == 0 ? kTrue : kEither;
}

Bound Neg(const ShapeContext& c, DType, const Bound& a) {
  return Wrapped(c.math().Neg(a), a, a);
}

Bound Abs(const ShapeContext& c, DType, const Bound& a) {
  if (a.lower >= 0) return a;
  if (a.upper <= 0) return Wrapped(c.math().Neg(a), a, a);
  const int64_t magnitude = Magnitude(a);
  return Bound::Between(0, magnitude);
}

Bound Relu(const ShapeContext& c, DType, const Bound& a) {
  return c.math().Max(a, Bound::Exactly(0));
}

Bound Sign(const ShapeContext&, DType, const Bound& a) {
  if (a.lower > 0) return kTrue;
  if (a.upper < 0) return Bound::Exactly(-1);
  return a.exact() ? kFalse : Bound::Between(a.lower < 0 ? -1 : 0, a.upper > 0 ? 1 : 0);
}

Bound Same(const ShapeContext&, DType, const Bound& a) {
  return a;
}

Bound Choose(const ShapeContext& c, const Bound& cond, const Bound& a, const Bound& b) {
  if (cond.lower > 0) return a;
  if (cond.exact() && cond.lower == 0) return b;
  return c.math().Union(a, b);
}

int BroadcastIndex(const BoundedShape& s, const BoundedShape& out, int flat) {
  int index = 0;
  int64_t stride = 1;
  for (int i = out.rank - 1; i >= 0; --i) {
    const int at = static_cast<int>(flat % out[i].lower);
    flat = static_cast<int>(flat / out[i].lower);
    const int k = i - (out.rank - s.rank);
    if (k < 0) continue;
    if (s[k].lower != 1) index += static_cast<int>(at * stride);
    stride *= s[k].lower;
  }
  return index;
}

}  // namespace ullage::ops::value_math
