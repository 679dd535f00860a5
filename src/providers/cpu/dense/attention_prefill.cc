// Several query rows: a task holds panels of kPanel queries that share a key head, one query per vector lane,
// and walks over the keys in blocks.
//
//   scores[key][lane] = K[key] . Q[lane]      (kernel: rows are keys, depth is head_size)
//   weights           = exp(scores - running maximum of the lane)
//   O[column][lane]  += V[.][column] . weights (kernel: rows are columns of V, depth is the block's keys)
//
// Blocks start at multiples of kPrefillKeys, and a key that a lane does not see adds exact zeros to it, so a
// lane's bits depend on what it sees only.
#include <algorithm>
#include <limits>

#include "providers/cpu/dense/attention_internal.h"
#include "providers/cpu/dense/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/dense/attention_prefill.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "providers/cpu/dense/attention_score-inl.h"
#include "providers/cpu/dense/gemm_kernel-inl.h"
#include "providers/cpu/dense/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ullage::dense {
namespace HWY_NAMESPACE {
namespace {

/// One panel of queries.
struct Panel {
  float* queries;     // [head_size][kPanel]
  float* outputs;     // [v_head_size][kPanel]
  float* largest;     // [kPanel]
  float* sums;        // [kPanel]
  int64_t first = 0;  // query of lane 0
  int64_t lanes = 0;
  int64_t begin = 0, end = 0;          // keys that some lane sees
  int64_t all_begin = 0, all_end = 0;  // keys that every lane sees
};

struct Work {
  const AttentionArgs& a;
  const PrefillTask& t;
  int64_t group;
  float* scores;
  float* bias;
  float* keys;
  float* values;
};

int64_t QueryOffset(const Work& w, int64_t r) {
  const AttentionArgs& a = w.a;
  return w.t.b * a.q_layout.batch_stride + r / w.group * a.q_layout.seq_stride +
         (w.t.kv_head * w.group + r % w.group) * a.q_layout.head_stride;
}

template <class E>
void LoadQueries(const Work& w, const Panel& p) {
  const AttentionArgs& a = w.a;
  const auto* q = static_cast<const typename E::T*>(a.q.data);
  const int64_t whole = a.head_size / 4 * 4;
  for (int64_t lane = 0; lane < kPanel; lane += 4) {
    const typename E::T* rows[4];
    for (int64_t i = 0; i < 4; ++i) rows[i] = q + QueryOffset(w, p.first + std::min(lane + i, p.lanes - 1));
    for (int64_t h = 0; h < whole; h += 4) {
      Transpose4<E>(rows[0] + h, rows[1] + h, rows[2] + h, rows[3] + h, p.queries + h * kPanel + lane,
                    kPanel);
    }
    for (int64_t h = whole; h < a.head_size; ++h)
      for (int64_t i = 0; i < 4; ++i) p.queries[h * kPanel + lane + i] = E::Get(rows[i][h]);
  }
  const VF scale = Set(a.scale);
  for (int64_t i = 0; i < a.head_size * kPanel; i += kLanes) {
    hn::StoreU(hn::Mul(scale, hn::LoadU(DF(), p.queries + i)), DF(), p.queries + i);
  }
}

void StartPanel(const Work& w, Panel& p) {
  const AttentionArgs& a = w.a;
  p.begin = p.all_begin = 0;
  p.end = p.all_end = 0;
  for (int64_t lane = 0; lane < kPanel; ++lane) {
    p.largest[lane] = kNegativeInfinity;
    p.sums[lane] = 0;
    if (lane >= p.lanes) continue;
    const int64_t r = p.first + lane;
    const KeyRange k = VisibleKeys(a, w.t.b, r / w.group);
    p.begin = lane == 0 ? k.begin : std::min(p.begin, k.begin);
    p.end = std::max(p.end, k.end);
    p.all_begin = std::max(p.all_begin, k.begin);
    p.all_end = lane == 0 ? k.end : std::min(p.all_end, k.end);
    if (HasSink(a)) {
      p.largest[lane] = SinkOf(a, w.t.kv_head * w.group + r % w.group);
      p.sums[lane] = 1;
    }
  }
  std::fill_n(p.outputs, a.v_head_size * kPanel, 0.0f);
}

/// bias[key][lane] for `keys` keys from `first` on.
template <class E>
void LoadBias(const Work& w, const Panel& p, int64_t first, int64_t keys) {
  const AttentionArgs& a = w.a;
  const auto* bias = static_cast<const typename E::T*>(a.bias.data);
  const int64_t whole = a.bias_key_stride == 1 ? keys / 4 * 4 : 0;
  for (int64_t lane = 0; lane < kPanel; lane += 4) {
    const typename E::T* rows[4];
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t r = p.first + std::min(lane + i, p.lanes - 1);
      rows[i] = bias + BiasRow(a, w.t.b, w.t.kv_head * w.group + r % w.group, r / w.group) +
                first * a.bias_key_stride;
    }
    for (int64_t j = 0; j < whole; j += 4) {
      Transpose4<E>(rows[0] + j, rows[1] + j, rows[2] + j, rows[3] + j, w.bias + j * kPanel + lane, kPanel);
    }
    for (int64_t j = whole; j < keys; ++j)
      for (int64_t i = 0; i < 4; ++i) w.bias[j * kPanel + lane + i] = E::Get(rows[i][j * a.bias_key_stride]);
  }
}

void LoadBoolBias(const Work& w, const Panel& p, int64_t first, int64_t keys) {
  const AttentionArgs& a = w.a;
  for (int64_t lane = 0; lane < kPanel; ++lane) {
    const int64_t r = p.first + std::min(lane, p.lanes - 1);
    const auto* row = static_cast<const uint8_t*>(a.bias.data) +
                      BiasRow(a, w.t.b, w.t.kv_head * w.group + r % w.group, r / w.group) +
                      first * a.bias_key_stride;
    for (int64_t j = 0; j < keys; ++j) {
      w.bias[j * kPanel + lane] = row[j * a.bias_key_stride] != 0 ? 0 : kNegativeInfinity;
    }
  }
}

/// Soft cap and bias.
void Adjust(const Work& w, int64_t keys) {
  for (int64_t i = 0; i < keys * kPanel; i += kLanes) {
    VF x = Softcap(hn::LoadU(DF(), w.scores + i), w.a.softcap);
    if (w.a.bias.data != nullptr) x = hn::Add(x, hn::LoadU(DF(), w.bias + i));
    hn::StoreU(x, DF(), w.scores + i);
  }
}

/// Scores that some lane must not see become -inf.
void Hide(const Work& w, const Panel& p, int64_t first, int64_t keys) {
  HWY_ALIGN float begin[kPanel], end[kPanel];
  for (int64_t lane = 0; lane < kPanel; ++lane) {
    const KeyRange k = lane < p.lanes ? VisibleKeys(w.a, w.t.b, (p.first + lane) / w.group) : KeyRange{0, 0};
    begin[lane] = static_cast<float>(std::clamp<int64_t>(k.begin - first, 0, kPrefillKeys));
    end[lane] = static_cast<float>(std::clamp<int64_t>(k.end - first, 0, kPrefillKeys));
  }
  for (int64_t j = 0; j < keys; ++j) {
    const VF key = Set(static_cast<float>(j));
    for (int64_t v = 0; v < kPanel; v += kLanes) {
      const auto seen = hn::And(hn::Ge(key, hn::Load(DF(), begin + v)), hn::Lt(key, hn::Load(DF(), end + v)));
      float* s = w.scores + j * kPanel + v;
      hn::StoreU(hn::IfThenElse(seen, hn::LoadU(DF(), s), Set(kNegativeInfinity)), DF(), s);
    }
  }
}

/// Scores to weights; updates the panel's state and rescales its outputs.
void Weigh(const Work& w, const Panel& p, int64_t keys) {
  for (int64_t v = 0; v < kPanel; v += kLanes) {
    float* column = w.scores + v;
    const VF before = hn::LoadU(DF(), p.largest + v);
    VF largest = before;
    for (int64_t j = 0; j < keys; ++j) largest = hn::Max(hn::LoadU(DF(), column + j * kPanel), largest);
    const VF shift = SafeShift(largest);
    const VF correction = ExpNegative(hn::Sub(before, shift));
    VF sum = Zero();
    for (int64_t j = 0; j < keys; ++j) {
      const VF weight = ExpNegative(hn::Sub(hn::LoadU(DF(), column + j * kPanel), shift));
      hn::StoreU(weight, DF(), column + j * kPanel);
      sum = hn::Add(sum, weight);
    }
    hn::StoreU(largest, DF(), p.largest + v);
    hn::StoreU(hn::MulAdd(hn::LoadU(DF(), p.sums + v), correction, sum), DF(), p.sums + v);
    if (hn::AllTrue(DF(), hn::Eq(correction, Set(1.0f)))) continue;
    for (int64_t c = 0; c < w.a.v_head_size; ++c) {
      float* o = p.outputs + c * kPanel + v;
      hn::StoreU(hn::Mul(correction, hn::LoadU(DF(), o)), DF(), o);
    }
  }
}

/// Rows of floats in memory; what a block of keys or values was converted to, or the cache itself.
struct FloatRows {
  const float* data = nullptr;
  int64_t pitch = 0;
};

void WalkPanel(const Work& w, Panel& p, int64_t block, int64_t first, FloatRows k, FloatRows v) {
  const AttentionArgs& a = w.a;
  // keys before `first` are seen by no lane of the task, keys from p.end on by none of the panel
  const int64_t keys = std::min(p.end, block + kPrefillKeys) - first;
  for (int64_t i = 0; i < keys;) {
    const int64_t rows = ExactRows(keys - i);
    RunKernel<F32, true>(rows, k.data + i * k.pitch, k.pitch, p.queries, kPanel, a.head_size,
                         w.scores + i * kPanel, kPanel, true);
    i += rows;
  }
  if (a.bias.data != nullptr) {
    if (a.bias.dtype == DType::kBool) {
      LoadBoolBias(w, p, first, keys);
    } else {
      WithType(a.bias.dtype, [&](auto type) HWY_ATTR { LoadBias<decltype(type)>(w, p, first, keys); });
    }
  }
  if (a.softcap > 0 || a.bias.data != nullptr) Adjust(w, keys);
  if (first < p.all_begin || first + keys > p.all_end || p.lanes < kPanel) Hide(w, p, first, keys);
  Weigh(w, p, keys);
  for (int64_t c = 0; c < a.v_head_size;) {
    const int64_t rows = ExactRows(a.v_head_size - c);
    RunKernel<F32>(rows, v.data + c, v.pitch, w.scores, kPanel, keys, p.outputs + c * kPanel, kPanel, false);
    c += rows;
  }
}

/// `keys` rows from `first` on, converted to floats in `buffer` where they are none.
template <class E>
FloatRows LoadRows(const Work& w, const ConstArray& from, const HeadLayout& layout, int64_t first,
                   int64_t keys, int64_t size, float* buffer) {
  const auto* rows = static_cast<const typename E::T*>(from.data) + w.t.b * layout.batch_stride +
                     w.t.kv_head * layout.head_stride + first * layout.seq_stride;
  if constexpr (E::kDType == DType::kFloat) {
    return {rows, layout.seq_stride};
  } else {
    for (int64_t j = 0; j < keys; ++j) {
      const auto* row = rows + j * layout.seq_stride;
      float* out = buffer + j * size;
      int64_t c = 0;
      for (; c + kLanes <= size; c += kLanes) hn::StoreU(Load<E>(row + c), DF(), out + c);
      for (; c < size; ++c) out[c] = E::Get(row[c]);
    }
    return {buffer, size};
  }
}

void StoreOutputs(const Work& w, const Panel& p) {
  const AttentionArgs& a = w.a;
  HWY_ALIGN float factors[kPanel];
  for (int64_t lane = 0; lane < p.lanes; ++lane) {
    factors[lane] = p.sums[lane] != 0               ? 1 / p.sums[lane]
                    : a.empty_row == EmptyRow::kNaN ? std::numeric_limits<float>::quiet_NaN()
                                                    : 0;
  }
  for (int64_t c0 = 0; c0 < a.v_head_size; c0 += kPrefillKeys) {  // through the scores: [lane][columns]
    const int64_t columns = std::min(kPrefillKeys, a.v_head_size - c0), whole = columns / 4 * 4;
    const float* o = p.outputs + c0 * kPanel;
    for (int64_t lane = 0; lane < kPanel; lane += 4) {
      for (int64_t c = 0; c < whole; c += 4) {
        const float* r = o + c * kPanel + lane;
        Transpose4<F32>(r, r + kPanel, r + 2 * kPanel, r + 3 * kPanel, w.scores + lane * kPrefillKeys + c,
                        kPrefillKeys);
      }
      for (int64_t c = whole; c < columns; ++c)
        for (int64_t i = 0; i < 4; ++i) w.scores[(lane + i) * kPrefillKeys + c] = o[c * kPanel + lane + i];
    }
    for (int64_t lane = 0; lane < p.lanes; ++lane) {
      const int64_t r = p.first + lane;
      const int64_t y = w.t.b * a.y_layout.batch_stride + r / w.group * a.y_layout.seq_stride +
                        (w.t.kv_head * w.group + r % w.group) * a.y_layout.head_stride + c0;
      for (int64_t c = 0; c < columns; c += kLanes) {
        const VF v = hn::Mul(Set(factors[lane]), hn::LoadU(DF(), w.scores + lane * kPrefillKeys + c));
        StoreAny(v, a.y.data, a.y.dtype, y + c, columns - c);
      }
    }
  }
}

}  // namespace

void PrefillQueries(const PrefillTask& task) {
  const AttentionArgs& a = *task.args;
  const PrefillLayout& l = task.layout;
  Panel panels[kPrefillPanels];
  int64_t count = 0;
  float* at = task.worker;
  for (int64_t r = task.first; r < task.last; r += kPanel, ++count) {
    Panel& p = panels[count];
    p.queries = at;
    p.outputs = p.queries + l.queries;
    p.largest = p.outputs + l.outputs;
    p.sums = p.largest + kPanel;
    at = p.sums + kPanel;
    p.first = r;
    p.lanes = std::min(kPanel, task.last - r);
  }
  at = task.worker + kPrefillPanels * (l.queries + l.outputs + l.state);
  const Work w{a, task, a.q_heads / a.kv_heads, at, at + l.scores / 2, at + l.scores, at + l.scores + l.keys};
  int64_t begin = std::numeric_limits<int64_t>::max(), end = 0;
  for (int64_t i = 0; i < count; ++i) {
    WithType(a.q.dtype, [&](auto type) HWY_ATTR { LoadQueries<decltype(type)>(w, panels[i]); });
    StartPanel(w, panels[i]);
    if (panels[i].end > panels[i].begin) begin = std::min(begin, panels[i].begin);
    end = std::max(end, panels[i].end);
  }
  for (int64_t block = end == 0 ? 0 : begin / kPrefillKeys * kPrefillKeys; block < end;
       block += kPrefillKeys) {
    const int64_t first = std::max(block, begin), keys = std::min(end, block + kPrefillKeys) - first;
    const auto load = [&](const ConstArray& from, const HeadLayout& layout, const KvCodec& codec,
                          int64_t size, float* buffer) HWY_ATTR {
      if (codec.quantized()) {
        const auto* rows = static_cast<const std::byte*>(from.data) + w.t.b * layout.batch_stride +
                           w.t.kv_head * layout.head_stride + first * layout.seq_stride;
        LoadKvRows(codec, w.t.kv_head, rows, layout.seq_stride, keys, size, buffer);
        return FloatRows{buffer, size};
      }
      FloatRows rows;
      WithType(from.dtype, [&](auto type) HWY_ATTR {
        rows = LoadRows<decltype(type)>(w, from, layout, first, keys, size, buffer);
      });
      return rows;
    };
    const FloatRows k = load(a.k, a.k_layout, a.k_codec, a.head_size, w.keys);
    const FloatRows v = load(a.v, a.v_layout, a.v_codec, a.v_head_size, w.values);
    for (int64_t i = 0; i < count; ++i) {
      if (panels[i].begin < block + kPrefillKeys && panels[i].end > first) {
        WalkPanel(w, panels[i], block, first, k, v);
      }
    }
  }
  for (int64_t i = 0; i < count; ++i) StoreOutputs(w, panels[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace ullage::dense
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ullage::dense {

HWY_EXPORT(PrefillQueries);
void RunPrefill(const PrefillTask& task) {
  HWY_DYNAMIC_DISPATCH(PrefillQueries)(task);
}

}  // namespace ullage::dense
#endif
