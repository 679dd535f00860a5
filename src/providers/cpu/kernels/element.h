/// Single elements of tensors as numbers, whatever their type. Not for loops that are hot.
#pragma once

#include "providers/cpu/kernels/types.h"
#include "ullage/tensor.h"

namespace ullage::cpu {

inline double NumberOf(const TensorView& v, int64_t i) {
  double d = 0;
  ForNumber(v.dtype, [&](auto t) { d = static_cast<double>(Load(v.as<decltype(t)>()[i])); });
  return d;
}

}  // namespace ullage::cpu
