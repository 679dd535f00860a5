// The tests of jinja2 (`x is even`).
#include "llm/template/filters.h"

namespace ullage::llm::jinja {
namespace {

Value Is(bool b) {
  return Value::Bool(b);
}

/// The remainder of a division, compared with an expected one.
bool Remainder(Runtime& rt, const Value& v, const Value& divisor, int64_t expected) {
  return Equal(rt, Arithmetic(rt, BinaryOp::kMod, v, divisor), Value::Int(expected));
}

Value Odd(Runtime& rt, const Value& v, Args& args) {
  NoArguments("odd", args);
  return Is(Remainder(rt, v, Value::Int(2), 1));
}
Value Even(Runtime& rt, const Value& v, Args& args) {
  NoArguments("even", args);
  return Is(Remainder(rt, v, Value::Int(2), 0));
}
Value DivisibleBy(Runtime& rt, const Value& v, Args& args) {
  const Params p(rt, "divisibleby", args, {"num"}, 1);
  return Is(Remainder(rt, v, p[0], 0));
}

template <bool (*kTest)(const Value&)>
Value Plain(Runtime&, const Value& v, Args& args) {
  NoArguments("test", args);
  return Is(kTest(v));
}

bool IsDefined(const Value& v) {
  return !v.undefined();
}
bool IsUndefined(const Value& v) {
  return v.undefined();
}
bool IsNone(const Value& v) {
  return v.none();
}
bool IsBoolean(const Value& v) {
  return v.Is(Kind::kBool);
}
bool IsTrue(const Value& v) {
  return v.Is(Kind::kBool) && v.integer() != 0;
}
bool IsFalse(const Value& v) {
  return v.Is(Kind::kBool) && v.integer() == 0;
}
bool IsInteger(const Value& v) {
  return v.Is(Kind::kInt);
}
bool IsFloat(const Value& v) {
  return v.Is(Kind::kFloat);
}
bool IsNumber(const Value& v) {
  return v.number();
}
bool IsString(const Value& v) {
  return v.string();
}
bool IsMapping(const Value& v) {
  return v.Is(Kind::kDict);
}
bool IsSequence(const Value& v) {
  return v.string() || v.Is(Kind::kList) || v.Is(Kind::kTuple) || v.Is(Kind::kDict) || v.Is(Kind::kRange) ||
         v.undefined();
}
bool IsCallable(const Value& v) {
  return v.Is(Kind::kMacro) || v.Is(Kind::kFunction) || v.Is(Kind::kLoop) || v.undefined();
}
bool IsEscaped(const Value& v) {
  return v.string() && v.as<StringObject>().safe;
}

Value IsLowerTest(Runtime& rt, const Value& v, Args& args) {
  NoArguments("lower", args);
  return Is(IsLowerText(ToStr(rt, v)));
}
Value IsUpperTest(Runtime& rt, const Value& v, Args& args) {
  NoArguments("upper", args);
  return Is(IsUpperText(ToStr(rt, v)));
}
Value SameAs(Runtime& rt, const Value& v, Args& args) {
  const Params p(rt, "sameas", args, {"other"}, 1);
  return Is(Same(v, p[0]));
}
Value In(Runtime& rt, const Value& v, Args& args) {
  const Params p(rt, "in", args, {"seq"}, 1);
  return Is(Contains(rt, p[0], v));
}
Value FilterTest(Runtime& rt, const Value& v, Args& args) {
  NoArguments("filter", args);
  Hash(rt, v);
  return Is(v.string() && FindFilter(Text(v)) != nullptr);
}
Value TestTest(Runtime& rt, const Value& v, Args& args) {
  NoArguments("test", args);
  Hash(rt, v);
  return Is(v.string() && FindTest(Text(v)) != nullptr);
}

const Value& Other(const char* name, const Args& args) {
  if (!args.named.empty()) Fail(name, "() takes no keyword arguments");
  if (args.positional.size() != 1) Fail(name, " expected 2 arguments, got ", args.positional.size() + 1);
  return args.positional[0];
}

Value Eq(Runtime& rt, const Value& v, Args& args) {
  return Is(Equal(rt, v, Other("eq", args)));
}
Value Ne(Runtime& rt, const Value& v, Args& args) {
  return Is(!Equal(rt, v, Other("ne", args)));
}

template <Order kOrder>
Value Ordered(Runtime& rt, const Value& v, Args& args) {
  return Is(Compare(rt, kOrder, v, Other("comparison", args)));
}

constexpr NamedCode kTests[] = {
    {"odd", Odd},
    {"even", Even},
    {"divisibleby", DivisibleBy},
    {"defined", Plain<IsDefined>},
    {"undefined", Plain<IsUndefined>},
    {"filter", FilterTest},
    {"test", TestTest},
    {"none", Plain<IsNone>},
    {"boolean", Plain<IsBoolean>},
    {"false", Plain<IsFalse>},
    {"true", Plain<IsTrue>},
    {"integer", Plain<IsInteger>},
    {"float", Plain<IsFloat>},
    {"lower", IsLowerTest},
    {"upper", IsUpperTest},
    {"string", Plain<IsString>},
    {"mapping", Plain<IsMapping>},
    {"number", Plain<IsNumber>},
    {"sequence", Plain<IsSequence>},
    {"iterable", Plain<Iterable>},
    {"callable", Plain<IsCallable>},
    {"sameas", SameAs},
    {"escaped", Plain<IsEscaped>},
    {"in", In},
    {"==", Eq},
    {"eq", Eq},
    {"equalto", Eq},
    {"!=", Ne},
    {"ne", Ne},
    {">", Ordered<Order::kGreater>},
    {"gt", Ordered<Order::kGreater>},
    {"greaterthan", Ordered<Order::kGreater>},
    {"ge", Ordered<Order::kGreaterEqual>},
    {">=", Ordered<Order::kGreaterEqual>},
    {"<", Ordered<Order::kLess>},
    {"lt", Ordered<Order::kLess>},
    {"lessthan", Ordered<Order::kLess>},
    {"<=", Ordered<Order::kLessEqual>},
    {"le", Ordered<Order::kLessEqual>},
};

}  // namespace

FunctionObject::Code FindTest(std::string_view name) {
  return Lookup(kTests, name);
}

}  // namespace ullage::llm::jinja
