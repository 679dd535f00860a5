// Filters over sequences that give their result at once.
#include <algorithm>

#include "llm/template/filters.h"
#include "llm/template/text.h"

namespace ullage::llm::jinja {
namespace {

Value LengthFilter(Runtime& rt, const Value& input, Args& args) {
  NoArguments("length", args);
  return Value::Int(Length(rt, input));
}

Value First(Runtime& rt, const Value& input, Args& args) {
  NoArguments("first", args);
  const Value v = Iterate(rt, input)->Next(rt);
  return v.missing() ? rt.Undefined("No first item, sequence was empty.") : v;
}

Value Last(Runtime& rt, const Value& input, Args& args) {
  NoArguments("last", args);
  const Value v = IterateReversed(rt, input)->Next(rt);
  return v.missing() ? rt.Undefined("No last item, sequence was empty.") : v;
}

Value ListFilter(Runtime& rt, const Value& input, Args& args) {
  NoArguments("list", args);
  return rt.List(ToVector(rt, input));
}

Value ReverseFilter(Runtime& rt, const Value& input, Args& args) {
  NoArguments("reverse", args);
  if (input.string()) return GetSlice(rt, input, Value::None(), Value::None(), Value::Int(-1));
  if (!Iterable(input)) Fail("argument must be iterable");
  if (!input.Is(Kind::kIterator)) return rt.Iterator(IterateReversed(rt, input));
  std::vector<Value> items = ToVector(rt, input);
  std::reverse(items.begin(), items.end());
  return rt.List(std::move(items));
}

struct Keyed {
  Value key, item;
};

/// Python's sorted(): stable, by the keys' `<`.
void SortByKey(Runtime& rt, std::vector<Keyed>& items, bool reverse) {
  if (reverse) std::reverse(items.begin(), items.end());
  std::stable_sort(items.begin(), items.end(),
                   [&](const Keyed& a, const Keyed& b) { return Less(rt, a.key, b.key); });
  if (reverse) std::reverse(items.begin(), items.end());
}

Value ItemList(Runtime& rt, const std::vector<Keyed>& items) {
  std::vector<Value> out;
  out.reserve(items.size());
  for (const Keyed& k : items) out.push_back(k.item);
  return rt.List(std::move(out));
}

Value Sort(Runtime& rt, const Value& input, Args& args) {
  const Params p(rt, "sort", args, {"reverse", "case_sensitive", "attribute"});
  const bool ignore_case = !Flag(rt, p[1]);
  std::vector<AttributeGetter> getters;
  if (p[2].string()) {
    const std::string_view text = Text(p[2]);
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      getters.emplace_back(rt, rt.Str(text.substr(begin, end - begin)), ignore_case);
      begin = end + 1;
    }
  } else {
    getters.emplace_back(rt, p[2], ignore_case);
  }
  std::vector<Keyed> items;
  for (Value& v : ToVector(rt, input)) {
    std::vector<Value> key;
    for (const AttributeGetter& get : getters) key.push_back(get(v));
    items.push_back({rt.List(std::move(key)), std::move(v)});
  }
  SortByKey(rt, items, Flag(rt, p[0]));
  return ItemList(rt, items);
}

Value DictSort(Runtime& rt, const Value& input, Args& args) {
  const Params p(rt, "dictsort", args, {"case_sensitive", "by", "reverse"});
  const std::string by = p[1].missing() ? "key" : p[1].string() ? Text(p[1]) : "";
  if (by != "key" && by != "value") Fail("You can only sort by either \"key\" or \"value\"");
  if (input.undefined()) FailUndefined(input);
  if (!input.Is(Kind::kDict)) Fail("'", TypeName(input), "' object has no attribute 'items'");
  const AttributeGetter fold(rt, Value(), !Flag(rt, p[0]));
  std::vector<Keyed> items;
  for (const auto& [key, value] : input.as<DictObject>().items) {
    items.push_back({fold(by == "key" ? key : value), rt.Tuple({key, value})});
  }
  SortByKey(rt, items, Flag(rt, p[2]));
  return ItemList(rt, items);
}

Value GroupBy(Runtime& rt, const Value& input, Args& args) {
  const Params p(rt, "groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  const bool ignore_case = !Flag(rt, p[2]);
  const AttributeGetter get(rt, p[0], ignore_case, p[1]);
  const AttributeGetter real(rt, p[0], false, p[1]);
  std::vector<Keyed> items;
  for (Value& v : ToVector(rt, input)) {
    Value key = get(v);
    items.push_back({std::move(key), std::move(v)});
  }
  SortByKey(rt, items, false);
  std::vector<Value> groups;
  for (size_t i = 0; i < items.size();) {
    std::vector<Value> members;
    const Value key = items[i].key;
    for (; i < items.size() && Equal(rt, items[i].key, key); ++i) members.push_back(items[i].item);
    if (members.empty()) members.push_back(items[i++].item);  // a key that does not equal itself
    const Value name = ignore_case ? real(members[0]) : key;
    Value group = rt.Tuple({name, rt.List(std::move(members))});
    group.as<ListObject>().group = true;
    groups.push_back(std::move(group));
  }
  return rt.List(std::move(groups));
}

Value Extreme(Runtime& rt, const char* name, const Value& input, Args& args, Order better) {
  const Params p(rt, name, args, {"case_sensitive", "attribute"});
  const AttributeGetter get(rt, p[1], !Flag(rt, p[0]));
  const auto it = Iterate(rt, input);
  Value best = it->Next(rt);
  if (best.missing()) return rt.Undefined("No aggregated item, sequence was empty.");
  Value best_key = get(best);
  for (Value v = it->Next(rt); !v.missing(); v = it->Next(rt)) {
    Value key = get(v);
    if (!Compare(rt, better, key, best_key)) continue;
    best = v;
    best_key = std::move(key);
  }
  return best;
}

Value Min(Runtime& rt, const Value& input, Args& args) {
  return Extreme(rt, "min", input, args, Order::kLess);
}
Value Max(Runtime& rt, const Value& input, Args& args) {
  return Extreme(rt, "max", input, args, Order::kGreater);
}

Value Sum(Runtime& rt, const Value& input, Args& args) {
  const Params p(rt, "sum", args, {"attribute", "start"});
  const AttributeGetter get(rt, p[0]);
  Value total = p[1].missing() ? Value::Int(0) : p[1];
  if (total.string()) Fail("sum() can't sum strings [use ''.join(seq) instead]");
  const auto it = Iterate(rt, input);
  for (Value v = it->Next(rt); !v.missing(); v = it->Next(rt))
    total = Arithmetic(rt, BinaryOp::kAdd, total, get(v));
  return total;
}

Value Random(Runtime&, const Value&, Args&) {
  Unsupported("the filter random is not supported");
}

constexpr NamedCode kFilters[] = {
    {"count", LengthFilter},
    {"dictsort", DictSort},
    {"first", First},
    {"groupby", GroupBy},
    {"last", Last},
    {"length", LengthFilter},
    {"list", ListFilter},
    {"max", Max},
    {"min", Min},
    {"random", Random},
    {"reverse", ReverseFilter},
    {"sort", Sort},
    {"sum", Sum},
};

}  // namespace

FunctionObject::Code FindSequenceFilter(std::string_view name) {
  return Lookup(kFilters, name);
}

}  // namespace ullage::llm::jinja
