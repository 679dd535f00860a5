/// Element types in C++ and functions over them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/error.h"
#include "core/half.h"
#include "ullage/dtype.h"

namespace ullage::cpu {

/// Storage of 16-bit floats.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

template <class T>
struct Arithmetic {
  using Type = T;
};
template <>
struct Arithmetic<Half> {
  using Type = float;
};
template <>
struct Arithmetic<BFloat16> {
  using Type = float;
};

template <class T>
typename Arithmetic<T>::Type Load(T v) {
  if constexpr (std::is_same_v<T, Half>)
    return HalfToFloat(v.bits);
  else if constexpr (std::is_same_v<T, BFloat16>)
    return BFloat16ToFloat(v.bits);
  else
    return v;
}
template <class T>
T Store(typename Arithmetic<T>::Type v) {
  if constexpr (std::is_same_v<T, Half>)
    return {FloatToHalf(v)};
  else if constexpr (std::is_same_v<T, BFloat16>)
    return {FloatToBFloat16(v)};
  else
    return v;
}

/// Calls fn(T{}) with the C++ type of `dtype`; throws kUnsupported for types that are not in the list.
template <class Fn>
void ForNumber(DType dtype, const Fn& fn) {
  switch (dtype) {
    case DType::kFloat:
      return fn(float{});
    case DType::kDouble:
      return fn(double{});
    case DType::kFloat16:
      return fn(Half{});
    case DType::kBFloat16:
      return fn(BFloat16{});
    case DType::kInt8:
      return fn(int8_t{});
    case DType::kUInt8:
      return fn(uint8_t{});
    case DType::kInt16:
      return fn(int16_t{});
    case DType::kUInt16:
      return fn(uint16_t{});
    case DType::kInt32:
      return fn(int32_t{});
    case DType::kUInt32:
      return fn(uint32_t{});
    case DType::kInt64:
      return fn(int64_t{});
    case DType::kUInt64:
      return fn(uint64_t{});
    default:
      Throw(Code::kUnsupported, "elements of type ", NameOf(dtype));
  }
}
template <class Fn>
void ForNumberOrBool(DType dtype, const Fn& fn) {
  if (dtype == DType::kBool) return fn(bool{});
  ForNumber(dtype, fn);
}
/// By size only: data that is moved, not computed with.
template <class Fn>
void ForBytes(DType dtype, const Fn& fn) {
  switch (BitsOf(dtype)) {
    case 8:
      return fn(uint8_t{});
    case 16:
      return fn(uint16_t{});
    case 32:
      return fn(uint32_t{});
    case 64:
      return fn(uint64_t{});
    default:
      Throw(Code::kUnsupported, "elements of type ", NameOf(dtype));
  }
}

}  // namespace ullage::cpu
