/// Parts of the attention that its paths share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/checked.h"
#include "providers/cpu/dense/attention.h"
#include "providers/cpu/dense/gemm.h"

namespace ullage::dense {

inline constexpr int64_t kDecodeKeys = 128;   ///< keys per task for one query row; part of the result's bits
inline constexpr int64_t kPrefillKeys = 128;  ///< keys per step for several rows; part of the result's bits
inline constexpr int64_t kPrefillPanels = 4;  ///< panels of kPanel queries per task
inline constexpr int64_t kFloatsPerLine = 16;

/// Keys that a query sees: [begin, end), empty when end <= begin.
struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;
};

inline int64_t KeyLength(const AttentionArgs& a, int64_t b) {
  return a.key_len != nullptr ? a.key_len[b] : a.max_keys;
}

inline KeyRange VisibleKeys(const AttentionArgs& a, int64_t b, int64_t s) {
  const int64_t length = KeyLength(a, b);
  const int64_t i = (a.query_offset != nullptr ? a.query_offset[b] : length - a.seq) + s;
  KeyRange r{0, length};
  if (a.bias.data != nullptr && a.bias_keys >= 0) r.end = std::min(r.end, a.bias_keys);
  if (a.right_window >= 0) r.end = std::min(r.end, i + a.right_window + 1);
  if (a.left_window >= 0) r.begin = std::max<int64_t>(0, i - a.left_window);
  if (r.end <= r.begin) r.begin = r.end = 0;
  return r;
}

/// Element index of the bias row of (b, n, s).
inline int64_t BiasRow(const AttentionArgs& a, int64_t b, int64_t n, int64_t s) {
  return b * a.bias_batch_stride + n * a.bias_head_stride + s * a.bias_seq_stride;
}

inline bool HasSink(const AttentionArgs& a) {
  return a.head_sink.data != nullptr || a.smooth_softmax;
}

/// Sizes, in floats, of the scratch of one query row per batch: one buffer per worker, then the partial
/// results of every (batch, query head, block), then one counter per (batch, key head).
struct DecodeLayout {
  int64_t blocks = 0;       ///< most blocks of keys
  int64_t query_pitch = 0;  ///< floats of one query, a multiple of every vector
  int64_t rows = 0;         ///< one block of keys or values as floats, where the cache holds integers
  int64_t worker = 0;
  int64_t partial = 0;  ///< maximum, sum, then the weighted values from kFloatsPerLine on
};
inline DecodeLayout DecodeLayoutOf(const AttentionArgs& a) {
  const int64_t group = a.kv_heads == 0 ? 0 : a.q_heads / a.kv_heads;
  DecodeLayout l;
  l.blocks = CeilDiv(a.max_keys, kDecodeKeys);
  l.query_pitch = AlignUp(a.head_size, kFloatsPerLine);
  if (a.k_codec.quantized() || a.v_codec.quantized())
    l.rows = AlignUp(kDecodeKeys * std::max(a.head_size, a.v_head_size), kFloatsPerLine);
  l.worker = group * (l.query_pitch + kDecodeKeys) + l.rows;
  l.partial = kFloatsPerLine + AlignUp(a.v_head_size, kFloatsPerLine);
  return l;
}

/// Sizes, in floats, of one worker's scratch of several query rows.
struct PrefillLayout {
  int64_t queries = 0;  ///< per panel: [head_size][kPanel]
  int64_t outputs = 0;  ///< per panel: [v_head_size][kPanel]
  int64_t state = 0;    ///< per panel: maximum and sum of each lane
  int64_t scores = 0;   ///< [kPrefillKeys][kPanel], twice: scores and bias
  int64_t keys = 0;
  int64_t values = 0;
  int64_t worker() const { return kPrefillPanels * (queries + outputs + state) + scores + keys + values; }
};
inline PrefillLayout PrefillLayoutOf(const AttentionArgs& a) {
  PrefillLayout l;
  l.queries = a.head_size * kPanel;
  l.outputs = a.v_head_size * kPanel;
  l.state = 2 * kPanel;
  l.scores = 2 * kPrefillKeys * kPanel;
  l.keys = AlignUp(kPrefillKeys * a.head_size, kFloatsPerLine);
  l.values = AlignUp(kPrefillKeys * a.v_head_size, kFloatsPerLine);
  return l;
}

/// One block of keys for the queries of one key head; the last one to finish combines the blocks.
struct DecodeTask {
  const AttentionArgs* args = nullptr;
  DecodeLayout layout;
  int64_t b = 0;
  int64_t kv_head = 0;
  int64_t block = 0;
  float* worker = nullptr;
  float* partials =
      nullptr;  ///< of (b, first query head of the group, block 0); heads are blocks * partial apart
};
void RunDecodeBlock(const DecodeTask& task);
/// Writes the output of one (b, query head) from its partial results.
void CombineDecode(const DecodeTask& task, int64_t group_head);

/// Queries [first, last) of the (seq * group) queries of one key head; query r is row r / group, head r %
/// group.
struct PrefillTask {
  const AttentionArgs* args = nullptr;
  PrefillLayout layout;
  int64_t b = 0;
  int64_t kv_head = 0;
  int64_t first = 0;
  int64_t last = 0;
  float* worker = nullptr;
};
void RunPrefill(const PrefillTask& task);

/// One row of queries with the scores written out: args.qk_mode is set. `row` has room for max_keys floats.
void RunScoredRow(const AttentionArgs& args, int64_t b, int64_t n, int64_t s, float* row);

}  // namespace ullage::dense
