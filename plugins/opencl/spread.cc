#include "spread.h"

#include <algorithm>

namespace ullage_opencl {

std::vector<int64_t> DenseStrides(const int64_t* dims, int rank) {
  std::vector<int64_t> strides(static_cast<size_t>(rank));
  int64_t step = 1;
  for (int i = rank; i-- > 0;) {
    strides[static_cast<size_t>(i)] = step;
    step *= dims[i];
  }
  return strides;
}

Walk::Walk(const std::vector<int64_t>& shape, const std::vector<std::vector<int64_t>>& strides_of)
    : strides(strides_of.size()) {
  for (int64_t d : shape) count *= d;
  // From the last dimension; each is joined to the one inside where every tensor allows it.
  std::vector<int64_t> joined;
  std::vector<std::vector<int64_t>> steps(strides_of.size());
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;
    bool joins = !joined.empty();
    for (size_t t = 0; t < strides_of.size(); ++t)
      joins = joins && strides_of[t][i] == steps[t].back() * joined.back();
    if (joins) {
      joined.back() *= shape[i];
      continue;
    }
    joined.push_back(shape[i]);
    for (size_t t = 0; t < strides_of.size(); ++t) steps[t].push_back(strides_of[t][i]);
  }
  if (joined.empty()) {
    joined.push_back(1);
    for (auto& s : steps) s.push_back(0);
  }
  if (joined.size() > kMaxRank) Fail(ULLAGE_UNSUPPORTED, "more than 8 dimensions");
  dims.rank = static_cast<int32_t>(joined.size());
  for (size_t i = 0; i < joined.size(); ++i) {
    const size_t to = joined.size() - 1 - i;
    dims.d[to] = Count(joined[i]);
    for (size_t t = 0; t < steps.size(); ++t) strides[t].s[to] = steps[t][i];
  }
}

std::vector<int64_t> SpreadStrides(const Tensor& tensor, const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 0);
  const auto dense = DenseStrides(tensor.dims.data(), tensor.rank);
  const size_t lead = shape.size() - static_cast<size_t>(tensor.rank);
  for (size_t i = 0; i < dense.size(); ++i) {
    const int64_t d = tensor.dims[i];
    if (d != shape[lead + i] && d != 1)
      Fail(ULLAGE_INVALID_ARGUMENT,
           "a tensor of shape " + tensor.ToString() + " does not spread over the result");
    strides[lead + i] = d == 1 ? 0 : dense[i];
  }
  return strides;
}

std::vector<int64_t> ShapeOf(const Tensor& tensor) {
  return {tensor.dims.begin(), tensor.dims.begin() + tensor.rank};
}

uint32_t Count(int64_t elements) {
  if (elements < 0 || elements > UINT32_MAX)
    Fail(ULLAGE_UNSUPPORTED, "a tensor of " + std::to_string(elements) + " elements");
  return static_cast<uint32_t>(elements);
}

}  // namespace ullage_opencl
