/// Rotary position embedding, alone or together with a per-head RMS norm and a change of layout and type.
/// Sources: ai.onnx RotaryEmbedding-23; com.microsoft RotaryEmbedding, MRotaryEmbedding, and the query and
/// key preparation of GroupQueryAttention.
#pragma once

#include <cstdint>

#include "core/thread_team.h"
#include "providers/cpu/dense/array.h"

namespace ullage::dense {

/// cos and sin of the angles. Row p holds rot/2 values of position p.
struct RopeTable {
  ConstArray cos;            ///< data null: no rotation
  ConstArray sin;            ///< same type and pitch as cos
  int64_t rows = 0;          ///< positions are below this; a larger or negative one throws kInvalidInput
  int64_t pitch = 0;         ///< elements between rows (usually rot/2)
  int64_t rotary_dim = 0;    ///< rot: the first rot elements of a head are rotated, the rest are copied
  bool interleaved = false;  ///< pairs (2i, 2i+1) instead of (i, i + rot/2)
};

/// Where the position of row s of batch b comes from: ids[b*ids_batch_stride + s] when given, else start[b] +
/// s when given, else offset + s.
struct RopePositions {
  const int64_t* ids = nullptr;
  int64_t ids_batch_stride = 0;
  const int64_t* start = nullptr;
  int64_t offset = 0;
  /// MRotaryEmbedding: ids is [3, batch, seq] with `ids_section_stride` elements between the three; pair i
  /// takes its angle from position section_of_pair[i] (0, 1 or 2). Null: one position for all pairs.
  const uint8_t* section_of_pair = nullptr;
  int64_t ids_section_stride = 0;
};

/// A [batch, seq, heads, head_size] array, head_size contiguous. 3-D [B,S,N*H]: seq = N*H, head = H; 4-D
/// [B,N,S,H]: seq = H, head = S*H; caches: seq = H, head = capacity*H.
struct HeadLayout {
  int64_t batch_stride = 0;
  int64_t seq_stride = 0;
  int64_t head_stride = 0;
};

/// dst = rope(rms_norm(src)); each of the two is optional. In place (dst == src, same type and layout) is
/// allowed.
struct HeadTransformArgs {
  int64_t batch = 0;
  int64_t seq = 0;
  int64_t heads = 0;
  int64_t head_size = 0;
  ConstArray src;
  HeadLayout src_layout;
  Array dst;
  HeadLayout dst_layout;
  /// Row s of batch b is written at row dst_start[b] + s, or dst_offset + s when dst_start is null.
  const int64_t* dst_start = nullptr;
  int64_t dst_offset = 0;

  ConstArray bias;         ///< [heads * head_size], added to src first; data may be null
  ConstArray norm_weight;  ///< [head_size]; data null: no norm
  float norm_epsilon = 1e-6f;
  RopeTable rope;
  RopePositions positions;
  float scale = 1;  ///< multiplies the result
};

void TransformHeads(ThreadTeam& team, const HeadTransformArgs& args);

}  // namespace ullage::dense
