#include "llm/template/interpreter.h"

namespace ullage::llm::jinja {

Value Interpreter::Eval(const Expr& e, const ActivationPtr& a) {
  rt_.CheckStack();
  rt_.budget.Step();
  switch (e.kind) {
    case ExprKind::kConst:
      return static_cast<const ConstExpr&>(e).value;
    case ExprKind::kTemplateData:
      return rt_.Str(static_cast<const DataExpr&>(e).text);
    case ExprKind::kName:
      return EvalName(static_cast<const NameExpr&>(e), *a);
    case ExprKind::kNsRef:
      Fail("a namespace attribute can only be assigned here");
    case ExprKind::kTuple:
    case ExprKind::kList:
      return EvalSequence(static_cast<const ListExpr&>(e), a);
    case ExprKind::kConcat:
      return EvalConcat(static_cast<const ListExpr&>(e), a);
    case ExprKind::kDict:
      return EvalDict(static_cast<const DictExpr&>(e), a);
    case ExprKind::kUnary:
    case ExprKind::kNot:
      return EvalUnary(static_cast<const UnaryExpr&>(e), a);
    case ExprKind::kBinary:
    case ExprKind::kAnd:
    case ExprKind::kOr:
      return EvalBinary(static_cast<const BinaryExpr&>(e), a);
    case ExprKind::kCompare:
      return EvalCompare(static_cast<const CompareExpr&>(e), a);
    case ExprKind::kCond:
      return EvalCond(static_cast<const CondExpr&>(e), a);
    case ExprKind::kGetattr: {
      const auto& g = static_cast<const GetattrExpr&>(e);
      const Value object = Eval(*g.object, a);
      rt_.line = e.line;
      return GetAttribute(rt_, object, g.attribute);
    }
    case ExprKind::kGetitem:
      return EvalGetitem(static_cast<const GetitemExpr&>(e), a);
    case ExprKind::kSlice:
      Fail("a slice can only be used as a subscript");
    case ExprKind::kCall:
      return EvalCall(static_cast<const CallExpr&>(e), a, nullptr);
    case ExprKind::kFilter:
    case ExprKind::kTest:
      return EvalFilter(static_cast<const FilterExpr&>(e), a);
  }
  return Value();
}

Value Interpreter::EvalName(const NameExpr& e, Activation& a) {
  const Value& v = Slot(a, e.ref);
  if (!v.missing()) return v;
  // A closure that outlived the loop whose variable it reads; jinja2 prints an internal marker then.
  if (e.parameter && e.ref.hops > 0)
    Unsupported("the variable '", e.name, "' is used after the block that defines it");
  return rt_.Undefined(StringRepr(e.name) + " is undefined");
}

Value Interpreter::EvalUnary(const UnaryExpr& e, const ActivationPtr& a) {
  const Value operand = Eval(*e.operand, a);
  if (e.kind == ExprKind::kNot) return Value::Bool(!Truthy(rt_, operand));
  return e.negative ? Negative(rt_, operand) : Positive(rt_, operand);
}

Value Interpreter::EvalBinary(const BinaryExpr& e, const ActivationPtr& a) {
  Value left = Eval(*e.left, a);
  if (e.kind == ExprKind::kAnd) return Truthy(rt_, left) ? Eval(*e.right, a) : left;
  if (e.kind == ExprKind::kOr) return Truthy(rt_, left) ? left : Eval(*e.right, a);
  const Value right = Eval(*e.right, a);
  rt_.line = e.line;
  return Arithmetic(rt_, e.op, left, right);
}

Value Interpreter::EvalCompare(const CompareExpr& e, const ActivationPtr& a) {
  Value left = Eval(*e.first, a);
  for (const auto& [op, expr] : e.rest) {
    Value right = Eval(*expr, a);
    bool holds = false;
    switch (op) {
      case CompareOp::kEq:
        holds = Equal(rt_, left, right);
        break;
      case CompareOp::kNe:
        holds = !Equal(rt_, left, right);
        break;
      case CompareOp::kLt:
        holds = Compare(rt_, Order::kLess, left, right);
        break;
      case CompareOp::kLe:
        holds = Compare(rt_, Order::kLessEqual, left, right);
        break;
      case CompareOp::kGt:
        holds = Compare(rt_, Order::kGreater, left, right);
        break;
      case CompareOp::kGe:
        holds = Compare(rt_, Order::kGreaterEqual, left, right);
        break;
      case CompareOp::kIn:
        holds = Contains(rt_, right, left);
        break;
      case CompareOp::kNotIn:
        holds = !Contains(rt_, right, left);
        break;
    }
    if (!holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Value Interpreter::EvalConcat(const ListExpr& e, const ActivationPtr& a) {
  std::vector<Value> items;
  items.reserve(e.items.size());
  for (const ExprPtr& item : e.items) items.push_back(Eval(*item, a));
  Buffer out(rt_.budget);
  for (const Value& v : items) AppendStr(rt_, out, v);
  return rt_.Str(out.Release());
}

Value Interpreter::EvalSequence(const ListExpr& e, const ActivationPtr& a) {
  std::vector<Value> items;
  items.reserve(e.items.size());
  for (const ExprPtr& item : e.items) items.push_back(Eval(*item, a));
  return e.kind == ExprKind::kTuple ? rt_.Tuple(std::move(items)) : rt_.List(std::move(items));
}

Value Interpreter::EvalDict(const DictExpr& e, const ActivationPtr& a) {
  auto dict = rt_.Dict();
  for (const auto& [key, value] : e.items) {
    const Value k = Eval(*key, a);
    Set(rt_, *dict, k, Eval(*value, a));
  }
  return Runtime::DictValue(std::move(dict));
}

Value Interpreter::EvalCond(const CondExpr& e, const ActivationPtr& a) {
  if (Truthy(rt_, Eval(*e.test, a))) return Eval(*e.yes, a);
  if (e.no != nullptr) return Eval(*e.no, a);
  return rt_.Undefined(StrCat("the inline if-expression on line ", e.line,
                              " evaluated to false and no else section was defined."));
}

Value Interpreter::EvalGetitem(const GetitemExpr& e, const ActivationPtr& a) {
  const Value object = Eval(*e.object, a);
  if (e.key->kind != ExprKind::kSlice) {
    const Value key = Eval(*e.key, a);
    rt_.line = e.line;
    return GetItem(rt_, object, key);
  }
  const auto& s = static_cast<const SliceExpr&>(*e.key);
  const auto bound = [&](const ExprPtr& b) { return b == nullptr ? Value::None() : Eval(*b, a); };
  const Value start = bound(s.start), stop = bound(s.stop), step = bound(s.step);
  rt_.line = e.line;
  return GetSlice(rt_, object, start, stop, step);
}

Args Interpreter::EvalArgs(const CallArgs& args, const ActivationPtr& a) {
  Args out;
  out.positional.reserve(args.positional.size());
  for (const ExprPtr& e : args.positional) out.positional.push_back(Eval(*e, a));
  for (const auto& [name, e] : args.named) out.named.emplace_back(name, Eval(*e, a));
  if (args.star != nullptr) {
    for (Value& v : ToVector(rt_, Eval(*args.star, a))) out.positional.push_back(std::move(v));
  }
  if (args.double_star != nullptr) {
    const Value more = Eval(*args.double_star, a);
    if (more.undefined()) FailUndefined(more);
    if (!more.Is(Kind::kDict)) Fail("argument after ** must be a mapping, not ", TypeName(more));
    const auto& items = more.as<DictObject>().items;
    if (items.size() > 10000) Fail("more than 10000 keyword arguments");
    for (const auto& [key, value] : items) {
      if (!key.string()) Fail("keywords must be strings");
      for (const auto& other : args.named) {
        if (other.first == Text(key))
          Fail("got multiple values for keyword argument ", StringRepr(Text(key)));
      }
      out.named.emplace_back(Text(key), value);
    }
  }
  return out;
}

Value Interpreter::EvalCall(const CallExpr& e, const ActivationPtr& a, const Value* caller) {
  const Value callee = Eval(*e.callee, a);
  Args args = EvalArgs(e.args, a);
  if (caller != nullptr) {
    for (const auto& other : args.named) {
      if (other.first == "caller") Fail("got multiple values for keyword argument 'caller'");
    }
    args.named.emplace_back("caller", *caller);
  }
  rt_.line = e.line;
  return rt_.Call(callee, std::move(args));
}

Value Interpreter::EvalFilter(const FilterExpr& e, const ActivationPtr& a) {
  const Value input = e.input == nullptr ? *block_text_ : Eval(*e.input, a);
  Args args = EvalArgs(e.args, a);
  rt_.line = e.line;
  if (e.code == nullptr) {
    Fail("No ", e.kind == ExprKind::kFilter ? "filter" : "test", " named ", StringRepr(e.name), " found.");
  }
  return e.code(rt_, input, args);
}

}  // namespace ullage::llm::jinja
