/// Walking over syntax trees.
#pragma once

#include <string>
#include <unordered_set>

#include "llm/template/ast.h"

namespace ullage::llm::jinja {

/// Calls `visit` for the direct children of an expression, in jinja2's order.
template <class Visit>
void ForEachArgument(const CallArgs& args, Visit visit) {
  for (const ExprPtr& a : args.positional) visit(*a);
  for (const auto& a : args.named) visit(*a.second);
  if (args.star != nullptr) visit(*args.star);
  if (args.double_star != nullptr) visit(*args.double_star);
}

template <class Visit>
void ForEachChild(Expr& e, Visit visit) {
  const auto maybe = [&](const ExprPtr& child) {
    if (child != nullptr) visit(*child);
  };
  switch (e.kind) {
    case ExprKind::kConst:
    case ExprKind::kTemplateData:
    case ExprKind::kName:
    case ExprKind::kNsRef:
      return;
    case ExprKind::kTuple:
    case ExprKind::kList:
    case ExprKind::kConcat:
      for (const ExprPtr& i : static_cast<ListExpr&>(e).items) visit(*i);
      return;
    case ExprKind::kDict:
      for (const auto& [key, value] : static_cast<DictExpr&>(e).items) {
        visit(*key);
        visit(*value);
      }
      return;
    case ExprKind::kUnary:
    case ExprKind::kNot:
      visit(*static_cast<UnaryExpr&>(e).operand);
      return;
    case ExprKind::kBinary:
    case ExprKind::kAnd:
    case ExprKind::kOr:
      visit(*static_cast<BinaryExpr&>(e).left);
      visit(*static_cast<BinaryExpr&>(e).right);
      return;
    case ExprKind::kCompare:
      visit(*static_cast<CompareExpr&>(e).first);
      for (const auto& operand : static_cast<CompareExpr&>(e).rest) visit(*operand.second);
      return;
    case ExprKind::kCond: {
      auto& c = static_cast<CondExpr&>(e);
      visit(*c.test);
      visit(*c.yes);
      maybe(c.no);
      return;
    }
    case ExprKind::kGetattr:
      visit(*static_cast<GetattrExpr&>(e).object);
      return;
    case ExprKind::kGetitem:
      visit(*static_cast<GetitemExpr&>(e).object);
      visit(*static_cast<GetitemExpr&>(e).key);
      return;
    case ExprKind::kSlice: {
      auto& s = static_cast<SliceExpr&>(e);
      maybe(s.start);
      maybe(s.stop);
      maybe(s.step);
      return;
    }
    case ExprKind::kCall:
      visit(*static_cast<CallExpr&>(e).callee);
      ForEachArgument(static_cast<CallExpr&>(e).args, visit);
      return;
    case ExprKind::kFilter:
    case ExprKind::kTest:
      maybe(static_cast<FilterExpr&>(e).input);
      ForEachArgument(static_cast<FilterExpr&>(e).args, visit);
      return;
  }
}

/// Finds which of some names are read before anything in the same stretch of code assigns them.
class Undeclared {
 public:
  Undeclared(const Body& body, std::unordered_set<std::string> names) : names_(std::move(names)) {
    Visit(body);
  }
  bool Has(const char* name) const { return found_.contains(name); }

 private:
  void Visit(const Body& body);
  void Visit(Expr& e);
  void Visit(Stmt& s);
  void VisitMacro(const MacroBody& m);

  std::unordered_set<std::string> names_, found_;
};

}  // namespace ullage::llm::jinja
