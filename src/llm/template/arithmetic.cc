#include <cmath>

#include "llm/template/runtime.h"
#include "llm/template/text.h"

namespace ullage::llm::jinja {
namespace {

const char* Symbol(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return "+";
    case BinaryOp::kSub:
      return "-";
    case BinaryOp::kMul:
      return "*";
    case BinaryOp::kDiv:
      return "/";
    case BinaryOp::kFloorDiv:
      return "//";
    case BinaryOp::kMod:
      return "%";
    default:
      return "** or pow()";
  }
}

[[noreturn]] void FailTypes(BinaryOp op, const Value& a, const Value& b) {
  Fail("unsupported operand type(s) for ", Symbol(op), ": '", TypeName(a), "' and '", TypeName(b), "'");
}

[[noreturn]] void Overflow(BinaryOp op, int64_t a, int64_t b) {
  Unsupported("the result of ", a, " ", op == BinaryOp::kPow ? "**" : Symbol(op), " ", b,
              " does not fit into 64 bits");
}

Value PowInt(int64_t base, int64_t exponent) {
  int64_t result = 1;
  int64_t square = base;
  for (int64_t e = exponent;;) {
    if ((e & 1) != 0 && __builtin_mul_overflow(result, square, &result))
      Overflow(BinaryOp::kPow, base, exponent);
    e >>= 1;
    if (e == 0) return Value::Int(result);
    if (__builtin_mul_overflow(square, square, &square)) Overflow(BinaryOp::kPow, base, exponent);
  }
}

Value PowFloat(double a, double b) {
  if (a == 0 && b < 0) Fail("0.0 cannot be raised to a negative power");
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) {
    Unsupported("complex numbers are not supported: ", FloatRepr(a), " ** ", FloatRepr(b));
  }
  const double r = std::pow(a, b);
  if (std::isinf(r) && std::isfinite(a) && std::isfinite(b)) Fail("the result of ** is too large");
  return Value::Float(r);
}

double ModFloat(double a, double b) {
  double m = std::fmod(a, b);
  if (m != 0) {
    if ((b < 0) != (m < 0)) m += b;
  } else {
    m = std::copysign(0.0, b);
  }
  return m;
}

double FloorDivFloat(double a, double b) {
  double m = std::fmod(a, b);
  double div = (a - m) / b;
  if (m != 0 && (b < 0) != (m < 0)) div -= 1.0;
  if (div == 0) return std::copysign(0.0, a / b);
  const double f = std::floor(div);
  return div - f > 0.5 ? f + 1.0 : f;
}

Value IntArithmetic(BinaryOp op, int64_t a, int64_t b) {
  int64_t r = 0;
  switch (op) {
    case BinaryOp::kAdd:
      if (__builtin_add_overflow(a, b, &r)) Overflow(op, a, b);
      return Value::Int(r);
    case BinaryOp::kSub:
      if (__builtin_sub_overflow(a, b, &r)) Overflow(op, a, b);
      return Value::Int(r);
    case BinaryOp::kMul:
      if (__builtin_mul_overflow(a, b, &r)) Overflow(op, a, b);
      return Value::Int(r);
    case BinaryOp::kDiv:
      if (b == 0) Fail("division by zero");
      return Value::Float(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
    case BinaryOp::kFloorDiv:
    case BinaryOp::kMod: {
      if (b == 0) Fail("integer division or modulo by zero");
      if (b == -1) {
        if (op == BinaryOp::kMod) return Value::Int(0);
        if (__builtin_sub_overflow(int64_t{0}, a, &r)) Overflow(op, a, b);
        return Value::Int(r);
      }
      int64_t quotient = a / b;
      int64_t remainder = a % b;
      if (remainder != 0 && (remainder < 0) != (b < 0)) {
        --quotient;
        remainder += b;
      }
      return Value::Int(op == BinaryOp::kMod ? remainder : quotient);
    }
    default:
      if (b >= 0) return PowInt(a, b);
      if (a == 0) Fail("0.0 cannot be raised to a negative power");
      return PowFloat(static_cast<double>(a), static_cast<double>(b));
  }
}

Value FloatArithmetic(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd:
      return Value::Float(a + b);
    case BinaryOp::kSub:
      return Value::Float(a - b);
    case BinaryOp::kMul:
      return Value::Float(a * b);
    case BinaryOp::kDiv:
      if (b == 0) Fail("float division by zero");
      return Value::Float(a / b);
    case BinaryOp::kFloorDiv:
      if (b == 0) Fail("float floor division by zero");
      return Value::Float(FloorDivFloat(a, b));
    case BinaryOp::kMod:
      if (b == 0) Fail("float modulo by zero");
      return Value::Float(ModFloat(a, b));
    default:
      return PowFloat(a, b);
  }
}

Value AddStrings(Runtime& rt, const Value& a, const Value& b) {
  const bool safe_a = a.as<StringObject>().safe, safe_b = b.as<StringObject>().safe;
  rt.budget.Foresee(Text(a).size() + Text(b).size());
  rt.budget.Step((Text(a).size() + Text(b).size()) / 64);
  if (safe_a && !safe_b) return rt.Str(Text(a) + EscapeHtml(Text(b)), true);
  if (safe_b && !safe_a) return rt.Str(EscapeHtml(Text(a)) + Text(b), true);
  return rt.Str(Text(a) + Text(b), safe_a);
}

Value AddSequences(Runtime& rt, const Value& a, const Value& b) {
  std::vector<Value> items;
  rt.budget.Foresee((Items(a).size() + Items(b).size()) * sizeof(Value));
  rt.budget.Step(Items(a).size() + Items(b).size());
  items.reserve(Items(a).size() + Items(b).size());
  items.insert(items.end(), Items(a).begin(), Items(a).end());
  items.insert(items.end(), Items(b).begin(), Items(b).end());
  return a.Is(Kind::kList) ? rt.List(std::move(items)) : rt.Tuple(std::move(items));
}

Value Repeat(Runtime& rt, const Value& v, int64_t n) {
  const size_t count = n < 0 ? 0 : static_cast<size_t>(n);
  const size_t unit = v.string() ? Text(v).size() : Items(v).size() * sizeof(Value);
  size_t total = 0;
  if (__builtin_mul_overflow(unit, count, &total)) total = SIZE_MAX;
  rt.budget.Foresee(total);
  rt.budget.Step(total / 16);
  if (unit == 0) return v;
  if (v.string()) {
    std::string out;
    out.reserve(total);
    for (size_t i = 0; i < count; ++i) out += Text(v);
    return rt.Str(std::move(out), v.as<StringObject>().safe);
  }
  std::vector<Value> items;
  items.reserve(Items(v).size() * count);
  for (size_t i = 0; i < count; ++i) items.insert(items.end(), Items(v).begin(), Items(v).end());
  return v.Is(Kind::kList) ? rt.List(std::move(items)) : rt.Tuple(std::move(items));
}

bool Repeatable(const Value& v) {
  return v.string() || v.Is(Kind::kList) || v.Is(Kind::kTuple);
}

}  // namespace

Value Arithmetic(Runtime& rt, BinaryOp op, const Value& a, const Value& b) {
  if (a.number() && b.number()) {
    if (a.integral() && b.integral()) return IntArithmetic(op, a.integer(), b.integer());
    return FloatArithmetic(op, a.real(), b.real());
  }
  if (op == BinaryOp::kMod && a.string()) return PercentFormat(rt, a, b);
  if (a.undefined()) FailUndefined(a);
  if (b.undefined()) FailUndefined(b);
  if (op == BinaryOp::kAdd && a.kind() == b.kind()) {
    if (a.string()) return AddStrings(rt, a, b);
    if (a.Is(Kind::kList) || a.Is(Kind::kTuple)) return AddSequences(rt, a, b);
  }
  if (op == BinaryOp::kMul) {
    if (Repeatable(a) && b.integral()) return Repeat(rt, a, b.integer());
    if (Repeatable(b) && a.integral()) return Repeat(rt, b, a.integer());
  }
  if (a.Is(Kind::kDictView) && b.Is(Kind::kDictView) && op == BinaryOp::kSub) {
    Unsupported("sets are not supported ('", TypeName(a), "' - '", TypeName(b), "')");
  }
  FailTypes(op, a, b);
}

Value Negative(Runtime&, const Value& v) {
  if (v.integral()) return IntArithmetic(BinaryOp::kSub, 0, v.integer());
  if (v.number()) return Value::Float(-v.real());
  if (v.undefined()) FailUndefined(v);
  Fail("bad operand type for unary -: '", TypeName(v), "'");
}

Value Positive(Runtime&, const Value& v) {
  if (v.integral()) return Value::Int(v.integer());
  if (v.number()) return v;
  if (v.undefined()) FailUndefined(v);
  Fail("bad operand type for unary +: '", TypeName(v), "'");
}

}  // namespace ullage::llm::jinja
