#include "providers/cpu/dense/kv_cache.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace ullage::dense {
namespace {

int64_t PastLength(const AppendKvArgs& a, int64_t b) {
  return a.past_len != nullptr ? a.past_len[b] : a.past_len_all;
}

void CopyPast(ThreadTeam& team, const AppendKvArgs& a, const CacheArray& past, const CacheArray& present,
              int64_t size) {
  if (past.data.data == nullptr) return;
  if (past.data.data == present.data.data && past.batch_stride == present.batch_stride &&
      past.head_stride == present.head_stride) {
    return;
  }
  const auto element = static_cast<int64_t>(ElementBytes(present.data.dtype));
  team.Run(a.batch * a.kv_heads, [&](int64_t task, int) {
    const int64_t b = task / a.kv_heads, h = task % a.kv_heads;
    std::memcpy(static_cast<std::byte*>(present.data.data) +
                    (b * present.batch_stride + h * present.head_stride) * element,
                static_cast<const std::byte*>(past.data.data) +
                    (b * past.batch_stride + h * past.head_stride) * element,
                static_cast<size_t>(PastLength(a, b) * size * element));
  });
}

}  // namespace

void AppendKv(ThreadTeam& team, const AppendKvArgs& a) {
  for (int64_t b = 0; b < a.batch; ++b) {
    const int64_t past = PastLength(a, b);
    if (past < 0 || past > a.capacity - a.seq) {
      Throw(Code::kInvalidInput, "the key/value cache has ", a.capacity, " rows, batch row ", b, " needs ",
            past, " past and ", a.seq, " new ones");
    }
  }
  HeadTransformArgs t;
  t.batch = a.batch;
  t.seq = a.seq;
  t.heads = a.kv_heads;
  t.dst_start = a.past_len;
  t.dst_offset = a.past_len_all;
  if (a.key.data != nullptr) {
    CopyPast(team, a, a.past_key, a.present_key, a.head_size);
    t.head_size = a.head_size;
    t.src = a.key;
    t.src_layout = a.key_layout;
    t.dst = a.present_key.data;
    t.dst_layout = {a.present_key.batch_stride, a.head_size, a.present_key.head_stride};
    t.bias = a.key_bias;
    t.norm_weight = a.k_norm_weight;
    t.norm_epsilon = a.k_norm_epsilon;
    t.rope = a.rope;
    t.positions = a.positions;
    if (a.positions.ids == nullptr && a.positions.start == nullptr) {
      t.positions.start = a.past_len;
      t.positions.offset = a.past_len_all;
    }
    TransformHeads(team, t);
  }
  if (a.value.data != nullptr) {
    CopyPast(team, a, a.past_value, a.present_value, a.v_head_size);
    t.head_size = a.v_head_size;
    t.src = a.value;
    t.src_layout = a.value_layout;
    t.dst = a.present_value.data;
    t.dst_layout = {a.present_value.batch_stride, a.v_head_size, a.present_value.head_stride};
    t.bias = a.value_bias;
    t.norm_weight = {};
    t.rope = {};
    TransformHeads(team, t);
  }
}

}  // namespace ullage::dense
