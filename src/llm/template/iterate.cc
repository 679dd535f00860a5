// Lengths and iterators.
#include "llm/template/interpreter.h"
#include "llm/template/text.h"

namespace ullage::llm::jinja {
namespace {

struct ItemIterator : IteratorObject {
  Value Next(Runtime& rt) override {
    rt.budget.Step();
    const auto& items = Items(held[0]);
    if (position >= items.size()) return Value();
    return items[reversed ? items.size() - ++position : position++];
  }
  size_t position = 0;
  bool reversed = false;
};

struct CharacterIterator : IteratorObject {
  Value Next(Runtime& rt) override {
    rt.budget.Step();
    const std::string_view text = Text(held[0]);
    if (position >= text.size()) return Value();
    const size_t begin = position;
    DecodeAt(text, position);
    return rt.Str(text.substr(begin, position - begin));
  }
  size_t position = 0;
};

struct DictIterator : IteratorObject {
  Value Next(Runtime& rt) override {
    rt.budget.Step();
    const auto& items = held[0].as<DictObject>().items;
    if (position >= items.size()) return Value();
    const auto& item = items[reversed ? items.size() - ++position : position++];
    if (part == DictViewObject::kKeys) return item.first;
    if (part == DictViewObject::kValues) return item.second;
    return rt.Tuple({item.first, item.second});
  }
  DictViewObject::Part part = DictViewObject::kKeys;
  size_t position = 0;
  bool reversed = false;
};

struct RangeIterator : IteratorObject {
  Value Next(Runtime& rt) override {
    rt.budget.Step();
    const auto& range = held[0].as<RangeObject>();
    if (position >= range.length) return Value();
    const int64_t i = position++;
    return Value::Int(range.at(reversed ? range.length - 1 - i : i));
  }
  int64_t position = 0;
  bool reversed = false;
};

struct EmptyIterator : IteratorObject {
  Value Next(Runtime&) override { return Value(); }
};

template <class T>
std::shared_ptr<T> Over(Runtime& rt, const Value& v) {
  auto it = rt.New<T>(0);
  it->held.push_back(v);
  return it;
}

std::shared_ptr<IteratorObject> OverDict(Runtime& rt, const Value& v, bool reversed) {
  std::shared_ptr<DictIterator> it;
  if (v.Is(Kind::kDictView)) {
    const auto& view = v.as<DictViewObject>();
    it = Over<DictIterator>(rt, Runtime::DictValue(view.dict));
    it->part = view.part;
  } else {
    it = Over<DictIterator>(rt, v);
  }
  it->reversed = reversed;
  return it;
}

}  // namespace

bool TryLength(Runtime& rt, const Value& v, int64_t& out) {
  switch (v.kind()) {
    case Kind::kUndefined:
      out = 0;
      return true;
    case Kind::kString:
      out = static_cast<int64_t>(v.as<StringObject>().length);
      return true;
    case Kind::kList:
    case Kind::kTuple:
      out = static_cast<int64_t>(Items(v).size());
      return true;
    case Kind::kDict:
      out = static_cast<int64_t>(v.as<DictObject>().items.size());
      return true;
    case Kind::kDictView:
      out = static_cast<int64_t>(v.as<DictViewObject>().dict->items.size());
      return true;
    case Kind::kRange:
      out = v.as<RangeObject>().length;
      return true;
    case Kind::kLoop:
      out = LoopLength(rt, v);
      return true;
    default:
      return false;
  }
}

int64_t Length(Runtime& rt, const Value& v) {
  int64_t n = 0;
  if (!TryLength(rt, v, n)) Fail("object of type '", TypeName(v), "' has no len()");
  return n;
}

bool Iterable(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kDictView:
    case Kind::kRange:
    case Kind::kIterator:
    case Kind::kLoop:
      return true;
    default:
      return false;
  }
}

std::shared_ptr<IteratorObject> Iterate(Runtime& rt, const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
      return rt.New<EmptyIterator>(0);
    case Kind::kString:
      return Over<CharacterIterator>(rt, v);
    case Kind::kList:
    case Kind::kTuple:
      return Over<ItemIterator>(rt, v);
    case Kind::kDict:
    case Kind::kDictView:
      return OverDict(rt, v, false);
    case Kind::kRange:
      return Over<RangeIterator>(rt, v);
    case Kind::kIterator:
      return v.share<IteratorObject>();
    case Kind::kLoop:
      Unsupported("iterating over a loop object is not supported");
    default:
      Fail("'", TypeName(v), "' object is not iterable");
  }
}

std::shared_ptr<IteratorObject> IterateReversed(Runtime& rt, const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
      return rt.New<EmptyIterator>(0);
    case Kind::kString: {
      std::vector<Value> chars = ToVector(rt, v);
      auto it = Over<ItemIterator>(rt, rt.List(std::move(chars)));
      it->reversed = true;
      return it;
    }
    case Kind::kList:
    case Kind::kTuple: {
      auto it = Over<ItemIterator>(rt, v);
      it->reversed = true;
      return it;
    }
    case Kind::kDict:
    case Kind::kDictView:
      return OverDict(rt, v, true);
    case Kind::kRange: {
      auto it = Over<RangeIterator>(rt, v);
      it->reversed = true;
      return it;
    }
    default:
      Fail("'", TypeName(v), "' object is not reversible");
  }
}

std::vector<Value> ToVector(Runtime& rt, const Value& v) {
  if (v.Is(Kind::kList) || v.Is(Kind::kTuple)) {
    rt.budget.Step(Items(v).size());
    rt.budget.Foresee(Items(v).size() * sizeof(Value));
    return Items(v);
  }
  std::vector<Value> out;
  const auto it = Iterate(rt, v);
  for (Value item = it->Next(rt); !item.missing(); item = it->Next(rt)) {
    if (out.size() == out.capacity()) rt.budget.Foresee(2 * out.size() * sizeof(Value));
    out.push_back(std::move(item));
  }
  return out;
}

}  // namespace ullage::llm::jinja
