// Loads, stores and float functions shared by the dense kernels; compiled once per instruction set.
//
// An element type is a policy class: T is what is stored, Load and Store convert to and from a vector of
// floats.

#if defined(ULLAGE_DENSE_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ULLAGE_DENSE_SIMD_INL_H_
#undef ULLAGE_DENSE_SIMD_INL_H_
#else
#define ULLAGE_DENSE_SIMD_INL_H_
#endif

#include <cmath>
#include <cstring>

#include "core/half.h"
#include "hwy/highway.h"
#include "ullage/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace ullage::dense {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<DF>;
using DU = hn::RebindToUnsigned<DF>;
using VF = hn::Vec<DF>;

inline constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(DF()));

HWY_INLINE VF Set(float x) {
  return hn::Set(DF(), x);
}
HWY_INLINE VF Zero() {
  return hn::Zero(DF());
}

struct F32 {
  using T = float;
  static constexpr DType kDType = DType::kFloat;
  template <class D>
  static HWY_INLINE hn::Vec<D> LoadAs(D d, const T* p) {
    return hn::LoadU(d, p);
  }
  template <class D>
  static HWY_INLINE void StoreAs(D d, hn::Vec<D> v, T* p) {
    hn::StoreU(v, d, p);
  }
  static HWY_INLINE float Get(T x) { return x; }
  static HWY_INLINE T Make(float x) { return x; }
};

struct F16 {
  using T = uint16_t;
  static constexpr DType kDType = DType::kFloat16;
  template <class D>
  static HWY_INLINE hn::Vec<D> LoadAs(D d, const T* p) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
    HWY_ALIGN float f[hn::MaxLanes(d)];
    for (size_t i = 0; i < hn::MaxLanes(d); ++i) f[i] = HalfToFloat(p[i]);
    return hn::Load(d, f);
#else
    const hn::Rebind<hwy::float16_t, D> dh;
    return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(p)));
#endif
  }
  template <class D>
  static HWY_INLINE void StoreAs(D d, hn::Vec<D> v, T* p) {
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
    HWY_ALIGN float f[hn::MaxLanes(d)];
    hn::Store(v, d, f);
    for (size_t i = 0; i < hn::MaxLanes(d); ++i) p[i] = FloatToHalf(f[i]);
#else
    const hn::Rebind<hwy::float16_t, D> dh;
    hn::StoreU(hn::DemoteTo(dh, v), dh, reinterpret_cast<hwy::float16_t*>(p));
#endif
  }
  static HWY_INLINE float Get(T x) {
    return HalfToFloat(x);
  }
  static HWY_INLINE T Make(float x) {
    return FloatToHalf(x);
  }
};

struct BF16 {
  using T = uint16_t;
  static constexpr DType kDType = DType::kBFloat16;
  template <class D>
  static HWY_INLINE hn::Vec<D> LoadAs(D d, const T* p) {
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<uint16_t, D> dh;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, p))));
  }
  template <class D>
  static HWY_INLINE void StoreAs(D /*tag*/, hn::Vec<D> v, T* p) {
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const hn::Rebind<uint16_t, D> dh;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu))));
    const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40u));
    const auto nan = hn::RebindMask(du, hn::IsNaN(v));
    hn::StoreU(hn::DemoteTo(dh, hn::BitCast(di, hn::IfThenElse(nan, quiet, rounded))), dh, p);
  }
  static HWY_INLINE float Get(T x) { return BFloat16ToFloat(x); }
  static HWY_INLINE T Make(float x) { return FloatToBFloat16(x); }
};

template <class E>
HWY_INLINE VF Load(const typename E::T* p) {
  return E::LoadAs(DF(), p);
}
template <class E>
HWY_INLINE void Store(VF v, typename E::T* p) {
  E::StoreAs(DF(), v, p);
}

/// The first n < kLanes elements; the other lanes are 0. Touches no memory beyond them.
template <class E>
HWY_INLINE VF LoadFirst(const typename E::T* p, int64_t n) {
  HWY_ALIGN typename E::T buffer[kLanes] = {};
  std::memcpy(buffer, p, static_cast<size_t>(n) * sizeof(typename E::T));
  return Load<E>(buffer);
}
template <class E>
HWY_INLINE void StoreFirst(VF v, typename E::T* p, int64_t n) {
  HWY_ALIGN typename E::T buffer[kLanes];
  Store<E>(v, buffer);
  std::memcpy(p, buffer, static_cast<size_t>(n) * sizeof(typename E::T));
}

/// Calls fn(policy) with the policy of the element type.
template <class Fn>
HWY_INLINE void WithType(DType dtype, const Fn& fn) {
  if (dtype == DType::kFloat16) {
    fn(F16());
  } else if (dtype == DType::kBFloat16) {
    fn(BF16());
  } else {
    fn(F32());
  }
}

/// Element i and the following of an array of any type; one well predicted branch per vector.
HWY_INLINE VF LoadAny(const void* p, DType dtype, int64_t i) {
  if (dtype == DType::kFloat) return Load<F32>(static_cast<const float*>(p) + i);
  if (dtype == DType::kFloat16) return Load<F16>(static_cast<const uint16_t*>(p) + i);
  return Load<BF16>(static_cast<const uint16_t*>(p) + i);
}
HWY_INLINE VF LoadAny(const void* p, DType dtype, int64_t i, int64_t n) {
  if (n >= kLanes) return LoadAny(p, dtype, i);
  if (dtype == DType::kFloat) return LoadFirst<F32>(static_cast<const float*>(p) + i, n);
  if (dtype == DType::kFloat16) return LoadFirst<F16>(static_cast<const uint16_t*>(p) + i, n);
  return LoadFirst<BF16>(static_cast<const uint16_t*>(p) + i, n);
}
/// Stores the first n lanes (all when n >= kLanes) from element i on.
HWY_INLINE void StoreAny(VF v, void* p, DType dtype, int64_t i, int64_t n) {
  const bool all = n >= kLanes;
  if (dtype == DType::kFloat) {
    float* f = static_cast<float*>(p) + i;
    all ? Store<F32>(v, f) : StoreFirst<F32>(v, f, n);
  } else if (dtype == DType::kFloat16) {
    uint16_t* h = static_cast<uint16_t*>(p) + i;
    all ? Store<F16>(v, h) : StoreFirst<F16>(v, h, n);
  } else {
    uint16_t* h = static_cast<uint16_t*>(p) + i;
    all ? Store<BF16>(v, h) : StoreFirst<BF16>(v, h, n);
  }
}
HWY_INLINE float GetAny(const void* p, DType dtype, int64_t i) {
  if (dtype == DType::kFloat) return static_cast<const float*>(p)[i];
  const uint16_t h = static_cast<const uint16_t*>(p)[i];
  return dtype == DType::kFloat16 ? HalfToFloat(h) : BFloat16ToFloat(h);
}
HWY_INLINE void SetAny(void* p, DType dtype, int64_t i, float x) {
  if (dtype == DType::kFloat) {
    static_cast<float*>(p)[i] = x;
  } else {
    static_cast<uint16_t*>(p)[i] = dtype == DType::kFloat16 ? FloatToHalf(x) : FloatToBFloat16(x);
  }
}

/// What storing as E and loading again gives.
template <class E>
HWY_INLINE VF RoundTo(VF v) {
  if constexpr (E::kDType == DType::kFloat) {
    return v;
  } else {
    HWY_ALIGN typename E::T buffer[kLanes];
    Store<E>(v, buffer);
    return Load<E>(buffer);
  }
}

HWY_INLINE float SumOf(VF v) {
  return hn::GetLane(hn::SumOfLanes(DF(), v));
}
HWY_INLINE float MaxOf(VF v) {
  return hn::GetLane(hn::MaxOfLanes(DF(), v));
}

/// max(a, x), which is NaN where x is NaN.
HWY_INLINE VF MaxKeepNaN(VF a, VF x) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
  return hn::Max(a, x);  // returns its second operand when one is NaN
#else
  return hn::IfThenElse(hn::Lt(x, a), a, x);
#endif
}
HWY_INLINE VF MinKeepNaN(VF a, VF x) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
  return hn::Min(a, x);
#else
  return hn::IfThenElse(hn::Gt(x, a), a, x);
#endif
}

/// 2^n for n in [-126, 127].
HWY_INLINE VF PowerOfTwo(hn::Vec<DI> n) {
  return hn::BitCast(DF(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(DI(), 127))));
}

struct ExpParts {
  VF p;           ///< e^r - 1 for the remainder r in [-ln2/2, ln2/2]
  hn::Vec<DI> n;  ///< e^x = 2^n (1 + p)
};
HWY_INLINE ExpParts ExpReduce(VF x) {
  const auto n = hn::NearestInt(hn::Mul(x, Set(1.44269504f)));
  const VF nf = hn::ConvertTo(DF(), n);
  VF r = hn::NegMulAdd(nf, Set(0x1.62e4p-1f), x);  // ln 2 in two parts, the first exact in the product
  r = hn::NegMulAdd(nf, Set(0x1.7f7d1cp-20f), r);
  VF q = hn::MulAdd(Set(0.0013950486f), r, Set(0.0083688879f));  // (e^r - 1 - r) / r^2, error 3e-9
  q = hn::MulAdd(q, r, Set(0.041666206f));
  q = hn::MulAdd(q, r, Set(0.16666518f));
  q = hn::MulAdd(q, r, Set(0.5f));
  return {hn::MulAdd(hn::Mul(r, r), q, r), n};
}

/// e^x: 0 and subnormals below, infinity above, NaN for NaN. About 1 ulp.
HWY_INLINE VF Exp(VF x) {
  x = MinKeepNaN(Set(89.0f), MaxKeepNaN(Set(-104.0f), x));
  const ExpParts e = ExpReduce(x);
  const auto half = hn::ShiftRight<1>(e.n);  // two steps: 2^n alone may be out of range
  const VF scaled = hn::MulAdd(PowerOfTwo(half), e.p, PowerOfTwo(half));
  return hn::Mul(scaled, PowerOfTwo(hn::Sub(e.n, half)));
}

/// e^x for x <= 0, made for softmax weights: fewer steps, an error below 4e-7, 0 from -86 down, NaN for NaN.
HWY_INLINE VF ExpNegative(VF x) {
  const VF magic = Set(0x1.8p23f + 127);  // puts the rounded exponent, biased, into the lowest bits
  const VF t = hn::MulAdd(x, Set(1.44269504f), magic);
  const VF r = hn::NegMulAdd(hn::Sub(t, magic), Set(0.693147181f), x);
  VF p = hn::MulAdd(Set(0.008374515f), r, Set(0.041898351f));  // e^r, error 1e-7
  p = hn::MulAdd(p, r, Set(0.16666459f));
  p = hn::MulAdd(p, r, Set(0.49999148f));
  p = hn::MulAdd(p, r, Set(1.0f));
  p = hn::MulAdd(p, r, Set(1.0f));
  const VF scale = hn::BitCast(DF(), hn::ShiftLeft<23>(hn::BitCast(DI(), t)));
  return hn::IfThenZeroElse(hn::Lt(x, Set(-86.0f)), hn::Mul(p, scale));
}

HWY_INLINE VF Tanh(VF x) {
  const VF a = MinKeepNaN(Set(9.5f), hn::Abs(x));
  const ExpParts e = ExpReduce(hn::Mul(a, Set(-2.0f)));
  const VF s = PowerOfTwo(e.n);
  const VF m = hn::MulAdd(s, e.p, hn::Sub(s, Set(1.0f)));  // e^-2a - 1, accurate near 0
  return hn::CopySign(hn::Div(hn::Neg(m), hn::Add(m, Set(2.0f))), x);
}

HWY_INLINE VF Sigmoid(VF x) {
  const VF one = Set(1.0f), e = Exp(hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, Zero()), e, one), hn::Add(one, e));
}

/// x * x - square without rounding, where square is the rounded x * x.
HWY_INLINE VF SquareRest(VF x, VF square) {
#if HWY_TARGET == HWY_SCALAR
  const float v = hn::GetLane(x);  // its MulSub rounds twice
  return Set(std::fma(v, v, -hn::GetLane(square)));
#else
  return hn::MulSub(x, x, square);
#endif
}

/// erfc(z) for z in [0, 10.4] with a small relative error: a fit of erfcx in t = 1 / (1 + 0.4 z), times
/// e^-(z^2), where z^2 is given as square + rest, since its rounding would be multiplied by it.
HWY_INLINE VF ErfcPositive(VF z, VF square, VF rest) {
  const VF t = hn::Div(Set(1.0f), hn::MulAdd(z, Set(0.4f), Set(1.0f)));
  const VF s = hn::MulAdd(t, Set(2.0f), Set(-1.0f));
  VF p = hn::MulAdd(Set(-5.5930545e-05f), s, Set(0.00024982801f));
  p = hn::MulAdd(p, s, Set(0.00021037113f));
  p = hn::MulAdd(p, s, Set(-0.0019204159f));
  p = hn::MulAdd(p, s, Set(-0.0033688962f));
  p = hn::MulAdd(p, s, Set(0.011344028f));
  p = hn::MulAdd(p, s, Set(0.068501934f));
  p = hn::MulAdd(p, s, Set(0.18156567f));
  p = hn::MulAdd(p, s, Set(0.3218607f));
  p = hn::MulAdd(p, s, Set(0.42161274f));
  const VF e = Exp(hn::Neg(square));
  return hn::Mul(hn::Mul(t, p), hn::NegMulAdd(e, rest, e));
}

HWY_INLINE VF Erf(VF x) {
  const VF a = hn::Abs(x);
  const VF y = hn::Mul(x, x);
  VF p = hn::MulAdd(Set(7.854025e-05f), y, Set(-0.00080102473f));  // erf(x)/x on [-1, 1], error 1.2e-9
  p = hn::MulAdd(p, y, Set(0.0051883343f));
  p = hn::MulAdd(p, y, Set(-0.026853817f));
  p = hn::MulAdd(p, y, Set(0.11283585f));
  p = hn::MulAdd(p, y, Set(-0.37612626f));
  p = hn::MulAdd(p, y, Set(1.1283791f));
  const VF z = MinKeepNaN(Set(10.4f), a), square = hn::Mul(z, z);
  const VF tail = ErfcPositive(z, square, SquareRest(z, square));
  const VF large = hn::CopySign(hn::Sub(Set(1.0f), tail), x);
  return hn::IfThenElse(hn::Gt(a, Set(1.0f)), large, hn::Mul(x, p));
}

HWY_INLINE VF GeluErf(VF x) {
  const VF a = MinKeepNaN(Set(14.7f), hn::Abs(x)), half = Set(0.5f);
  const VF square = hn::Mul(a, a), rest = SquareRest(a, square);
  // twice the tail probability of |x|
  const VF c = ErfcPositive(hn::Mul(a, Set(0.70710678f)), hn::Mul(half, square), hn::Mul(half, rest));
  const VF phi = hn::IfThenElse(hn::Lt(x, Zero()), c, hn::Sub(Set(2.0f), c));
  return hn::Mul(hn::Mul(x, half), phi);
}

HWY_INLINE VF GeluTanh(VF x) {
  const VF cube = hn::MulAdd(hn::Mul(x, x), Set(0.044715f), Set(1.0f));
  // x/2 (1 + tanh u) = x / (1 + e^-2u), without the cancellation of 1 + tanh near -1
  return hn::Mul(x, Sigmoid(hn::Mul(hn::Mul(x, Set(1.5957691f)), cube)));
}

/// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|); the logarithm as 2 atanh(t / (2 + t)).
HWY_INLINE VF Softplus(VF x) {
  const VF t = Exp(hn::Neg(hn::Abs(x)));
  const VF s = hn::Div(t, hn::Add(t, Set(2.0f)));
  const VF y = hn::Mul(s, s);
  VF p = hn::MulAdd(Set(0.28177723f), y, Set(0.27960756f));  // 2 atanh(s) / s on (0, 1/3], error 4e-9
  p = hn::MulAdd(p, y, Set(0.40024897f));
  p = hn::MulAdd(p, y, Set(0.66666317f));
  p = hn::MulAdd(p, y, Set(2.0f));
  return hn::MulAdd(s, p, MaxKeepNaN(Zero(), x));
}

/// out[j * pitch + i] = row i, element j, of four rows of four elements.
template <class E>
HWY_INLINE void Transpose4(const typename E::T* r0, const typename E::T* r1, const typename E::T* r2,
                           const typename E::T* r3, float* out, int64_t pitch) {
#if HWY_TARGET == HWY_SCALAR
  const typename E::T* rows[4] = {r0, r1, r2, r3};
  for (int64_t j = 0; j < 4; ++j)
    for (int64_t i = 0; i < 4; ++i) out[j * pitch + i] = E::Get(rows[i][j]);
#else
  const hn::FixedTag<float, 4> d4;
  const hn::RepartitionToWide<decltype(d4)> d2;
  const auto a = E::LoadAs(d4, r0), b = E::LoadAs(d4, r1), c = E::LoadAs(d4, r2), d = E::LoadAs(d4, r3);
  const auto ab_lo = hn::BitCast(d2, hn::InterleaveLower(d4, a, b));  // a0 b0 a1 b1
  const auto ab_hi = hn::BitCast(d2, hn::InterleaveUpper(d4, a, b));
  const auto cd_lo = hn::BitCast(d2, hn::InterleaveLower(d4, c, d));
  const auto cd_hi = hn::BitCast(d2, hn::InterleaveUpper(d4, c, d));
  hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(d2, ab_lo, cd_lo)), d4, out);
  hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(d2, ab_lo, cd_lo)), d4, out + pitch);
  hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(d2, ab_hi, cd_hi)), d4, out + 2 * pitch);
  hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(d2, ab_hi, cd_hi)), d4, out + 3 * pitch);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace ullage::dense
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
