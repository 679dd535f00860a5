#include "ops/families.h"

namespace ullage::ops {
namespace {

void ScatterElements(ShapeContext& c) {
  CheckSameType(c, 0, 2);
  if (c.shape(0).known_rank()) {
    c.Axis(c.node().Int("axis", 0), c.shape(0).rank);
    CheckRank(c, 1, c.shape(0).rank);
    CheckRank(c, 2, c.shape(0).rank);
  }
  SameAsInput(c);
}

void ScatterND(ShapeContext& c) {
  CheckSameType(c, 0, 2);
  CheckRankAtLeast(c, 1, 1);
  const BoundedShape &data = c.shape(0), &indices = c.shape(1), &updates = c.shape(2);
  if (data.known_rank() && indices.known_rank() && indices.at(-1).exact()) {
    const int64_t k = indices.at(-1).lower;
    if (k > data.rank)
      c.Fail("indices of shape ", indices.ToString(), " for data of shape ", data.ToString());
    CheckRank(c, 2, static_cast<int>(indices.rank - 1 + data.rank - k));
    if (updates.known_rank())
      for (int i = 0; i + 1 < indices.rank; ++i) CheckEqual(c, updates[i], indices[i], "updates and indices");
  }
  SameAsInput(c);
  if (!c.wants_values() || data.rank != 1 || c.node().StrView("reduction", "none") != "none") return;
  const BoundedValues *from = c.values(0), *at = c.values(1), *put = c.values(2);
  if (from == nullptr || at == nullptr || put == nullptr || !at->exact() || at->count != put->count) return;
  BoundedValues r = *from;
  for (int i = 0; i < at->count; ++i) {
    const int64_t k = (*at)[i].lower < 0 ? (*at)[i].lower + r.count : (*at)[i].lower;
    if (k < 0 || k >= r.count) return;
    r[static_cast<int>(k)] = (*put)[i];
  }
  OfferValues(c, 0, c.dtype(0), r);
}

void TensorScatter(ShapeContext& c) {
  CheckSameType(c, 0, 1);
  const BoundedShape &cache = c.shape(0), &update = c.shape(1);
  if (cache.known_rank() && update.known_rank()) {
    CheckRank(c, 1, cache.rank);
    const int axis = c.Axis(c.node().Int("axis", -2), cache.rank);
    for (int i = 0; i < cache.rank; ++i) {
      if (i != axis) CheckEqual(c, cache[i], update[i], "dimensions of the cache and the update");
    }
    if (update[axis].lower > cache[axis].upper)
      c.Fail("an update of ", update[axis].lower, " rows for a cache of ", cache[axis].upper);
  }
  SameAsInput(c);
}

void Trilu(ShapeContext& c) {
  CheckRankAtLeast(c, 0, 2);
  if (c.has(1)) CheckElements(c, 1, 1);
  SameAsInput(c);
}

void Pad(ShapeContext& c) {
  const BoundedShape& in = c.shape(0);
  if (!in.known_rank()) {
    c.Set(0, c.dtype(0), BoundedShape::Unknown());
    return;
  }
  BoundedValues pads;
  bool known = true;
  Axes axes;
  if (SinceOpset(c, 11)) {
    if (c.has(2)) CheckSameType(c, 0, 2);
    const BoundedValues* v = c.values(1);
    known = v != nullptr;
    if (known) pads = *v;
    if (SinceOpset(c, 18)) axes = AxesFromInput(c, 3, in.rank);
  } else {
    const auto list = c.node().IntsView(c.node().has_attr("pads") ? "pads" : "paddings");
    if (list.size() > 2 * static_cast<size_t>(kMaxRank)) c.Fail(list.size(), " pads");
    for (int64_t n : list) pads[pads.count++] = Bound::Exactly(n);
  }
  if (axes.kind == Axes::kAbsent) {
    axes.count = in.rank;
    for (int i = 0; i < in.rank; ++i) axes.order[static_cast<size_t>(i)] = i;
  }
  BoundedShape out = in;
  out.max_elements = kUnbounded;
  if (known && axes.kind != Axes::kUnknown) {
    if (pads.count != 2 * axes.count) c.Fail(pads.count, " pads for ", axes.count, " axes");
    for (int i = 0; i < axes.count; ++i) {
      const int axis = axes.order[static_cast<size_t>(i)];
      out[axis] = CheckedDim(c, c.math().Add(c.math().Add(in[axis], pads[i]), pads[i + axes.count]));
    }
  } else {
    // Unknown pads touch the axes they are for.
    for (int i = 0; i < in.rank; ++i) {
      bool touched = axes.kind == Axes::kUnknown;
      for (int k = 0; k < axes.count && !touched; ++k) touched = axes.order[static_cast<size_t>(k)] == i;
      if (touched) out[i] = Bound();
    }
  }
  c.Set(0, c.dtype(0), out);
}

}  // namespace

void RegisterScatter(Registry& ops) {
  const auto scatter = [&](std::string_view name, int since, ShapeRule rule) {
    ops.push_back(
        {.name = name, .since = since, .min_inputs = 3, .max_inputs = 3, .rule = rule, .in_place = Bits(0)});
  };
  scatter("Scatter", 9, ScatterElements);
  scatter("ScatterElements", 11, ScatterElements);
  scatter("ScatterND", 11, ScatterND);
  ops.push_back({.name = "TensorScatter",
                 .since = 24,
                 .min_inputs = 2,
                 .max_inputs = 3,
                 .rule = TensorScatter,
                 .in_place = Bits(0)});
  ops.push_back({.name = "Trilu", .since = 14, .max_inputs = 2, .rule = Trilu, .in_place = Bits(0)});
  ops.push_back({.name = "Pad", .since = 1, .rule = Pad});
  ops.push_back(
      {.name = "Pad", .since = 11, .min_inputs = 2, .max_inputs = 3, .rule = Pad, .reads_values = Bits(1)});
  ops.push_back({.name = "Pad",
                 .since = 18,
                 .min_inputs = 2,
                 .max_inputs = 4,
                 .rule = Pad,
                 .reads_values = Bits(1, 3)});
}

}  // namespace ullage::ops
