#include "providers/cpu/dense/kv_cache.h"

#include <algorithm>
#include <cstring>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/dense/tasks.h"

namespace ullage::dense {
namespace {

int64_t PastLength(const AppendKvArgs& a, int64_t b) {
  return a.past_len != nullptr ? a.past_len[b] : a.past_len_all;
}

int64_t RowOf(const CacheArray& c, int64_t size) {
  return c.row > 0 ? c.row : size;
}

/// Writes the rows that `t` describes to the cache; by way of `scratch` where it holds integers.
void Write(ThreadTeam& team, const AppendKvArgs& a, HeadTransformArgs t, const CacheArray& present,
           int64_t size) {
  t.head_size = size;
  if (!present.codec.quantized()) {
    t.dst = present.data;
    t.dst_layout = {present.batch_stride, RowOf(present, size), present.head_stride};
    TransformHeads(team, t);
    return;
  }
  const int64_t rows = a.seq * size;
  auto* floats = static_cast<float*>(a.scratch);
  t.dst = {floats, DType::kFloat};
  t.dst_layout = {a.kv_heads * rows, size, rows};
  t.dst_start = nullptr;
  t.dst_offset = 0;
  TransformHeads(team, t);
  constexpr int64_t kRowsPerTask = 64;
  const int64_t parts = CeilDiv(a.seq, kRowsPerTask);
  RunTasks(team, a.batch * a.kv_heads * parts, 8 * a.batch * a.kv_heads * rows, [&](int64_t task, int) {
    const int64_t b = task / parts / a.kv_heads, h = task / parts % a.kv_heads, part = task % parts;
    auto* cache = static_cast<std::byte*>(present.data.data) + b * present.batch_stride +
                  h * present.head_stride + PastLength(a, b) * RowOf(present, size);
    for (int64_t s = part * kRowsPerTask; s < std::min(a.seq, (part + 1) * kRowsPerTask); ++s)
      StoreKvRow(present.codec, h, floats + ((b * a.kv_heads + h) * a.seq + s) * size, size,
                 cache + s * RowOf(present, size));
  });
}

void CopyPast(ThreadTeam& team, const AppendKvArgs& a, const CacheArray& past, const CacheArray& present,
              int64_t size) {
  if (past.data.data == nullptr) return;
  const int64_t row = RowOf(present, size);
  if (past.data.data == present.data.data && past.batch_stride == present.batch_stride &&
      past.head_stride == present.head_stride) {
    return;
  }
  const int64_t element =
      present.codec.quantized() ? 1 : static_cast<int64_t>(ElementBytes(present.data.dtype));
  team.Run(a.batch * a.kv_heads, [&](int64_t task, int) {
    const int64_t b = task / a.kv_heads, h = task % a.kv_heads;
    std::memcpy(static_cast<std::byte*>(present.data.data) +
                    (b * present.batch_stride + h * present.head_stride) * element,
                static_cast<const std::byte*>(past.data.data) +
                    (b * past.batch_stride + h * past.head_stride) * element,
                static_cast<size_t>(PastLength(a, b) * row * element));
  });
}

}  // namespace

size_t AppendKvScratchBytes(int64_t batch, int64_t seq, int64_t kv_heads, int64_t size) {
  const int64_t rows = CheckedMul(CheckedMul(batch, seq), kv_heads);
  return CheckedMul(static_cast<size_t>(CheckedMul(rows, size)), sizeof(float));
}

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
    t.src = a.key;
    t.src_layout = a.key_layout;
    t.bias = a.key_bias;
    t.norm_weight = a.k_norm_weight;
    t.norm_epsilon = a.k_norm_epsilon;
    t.rope = a.rope;
    t.positions = a.positions;
    if (a.positions.ids == nullptr && a.positions.start == nullptr) {
      t.positions.start = a.past_len;
      t.positions.offset = a.past_len_all;
    }
    Write(team, a, t, a.present_key, a.head_size);
  }
  if (a.value.data != nullptr) {
    CopyPast(team, a, a.past_value, a.present_value, a.v_head_size);
    t.src = a.value;
    t.src_layout = a.value_layout;
    t.bias = a.value_bias;
    t.norm_weight = {};
    t.rope = {};
    Write(team, a, t, a.present_value, a.v_head_size);
  }
}

}  // namespace ullage::dense
