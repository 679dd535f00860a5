#include "ops/families.h"
#include "ops/interval.h"

namespace ullage::ops {
namespace {

int64_t ClampIndex(int64_t i, int rank) {
  if (i < 0) i += rank;
  return std::clamp<int64_t>(i, 0, rank);
}

void ShapeOf(ShapeContext& c) {
  const BoundedShape& in = c.shape(0);
  if (!in.known_rank()) {
    c.Set(0, DType::kInt64, BoundedShape::OfDims({Bound::Between(0, kMaxRank)}));
    return;
  }
  const int64_t start = ClampIndex(c.node().Int("start", 0), in.rank);
  const int64_t end = c.node().has_attr("end") ? ClampIndex(c.node().Int("end", 0), in.rank) : in.rank;
  BoundedValues v;
  for (int64_t i = start; i < end; ++i) v[v.count++] = in[static_cast<int>(i)];
  c.Set(0, DType::kInt64, BoundedShape::OfDims({Bound::Exactly(v.count)}));
  OfferValues(c, 0, DType::kInt64, v);
}

void SizeOf(ShapeContext& c) {
  c.Set(0, DType::kInt64, BoundedShape::Scalar());
  BoundedValues v;
  v.count = 1;
  v[0] = c.shape(0).Elements(c.math());
  OfferValues(c, 0, DType::kInt64, v);
}

// Contents keep their order under another shape.
void KeepValues(ShapeContext& c) {
  if (!c.wants_values()) return;
  if (const BoundedValues* v = c.values(0)) c.SetValues(0, *v);
}

// One number of the target of Reshape that copies input dimension i when it is 0.
Bound CopyOrGiven(const ShapeContext& c, const Bound& given, int i, bool allow_zero) {
  const BoundedShape& in = c.shape(0);
  const bool may_be_zero = given.lower <= 0 && given.upper >= 0;
  if (allow_zero || !may_be_zero) return CheckedDim(c, given);
  const bool has_dim = in.known_rank() && i < in.rank;
  if (given.exact()) {
    if (in.known_rank() && !has_dim)
      c.Fail("the target copies dimension ", i, " of an input of shape ", in.ToString());
    return has_dim ? in[i] : Bound();
  }
  // Zero copies: when it would only copy the same number, nothing is lost.
  if (has_dim && c.math().ProvenEqual(given, in[i])) return Both(given, in[i]);
  // The same holds for a multiple of it: 0 where it is 0.
  if (has_dim && given.expr != kNoExpr && in[i].expr != kNoExpr && c.math().table() != nullptr &&
      c.math().table()->DivExpr(in[i], given) != kNoExpr)
    return CheckedDim(c, given);
  Bound positive = given;
  positive.lower = 1;
  positive.expr = kNoExpr;
  return has_dim ? c.math().Union(positive, in[i]) : Bound::Between(0, kUnbounded);
}

BoundedShape ReshapeTo(ShapeContext& c, const BoundedValues& target, bool allow_zero) {
  const BoundedShape& in = c.shape(0);
  if (target.count > kMaxRank) c.Fail("a target of rank ", target.count);
  BoundedShape out = BoundedShape::Scalar();
  int inferred = -1;
  bool open = false;  // some number may be -1 without being it for certain
  Bound known = Bound::Exactly(1);
  for (int i = 0; i < target.count; ++i) {
    const Bound& t = target[i];
    if (t.exact() && t.lower == -1) {
      if (inferred >= 0) c.Fail("the target names two dimensions to infer");
      inferred = i;
      out.push_back(Bound());
      continue;
    }
    if (t.upper < -1) c.Fail("the target has a dimension of ", t.upper);
    if (t.lower < 0) open = true;
    out.push_back(t.lower < 0 ? Bound() : CopyOrGiven(c, t, i, allow_zero));
    known = c.math().Mul(known, out[i]);
  }
  const Bound total = in.Elements(c.math());
  if (inferred >= 0 && !open) {
    if (known.exact() && known.lower == 0 && total.lower > 0)
      c.Fail("cannot infer a dimension: the others are empty");
    if (known.exact() && total.exact() && known.lower > 0 && total.lower % known.lower != 0)
      c.Fail("cannot reshape ", in.ToString(), ": ", total.lower, " elements are no multiple of ",
             known.lower);
    out[inferred] = CheckedDim(c, c.math().DivExact(total, known));
    if (known.exact() && known.lower == 0) out[inferred] = Bound::Exactly(0);
  } else if (inferred >= 0 || open) {
    // Every dimension of a tensor with elements is at most their number.
    for (int i = 0; i < out.rank; ++i)
      if (out[i].lower == 0 && !out[i].bounded() && total.lower > 0) out[i] = Bound::Between(1, total.upper);
  } else {
    CheckEqual(c, known, total, "numbers of elements");
    // One unknown dimension follows from the others.
    int unbounded = -1, count = 0;
    for (int i = 0; i < out.rank; ++i)
      if (!out[i].bounded()) unbounded = i, ++count;
    if (count == 1 && total.bounded()) {
      Bound others = Bound::Exactly(1);
      for (int i = 0; i < out.rank; ++i)
        if (i != unbounded) others = c.math().Mul(others, out[i]);
      if (others.lower > 0) out[unbounded].upper = total.upper / others.lower;
    }
  }
  out.max_elements = in.ElementsUpper();
  return out;
}

void Reshape(ShapeContext& c) {
  const BoundedShape& in = c.shape(0);
  const bool attribute = !SinceOpset(c, 5);
  const bool allow_zero = SinceOpset(c, 14) && c.node().Int("allowzero", 0) != 0;
  BoundedShape out;
  if (attribute) {
    BoundedValues target;
    const auto list = c.node().IntsView("shape");
    if (list.size() > static_cast<size_t>(kMaxRank)) c.Fail("a target of rank ", list.size());
    for (int64_t n : list) target[target.count++] = Bound::Exactly(n);
    out = ReshapeTo(c, target, false);
  } else if (const BoundedValues* target = c.values(1)) {
    out = ReshapeTo(c, *target, allow_zero);
  } else {
    CheckRank(c, 1, 1);
    const BoundedShape& length = c.shape(1);
    if (length.rank == 1 && length[0].exact()) {
      if (length[0].lower > kMaxRank) c.Fail("a target of rank ", length[0].lower);
      out = AnyDims(static_cast<int>(length[0].lower));
      const Bound total = in.Elements(c.math());
      if (total.lower > 0)
        for (int i = 0; i < out.rank; ++i) out[i] = Bound::Between(1, total.upper);
    }
    out.max_elements = in.ElementsUpper();
  }
  c.Set(0, c.dtype(0), out);
  KeepValues(c);
}

void Flatten(ShapeContext& c) {
  const BoundedShape& in = c.shape(0);
  BoundedShape out = AnyDims(2);
  if (in.known_rank()) {
    int64_t axis = c.node().Int("axis", 1);
    if (axis < -in.rank || axis > in.rank) c.Fail("axis ", axis, " of a tensor of rank ", in.rank);
    if (axis < 0) axis += in.rank;
    out[0] = out[1] = Bound::Exactly(1);
    for (int i = 0; i < in.rank; ++i) {
      Bound& d = out[i < axis ? 0 : 1];
      d = c.math().Mul(d, in[i]);
    }
  }
  out.max_elements = in.ElementsUpper();
  c.Set(0, c.dtype(0), out);
  KeepValues(c);
}

void Squeeze(ShapeContext& c) {
  const BoundedShape& in = c.shape(0);
  BoundedShape out;
  out.max_elements = in.max_elements;
  if (!in.known_rank()) {
    c.Set(0, c.dtype(0), out);
    return;
  }
  Axes axes = SinceOpset(c, 13) ? AxesFromInput(c, 1, in.rank) : AxesFromAttr(c, "axes", in.rank);
  if (axes.kind == Axes::kAbsent) {
    // All dimensions of 1 go; where that is open, the rank is.
    bool open = false;
    for (int i = 0; i < in.rank; ++i) {
      if (in[i].exact() && in[i].lower == 1) axes.mask |= 1u << i;
      if (!in[i].exact() && in[i].lower <= 1 && in[i].upper >= 1) open = true;
    }
    axes.kind = open ? Axes::kUnknown : Axes::kKnown;
  }
  if (axes.kind == Axes::kUnknown) {
    out.max_elements = in.ElementsUpper();
    c.Set(0, c.dtype(0), out);
    return;
  }
  out.rank = 0;
  for (int i = 0; i < in.rank; ++i) {
    if (axes.mask >> i & 1) {
      CheckEqual(c, in[i], Bound::Exactly(1), "a squeezed dimension and 1");
    } else {
      out.push_back(in[i]);
    }
  }
  c.Set(0, c.dtype(0), out);
  KeepValues(c);
}

void Unsqueeze(ShapeContext& c) {
  const BoundedShape& in = c.shape(0);
  BoundedShape out;
  out.max_elements = in.max_elements;
  std::array<int64_t, kMaxRank> list;
  int count = -1;
  if (SinceOpset(c, 13)) {
    count = ExactInts(c, 1, list);
  } else {
    const auto axes = c.node().IntsView("axes");
    if (axes.size() > list.size()) c.Fail(axes.size(), " axes");
    std::copy(axes.begin(), axes.end(), list.begin());
    count = static_cast<int>(axes.size());
  }
  if (!in.known_rank() || count < 0) {
    out.max_elements = in.ElementsUpper();
    c.Set(0, c.dtype(0), out);
    return;
  }
  const Axes axes = AxesFromList(c, std::span(list.data(), static_cast<size_t>(count)), in.rank + count);
  out.rank = 0;
  for (int i = 0, k = 0; i < in.rank + count; ++i)
    out.push_back(axes.mask >> i & 1 ? Bound::Exactly(1) : in[k++]);
  c.Set(0, c.dtype(0), out);
  KeepValues(c);
}

void Transpose(ShapeContext& c) {
  const BoundedShape& in = c.shape(0);
  if (!in.known_rank()) {
    BoundedShape out = c.node().has_attr("perm") ? AnyDims(static_cast<int>(c.node().IntsView("perm").size()))
                                                 : BoundedShape::Unknown();
    out.max_elements = in.max_elements;
    c.Set(0, c.dtype(0), out);
    return;
  }
  Axes perm = AxesFromAttr(c, "perm", in.rank);
  if (perm.kind == Axes::kAbsent) {
    for (int i = 0; i < in.rank; ++i) perm.order[static_cast<size_t>(i)] = in.rank - 1 - i;
  } else if (perm.count != in.rank) {
    c.Fail("perm has ", perm.count, " axes for a tensor of rank ", in.rank);
  }
  BoundedShape out = in;
  for (int i = 0; i < in.rank; ++i) out[i] = in[perm.order[static_cast<size_t>(i)]];
  c.Set(0, c.dtype(0), out);
  const BoundedValues* v = c.wants_values() ? c.values(0) : nullptr;
  if (v == nullptr || !out.exact()) return;
  BoundedValues r;
  r.count = v->count;
  for (int flat = 0; flat < r.count; ++flat) {
    const Coordinates to = CoordinatesOf(out, flat);
    Coordinates at{};
    for (size_t i = 0; i < static_cast<size_t>(in.rank); ++i) at[static_cast<size_t>(perm.order[i])] = to[i];
    r[flat] = (*v)[FlatOf(in, at)];
  }
  OfferValues(c, 0, c.dtype(0), r);
}

void Expand(ShapeContext& c) {
  const BoundedShape& in = c.shape(0);
  CheckRank(c, 1, 1);
  BoundedShape target;
  if (const BoundedValues* v = c.values(1)) {
    if (v->count > kMaxRank) c.Fail("a target of rank ", v->count);
    target.rank = 0;
    for (int i = 0; i < v->count; ++i) {
      // A target of -1 keeps the dimension, as 1 does (some exporters write it).
      Bound t = (*v)[i];
      if (t.exact() && t.lower == -1) t = Bound::Exactly(1);
      if (!t.exact() && t.lower < 0) t = Bound::Between(0, t.upper);
      target.push_back(CheckedDim(c, t));
    }
  } else if (c.shape(1).rank == 1 && c.shape(1)[0].exact()) {
    if (c.shape(1)[0].lower > kMaxRank) c.Fail("a target of rank ", c.shape(1)[0].lower);
    target = AnyDims(static_cast<int>(c.shape(1)[0].lower));
  }
  const BoundedShape out = Broadcast(c, in, target);
  c.Set(0, c.dtype(0), out);
  const BoundedValues* v = c.wants_values() ? c.values(0) : nullptr;
  if (v == nullptr || !out.exact() || v->count != 1) return;
  const Bound n = out.Elements(BoundMath());
  if (!n.exact() || n.lower > BoundedValues::kMax) return;
  BoundedValues r;
  r.count = static_cast<int>(n.lower);
  for (int i = 0; i < r.count; ++i) r[i] = (*v)[0];
  OfferValues(c, 0, c.dtype(0), r);
}

void Tile(ShapeContext& c) {
  const BoundedShape& in = c.shape(0);
  if (!in.known_rank()) {
    c.Set(0, c.dtype(0), BoundedShape::Unknown());
    return;
  }
  BoundedShape out = AnyDims(in.rank);
  if (const BoundedValues* repeats = c.values(1)) {
    if (repeats->count != in.rank) c.Fail(repeats->count, " repeats for a tensor of rank ", in.rank);
    for (int i = 0; i < in.rank; ++i) out[i] = c.math().Mul(in[i], CheckedDim(c, (*repeats)[i]));
  } else {
    for (int i = 0; i < in.rank; ++i)
      if (in[i].upper == 0) out[i] = in[i];
  }
  c.Set(0, c.dtype(0), out);
}

void Concat(ShapeContext& c) {
  const int n = c.input_count();
  BoundedShape out = c.shape(0);
  int64_t axis_attr = SinceOpset(c, 4) ? c.node().RequiredInt("axis") : c.node().Int("axis", 1);
  for (int i = 1; i < n; ++i) {
    if (!c.has(i)) c.Fail("input ", i, " is missing");
    CheckSameType(c, 0, i);
  }
  for (int i = 1; i < n && !out.known_rank(); ++i)
    if (c.shape(i).known_rank()) out = AnyDims(c.shape(i).rank);
  out.max_elements = kUnbounded;
  if (!out.known_rank()) {
    c.Set(0, c.dtype(0), out);
    return;
  }
  const int axis = c.Axis(axis_attr, out.rank);
  Bound sum = Bound::Exactly(0);
  bool all_known = true;
  for (int i = 0; i < n; ++i) {
    const BoundedShape& s = c.shape(i);
    if (!s.known_rank()) {
      all_known = false;
      continue;
    }
    if (s.rank != out.rank) c.Fail("input ", i, " has rank ", s.rank, ", others ", out.rank);
    for (int d = 0; d < out.rank; ++d)
      if (d != axis) out[d] = Equated(c, out[d], s[d], "concatenated dimensions");
    sum = c.math().Add(sum, s[axis]);
  }
  out[axis] = all_known ? sum : Bound::Between(sum.lower, kUnbounded);
  c.Set(0, c.dtype(0), out);
  const int count = c.wants_values() && all_known ? SmallCount(out) : -1;
  if (count < 0) return;
  BoundedValues r;
  r.count = count;
  int64_t offset = 0;
  for (int i = 0; i < n; ++i) {
    const BoundedValues* v = c.values(i);
    if (v == nullptr) return;
    for (int flat = 0; flat < v->count; ++flat) {
      Coordinates at = CoordinatesOf(c.shape(i), flat);
      at[static_cast<size_t>(axis)] += offset;
      r[FlatOf(out, at)] = (*v)[flat];
    }
    offset += c.shape(i)[axis].lower;
  }
  OfferValues(c, 0, c.dtype(0), r);
}

void ReverseSequence(ShapeContext& c) {
  CheckRankAtLeast(c, 0, 2);
  CheckRank(c, 1, 1);
  SameAsInput(c);
}

// Each of the axes gets the size that the contents of input 1 name.
void CenterCropPad(ShapeContext& c) {
  const BoundedShape& in = c.shape(0);
  if (!in.known_rank()) {
    c.Set(0, c.dtype(0), BoundedShape::Unknown());
    return;
  }
  Axes axes = AxesFromAttr(c, "axes", in.rank);
  if (axes.kind == Axes::kAbsent) {
    axes.count = in.rank;
    for (int i = 0; i < in.rank; ++i) axes.order[static_cast<size_t>(i)] = i;
  }
  const BoundedValues* sizes = c.values(1);
  if (sizes && sizes->count != axes.count) c.Fail(sizes->count, " sizes for ", axes.count, " axes");
  BoundedShape out = in;
  out.max_elements = kUnbounded;
  for (int i = 0; i < axes.count; ++i)
    out[axes.order[static_cast<size_t>(i)]] = sizes ? CheckedDim(c, (*sizes)[i]) : Bound();
  c.Set(0, c.dtype(0), out);
}

}  // namespace

void RegisterLayout(Registry& ops) {
  ops.push_back(
      {.name = "ReverseSequence", .since = 10, .min_inputs = 2, .max_inputs = 2, .rule = ReverseSequence});
  ops.push_back({.name = "CenterCropPad",
                 .since = 18,
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .rule = CenterCropPad,
                 .reads_values = Bits(1)});
  ops.push_back({.name = "Shape", .since = 1, .rule = ShapeOf});
  ops.push_back({.name = "Size", .since = 1, .rule = SizeOf});
  ops.push_back({.name = "Reshape", .since = 1, .rule = Reshape, .view_of = 0});
  ops.push_back({.name = "Reshape",
                 .since = 5,
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .rule = Reshape,
                 .view_of = 0,
                 .reads_values = Bits(1)});
  ops.push_back({.name = "Flatten", .since = 1, .rule = Flatten, .view_of = 0});
  ops.push_back({.name = "Squeeze", .since = 1, .rule = Squeeze, .view_of = 0});
  ops.push_back({.name = "Squeeze",
                 .since = 13,
                 .max_inputs = 2,
                 .rule = Squeeze,
                 .view_of = 0,
                 .reads_values = Bits(1)});
  ops.push_back({.name = "Unsqueeze", .since = 1, .rule = Unsqueeze, .view_of = 0});
  ops.push_back({.name = "Unsqueeze",
                 .since = 13,
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .rule = Unsqueeze,
                 .view_of = 0,
                 .reads_values = Bits(1)});
  ops.push_back({.name = "Transpose", .since = 1, .rule = Transpose});
  ops.push_back({.name = "Expand",
                 .since = 8,
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .rule = Expand,
                 .reads_values = Bits(1)});
  ops.push_back(
      {.name = "Tile", .since = 6, .min_inputs = 2, .max_inputs = 2, .rule = Tile, .reads_values = Bits(1)});
  ops.push_back({.name = "Concat", .since = 1, .min_inputs = 1, .max_inputs = -1, .rule = Concat});
}

}  // namespace ullage::ops
