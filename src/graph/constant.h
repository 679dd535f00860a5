/// Tensors that are part of the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ullage/tensor.h"

namespace ullage::graph {

/// A constant tensor: a view into a mapped file or into memory of its own. Immutable, shared, thread-safe.
/// Nothing is copied on load; bytes are only touched when data() is read.
///
/// Planning works without the weight files: then `bytes` is null and `absent` says why.
struct Constant {
  DType dtype = DType::kUndefined;
  Shape shape;
  /// Size of the data: BytesOf(dtype, elements), or what the file says for a GGUF block-quantised tensor.
  size_t size_bytes = 0;
  /// Name of the ggml block type ("q4_1") when the data are GGUF blocks; dtype is then kUInt8 and shape the
  /// logical one.
  std::string block_type;

  const std::byte* bytes = nullptr;
  /// Keeps `bytes` alive.
  std::shared_ptr<const void> owner;
  /// Where the bytes come from, for messages and caches; empty path when they were computed.
  std::string file;
  uint64_t file_offset = 0;
  /// Message for an error when `bytes` is null.
  std::string absent;

  bool available() const { return bytes != nullptr || size_bytes == 0; }
  /// The bytes; throws kInvalidModel with `absent` when there are none.
  std::span<const std::byte> data() const;

  /// Integer contents of an available kInt32 or kInt64 (or smaller integer, or bool) tensor.
  std::vector<int64_t> AsInts() const;
  /// Contents of an available floating-point or integer tensor as doubles. Meant for small tensors.
  std::vector<double> AsDoubles() const;

  int64_t elements() const { return shape.elements(); }
};

using ConstantPtr = std::shared_ptr<const Constant>;

/// A constant with memory of its own, zero-filled, and the place to fill it.
struct NewConstant {
  std::shared_ptr<Constant> constant;
  std::byte* data;
};
NewConstant MakeConstant(DType dtype, const Shape& shape);
/// Small tensors by value.
ConstantPtr MakeInts(const Shape& shape, std::span<const int64_t> values, DType dtype = DType::kInt64);
ConstantPtr MakeFloats(const Shape& shape, std::span<const float> values);
/// The same data under another shape of equally many elements.
ConstantPtr WithShape(const ConstantPtr& constant, const Shape& shape);

}  // namespace ullage::graph
