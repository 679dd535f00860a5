// Methods and attributes of everything that is not a string, a macro or a loop.
#include <cmath>

#include "llm/template/format.h"
#include "llm/template/interpreter.h"

namespace ullage::llm::jinja {
namespace {

Value View(Runtime& rt, const Value& self, DictViewObject::Part part, const char* name, Args& args) {
  NoArguments(name, args);
  auto view = rt.New<DictViewObject>(0);
  view->part = part;
  view->dict = self.share<DictObject>();
  return Value(Kind::kDictView, std::move(view));
}

Value Keys(Runtime& rt, const Value& self, Args& args) {
  return View(rt, self, DictViewObject::kKeys, "keys", args);
}
Value Values(Runtime& rt, const Value& self, Args& args) {
  return View(rt, self, DictViewObject::kValues, "values", args);
}
Value ItemsMethod(Runtime& rt, const Value& self, Args& args) {
  return View(rt, self, DictViewObject::kItems, "items", args);
}

Value Get(Runtime& rt, const Value& self, Args& args) {
  const Params p(rt, "get", args, {"key", "default", "/"}, 1);
  const Value* v = Find(rt, self.as<DictObject>(), p[0]);
  if (v != nullptr) return *v;
  return p[1].missing() ? Value::None() : p[1];
}

/// Copies of values that never change are the values themselves.
Value Copy(Runtime&, const Value& self, Args& args) {
  NoArguments("copy", args);
  return self;
}

Value FromKeys(Runtime& rt, const Value&, Args& args) {
  const Params p(rt, "fromkeys", args, {"iterable", "value", "/"}, 1);
  auto dict = rt.Dict();
  const auto it = Iterate(rt, p[0]);
  const Value value = p[1].missing() ? Value::None() : p[1];
  for (Value key = it->Next(rt); !key.missing(); key = it->Next(rt)) Set(rt, *dict, key, value);
  return Runtime::DictValue(std::move(dict));
}

Value CountMethod(Runtime& rt, const Value& self, Args& args) {
  const Params p(rt, "count", args, {"value", "/"}, 1);
  int64_t n = 0;
  const auto it = Iterate(rt, self);
  for (Value v = it->Next(rt); !v.missing(); v = it->Next(rt)) n += Equal(rt, v, p[0]) ? 1 : 0;
  return Value::Int(n);
}

Value IndexMethod(Runtime& rt, const Value& self, Args& args) {
  const Params p(rt, "index", args, {"value", "start", "stop", "/"}, 1);
  const int64_t length = Length(rt, self);
  const auto bound = [&](const Value& v, int64_t otherwise) {
    if (v.missing()) return otherwise;
    const int64_t i = ToIndex(v);
    return i < 0 ? std::max<int64_t>(i + length, 0) : i;
  };
  const int64_t start = bound(p[1], 0), stop = bound(p[2], length);
  const auto it = Iterate(rt, self);
  int64_t i = 0;
  for (Value v = it->Next(rt); !v.missing(); v = it->Next(rt), ++i) {
    if (i >= start && i < stop && Equal(rt, v, p[0])) return Value::Int(i);
  }
  Fail(TypeName(self), ".index(x): x not in ", TypeName(self));
}

Value BitLength(Runtime&, const Value& self, Args& args) {
  NoArguments("bit_length", args);
  const int64_t i = self.integer();
  const uint64_t u = i < 0 ? -static_cast<uint64_t>(i) : static_cast<uint64_t>(i);
  return Value::Int(u == 0 ? 0 : 64 - __builtin_clzll(u));
}

Value IsInteger(Runtime&, const Value& self, Args& args) {
  NoArguments("is_integer", args);
  const double f = self.real();
  return Value::Bool(std::isfinite(f) && f == std::floor(f));
}

Value Next(Runtime&, const Value& self, Args& args) {
  NoArguments("next", args);
  auto& cycler = self.as<CyclerObject>();
  const Value v = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return v;
}

Value Reset(Runtime&, const Value& self, Args& args) {
  NoArguments("reset", args);
  self.as<CyclerObject>().position = 0;
  return Value::None();
}

bool In(std::string_view name, std::initializer_list<std::string_view> names) {
  for (const std::string_view n : names) {
    if (n == name) return true;
  }
  return false;
}

Value NumberAttribute(Runtime& rt, const Value& v, std::string_view name) {
  const bool integral = v.integral();
  const Value plain = integral ? Value::Int(v.integer()) : v;
  if (name == "real") return plain;
  if (name == "imag") return integral ? Value::Int(0) : Value::Float(0);
  if (name == "is_integer" && !integral) return rt.Function("is_integer", IsInteger, v);
  if (integral && name == "numerator") return plain;
  if (integral && name == "denominator") return Value::Int(1);
  if (integral && name == "bit_length") return rt.Function("bit_length", BitLength, plain);
  if (In(name, {"conjugate", "as_integer_ratio"}) ||
      (integral && In(name, {"bit_count", "from_bytes", "to_bytes"})) ||
      (!integral && In(name, {"fromhex", "hex"}))) {
    Unsupported("the method ", TypeName(v), ".", name, " is not supported");
  }
  return Value();
}

}  // namespace

Value ContainerMethod(Runtime& rt, const Value& v, std::string_view name) {
  switch (v.kind()) {
    case Kind::kDict:
      if (name == "items") return rt.Function("items", ItemsMethod, v);
      if (name == "keys") return rt.Function("keys", Keys, v);
      if (name == "values") return rt.Function("values", Values, v);
      if (name == "get") return rt.Function("get", Get, v);
      if (name == "copy") return rt.Function("copy", Copy, v);
      if (name == "fromkeys") return rt.Function("fromkeys", FromKeys, v);
      if (In(name, {"clear", "pop", "popitem", "setdefault", "update"})) return rt.Unsafe(v, name);
      return Value();
    case Kind::kList:
      if (name == "copy") return rt.Function("copy", Copy, v);
      if (In(name, {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"})) {
        return rt.Unsafe(v, name);
      }
      [[fallthrough]];
    case Kind::kTuple:
    case Kind::kRange:
      if (name == "count") return rt.Function("count", CountMethod, v);
      if (name == "index") return rt.Function("index", IndexMethod, v);
      if (v.Is(Kind::kRange)) {
        const auto& r = v.as<RangeObject>();
        if (name == "start") return Value::Int(r.start);
        if (name == "stop") return Value::Int(r.stop);
        if (name == "step") return Value::Int(r.step);
      } else if (v.as<ListObject>().group) {
        if (name == "grouper") return Items(v)[0];
        if (name == "list") return Items(v)[1];
      }
      return Value();
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return NumberAttribute(rt, v, name);
    case Kind::kDictView:
      if (In(name, {"mapping", "isdisjoint"}))
        Unsupported("the attribute ", TypeName(v), ".", name, " is not supported");
      return Value();
    case Kind::kCycler:
      if (name == "next") return rt.Function("next", Next, v);
      if (name == "reset") return rt.Function("reset", Reset, v);
      if (name == "current") return v.as<CyclerObject>().items[v.as<CyclerObject>().position];
      if (name == "items") return rt.Tuple(v.as<CyclerObject>().items);
      if (name == "pos") return Value::Int(static_cast<int64_t>(v.as<CyclerObject>().position));
      return Value();
    case Kind::kFunction: {
      const auto& f = v.as<FunctionObject>();
      if (std::string_view(f.name) == "dict" && name == "fromkeys") return rt.Function("fromkeys", FromKeys);
      return Value();
    }
    case Kind::kIterator:
      if (In(name, {"close", "send", "throw", "gi_running", "gi_suspended", "gi_yieldfrom"})) {
        Unsupported("the attribute generator.", name, " is not supported");
      }
      return Value();
    default:
      return Value();
  }
}

}  // namespace ullage::llm::jinja
