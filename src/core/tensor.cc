#include "ullage/tensor.h"

#include "core/checked.h"

namespace ullage {

Shape::Shape(std::span<const int64_t> dims) {
  for (int64_t dim : dims) push_back(dim);
}

void Shape::push_back(int64_t dim) {
  if (rank_ == kMaxRank)
    Throw(Code::kInvalidModel, "a tensor of rank ", rank_ + 1, " or more; the limit is ", kMaxRank);
  dims_[rank_++] = dim;
}

int64_t Shape::elements() const {
  return elements(0, rank_);
}

int64_t Shape::elements(int first, int last) const {
  int64_t n = 1;
  for (int i = first; i < last; ++i) n = CheckedMul(n, dims_[i], "number of elements");
  return n;
}

std::string Shape::ToString() const {
  std::string s = "[";
  for (int i = 0; i < rank_; ++i) s += (i ? "," : "") + std::to_string(dims_[i]);
  return s + "]";
}

}  // namespace ullage
