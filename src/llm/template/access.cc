// Attributes, items and slices, as the sandbox of jinja2 gives them out.
#include <algorithm>

#include "llm/template/interpreter.h"
#include "llm/template/text.h"

namespace ullage::llm::jinja {
namespace {

/// Attributes that every Python object has; the sandbox hides them.
bool IsObjectAttribute(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "__class__",    "__delattr__",   "__dir__",     "__doc__",    "__eq__",     "__format__",
      "__ge__",       "__gt__",        "__hash__",    "__init__",   "__le__",     "__getattribute__",
      "__getstate__", "__lt__",        "__ne__",      "__new__",    "__reduce__", "__init_subclass__",
      "__repr__",     "__reduce_ex__", "__setattr__", "__sizeof__", "__str__",    "__subclasshook__"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

bool HasProtocolAttribute(const Value& v, std::string_view name) {
  if (name == "__len__" || name == "__iter__" || name == "__contains__") {
    return v.string() || v.Is(Kind::kList) || v.Is(Kind::kTuple) || v.Is(Kind::kDict) || v.Is(Kind::kRange);
  }
  if (name == "__getitem__") {
    return v.string() || v.Is(Kind::kList) || v.Is(Kind::kTuple) || v.Is(Kind::kDict) || v.Is(Kind::kRange);
  }
  return name == "__html__" && v.string() && v.as<StringObject>().safe;
}

/// The item at an index that may be negative; missing when out of range.
template <class At>
Value Indexed(int64_t size, int64_t i, At at) {
  if (i < 0) i += size;
  return i < 0 || i >= size ? Value() : at(i);
}

Value CharacterAt(Runtime& rt, const StringObject& s, int64_t i) {
  if (s.ascii()) return rt.Str(std::string_view(s.text).substr(static_cast<size_t>(i), 1), s.safe);
  rt.budget.Step(s.text.size() / 64);
  const size_t begin = ByteOffset(s.text, static_cast<size_t>(i));
  size_t end = begin;
  DecodeAt(s.text, end);
  return rt.Str(std::string_view(s.text).substr(begin, end - begin), s.safe);
}

/// object[key] as Python does it; missing where that raises TypeError or LookupError.
Value PlainItem(Runtime& rt, const Value& object, const Value& key) {
  switch (object.kind()) {
    case Kind::kDict: {
      if (key.Is(Kind::kList) || key.Is(Kind::kDict)) return Value();
      const Value* v = Find(rt, object.as<DictObject>(), key);
      return v == nullptr ? Value() : *v;
    }
    case Kind::kList:
    case Kind::kTuple:
      if (!key.integral()) return Value();
      return Indexed(static_cast<int64_t>(Items(object).size()), key.integer(),
                     [&](int64_t i) { return Items(object)[static_cast<size_t>(i)]; });
    case Kind::kString:
      if (!key.integral()) return Value();
      return Indexed(static_cast<int64_t>(object.as<StringObject>().length), key.integer(),
                     [&](int64_t i) { return CharacterAt(rt, object.as<StringObject>(), i); });
    case Kind::kRange:
      if (!key.integral()) return Value();
      return Indexed(object.as<RangeObject>().length, key.integer(),
                     [&](int64_t i) { return Value::Int(object.as<RangeObject>().at(i)); });
    default:
      return Value();
  }
}

struct SliceRange {
  int64_t start, stop, step, count;
};

SliceRange Clamp(const Value& start_value, const Value& stop_value, const Value& step_value, int64_t length) {
  const auto index = [](const Value& v) {
    if (!v.integral()) Fail("slice indices must be integers or None or have an __index__ method");
    return v.integer();
  };
  const int64_t step = step_value.none() ? 1 : index(step_value);
  if (step == 0) Fail("slice step cannot be zero");
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? length : length - 1;
  const auto clamp = [&](const Value& v, int64_t otherwise) {
    if (v.none()) return otherwise;
    int64_t i = index(v);
    if (i < 0) i += length;
    return std::clamp(i, low, high);
  };
  const int64_t start = clamp(start_value, step > 0 ? 0 : length - 1);
  const int64_t stop = clamp(stop_value, step > 0 ? length : -1);
  const int64_t distance = step > 0 ? stop - start : start - stop;
  if (distance <= 0) return {start, stop, step, 0};
  // |INT64_MIN| is no int64; any step as large as the distance gives one item.
  const int64_t stride = step == INT64_MIN ? INT64_MAX : std::abs(step);
  return {start, stop, step, (distance - 1) / stride + 1};
}

Value SliceString(Runtime& rt, const StringObject& s, const SliceRange& r) {
  std::string out;
  if (r.step == 1 || r.count <= 1) {
    const auto start = static_cast<size_t>(r.start), count = static_cast<size_t>(r.count);
    if (s.ascii())
      return rt.Str(std::string_view(s.text).substr(std::min(start, s.text.size()), count), s.safe);
    rt.budget.Step(s.text.size() / 64);
    const std::string_view tail = std::string_view(s.text).substr(ByteOffset(s.text, start));
    return rt.Str(tail.substr(0, ByteOffset(tail, count)), s.safe);
  }
  rt.budget.Foresee(s.text.size() * 5);
  rt.budget.Step(s.text.size() / 8);
  const std::u32string chars = ToCodePoints(s.text);
  for (int64_t k = 0; k < r.count; ++k) AppendUtf8(out, chars[static_cast<size_t>(r.start + k * r.step)]);
  return rt.Str(std::move(out), s.safe);
}

}  // namespace

Value PlainAttribute(Runtime& rt, const Value& object, std::string_view name) {
  if (object.Is(Kind::kNamespace)) {
    const Value* v = Find(*object.as<NamespaceObject>().attributes, name);
    if (v != nullptr) return name[0] == '_' ? rt.Unsafe(object, name) : *v;
    return name == "__class__" ? rt.Unsafe(object, name) : Value();
  }
  if (!name.empty() && name[0] == '_') {
    return IsObjectAttribute(name) || HasProtocolAttribute(object, name) ? rt.Unsafe(object, name) : Value();
  }
  switch (object.kind()) {
    case Kind::kString:
      return StringMethod(rt, object, name);
    case Kind::kLoop:
      return LoopAttribute(rt, object, name);
    case Kind::kMacro:
      return MacroAttribute(rt, object, name);
    default:
      return ContainerMethod(rt, object, name);
  }
}

Value GetAttribute(Runtime& rt, const Value& object, std::string_view name) {
  if (object.undefined()) FailUndefined(object);
  Value v = PlainAttribute(rt, object, name);
  if (!v.missing()) return v;
  if (object.Is(Kind::kDict)) {
    const Value* item = Find(object.as<DictObject>(), name);
    if (item != nullptr) return *item;
  }
  return rt.UndefinedItem(object, rt.Str(name));
}

Value GetItem(Runtime& rt, const Value& object, const Value& key) {
  if (object.undefined()) FailUndefined(object);
  Value v = PlainItem(rt, object, key);
  if (!v.missing()) return v;
  if (key.string()) v = PlainAttribute(rt, object, Text(key));
  return v.missing() ? rt.UndefinedItem(object, key) : v;
}

Value GetSlice(Runtime& rt, const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.undefined()) FailUndefined(object);
  switch (object.kind()) {
    case Kind::kString: {
      const auto& s = object.as<StringObject>();
      return SliceString(rt, s, Clamp(start, stop, step, static_cast<int64_t>(s.length)));
    }
    case Kind::kList:
    case Kind::kTuple: {
      const auto& items = Items(object);
      const SliceRange r = Clamp(start, stop, step, static_cast<int64_t>(items.size()));
      rt.budget.Step(static_cast<uint64_t>(r.count));
      rt.budget.Foresee(static_cast<size_t>(r.count) * sizeof(Value));
      std::vector<Value> out;
      out.reserve(static_cast<size_t>(r.count));
      for (int64_t k = 0; k < r.count; ++k) out.push_back(items[static_cast<size_t>(r.start + k * r.step)]);
      return object.Is(Kind::kList) ? rt.List(std::move(out)) : rt.Tuple(std::move(out));
    }
    case Kind::kRange: {
      const auto& range = object.as<RangeObject>();
      const SliceRange r = Clamp(start, stop, step, range.length);
      auto out = rt.New<RangeObject>(0);
      out->length = r.count;
      const auto at = [&](int64_t i, int64_t& to) {
        return __builtin_mul_overflow(range.step, i, &to) || __builtin_add_overflow(range.start, to, &to);
      };
      if (__builtin_mul_overflow(range.step, r.step, &out->step) || at(r.start, out->start) ||
          at(r.stop, out->stop)) {
        Unsupported("a slice of a range does not fit into 64 bits");
      }
      return Value(Kind::kRange, std::move(out));
    }
    case Kind::kDict:
      Fail("unhashable type: 'slice'");
    default:
      Fail("'", TypeName(object), "' object is not subscriptable");
  }
}

}  // namespace ullage::llm::jinja
