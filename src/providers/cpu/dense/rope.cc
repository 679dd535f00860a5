#include "providers/cpu/dense/rope.h"

#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/dense/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/dense/rope.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "providers/cpu/dense/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ullage::dense {
namespace HWY_NAMESPACE {
namespace {

int64_t Position(const RopePositions& p, int64_t b, int64_t s, int64_t section) {
  if (p.ids != nullptr) return p.ids[section * p.ids_section_stride + b * p.ids_batch_stride + s];
  return (p.start != nullptr ? p.start[b] : p.offset) + s;
}

/// cos and sin of one row (b, s).
struct Angles {
  const RopeTable* table = nullptr;
  const uint8_t* section_of_pair = nullptr;
  int64_t rows[3] = {};  // element offsets of the table rows of the sections

  HWY_INLINE VF Load(const ConstArray& from, int64_t pair, int64_t n) const {
    if (section_of_pair == nullptr) return LoadAny(from.data, from.dtype, rows[0] + pair, n);
    HWY_ALIGN float values[kLanes] = {};
    for (int64_t i = pair; i < pair + std::min(n, kLanes); ++i)
      values[i - pair] = GetAny(from.data, from.dtype, rows[section_of_pair[i]] + i);
    return hn::Load(DF(), values);
  }
};

/// One head before the rotation: (src + bias) * inv_rms * weight.
template <class E>
struct Head {
  const typename E::T* src;
  ConstArray bias;
  int64_t bias_offset;
  ConstArray weight;
  float inv_rms = 1;

  HWY_INLINE VF Raw(int64_t i, int64_t n) const {
    const VF v = n >= kLanes ? Load<E>(src + i) : LoadFirst<E>(src + i, n);
    return bias.data == nullptr ? v : hn::Add(v, LoadAny(bias.data, bias.dtype, bias_offset + i, n));
  }
  HWY_INLINE VF At(int64_t i, int64_t n) const {
    const VF v = Raw(i, n);
    if (weight.data == nullptr) return v;
    return hn::Mul(hn::Mul(v, Set(inv_rms)), LoadAny(weight.data, weight.dtype, i, n));
  }
  void FindRms(int64_t size, float epsilon) {
    VF sum = Zero();
    for (int64_t i = 0; i < size; i += kLanes) {
      const int64_t n = size - i;
      const VF v = Raw(i, n);
      sum = hn::MulAdd(v, v, sum);  // lanes beyond n are 0
    }
    const double mean = static_cast<double>(SumOf(sum)) / static_cast<double>(std::max<int64_t>(1, size));
    inv_rms = static_cast<float>(1.0 / std::sqrt(mean + static_cast<double>(epsilon)));
  }
};

template <class E>
void TransformHead(const HeadTransformArgs& a, const Angles& angles, const Head<E>& head, int64_t dst) {
  const VF scale = Set(a.scale);
  const int64_t rot = a.rope.cos.data == nullptr ? 0 : a.rope.rotary_dim, half = rot / 2;
  if (a.rope.interleaved) {
    HWY_ALIGN float pairs[2 * kLanes];
    for (int64_t i = 0; i < half; i += kLanes) {
      const int64_t n = half - i, rest = 2 * n - kLanes;  // pairs, elements beyond the first vector
      hn::Store(head.At(2 * i, 2 * n), DF(), pairs);
      hn::Store(rest > 0 ? head.At(2 * i + kLanes, rest) : Zero(), DF(), pairs + kLanes);
      VF x, y;
      hn::LoadInterleaved2(DF(), pairs, x, y);
      const VF c = angles.Load(a.rope.cos, i, n), s = angles.Load(a.rope.sin, i, n);
      hn::StoreInterleaved2(hn::Mul(scale, hn::NegMulAdd(y, s, hn::Mul(x, c))),
                            hn::Mul(scale, hn::MulAdd(x, s, hn::Mul(y, c))), DF(), pairs);
      StoreAny(hn::Load(DF(), pairs), a.dst.data, a.dst.dtype, dst + 2 * i, 2 * n);
      if (rest > 0)
        StoreAny(hn::Load(DF(), pairs + kLanes), a.dst.data, a.dst.dtype, dst + 2 * i + kLanes, rest);
    }
  } else {
    for (int64_t i = 0; i < half; i += kLanes) {
      const int64_t n = half - i;
      const VF x = head.At(i, n), y = head.At(i + half, n);
      const VF c = angles.Load(a.rope.cos, i, n), s = angles.Load(a.rope.sin, i, n);
      StoreAny(hn::Mul(scale, hn::NegMulAdd(y, s, hn::Mul(x, c))), a.dst.data, a.dst.dtype, dst + i, n);
      StoreAny(hn::Mul(scale, hn::MulAdd(x, s, hn::Mul(y, c))), a.dst.data, a.dst.dtype, dst + i + half, n);
    }
  }
  for (int64_t i = rot; i < a.head_size; i += kLanes) {
    const int64_t n = a.head_size - i;
    StoreAny(hn::Mul(scale, head.At(i, n)), a.dst.data, a.dst.dtype, dst + i, n);
  }
}

template <class E>
void Rows(const HeadTransformArgs& a, int64_t first, int64_t last) {
  for (int64_t row = first; row < last; ++row) {
    const int64_t b = row / a.seq, s = row % a.seq;
    Angles angles;
    if (a.rope.cos.data != nullptr) {
      angles.table = &a.rope;
      angles.section_of_pair = a.positions.section_of_pair;
      const int sections = angles.section_of_pair == nullptr ? 1 : 3;
      for (int i = 0; i < sections; ++i) angles.rows[i] = Position(a.positions, b, s, i) * a.rope.pitch;
    }
    const int64_t dst_row = (a.dst_start != nullptr ? a.dst_start[b] : a.dst_offset) + s;
    for (int64_t h = 0; h < a.heads; ++h) {
      Head<E> head;
      head.src = static_cast<const typename E::T*>(a.src.data) + b * a.src_layout.batch_stride +
                 s * a.src_layout.seq_stride + h * a.src_layout.head_stride;
      head.bias = a.bias;
      head.bias_offset = h * a.head_size;
      head.weight = a.norm_weight;
      if (a.norm_weight.data != nullptr) head.FindRms(a.head_size, a.norm_epsilon);
      TransformHead(
          a, angles, head,
          b * a.dst_layout.batch_stride + dst_row * a.dst_layout.seq_stride + h * a.dst_layout.head_stride);
    }
  }
}

}  // namespace

void TransformRows(const HeadTransformArgs& args, int64_t first, int64_t last) {
  WithType(args.src.dtype, [&](auto type) HWY_ATTR { Rows<decltype(type)>(args, first, last); });
}

}  // namespace HWY_NAMESPACE
}  // namespace ullage::dense
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ullage::dense {

HWY_EXPORT(TransformRows);

namespace {

void CheckPosition(int64_t position, const RopeTable& table) {
  if (position < 0 || position >= table.rows) {
    Throw(Code::kInvalidInput, "rotary position ", position, " is outside of the cos/sin cache of ",
          table.rows, " rows");
  }
}

void CheckPositions(const HeadTransformArgs& a) {
  const RopePositions& p = a.positions;
  const int64_t sections = p.section_of_pair == nullptr ? 1 : 3;
  for (int64_t b = 0; b < a.batch; ++b) {
    if (p.ids == nullptr) {
      const int64_t first = p.start != nullptr ? p.start[b] : p.offset;
      CheckPosition(first, a.rope);
      CheckPosition(first + a.seq - 1, a.rope);
      continue;
    }
    for (int64_t i = 0; i < sections; ++i)
      for (int64_t s = 0; s < a.seq; ++s)
        CheckPosition(p.ids[i * p.ids_section_stride + b * p.ids_batch_stride + s], a.rope);
  }
}

}  // namespace

void TransformHeads(ThreadTeam& team, const HeadTransformArgs& args) {
  for (const ConstArray& a : {args.src, ConstArray(args.dst), args.bias, args.norm_weight, args.rope.cos}) {
    if (a.data != nullptr) ElementBytes(a.dtype);
  }
  const int64_t rows = args.batch * args.seq;
  if (rows == 0 || args.heads == 0) return;
  if (args.rope.cos.data != nullptr) CheckPositions(args);
  constexpr int64_t kElementsPerTask = 8192;
  const int64_t step =
      std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, args.heads * args.head_size));
  team.Run(CeilDiv(rows, step), [&](int64_t task, int) {
    HWY_DYNAMIC_DISPATCH(TransformRows)(args, task * step, std::min(rows, (task + 1) * step));
  });
}

}  // namespace ullage::dense
#endif
