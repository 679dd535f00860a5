/// Saturating interval arithmetic on ends alone. Internal to ops.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/bound.h"

namespace ullage::ops::interval {

struct Ends {
  int64_t lower = 0;
  int64_t upper = 0;
};

using Wide = __int128;

/// A lower end that overflows upwards stays a (weaker, true) number; downwards it becomes "none".
inline int64_t ClampLower(Wide n) {
  if (n <= -Wide{kUnbounded}) return -kUnbounded;
  return n >= kUnbounded ? kUnbounded - 1 : static_cast<int64_t>(n);
}

inline int64_t ClampUpper(Wide n) {
  if (n >= kUnbounded) return kUnbounded;
  return n <= -Wide{kUnbounded} ? -(kUnbounded - 1) : static_cast<int64_t>(n);
}

inline bool NoLower(const Ends& e) {
  return e.lower <= -kUnbounded;
}
inline bool NoUpper(const Ends& e) {
  return e.upper == kUnbounded;
}

inline Ends Add(const Ends& a, const Ends& b) {
  return {NoLower(a) || NoLower(b) ? -kUnbounded : ClampLower(Wide{a.lower} + b.lower),
          NoUpper(a) || NoUpper(b) ? kUnbounded : ClampUpper(Wide{a.upper} + b.upper)};
}

inline Ends Neg(const Ends& a) {
  return {NoUpper(a) ? -kUnbounded : ClampLower(-Wide{a.upper}),
          NoLower(a) ? kUnbounded : ClampUpper(-Wide{a.lower})};
}

inline Ends Mul(const Ends& a, const Ends& b) {
  // 0 times "unbounded" is 0, and anything else times it saturates: plain products do both.
  const Wide p[] = {Wide{a.lower} * b.lower, Wide{a.lower} * b.upper, Wide{a.upper} * b.lower,
                    Wide{a.upper} * b.upper};
  return {ClampLower(*std::min_element(p, p + 4)), ClampUpper(*std::max_element(p, p + 4))};
}

inline int64_t FloorDiv(int64_t a, int64_t n) {
  const int64_t q = a / n;
  return a % n != 0 && (a < 0) != (n < 0) ? q - 1 : q;
}

/// floor(a / n), n > 0.
inline Ends FloorDiv(const Ends& a, int64_t n) {
  return {NoLower(a) ? -kUnbounded : FloorDiv(a.lower, n), NoUpper(a) ? kUnbounded : FloorDiv(a.upper, n)};
}

inline Ends Max(const Ends& a, const Ends& b) {
  return {std::max(a.lower, b.lower), std::max(a.upper, b.upper)};
}

inline Ends Min(const Ends& a, const Ends& b) {
  return {std::min(a.lower, b.lower), std::min(a.upper, b.upper)};
}

/// Both statements hold. Contradicting statements leave `a`.
inline Ends Intersect(const Ends& a, const Ends& b) {
  const Ends r{std::max(a.lower, b.lower), std::min(a.upper, b.upper)};
  return r.lower > r.upper ? a : r;
}

inline Ends EndsOf(const Bound& b) {
  return {b.lower, b.upper};
}

}  // namespace ullage::ops::interval
