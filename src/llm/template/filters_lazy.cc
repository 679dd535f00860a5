// Filters that are generators: nothing happens, and nothing fails, before their items are asked for.
#include "llm/template/filters.h"

namespace ullage::llm::jinja {
namespace {

/// Computes all of its items when the first one is asked for.
struct Deferred : IteratorObject {
  using Make = std::vector<Value> (*)(Runtime& rt, const std::vector<Value>& held);
  Value Next(Runtime& rt) override {
    rt.CheckStack();
    rt.budget.Step();
    if (!made) {
      made = true;
      items = make(rt, held);
    }
    return position < items.size() ? items[position++] : Value();
  }
  ~Deferred() override { Discard(std::move(items)); }
  Make make = nullptr;
  bool made = false;
  std::vector<Value> items;
  size_t position = 0;
};

Value Defer(Runtime& rt, Deferred::Make make, std::vector<Value> held) {
  auto it = rt.New<Deferred>(0);
  it->make = make;
  it->held = std::move(held);
  return rt.Iterator(std::move(it));
}

Value ItemsFilter(Runtime& rt, const Value& input, Args& args) {
  NoArguments("items", args);
  return Defer(rt,
               [](Runtime& r, const std::vector<Value>& held) {
                 std::vector<Value> out;
                 if (held[0].undefined()) return out;
                 if (!held[0].Is(Kind::kDict)) Fail("Can only get item pairs from a mapping.");
                 for (const auto& [key, value] : held[0].as<DictObject>().items)
                   out.push_back(r.Tuple({key, value}));
                 return out;
               },
               {input});
}

Value Batch(Runtime& rt, const Value& input, Args& args) {
  const Params p(rt, "batch", args, {"linecount", "fill_with"}, 1);
  return Defer(rt,
               [](Runtime& r, const std::vector<Value>& held) {
                 std::vector<Value> out, row;
                 const Value& count = held[1];
                 const auto it = Iterate(r, held[0]);
                 for (Value v = it->Next(r); !v.missing(); v = it->Next(r)) {
                   if (Equal(r, Value::Int(static_cast<int64_t>(row.size())), count)) {
                     out.push_back(r.List(std::move(row)));
                     row = std::vector<Value>();
                   }
                   row.push_back(std::move(v));
                 }
                 if (row.empty()) return out;
                 if (!held[2].missing() && !held[2].none() &&
                     Less(r, Value::Int(static_cast<int64_t>(row.size())), count)) {
                   const int64_t fill = ToIndex(count) - static_cast<int64_t>(row.size());
                   r.budget.Foresee(static_cast<size_t>(fill) > SIZE_MAX / sizeof(Value)
                                        ? SIZE_MAX
                                        : static_cast<size_t>(fill) * sizeof(Value));
                   row.insert(row.end(), static_cast<size_t>(fill), held[2]);
                 }
                 out.push_back(r.List(std::move(row)));
                 return out;
               },
               {input, p[0], p[1]});
}

Value Slice(Runtime& rt, const Value& input, Args& args) {
  const Params p(rt, "slice", args, {"slices", "fill_with"}, 1);
  return Defer(rt,
               [](Runtime& r, const std::vector<Value>& held) {
                 const std::vector<Value> all = ToVector(r, held[0]);
                 const auto length = static_cast<int64_t>(all.size());
                 const int64_t slices = ToIndex(held[1]);
                 if (slices == 0) Fail("integer division or modulo by zero");
                 std::vector<Value> out;
                 if (slices < 0) return out;
                 const int64_t per_slice = length / slices, with_extra = length % slices;
                 int64_t begin = 0;
                 for (int64_t i = 0; i < slices; ++i) {
                   const int64_t end = begin + per_slice + (i < with_extra ? 1 : 0);
                   std::vector<Value> row(all.begin() + begin, all.begin() + end);
                   if (!held[2].missing() && !held[2].none() && i >= with_extra) row.push_back(held[2]);
                   out.push_back(r.List(std::move(row)));
                   begin = end;
                 }
                 return out;
               },
               {input, p[0], p[1]});
}

/// A generator over another iterable that keeps the arguments of its filter call.
struct Stage : IteratorObject {
  ~Stage() override {
    for (Value& v : args.positional) held.push_back(std::move(v));
    for (auto& a : args.named) held.push_back(std::move(a.second));
  }
  /// False when there is nothing to iterate.
  bool Begin(Runtime& rt, bool skip_falsy) {
    rt.CheckStack();
    if (source != nullptr) return true;
    if (done || (skip_falsy && !Truthy(rt, held[0]))) {
      done = true;
      return false;
    }
    Prepare(rt);
    source = Iterate(rt, held[0]);
    return true;
  }
  virtual void Prepare(Runtime& rt) = 0;

  Args args;
  std::shared_ptr<IteratorObject> source;
  std::unique_ptr<AttributeGetter> getter;
  bool done = false;
};

struct MapStage : Stage {
  void Prepare(Runtime& rt) override {
    if (args.positional.empty()) {
      Value path = args.Pop("attribute");
      if (!path.missing()) {
        Value fallback = args.Pop("default");
        if (!args.named.empty()) Fail("Unexpected keyword argument ", StringRepr(args.named[0].first));
        getter = std::make_unique<AttributeGetter>(rt, path, false, fallback);
        held.push_back(std::move(path));
        held.push_back(std::move(fallback));
        return;
      }
      Fail("map requires a filter argument");
    }
    name = args.positional[0];
    args.positional.erase(args.positional.begin());
    held.push_back(name);
  }
  Value Next(Runtime& rt) override {
    if (!Begin(rt, true)) return Value();
    const Value item = source->Next(rt);
    if (item.missing()) return item;
    return getter != nullptr ? (*getter)(item) : CallFilter(rt, name, item, args);
  }
  Value name;
};

struct SelectStage : Stage {
  void Prepare(Runtime& rt) override {
    size_t at = 0;
    if (by_attribute) {
      if (args.positional.empty()) Fail("Missing parameter for attribute name");
      getter = std::make_unique<AttributeGetter>(rt, args.positional[at++]);
    }
    if (at < args.positional.size()) {
      name = args.positional[at++];
      rest.positional.assign(args.positional.begin() + static_cast<ptrdiff_t>(at), args.positional.end());
      rest.named = args.named;
    }
  }
  Value Next(Runtime& rt) override {
    if (!Begin(rt, true)) return Value();
    for (Value item = source->Next(rt); !item.missing(); item = source->Next(rt)) {
      const Value value = getter != nullptr ? (*getter)(item) : item;
      const bool holds = name.missing() ? Truthy(rt, value) : CallTest(rt, name, value, rest);
      if (holds == wanted) return item;
    }
    return Value();
  }
  bool by_attribute = false, wanted = true;
  Value name;
  Args rest;  // values that args holds too
};

struct UniqueStage : Stage {
  void Prepare(Runtime& rt) override {
    const Params p(rt, "unique", args, {"case_sensitive", "attribute"});
    getter = std::make_unique<AttributeGetter>(rt, p[1], !Flag(rt, p[0]));
    seen = rt.Dict();
  }
  Value Next(Runtime& rt) override {
    if (!Begin(rt, false)) return Value();
    for (Value item = source->Next(rt); !item.missing(); item = source->Next(rt)) {
      const Value key = (*getter)(item);
      if (Find(rt, *seen, key) != nullptr) continue;
      Set(rt, *seen, key, Value::None());
      return item;
    }
    return Value();
  }
  std::shared_ptr<DictObject> seen;
};

template <class T>
std::shared_ptr<T> MakeStage(Runtime& rt, const Value& input, Args& args) {
  auto it = rt.New<T>(0);
  it->held.push_back(input);
  it->args = std::move(args);
  return it;
}

Value Map(Runtime& rt, const Value& input, Args& args) {
  return rt.Iterator(MakeStage<MapStage>(rt, input, args));
}

Value SelectWith(Runtime& rt, const Value& input, Args& args, bool by_attribute, bool wanted) {
  auto it = MakeStage<SelectStage>(rt, input, args);
  it->by_attribute = by_attribute;
  it->wanted = wanted;
  return rt.Iterator(std::move(it));
}

Value Select(Runtime& rt, const Value& input, Args& args) {
  return SelectWith(rt, input, args, false, true);
}
Value Reject(Runtime& rt, const Value& input, Args& args) {
  return SelectWith(rt, input, args, false, false);
}
Value SelectAttr(Runtime& rt, const Value& input, Args& args) {
  return SelectWith(rt, input, args, true, true);
}
Value RejectAttr(Runtime& rt, const Value& input, Args& args) {
  return SelectWith(rt, input, args, true, false);
}

Value Unique(Runtime& rt, const Value& input, Args& args) {
  Args check = args;
  const Params p(rt, "unique", check, {"case_sensitive", "attribute"});
  return rt.Iterator(MakeStage<UniqueStage>(rt, input, args));
}

constexpr NamedCode kFilters[] = {
    {"batch", Batch},           {"items", ItemsFilter},     {"map", Map},
    {"reject", Reject},         {"rejectattr", RejectAttr}, {"select", Select},
    {"selectattr", SelectAttr}, {"slice", Slice},           {"unique", Unique},
};

}  // namespace

FunctionObject::Code FindLazyFilter(std::string_view name) {
  return Lookup(kFilters, name);
}

}  // namespace ullage::llm::jinja
