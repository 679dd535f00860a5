#include <cmath>
#include <functional>

#include "llm/template/runtime.h"
#include "llm/template/text.h"

namespace ullage::llm::jinja {
namespace {

/// -1, 0, 1; 2 when one of them is NaN.
int CompareNumbers(const Value& a, const Value& b) {
  if (a.integral() && b.integral()) return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
  // A long double holds every int64 and every double.
  const auto wide = [](const Value& v) {
    return v.integral() ? static_cast<long double>(v.integer()) : static_cast<long double>(v.real());
  };
  const long double x = wide(a), y = wide(b);
  return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

bool Holds(Order op, int order) {
  switch (op) {
    case Order::kLess:
      return order == -1;
    case Order::kLessEqual:
      return order == -1 || order == 0;
    case Order::kGreater:
      return order == 1;
    default:
      return order == 1 || order == 0;
  }
}

const char* OrderName(Order op) {
  switch (op) {
    case Order::kLess:
      return "<";
    case Order::kLessEqual:
      return "<=";
    case Order::kGreater:
      return ">";
    default:
      return ">=";
  }
}

bool EqualDicts(Runtime& rt, const DictObject& a, const DictObject& b) {
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    const Value* other = Find(rt, b, key);
    if (other == nullptr || !Equal(rt, value, *other)) return false;
  }
  return true;
}

bool EqualViews(Runtime& rt, const Value& a, const Value& b) {
  const auto& x = a.as<DictViewObject>();
  const auto& y = b.as<DictViewObject>();
  if (x.part == DictViewObject::kValues || y.part == DictViewObject::kValues) return false;
  if (x.dict->items.size() != y.dict->items.size()) return false;
  if (x.part != y.part) return x.dict->items.empty();
  for (const auto& [key, value] : x.dict->items) {
    const Value* other = Find(rt, *y.dict, key);
    if (other == nullptr) return false;
    if (x.part == DictViewObject::kItems && !Equal(rt, value, *other)) return false;
  }
  return true;
}

constexpr size_t kIndexFrom = 12;

size_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return static_cast<size_t>(x ^ (x >> 31));
}

const Value* FindHashed(Runtime& rt, const DictObject& dict, const Value& key, size_t hash) {
  const auto [first, last] = dict.index.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const auto& item = dict.items[it->second];
    if (Equal(rt, item.first, key)) return &item.second;
  }
  return nullptr;
}

}  // namespace

bool Equal(Runtime& rt, const Value& a, const Value& b) {
  if (a.number() && b.number()) return CompareNumbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  rt.budget.Step();
  switch (a.kind()) {
    case Kind::kNone:
    case Kind::kMissing:
    case Kind::kUndefined:
      return true;
    case Kind::kString:
      if (Text(a).size() != Text(b).size()) return false;
      rt.budget.Step(Text(a).size() / 64);
      return Text(a) == Text(b);
    case Kind::kList:
    case Kind::kTuple: {
      const auto& x = Items(a);
      const auto& y = Items(b);
      if (x.size() != y.size()) return false;
      if (a.object() == b.object()) return true;
      rt.CheckStack();
      for (size_t i = 0; i < x.size(); ++i) {
        if (!Equal(rt, x[i], y[i])) return false;
      }
      return true;
    }
    case Kind::kDict:
      if (a.object() == b.object()) return true;
      rt.CheckStack();
      return EqualDicts(rt, a.as<DictObject>(), b.as<DictObject>());
    case Kind::kDictView:
      if (a.object() == b.object()) return true;
      rt.CheckStack();
      return EqualViews(rt, a, b);
    case Kind::kRange: {
      const auto& x = a.as<RangeObject>();
      const auto& y = b.as<RangeObject>();
      if (x.length != y.length) return false;
      return x.length == 0 || (x.start == y.start && (x.length == 1 || x.step == y.step));
    }
    case Kind::kFunction: {
      const auto& x = a.as<FunctionObject>();
      const auto& y = b.as<FunctionObject>();
      return x.code == y.code && x.self.kind() == y.self.kind() &&
             (x.self.object() == nullptr || x.self.object() == y.self.object());
    }
    default:
      return a.object() == b.object();
  }
}

bool Compare(Runtime& rt, Order op, const Value& a, const Value& b) {
  rt.budget.Step();
  if (a.undefined()) FailUndefined(a);
  if (b.undefined()) FailUndefined(b);
  if (a.number() && b.number()) return Holds(op, CompareNumbers(a, b));
  if (a.string() && b.string()) {
    rt.budget.Step(std::min(Text(a).size(), Text(b).size()) / 64);
    const int c = Text(a).compare(Text(b));
    return Holds(op, c < 0 ? -1 : c > 0 ? 1 : 0);
  }
  if (a.kind() == b.kind() && (a.Is(Kind::kList) || a.Is(Kind::kTuple))) {
    rt.CheckStack();
    const auto& x = Items(a);
    const auto& y = Items(b);
    for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
      if (!Equal(rt, x[i], y[i])) return Compare(rt, op, x[i], y[i]);
    }
    return Holds(op, x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0);
  }
  if (a.Is(Kind::kDictView) && b.Is(Kind::kDictView))
    Unsupported("comparing dictionary views as sets is not supported");
  Fail("'", OrderName(op), "' not supported between instances of '", TypeName(a), "' and '", TypeName(b),
       "'");
}

bool Same(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kNone:
      return true;
    case Kind::kBool:
    case Kind::kInt:
      return a.integer() == b.integer();
    case Kind::kFloat:
      return a.real() == b.real();
    case Kind::kString:
      return a.as<StringObject>().safe == b.as<StringObject>().safe && Text(a) == Text(b);
    case Kind::kTuple:
      if (Items(a).empty() && Items(b).empty()) return true;
      [[fallthrough]];
    default:
      return a.object() == b.object();
  }
}

size_t Hash(Runtime& rt, const Value& v) {
  switch (v.kind()) {
    case Kind::kBool:
    case Kind::kInt:
      return Mix(static_cast<uint64_t>(v.integer()));
    case Kind::kFloat: {
      const double f = v.real();
      if (f >= -9.2e18 && f <= 9.2e18 && f == std::floor(f)) {
        return Mix(static_cast<uint64_t>(static_cast<int64_t>(f)));
      }
      return std::hash<double>{}(f);
    }
    case Kind::kString:
      rt.budget.Step(Text(v).size() / 64);
      return std::hash<std::string>{}(Text(v));
    case Kind::kTuple: {
      rt.CheckStack();
      size_t h = 0x345678;
      for (const Value& item : Items(v)) h = h * 1000003 + Hash(rt, item);
      return h;
    }
    case Kind::kList:
    case Kind::kDict:
      Fail("unhashable type: '", TypeName(v), "'");
    case Kind::kDictView:
      if (v.as<DictViewObject>().part != DictViewObject::kValues)
        Fail("unhashable type: '", TypeName(v), "'");
      return std::hash<const void*>{}(v.object());
    case Kind::kRange:
      return static_cast<size_t>(v.as<RangeObject>().length);
    case Kind::kFunction:
      return 17;
    case Kind::kNone:
    case Kind::kUndefined:
    case Kind::kMissing:
      return static_cast<size_t>(v.kind());
    default:
      return std::hash<const void*>{}(v.object());
  }
}

bool Contains(Runtime& rt, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.string()) Fail("'in <string>' requires string as left operand, not ", TypeName(item));
      rt.budget.Step(Text(container).size() / 64);
      return Find(Text(container), Text(item), 0) != std::string::npos;
    case Kind::kDict:
      return Find(rt, container.as<DictObject>(), item) != nullptr;
    case Kind::kDictView: {
      const auto& view = container.as<DictViewObject>();
      if (view.part == DictViewObject::kKeys) return Find(rt, *view.dict, item) != nullptr;
      break;
    }
    case Kind::kList:
    case Kind::kTuple:
      for (const Value& v : Items(container)) {
        rt.budget.Step();
        if (Equal(rt, v, item)) return true;
      }
      return false;
    default:
      break;
  }
  if (!Iterable(container)) Fail("argument of type '", TypeName(container), "' is not iterable");
  const auto it = Iterate(rt, container);
  for (Value v = it->Next(rt); !v.missing(); v = it->Next(rt)) {
    if (Equal(rt, v, item)) return true;
  }
  return false;
}

const Value* Find(Runtime& rt, const DictObject& dict, const Value& key) {
  if (!dict.index.empty()) return FindHashed(rt, dict, key, Hash(rt, key));
  if (key.Is(Kind::kList) || key.Is(Kind::kDict) || key.Is(Kind::kTuple)) Hash(rt, key);
  for (const auto& item : dict.items) {
    if (Equal(rt, item.first, key)) return &item.second;
  }
  return nullptr;
}

const Value* Find(const DictObject& dict, std::string_view key) {
  if (!dict.index.empty()) {
    const auto [first, last] = dict.index.equal_range(std::hash<std::string_view>{}(key));
    for (auto it = first; it != last; ++it) {
      const auto& item = dict.items[it->second];
      if (item.first.string() && Text(item.first) == key) return &item.second;
    }
    return nullptr;
  }
  for (const auto& item : dict.items) {
    if (item.first.string() && Text(item.first) == key) return &item.second;
  }
  return nullptr;
}

void Set(Runtime& rt, DictObject& dict, const Value& key, const Value& value) {
  const size_t hash = Hash(rt, key);
  if (const Value* at = dict.index.empty() ? Find(rt, dict, key) : FindHashed(rt, dict, key, hash)) {
    *const_cast<Value*>(at) = value;
    return;
  }
  const size_t bytes = sizeof(dict.items[0]) + (dict.items.size() >= kIndexFrom ? 48 : 0);
  rt.budget.Take(bytes);
  if (dict.budget != nullptr) {
    dict.charged += bytes;
  } else {
    rt.budget.GiveBack(bytes);
  }
  dict.items.emplace_back(key, value);
  if (!dict.index.empty()) {
    dict.index.emplace(hash, dict.items.size() - 1);
  } else if (dict.items.size() > kIndexFrom) {
    for (size_t i = 0; i < dict.items.size(); ++i) dict.index.emplace(Hash(rt, dict.items[i].first), i);
  }
}

}  // namespace ullage::llm::jinja
