// The global functions: those of jinja2's sandbox and those that Hugging Face adds.
#include "llm/template/filters.h"
#include "llm/template/raised.h"

namespace ullage::llm::jinja {
namespace {

constexpr int64_t kMaxRange = 100000;  // what jinja2's sandbox allows

Value Range(Runtime& rt, const Value&, Args& args) {
  if (!args.named.empty()) Fail("range() takes no keyword arguments");
  const std::vector<Value>& a = args.positional;
  if (a.empty() || a.size() > 3) Fail("range expected 1 to 3 arguments, got ", a.size());
  auto range = rt.New<RangeObject>(0);
  if (a.size() == 1) {
    range->stop = ToIndex(a[0]);
  } else {
    range->start = ToIndex(a[0]);
    range->stop = ToIndex(a[1]);
    if (a.size() == 3) range->step = ToIndex(a[2]);
  }
  if (range->step == 0) Fail("range() arg 3 must not be zero");
  const auto start = static_cast<__int128>(range->start), stop = static_cast<__int128>(range->stop);
  const auto step = static_cast<__int128>(range->step);
  __int128 length = step > 0 ? (stop - start + step - 1) / step : (start - stop - step - 1) / -step;
  if (step > 0 ? stop <= start : stop >= start) length = 0;
  if (length > kMaxRange) {
    Fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE (", kMaxRange, ").");
  }
  range->length = static_cast<int64_t>(length);
  return Value(Kind::kRange, std::move(range));
}

std::shared_ptr<DictObject> MakeDict(Runtime& rt, const char* name, const Args& args) {
  if (args.positional.size() > 1) Fail(name, " expected at most 1 argument, got ", args.positional.size());
  auto dict = rt.Dict();
  if (args.positional.size() == 1) {
    const Value& from = args.positional[0];
    if (from.Is(Kind::kDict)) {
      for (const auto& [key, value] : from.as<DictObject>().items) Set(rt, *dict, key, value);
    } else {
      for (const Value& pair : ToVector(rt, from)) {
        const std::vector<Value> two = ToVector(rt, pair);
        if (two.size() != 2)
          Fail("dictionary update sequence element has length ", two.size(), "; 2 is required");
        Set(rt, *dict, two[0], two[1]);
      }
    }
  }
  for (const auto& [key, value] : args.named) Set(rt, *dict, rt.Str(key), value);
  return dict;
}

Value DictFunction(Runtime& rt, const Value&, Args& args) {
  return Runtime::DictValue(MakeDict(rt, "dict", args));
}

Value NamespaceFunction(Runtime& rt, const Value&, Args& args) {
  auto ns = rt.New<NamespaceObject>(0);
  ns->attributes = MakeDict(rt, "namespace", args);
  for (const auto& item : ns->attributes->items) {
    if (item.first.string() && Text(item.first).starts_with('_')) {
      Fail("attributes of a namespace may not begin with an underscore, but got ",
           StringRepr(Text(item.first)));
    }
  }
  rt.Watch(ns);
  return Value(Kind::kNamespace, std::move(ns));
}

Value RaiseException(Runtime& rt, const Value&, Args& args) {
  const Params p(rt, "raise_exception", args, {"message"}, 1);
  throw Raised(ToStr(rt, p[0]));
}

Value StrftimeNow(Runtime& rt, const Value&, Args& args) {
  const Params p(rt, "strftime_now", args, {"format"}, 1);
  if (p[0].undefined()) Fail("strftime() argument 1 must be str, not Undefined");
  if (!p[0].string()) Fail("strftime() argument 1 must be str, not ", TypeName(p[0]));
  return rt.Str(FormatTime(rt.options.now, Text(p[0])));
}

Value CyclerFunction(Runtime& rt, const Value&, Args& args) {
  if (!args.named.empty()) Fail("cycler() takes no keyword arguments");
  if (args.positional.empty()) Fail("at least one item has to be provided");
  auto cycler = rt.New<CyclerObject>(args.positional.size() * sizeof(Value));
  cycler->items = std::move(args.positional);
  return Value(Kind::kCycler, std::move(cycler));
}

/// Gives the separator at every call but the first. `self` holds it, and its position says whether it was
/// used.
Value CallJoiner(Runtime& rt, const Value& self, Args& args) {
  NoArguments("joiner", args);
  auto& state = self.as<CyclerObject>();
  if (state.position++ > 0) return state.items[0];
  return rt.Str("");
}

Value JoinerFunction(Runtime& rt, const Value&, Args& args) {
  const Params p(rt, "joiner", args, {"sep"});
  auto state = rt.New<CyclerObject>(0);
  state->items.push_back(p[0].missing() ? rt.Str(", ") : p[0]);
  return rt.Function("joiner", CallJoiner, Value(Kind::kCycler, std::move(state)));
}

Value Lipsum(Runtime&, const Value&, Args&) {
  Unsupported("the function lipsum is not supported");
}

constexpr NamedCode kGlobals[] = {
    {"range", Range},
    {"dict", DictFunction},
    {"namespace", NamespaceFunction},
    {"raise_exception", RaiseException},
    {"strftime_now", StrftimeNow},
    {"cycler", CyclerFunction},
    {"joiner", JoinerFunction},
    {"lipsum", Lipsum},
};

}  // namespace

Value FindGlobal(Runtime& rt, std::string_view name) {
  for (const NamedCode& g : kGlobals) {
    if (g.name == name) return rt.Function(g.name.data(), g.code);
  }
  return Value();
}

}  // namespace ullage::llm::jinja
