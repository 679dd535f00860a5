#include <cmath>

#include "ops/families.h"
#include "ops/interval.h"

namespace ullage::ops {
namespace {

void OfferConstant(ShapeContext& c, const graph::Constant& constant) {
  if (!c.wants_values() || !constant.available() || constant.elements() > BoundedValues::kMax) return;
  if (!IsInteger(constant.dtype) && constant.dtype != DType::kBool) return;
  BoundedValues v;
  for (int64_t n : constant.AsInts()) v[v.count++] = Bound::Exactly(n);
  OfferValues(c, 0, constant.dtype, v);
}

void Constant(ShapeContext& c) {
  const graph::Node& n = c.node();
  if (n.has_attr("value")) {
    const graph::ConstantPtr tensor = n.Tensor("value");
    c.Set(0, tensor->dtype, BoundedShape::Of(tensor->shape));
    OfferConstant(c, *tensor);
  } else if (n.has_attr("value_int")) {
    c.Set(0, DType::kInt64, BoundedShape::Scalar());
    BoundedValues v;
    v[v.count++] = Bound::Exactly(n.Int("value_int", 0));
    OfferValues(c, 0, DType::kInt64, v);
  } else if (n.has_attr("value_ints")) {
    const auto list = n.IntsView("value_ints");
    c.Set(0, DType::kInt64, BoundedShape::OfDims({Bound::Exactly(static_cast<int64_t>(list.size()))}));
    if (list.size() > static_cast<size_t>(BoundedValues::kMax)) return;
    BoundedValues v;
    for (int64_t k : list) v[v.count++] = Bound::Exactly(k);
    OfferValues(c, 0, DType::kInt64, v);
  } else if (n.has_attr("value_float")) {
    c.Set(0, DType::kFloat, BoundedShape::Scalar());
  } else if (n.has_attr("value_floats")) {
    c.Set(0, DType::kFloat,
          BoundedShape::OfDims({Bound::Exactly(static_cast<int64_t>(n.FloatsView("value_floats").size()))}));
  } else if (n.has_attr("value_string")) {
    c.Set(0, DType::kString, BoundedShape::Scalar());
  } else {
    c.Unsupported("none of the attributes value, value_int(s), value_float(s), value_string");
  }
}

// Dimensions from the contents of input i.
BoundedShape ShapeFromValues(ShapeContext& c, int i) {
  CheckRank(c, i, 1);
  BoundedShape out;
  if (const BoundedValues* v = c.values(i)) {
    out.rank = 0;
    for (int k = 0; k < v->count; ++k) out.push_back(CheckedDim(c, (*v)[k]));
  } else if (c.shape(i).rank == 1 && c.shape(i)[0].exact()) {
    if (c.shape(i)[0].lower > kMaxRank) c.Fail("a shape of rank ", c.shape(i)[0].lower);
    out = AnyDims(static_cast<int>(c.shape(i)[0].lower));
  }
  return out;
}

void ConstantOfShape(ShapeContext& c) {
  const BoundedShape out = ShapeFromValues(c, 0);
  const graph::ConstantPtr value = c.node().Tensor("value");
  if (value && value->elements() != 1)
    c.Fail("attribute value has ", value->elements(), " elements, expected 1");
  const DType type = value ? value->dtype : DType::kFloat;
  c.Set(0, type, out);
  if (!c.wants_values() || !value || !out.exact() || !value->available()) return;
  const Bound n = out.Elements(BoundMath());
  if (!n.exact() || n.lower > BoundedValues::kMax || (!IsInteger(type) && type != DType::kBool)) return;
  BoundedValues v;
  const Bound each = Bound::Exactly(value->AsInts().front());
  while (v.count < n.lower) v[v.count++] = each;
  OfferValues(c, 0, type, v);
}

Bound RangeLength(ShapeContext& c, const Bound& start, const Bound& limit, const Bound& delta) {
  const BoundMath& math = c.math();
  if (delta.exact() && delta.lower == 0) c.Fail("a step of 0");
  const Bound zero = Bound::Exactly(0);
  if (delta.exact() && delta.lower != INT64_MIN) {
    const Bound span = delta.lower > 0 ? math.Sub(limit, start) : math.Sub(start, limit);
    const int64_t stride = delta.lower > 0 ? delta.lower : -delta.lower;
    return math.CeilDiv(math.Max(span, zero), stride);
  }
  // A step of any size: at least 1 in magnitude, of either sign where that is open.
  const Bound up = math.Sub(limit, start), down = math.Sub(start, limit);
  int64_t most = 0;
  if (delta.upper > 0) most = std::max(most, up.upper);
  if (delta.lower < 0) most = std::max(most, down.upper);
  return Bound::Between(0, std::max<int64_t>(most, 0));
}

void Range(ShapeContext& c) {
  CheckSameType(c, 0, 1);
  CheckSameType(c, 0, 2);
  for (int i = 0; i < 3; ++i) CheckElements(c, i, 1);
  const DType type = c.dtype(0);
  if (IsFloating(type)) {
    double s, l, d;
    if (c.doubles(0, {&s, 1}) == 1 && c.doubles(1, {&l, 1}) == 1 && c.doubles(2, {&d, 1}) == 1) {
      if (d == 0) c.Fail("a step of 0");
      const double span =
          type == DType::kDouble ? l - s : static_cast<double>(static_cast<float>(l) - static_cast<float>(s));
      const double n = std::ceil(span / d);
      if (std::isnan(n) || n >= 9.2e18) c.Fail("a range of ", n, " elements");
      c.Set(0, type, BoundedShape::OfDims({Bound::Exactly(n > 0 ? static_cast<int64_t>(n) : 0)}));
      return;
    }
    const BoundedValues *vs = c.values(0), *vl = c.values(1), *vd = c.values(2);
    Bound n;
    if (vs && vl && vd) n = RangeLength(c, (*vs)[0], (*vl)[0], (*vd)[0]);
    c.Set(0, type, BoundedShape::OfDims({n}));
    return;
  }
  const Bound start = ScalarValue(c, 0), delta = ScalarValue(c, 2);
  const Bound n = RangeLength(c, start, ScalarValue(c, 1), delta);
  c.Set(0, type, BoundedShape::OfDims({n}));
  if (!c.wants_values() || !n.exact() || n.lower > BoundedValues::kMax) return;
  BoundedValues v;
  for (; v.count < n.lower; ++v.count)
    v[v.count] = c.math().Add(start, c.math().Mul(Bound::Exactly(v.count), delta));
  OfferValues(c, 0, type, v);
}

DType TypeAttr(const ShapeContext& c, DType otherwise) {
  if (!c.node().has_attr("dtype")) return otherwise;
  const DType type = DTypeFromOnnx(static_cast<int32_t>(c.node().Int("dtype", 0)));
  if (type == DType::kUndefined) c.Fail("attribute dtype names no type");
  return type;
}

void EyeLike(ShapeContext& c) {
  CheckRank(c, 0, 2);
  c.Set(0, TypeAttr(c, c.dtype(0)), c.shape(0));
}

void RandomLike(ShapeContext& c) {
  c.Set(0, TypeAttr(c, c.dtype(0)), c.shape(0));
}

void Random(ShapeContext& c) {
  BoundedShape out = BoundedShape::Scalar();
  for (int64_t n : c.node().IntsView("shape")) out.push_back(CheckedDim(c, Bound::Exactly(n)));
  c.Set(0, TypeAttr(c, DType::kFloat), out);
}

void Multinomial(ShapeContext& c) {
  CheckRank(c, 0, 2);
  BoundedShape out = AnyDims(2);
  if (c.shape(0).known_rank()) out[0] = c.shape(0)[0];
  out[1] = CheckedDim(c, Bound::Exactly(c.node().Int("sample_size", 1)));
  c.Set(0, TypeAttr(c, DType::kInt32), out);
}

}  // namespace

void RegisterGenerators(Registry& ops) {
  ops.push_back({.name = "Constant", .since = 1, .min_inputs = 0, .max_inputs = 0, .rule = Constant});
  ops.push_back({.name = "ConstantOfShape", .since = 9, .rule = ConstantOfShape, .reads_values = Bits(0)});
  ops.push_back({.name = "Range",
                 .since = 11,
                 .min_inputs = 3,
                 .max_inputs = 3,
                 .rule = Range,
                 .reads_values = Bits(0, 1, 2)});
  ops.push_back({.name = "EyeLike", .since = 9, .rule = EyeLike});
  for (std::string_view name : {"RandomNormalLike", "RandomUniformLike"})
    ops.push_back({.name = name, .since = 1, .rule = RandomLike, .stateful = true});
  for (std::string_view name : {"RandomNormal", "RandomUniform"})
    ops.push_back(
        {.name = name, .since = 1, .min_inputs = 0, .max_inputs = 0, .rule = Random, .stateful = true});
  ops.push_back({.name = "Bernoulli", .since = 15, .rule = RandomLike, .stateful = true});
  ops.push_back({.name = "Multinomial", .since = 7, .rule = Multinomial, .stateful = true});
}

}  // namespace ullage::ops
