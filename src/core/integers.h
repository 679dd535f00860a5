/// Elements of integer tensors whose type is known at run time only.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/error.h"
#include "ullage/tensor.h"

namespace ullage {

/// Element i of an integer or bool tensor, which need not be aligned; throws kRuntime for other types.
inline int64_t IntAt(const TensorView& view, int64_t i) {
  const auto load = [&](auto v) {
    std::memcpy(&v, view.as<char>() + static_cast<size_t>(i) * sizeof v, sizeof v);
    return static_cast<int64_t>(v);
  };
  switch (view.dtype) {
    case DType::kInt64:
      return load(int64_t{});
    case DType::kInt32:
      return load(int32_t{});
    case DType::kInt16:
      return load(int16_t{});
    case DType::kInt8:
      return load(int8_t{});
    case DType::kUInt8:
    case DType::kBool:
      return load(uint8_t{});
    case DType::kUInt16:
      return load(uint16_t{});
    case DType::kUInt32:
      return load(uint32_t{});
    case DType::kUInt64:
      return load(uint64_t{});
    default:
      Throw(Code::kRuntime, "expected an integer tensor, found ", NameOf(view.dtype));
  }
}

}  // namespace ullage
