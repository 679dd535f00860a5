#include "llm/template/interpreter.h"

namespace ullage::llm::jinja {
namespace {

/// The items of a loop that pass its test, found one by one as the loop asks for them.
struct FilteredItems : IteratorObject {
  Value Next(Runtime& rt) override {
    rt.CheckStack();
    if (source == nullptr) {
      rt.interpreter->EnterFrame(loop->test_frame, *activation);
      source = Iterate(rt, held[0]);
    }
    return rt.interpreter->NextPassing(*loop, *source, activation);
  }
  const ForStmt* loop = nullptr;
  std::shared_ptr<Activation> activation;
  std::shared_ptr<IteratorObject> source;
};

/// Filter and call blocks put out nothing but strings.
void AppendText(Buffer& out, const Value& v) {
  if (!v.string()) Fail("sequence item: expected str instance, ", TypeName(v), " found");
  out.Append(Text(v));
}

/// Counts nested calls for its lifetime.
struct CallDepth {
  CallDepth(int& d, const RenderOptions& options) : depth(d) {
    if (++depth > options.max_call_depth) {
      --depth;
      Fail("macros or recursive loops call each other more than ", options.max_call_depth, " levels deep");
    }
  }
  ~CallDepth() { --depth; }
  int& depth;
};

}  // namespace

std::string Interpreter::Run() {
  Buffer out(rt_.budget);
  const ActivationPtr root = NewActivation(tree_.function, nullptr);
  EnterFrame(tree_.frame, *root);
  Exec(tree_.body, root, out);
  return out.Release();
}

Interpreter::ActivationPtr Interpreter::NewActivation(const FunctionInfo& info, ActivationPtr parent) {
  auto a = rt_.New<Activation>(static_cast<size_t>(info.slots) * sizeof(Value));
  a->slots.resize(static_cast<size_t>(info.slots));
  a->parent = std::move(parent);
  rt_.Watch(a);
  return a;
}

Value& Interpreter::Slot(Activation& a, VarRef ref) {
  Activation* at = &a;
  for (int i = 0; i < ref.hops; ++i) at = at->parent.get();
  return at->slots[static_cast<size_t>(ref.slot)];
}

Value Interpreter::Resolve(const std::string& name) {
  if (const auto it = exported_.find(name); it != exported_.end()) return it->second;
  if (const Value* v = Find(*variables_, name)) return *v;
  if (const auto it = globals_.find(name); it != globals_.end()) return it->second;
  return globals_[name] = FindGlobal(rt_, name);
}

void Interpreter::EnterFrame(const FrameInfo& frame, Activation& a) {
  rt_.budget.Step(frame.loads.size());
  for (const Load& load : frame.loads) {
    Value& slot = a.slots[static_cast<size_t>(load.slot)];
    switch (load.action) {
      case Load::kParameter:
        break;
      case Load::kResolve:
        slot = Resolve(load.name);
        break;
      case Load::kAlias:
        slot = Slot(a, load.from);
        break;
      case Load::kUndefined:
        slot = Value();
        break;
    }
  }
}

void Interpreter::LeaveFrame(const FrameInfo& frame, Activation& a) {
  for (const Load& load : frame.loads) a.slots[static_cast<size_t>(load.slot)] = Value();
}

Interpreter::Flow Interpreter::Exec(const Body& body, const ActivationPtr& a, Buffer& out) {
  for (const StmtPtr& s : body) {
    const Flow flow = Exec(*s, a, out);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::Exec(const Stmt& s, const ActivationPtr& a, Buffer& out) {
  rt_.CheckStack();
  rt_.budget.Step();
  rt_.line = s.line;
  switch (s.kind) {
    case StmtKind::kOutput:
      Output(static_cast<const OutputStmt&>(s), a, out);
      break;
    case StmtKind::kIf:
      return If(static_cast<const IfStmt&>(s), a, out);
    case StmtKind::kFor:
      return For(static_cast<const ForStmt&>(s), a, out);
    case StmtKind::kSet:
      SetVariable(static_cast<const SetStmt&>(s), a);
      break;
    case StmtKind::kSetBlock:
      return SetBlock(static_cast<const SetBlockStmt&>(s), a);
    case StmtKind::kMacro: {
      const auto& m = static_cast<const MacroStmt&>(s);
      const Value macro = MakeMacro(m.macro, a);
      Slot(*a, m.name->ref) = macro;
      if (m.exported && tree_.has_blocks) exported_[m.name->name] = macro;
      break;
    }
    case StmtKind::kCallBlock:
    case StmtKind::kGeneration:
      CallBlock(static_cast<const CallBlockStmt&>(s), a, out);
      break;
    case StmtKind::kFilterBlock:
      return FilterBlock(static_cast<const FilterBlockStmt&>(s), a, out);
    case StmtKind::kWith:
      return With(static_cast<const WithStmt&>(s), a, out);
    case StmtKind::kBlock:
      Block(static_cast<const BlockStmt&>(s), out);
      break;
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

void Interpreter::Output(const OutputStmt& s, const ActivationPtr& a, Buffer& out) {
  for (const ExprPtr& e : s.items) {
    if (e->kind == ExprKind::kTemplateData) {
      out.Append(static_cast<const DataExpr&>(*e).text);
    } else {
      rt_.line = e->line;
      AppendStr(rt_, out, Eval(*e, a));
    }
    if (out.text().size() > rt_.options.max_output_bytes) {
      Fail("the text is longer than ", rt_.options.max_output_bytes, " bytes");
    }
  }
}

Interpreter::Flow Interpreter::If(const IfStmt& s, const ActivationPtr& a, Buffer& out) {
  for (const IfStmt::Branch& branch : s.branches) {
    rt_.line = branch.line;
    if (Truthy(rt_, Eval(*branch.test, a))) return Exec(branch.body, a, out);
  }
  return Exec(s.otherwise, a, out);
}

Interpreter::Flow Interpreter::For(const ForStmt& s, const ActivationPtr& a, Buffer& out) {
  const Value iterable = Eval(*s.iterable, a);
  if (!s.recursive) return Iterate(s, iterable, a, a, 0, out);
  AppendStr(rt_, out, CallLoop(s, a, iterable, 0));
  return Flow::kNormal;
}

Value Interpreter::CallLoop(const ForStmt& loop, const ActivationPtr& closure, const Value& iterable,
                            int64_t depth0) {
  const CallDepth depth(call_depth_, rt_.options);
  Buffer out(rt_.budget);
  Iterate(loop, iterable, closure, NewActivation(loop.function, closure), depth0, out);
  return rt_.Str(out.Release());
}

Value Interpreter::NextPassing(const ForStmt& loop, IteratorObject& source, const ActivationPtr& a) {
  for (Value item = source.Next(rt_); !item.missing(); item = source.Next(rt_)) {
    Assign(*loop.test_target, item, *a);
    if (Truthy(rt_, Eval(*loop.test, a))) return Eval(*loop.test_target, a);
  }
  return Value();
}

Interpreter::Flow Interpreter::Iterate(const ForStmt& s, const Value& iterable, const ActivationPtr& outer,
                                       const ActivationPtr& a, int64_t depth0, Buffer& out) {
  Value items = iterable;
  if (s.test != nullptr) {
    auto filtered = rt_.New<FilteredItems>(0);
    filtered->loop = &s;
    filtered->held.push_back(iterable);
    filtered->activation = NewActivation(s.test_function, outer);
    items = rt_.Iterator(std::move(filtered));
  }
  std::shared_ptr<LoopObject> loop;
  std::shared_ptr<IteratorObject> iterator;
  if (s.extended) {
    loop = rt_.New<LoopObject>(0);
    loop->iterable = items;
    loop->iterator = jinja::Iterate(rt_, items);
    loop->depth0 = depth0;
    if (s.recursive) {
      loop->recursive = &s;
      loop->closure = outer;
    }
    rt_.Watch(loop);
  } else {
    iterator = jinja::Iterate(rt_, items);
  }
  // As in jinja2, the else branch also runs when no pass reached the end of the body.
  bool completed = false;
  Flow flow = Flow::kNormal;
  while (true) {
    Value item;
    if (loop != nullptr) {
      item = loop->after.missing() ? loop->iterator->Next(rt_) : std::exchange(loop->after, Value());
      if (!item.missing()) {
        ++loop->index0;
        loop->before = std::exchange(loop->current, item);
      }
    } else {
      item = iterator->Next(rt_);
    }
    if (item.missing()) break;
    rt_.budget.Step();
    rt_.line = s.line;
    Assign(*s.target, item, *a);
    if (loop != nullptr) a->slots[static_cast<size_t>(s.loop_slot)] = Value(Kind::kLoop, loop);
    EnterFrame(s.body_frame, *a);
    flow = Exec(s.body, a, out);
    if (flow == Flow::kBreak) break;
    if (flow == Flow::kNormal) completed = true;
  }
  LeaveFrame(s.body_frame, *a);
  flow = Flow::kNormal;
  if (!s.otherwise.empty() && !completed) {
    EnterFrame(s.else_frame, *a);
    flow = Exec(s.otherwise, a, out);
    LeaveFrame(s.else_frame, *a);
  }
  return flow;
}

void Interpreter::AssignNamespace(const NsRefExpr& target, const Value& value, Activation& a) {
  const Value& ns = Slot(a, target.ref);
  if (!ns.Is(Kind::kNamespace)) Fail("cannot assign attribute on non-namespace object");
  if (target.attribute[0] == '_') {
    Fail("attributes of a namespace may not begin with an underscore, but got ",
         StringRepr(target.attribute));
  }
  Set(rt_, *ns.as<NamespaceObject>().attributes, rt_.Str(target.attribute), value);
}

void Interpreter::Assign(const Expr& target, const Value& value, Activation& a) {
  if (target.kind == ExprKind::kName) {
    Slot(a, static_cast<const NameExpr&>(target).ref) = value;
    return;
  }
  if (target.kind == ExprKind::kNsRef) {
    AssignNamespace(static_cast<const NsRefExpr&>(target), value, a);
    return;
  }
  const ExprList& targets = static_cast<const ListExpr&>(target).items;
  if (!Iterable(value)) Fail("cannot unpack non-iterable ", TypeName(value), " object");
  const auto it = jinja::Iterate(rt_, value);
  std::vector<Value> items;
  for (Value v = it->Next(rt_); !v.missing(); v = it->Next(rt_)) {
    if (items.size() == targets.size()) Fail("too many values to unpack (expected ", targets.size(), ")");
    items.push_back(std::move(v));
  }
  if (items.size() < targets.size()) {
    Fail("not enough values to unpack (expected ", targets.size(), ", got ", items.size(), ")");
  }
  for (size_t i = 0; i < items.size(); ++i) Assign(*targets[i], items[i], a);
}

void Interpreter::Export(const std::vector<const NameExpr*>& names, Activation& a) {
  if (!tree_.has_blocks) return;
  for (const NameExpr* n : names) exported_[n->name] = Slot(a, n->ref);
}

void Interpreter::SetVariable(const SetStmt& s, const ActivationPtr& a) {
  for (const NsRefExpr* ns : s.namespaces) {
    if (!Slot(*a, ns->ref).Is(Kind::kNamespace)) Fail("cannot assign attribute on non-namespace object");
  }
  Assign(*s.target, Eval(*s.value, a), *a);
  Export(s.exported, *a);
}

Interpreter::Flow Interpreter::SetBlock(const SetBlockStmt& s, const ActivationPtr& a) {
  EnterFrame(s.frame, *a);
  Buffer text(rt_.budget);
  const Flow flow = Exec(s.body, a, text);
  if (flow != Flow::kNormal) return flow;
  Value value = rt_.Str(text.Release());
  if (s.filter != nullptr) {
    const Value* around = std::exchange(block_text_, &value);
    const Value filtered = Eval(*s.filter, a);
    block_text_ = around;
    value = filtered;
  }
  Assign(*s.target, value, *a);
  Export(s.exported, *a);
  LeaveFrame(s.frame, *a);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::FilterBlock(const FilterBlockStmt& s, const ActivationPtr& a, Buffer& out) {
  EnterFrame(s.frame, *a);
  Buffer text(rt_.budget);
  const Flow flow = Exec(s.body, a, text);
  if (flow != Flow::kNormal) return flow;
  const Value value = rt_.Str(text.Release());
  const Value* around = std::exchange(block_text_, &value);
  const Value filtered = Eval(*s.filter, a);
  block_text_ = around;
  AppendText(out, filtered);
  LeaveFrame(s.frame, *a);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::With(const WithStmt& s, const ActivationPtr& a, Buffer& out) {
  EnterFrame(s.frame, *a);
  for (size_t i = 0; i < s.targets.size(); ++i) Assign(*s.targets[i], Eval(*s.values[i], a), *a);
  const Flow flow = Exec(s.body, a, out);
  LeaveFrame(s.frame, *a);
  return flow;
}

void Interpreter::Block(const BlockStmt& s, Buffer& out) {
  const CallDepth depth(call_depth_, rt_.options);
  const ActivationPtr a = NewActivation(s.function, nullptr);
  EnterFrame(s.frame, *a);
  Exec(s.body, a, out);
}

Value Interpreter::MakeMacro(const MacroBody& macro, const ActivationPtr& a) {
  auto object = rt_.New<MacroObject>(0);
  object->macro = &macro;
  object->closure = a;
  return Value(Kind::kMacro, std::move(object));
}

void Interpreter::CallBlock(const CallBlockStmt& s, const ActivationPtr& a, Buffer& out) {
  if (s.kind == StmtKind::kGeneration) {
    MacroObject body;
    body.macro = &s.macro;
    body.closure = a;
    AppendStr(rt_, out, Call(body, Args()));
    return;
  }
  const Value caller = MakeMacro(s.macro, a);
  AppendText(out, EvalCall(*s.call, a, &caller));
}

Value Interpreter::Call(const MacroObject& object, Args args) {
  const MacroBody& macro = *object.macro;
  const CallDepth depth(call_depth_, rt_.options);
  const ActivationPtr a = NewActivation(macro.function, object.closure);
  const size_t count = macro.parameters.size();
  const size_t given = std::min(count, args.positional.size());
  const std::string name = macro.anonymous ? "None" : StringRepr(macro.name);
  bool found_caller = false;
  for (size_t i = 0; i < count; ++i) {
    const NameExpr& p = *macro.parameters[i];
    Value& slot = Slot(*a, p.ref);
    if (i < given) {
      slot = args.positional[i];
    } else {
      slot = args.Pop(p.name);
      found_caller |= p.name == "caller";
    }
  }
  if (given == count) found_caller = macro.explicit_caller;
  if (macro.uses_caller && !found_caller) {
    Value caller = args.Pop("caller");
    if (caller.missing() || caller.none()) caller = rt_.Undefined("No caller defined");
    if (macro.caller_slot >= 0) a->slots[static_cast<size_t>(macro.caller_slot)] = caller;
  }
  if (macro.uses_kwargs) {
    auto rest = rt_.Dict();
    for (const auto& [key, value] : args.named) Set(rt_, *rest, rt_.Str(key), value);
    a->slots[static_cast<size_t>(macro.kwargs_slot)] = Runtime::DictValue(std::move(rest));
  } else if (!args.named.empty()) {
    for (const auto& [key, value] : args.named) {
      if (key == "caller") Fail("macro ", name, " was invoked with a caller that it does not use");
    }
    Fail("macro ", name, " takes no keyword argument ", StringRepr(args.named[0].first));
  }
  if (macro.uses_varargs) {
    const auto begin = args.positional.begin() + static_cast<ptrdiff_t>(given);
    a->slots[static_cast<size_t>(macro.varargs_slot)] =
        rt_.Tuple(std::vector<Value>(begin, args.positional.end()));
  } else if (args.positional.size() > count) {
    Fail("macro ", name, " takes not more than ", count, " argument(s)");
  }
  const int line = rt_.line;
  Value result = rt_.Str(RunMacro(macro, a));
  rt_.line = line;
  return result;
}

std::string Interpreter::RunMacro(const MacroBody& macro, const ActivationPtr& a) {
  EnterFrame(macro.frame, *a);
  const size_t count = macro.parameters.size();
  const size_t required = count - macro.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    const NameExpr& p = *macro.parameters[i];
    if (!Slot(*a, p.ref).missing()) continue;
    Value value = i < required ? rt_.Undefined("parameter " + StringRepr(p.name) + " was not provided")
                               : Eval(*macro.defaults[i - required], a);
    Slot(*a, p.ref) = std::move(value);
  }
  Buffer out(rt_.budget);
  Exec(macro.body, a, out);
  return out.Release();
}

}  // namespace ullage::llm::jinja
