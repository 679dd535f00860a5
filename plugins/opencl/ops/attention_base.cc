#include "ops/attention_base.h"

#include <algorithm>

#include "spread.h"

namespace ullage_opencl {
namespace {

// Rows (of queries by the heads that share keys) of a tile, and how many call for one.
constexpr int64_t kWide = 64, kNarrow = 16, kManyRows = 33, kFewRows = 6;
// Local memory that a wide tile takes, with some room for the driver.
constexpr uint64_t kWideBytes = 30 * 1024;
// Elements of a value beyond which a tile has too many sums per item.
constexpr int64_t kMostValues = 512;
// Where a launch has few groups, each is cut along its keys into parts of so many keys or more, until the
// device has this many groups per unit.
constexpr int64_t kLeastSplit = 256, kGroupsPerUnit = 4, kLeastUnits = 4;

}  // namespace

AttentionOp::Bounds AttentionOp::BoundsOf(const ValueFacts& queries, size_t seq_axis, int64_t group,
                                          int64_t keys) {
  Bounds bounds;
  bounds.keys = keys;
  if (!queries.known || seq_axis >= queries.upper.size()) return bounds;
  bounds.least_rows = Product({std::max<int64_t>(queries.lower[seq_axis], 0), group});
  bounds.most_rows = Product({queries.upper[seq_axis], group});
  return bounds;
}

void AttentionOp::UseAttention(const Types& types, int64_t size, int64_t values, const Bounds& bounds) {
  if (size < 1 || values < 1) node_.Unsupported("heads of unknown size");
  if (size > 1024 || values > 1024) node_.Unsupported("heads of more than 1024 elements");
  const DeviceFacts& device = device_.facts();
  const bool processor = (device.type & CL_DEVICE_TYPE_CPU) != 0;
  const std::string options = Define("Q", TypeCode(types.q)) + Define("K", TypeCode(types.k)) +
                              Define("Y", TypeCode(types.y)) + Define("M", TypeCode(types.mask)) +
                              Define("L", TypeCode(types.lengths)) + Define("S", TypeCode(types.sinks)) +
                              Define("P", TypeCode(types.padding)) + Define("SIZE", size) +
                              Define("VALUES", values) + Define("KC", types.k_codec.kind) +
                              Define("VC", types.v_codec.kind) + Define("BLOCK", types.k_codec.block);
  const auto tiles = [&](int64_t rows) {
    return &Use("attention.cl", options + Define("TILES", rows), "attend_tiles");
  };
  const auto reaches = [&](int64_t rows) { return bounds.most_rows < 0 || bounds.most_rows >= rows; };
  const bool tiled = values <= kMostValues && reaches(kFewRows);
  if (tiled && reaches(kManyRows) && device.local_bytes >= kWideBytes) wide_ = tiles(kWide);
  if (tiled && (!wide_ || bounds.least_rows < kManyRows)) narrow_ = tiles(kNarrow);
  if (!tiled || bounds.least_rows < kFewRows)
    rows_ = &Use("attention.cl", options + Define("EACH", processor ? 1 : 4), "attend");
  if (bounds.keys < 0 || bounds.keys > kLeastSplit) join_ = &Use("attention.cl", options + "-DJOIN ", "join");
  copy_ = &Use("movement.cl", Define("SIZE", SizeOf(types.k)), "strided");
}

Tensor AttentionOp::InRegion(const ullage_region& region, int32_t dtype) {
  Tensor t;
  t.dtype = dtype;
  t.buffer = region.buffer;
  t.offset = region.offset;
  return t;
}

Tensor AttentionOp::Within(const Tensor& t, int64_t elements) {
  Tensor part = t;
  part.offset += static_cast<uint64_t>(elements * SizeOf(t.dtype));
  return part;
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

void AttentionOp::SetPadding(const Tensor* padding, int64_t batch, int64_t past, float filter,
                             AttentionArgs* args) const {
  if (!padding) return;
  const Tensor& t = *padding;
  const int64_t seq = args->seq, keys = args->keys;
  bool fits = false;
  args->padding = 3;
  args->filter = filter;
  switch (t.rank) {
    case 1:
      fits = t[0] == batch || t[0] == 2 * batch || t[0] == 3 * batch + 2;
      args->padding = t[0] == 2 * batch ? 2 : 1;
      break;
    case 2:
      fits = t[0] == batch && t[1] == keys;
      args->p_batch = keys;
      break;
    case 3:
      fits = t[0] == batch && t[1] == seq && t[2] == keys;
      args->p_batch = seq * keys;
      args->p_row = keys;
      break;
    case 4:
      fits = t[0] == batch && t[1] == 1 && t[2] >= past + seq && t[3] >= keys;
      args->p_batch = t[2] * t[3];
      args->p_row = t[3];
      args->p_first = past * t[3];
      break;
    default:
      break;
  }
  if (!fits)
    node_.Invalid("a padding mask of shape " + t.ToString() + " for " + std::to_string(seq) +
                  " queries and " + std::to_string(keys) + " keys");
}

int64_t AttentionOp::Splits(int64_t groups, int64_t keys) const {
  const int64_t units = std::max<int64_t>(device_.facts().units, kLeastUnits);
  const int64_t most = (keys + kLeastSplit - 1) / kLeastSplit;
  return std::clamp<int64_t>(kGroupsPerUnit * units / std::max<int64_t>(groups, 1), 1,
                             std::max<int64_t>(most, 1));
}

int64_t AttentionOp::PartBytes(int64_t batch, int64_t heads, int64_t group, int64_t seq, int64_t keys,
                               int64_t values) const {
  const int64_t splits = keys < 0 ? INT32_MAX : Splits(1, keys);
  if (splits <= 1 || !join_) return 0;
  // However rows are shared out, there are parts only as long as groups * splits stay within this.
  const int64_t groups = kGroupsPerUnit * std::max<int64_t>(device_.facts().units, kLeastUnits);
  const int64_t height = seq >= 0 && seq * group < kFewRows && rows_ ? 1
                         : wide_                                     ? kWide
                         : narrow_                                   ? kNarrow
                                                                     : 1;
  int64_t rows = groups * height;
  if (batch >= 0 && seq >= 0 && keys >= 0) rows = std::min(rows, Product({batch, heads, seq, splits}));
  return Product({rows, values + 2, 4});
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
  const auto scales_per_head = [&](const Tensor* scales, int32_t size) {
    return scales && scales->elements() > 1 ? size : 0;
  };
  args.k_head_scales = scales_per_head(operands.k_scales, args.size);
  args.v_head_scales = scales_per_head(operands.v_scales, args.values);
  const int64_t rows = int64_t{args.seq} * args.group, kv_heads = args.q_heads / args.group;
  const bool by_row = rows_ && (rows < kFewRows || (!wide_ && !narrow_));
  const bool wide = !by_row && wide_ && (rows >= kManyRows || !narrow_);
  const int64_t height = by_row ? args.group : wide ? kWide : kNarrow;
  const int64_t across = (rows + height - 1) / height, heads = by_row ? args.q_heads : kv_heads;
  if (const int64_t splits = Splits(across * heads * batch, args.keys); join_ && splits > 1) {
    args.split = static_cast<int32_t>(((args.keys + splits - 1) / splits + 63) / 64 * 64);
    args.splits = (args.keys + args.split - 1) / args.split;
  }
  const ullage_region parts = c.Workspace(
      kParts,
      args.splits == 1 ? 0 : Product({batch, args.q_heads, args.seq, args.splits, args.values + 2, 4}));
  {
    auto launch = c.Start(by_row ? *rows_ : wide ? *wide_ : *narrow_);
    launch.Add(q.data).Add(k.data).Add(v.data).Add(y.data).Add(operands.mask).Add(operands.padding);
    launch.Add(operands.lengths).Add(operands.sinks).Add(operands.k_scales).Add(operands.v_scales).Add(parts);
    launch.Value(args);
    if (by_row)
      launch.Run(across * args.splits, heads, batch, 64);
    else
      launch.Run(across * args.splits, heads, batch, 8, static_cast<size_t>(height / 4));
  }
  if (args.splits > 1)
    c.Start(*join_)
        .Add(y.data)
        .Add(operands.sinks)
        .Add(parts)
        .Value(args)
        .Run(args.seq, args.q_heads, batch, 64);
}

}  // namespace ullage_opencl
