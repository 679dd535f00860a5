/// Integer arithmetic that reports overflow instead of wrapping.
#pragma once

#include <cstdint>
#include <optional>

#include "core/error.h"

namespace ullage {

/// a * b; throws kInvalidModel naming `what` when the result does not fit.
template <class T>
T CheckedMul(T a, T b, const char* what = "size") {
  T r;
  if (__builtin_mul_overflow(a, b, &r)) Throw(Code::kInvalidModel, what, " overflows: ", a, " * ", b);
  return r;
}

/// a + b; throws kInvalidModel naming `what` when the result does not fit.
template <class T>
T CheckedAdd(T a, T b, const char* what = "size") {
  T r;
  if (__builtin_add_overflow(a, b, &r)) Throw(Code::kInvalidModel, what, " overflows: ", a, " + ", b);
  return r;
}

/// Rounds up to a multiple of `alignment` (> 0).
template <class T>
constexpr T AlignUp(T value, T alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

template <class T>
constexpr T CeilDiv(T a, T b) {
  return (a + b - 1) / b;
}

}  // namespace ullage
