// Arithmetic, casts and softmax. The activations are in activation.cc.
#include "providers/cpu/dense/elementwise.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/checked.h"
#include "providers/cpu/dense/elementwise_parts.h"
#include "providers/cpu/dense/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/dense/elementwise.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "providers/cpu/dense/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ullage::dense {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE VF Apply(BinaryOp op, VF a, VF b) {
  switch (op) {
    case BinaryOp::kAdd:
      return hn::Add(a, b);
    case BinaryOp::kSub:
      return hn::Sub(a, b);
    case BinaryOp::kMul:
      return hn::Mul(a, b);
    case BinaryOp::kDiv:
      return hn::Div(a, b);
    case BinaryOp::kMin:
      return hn::IfThenElse(hn::IsNaN(a), a, MinKeepNaN(a, b));
    default:
      return hn::IfThenElse(hn::IsNaN(a), a, MaxKeepNaN(a, b));
  }
}

/// One operand of a row: an array, or the same number everywhere.
struct Operand {
  const void* data;
  DType dtype;
  int64_t at;
  bool constant;
  VF value;

  VF Load(int64_t c, int64_t n) const { return constant ? value : LoadAny(data, dtype, at + c, n); }
};

Operand OperandOf(const ConstArray& a, Spread spread, int64_t r, int64_t cols) {
  switch (spread) {
    case Spread::kFull:
      return {a.data, a.dtype, r * cols, false, Zero()};
    case Spread::kRow:
      return {a.data, a.dtype, 0, false, Zero()};
    case Spread::kColumn:
      return {a.data, a.dtype, 0, true, Set(GetAny(a.data, a.dtype, r))};
    default:
      return {a.data, a.dtype, 0, true, Set(GetAny(a.data, a.dtype, 0))};
  }
}

}  // namespace

/// Columns [c0, c1) of row r.
void BinaryPart(const BinaryArgs& x, int64_t r, int64_t c0, int64_t c1) {
  const Operand a = OperandOf(x.a, x.a_spread, r, x.cols), b = OperandOf(x.b, x.b_spread, r, x.cols);
  for (int64_t c = c0; c < c1; c += kLanes) {
    const int64_t n = c1 - c;
    StoreAny(Apply(x.op, a.Load(c, n), b.Load(c, n)), x.out.data, x.out.dtype, r * x.cols + c, n);
  }
}

void CastPart(const ConstArray& x, const Array& out, int64_t first, int64_t last) {
  WithType(x.dtype, [&](auto from) HWY_ATTR {
    using E = decltype(from);
    const auto* in = static_cast<const typename E::T*>(x.data);
    WithType(out.dtype, [&](auto to) HWY_ATTR {
      using O = decltype(to);
      auto* y = static_cast<typename O::T*>(out.data);
      int64_t i = first;
      for (; i + kLanes <= last; i += kLanes) Store<O>(Load<E>(in + i), y + i);
      if (i < last) StoreFirst<O>(LoadFirst<E>(in + i, last - i), y + i, last - i);
    });
  });
}

void SoftmaxRows(const SoftmaxArgs& s, int64_t first, int64_t last) {
  constexpr float kNegativeInfinity = -std::numeric_limits<float>::infinity();
  const VF scale = Set(s.scale), lowest = Set(kNegativeInfinity);
  for (int64_t r = first; r < last; ++r) {
    const int64_t at = r * s.cols;
    auto load = [&](int64_t c) HWY_ATTR {
      const int64_t n = s.cols - c;
      const VF v = hn::Mul(scale, LoadAny(s.x.data, s.x.dtype, at + c, n));
      return n >= kLanes ? v : hn::IfThenElse(hn::FirstN(DF(), static_cast<size_t>(n)), v, lowest);
    };
    VF largest = lowest;
    for (int64_t c = 0; c < s.cols; c += kLanes) largest = hn::Max(load(c), largest);
    const float m = MaxOf(largest);
    const VF shift = Set(m == kNegativeInfinity ? 0 : m);
    VF sums = Zero();
    for (int64_t c = 0; c < s.cols; c += kLanes) sums = hn::Add(sums, Exp(hn::Sub(load(c), shift)));
    const float sum = SumOf(sums);
    const VF offset = Set(sum == 0 ? 0 : static_cast<float>(std::log(static_cast<double>(sum))));
    const VF factor = Set(sum == 0 ? 0 : 1 / sum);
    for (int64_t c = 0; c < s.cols; c += kLanes) {
      const VF x = hn::Sub(load(c), shift);
      const VF y = s.log ? hn::Sub(x, offset) : hn::Mul(Exp(x), factor);
      StoreAny(y, s.y.data, s.y.dtype, at + c, s.cols - c);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ullage::dense
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ullage::dense {
namespace {

constexpr int64_t kElementsPerTask = 16384;

}  // namespace

HWY_EXPORT(BinaryPart);
HWY_EXPORT(CastPart);
HWY_EXPORT(SoftmaxRows);

void Binary(ThreadTeam& team, BinaryOp op, ConstArray a, Spread a_spread, ConstArray b, Spread b_spread,
            int64_t rows, int64_t cols, Array out) {
  for (const ConstArray& x : {a, b, ConstArray(out)}) ElementBytes(x.dtype);
  if (rows == 0 || cols == 0) return;
  auto flat = [](Spread s) { return s == Spread::kFull || s == Spread::kScalar; };
  if (flat(a_spread) && flat(b_spread)) {
    cols *= rows;
    rows = 1;
  }
  const BinaryArgs args{op, a, b, a_spread, b_spread, cols, out};
  const int64_t parts = CeilDiv(cols, kElementsPerTask), step = std::max<int64_t>(1, kElementsPerTask / cols);
  team.Run(CeilDiv(rows, step) * parts, [&](int64_t task, int) {
    const int64_t c0 = task % parts * kElementsPerTask, r0 = task / parts * step;
    for (int64_t r = r0; r < std::min(rows, r0 + step); ++r) {
      HWY_DYNAMIC_DISPATCH(BinaryPart)(args, r, c0, std::min(cols, c0 + kElementsPerTask));
    }
  });
}

void Cast(ThreadTeam& team, ConstArray x, int64_t n, Array out) {
  ElementBytes(x.dtype);
  ElementBytes(out.dtype);
  team.Run(CeilDiv(n, kElementsPerTask), [&](int64_t task, int) {
    HWY_DYNAMIC_DISPATCH(CastPart)
    (x, out, task * kElementsPerTask, std::min(n, (task + 1) * kElementsPerTask));
  });
}

void Softmax(ThreadTeam& team, ConstArray x, int64_t rows, int64_t cols, Array y, bool log, float scale) {
  ElementBytes(x.dtype);
  ElementBytes(y.dtype);
  if (cols == 0) return;
  const SoftmaxArgs args{x, cols, y, log, scale};
  const int64_t step = std::max<int64_t>(1, kElementsPerTask / 4 / cols);
  team.Run(CeilDiv(rows, step), [&](int64_t task, int) {
    HWY_DYNAMIC_DISPATCH(SoftmaxRows)(args, task * step, std::min(rows, (task + 1) * step));
  });
}

}  // namespace ullage::dense
#endif
