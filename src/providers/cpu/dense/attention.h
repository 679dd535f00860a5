/// Scaled dot-product attention on the CPU.
/// Sources: com.microsoft GroupQueryAttention and MultiHeadAttention, ai.onnx Attention-23, -24 and -25.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/thread_team.h"
#include "providers/cpu/dense/array.h"
#include "providers/cpu/dense/kv_codec.h"
#include "providers/cpu/dense/rope.h"

namespace ullage::dense {

/// What `qk` receives.
enum class QkOutput { kNone, kScaled, kSoftcapped, kMasked, kSoftmax };

/// What a query row without any visible key gives.
enum class EmptyRow { kZeros, kNaN };

/// Y[b,s,n,:] = softmax_j(cap(scale * Q[b,s,n,:] . K[b,n/G,j,:]) + bias) V[b,n/G,j,:],  G = q_heads /
/// kv_heads.
///
/// Query s of batch b stands at position i = query_offset[b] + s (may be negative). It sees key j when
///   0 <= j < key_len[b],  i - left_window <= j (left_window >= 0),  j <= i + right_window (right_window >=
///   0),
/// and the mask allows it. Causal is right_window = 0. A GroupQueryAttention local_window_size of W keys, the
/// query's own included, is left_window = W - 1.
///
/// Keys and values are read by row; nothing beyond key_len[b] is read, so buffers may be larger. The result's
/// bits do not depend on the threads, nor, for seq > 1, on how a prompt is cut into calls of more than one
/// row (the same keys visible). Calls of one row take another path, equal up to rounding.
struct AttentionArgs {
  int64_t batch = 0;
  int64_t seq = 0;  ///< S queries per batch row
  int64_t q_heads = 0;
  int64_t kv_heads = 0;  ///< divides q_heads
  int64_t head_size = 0;
  int64_t v_head_size = 0;
  int64_t max_keys = 0;  ///< T: no key_len is larger; sizes the scratch

  ConstArray q;
  HeadLayout q_layout;
  ConstArray k;  ///< own type, e.g. of the cache
  HeadLayout
      k_layout;  ///< seq_stride is the pitch of key rows; BNSH caches: batch, head_size, capacity*head_size
  KvCodec k_codec;  ///< of integer keys; their layout then counts bytes
  ConstArray v;
  HeadLayout v_layout;
  KvCodec v_codec;
  Array y;
  HeadLayout y_layout;

  const int64_t* key_len = nullptr;       ///< [batch]; null: max_keys
  const int64_t* query_offset = nullptr;  ///< [batch]; null: key_len[b] - seq (bottom right)
  int64_t left_window = -1;               ///< -1: unlimited
  int64_t right_window = 0;               ///< 0: causal; -1: unlimited

  float scale = 1;    ///< multiplies Q.K; the caller resolves "0 means 1/sqrt(head_size)"
  float softcap = 0;  ///< > 0: scores become softcap * tanh(score / softcap), before bias

  /// Added to the scores: float, half, bfloat16; or DType::kBool, where 0 hides the key. Element (b, n, s, j)
  /// at b*bias_batch_stride + n*bias_head_stride + s*bias_seq_stride + j*bias_key_stride. Keys at or beyond
  /// bias_keys are hidden (a mask may be shorter than the keys); -1: as many as there are keys.
  ConstArray bias;  ///< data may be null
  int64_t bias_batch_stride = 0;
  int64_t bias_head_stride = 0;
  int64_t bias_seq_stride = 0;
  int64_t bias_key_stride = 1;
  int64_t bias_keys = -1;

  ConstArray head_sink;         ///< [q_heads] extra logit without a value; data may be null
  bool smooth_softmax = false;  ///< an extra logit of 0, when there is no head_sink

  EmptyRow empty_row = EmptyRow::kZeros;

  QkOutput qk_mode = QkOutput::kNone;
  Array qk;  ///< [batch, q_heads, seq, max_keys] dense; hidden keys: -inf where masked, else 0 beyond
             ///< key_len. Slow path
};

/// Scratch of Attention(); monotone in batch, seq, max_keys and threads.
size_t AttentionScratchBytes(const AttentionArgs& args, int threads);

void Attention(ThreadTeam& team, const AttentionArgs& args, void* scratch);

}  // namespace ullage::dense
