#include "kernels/value_bytes.h"

#include <algorithm>

#include "kernels/sequence.h"

namespace ullage::kernels {
namespace {

// A bound that no memory could hold is none, and sums of such sizes must not overflow.
constexpr int64_t kMostBits = int64_t{1} << 56;

}  // namespace

int64_t BytesUpper(const ops::ValueFacts& facts) {
  const int64_t elements = facts.shape.ElementsUpper();
  const int bits = BitsOf(facts.dtype);
  if (elements == ops::kUnbounded || bits == 0 || elements > kMostBits / bits) return -1;
  const auto bytes = static_cast<int64_t>(BytesOf(facts.dtype, elements));
  if (facts.kind == graph::TypeKind::kTensor) return bytes;
  return facts.length.bounded() ? Sequence::Bytes(facts.length.upper, bytes) : -1;
}

bool HasBoundedShape(const ops::ValueFacts& facts) {
  const auto& shape = facts.shape;
  return shape.known_rank() && std::all_of(shape.dims.begin(), shape.dims.begin() + shape.rank,
                                           [](const ops::Bound& d) { return d.bounded(); });
}

}  // namespace ullage::kernels
