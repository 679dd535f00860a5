#include "ops/families.h"

namespace ullage::ops {
namespace {

void TopK(ShapeContext& c) {
  const BoundedShape& in = c.shape(0);
  const Bound k = SinceOpset(c, 10) ? ScalarValue(c, 1) : Bound::Exactly(c.node().RequiredInt("k"));
  BoundedShape out = in;
  if (in.known_rank()) {
    if (in.rank == 0) c.Fail("the data are a scalar");
    const int axis = c.Axis(c.node().Int("axis", -1), in.rank);
    Bound n = CheckedDim(c, k);
    if (n.lower > in[axis].upper) c.Fail("k is ", n.lower, " of ", in[axis].upper, " elements");
    if (n.upper > in[axis].upper) n.upper = in[axis].upper;
    if (n.exact()) n.expr = kNoExpr;
    out[axis] = n;
  }
  c.Set(0, c.dtype(0), out);
  if (c.wants(1)) c.Set(1, DType::kInt64, out);
}

void NonZero(ShapeContext& c) {
  const BoundedShape& in = c.shape(0);
  const Bound rank = in.known_rank() ? Bound::Exactly(in.rank) : Bound::Between(0, kMaxRank);
  const BoundedValues* v = c.values(0);
  if (v == nullptr || in.rank != 1) {
    c.Set(0, DType::kInt64, BoundedShape::OfDims({rank, c.Fresh(0, in.ElementsUpper())}));
    return;
  }
  int least = 0, most = 0;
  BoundedValues at;
  for (int i = 0; i < v->count; ++i) {
    const Bound& x = (*v)[i];
    const bool nonzero = x.lower > 0 || x.upper < 0;
    if (nonzero) at[at.count++] = Bound::Exactly(i);
    least += nonzero;
    most += nonzero || !x.exact();
  }
  const Bound n = least == most ? Bound::Exactly(least) : c.Fresh(least, most);
  c.Set(0, DType::kInt64, BoundedShape::OfDims({rank, n}));
  if (least == most) OfferValues(c, 0, DType::kInt64, at);
}

void OneHot(ShapeContext& c) {
  const BoundedShape& in = c.shape(0);
  CheckElements(c, 1, 1);
  CheckElements(c, 2, 2);
  if (!in.known_rank()) {
    c.Set(0, c.dtype(2), BoundedShape::Unknown());
    return;
  }
  Bound depth = ScalarValue(c, 1);
  if (c.values(1) == nullptr) {
    double d;
    if (c.doubles(1, {&d, 1}) == 1 && d >= 0 && d < 9e18) depth = Bound::Exactly(static_cast<int64_t>(d));
  }
  const int axis = c.Axis(c.node().Int("axis", -1), in.rank + 1);
  BoundedShape out = BoundedShape::Scalar();
  for (int i = 0, k = 0; i <= in.rank; ++i) out.push_back(i == axis ? CheckedDim(c, depth) : in[k++]);
  c.Set(0, c.dtype(2), out);
}

void Unique(ShapeContext& c) {
  const BoundedShape& in = c.shape(0);
  Bound from = in.Elements(c.math());
  BoundedShape out;
  int axis = -1;
  if (c.node().has_attr("axis") && in.known_rank()) {
    axis = c.Axis(c.node().Int("axis", 0), in.rank);
    from = in[axis];
  }
  const Bound n = from.upper <= 1 ? from : c.Fresh(from.lower > 0, from.upper);
  if (axis >= 0) {
    out = in;
    out[axis] = n;
  } else if (!c.node().has_attr("axis")) {
    out = BoundedShape::OfDims({n});
  }
  c.Set(0, c.dtype(0), out);
  for (int o : {1, 3})
    if (c.wants(o)) c.Set(o, DType::kInt64, BoundedShape::OfDims({n}));
  if (c.wants(2)) c.Set(2, DType::kInt64, BoundedShape::OfDims({from}));
}

void NonMaxSuppression(ShapeContext& c) {
  CheckRank(c, 0, 3);
  CheckRank(c, 1, 3);
  const BoundedShape &boxes = c.shape(0), &scores = c.shape(1);
  const Bound per_class = c.has(2) ? ScalarValue(c, 2) : Bound::Exactly(0);
  int64_t most = kUnbounded;
  if (boxes.known_rank() && scores.known_rank()) {
    CheckEqual(c, boxes[0], scores[0], "batch sizes");
    CheckEqual(c, boxes[1], scores[2], "numbers of boxes");
    const BoundMath plain;
    const int64_t kept = std::max<int64_t>(std::min({per_class.upper, boxes[1].upper, scores[2].upper}), 0);
    const Bound rows = plain.Mul(Bound::Exactly(std::min(boxes[0].upper, scores[0].upper)), scores[1]);
    most = plain.Mul(Bound::Between(0, rows.upper), Bound::Between(0, kept)).upper;
  }
  c.Set(0, DType::kInt64,
        BoundedShape::OfDims({most == 0 ? Bound::Exactly(0) : c.Fresh(0, most), Bound::Exactly(3)}));
}

}  // namespace

void RegisterSelection(Registry& ops) {
  ops.push_back({.name = "TopK", .since = 1, .max_outputs = 2, .rule = TopK});
  ops.push_back({.name = "TopK",
                 .since = 10,
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .max_outputs = 2,
                 .rule = TopK,
                 .reads_values = Bits(1)});
  ops.push_back({.name = "NonZero", .since = 9, .rule = NonZero});
  ops.push_back({.name = "OneHot",
                 .since = 9,
                 .min_inputs = 3,
                 .max_inputs = 3,
                 .rule = OneHot,
                 .reads_values = Bits(1)});
  ops.push_back({.name = "Unique", .since = 11, .max_outputs = 4, .rule = Unique});
  ops.push_back({.name = "NonMaxSuppression",
                 .since = 10,
                 .min_inputs = 2,
                 .max_inputs = 5,
                 .rule = NonMaxSuppression,
                 .reads_values = Bits(2)});
}

}  // namespace ullage::ops
