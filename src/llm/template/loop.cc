// Loop and macro objects as a template sees them.
#include "llm/template/interpreter.h"

namespace ullage::llm::jinja {
namespace {

Value Peek(Runtime& rt, LoopObject& loop) {
  if (loop.after.missing()) loop.after = loop.iterator->Next(rt);
  return loop.after;
}

Value Cycle(Runtime&, const Value& self, Args& args) {
  if (!args.named.empty()) Fail("cycle() takes no keyword arguments");
  if (args.positional.empty()) Fail("no items for cycling given");
  return args.positional[static_cast<size_t>(self.as<LoopObject>().index0) % args.positional.size()];
}

Value Changed(Runtime& rt, const Value& self, Args& args) {
  if (!args.named.empty()) Fail("changed() takes no keyword arguments");
  auto& loop = self.as<LoopObject>();
  const Value now = rt.Tuple(std::move(args.positional));
  if (!loop.last_changed.missing() && Equal(rt, loop.last_changed, now)) return Value::Bool(false);
  loop.last_changed = now;
  return Value::Bool(true);
}

}  // namespace

void LoopObject::Clear() {
  std::vector<Value> all;
  for (Value* v : {&iterable, &after, &current, &before, &last_changed})
    all.push_back(std::exchange(*v, Value()));
  if (iterator != nullptr) all.emplace_back(Kind::kIterator, std::move(iterator));
  if (closure != nullptr) all.emplace_back(Kind::kMissing, std::move(closure));
  Discard(std::move(all));
}

int64_t LoopIndex(const Value& loop) {
  return loop.as<LoopObject>().index0 + 1;
}

int64_t LoopLength(Runtime& rt, const Value& v) {
  auto& loop = v.as<LoopObject>();
  if (loop.length >= 0) return loop.length;
  if (TryLength(rt, loop.iterable, loop.length)) return loop.length;
  // A generator: read it to the end and go on with what was read.
  std::vector<Value> rest = ToVector(rt, Value(Kind::kIterator, loop.iterator));
  loop.length = static_cast<int64_t>(rest.size()) + loop.index0 + 1 + (loop.after.missing() ? 0 : 1);
  loop.iterator = Iterate(rt, rt.List(std::move(rest)));
  return loop.length;
}

Value LoopAttribute(Runtime& rt, const Value& v, std::string_view name) {
  auto& loop = v.as<LoopObject>();
  if (name == "index") return Value::Int(loop.index0 + 1);
  if (name == "index0") return Value::Int(loop.index0);
  if (name == "first") return Value::Bool(loop.index0 == 0);
  if (name == "last") return Value::Bool(Peek(rt, loop).missing());
  if (name == "length") return Value::Int(LoopLength(rt, v));
  if (name == "revindex") return Value::Int(LoopLength(rt, v) - loop.index0);
  if (name == "revindex0") return Value::Int(LoopLength(rt, v) - loop.index0 - 1);
  if (name == "depth") return Value::Int(loop.depth0 + 1);
  if (name == "depth0") return Value::Int(loop.depth0);
  if (name == "previtem") return loop.index0 == 0 ? rt.Undefined("there is no previous item") : loop.before;
  if (name == "nextitem") {
    const Value next = Peek(rt, loop);
    return next.missing() ? rt.Undefined("there is no next item") : next;
  }
  if (name == "cycle") return rt.Function("cycle", Cycle, v);
  if (name == "changed") return rt.Function("changed", Changed, v);
  return Value();
}

std::string MacroRepr(const Value& macro) {
  const MacroBody& m = *macro.as<MacroObject>().macro;
  return m.anonymous ? "<Macro anonymous>" : "<Macro " + StringRepr(m.name) + ">";
}

Value MacroAttribute(Runtime& rt, const Value& macro, std::string_view name) {
  const MacroBody& m = *macro.as<MacroObject>().macro;
  if (name == "name") return m.anonymous ? Value::None() : rt.Str(m.name);
  if (name == "arguments") {
    std::vector<Value> names;
    for (const auto& p : m.parameters) names.push_back(rt.Str(p->name));
    return rt.Tuple(std::move(names));
  }
  if (name == "catch_kwargs") return Value::Bool(m.uses_kwargs);
  if (name == "catch_varargs") return Value::Bool(m.uses_varargs);
  if (name == "caller") return Value::Bool(m.uses_caller);
  if (name == "explicit_caller") return Value::Bool(m.explicit_caller);
  return Value();
}

}  // namespace ullage::llm::jinja
