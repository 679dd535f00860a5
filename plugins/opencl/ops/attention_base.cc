#include "ops/attention_base.h"

#include <algorithm>

#include "spread.h"

namespace ullage_opencl {
namespace {

// A few queries over many keys are cut along the keys.
constexpr int64_t kSplitSeq = 4, kSplitKeys = 512, kMostSplits = 16, kLeastSplit = 256;

}  // namespace

void AttentionOp::UseAttention(const Types& types, int64_t size, int64_t values) {
  if (size < 1 || values < 1) node_.Unsupported("heads of unknown size");
  if (size > 1024 || values > 1024) node_.Unsupported("heads of more than 1024 elements");
  const std::string options = Define("Q", TypeCode(types.q)) + Define("K", TypeCode(types.k)) +
                              Define("Y", TypeCode(types.y)) + Define("M", TypeCode(types.mask)) +
                              Define("L", TypeCode(types.lengths)) + Define("S", TypeCode(types.sinks)) +
                              Define("SIZE", size) + Define("VALUES", values);
  attend_ = &Use("attention.cl", options, "attend");
  join_ = &Use("attention.cl", options, "join");
  unit_ = SizeOf(types.k);
  copy_ = &Use("movement.cl", Define("SIZE", unit_), "strided");
}

Tensor AttentionOp::InRegion(const ullage_region& region, int32_t dtype) {
  Tensor t;
  t.dtype = dtype;
  t.buffer = region.buffer;
  t.offset = region.offset;
  return t;
}

KeyRows AttentionOp::Cache(const Tensor& t) {
  return {t, HeadsFirst(t[1], t.rows(), t[3])};
}

void AttentionOp::CopyRows(const Context& c, const KeyRows& from, int64_t from_row, const KeyRows& to,
                           int64_t to_row, int64_t batch, int64_t heads, int64_t rows, int64_t size) const {
  const auto strides = [](const HeadLayout& l) { return std::vector<int64_t>{l.batch, l.head, l.row, 1}; };
  const Walk walk({batch, heads, rows, size}, {strides(from.layout), strides(to.layout)});
  if (walk.count == 0) return;
  c.Start(*copy_)
      .Add(from.data)
      .Add(to.data)
      .Value(Count(walk.count))
      .Value(walk.dims)
      .Value(walk.strides[0])
      .Value(walk.strides[1])
      .Long(from_row * from.layout.row)
      .Long(to_row * to.layout.row)
      .RunOver(walk.count);
}

void AttentionOp::SetMask(const Tensor* mask, int64_t keys, bool padded, AttentionArgs* args) const {
  if (!mask) return;
  if (mask->rank > 4) node_.Invalid("a mask of shape " + mask->ToString());
  args->mask = 1;
  const int64_t last = mask->rank > 0 ? mask->back() : 1;
  const bool spreads = last == 1 && !(padded && mask->rank > 0);
  args->m_keys = Int32(spreads ? keys : last, "keys of a mask");
  args->m_key = spreads ? 0 : 1;
  int64_t* steps[] = {&args->m_row, &args->m_head, &args->m_batch};
  int64_t step = last;
  for (int i = 2; i <= mask->rank; ++i) {
    *steps[i - 2] = mask->back(i) == 1 ? 0 : step;
    step *= mask->back(i);
  }
}

int64_t AttentionOp::PartBytes(int64_t batch, int64_t heads, int64_t seq, int64_t keys,
                               int64_t values) const {
  if (keys >= 0 && keys <= kSplitKeys) return 0;
  return Product({batch, heads, seq < 0 ? kSplitSeq : std::min(seq, kSplitSeq), kMostSplits, values + 2, 4});
}

void AttentionOp::Attend(const Context& c, const KeyRows& q, const KeyRows& k, const KeyRows& v,
                         const KeyRows& y, const Operands& operands, AttentionArgs args,
                         int64_t batch) const {
  if (batch == 0 || args.seq == 0) return;
  const auto set = [](const HeadLayout& l, int64_t* b, int64_t* row, int64_t* head) {
    *b = l.batch;
    *row = l.row;
    *head = l.head;
  };
  set(q.layout, &args.q_batch, &args.q_row, &args.q_head);
  set(k.layout, &args.k_batch, &args.k_row, &args.k_head);
  set(v.layout, &args.v_batch, &args.v_row, &args.v_head);
  set(y.layout, &args.y_batch, &args.y_row, &args.y_head);
  ullage_region parts{};
  if (args.seq <= kSplitSeq && args.keys > kSplitKeys) {
    const int64_t splits = std::min<int64_t>(kMostSplits, (args.keys + kLeastSplit - 1) / kLeastSplit);
    args.split = static_cast<int32_t>(((args.keys + splits - 1) / splits + 63) / 64 * 64);
    args.splits = (args.keys + args.split - 1) / args.split;
    parts = c.Workspace(kParts, PartBytes(batch, args.q_heads, args.seq, args.keys, args.values));
  }
  c.Start(*attend_)
      .Add(q.data)
      .Add(k.data)
      .Add(v.data)
      .Add(y.data)
      .Add(operands.mask)
      .Add(operands.lengths)
      .Add(operands.sinks)
      .Add(parts)
      .Value(args)
      .Run(int64_t{args.seq} * args.splits, args.q_heads, batch, 64);
  if (args.splits > 1)
    c.Start(*join_)
        .Add(y.data)
        .Add(operands.sinks)
        .Add(parts)
        .Value(args)
        .Run(args.seq, args.q_heads, batch, 64);
}

}  // namespace ullage_opencl
