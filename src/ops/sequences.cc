#include "ops/families.h"

namespace ullage::ops {
namespace {

using graph::TypeKind;

// Facts of a sequence are those of any element: the smallest shape bounds that contain all.

void SequenceConstruct(ShapeContext& c) {
  BoundedShape shape = c.shape(0);
  for (int i = 1; i < c.input_count(); ++i) {
    CheckSameType(c, 0, i);
    shape = UnionOf(c.math(), shape, c.shape(i));
  }
  c.Set(0, c.dtype(0), shape);
  c.SetKind(0, TypeKind::kSequence);
}

void SequenceEmpty(ShapeContext& c) {
  const auto type = DTypeFromOnnx(static_cast<int32_t>(c.node().Int("dtype", 1)));
  // No element: any shape bounds hold. The narrowest is taken, so that a union keeps the other side's.
  BoundedShape none;
  none.max_elements = 0;
  c.Set(0, type, none);
  c.SetKind(0, TypeKind::kSequence);
}

void CheckSequence(ShapeContext& c, int i) {
  if (c.kind(i) == TypeKind::kTensor) c.Fail("input ", i, " is a tensor, expected a sequence");
}

// sequence, tensor, position?
void SequenceInsert(ShapeContext& c) {
  CheckSequence(c, 0);
  CheckSameType(c, 0, 1);
  c.Set(0, c.dtype(0), UnionOf(c.math(), c.shape(0), c.shape(1)));
  c.SetKind(0, TypeKind::kSequence);
}

void SequenceErase(ShapeContext& c) {
  CheckSequence(c, 0);
  SameAsInput(c);
  c.SetKind(0, TypeKind::kSequence);
}

void SequenceAt(ShapeContext& c) {
  CheckSequence(c, 0);
  SameAsInput(c);
}

void SequenceLength(ShapeContext& c) {
  CheckSequence(c, 0);
  c.Set(0, DType::kInt64, BoundedShape::Scalar());
}

void SplitToSequence(ShapeContext& c) {
  BoundedShape out = c.shape(0);
  if (out.known_rank()) {
    const int axis = c.Axis(c.node().Int("axis", 0), out.rank);
    Bound& d = out[axis];
    const bool keep = c.has(1) || c.node().Int("keepdims", 1) != 0;
    if (!keep) {
      BoundedShape less = BoundedShape::Scalar();
      for (int i = 0; i < out.rank; ++i)
        if (i != axis) less.push_back(out[i]);
      out = less;
    } else if (!c.has(1)) {
      d = Bound::Exactly(1);
    } else {
      int64_t most = d.upper;
      if (const BoundedValues* v = c.values(1)) {
        int64_t largest = 0;
        for (int i = 0; i < v->count; ++i) largest = std::max(largest, (*v)[i].upper);
        most = std::min(most, largest);
      }
      d = Bound::Between(0, most);
    }
  }
  c.Set(0, c.dtype(0), out);
  c.SetKind(0, TypeKind::kSequence);
}

void ConcatFromSequence(ShapeContext& c) {
  CheckSequence(c, 0);
  // How many elements there are is not known.
  const BoundedShape& in = c.shape(0);
  BoundedShape out;
  if (in.known_rank()) {
    const bool fresh = c.node().Int("new_axis", 0) != 0;
    const int rank = in.rank + fresh;
    const int axis = c.Axis(c.node().RequiredInt("axis"), rank);
    out.rank = 0;
    for (int i = 0, k = 0; i < rank; ++i) {
      if (i == axis) {
        out.push_back(Bound());
        if (!fresh) ++k;
      } else {
        out.push_back(in[k++]);
      }
    }
  }
  c.Set(0, c.dtype(0), out);
}

void Optional(ShapeContext& c) {
  if (!c.has(0)) c.Unsupported("an empty optional");
  SameAsInput(c);
  c.SetKind(0, TypeKind::kOptional);
}

void OptionalGetElement(ShapeContext& c) {
  SameAsInput(c);
}

void OptionalHasElement(ShapeContext& c) {
  c.Set(0, DType::kBool, BoundedShape::Scalar());
}

}  // namespace

void RegisterSequences(Registry& ops) {
  ops.push_back({.name = "SequenceConstruct", .since = 11, .max_inputs = -1, .rule = SequenceConstruct});
  ops.push_back(
      {.name = "SequenceEmpty", .since = 11, .min_inputs = 0, .max_inputs = 0, .rule = SequenceEmpty});
  ops.push_back(
      {.name = "SequenceInsert", .since = 11, .min_inputs = 2, .max_inputs = 3, .rule = SequenceInsert});
  ops.push_back({.name = "SequenceErase", .since = 11, .max_inputs = 2, .rule = SequenceErase});
  ops.push_back({.name = "SequenceAt", .since = 11, .min_inputs = 2, .max_inputs = 2, .rule = SequenceAt});
  ops.push_back({.name = "SequenceLength", .since = 11, .rule = SequenceLength});
  ops.push_back({.name = "SplitToSequence",
                 .since = 11,
                 .max_inputs = 2,
                 .rule = SplitToSequence,
                 .reads_values = Bits(1)});
  ops.push_back({.name = "ConcatFromSequence", .since = 11, .rule = ConcatFromSequence});
  ops.push_back({.name = "Optional", .since = 15, .min_inputs = 0, .max_inputs = 1, .rule = Optional});
  ops.push_back({.name = "OptionalGetElement", .since = 15, .rule = OptionalGetElement});
  ops.push_back({.name = "OptionalHasElement", .since = 15, .min_inputs = 0, .rule = OptionalHasElement});
}

}  // namespace ullage::ops
