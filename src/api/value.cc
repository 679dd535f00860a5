#include "ullage/value.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/checked.h"
#include "core/error.h"

namespace ullage {

namespace {
constexpr size_t kAlignment = 64;
}

Tensor::Tensor(DType dtype, const Shape& shape) : dtype_(dtype), shape_(shape) {
  if (BitsOf(dtype) == 0)
    Throw(Code::kInvalidInput, "a tensor of type ", NameOf(dtype), " has no fixed size");
  if (std::any_of(shape.begin(), shape.end(), [](int64_t d) { return d < 0; }))
    Throw(Code::kInvalidInput, "a tensor of shape ", shape.ToString());
  bytes_ = BytesOf(dtype, shape.elements());
  if (bytes_ == 0) return;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, AlignUp(bytes_, kAlignment))));
  if (!data_) Throw(Code::kDoesNotFit, "no memory for a tensor of ", bytes_, " bytes");
}

Tensor Tensor::FromBytes(DType dtype, const Shape& shape, const void* data, size_t bytes) {
  Tensor tensor(dtype, shape);
  if (bytes != tensor.bytes_)
    Throw(Code::kInvalidInput, "a tensor of type ", NameOf(dtype), " and shape ", shape.ToString(), " takes ",
          tensor.bytes_, " bytes, given were ", bytes);
  if (bytes > 0) std::memcpy(tensor.data_.get(), data, bytes);
  return tensor;
}

Tensor Tensor::OfStrings(const Shape& shape, std::span<const std::string> elements) {
  if (std::any_of(shape.begin(), shape.end(), [](int64_t d) { return d < 0; }) ||
      static_cast<size_t>(shape.elements()) != elements.size())
    Throw(Code::kInvalidInput, "a tensor of shape ", shape.ToString(), " from ", elements.size(), " strings");
  Tensor tensor;
  tensor.dtype_ = DType::kString;
  tensor.shape_ = shape;
  tensor.strings_.assign(elements.begin(), elements.end());
  return tensor;
}

std::span<const std::string> Tensor::strings() const {
  if (dtype_ != DType::kString)
    Throw(Code::kInvalidInput, "elements of type ", NameOf(dtype_), " read as strings");
  return strings_;
}

Tensor Tensor::Clone() const {
  if (dtype_ == DType::kUndefined) return {};
  return dtype_ == DType::kString ? OfStrings(shape_, strings_)
                                  : FromBytes(dtype_, shape_, data_.get(), bytes_);
}

void Tensor::RequireElementSize(size_t size) const {
  if (BitsOf(dtype_) != static_cast<int>(size * 8))
    Throw(Code::kInvalidInput, "elements of type ", NameOf(dtype_), " read as elements of ", size, " bytes");
}

void Tensor::Free::operator()(std::byte* p) const {
  std::free(p);
}

}  // namespace ullage
