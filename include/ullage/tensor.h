/// Shapes and tensor views. A view never owns its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "ullage/dtype.h"

namespace ullage {

/// Largest rank that a tensor may have; a model with more is refused on import.
inline constexpr int kMaxRank = 12;

/// A concrete shape. Plain data, no heap. Dimensions are >= 0.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  /// Throws kInvalidModel when there are more than kMaxRank dimensions.
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[i]; }
  int64_t& operator[](int i) { return dims_[i]; }
  /// Dimension i, where a negative i counts from the end (-1 is the last).
  int64_t at(int i) const { return dims_[i < 0 ? i + rank_ : i]; }
  std::span<const int64_t> dims() const { return {dims_, static_cast<size_t>(rank_)}; }
  const int64_t* begin() const { return dims_; }
  const int64_t* end() const { return dims_ + rank_; }
  /// Appends one dimension; throws kInvalidModel beyond kMaxRank.
  void push_back(int64_t dim);
  /// Number of elements (1 for a scalar); throws kInvalidModel on overflow.
  int64_t elements() const;
  /// Product of the dimensions in [first, last).
  int64_t elements(int first, int last) const;
  /// "[2,3]"
  std::string ToString() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a.dims_[i] != b.dims_[i]) return false;
    return true;
  }

 private:
  int rank_ = 0;
  int64_t dims_[kMaxRank] = {};
};

/// A dense, row-major tensor in memory that somebody else owns. Copying the view copies no data.
///
/// `capacity` serves key/value caches: where it is not 0, axis rank-2 has room for `capacity` rows in memory
/// although only shape[rank-2] are valid, so that the stride of axis rank-3 is capacity * shape[rank-1]
/// elements. Only kernels that announce it receive such views (see kernels/kernel.h).
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kUndefined;
  Shape shape;
  int64_t capacity = 0;

  int64_t elements() const { return shape.elements(); }
  size_t bytes() const { return BytesOf(dtype, shape.elements()); }
  template <class T>
  T* as() {
    return static_cast<T*>(data);
  }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
};

}  // namespace ullage
