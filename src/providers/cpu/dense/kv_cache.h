/// Appending rows to key/value caches.
/// Sources: com.microsoft GroupQueryAttention and MultiHeadAttention, ai.onnx Attention-23 and
/// TensorScatter-24.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/thread_team.h"
#include "providers/cpu/dense/kv_codec.h"
#include "providers/cpu/dense/rope.h"

namespace ullage::dense {

/// One layer's cache: [batch, kv_heads, capacity, head size]; strides in elements, rows contiguous.
struct CacheArray {
  Array data;
  int64_t batch_stride = 0;  ///< usually kv_heads * capacity * head size
  int64_t head_stride = 0;   ///< usually capacity * head size
  int64_t row = 0;           ///< from one row to the next; 0: head size
  KvCodec codec = {};        ///< of integers; strides and rows then count bytes
};

/// Writes new rows of keys and values behind the past ones.
///
///  present[b,h, 0 .. past_len[b])            = past[b,h, same rows]   (only when `past` is another buffer)
///  present[b,h, past_len[b] .. past_len[b]+S) = rope(norm(key + bias))   resp. value + bias
///
/// With a shared buffer (past null, or the same pointer and strides) only the new rows are written. Positions
/// of the rotation default to the row written. Rows at or beyond `capacity` throw kInvalidInput before
/// anything is written.
struct AppendKvArgs {
  int64_t batch = 0;
  int64_t seq = 0;  ///< S new rows; 0 is legal
  int64_t kv_heads = 0;
  int64_t head_size = 0;              ///< of keys
  int64_t v_head_size = 0;            ///< of values
  const int64_t* past_len = nullptr;  ///< [batch]; null: past_len_all for every row
  int64_t past_len_all = 0;
  int64_t capacity = 0;  ///< rows of present

  ConstArray key;  ///< new keys; data may be null (then only values are written)
  HeadLayout key_layout;
  ConstArray value;
  HeadLayout value_layout;
  ConstArray key_bias;       ///< [kv_heads * head_size]; data may be null
  ConstArray value_bias;     ///< [kv_heads * v_head_size]; data may be null
  ConstArray k_norm_weight;  ///< [head_size]; data may be null
  float k_norm_epsilon = 1e-6f;
  RopeTable rope;
  RopePositions positions;  ///< when it has neither ids nor start: past_len[b] + s

  CacheArray past_key;  ///< data.data null: shared buffer
  CacheArray past_value;
  CacheArray present_key;  ///< type of past_key; may differ from the type of key
  CacheArray present_value;
  void* scratch = nullptr;  ///< AppendKvScratchBytes(), aligned to 64 bytes, for caches of integers
};

/// Floats of the new rows, before they are rounded: `batch * seq * kv_heads` rows of `size` (the larger of
/// the two head sizes).
size_t AppendKvScratchBytes(int64_t batch, int64_t seq, int64_t kv_heads, int64_t size);

void AppendKv(ThreadTeam& team, const AppendKvArgs& args);

}  // namespace ullage::dense
