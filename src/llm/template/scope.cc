// Which slot a name means, following jinja2's compiler: every frame (template, macro, loop body, with, ...)
// has symbols; what a frame assigns is its own, begun as undefined, as the outer variable's value or as the
// context's value.
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "llm/template/tree_walk.h"

namespace ullage::llm::jinja {
namespace {

/// The slots of one activation while they are handed out.
struct Function {
  explicit Function(Function* parent) : depth(parent == nullptr ? 0 : parent->depth + 1) {}
  int Slot(int level, const std::string& name) {
    return slots.emplace(std::to_string(level) + " " + name, static_cast<int>(slots.size())).first->second;
  }
  FunctionInfo Info() const { return {static_cast<int>(slots.size())}; }

  int depth;
  std::unordered_map<std::string, int> slots;
};

class Symbols {
 public:
  Symbols(const Symbols* parent, Function* function)
      : parent_(parent), level_(parent == nullptr ? 0 : parent->level_ + 1), function_(function) {}

  void AddLoad(const std::string& name) {
    if (!Find(name)) Define(name, Load::kResolve, {});
  }
  void AddStore(const std::string& name) {
    Remember(name);
    if (!refs_.contains(name)) DefineFromOuter(name, Load::kUndefined);
  }
  int AddParameter(const std::string& name) {
    Remember(name);
    return Define(name, Load::kParameter, {});
  }
  size_t StoreCount() const { return store_log_.size(); }
  /// What only some branches of an if store begins with the outer value in all of them.
  void MergeBranches(size_t stores_before) {
    for (size_t i = stores_before; i < store_log_.size(); ++i) DefineFromOuter(store_log_[i], Load::kResolve);
  }

  std::optional<VarRef> Find(const std::string& name) const {
    for (const Symbols* s = this; s != nullptr; s = s->parent_) {
      const auto it = s->refs_.find(name);
      if (it == s->refs_.end()) continue;
      return VarRef{function_->depth - s->function_->depth, s->loads_[it->second].slot};
    }
    return std::nullopt;
  }
  bool IsParameter(const std::string& name) const {
    for (const Symbols* s = this; s != nullptr; s = s->parent_) {
      const auto it = s->refs_.find(name);
      if (it != s->refs_.end()) return s->loads_[it->second].action == Load::kParameter;
    }
    return false;
  }
  FrameInfo Frame() const { return {loads_}; }
  Function* function() const { return function_; }

 private:
  void Remember(const std::string& name) {
    if (stores_.insert(name).second) store_log_.push_back(name);
  }
  void DefineFromOuter(const std::string& name, Load::Action otherwise) {
    std::optional<VarRef> outer;
    if (parent_ != nullptr) outer = parent_->Find(name);
    if (!outer) {
      Define(name, otherwise, {});
      return;
    }
    outer->hops += function_->depth - parent_->function_->depth;
    Define(name, Load::kAlias, *outer);
  }
  int Define(const std::string& name, Load::Action action, VarRef from) {
    const auto [it, added] = refs_.emplace(name, loads_.size());
    if (added) loads_.emplace_back();
    Load& load = loads_[it->second];
    load.action = action;
    load.slot = function_->Slot(level_, name);
    load.from = from;
    load.name = name;
    return load.slot;
  }

  const Symbols* parent_;
  int level_;
  Function* function_;
  std::unordered_map<std::string, size_t> refs_;  // name to position in loads_
  std::vector<Load> loads_;
  std::unordered_set<std::string> stores_;
  std::vector<std::string> store_log_;
};

/// Enters the names of a frame into its symbols. Does not look into inner frames.
class Analyzer {
 public:
  explicit Analyzer(Symbols& symbols) : symbols_(symbols) {}

  void Visit(const Body& body) {
    for (const StmtPtr& s : body) Visit(*s);
  }
  void Visit(Expr& e, bool as_parameter = false) {
    if (e.kind == ExprKind::kName) {
      const auto& n = static_cast<const NameExpr&>(e);
      if (as_parameter || n.use == NameUse::kParam) {
        symbols_.AddParameter(n.name);
      } else if (n.use == NameUse::kStore) {
        symbols_.AddStore(n.name);
      } else {
        symbols_.AddLoad(n.name);
      }
    } else if (e.kind == ExprKind::kNsRef) {
      symbols_.AddLoad(static_cast<const NsRefExpr&>(e).name);
    }
    ForEachChild(e, [&](Expr& child) { Visit(child, as_parameter); });
  }
  void Visit(Stmt& s) {
    switch (s.kind) {
      case StmtKind::kOutput:
        for (const ExprPtr& e : static_cast<OutputStmt&>(s).items) Visit(*e);
        return;
      case StmtKind::kIf: {
        auto& i = static_cast<IfStmt&>(s);
        Visit(*i.branches[0].test);
        const size_t before = symbols_.StoreCount();
        for (size_t b = 0; b < i.branches.size(); ++b) {
          if (b > 0) Visit(*i.branches[b].test);
          Visit(i.branches[b].body);
        }
        Visit(i.otherwise);
        symbols_.MergeBranches(before);
        return;
      }
      case StmtKind::kFor:
        Visit(*static_cast<ForStmt&>(s).iterable);
        return;
      case StmtKind::kSet:
        Visit(*static_cast<SetStmt&>(s).value);
        Visit(*static_cast<SetStmt&>(s).target);
        return;
      case StmtKind::kSetBlock:
        Visit(*static_cast<SetBlockStmt&>(s).target);
        return;
      case StmtKind::kMacro:
        symbols_.AddStore(static_cast<MacroStmt&>(s).name->name);
        return;
      case StmtKind::kCallBlock:
        Visit(*static_cast<CallBlockStmt&>(s).call);
        return;
      case StmtKind::kFilterBlock:
        Visit(*static_cast<FilterBlockStmt&>(s).filter);
        return;
      case StmtKind::kWith:
        for (const ExprPtr& v : static_cast<WithStmt&>(s).values) Visit(*v);
        return;
      case StmtKind::kGeneration:
      case StmtKind::kBlock:
      case StmtKind::kBreak:
      case StmtKind::kContinue:
        return;
    }
  }

 private:
  Symbols& symbols_;
};

struct Frame {
  Symbols* symbols;
  bool toplevel = false;
  bool soft = false;  ///< within an if: unknown filters are errors only when used
  Frame Soft() const { return {symbols, toplevel, true}; }
};

/// Walks the tree as jinja2's code generator does and fills in the references.
class Resolver {
 public:
  explicit Resolver(int& line) : line_(line) {}

  void Template(TemplateTree& tree) {
    if (Undeclared(tree.body, {"self"}).Has("self"))
      Unsupported("the variable 'self' is not supported in chat templates");
    Function function(nullptr);
    Symbols symbols(nullptr, &function);
    Analyzer(symbols).Visit(tree.body);
    tree.frame = symbols.Frame();
    Resolve(tree.body, {&symbols, true});
    tree.function = function.Info();
  }

 private:
  void Resolve(const Body& body, const Frame& frame) {
    for (const StmtPtr& s : body) {
      line_ = s->line;
      Resolve(*s, frame);
    }
  }

  VarRef Reference(const std::string& name, const Frame& frame) {
    const auto ref = frame.symbols->Find(name);
    if (!ref) Fail("the name '", name, "' cannot be used here");
    return *ref;
  }

  void Resolve(Expr& e, const Frame& frame) {
    switch (e.kind) {
      case ExprKind::kName: {
        auto& n = static_cast<NameExpr&>(e);
        if (n.use == NameUse::kStore && n.name == "loop" && for_depth_ > 0) {
          Fail("Can't assign to special loop variable in for-loop target");
        }
        n.ref = Reference(n.name, frame);
        n.parameter = frame.symbols->IsParameter(n.name);
        return;
      }
      case ExprKind::kNsRef: {
        auto& n = static_cast<NsRefExpr&>(e);
        n.ref = Reference(n.name, frame);
        return;
      }
      case ExprKind::kCond: {
        const Frame soft = frame.Soft();
        ForEachChild(e, [&](Expr& child) { Resolve(child, soft); });
        return;
      }
      case ExprKind::kFilter:
      case ExprKind::kTest: {
        auto& f = static_cast<FilterExpr&>(e);
        const bool filter = e.kind == ExprKind::kFilter;
        f.code = filter ? FindFilter(f.name) : FindTest(f.name);
        if (f.code == nullptr && !frame.soft) {
          line_ = e.line;
          Fail("No ", filter ? "filter" : "test", " named ", StringRepr(f.name), ".");
        }
        break;
      }
      default:
        break;
    }
    ForEachChild(e, [&](Expr& child) { Resolve(child, frame); });
  }

  void ResolveMacro(MacroBody& m, const Frame& frame) {
    Function function(frame.symbols->function());
    Symbols symbols(frame.symbols, &function);
    const auto analyze = [&] {
      Analyzer analyzer(symbols);
      for (const auto& p : m.parameters) analyzer.Visit(*p);
      for (const ExprPtr& d : m.defaults) analyzer.Visit(*d);
      analyzer.Visit(m.body);
    };
    analyze();
    const Undeclared undeclared(m.body, {"caller", "kwargs", "varargs"});
    const auto has_parameter = [&](const char* name) {
      for (const auto& p : m.parameters) {
        if (p->name == name) return true;
      }
      return false;
    };
    m.explicit_caller = has_parameter("caller");
    if (undeclared.Has("caller")) {
      if (m.explicit_caller) {
        size_t at = 0;
        while (m.parameters[at]->name != "caller") ++at;
        if (m.parameters.size() - at > m.defaults.size()) {
          Fail("the special \"caller\" argument of a macro must be omitted or be given a default");
        }
      } else {
        m.caller_slot = symbols.AddParameter("caller");
      }
      m.uses_caller = true;
    }
    if (undeclared.Has("kwargs") && !has_parameter("kwargs")) {
      m.kwargs_slot = symbols.AddParameter("kwargs");
      m.uses_kwargs = true;
    }
    if (undeclared.Has("varargs") && !has_parameter("varargs")) {
      m.varargs_slot = symbols.AddParameter("varargs");
      m.uses_varargs = true;
    }
    analyze();
    m.frame = symbols.Frame();
    const Frame inner{&symbols};
    for (const auto& p : m.parameters) Resolve(*p, inner);
    for (const ExprPtr& d : m.defaults) Resolve(*d, inner);
    Resolve(m.body, inner);
    m.function = function.Info();
  }

  void ResolveFor(ForStmt& f, const Frame& frame) {
    f.extended = f.recursive || Undeclared(f.body, {"loop"}).Has("loop");
    Function* around = frame.symbols->function();
    Function own(around);
    Function* function = f.recursive ? &own : around;
    Symbols body(frame.symbols, function), otherwise(frame.symbols, function);
    if (f.extended) f.loop_slot = body.AddParameter("loop");
    Analyzer body_analyzer(body);
    body_analyzer.Visit(*f.target, true);
    body_analyzer.Visit(f.body);
    Analyzer(otherwise).Visit(f.otherwise);
    Resolve(*f.iterable, frame);
    ++for_depth_;
    if (f.test != nullptr) {
      Function test_function(around);
      Symbols test(frame.symbols, &test_function);
      Analyzer test_analyzer(test);
      test_analyzer.Visit(*f.test_target, true);
      test_analyzer.Visit(*f.test);
      f.test_frame = test.Frame();
      Resolve(*f.test_target, {&test});
      Resolve(*f.test, {&test});
      f.test_function = test_function.Info();
    }
    f.body_frame = body.Frame();
    Resolve(*f.target, {&body});
    Resolve(f.body, {&body});
    f.else_frame = otherwise.Frame();
    Resolve(f.otherwise, {&otherwise});
    --for_depth_;
    f.function = own.Info();
  }

  static void CollectNames(const Expr& e, std::vector<const NameExpr*>& out) {
    if (e.kind == ExprKind::kName) out.push_back(static_cast<const NameExpr*>(&e));
    if (e.kind != ExprKind::kTuple) return;
    for (const ExprPtr& item : static_cast<const ListExpr&>(e).items) CollectNames(*item, out);
  }

  void Resolve(Stmt& s, const Frame& frame) {
    switch (s.kind) {
      case StmtKind::kOutput:
        for (const ExprPtr& e : static_cast<OutputStmt&>(s).items) Resolve(*e, frame);
        return;
      case StmtKind::kIf: {
        const Frame soft = frame.Soft();
        for (const auto& b : static_cast<IfStmt&>(s).branches) {
          Resolve(*b.test, soft);
          Resolve(b.body, soft);
        }
        Resolve(static_cast<IfStmt&>(s).otherwise, soft);
        return;
      }
      case StmtKind::kFor:
        ResolveFor(static_cast<ForStmt&>(s), frame);
        return;
      case StmtKind::kSet: {
        auto& set = static_cast<SetStmt&>(s);
        Resolve(*set.target, frame);
        Resolve(*set.value, frame);
        if (frame.toplevel) CollectNames(*set.target, set.exported);
        return;
      }
      case StmtKind::kSetBlock: {
        auto& set = static_cast<SetBlockStmt&>(s);
        Symbols inner(frame.symbols, frame.symbols->function());
        Analyzer(inner).Visit(set.body);
        set.frame = inner.Frame();
        Resolve(set.body, {&inner});
        Resolve(*set.target, frame);
        if (set.filter != nullptr) Resolve(*set.filter, {&inner});
        if (frame.toplevel) CollectNames(*set.target, set.exported);
        return;
      }
      case StmtKind::kMacro: {
        auto& m = static_cast<MacroStmt&>(s);
        ResolveMacro(m.macro, frame);
        m.name->ref = Reference(m.name->name, frame);
        m.exported = frame.toplevel;
        return;
      }
      case StmtKind::kCallBlock:
      case StmtKind::kGeneration: {
        auto& c = static_cast<CallBlockStmt&>(s);
        ResolveMacro(c.macro, frame);
        if (c.call != nullptr) Resolve(*c.call, frame);
        return;
      }
      case StmtKind::kFilterBlock: {
        auto& f = static_cast<FilterBlockStmt&>(s);
        Symbols inner(frame.symbols, frame.symbols->function());
        Analyzer analyzer(inner);
        analyzer.Visit(f.body);
        analyzer.Visit(*f.filter);
        f.frame = inner.Frame();
        Resolve(f.body, {&inner});
        Resolve(*f.filter, {&inner});
        return;
      }
      case StmtKind::kWith: {
        auto& w = static_cast<WithStmt&>(s);
        Symbols inner(frame.symbols, frame.symbols->function());
        Analyzer analyzer(inner);
        for (const ExprPtr& t : w.targets) analyzer.Visit(*t);
        analyzer.Visit(w.body);
        w.frame = inner.Frame();
        for (const ExprPtr& t : w.targets) Resolve(*t, {&inner});
        for (const ExprPtr& v : w.values) Resolve(*v, frame);
        Resolve(w.body, {&inner});
        return;
      }
      case StmtKind::kBlock: {
        auto& b = static_cast<BlockStmt&>(s);
        const Undeclared undeclared(b.body, {"self", "super"});
        if (undeclared.Has("self") || undeclared.Has("super")) {
          Unsupported("'self' and 'super' are not supported in chat templates");
        }
        Function function(nullptr);
        Symbols symbols(nullptr, &function);
        Analyzer(symbols).Visit(b.body);
        b.frame = symbols.Frame();
        Resolve(b.body, {&symbols});
        b.function = function.Info();
        return;
      }
      case StmtKind::kBreak:
      case StmtKind::kContinue:
        return;
    }
  }

  int& line_;
  int for_depth_ = 0;
};

}  // namespace

void ResolveScopes(TemplateTree& tree, int& line) {
  Resolver(line).Template(tree);
}

}  // namespace ullage::llm::jinja
