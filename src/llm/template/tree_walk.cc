#include "llm/template/tree_walk.h"

namespace ullage::llm::jinja {

void Undeclared::Visit(const Body& body) {
  for (const StmtPtr& s : body) Visit(*s);
}
void Undeclared::Visit(Expr& e) {
  if (e.kind == ExprKind::kName) {
    const auto& n = static_cast<const NameExpr&>(e);
    if (n.use == NameUse::kLoad && names_.contains(n.name)) {
      found_.insert(n.name);
    } else {
      names_.erase(n.name);
    }
  }
  ForEachChild(e, [&](Expr& child) { Visit(child); });
}
void Undeclared::VisitMacro(const MacroBody& m) {
  for (const auto& p : m.parameters) Visit(*p);
  for (const ExprPtr& d : m.defaults) Visit(*d);
  Visit(m.body);
}
void Undeclared::Visit(Stmt& s) {
  switch (s.kind) {
    case StmtKind::kOutput:
      for (const ExprPtr& e : static_cast<OutputStmt&>(s).items) Visit(*e);
      return;
    case StmtKind::kIf:
      for (const auto& b : static_cast<IfStmt&>(s).branches) {
        Visit(*b.test);
        Visit(b.body);
      }
      Visit(static_cast<IfStmt&>(s).otherwise);
      return;
    case StmtKind::kFor: {
      auto& f = static_cast<ForStmt&>(s);
      Visit(*f.target);
      Visit(*f.iterable);
      Visit(f.body);
      Visit(f.otherwise);
      if (f.test != nullptr) Visit(*f.test);
      return;
    }
    case StmtKind::kSet:
      Visit(*static_cast<SetStmt&>(s).target);
      Visit(*static_cast<SetStmt&>(s).value);
      return;
    case StmtKind::kSetBlock: {
      auto& b = static_cast<SetBlockStmt&>(s);
      Visit(*b.target);
      if (b.filter != nullptr) Visit(*b.filter);
      Visit(b.body);
      return;
    }
    case StmtKind::kMacro:
      VisitMacro(static_cast<MacroStmt&>(s).macro);
      return;
    case StmtKind::kCallBlock:
    case StmtKind::kGeneration: {
      auto& c = static_cast<CallBlockStmt&>(s);
      if (c.call != nullptr) Visit(*c.call);
      VisitMacro(c.macro);
      return;
    }
    case StmtKind::kFilterBlock:
      Visit(static_cast<FilterBlockStmt&>(s).body);
      Visit(*static_cast<FilterBlockStmt&>(s).filter);
      return;
    case StmtKind::kWith: {
      auto& w = static_cast<WithStmt&>(s);
      for (const ExprPtr& t : w.targets) Visit(*t);
      for (const ExprPtr& v : w.values) Visit(*v);
      Visit(w.body);
      return;
    }
    case StmtKind::kBlock:
    case StmtKind::kBreak:
    case StmtKind::kContinue:
      return;
  }
}

}  // namespace ullage::llm::jinja
