/// Tensors that own their memory, and descriptions of what a model takes and gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ullage/dtype.h"
#include "ullage/tensor.h"

namespace ullage {

/// A dense, row-major tensor with memory of its own, aligned to 64 bytes. Types below a byte are packed, low
/// bits first; strings are std::string objects. Movable; copies are made by Clone() only. Not synchronised.
class Tensor {
 public:
  Tensor() = default;
  /// Memory for the shape, not initialised. Throws kInvalidInput for types without a fixed size (kString,
  /// kUndefined) and negative dimensions, kDoesNotFit when the machine has no room.
  Tensor(DType dtype, const Shape& shape);
  /// A copy of the elements, which must be as many as the shape has and of the size of the type
  /// (kInvalidInput).
  template <class T>
  static Tensor Of(DType dtype, const Shape& shape, std::span<const T> elements) {
    return FromBytes(dtype, shape, elements.data(), elements.size_bytes());
  }
  static Tensor FromBytes(DType dtype, const Shape& shape, const void* data, size_t bytes);
  /// A tensor of strings (kString).
  static Tensor OfStrings(const Shape& shape, std::span<const std::string> elements);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t elements() const { return shape_.elements(); }
  /// Of the memory behind data(); 0 for strings.
  size_t bytes() const { return bytes_; }
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  /// The elements; T must have the size of one element (kInvalidInput).
  template <class T>
  std::span<T> as() {
    RequireElementSize(sizeof(T));
    return {reinterpret_cast<T*>(data_.get()), bytes_ / sizeof(T)};
  }
  template <class T>
  std::span<const T> as() const {
    RequireElementSize(sizeof(T));
    return {reinterpret_cast<const T*>(data_.get()), bytes_ / sizeof(T)};
  }
  /// The elements of a tensor of strings; of another one it is kInvalidInput.
  std::span<const std::string> strings() const;
  Tensor Clone() const;

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  void RequireElementSize(size_t size) const;

  DType dtype_ = DType::kUndefined;
  Shape shape_;
  size_t bytes_ = 0;
  std::unique_ptr<std::byte, Free> data_;
  std::vector<std::string> strings_;
};

/// "Nothing bounds it."
inline constexpr int64_t kNoBound = INT64_MAX;

/// What is known of a dimension before a Run: lower <= size <= upper.
struct DimInfo {
  int64_t lower = 0;
  int64_t upper = kNoBound;
  std::string label;  ///< as the model names it; may be empty
};

/// One input or output of a model.
struct ValueInfo {
  std::string name;
  bool is_tensor = true;  ///< false: a sequence or an optional, which Run() neither takes nor gives
  DType dtype = DType::kUndefined;
  bool rank_known = true;  ///< false: `dims` is empty and says nothing
  std::vector<DimInfo> dims;
};

}  // namespace ullage
