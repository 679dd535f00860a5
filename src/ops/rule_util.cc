#include "ops/rule_util.h"

#include "ops/interval.h"

namespace ullage::ops {

void SameShape(ShapeContext& c, int i, int o) {
  c.Set(o, c.dtype(i), c.shape(i));
}

void SameAsInput(ShapeContext& c) {
  SameShape(c);
}

void PassThrough(ShapeContext& c) {
  SameShape(c);
  if (c.kind(0) != graph::TypeKind::kTensor) return c.SetKind(0, c.kind(0), c.length(0));
  if (!c.wants_values()) return;
  if (const BoundedValues* v = c.values(0)) c.SetValues(0, *v);
}

void CheckSameType(const ShapeContext& c, int a, int b) {
  const DType ta = c.dtype(a), tb = c.dtype(b);
  if (ta != tb && ta != DType::kUndefined && tb != DType::kUndefined)
    c.Fail("inputs ", a, " and ", b, " have different types: ", NameOf(ta), " and ", NameOf(tb));
}

void CheckRank(const ShapeContext& c, int input, int rank) {
  const BoundedShape& s = c.shape(input);
  if (s.known_rank() && s.rank != rank)
    c.Fail("input ", input, " has shape ", s.ToString(), ", expected rank ", rank);
}

void CheckRankAtLeast(const ShapeContext& c, int input, int rank) {
  const BoundedShape& s = c.shape(input);
  if (s.known_rank() && s.rank < rank)
    c.Fail("input ", input, " has shape ", s.ToString(), ", expected rank ", rank, " or more");
}

void CheckEqual(const ShapeContext& c, const Bound& a, const Bound& b, std::string_view what) {
  if (a.lower > b.upper || b.lower > a.upper) c.Fail(what, " do not match: ", a.lower, " and ", b.lower);
}

void CheckElements(const ShapeContext& c, int input, int64_t elements) {
  if (!c.has(input)) return;
  const BoundedShape& s = c.shape(input);
  if (!s.exact()) return;
  const Bound n = s.Elements(BoundMath());
  if (n.exact() && n.lower != elements)
    c.Fail("input ", input, " has shape ", s.ToString(), ", expected ", elements, " elements");
}

Bound CheckedDim(const ShapeContext& c, const Bound& dim) {
  if (dim.upper < 0) c.Fail("a dimension of the result would be negative: ", dim.upper);
  Bound d = dim;
  d.lower = std::max<int64_t>(d.lower, 0);
  if (d.exact()) d.expr = kNoExpr;
  return d;
}

Bound Both(const Bound& a, const Bound& b) {
  if (a.exact()) return a;
  if (b.exact()) return b;
  const auto ends = interval::Intersect(interval::EndsOf(a), interval::EndsOf(b));
  return {ends.lower, ends.upper, ends.lower == ends.upper ? kNoExpr : a.expr != kNoExpr ? a.expr : b.expr};
}

Bound Equated(const ShapeContext& c, const Bound& a, const Bound& b, std::string_view what) {
  CheckEqual(c, a, b, what);
  return Both(a, b);
}

Bound BroadcastDim(const ShapeContext& c, const Bound& a, const Bound& b) {
  if (Same(a, b)) return Both(a, b);
  if (a.exact() && a.lower == 1) return b;
  if (b.exact() && b.lower == 1) return a;
  const bool a_wide = a.lower >= 2, b_wide = b.lower >= 2;
  // A dimension that is not 1 decides: the other is 1 or equal.
  if (a_wide && b_wide) return Equated(c, a, b, "dimensions");
  if (a_wide || (a.exact() && a.lower == 0)) {
    if (b.lower > a.upper || b.upper < 1) {
      if (b.lower > a.upper && b.lower > 1) c.Fail("dimensions do not match: ", a.lower, " and ", b.lower);
      if (a_wide && b.upper < 1) c.Fail("dimensions do not match: ", a.lower, " and ", b.upper);
    }
    return a;
  }
  if (b_wide || (b.exact() && b.lower == 0)) return BroadcastDim(c, b, a);
  // Each may be 0, 1 or more. With neither 0 the result is the larger; with a 0 it is 0.
  const int64_t lower = a.lower >= 1 && b.lower >= 1 ? std::max(a.lower, b.lower) : 0;
  const Bound r = Bound::Between(lower, std::max(a.upper, b.upper));
  SymbolTable* table = c.math().table();
  if (table == nullptr || r.exact()) return r;
  // One result per pair of numbers: it has a name of its own.
  const int32_t expr = table->BroadcastExpr(a, b);
  return {r.lower, r.upper, expr};
}

BoundedShape Broadcast(const ShapeContext& c, const BoundedShape& a, const BoundedShape& b) {
  if (!a.known_rank() || !b.known_rank()) return BoundedShape::Unknown();
  const int rank = std::max(a.rank, b.rank);
  BoundedShape r;
  r.rank = rank;
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank), ib = i - (rank - b.rank);
    if (ia < 0) {
      r[i] = b[ib];
    } else if (ib < 0) {
      r[i] = a[ia];
    } else {
      r[i] = BroadcastDim(c, a[ia], b[ib]);
    }
  }
  // An operand that certainly is not stretched hands on its own limit.
  const auto adopts = [&](const BoundedShape& s) {
    if (s.rank != rank) return false;
    for (int i = 0; i < rank; ++i)
      if (!Same(s[i], r[i])) return false;
    return true;
  };
  if (adopts(a)) r.max_elements = a.max_elements;
  if (adopts(b)) r.max_elements = std::min(r.max_elements, b.max_elements);
  return r;
}

int ExactInts(const ShapeContext& c, int i, std::span<int64_t> out) {
  const BoundedValues* v = c.has(i) ? c.values(i) : nullptr;
  if (v == nullptr || !v->exact() || static_cast<size_t>(v->count) > out.size()) return -1;
  for (int k = 0; k < v->count; ++k) out[static_cast<size_t>(k)] = (*v)[k].lower;
  return v->count;
}

Bound ScalarValue(const ShapeContext& c, int i) {
  const BoundedValues* v = c.has(i) ? c.values(i) : nullptr;
  return v && v->count == 1 ? (*v)[0] : Bound::Anything();
}

Axes AxesFromList(const ShapeContext& c, std::span<const int64_t> list, int rank) {
  Axes axes;
  axes.kind = Axes::kKnown;
  if (list.size() > static_cast<size_t>(kMaxRank)) c.Fail(list.size(), " axes for a tensor of rank ", rank);
  axes.count = static_cast<int>(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const int axis = c.Axis(list[i], rank);
    if (axes.mask >> axis & 1) c.Fail("axis ", axis, " is named twice");
    axes.mask |= 1u << axis;
    axes.order[i] = axis;
  }
  return axes;
}

Axes AxesFromAttr(const ShapeContext& c, std::string_view key, int rank) {
  if (!c.node().has_attr(key)) return {};
  return AxesFromList(c, c.node().IntsView(key), rank);
}

Axes AxesFromInput(const ShapeContext& c, int input, int rank) {
  if (!c.has(input)) return {};
  std::array<int64_t, BoundedValues::kMax> list;
  const int n = ExactInts(c, input, list);
  if (n >= 0) return AxesFromList(c, std::span(list.data(), static_cast<size_t>(n)), rank);
  Axes axes;
  axes.kind = Axes::kUnknown;
  const BoundedShape& s = c.shape(input);
  if (s.rank == 0) axes.count = 1;
  if (s.rank == 1 && s[0].exact()) axes.count = static_cast<int>(std::min<int64_t>(s[0].lower, kMaxRank));
  return axes;
}

BoundedShape UnionOf(const BoundMath& math, const BoundedShape& a, const BoundedShape& b) {
  BoundedShape r;
  if (a.rank == b.rank && a.rank >= 0) {
    r.rank = a.rank;
    for (int i = 0; i < r.rank; ++i) r[i] = math.Union(a[i], b[i]);
  }
  r.max_elements = std::max(a.ElementsUpper(), b.ElementsUpper());
  return r;
}

BoundedShape AnyDims(int rank) {
  BoundedShape s = BoundedShape::Scalar();
  for (int i = 0; i < rank; ++i) s.push_back(Bound());
  return s;
}

int SmallCount(const BoundedShape& s) {
  if (!s.exact()) return -1;
  const Bound n = s.Elements(BoundMath());
  return n.exact() && n.lower <= BoundedValues::kMax ? static_cast<int>(n.lower) : -1;
}

Coordinates CoordinatesOf(const BoundedShape& s, int flat) {
  Coordinates at{};
  for (int i = s.rank - 1; i >= 0; --i) {
    at[static_cast<size_t>(i)] = flat % s[i].lower;
    flat = static_cast<int>(flat / s[i].lower);
  }
  return at;
}

int FlatOf(const BoundedShape& s, const Coordinates& at) {
  int64_t flat = 0;
  for (int i = 0; i < s.rank; ++i) flat = flat * s[i].lower + at[static_cast<size_t>(i)];
  return static_cast<int>(flat);
}

bool FitValue(DType dtype, Bound& v) {
  int64_t lower, upper;
  switch (dtype) {
    case DType::kInt64:
      return true;
    case DType::kUInt64:
      lower = 0, upper = kUnbounded;
      break;
    case DType::kInt32:
      lower = INT32_MIN, upper = INT32_MAX;
      break;
    case DType::kUInt32:
      lower = 0, upper = UINT32_MAX;
      break;
    case DType::kInt16:
      lower = INT16_MIN, upper = INT16_MAX;
      break;
    case DType::kUInt16:
      lower = 0, upper = UINT16_MAX;
      break;
    case DType::kInt8:
      lower = INT8_MIN, upper = INT8_MAX;
      break;
    case DType::kUInt8:
      lower = 0, upper = UINT8_MAX;
      break;
    case DType::kBool:
      lower = 0, upper = 1;
      break;
    case DType::kDouble:
    case DType::kFloat:
    case DType::kFloat16:
    case DType::kBFloat16: {
      const int64_t limit = dtype == DType::kDouble || dtype == DType::kFloat ? int64_t{1} << 24
                            : dtype == DType::kFloat16                        ? 2048
                                                                              : 256;
      return v.lower >= -limit && v.upper <= limit;
    }
    default:
      return false;
  }
  if (v.lower < lower || v.upper > upper) v = Bound::Between(lower, upper);
  return true;
}

void OfferValues(ShapeContext& c, int o, DType dtype, BoundedValues values) {
  if (!c.wants_values() || !c.wants(o)) return;
  for (int i = 0; i < values.count; ++i)
    if (!FitValue(dtype, values[i])) return;
  c.SetValues(o, values);
}

}  // namespace ullage::ops
