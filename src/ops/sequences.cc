#include "ops/families.h"

namespace ullage::ops {
namespace {

using graph::TypeKind;

// Numbers of TensorProto.DataType end here.
constexpr int32_t kLastOnnxType = 26;

// Facts of a sequence: the smallest shape bounds that contain every element's, and the number of elements.

bool IsSequence(TypeKind kind) {
  return kind == TypeKind::kSequence || kind == TypeKind::kOptionalSequence;
}

void CheckSequence(const ShapeContext& c, int i) {
  if (!IsSequence(c.kind(i))) c.Fail("input ", i, " is no sequence");
}

void CheckTensor(const ShapeContext& c, int i) {
  if (c.kind(i) != TypeKind::kTensor) c.Fail("input ", i, " is no tensor");
}

BoundedShape NoShape() {
  BoundedShape none;
  none.max_elements = 0;
  return none;
}

bool IsNoShape(const BoundedShape& s) {
  return s.rank < 0 && s.max_elements == 0;
}

// Of nothing and a shape: the shape.
BoundedShape ElementUnion(const BoundMath& math, const BoundedShape& a, const BoundedShape& b) {
  return IsNoShape(a) ? b : IsNoShape(b) ? a : UnionOf(math, a, b);
}

void SequenceConstruct(ShapeContext& c) {
  BoundedShape shape = c.shape(0);
  for (int i = 0; i < c.input_count(); ++i) {
    CheckTensor(c, i);
    CheckSameType(c, 0, i);
    shape = ElementUnion(c.math(), shape, c.shape(i));
  }
  c.Set(0, c.dtype(0), shape);
  c.SetKind(0, TypeKind::kSequence, Bound::Exactly(c.input_count()));
}

void SequenceEmpty(ShapeContext& c) {
  c.Set(0, DTypeFromOnnx(static_cast<int32_t>(c.node().Int("dtype", 1))), NoShape());
  c.SetKind(0, TypeKind::kSequence, Bound::Exactly(0));
}

// sequence, tensor, position?
void SequenceInsert(ShapeContext& c) {
  CheckSequence(c, 0);
  CheckTensor(c, 1);
  CheckSameType(c, 0, 1);
  c.Set(0, c.dtype(1), ElementUnion(c.math(), c.shape(0), c.shape(1)));
  c.SetKind(0, TypeKind::kSequence, c.math().Add(c.length(0), Bound::Exactly(1)));
}

void SequenceErase(ShapeContext& c) {
  CheckSequence(c, 0);
  if (c.length(0).upper == 0) c.Fail("there is nothing to erase in an empty sequence");
  SameAsInput(c);
  const Bound less = c.math().Sub(c.length(0), Bound::Exactly(1));
  c.SetKind(0, TypeKind::kSequence, c.math().Max(less, Bound::Exactly(0)));
}

void SequenceAt(ShapeContext& c) {
  CheckSequence(c, 0);
  const Bound at = ScalarValue(c, 1), count = c.length(0);
  if (at.exact() && count.exact()) {
    const int64_t k = at.lower < 0 ? at.lower + count.lower : at.lower;
    if (k < 0 || k >= count.lower)
      c.Fail("position ", at.lower, " lies outside of a sequence of ", count.lower, " elements");
    c.Set(0, c.dtype(0), c.element(0, k));
    return;
  }
  c.Set(0, c.dtype(0), c.shape(0));
}

void SequenceLength(ShapeContext& c) {
  CheckSequence(c, 0);
  c.Set(0, DType::kInt64, BoundedShape::Scalar());
  BoundedValues v;
  v.count = 1;
  v[0] = c.length(0);
  OfferValues(c, 0, DType::kInt64, v);
}

// input, split? (a scalar: every part has that size, the last may be smaller; a vector: the sizes)
void SplitToSequence(ShapeContext& c) {
  BoundedShape out = c.shape(0);
  Bound count;
  if (out.known_rank()) {
    const int axis = c.Axis(c.node().Int("axis", 0), out.rank);
    const Bound size = out[axis];
    Bound& d = out[axis];
    out.max_elements = kUnbounded;
    if (!c.has(1)) {
      count = size;
      if (c.node().Int("keepdims", 1) != 0) {
        d = Bound::Exactly(1);
      } else {
        BoundedShape less = BoundedShape::Scalar();
        for (int i = 0; i < out.rank; ++i)
          if (i != axis) less.push_back(out[i]);
        out = less;
      }
    } else if (const BoundedValues* v = c.values(1); c.shape(1).rank == 0) {
      const Bound part = v != nullptr && v->count == 1 ? (*v)[0] : Bound::Between(1, kUnbounded);
      if (part.upper < 1) c.Fail("parts of ", part.upper, " along the axis");
      const int64_t least = std::max<int64_t>(part.lower, 1);
      count = part.exact()
                  ? c.math().CeilDiv(size, least)
                  : Bound::Between(0, size.bounded() ? c.math().CeilDiv(size, least).upper : kUnbounded);
      d = Bound::Between(std::min<int64_t>(size.lower, 1), std::min(size.upper, part.upper));
    } else {
      if (c.shape(1).rank > 1) c.Fail("the sizes of the parts have shape ", c.shape(1).ToString());
      count = c.shape(1).rank == 1 ? c.shape(1)[0] : Bound();
      int64_t largest = v != nullptr ? 0 : kUnbounded, least = v != nullptr ? kUnbounded : 0;
      Bound sum = Bound::Exactly(0);
      for (int i = 0; v != nullptr && i < v->count; ++i) {
        if ((*v)[i].upper < 0) c.Fail("a part of ", (*v)[i].upper);
        largest = std::max(largest, (*v)[i].upper);
        least = std::min(least, (*v)[i].lower);
        sum = c.math().Add(sum, (*v)[i]);
      }
      if (v != nullptr) CheckEqual(c, sum, size, "the sizes of the parts and the axis");
      largest = std::min(largest, size.upper);
      d = Bound::Between(std::clamp<int64_t>(least, 0, largest), largest);
    }
  }
  c.Set(0, c.dtype(0), out);
  c.SetKind(0, TypeKind::kSequence, count);
}

// The size along the axis is the sum over the elements: exact where each can be asked, else a product.
Bound SumAlong(const ShapeContext& c, int axis) {
  constexpr int64_t kMostAsked = 4096;
  const Bound count = c.length(0);
  const Bound& each = c.shape(0)[axis];
  if (!count.exact() || count.lower > kMostAsked) {
    const Bound product = c.math().Mul(count, each);
    // Elements differ, so the product of the ends holds, but no expression.
    return Bound::Between(product.lower, product.upper);
  }
  Bound sum = Bound::Exactly(0);
  for (int64_t k = 0; k < count.lower; ++k) {
    const BoundedShape& s = c.element(0, k);
    sum = s.rank > axis ? Bound::Between(c.math().Add(sum, s[axis]).lower, c.math().Add(sum, s[axis]).upper)
                        : Bound();
  }
  return sum;
}

void ConcatFromSequence(ShapeContext& c) {
  CheckSequence(c, 0);
  const BoundedShape& in = c.shape(0);
  if (c.length(0).upper == 0) c.Fail("there is nothing to join in an empty sequence");
  BoundedShape out;
  if (in.known_rank()) {
    const bool fresh = c.node().Int("new_axis", 0) != 0;
    const int rank = in.rank + fresh;
    const int axis = c.Axis(c.node().RequiredInt("axis"), rank);
    out.rank = 0;
    for (int i = 0, k = 0; i < rank; ++i) {
      if (i != axis) {
        out.push_back(in[k++]);
      } else if (fresh) {
        out.push_back(c.length(0));
      } else {
        out.push_back(SumAlong(c, axis));
        ++k;
      }
    }
  } else if (c.length(0).bounded() && in.max_elements != kUnbounded) {
    out.max_elements = c.math().Mul(c.length(0), Bound::Between(0, in.max_elements)).upper;
  }
  c.Set(0, c.dtype(0), out);
}

// Without an input, the attribute `type` ("tensor(float32)", "seq(tensor(int64))") says what is missing.
void Optional(ShapeContext& c) {
  if (!c.has(0)) {
    const std::string_view type = c.node().StrView("type", "");
    const size_t open = type.rfind('('), close = type.find(')');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open)
      c.Fail("an empty optional of type \"", type, "\"");
    const std::string_view name = type.substr(open + 1, close - open - 1);
    DType dtype = name == "float" ? DType::kFloat : name == "double" ? DType::kDouble : DType::kUndefined;
    for (int32_t n = 1; n <= kLastOnnxType; ++n)
      if (NameOf(DTypeFromOnnx(n)) == name) dtype = DTypeFromOnnx(n);
    c.Set(0, dtype, NoShape());
    const bool sequence = type.rfind("seq", 0) == 0 || type.find("(seq") != std::string_view::npos;
    c.SetKind(0, sequence ? TypeKind::kOptionalSequence : TypeKind::kOptional, Bound::Exactly(0));
    return;
  }
  SameAsInput(c);
  if (IsSequence(c.kind(0)))
    c.SetKind(0, TypeKind::kOptionalSequence, c.length(0));
  else
    c.SetKind(0, TypeKind::kOptional, Bound::Exactly(1));
}

void OptionalGetElement(ShapeContext& c) {
  SameAsInput(c);
  if (IsSequence(c.kind(0))) {
    c.SetKind(0, TypeKind::kSequence, c.length(0));
  } else if (c.kind(0) == TypeKind::kOptional) {
    if (c.length(0).upper == 0) c.Fail("the optional is empty");
    if (c.length(0).exact()) c.Set(0, c.dtype(0), c.element(0, 0));
  }
}

void OptionalHasElement(ShapeContext& c) {
  c.Set(0, DType::kBool, BoundedShape::Scalar());
  BoundedValues v;
  v.count = 1;
  v[0] = !c.has(0)                                  ? Bound::Exactly(0)
         : c.kind(0) == TypeKind::kOptional         ? c.length(0)
         : c.kind(0) == TypeKind::kOptionalSequence ? Bound::Between(0, 1)
                                                    : Bound::Exactly(1);
  OfferValues(c, 0, DType::kBool, v);
}

}  // namespace

void RegisterSequences(Registry& ops) {
  ops.push_back({.name = "SequenceConstruct", .since = 11, .max_inputs = -1, .rule = SequenceConstruct});
  ops.push_back(
      {.name = "SequenceEmpty", .since = 11, .min_inputs = 0, .max_inputs = 0, .rule = SequenceEmpty});
  ops.push_back(
      {.name = "SequenceInsert", .since = 11, .min_inputs = 2, .max_inputs = 3, .rule = SequenceInsert});
  ops.push_back({.name = "SequenceErase", .since = 11, .max_inputs = 2, .rule = SequenceErase});
  ops.push_back({.name = "SequenceAt",
                 .since = 11,
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .rule = SequenceAt,
                 .reads_values = Bits(1)});
  ops.push_back({.name = "SequenceLength", .since = 11, .rule = SequenceLength});
  ops.push_back({.name = "SplitToSequence",
                 .since = 11,
                 .max_inputs = 2,
                 .rule = SplitToSequence,
                 .reads_values = Bits(1)});
  ops.push_back({.name = "ConcatFromSequence", .since = 11, .rule = ConcatFromSequence});
  ops.push_back({.name = "Optional", .since = 15, .min_inputs = 0, .max_inputs = 1, .rule = Optional});
  ops.push_back({.name = "OptionalGetElement", .since = 15, .rule = OptionalGetElement});
  ops.push_back({.name = "OptionalHasElement",
                 .since = 15,
                 .min_inputs = 0,
                 .max_inputs = 1,
                 .rule = OptionalHasElement});
}

}  // namespace ullage::ops
