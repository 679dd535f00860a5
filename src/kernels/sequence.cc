#include "kernels/sequence.h"

#include <cstring>
#include <new>

#include "core/checked.h"
#include "core/error.h"

namespace ullage::kernels {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kMost = int64_t{1} << 53;

int64_t DataStart(int64_t capacity) {
  return AlignUp<int64_t>(kAlignment + capacity * static_cast<int64_t>(sizeof(Shape)), kAlignment);
}

int64_t StrideOf(int64_t element_bytes) {
  return AlignUp<int64_t>(element_bytes, kAlignment);
}

}  // namespace

int64_t Sequence::Bytes(int64_t capacity, int64_t element_bytes) {
  static_assert(sizeof(Header) <= kAlignment);
  if (capacity < 0 || element_bytes < 0 || element_bytes > kMost ||
      capacity > kMost / static_cast<int64_t>(sizeof(Shape)))
    return -1;
  int64_t data;
  if (__builtin_mul_overflow(capacity, StrideOf(element_bytes), &data) || data > kMost) return -1;
  return DataStart(capacity) + data;
}

Sequence Sequence::Format(void* data, DType dtype, int64_t capacity, int64_t element_bytes) {
  new (data) Header{0, capacity, StrideOf(element_bytes), dtype, 1};
  return Sequence(data);
}

Shape* Sequence::shapes() const {
  return reinterpret_cast<Shape*>(reinterpret_cast<std::byte*>(header_) + kAlignment);
}

std::byte* Sequence::element_data(int64_t k) const {
  return reinterpret_cast<std::byte*>(header_) + DataStart(header_->capacity) + k * header_->stride;
}

TensorView Sequence::at(int64_t k) const {
  return {element_data(k), header_->dtype, shapes()[k], 0};
}

TensorView Sequence::Add(const Shape& shape) {
  const auto bytes = static_cast<int64_t>(BytesOf(header_->dtype, shape.elements()));
  if (header_->size >= header_->capacity || bytes > header_->stride)
    Throw(Code::kRuntime, "a sequence of ", header_->capacity, " elements of ", header_->stride,
          " bytes has no room for element ", header_->size, " of ", bytes, " bytes");
  new (shapes() + header_->size) Shape(shape);
  return at(header_->size++);
}

void Sequence::Append(const TensorView& element) {
  if (element.dtype != header_->dtype)
    Throw(Code::kRuntime, "an element of type ", NameOf(element.dtype), " in a sequence of ",
          NameOf(header_->dtype));
  const TensorView to = Add(element.shape);
  if (to.bytes() > 0) std::memcpy(to.data, element.data, to.bytes());
}

void Sequence::Append(const Sequence& from, int64_t first, int64_t last) {
  for (int64_t k = first; k < last; ++k) Append(from.at(k));
}

}  // namespace ullage::kernels
