#include "providers/cpu/dense/norm.h"

#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "providers/cpu/dense/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/dense/norm.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "providers/cpu/dense/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ullage::dense {
namespace HWY_NAMESPACE {
namespace {

/// The values to normalise of one row: x, or the rounded sum, read again in every pass.
template <class E>
struct Row {
  const typename E::T* x;
  const typename E::T* skip;  // null: x is complete
  ConstArray skip_bias;

  HWY_INLINE VF At(int64_t c, int64_t n) const {
    const VF v = n >= kLanes ? Load<E>(x + c) : LoadFirst<E>(x + c, n);
    if (skip == nullptr && skip_bias.data == nullptr) return v;
    VF sum = v;
    if (skip != nullptr) sum = hn::Add(sum, n >= kLanes ? Load<E>(skip + c) : LoadFirst<E>(skip + c, n));
    if (skip_bias.data != nullptr) sum = hn::Add(sum, LoadAny(skip_bias.data, skip_bias.dtype, c, n));
    return RoundTo<E>(sum);
  }
};

/// Sum of fn(v) over the row: four running sums, combined in a fixed order.
template <class E, class Fn>
float Reduce(const Row<E>& row, int64_t cols, const Fn& fn) {
  VF s0 = Zero(), s1 = Zero(), s2 = Zero(), s3 = Zero();
  int64_t c = 0;
  for (; c + 4 * kLanes <= cols; c += 4 * kLanes) {
    s0 = fn(s0, row.At(c, kLanes));
    s1 = fn(s1, row.At(c + kLanes, kLanes));
    s2 = fn(s2, row.At(c + 2 * kLanes, kLanes));
    s3 = fn(s3, row.At(c + 3 * kLanes, kLanes));
  }
  for (; c + kLanes <= cols; c += kLanes) s0 = fn(s0, row.At(c, kLanes));
  if (c < cols) {
    const auto valid = hn::FirstN(DF(), static_cast<size_t>(cols - c));
    s1 = hn::IfThenElse(valid, fn(s1, row.At(c, cols - c)), s1);
  }
  return SumOf(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
}

template <class E>
void Rows(const NormArgs& a, int64_t first, int64_t last) {
  const auto inverse_cols = 1.0 / static_cast<double>(std::max<int64_t>(1, a.cols));
  for (int64_t r = first; r < last; ++r) {
    Row<E> row;
    row.x = static_cast<const typename E::T*>(a.x.data) + r * a.x_pitch;
    row.skip = static_cast<const typename E::T*>(a.skip.data);
    if (row.skip != nullptr) row.skip += (a.skip_rows > 0 ? r % a.skip_rows : r) * a.skip_pitch;
    row.skip_bias = a.skip_bias;
    if (a.sum.data != nullptr) {
      auto* sum = static_cast<typename E::T*>(a.sum.data) + r * a.sum_pitch;
      for (int64_t c = 0; c < a.cols; c += kLanes) {
        const int64_t n = a.cols - c;
        const VF v = row.At(c, n);
        n >= kLanes ? Store<E>(v, sum + c) : StoreFirst<E>(v, sum + c, n);
      }
      row = {sum, nullptr, {}};
    }
    float mean = 0;
    if (!a.rms) {
      const float total = Reduce(row, a.cols, [](VF s, VF v) HWY_ATTR { return hn::Add(s, v); });
      mean = static_cast<float>(total * inverse_cols);
    }
    const VF center = Set(mean);
    const float squares = Reduce(row, a.cols, [&](VF s, VF v) HWY_ATTR {
      const VF d = hn::Sub(v, center);
      return hn::MulAdd(d, d, s);
    });
    const float inv_std =
        static_cast<float>(1.0 / std::sqrt(squares * inverse_cols + static_cast<double>(a.epsilon)));
    if (a.mean != nullptr) a.mean[r] = mean;
    if (a.inv_std != nullptr) a.inv_std[r] = inv_std;
    const VF factor = Set(inv_std);
    for (int64_t c = 0; c < a.cols; c += kLanes) {
      const int64_t n = a.cols - c;
      VF v = hn::Mul(hn::Sub(row.At(c, n), center), factor);
      if (a.round_before_scale) v = RoundTo<E>(v);
      if (a.scale.data != nullptr) v = hn::Mul(v, LoadAny(a.scale.data, a.scale.dtype, c, n));
      if (a.shift.data != nullptr) v = hn::Add(v, LoadAny(a.shift.data, a.shift.dtype, c, n));
      StoreAny(v, a.y.data, a.y.dtype, r * a.y_pitch + c, n);
    }
  }
}

}  // namespace

void NormRows(const NormArgs& args, int64_t first, int64_t last) {
  WithType(args.x.dtype, [&](auto type) HWY_ATTR { Rows<decltype(type)>(args, first, last); });
}

}  // namespace HWY_NAMESPACE
}  // namespace ullage::dense
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ullage::dense {

HWY_EXPORT(NormRows);

void Norm(ThreadTeam& team, const NormArgs& args) {
  for (const ConstArray& a : {args.x, args.scale, args.shift, ConstArray(args.y), args.skip_bias}) {
    if (a.data != nullptr) ElementBytes(a.dtype);
  }
  constexpr int64_t kElementsPerTask = 8192;
  const int64_t rows = std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, args.cols));
  team.Run(CeilDiv(args.rows, rows), [&](int64_t task, int) {
    HWY_DYNAMIC_DISPATCH(NormRows)(args, task * rows, std::min(args.rows, (task + 1) * rows));
  });
}

}  // namespace ullage::dense
#endif
