/// Sequences and optionals of tensors in flat memory, so that they are planned, placed and copied as tensors
/// are: a header, the shapes of the elements, and their data at equal distances.
///
///     | header | shape 0 | shape 1 | … | data 0 … | data 1 … | …
///
/// A TensorView of one has the element type, the shape [], and data that point to the header. An optional
/// tensor is a sequence of at most one element. Not thread-safe; owns nothing.
#pragma once

#include <cstdint>

#include "ullage/tensor.h"

namespace ullage::kernels {

class Sequence {
 public:
  /// Bytes for so many elements of at most so many bytes each; -1 when that is more than memory could hold.
  static int64_t Bytes(int64_t capacity, int64_t element_bytes);
  /// An empty sequence in memory of Bytes(capacity, element_bytes), aligned to 64.
  static Sequence Format(void* data, DType dtype, int64_t capacity, int64_t element_bytes);

  /// What lies at `data`, formatted before.
  explicit Sequence(void* data) : header_(static_cast<Header*>(data)) {}
  explicit Sequence(const TensorView& view) : Sequence(view.data) {}

  int64_t size() const { return header_->size; }
  DType dtype() const { return header_->dtype; }
  /// False for an optional (of a sequence) that holds nothing, which size() does not tell.
  bool present() const { return header_->present != 0; }
  void set_present(bool present) { header_->present = present; }
  void* data() const { return header_; }
  /// Bytes in use.
  int64_t bytes() const { return Bytes(header_->capacity, header_->stride); }
  TensorView at(int64_t k) const;

  /// Each throws kRuntime when there is no room: too many elements, or one larger than planned.
  void Append(const TensorView& element);
  void Append(const Sequence& from, int64_t first, int64_t last);
  /// Room for an element of that shape at the end; its data are for the caller to write.
  TensorView Add(const Shape& shape);
  void Clear() { header_->size = 0; }

 private:
  struct Header {
    int64_t size;
    int64_t capacity;
    int64_t stride;
    DType dtype;
    int32_t present;
  };
  Shape* shapes() const;
  std::byte* element_data(int64_t k) const;

  Header* header_;
};

}  // namespace ullage::kernels
