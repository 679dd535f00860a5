// One query row: the keys are cut into blocks of kDecodeKeys, each read once for all query heads that share
// it.
#include <algorithm>
#include <cstddef>
#include <limits>

#include "providers/cpu/dense/attention_internal.h"
#include "providers/cpu/dense/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/dense/attention_decode.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "providers/cpu/dense/attention_score-inl.h"
#include "providers/cpu/dense/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ullage::dense {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_AVX2
constexpr int64_t kMostQueries = 2;  // 16 registers
#else
constexpr int64_t kMostQueries = 4;
#endif

#define ULLAGE_UNROLL _Pragma("GCC unroll 16")

#if HWY_TARGET != HWY_SCALAR
template <class D>
HWY_INLINE hn::Vec<hn::FixedTag<float, 4>> SumBlocks(D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(d) == 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return SumBlocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}
#endif

/// out[0..4) = sums of the lanes of a, b, c, d.
HWY_INLINE void SumFour(VF a, VF b, VF c, VF d, float* out) {
#if HWY_TARGET == HWY_SCALAR
  out[0] = hn::GetLane(a);
  out[1] = hn::GetLane(b);
  out[2] = hn::GetLane(c);
  out[3] = hn::GetLane(d);
#else
  const DF df;
  const hn::RepartitionToWide<DF> dd;
  const auto ab = hn::BitCast(dd, hn::Add(hn::InterleaveLower(df, a, b), hn::InterleaveUpper(df, a, b)));
  const auto cd = hn::BitCast(dd, hn::Add(hn::InterleaveLower(df, c, d), hn::InterleaveUpper(df, c, d)));
  const VF abcd = hn::Add(hn::BitCast(df, hn::InterleaveLower(dd, ab, cd)),
                          hn::BitCast(df, hn::InterleaveUpper(dd, ab, cd)));
  hn::StoreU(SumBlocks(df, abcd), hn::FixedTag<float, 4>(), out);
#endif
}

/// Memory that is read next, row by row, beside the keys.
struct Ahead {
  const std::byte* rows = nullptr;  // null: nothing
  int64_t pitch = 0;                // bytes
  int64_t bytes = 0;                // of one row
};
HWY_INLINE void PrefetchRow(const void* row, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const std::byte*>(row) + i);
}

/// scores[i * kDecodeKeys + t] = q[i] . k[t] for kQueries queries and `keys` keys (up to 3 more scores are
/// written).
template <class E, int kQueries>
void Scores(const float* q, int64_t q_pitch, const typename E::T* k, int64_t pitch, int64_t keys,
            int64_t size, float* scores, Ahead ahead) {
  constexpr int64_t kRowsAhead = 16;
  int64_t offset[4] = {0, pitch, 2 * pitch, 3 * pitch};
  for (int64_t t = 0; t < keys; t += 4, k += 4 * pitch) {
    if (keys - t < 4) {  // the last rows again instead of rows beyond
      for (int64_t j = 1; j < 4; ++j) offset[j] = std::min(j, keys - t - 1) * pitch;
    }
    if (ahead.rows != nullptr) {
      const auto row_bytes = size * static_cast<int64_t>(sizeof(typename E::T));
      for (int64_t j = 0; j < std::min<int64_t>(4, keys - t); ++j) {
        if (t + kRowsAhead + j < keys) PrefetchRow(k + (kRowsAhead + j) * pitch, row_bytes);
        PrefetchRow(ahead.rows + (t + j) * ahead.pitch, ahead.bytes);
      }
    }
    VF acc[kQueries][4];
    ULLAGE_UNROLL for (int i = 0; i < kQueries; ++i) {
      ULLAGE_UNROLL for (int j = 0; j < 4; ++j) acc[i][j] = Zero();
    }
    int64_t h = 0;
    for (; h + kLanes <= size; h += kLanes) {
      VF kv[4];
      ULLAGE_UNROLL for (int j = 0; j < 4; ++j) kv[j] = Load<E>(k + offset[j] + h);
      ULLAGE_UNROLL for (int i = 0; i < kQueries; ++i) {
        const VF qv = hn::LoadU(DF(), q + i * q_pitch + h);
        ULLAGE_UNROLL for (int j = 0; j < 4; ++j) acc[i][j] = hn::MulAdd(qv, kv[j], acc[i][j]);
      }
    }
    if (h < size) {
      ULLAGE_UNROLL for (int j = 0; j < 4; ++j) {
        const VF kv = LoadFirst<E>(k + offset[j] + h, size - h);
        ULLAGE_UNROLL for (int i = 0; i < kQueries; ++i) {
          acc[i][j] = hn::MulAdd(hn::LoadU(DF(), q + i * q_pitch + h), kv, acc[i][j]);
        }
      }
    }
    ULLAGE_UNROLL for (int i = 0; i < kQueries; ++i) {
      SumFour(acc[i][0], acc[i][1], acc[i][2], acc[i][3], scores + i * kDecodeKeys + t);
    }
  }
}

/// out[i * out_pitch + c] = sum over t of weights[i][t] * v[t][c] for kVectors vectors of columns.
template <class E, int kQueries, int kVectors, bool kPartial = false>
HWY_INLINE void Columns(const float* weights, const typename E::T* v, int64_t pitch, int64_t keys,
                        int64_t partial, float* out, int64_t out_pitch) {
  VF acc[kQueries][kVectors];
  ULLAGE_UNROLL for (int i = 0; i < kQueries; ++i) {
    ULLAGE_UNROLL for (int c = 0; c < kVectors; ++c) acc[i][c] = Zero();
  }
  for (int64_t t = 0; t < keys; ++t, v += pitch) {
    VF row[kVectors];
    ULLAGE_UNROLL for (int c = 0; c < kVectors; ++c) {
      row[c] = kPartial ? LoadFirst<E>(v, partial) : Load<E>(v + c * kLanes);
    }
    ULLAGE_UNROLL for (int i = 0; i < kQueries; ++i) {
      const VF w = Set(weights[i * kDecodeKeys + t]);
      ULLAGE_UNROLL for (int c = 0; c < kVectors; ++c) acc[i][c] = hn::MulAdd(w, row[c], acc[i][c]);
    }
  }
  ULLAGE_UNROLL for (int i = 0; i < kQueries; ++i) {
    ULLAGE_UNROLL for (int c = 0; c < kVectors; ++c)
        hn::StoreU(acc[i][c], DF(), out + i * out_pitch + c * kLanes);
  }
}

template <class E, int kQueries>
void WeightedValues(const float* weights, const typename E::T* v, int64_t pitch, int64_t keys, int64_t size,
                    float* out, int64_t out_pitch) {
  int64_t c = 0;
  for (; c + 4 * kLanes <= size; c += 4 * kLanes) {
    Columns<E, kQueries, 4>(weights, v + c, pitch, keys, 0, out + c, out_pitch);
  }
  for (; c + kLanes <= size; c += kLanes)
    Columns<E, kQueries, 1>(weights, v + c, pitch, keys, 0, out + c, out_pitch);
  if (c < size) Columns<E, kQueries, 1, true>(weights, v + c, pitch, keys, size - c, out + c, out_pitch);
}

template <class Fn>
HWY_INLINE void WithQueries(int64_t queries, const Fn& fn) {
  if (queries == 1) return fn(std::integral_constant<int, 1>());
#if HWY_TARGET != HWY_AVX2
  if (queries == 3) return fn(std::integral_constant<int, 3>());
  if (queries == 4) return fn(std::integral_constant<int, 4>());
#endif
  return fn(std::integral_constant<int, 2>());
}

/// Scores of one query to weights exp(score - max), in place, the padding included; stores maximum and sum.
void Weights(const AttentionArgs& a, int64_t b, int64_t n, int64_t first_key, int64_t keys, float* scores,
             float* partial) {
  const int64_t bias = a.bias.data == nullptr ? 0 : BiasRow(a, b, n, 0) + first_key * a.bias_key_stride;
  VF largest = Set(kNegativeInfinity);
  for (int64_t t = 0; t < keys; t += kLanes) {
    VF x = Softcap(hn::LoadU(DF(), scores + t), a.softcap);
    const int64_t valid = keys - t;
    if (a.bias.data != nullptr) {
      if (a.bias.dtype != DType::kBool && a.bias_key_stride == 1) {
        x = hn::Add(x, LoadAny(a.bias.data, a.bias.dtype, bias + t, valid));
      } else {
        HWY_ALIGN float add[kLanes] = {};
        for (int64_t j = 0; j < std::min(valid, kLanes); ++j)
          add[j] = BiasAt(a, bias + (t + j) * a.bias_key_stride);
        x = hn::Add(x, hn::Load(DF(), add));
      }
    }
    if (valid < kLanes) {
      x = hn::IfThenElse(hn::FirstN(DF(), static_cast<size_t>(valid)), x, Set(kNegativeInfinity));
    }
    hn::StoreU(x, DF(), scores + t);
    largest = hn::Max(x, largest);  // a NaN reaches the result through its weight, whatever the maximum is
  }
  const float m = MaxOf(largest);
  const VF shift = Set(SafeShift(m));
  VF sum = Zero();
  for (int64_t t = 0; t < keys; t += kLanes) {
    const VF w = ExpNegative(hn::Sub(hn::LoadU(DF(), scores + t), shift));
    hn::StoreU(w, DF(), scores + t);
    sum = hn::Add(sum, w);
  }
  partial[0] = m;
  partial[1] = SumOf(sum);
}

template <class E>
void Query(const AttentionArgs& a, int64_t b, int64_t n, float* out, int64_t padded) {
  const auto* q =
      static_cast<const typename E::T*>(a.q.data) + b * a.q_layout.batch_stride + n * a.q_layout.head_stride;
  const VF scale = Set(a.scale);
  int64_t h = 0;
  for (; h + kLanes <= a.head_size; h += kLanes) hn::StoreU(hn::Mul(Load<E>(q + h), scale), DF(), out + h);
  for (; h < a.head_size; ++h) out[h] = E::Get(q[h]) * a.scale;
  for (; h < padded; ++h) out[h] = 0;
}

}  // namespace

void DecodeBlock(const DecodeTask& task) {
  const AttentionArgs& a = *task.args;
  const DecodeLayout& l = task.layout;
  const int64_t group = a.q_heads / a.kv_heads, n0 = task.kv_head * group;
  const KeyRange visible = VisibleKeys(a, task.b, 0);
  const int64_t first = std::max(visible.begin, task.block * kDecodeKeys);
  const int64_t keys = std::min(visible.end, (task.block + 1) * kDecodeKeys) - first;
  float* queries = task.worker;
  float* scores = queries + group * l.query_pitch;
  float* converted = scores + group * kDecodeKeys;
  const int64_t head_pitch = l.blocks * l.partial;
  float* partials = task.partials + task.block * l.partial;
  WithType(a.q.dtype, [&](auto type) HWY_ATTR {
    for (int64_t g = 0; g < group; ++g) {
      Query<decltype(type)>(a, task.b, n0 + g, queries + g * l.query_pitch, l.query_pitch);
    }
  });
  const int64_t k = task.b * a.k_layout.batch_stride + task.kv_head * a.k_layout.head_stride +
                    first * a.k_layout.seq_stride;
  const int64_t v = task.b * a.v_layout.batch_stride + task.kv_head * a.v_layout.head_stride +
                    first * a.v_layout.seq_stride;
  const auto score = [&](auto type, const void* rows, int64_t pitch, Ahead ahead) HWY_ATTR {
    using E = decltype(type);
    for (int64_t g = 0; g < group; g += kMostQueries) {
      WithQueries(std::min(kMostQueries, group - g), [&](auto count) HWY_ATTR {
        Scores<E, decltype(count)::value>(queries + g * l.query_pitch, l.query_pitch,
                                          static_cast<const typename E::T*>(rows), pitch, keys, a.head_size,
                                          scores + g * kDecodeKeys, g == 0 ? ahead : Ahead());
      });
    }
  };
  Ahead values;
  if (!a.v_codec.quantized()) {
    const auto element = static_cast<int64_t>(a.v.dtype == DType::kFloat ? sizeof(float) : sizeof(uint16_t));
    values = {static_cast<const std::byte*>(a.v.data) + v * element, a.v_layout.seq_stride * element,
              a.v_head_size * element};
  }
  if (a.k_codec.quantized()) {
    LoadKvRows(a.k_codec, task.kv_head, static_cast<const std::byte*>(a.k.data) + k, a.k_layout.seq_stride,
               keys, a.head_size, converted);
    score(F32(), converted, a.head_size, values);
  } else {
    WithType(a.k.dtype, [&](auto type) HWY_ATTR {
      score(type, static_cast<const typename decltype(type)::T*>(a.k.data) + k, a.k_layout.seq_stride,
            values);
    });
  }
  for (int64_t g = 0; g < group; ++g) {
    Weights(a, task.b, n0 + g, first, keys, scores + g * kDecodeKeys, partials + g * head_pitch);
  }
  const auto weigh = [&](auto type, const void* rows, int64_t pitch) HWY_ATTR {
    using E = decltype(type);
    for (int64_t g = 0; g < group; g += kMostQueries) {
      WithQueries(std::min(kMostQueries, group - g), [&](auto count) HWY_ATTR {
        WeightedValues<E, decltype(count)::value>(
            scores + g * kDecodeKeys, static_cast<const typename E::T*>(rows), pitch, keys, a.v_head_size,
            partials + g * head_pitch + kFloatsPerLine, head_pitch);
      });
    }
  };
  if (a.v_codec.quantized()) {
    LoadKvRows(a.v_codec, task.kv_head, static_cast<const std::byte*>(a.v.data) + v, a.v_layout.seq_stride,
               keys, a.v_head_size, converted);
    weigh(F32(), converted, a.v_head_size);
  } else {
    WithType(a.v.dtype, [&](auto type) HWY_ATTR {
      weigh(type, static_cast<const typename decltype(type)::T*>(a.v.data) + v, a.v_layout.seq_stride);
    });
  }
}

void Combine(const DecodeTask& task, int64_t group_head) {
  const AttentionArgs& a = *task.args;
  const DecodeLayout& l = task.layout;
  const int64_t n = task.kv_head * (a.q_heads / a.kv_heads) + group_head;
  const KeyRange visible = VisibleKeys(a, task.b, 0);
  const float* partials = task.partials + group_head * l.blocks * l.partial;
  const int64_t first = visible.begin / kDecodeKeys, last = CeilDiv(visible.end, kDecodeKeys);
  float m = HasSink(a) ? SinkOf(a, n) : kNegativeInfinity;
  for (int64_t i = first; i < last; ++i) m = std::max(m, partials[i * l.partial]);
  const float shift = SafeShift(m);
  float sum = HasSink(a) ? ExpOne(SinkOf(a, n) - shift) : 0;
  for (int64_t i = first; i < last; ++i)
    sum += partials[i * l.partial + 1] * ExpOne(partials[i * l.partial] - shift);
  const float factor = sum == 0 ? 0 : 1 / sum;
  const int64_t y = task.b * a.y_layout.batch_stride + n * a.y_layout.head_stride;
  for (int64_t c = 0; c < a.v_head_size; c += kLanes) {
    VF total = Zero();
    for (int64_t i = first; i < last; ++i) {
      const VF values = hn::LoadU(DF(), partials + i * l.partial + kFloatsPerLine + c);
      total = hn::MulAdd(Set(ExpOne(partials[i * l.partial] - shift)), values, total);
    }
    total = hn::Mul(total, Set(factor));
    if (sum == 0 && a.empty_row == EmptyRow::kNaN) total = Set(std::numeric_limits<float>::quiet_NaN());
    StoreAny(total, a.y.data, a.y.dtype, y + c, a.v_head_size - c);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ullage::dense
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ullage::dense {

HWY_EXPORT(DecodeBlock);
HWY_EXPORT(Combine);
void RunDecodeBlock(const DecodeTask& task) {
  HWY_DYNAMIC_DISPATCH(DecodeBlock)(task);
}
void CombineDecode(const DecodeTask& task, int64_t group_head) {
  HWY_DYNAMIC_DISPATCH(Combine)(task, group_head);
}

}  // namespace ullage::dense
#endif
