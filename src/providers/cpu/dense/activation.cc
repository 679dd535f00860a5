#include <algorithm>

#include "core/checked.h"
#include "providers/cpu/dense/elementwise.h"
#include "providers/cpu/dense/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/dense/activation.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "providers/cpu/dense/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ullage::dense {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE VF Relu(VF x) {
  return MaxKeepNaN(Zero(), x);
}

template <class Fn>
HWY_NOINLINE void Map(const ConstArray& x, const Array& out, int64_t first, int64_t last, const Fn& fn) {
  for (int64_t i = first; i < last; i += kLanes) {
    const int64_t n = last - i;
    StoreAny(fn(LoadAny(x.data, x.dtype, i, n)), out.data, out.dtype, i, n);
  }
}

/// Element c of a row whose elements are `stride` (1 or 2) apart; the other lanes beyond n are 0.
template <class E>
HWY_INLINE VF LoadStrided(const typename E::T* p, int64_t c, int64_t n, int64_t stride) {
  if (stride == 1) return n >= kLanes ? Load<E>(p + c) : LoadFirst<E>(p + c, n);
  HWY_ALIGN typename E::T buffer[kLanes] = {};
  const int64_t count = std::min(n, kLanes);
  for (int64_t i = 0; i < count; ++i) buffer[i] = p[(c + i) * stride];
  return Load<E>(buffer);
}

template <class E, class Fn>
HWY_NOINLINE void GateRow(const GatedArgs& g, int64_t r, const Fn& act) {
  const auto* gate = static_cast<const typename E::T*>(g.gate.data) + r * g.gate_pitch;
  const auto* up = static_cast<const typename E::T*>(g.up.data) + r * g.up_pitch;
  const VF limit = Set(g.limit), lower = Set(-g.limit), beta = Set(g.beta);
  for (int64_t c = 0; c < g.cols; c += kLanes) {
    const int64_t n = g.cols - c;
    VF x = LoadStrided<E>(gate, c, n, g.stride), u = LoadStrided<E>(up, c, n, g.stride);
    if (g.limit > 0) {
      x = MinKeepNaN(limit, x);
      u = MaxKeepNaN(lower, MinKeepNaN(limit, u));
    }
    StoreAny(hn::Mul(act(x), hn::Add(u, beta)), g.y.data, g.y.dtype, r * g.y_pitch + c, n);
  }
}

template <class E>
void GateRows(const GatedArgs& g, int64_t r) {
  const VF alpha = Set(g.alpha);
  switch (g.op) {
    case GateOp::kSilu:
      return GateRow<E>(g, r, [&](VF x) HWY_ATTR { return hn::Mul(x, Sigmoid(hn::Mul(alpha, x))); });
    case GateOp::kGeluErf:
      return GateRow<E>(g, r, [](VF x) HWY_ATTR { return GeluErf(x); });
    case GateOp::kGeluTanh:
      return GateRow<E>(g, r, [](VF x) HWY_ATTR { return GeluTanh(x); });
    case GateOp::kSigmoid:
      return GateRow<E>(g, r, [](VF x) HWY_ATTR { return Sigmoid(x); });
    default:
      return GateRow<E>(g, r, [](VF x) HWY_ATTR { return Relu(x); });
  }
}

}  // namespace

void UnaryPart(UnaryOp op, const ConstArray& x, const Array& out, float alpha_value, int64_t first,
               int64_t last) {
  const VF alpha = Set(alpha_value);
  switch (op) {
    case UnaryOp::kIdentity:
      return Map(x, out, first, last, [](VF v) HWY_ATTR { return v; });
    case UnaryOp::kSigmoid:
      return Map(x, out, first, last, [](VF v) HWY_ATTR { return Sigmoid(v); });
    case UnaryOp::kSilu:
      return Map(x, out, first, last, [&](VF v) HWY_ATTR { return hn::Mul(v, Sigmoid(hn::Mul(alpha, v))); });
    case UnaryOp::kGeluErf:
      return Map(x, out, first, last, [](VF v) HWY_ATTR { return GeluErf(v); });
    case UnaryOp::kGeluTanh:
      return Map(x, out, first, last, [](VF v) HWY_ATTR { return GeluTanh(v); });
    case UnaryOp::kTanh:
      return Map(x, out, first, last, [](VF v) HWY_ATTR { return Tanh(v); });
    case UnaryOp::kExp:
      return Map(x, out, first, last, [](VF v) HWY_ATTR { return Exp(v); });
    case UnaryOp::kErf:
      return Map(x, out, first, last, [](VF v) HWY_ATTR { return Erf(v); });
    case UnaryOp::kRelu:
      return Map(x, out, first, last, [](VF v) HWY_ATTR { return Relu(v); });
    case UnaryOp::kSoftplus:
      return Map(x, out, first, last, [](VF v) HWY_ATTR { return Softplus(v); });
    case UnaryOp::kSoftcap:
      return Map(x, out, first, last, [&](VF v) HWY_ATTR { return hn::Mul(alpha, Tanh(hn::Div(v, alpha))); });
    case UnaryOp::kSqrt:
      return Map(x, out, first, last, [](VF v) HWY_ATTR { return hn::Sqrt(v); });
    case UnaryOp::kReciprocal:
      return Map(x, out, first, last, [](VF v) HWY_ATTR { return hn::Div(Set(1.0f), v); });
    case UnaryOp::kNeg:
      return Map(x, out, first, last, [](VF v) HWY_ATTR { return hn::Neg(v); });
    case UnaryOp::kAbs:
      return Map(x, out, first, last, [](VF v) HWY_ATTR { return hn::Abs(v); });
    case UnaryOp::kScale:
      return Map(x, out, first, last, [&](VF v) HWY_ATTR { return hn::Mul(alpha, v); });
  }
}

void GatedRow(const GatedArgs& args, int64_t row) {
  WithType(args.gate.dtype, [&](auto type) HWY_ATTR { GateRows<decltype(type)>(args, row); });
}

}  // namespace HWY_NAMESPACE
}  // namespace ullage::dense
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ullage::dense {

HWY_EXPORT(UnaryPart);
HWY_EXPORT(GatedRow);

namespace {

constexpr int64_t kElementsPerTask = 4096;

}  // namespace

void Unary(ThreadTeam& team, UnaryOp op, ConstArray x, int64_t n, Array out, float alpha) {
  ElementBytes(x.dtype);
  ElementBytes(out.dtype);
  team.Run(CeilDiv(n, kElementsPerTask), [&](int64_t task, int) {
    HWY_DYNAMIC_DISPATCH(UnaryPart)
    (op, x, out, alpha, task * kElementsPerTask, std::min(n, (task + 1) * kElementsPerTask));
  });
}

void Gated(ThreadTeam& team, const GatedArgs& args) {
  ElementBytes(args.gate.dtype);
  ElementBytes(args.y.dtype);
  if (args.cols == 0) return;
  const int64_t step = std::max<int64_t>(1, kElementsPerTask / args.cols);
  team.Run(CeilDiv(args.rows, step), [&](int64_t task, int) {
    for (int64_t r = task * step; r < std::min(args.rows, (task + 1) * step); ++r) {
      HWY_DYNAMIC_DISPATCH(GatedRow)(args, r);
    }
  });
}

}  // namespace ullage::dense
#endif
