/// Shapes and strides as the programs take them (dims8 and strides8 of common.cl).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "host.h"

namespace ullage_opencl {

struct Dims {
  int32_t rank = 0;
  uint32_t d[kMaxRank] = {};
};
struct Strides {
  int64_t s[kMaxRank] = {};
};

/// Dense strides of a shape.
std::vector<int64_t> DenseStrides(const int64_t* dims, int rank);

/// A walk over `dims` (the last one fastest) with strides per tensor; neighbouring dimensions that all
/// tensors pass through alike are joined.
struct Walk {
  Dims dims;
  std::vector<Strides> strides;
  int64_t count = 1;

  Walk(const std::vector<int64_t>& shape, const std::vector<std::vector<int64_t>>& strides_of);
};

/// Strides of a tensor that spreads over `shape` numpy's way; 0 where it repeats.
std::vector<int64_t> SpreadStrides(const Tensor& tensor, const std::vector<int64_t>& shape);

std::vector<int64_t> ShapeOf(const Tensor& tensor);

/// The number as the programs count elements; throws where it is too large.
uint32_t Count(int64_t elements);

}  // namespace ullage_opencl
