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

void Tensor::RequireElementSize(size_t size) const {
  if (BitsOf(dtype_) != static_cast<int>(size * 8))
    Throw(Code::kInvalidInput, "elements of type ", NameOf(dtype_), " read as elements of ", size, " bytes");
}

void Tensor::Free::operator()(std::byte* p) const {
  std::free(p);
}

}  // namespace ullage
