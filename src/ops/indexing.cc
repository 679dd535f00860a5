#include "ops/families.h"
#include "ops/interval.h"

namespace ullage::ops {
namespace {

void Gather(ShapeContext& c) {
  const BoundedShape &data = c.shape(0), &indices = c.shape(1);
  if (!data.known_rank() || !indices.known_rank()) {
    c.Set(0, c.dtype(0), BoundedShape::Unknown());
    return;
  }
  if (data.rank == 0) c.Fail("the data are a scalar");
  const int axis = c.Axis(c.node().Int("axis", 0), data.rank);
  BoundedShape out = BoundedShape::Scalar();
  for (int i = 0; i < axis; ++i) out.push_back(data[i]);
  for (int i = 0; i < indices.rank; ++i) out.push_back(indices[i]);
  for (int i = axis + 1; i < data.rank; ++i) out.push_back(data[i]);
  c.Set(0, c.dtype(0), out);
  const int count = c.wants_values() ? SmallCount(out) : -1;
  const BoundedValues* from = count < 0 ? nullptr : c.values(0);
  const BoundedValues* at = count < 0 ? nullptr : c.values(1);
  if (from == nullptr || at == nullptr || from->count == 0) return;
  const int64_t length = data[axis].lower;
  BoundedValues r;
  r.count = count;
  for (int flat = 0; flat < count; ++flat) {
    const Coordinates to = CoordinatesOf(out, flat);
    Coordinates source{}, index{};
    for (int i = 0; i < axis; ++i) source[static_cast<size_t>(i)] = to[static_cast<size_t>(i)];
    for (int i = 0; i < indices.rank; ++i) index[static_cast<size_t>(i)] = to[static_cast<size_t>(axis + i)];
    for (int i = axis + 1; i < data.rank; ++i)
      source[static_cast<size_t>(i)] = to[static_cast<size_t>(i - 1 + indices.rank)];
    const Bound& k = (*at)[FlatOf(indices, index)];
    const int64_t chosen = k.lower < 0 ? k.lower + length : k.lower;
    const bool known = k.exact() && chosen >= 0 && chosen < length;
    // An index that is open takes any element along the axis.
    for (int64_t j = known ? chosen : 0; j < (known ? chosen + 1 : length); ++j) {
      source[static_cast<size_t>(axis)] = j;
      const Bound& x = (*from)[FlatOf(data, source)];
      r[flat] = known || j == 0 ? x : c.math().Union(r[flat], x);
    }
  }
  OfferValues(c, 0, c.dtype(0), r);
}

void GatherElements(ShapeContext& c) {
  const BoundedShape &data = c.shape(0), &indices = c.shape(1);
  if (data.known_rank()) {
    c.Axis(c.node().Int("axis", 0), data.rank);
    CheckRank(c, 1, data.rank);
  }
  c.Set(0, c.dtype(0), indices);
}

void GatherND(ShapeContext& c) {
  const BoundedShape &data = c.shape(0), &indices = c.shape(1);
  const int64_t batch = c.node().Int("batch_dims", 0);
  if (!data.known_rank() || !indices.known_rank()) {
    c.Set(0, c.dtype(0), BoundedShape::Unknown());
    return;
  }
  if (indices.rank == 0) c.Fail("the indices are a scalar");
  if (batch < 0 || batch >= indices.rank || batch > data.rank) c.Fail("batch_dims is ", batch);
  const Bound& k = indices.at(-1);
  if (k.lower + batch > data.rank)
    c.Fail("indices of shape ", indices.ToString(), " for data of shape ", data.ToString());
  if (!k.exact()) {
    c.Set(0, c.dtype(0), BoundedShape::Unknown());
    return;
  }
  BoundedShape out = BoundedShape::Scalar();
  for (int i = 0; i + 1 < indices.rank; ++i)
    out.push_back(i < batch ? Equated(c, indices[i], data[i], "batch dimensions") : indices[i]);
  for (int i = static_cast<int>(batch + k.lower); i < data.rank; ++i) out.push_back(data[i]);
  c.Set(0, c.dtype(0), out);
}

// A start or end, counted from the front.
Bound FromFront(const ShapeContext& c, const Bound& i, const Bound& dim) {
  if (i.lower >= 0) return i;
  const Bound shifted = c.math().Add(i, dim);
  if (i.upper < 0) return shifted;
  return Bound::Between(std::min<int64_t>(shifted.lower, 0),
                        std::max(i.upper, dim.bounded() ? dim.upper - 1 : kUnbounded));
}

// Number of elements that [start, end) by step takes from an axis of `dim` elements.
Bound SliceLength(const ShapeContext& c, const Bound& dim, const Bound& start, const Bound& end,
                  const Bound& step) {
  const BoundMath& math = c.math();
  if (step.exact() && step.lower == 0) c.Fail("a step of 0");
  if (!step.exact()) return Bound::Between(0, dim.upper);
  const Bound zero = Bound::Exactly(0);
  Bound length;
  int64_t stride = step.lower;
  if (stride > 0) {
    const Bound from = math.Min(math.Max(FromFront(c, start, dim), zero), dim);
    const Bound to = end.lower >= kUnbounded ? dim : math.Min(math.Max(FromFront(c, end, dim), zero), dim);
    length = math.Sub(to, from);
  } else {
    stride = stride == INT64_MIN ? kUnbounded : -stride;
    const Bound last = math.Sub(dim, Bound::Exactly(1));
    const Bound none = Bound::Exactly(-1);
    // On an empty axis both ends are -1: nothing is taken.
    const Bound from =
        start.lower >= kUnbounded ? last : math.Min(math.Max(FromFront(c, start, dim), zero), last);
    const Bound to = math.Min(math.Max(FromFront(c, end, dim), none), last);
    length = math.Sub(from, to);
  }
  length = math.Max(length, zero);
  if (stride > 1) {
    // ceil(length / stride), where adding stride - 1 may not fit.
    length = stride > (int64_t{1} << 40) ? Bound::Between(length.lower > 0, length.upper > 0)
                                         : math.CeilDiv(length, stride);
  }
  const Bound most =
      stride == 1 ? dim : Bound::Between(0, dim.bounded() ? (dim.upper + stride - 1) / stride : kUnbounded);
  const auto ends = interval::Intersect(interval::EndsOf(length), {0, most.upper});
  return {ends.lower, ends.upper, ends.lower == ends.upper ? kNoExpr : length.expr};
}

void Slice(ShapeContext& c) {
  const BoundedShape& in = c.shape(0);
  if (!in.known_rank()) {
    BoundedShape out;
    out.max_elements = in.max_elements;
    c.Set(0, c.dtype(0), out);
    return;
  }
  BoundedValues starts, ends, steps;
  bool known = false;
  Axes axes;
  const auto from_list = [&](std::string_view key, BoundedValues& v) {
    const auto list = c.node().IntsView(key);
    if (list.size() > static_cast<size_t>(kMaxRank)) c.Fail(list.size(), " ", key, " for rank ", in.rank);
    for (int64_t n : list) v[v.count++] = Bound::Exactly(n);
  };
  if (!SinceOpset(c, 10)) {
    from_list("starts", starts);
    from_list("ends", ends);
    axes = AxesFromAttr(c, "axes", in.rank);
    known = true;
  } else {
    const BoundedValues *s = c.values(1), *e = c.values(2);
    const BoundedValues* st = c.has(4) ? c.values(4) : nullptr;
    axes = AxesFromInput(c, 3, in.rank);
    // How many axes: any of the lists tells.
    int count = s ? s->count : e ? e->count : axes.count;
    if (count < 0)
      for (int i = 1; i < 3; ++i)
        if (c.shape(i).rank == 1 && c.shape(i)[0].exact())
          count = static_cast<int>(std::min<int64_t>(c.shape(i)[0].lower, kMaxRank + 1));
    if (count > in.rank) c.Fail(count, " slices for a tensor of rank ", in.rank);
    if ((s && s->count != count) || (e && e->count != count) || (st && st->count != count))
      c.Fail("starts, ends and steps have different lengths");
    if (count >= 0) {
      known = true;
      starts.count = ends.count = steps.count = count;
      for (int i = 0; i < count; ++i) {
        starts[i] = s ? (*s)[i] : Bound::Anything();
        ends[i] = e ? (*e)[i] : Bound::Anything();
        steps[i] = st ? (*st)[i] : c.has(4) ? Bound::Anything() : Bound::Exactly(1);
      }
    }
  }
  if (starts.count != ends.count) c.Fail(starts.count, " starts and ", ends.count, " ends");
  if (axes.kind == Axes::kAbsent)
    for (int i = 0; i < kMaxRank; ++i) axes.order[static_cast<size_t>(i)] = i;
  if (axes.kind == Axes::kKnown && known && axes.count != starts.count)
    c.Fail(axes.count, " axes and ", starts.count, " starts");
  BoundedShape out = in;
  const bool placed = known && axes.kind != Axes::kUnknown;
  if (placed) {
    for (int i = 0; i < starts.count; ++i) {
      const int axis = axes.order[static_cast<size_t>(i)];
      if (axis >= in.rank) c.Fail(starts.count, " slices for a tensor of rank ", in.rank);
      out[axis] = SliceLength(c, in[axis], starts[i], ends[i], steps.count ? steps[i] : Bound::Exactly(1));
    }
  } else {
    for (int i = 0; i < in.rank; ++i) out[i] = Bound::Between(0, in[i].upper);
  }
  c.Set(0, c.dtype(0), out);
  const int count = c.wants_values() && placed ? SmallCount(out) : -1;
  const BoundedValues* v = count < 0 ? nullptr : c.values(0);
  if (v == nullptr) return;
  Coordinates first{}, stride{};
  stride.fill(1);
  for (int i = 0; i < starts.count; ++i) {
    const auto axis = static_cast<size_t>(axes.order[static_cast<size_t>(i)]);
    const Bound start = FromFront(c, starts[i], in[static_cast<int>(axis)]);
    if (!start.exact() || (steps.count && !steps[i].exact())) return;
    stride[axis] = steps.count ? steps[i].lower : 1;
    const int64_t size = in[static_cast<int>(axis)].lower;
    first[axis] =
        std::clamp<int64_t>(start.lower, 0, stride[axis] > 0 ? size : std::max<int64_t>(size - 1, 0));
  }
  BoundedValues r;
  r.count = count;
  for (int flat = 0; flat < count; ++flat) {
    Coordinates at = CoordinatesOf(out, flat);
    for (size_t i = 0; i < static_cast<size_t>(in.rank); ++i) at[i] = first[i] + at[i] * stride[i];
    r[flat] = (*v)[FlatOf(in, at)];
  }
  OfferValues(c, 0, c.dtype(0), r);
}

void Split(ShapeContext& c) {
  const BoundedShape& in = c.shape(0);
  const int n = c.output_count();
  if (!in.known_rank()) {
    for (int o = 0; o < n; ++o)
      if (c.wants(o)) {
        BoundedShape out;
        out.max_elements = in.max_elements;
        c.Set(o, c.dtype(0), out);
      }
    return;
  }
  if (in.rank == 0) c.Fail("the data are a scalar");
  const int axis = c.Axis(c.node().Int("axis", 0), in.rank);
  const Bound& dim = in[axis];
  const BoundMath& math = c.math();
  const auto list = SinceOpset(c, 13) ? std::span<const int64_t>() : c.node().IntsView("split");
  const bool by_input = c.has(1) && (SinceOpset(c, 13) || !SinceOpset(c, 2));
  const BoundedValues* lengths = by_input ? c.values(1) : nullptr;
  if (!list.empty() && static_cast<int>(list.size()) != n) c.Fail(list.size(), " parts for ", n, " outputs");
  if (lengths && lengths->count != n) c.Fail(lengths->count, " parts for ", n, " outputs");
  const int64_t parts = SinceOpset(c, 18) && !by_input ? c.node().Int("num_outputs", n) : n;
  if (parts != n) c.Fail("num_outputs is ", parts, " with ", n, " outputs");
  Bound offset = Bound::Exactly(0), sum = Bound::Exactly(0);
  const BoundedValues* v = c.wants_values() && in.rank == 1 ? c.values(0) : nullptr;
  for (int o = 0; o < n; ++o) {
    Bound length;
    if (!list.empty()) {
      length = Bound::Exactly(list[static_cast<size_t>(o)]);
    } else if (lengths) {
      length = (*lengths)[o];
    } else if (by_input) {
      length = Bound::Between(0, dim.upper);
    } else if (SinceOpset(c, 18)) {
      const Bound chunk = math.CeilDiv(dim, n);
      length = o + 1 < n ? chunk : math.Sub(dim, math.Mul(chunk, Bound::Exactly(n - 1)));
      if (dim.exact() && n > 1 && length.lower < 0) length = Bound::Exactly(0);
    } else {
      if (dim.exact() && dim.lower % n != 0) c.Fail("cannot split ", dim.lower, " into ", n, " equal parts");
      length = math.DivExact(dim, Bound::Exactly(n));
    }
    length = CheckedDim(c, length);
    if (length.upper > dim.upper) length.upper = std::max(dim.upper, length.lower);
    sum = math.Add(sum, length);
    if (c.wants(o)) {
      BoundedShape out = in;
      out.max_elements = in.max_elements;
      out[axis] = length;
      c.Set(o, c.dtype(0), out);
      if (v && offset.exact() && length.exact() && offset.lower + length.lower <= v->count) {
        BoundedValues r;
        for (int64_t k = 0; k < length.lower; ++k) r[r.count++] = (*v)[static_cast<int>(offset.lower + k)];
        OfferValues(c, o, c.dtype(0), r);
      }
    }
    offset = math.Add(offset, length);
  }
  if (!list.empty() || lengths) CheckEqual(c, sum, dim, "the sum of the parts and the dimension");
}

void Compress(ShapeContext& c) {
  const BoundedShape& in = c.shape(0);
  CheckRank(c, 1, 1);
  const int64_t flags = c.shape(1).rank == 1 ? c.shape(1)[0].upper : kUnbounded;
  if (!c.node().has_attr("axis")) {
    c.Set(0, c.dtype(0), BoundedShape::OfDims({c.Fresh(0, std::min(flags, in.ElementsUpper()))}));
    return;
  }
  BoundedShape out = in;
  if (in.known_rank()) {
    const int axis = c.Axis(c.node().Int("axis", 0), in.rank);
    out[axis] = c.Fresh(0, std::min(flags, in[axis].upper));
  }
  c.Set(0, c.dtype(0), out);
}

}  // namespace

void RegisterIndexing(Registry& ops) {
  ops.push_back({.name = "Gather", .since = 1, .min_inputs = 2, .max_inputs = 2, .rule = Gather});
  ops.push_back(
      {.name = "GatherElements", .since = 11, .min_inputs = 2, .max_inputs = 2, .rule = GatherElements});
  ops.push_back({.name = "GatherND", .since = 11, .min_inputs = 2, .max_inputs = 2, .rule = GatherND});
  ops.push_back({.name = "Slice", .since = 1, .rule = Slice});
  ops.push_back({.name = "Slice",
                 .since = 10,
                 .min_inputs = 3,
                 .max_inputs = 5,
                 .rule = Slice,
                 .reads_values = Bits(1, 2, 3, 4)});
  ops.push_back({.name = "Split",
                 .since = 1,
                 .max_inputs = 2,
                 .max_outputs = -1,
                 .rule = Split,
                 .reads_values = Bits(1)});
  ops.push_back({.name = "Compress", .since = 9, .min_inputs = 2, .max_inputs = 2, .rule = Compress});
}

}  // namespace ullage::ops
