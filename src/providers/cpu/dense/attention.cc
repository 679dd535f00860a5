#include "providers/cpu/dense/attention.h"

#include <algorithm>
#include <atomic>

#include "core/error.h"
#include "providers/cpu/dense/attention_internal.h"
#include "providers/cpu/dense/tasks.h"

namespace ullage::dense {
namespace {

bool IsDecode(const AttentionArgs& a) {
  return a.seq <= 1;
}

int64_t CounterFloats(const AttentionArgs& a) {
  return AlignUp(a.batch * a.kv_heads * static_cast<int64_t>(sizeof(int64_t) / sizeof(float)),
                 kFloatsPerLine);
}

size_t FloatBytes(int64_t floats) {
  return static_cast<size_t>(floats) * sizeof(float);
}

size_t DecodeBytes(const AttentionArgs& a, int threads) {
  const DecodeLayout l = DecodeLayoutOf(a);
  return FloatBytes(CounterFloats(a) + threads * l.worker + a.batch * a.q_heads * l.blocks * l.partial);
}

void Decode(ThreadTeam& team, const AttentionArgs& a, void* scratch) {
  const DecodeLayout l = DecodeLayoutOf(a);
  const int64_t group = a.q_heads / a.kv_heads;
  auto* counters = static_cast<int64_t*>(scratch);
  float* workers = static_cast<float*>(scratch) + CounterFloats(a);
  float* partials = workers + team.size() * l.worker;
  std::fill_n(counters, a.batch * a.kv_heads, 0);
  int64_t keys = 0;
  for (int64_t b = 0; b < a.batch; ++b) {
    const KeyRange visible = VisibleKeys(a, b, 0);
    keys += visible.end - visible.begin;
  }
  const int64_t blocks = std::max<int64_t>(1, l.blocks);
  const int64_t work = keys * a.q_heads * (a.head_size + a.v_head_size);
  RunTasks(team, a.batch * a.kv_heads * blocks, work, [&](int64_t task, int worker) {
    const int64_t pair = task / blocks;
    DecodeTask t;
    t.args = &a;
    t.layout = l;
    t.b = pair / a.kv_heads;
    t.kv_head = pair % a.kv_heads;
    t.block = task % blocks;
    t.worker = workers + worker * l.worker;
    t.partials = partials + pair * group * l.blocks * l.partial;
    const KeyRange seen = VisibleKeys(a, t.b, 0);
    if (t.block * kDecodeKeys < seen.end && (t.block + 1) * kDecodeKeys > seen.begin) RunDecodeBlock(t);
    if (std::atomic_ref<int64_t>(counters[pair]).fetch_add(1, std::memory_order_acq_rel) == blocks - 1) {
      for (int64_t g = 0; g < group; ++g) CombineDecode(t, g);
    }
  });
}

void Prefill(ThreadTeam& team, const AttentionArgs& a, void* scratch) {
  const PrefillLayout l = PrefillLayoutOf(a);
  const int64_t queries = a.seq * (a.q_heads / a.kv_heads);
  int64_t per_task = kPrefillPanels * kPanel;
  while (per_task > kPanel && a.batch * a.kv_heads * CeilDiv(queries, per_task) < 4 * int64_t{team.size()})
    per_task /= 2;
  const int64_t parts = CeilDiv(queries, per_task), pairs = a.batch * a.kv_heads;
  team.Run(pairs * parts, [&](int64_t task, int worker) {
    // the last queries see most keys: largest tasks first
    const int64_t pair = task % pairs, part = parts - 1 - task / pairs;
    PrefillTask t;
    t.args = &a;
    t.layout = l;
    t.b = pair / a.kv_heads;
    t.kv_head = pair % a.kv_heads;
    t.first = part * per_task;
    t.last = std::min(queries, t.first + per_task);
    t.worker = static_cast<float*>(scratch) + worker * l.worker();
    RunPrefill(t);
  });
}

}  // namespace

size_t AttentionScratchBytes(const AttentionArgs& a, int threads) {
  const size_t scored =
      a.qk_mode == QkOutput::kNone ? 0 : FloatBytes(threads * AlignUp(a.max_keys, kFloatsPerLine));
  const size_t decode = DecodeBytes(a, threads);
  const size_t prefill = IsDecode(a) ? 0 : FloatBytes(threads * PrefillLayoutOf(a).worker());
  return std::max({scored, decode, prefill});
}

void Attention(ThreadTeam& team, const AttentionArgs& a, void* scratch) {
  for (const ConstArray& x : {a.q, ConstArray(a.y)}) ElementBytes(x.dtype);
  if (!a.k_codec.quantized()) ElementBytes(a.k.dtype);
  if (!a.v_codec.quantized()) ElementBytes(a.v.dtype);
  if (a.bias.data != nullptr && a.bias.dtype != DType::kBool) ElementBytes(a.bias.dtype);
  if (a.head_sink.data != nullptr) ElementBytes(a.head_sink.dtype);
  if (a.batch == 0 || a.seq == 0 || a.q_heads == 0) return;
  if (a.kv_heads <= 0 || a.q_heads % a.kv_heads != 0) {
    Throw(Code::kInvalidInput, "attention: ", a.q_heads, " query heads cannot share ", a.kv_heads,
          " key heads");
  }
  for (int64_t b = 0; b < a.batch; ++b) {
    if (KeyLength(a, b) < 0 || KeyLength(a, b) > a.max_keys) {
      Throw(Code::kInvalidInput, "attention: batch row ", b, " has ", KeyLength(a, b),
            " keys, expected 0 to ", a.max_keys);
    }
  }
  if (a.qk_mode != QkOutput::kNone) {
    const int64_t pitch = AlignUp(a.max_keys, kFloatsPerLine);
    team.Run(a.batch * a.q_heads * a.seq, [&](int64_t task, int worker) {
      RunScoredRow(a, task / (a.q_heads * a.seq), task / a.seq % a.q_heads, task % a.seq,
                   static_cast<float*>(scratch) + worker * pitch);
    });
  } else if (IsDecode(a)) {
    Decode(team, a, scratch);
  } else {
    Prefill(team, a, scratch);
  }
}

}  // namespace ullage::dense
