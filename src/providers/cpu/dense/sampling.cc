#include "providers/cpu/dense/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "providers/cpu/dense/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/dense/sampling.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "providers/cpu/dense/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ullage::dense {
namespace HWY_NAMESPACE {
namespace {

/// Element i and the following; NaN and lanes beyond n as -inf.
HWY_INLINE VF LoadOrdered(const ConstArray& x, int64_t i, int64_t n) {
  const VF lowest = Set(-std::numeric_limits<float>::infinity());
  VF v = LoadAny(x.data, x.dtype, i, n);
  if (n < kLanes) v = hn::IfThenElse(hn::FirstN(DF(), static_cast<size_t>(n)), v, lowest);
  return hn::IfThenElse(hn::IsNaN(v), lowest, v);
}

}  // namespace

float Largest(const ConstArray& x, int64_t first, int64_t last) {
  VF m = Set(-std::numeric_limits<float>::infinity());
  for (int64_t i = first; i < last; i += kLanes) m = hn::Max(m, LoadOrdered(x, i, last - i));
  return MaxOf(m);
}

/// First index in [first, last) with a value above `bound`, or `last`; `or_equal`: at or above.
int64_t FindAbove(const ConstArray& x, int64_t first, int64_t last, float bound, bool or_equal) {
  const VF b = Set(bound);
  for (int64_t i = first; i < last; i += kLanes) {
    const VF v = LoadOrdered(x, i, last - i);
    const auto hit = or_equal ? hn::Ge(v, b) : hn::Gt(v, b);
    const intptr_t lane = hn::FindFirstTrue(DF(), hit);
    if (lane >= 0 && i + lane < last) return i + lane;
  }
  return last;
}

/// Sum of exp(scale * (x - shift)), in double per piece of the array.
double SumExp(const ConstArray& x, int64_t n, float shift, float scale) {
  constexpr int64_t kPiece = 1024;
  double total = 0;
  for (int64_t first = 0; first < n; first += kPiece) {
    const int64_t last = std::min(n, first + kPiece);
    VF sum = Zero();
    for (int64_t i = first; i < last; i += kLanes) {
      const VF v = LoadOrdered(x, i, last - i);
      sum = hn::Add(sum, Exp(hn::Mul(Set(scale), hn::Sub(v, Set(shift)))));
    }
    total += static_cast<double>(SumOf(sum));
  }
  return total;
}

}  // namespace HWY_NAMESPACE
}  // namespace ullage::dense
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ullage::dense {

HWY_EXPORT(Largest);
HWY_EXPORT(FindAbove);
HWY_EXPORT(SumExp);

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Candidate {
  float value;
  int64_t index;
};
/// Better ones first.
bool Before(const Candidate& a, const Candidate& b) {
  return a.value != b.value ? a.value > b.value : a.index < b.index;
}

/// Candidates gathered before the worse half is thrown away.
int64_t BufferSize(int64_t n, int64_t k) {
  return std::min(n, k + std::max<int64_t>(k, 64));
}

float ValueAt(const ConstArray& x, int64_t i) {
  float v;
  if (x.dtype == DType::kFloat) {
    v = static_cast<const float*>(x.data)[i];
  } else {
    const uint16_t h = static_cast<const uint16_t*>(x.data)[i];
    v = x.dtype == DType::kFloat16 ? HalfToFloat(h) : BFloat16ToFloat(h);
  }
  return std::isnan(v) ? -kInfinity : v;
}

}  // namespace

int64_t ArgMax(ConstArray logits, int64_t n) {
  ElementBytes(logits.dtype);
  constexpr int64_t kPiece = 4096;  // small enough to be found again in the first-level cache
  float best = -kInfinity;
  int64_t best_piece = 0;
  for (int64_t i = 0; i < n; i += kPiece) {
    const float m = HWY_DYNAMIC_DISPATCH(Largest)(logits, i, std::min(n, i + kPiece));
    if (m > best) {
      best = m;
      best_piece = i;
    }
  }
  return HWY_DYNAMIC_DISPATCH(FindAbove)(logits, best_piece, n, best, true);
}

size_t TopKScratchBytes(int64_t n, int64_t k) {
  return static_cast<size_t>(std::max<int64_t>(0, BufferSize(n, std::min(n, k)))) * sizeof(Candidate);
}

int64_t TopK(ConstArray logits, int64_t n, int64_t k, int64_t* indices, float* values, void* scratch) {
  ElementBytes(logits.dtype);
  k = std::min(n, k);
  if (k <= 0) return 0;
  auto* kept = static_cast<Candidate*>(scratch);
  const int64_t size = BufferSize(n, k);
  int64_t count = 0, i = 0;
  for (; count < k; ++i) kept[count++] = {ValueAt(logits, i), i};
  // From here on only values above the k-th best seen so far matter: an equal one has a larger index.
  float bound = std::min_element(kept, kept + k, [](const Candidate& a, const Candidate& b) {
                  return a.value < b.value;
                })->value;
  for (;;) {
    i = HWY_DYNAMIC_DISPATCH(FindAbove)(logits, i, n, bound, false);
    if (i == n) break;
    if (count == size) {
      std::nth_element(kept, kept + (k - 1), kept + count, Before);
      bound = kept[k - 1].value;
      count = k;
      if (!(ValueAt(logits, i) > bound)) {
        ++i;
        continue;
      }
    }
    kept[count++] = {ValueAt(logits, i), i};
    ++i;
  }
  std::nth_element(kept, kept + (k - 1), kept + count, Before);
  std::sort(kept, kept + k, Before);
  for (int64_t j = 0; j < k; ++j) {
    indices[j] = kept[j].index;
    values[j] = kept[j].value;
  }
  return k;
}

double LogSumExp(ConstArray logits, int64_t n, double temperature) {
  ElementBytes(logits.dtype);
  const float m = HWY_DYNAMIC_DISPATCH(Largest)(logits, 0, n);
  if (m == -kInfinity) return -std::numeric_limits<double>::infinity();
  const double sum = HWY_DYNAMIC_DISPATCH(SumExp)(logits, n, m, static_cast<float>(1 / temperature));
  return static_cast<double>(m) / temperature + std::log(sum);
}

double LogSoftmaxAt(ConstArray logits, int64_t n, int64_t index) {
  return static_cast<double>(ValueAt(logits, index)) - LogSumExp(logits, n);
}

}  // namespace ullage::dense
#endif
