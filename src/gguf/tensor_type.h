/// The element types of tensors in GGUF files: numbers, names and block sizes. Source: the GGUF specification
/// and the ggml type list (the numbers are part of the file format).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ullage/dtype.h"

namespace ullage::gguf {

/// A type that can be read. A row of a tensor is a whole number of blocks, stored one after the other.
struct TensorType {
  uint32_t number;        ///< as stored in the file
  std::string_view name;  ///< lower case: "q4_1", "f32"; Constant::block_type for block types
  uint32_t block;         ///< elements in a block (1 for dense types)
  uint32_t block_bytes;   ///< bytes of a block
  DType dense;            ///< the dtype of dense types; kUndefined for block types

  bool is_dense() const { return dense != DType::kUndefined; }
};

/// The readable type of that number or name, or null. The numbers of block types are those of GgufType
/// (core/block_format.h).
const TensorType* FindTensorType(uint32_t number);
const TensorType* FindTensorType(std::string_view name);
/// The name of any type of the format, readable or not; "unknown" beyond the list.
std::string_view TensorTypeName(uint32_t number);
/// "f32, f16, q4_0, ...": for messages.
std::string ReadableTensorTypes();

}  // namespace ullage::gguf
