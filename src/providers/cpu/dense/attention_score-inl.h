// Steps between scores and weights that the attention paths share; compiled once per instruction set.

#if defined(ULLAGE_DENSE_ATTENTION_SCORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ULLAGE_DENSE_ATTENTION_SCORE_INL_H_
#undef ULLAGE_DENSE_ATTENTION_SCORE_INL_H_
#else
#define ULLAGE_DENSE_ATTENTION_SCORE_INL_H_
#endif

#include <limits>

#include "providers/cpu/dense/attention_internal.h"
#include "providers/cpu/dense/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ullage::dense {
namespace HWY_NAMESPACE {

inline constexpr float kNegativeInfinity = -std::numeric_limits<float>::infinity();

/// What is subtracted before exp: 0 where nothing was seen, so that exp(-inf - 0) = 0.
HWY_INLINE VF SafeShift(VF m) {
  return hn::IfThenZeroElse(hn::Eq(m, Set(kNegativeInfinity)), m);
}
HWY_INLINE float SafeShift(float m) {
  return m == kNegativeInfinity ? 0 : m;
}

/// exp of one number with the same bits as the vectors give.
HWY_INLINE float ExpOne(float x) {
  return hn::GetLane(ExpNegative(Set(x)));
}

HWY_INLINE VF Softcap(VF x, float cap) {
  return cap > 0 ? hn::Mul(Set(cap), Tanh(hn::Div(x, Set(cap)))) : x;
}

/// The bias at one element: bool masks become 0 or -inf.
HWY_INLINE float BiasAt(const AttentionArgs& a, int64_t i) {
  if (a.bias.dtype == DType::kBool)
    return static_cast<const uint8_t*>(a.bias.data)[i] != 0 ? 0 : kNegativeInfinity;
  return GetAny(a.bias.data, a.bias.dtype, i);
}

/// The extra logit of a query head; only where HasSink(a).
HWY_INLINE float SinkOf(const AttentionArgs& a, int64_t n) {
  return a.head_sink.data != nullptr ? GetAny(a.head_sink.data, a.head_sink.dtype, n) : 0;
}

}  // namespace HWY_NAMESPACE
}  // namespace ullage::dense
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
