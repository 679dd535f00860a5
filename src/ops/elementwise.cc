#include "ops/families.h"
#include "ops/value_math.h"

namespace ullage::ops {
namespace {

namespace vm = value_math;

void UnaryFloat(ShapeContext& c) {
  SameAsInput(c);
}

template <vm::Unary f>
void UnaryValue(ShapeContext& c) {
  SameAsInput(c);
  if (!c.wants_values()) return;
  const BoundedValues* v = c.values(0);
  if (v == nullptr) return;
  BoundedValues r = *v;
  for (int i = 0; i < r.count; ++i) r[i] = f(c, c.dtype(0), r[i]);
  OfferValues(c, 0, c.dtype(0), r);
}

void Predicate(ShapeContext& c) {
  c.Set(0, DType::kBool, c.shape(0));
}

BoundedShape BinaryShape(ShapeContext& c, DType out) {
  // Before version 7 the second input is stretched to the first, from the attribute axis on.
  const bool old = !SinceOpset(c, 7);
  if (old && c.shape(1).known_rank() && c.shape(0).known_rank() && c.shape(1).rank > c.shape(0).rank)
    c.Fail("cannot stretch ", c.shape(1).ToString(), " to ", c.shape(0).ToString());
  const BoundedShape shape = old ? c.shape(0) : Broadcast(c, c.shape(0), c.shape(1));
  c.Set(0, out, shape);
  return shape;
}

void BinaryValues(ShapeContext& c, DType out, const BoundedShape& shape, vm::Binary f) {
  if (!c.wants_values() || !SinceOpset(c, 7)) return;
  const BoundedValues* a = c.values(0);
  const BoundedValues* b = c.values(1);
  const int count = SmallCount(shape);
  if (a == nullptr || b == nullptr || count < 0) return;
  BoundedValues r;
  r.count = count;
  for (int i = 0; i < count; ++i)
    r[i] = f(c, c.dtype(0), (*a)[vm::BroadcastIndex(c.shape(0), shape, i)],
             (*b)[vm::BroadcastIndex(c.shape(1), shape, i)]);
  OfferValues(c, 0, out, r);
}

template <vm::Binary f>
void Arithmetic(ShapeContext& c) {
  CheckSameType(c, 0, 1);
  const BoundedShape shape = BinaryShape(c, c.dtype(0));
  BinaryValues(c, c.dtype(0), shape, f);
}

void ArithmeticOnly(ShapeContext& c) {
  CheckSameType(c, 0, 1);
  BinaryShape(c, c.dtype(0));
}

// The exponent may have a type of its own.
void Pow(ShapeContext& c) {
  BinaryShape(c, c.dtype(0));
}

template <vm::Binary f>
void Compare(ShapeContext& c) {
  CheckSameType(c, 0, 1);
  const BoundedShape shape = BinaryShape(c, DType::kBool);
  BinaryValues(c, DType::kBool, shape, f);
}

template <vm::Binary f>
void Logic(ShapeContext& c) {
  for (int i = 0; i < 2; ++i)
    if (c.dtype(i) != DType::kBool && c.dtype(i) != DType::kUndefined)
      c.Fail("input ", i, " has type ", NameOf(c.dtype(i)), ", expected bool");
  const BoundedShape shape = BinaryShape(c, DType::kBool);
  BinaryValues(c, DType::kBool, shape, f);
}

// The slope is stretched to the data, never the other way. Before version 7 it was one number per channel.
void PRelu(ShapeContext& c) {
  CheckSameType(c, 0, 1);
  const BoundedShape &x = c.shape(0), &slope = c.shape(1);
  if (x.known_rank() && slope.known_rank()) {
    if (SinceOpset(c, 7)) {
      const BoundedShape both = Broadcast(c, x, slope);
      if (both.rank != x.rank)
        c.Fail("a slope of shape ", slope.ToString(), " for data of shape ", x.ToString());
    } else if (slope.rank == 1 && slope[0].lower > 1 && x.rank > 1) {
      CheckEqual(c, slope[0], x[1], "slopes and channels");
    }
  }
  SameAsInput(c);
}

template <bool kValues, vm::Binary f>
void Variadic(ShapeContext& c) {
  BoundedShape shape = c.shape(0);
  for (int i = 1; i < c.input_count(); ++i) {
    if (!c.has(i)) c.Fail("input ", i, " is missing");
    CheckSameType(c, 0, i);
    shape = Broadcast(c, shape, c.shape(i));
  }
  c.Set(0, c.dtype(0), shape);
  const int count = SmallCount(shape);
  if (!kValues || !c.wants_values() || count < 0) return;
  BoundedValues r;
  r.count = count;
  for (int i = 0; i < c.input_count(); ++i) {
    const BoundedValues* v = c.values(i);
    if (v == nullptr) return;
    for (int k = 0; k < count; ++k) {
      const Bound& x = (*v)[vm::BroadcastIndex(c.shape(i), shape, k)];
      r[k] = i == 0 ? x : f(c, c.dtype(0), r[k], x);
    }
  }
  OfferValues(c, 0, c.dtype(0), r);
}

void Clip(ShapeContext& c) {
  SameAsInput(c);
  for (int i = 1; i < c.input_count(); ++i) {
    if (!c.has(i)) continue;
    CheckSameType(c, 0, i);
    CheckElements(c, i, 1);
  }
  const BoundedValues* v = c.wants_values() && SinceOpset(c, 11) ? c.values(0) : nullptr;
  if (v == nullptr || IsFloating(c.dtype(0))) return;
  BoundedValues r = *v;
  for (int i = 0; i < r.count; ++i) {
    if (c.has(1)) r[i] = c.math().Max(r[i], ScalarValue(c, 1));
    if (c.has(2)) r[i] = c.math().Min(r[i], ScalarValue(c, 2));
  }
  OfferValues(c, 0, c.dtype(0), r);
}

void Where(ShapeContext& c) {
  if (c.dtype(0) != DType::kBool && c.dtype(0) != DType::kUndefined)
    c.Fail("the condition has type ", NameOf(c.dtype(0)), ", expected bool");
  CheckSameType(c, 1, 2);
  const BoundedShape shape = Broadcast(c, Broadcast(c, c.shape(1), c.shape(2)), c.shape(0));
  c.Set(0, c.dtype(1), shape);
  if (!c.wants_values()) return;
  const BoundedValues *cond = c.values(0), *a = c.values(1), *b = c.values(2);
  const int count = SmallCount(shape);
  if (a == nullptr || b == nullptr || count < 0) return;
  BoundedValues r;
  r.count = count;
  for (int i = 0; i < count; ++i)
    r[i] = vm::Choose(c, cond ? (*cond)[vm::BroadcastIndex(c.shape(0), shape, i)] : Bound::Between(0, 1),
                      (*a)[vm::BroadcastIndex(c.shape(1), shape, i)],
                      (*b)[vm::BroadcastIndex(c.shape(2), shape, i)]);
  OfferValues(c, 0, c.dtype(1), r);
}

void CastTo(ShapeContext& c, DType to) {
  c.Set(0, to, c.shape(0));
  const BoundedValues* v = c.wants_values() ? c.values(0) : nullptr;
  if (v == nullptr) return;
  BoundedValues r = *v;
  if (to == DType::kBool)
    for (int i = 0; i < r.count; ++i) {
      const bool nonzero = r[i].lower > 0 || r[i].upper < 0;
      r[i] = nonzero ? Bound::Exactly(1) : r[i].exact() ? Bound::Exactly(0) : Bound::Between(0, 1);
    }
  OfferValues(c, 0, to, r);
}

void Cast(ShapeContext& c) {
  const DType to = DTypeFromOnnx(static_cast<int32_t>(c.node().RequiredInt("to")));
  if (to == DType::kUndefined) c.Fail("attribute to names no type: ", c.node().RequiredInt("to"));
  CastTo(c, to);
}

void CastLike(ShapeContext& c) {
  CastTo(c, c.dtype(1));
}

void BitCast(ShapeContext& c) {
  const DType to = DTypeFromOnnx(static_cast<int32_t>(c.node().RequiredInt("to")));
  if (to == DType::kUndefined || BitsOf(to) != BitsOf(c.dtype(0)))
    c.Fail("the types ", NameOf(c.dtype(0)), " and ", NameOf(to), " have different sizes");
  c.Set(0, to, c.shape(0));
}

void Dropout(ShapeContext& c) {
  SameAsInput(c);
  if (SinceOpset(c, 12) && c.has(2)) {
    const Bound training = ScalarValue(c, 2);
    if (!training.exact() || training.lower != 0) c.Unsupported("training mode");
  }
  if (c.wants(1)) c.Set(1, SinceOpset(c, 10) ? DType::kBool : c.dtype(0), c.shape(0));
}

// com.microsoft activations with an optional bias along the last axis.
void BiasedActivation(ShapeContext& c) {
  SameAsInput(c);
  if (!c.has(1) || !c.shape(0).known_rank()) return;
  CheckSameType(c, 0, 1);
  CheckRank(c, 1, 1);
  if (c.shape(0).rank == 0) c.Fail("a bias for a scalar");
  if (c.shape(1).known_rank()) CheckEqual(c, c.shape(1)[0], c.shape(0).at(-1), "bias and last dimension");
}

}  // namespace

void RegisterElementwise(Registry& ops) {
  const auto unary = [&](std::string_view name, int since, ShapeRule rule) {
    ops.push_back({.name = name, .since = since, .rule = rule, .in_place = Bits(0)});
  };
  for (std::string_view name :
       {"Exp", "Log", "Sigmoid", "Tanh", "Sqrt", "Reciprocal", "Elu", "LeakyRelu", "Selu", "HardSigmoid",
        "Softplus", "Softsign", "Affine", "ParametricSoftplus", "ScaledTanh"})
    unary(name, 1, UnaryFloat);
  for (std::string_view name : {"Acos", "Asin", "Atan", "Cos", "Sin", "Tan"}) unary(name, 7, UnaryFloat);
  for (std::string_view name : {"Acosh", "Asinh", "Atanh", "Cosh", "Sinh", "Erf", "Shrink"})
    unary(name, 9, UnaryFloat);
  unary("ThresholdedRelu", 1, UnaryFloat);
  unary("Celu", 12, UnaryFloat);
  unary("HardSwish", 14, UnaryFloat);
  unary("Mish", 18, UnaryFloat);
  unary("BitwiseNot", 18, UnaryFloat);
  unary("Gelu", 20, UnaryFloat);
  unary("Swish", 24, UnaryFloat);
  unary("Abs", 1, UnaryValue<vm::Abs>);
  unary("Neg", 1, UnaryValue<vm::Neg>);
  unary("Relu", 1, UnaryValue<vm::Relu>);
  unary("Sign", 9, UnaryValue<vm::Sign>);
  unary("Not", 1, UnaryValue<vm::Not>);
  unary("Ceil", 1, UnaryValue<vm::Same>);
  unary("Floor", 1, UnaryValue<vm::Same>);
  unary("Round", 11, UnaryValue<vm::Same>);
  ops.push_back({.name = "SwiGLU",
                 .since = 28,
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .rule = ArithmeticOnly,
                 .in_place = Bits(0, 1)});
  ops.push_back({.name = "IsNaN", .since = 9, .rule = Predicate});
  ops.push_back({.name = "IsInf", .since = 10, .rule = Predicate});

  const auto binary = [&](std::string_view name, int since, ShapeRule rule, uint32_t in_place = Bits(0, 1)) {
    ops.push_back(
        {.name = name, .since = since, .min_inputs = 2, .max_inputs = 2, .rule = rule, .in_place = in_place});
  };
  binary("Add", 1, Arithmetic<vm::Add>);
  binary("Sub", 1, Arithmetic<vm::Sub>);
  binary("Mul", 1, Arithmetic<vm::Mul>);
  binary("Div", 1, Arithmetic<vm::Div>);
  binary("Mod", 10, Arithmetic<vm::Mod>);
  binary("Pow", 1, Pow, Bits(0));
  binary("PRelu", 1, PRelu, Bits(0));
  binary("BitShift", 11, ArithmeticOnly);
  binary("BitwiseAnd", 18, ArithmeticOnly);
  binary("BitwiseOr", 18, ArithmeticOnly);
  binary("BitwiseXor", 18, ArithmeticOnly);
  binary("Equal", 1, Compare<vm::Equal>, 0);
  binary("Less", 1, Compare<vm::Less>, 0);
  binary("Greater", 1, Compare<vm::Greater>, 0);
  binary("LessOrEqual", 12, Compare<vm::LessOrEqual>, 0);
  binary("GreaterOrEqual", 12, Compare<vm::GreaterOrEqual>, 0);
  binary("And", 1, Logic<vm::And>);
  binary("Or", 1, Logic<vm::Or>);
  binary("Xor", 1, Logic<vm::Xor>);

  const auto variadic = [&](std::string_view name, ShapeRule rule) {
    ops.push_back(
        {.name = name, .since = 1, .min_inputs = 1, .max_inputs = -1, .rule = rule, .in_place = Bits(0)});
  };
  variadic("Max", Variadic<true, vm::Max>);
  variadic("Min", Variadic<true, vm::Min>);
  variadic("Sum", Variadic<true, vm::Add>);
  variadic("Mean", Variadic<false, vm::Add>);

  ops.push_back({.name = "Clip", .since = 1, .max_inputs = 1, .rule = Clip, .in_place = Bits(0)});
  ops.push_back({.name = "Clip", .since = 11, .max_inputs = 3, .rule = Clip, .in_place = Bits(0)});
  ops.push_back(
      {.name = "Where", .since = 9, .min_inputs = 3, .max_inputs = 3, .rule = Where, .in_place = Bits(1, 2)});
  ops.push_back({.name = "Cast", .since = 6, .rule = Cast, .in_place = Bits(0)});
  ops.push_back({.name = "CastLike", .since = 15, .min_inputs = 2, .max_inputs = 2, .rule = CastLike});
  ops.push_back({.name = "BitCast", .since = 26, .rule = BitCast, .view_of = 0});
  ops.push_back({.name = "Identity", .since = 1, .rule = PassThrough, .view_of = 0});
  ops.push_back({.name = "Dropout", .since = 1, .max_outputs = 2, .rule = Dropout, .view_of = 0});
  ops.push_back(
      {.name = "Dropout", .since = 12, .max_inputs = 3, .max_outputs = 2, .rule = Dropout, .view_of = 0});

  const std::string_view ms = graph::kMsDomain;
  ops.push_back({.domain = ms, .name = "Gelu", .rule = UnaryFloat, .in_place = Bits(0)});
  ops.push_back({.domain = ms, .name = "QuickGelu", .rule = UnaryFloat, .in_place = Bits(0)});
  ops.push_back(
      {.domain = ms, .name = "FastGelu", .max_inputs = 2, .rule = BiasedActivation, .in_place = Bits(0)});
  ops.push_back({.domain = ms,
                 .name = "BiasGelu",
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .rule = BiasedActivation,
                 .in_place = Bits(0)});
}

}  // namespace ullage::ops
