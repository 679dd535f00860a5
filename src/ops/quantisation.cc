#include "ops/families.h"

namespace ullage::ops {
namespace {

// Scales are one number, one per slice along the axis, or one per block along it.
void CheckScale(ShapeContext& c, int scale) {
  const BoundedShape &x = c.shape(0), &s = c.shape(scale);
  const int64_t block = c.node().Int("block_size", 0);
  if (block < 0) c.Fail("attribute block_size is ", block);
  if (!x.known_rank() || !s.known_rank() || s.rank == 0) return;
  if (s.rank == 1 && s[0].exact() && s[0].lower == 1) return;
  if (s.rank > 1 && s.rank != x.rank)
    c.Fail("scales of shape ", s.ToString(), " for data of shape ", x.ToString());
  const int64_t axis_attr = c.node().Int("axis", 1);
  if (x.rank == 1 && axis_attr == 1) return;
  const int axis = c.Axis(axis_attr, x.rank);
  if (s.rank == 1 && block == 0) CheckEqual(c, s[0], x[axis], "scales and the quantised axis");
  if (block > 0) CheckEqual(c, s[axis], c.math().CeilDiv(x[axis], block), "scales and blocks");
}

DType TypeFromAttr(const ShapeContext& c, std::string_view key) {
  return DTypeFromOnnx(static_cast<int32_t>(c.node().Int(key, 0)));
}

void QuantizeLinear(ShapeContext& c) {
  CheckScale(c, 1);
  DType type = c.has(2) ? c.dtype(2) : TypeFromAttr(c, "output_dtype");
  if (type == DType::kUndefined) type = DType::kUInt8;
  c.Set(0, type, c.shape(0));
}

void DequantizeLinear(ShapeContext& c) {
  if (c.has(2)) CheckSameType(c, 0, 2);
  CheckScale(c, 1);
  const DType named = TypeFromAttr(c, "output_dtype");
  c.Set(0, named == DType::kUndefined ? c.dtype(1) : named, c.shape(0));
}

void DynamicQuantizeLinear(ShapeContext& c) {
  c.Set(0, DType::kUInt8, c.shape(0));
  if (c.wants(1)) c.Set(1, DType::kFloat, BoundedShape::Scalar());
  if (c.wants(2)) c.Set(2, DType::kUInt8, BoundedShape::Scalar());
}

// A, a_scale, a_zp?, B, b_scale, b_zp?, c_scale, c_zp?
void QLinearBinary(ShapeContext& c) {
  CheckSameType(c, 0, 3);
  c.Set(0, c.dtype(0), Broadcast(c, c.shape(0), c.shape(3)));
}

// condition, X, x_scale, x_zp, Y, y_scale, y_zp, z_scale, z_zp
void QLinearWhere(ShapeContext& c) {
  CheckSameType(c, 1, 4);
  c.Set(0, c.dtype(1), Broadcast(c, Broadcast(c, c.shape(1), c.shape(4)), c.shape(0)));
}

// Y_scale, Y_zero_point, then (X, scale, zero_point) per tensor.
void QLinearConcat(ShapeContext& c) {
  const int tensors = (c.input_count() - 2) / 3;
  if (tensors < 1 || tensors * 3 + 2 != c.input_count()) c.Fail(c.input_count(), " inputs, expected 2 + 3 n");
  BoundedShape out = c.shape(2);
  if (!out.known_rank()) {
    c.Set(0, c.dtype(1), BoundedShape::Unknown());
    return;
  }
  out.max_elements = kUnbounded;
  const int axis = c.Axis(c.node().RequiredInt("axis"), out.rank);
  for (int t = 1; t < tensors; ++t) {
    const BoundedShape& s = c.shape(2 + 3 * t);
    if (!s.known_rank()) {
      out[axis] = Bound::Between(out[axis].lower, kUnbounded);
      continue;
    }
    if (s.rank != out.rank) c.Fail("tensors of ranks ", out.rank, " and ", s.rank);
    for (int i = 0; i < out.rank; ++i)
      out[i] = i == axis ? c.math().Add(out[i], s[i]) : Equated(c, out[i], s[i], "concatenated dimensions");
  }
  c.Set(0, c.dtype(1), out);
}

// X, x_scale, x_zp?, y_scale, y_zp?
void QLinearGlobalAveragePool(ShapeContext& c) {
  CheckRankAtLeast(c, 0, 3);
  BoundedShape out = c.shape(0);
  out.max_elements = kUnbounded;
  const bool last = c.node().Int("channels_last", 0) != 0;
  for (int i = 1; out.known_rank() && i < out.rank; ++i)
    if (i != (last ? out.rank - 1 : 1)) out[i] = Bound::Exactly(1);
  c.Set(0, c.dtype(0), out);
}

// X, x_scale, x_zp?, y_scale, y_zp?; axes are an attribute.
void QLinearReduceMean(ShapeContext& c) {
  const BoundedShape& in = c.shape(0);
  if (!in.known_rank()) {
    c.Set(0, c.dtype(0), BoundedShape::Unknown());
    return;
  }
  Axes axes = AxesFromAttr(c, "axes", in.rank);
  if (axes.kind == Axes::kAbsent) axes.mask = (1u << in.rank) - 1;
  BoundedShape out = BoundedShape::Scalar();
  for (int i = 0; i < in.rank; ++i) {
    if (!(axes.mask >> i & 1)) {
      out.push_back(in[i]);
    } else if (c.node().Int("keepdims", 1) != 0) {
      out.push_back(Bound::Exactly(1));
    }
  }
  c.Set(0, c.dtype(0), out);
}

}  // namespace

void RegisterQuantisation(Registry& ops) {
  const std::string_view ms = graph::kMsDomain;
  for (std::string_view domain : {std::string_view(), ms}) {
    const int since = domain.empty() ? 10 : 1;
    ops.push_back({.domain = domain,
                   .name = "QuantizeLinear",
                   .since = since,
                   .min_inputs = 2,
                   .max_inputs = 3,
                   .rule = QuantizeLinear});
    ops.push_back({.domain = domain,
                   .name = "DequantizeLinear",
                   .since = since,
                   .min_inputs = 2,
                   .max_inputs = 3,
                   .rule = DequantizeLinear});
  }
  ops.push_back(
      {.name = "DynamicQuantizeLinear", .since = 11, .max_outputs = 3, .rule = DynamicQuantizeLinear});
  for (std::string_view name : {"QLinearAdd", "QLinearMul"})
    ops.push_back({.domain = ms, .name = name, .min_inputs = 7, .max_inputs = 8, .rule = QLinearBinary});
  for (std::string_view name : {"QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax"})
    ops.push_back({.domain = ms, .name = name, .min_inputs = 4, .max_inputs = 5, .rule = SameAsInput});
  ops.push_back(
      {.domain = ms, .name = "QLinearWhere", .min_inputs = 9, .max_inputs = 9, .rule = QLinearWhere});
  ops.push_back(
      {.domain = ms, .name = "QLinearConcat", .min_inputs = 5, .max_inputs = -1, .rule = QLinearConcat});
  ops.push_back({.domain = ms,
                 .name = "QLinearGlobalAveragePool",
                 .min_inputs = 4,
                 .max_inputs = 5,
                 .rule = QLinearGlobalAveragePool});
  ops.push_back({.domain = ms,
                 .name = "QLinearReduceMean",
                 .min_inputs = 4,
                 .max_inputs = 5,
                 .rule = QLinearReduceMean});
}

}  // namespace ullage::ops
