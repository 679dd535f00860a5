/// The syntax tree of a template, immutable once parsed and resolved.
/// Variables live in slots of activations (one per call of the root, a macro, a call block, a recursive loop
/// or a loop filter); scope.cc assigns the slots and the actions that begin each frame, following jinja2's
/// scoping rules.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "llm/template/runtime.h"
#include "llm/template/value.h"

namespace ullage::llm::jinja {

/// A slot of the activation `hops` calls outwards.
struct VarRef {
  int hops = 0;
  int slot = -1;
};

enum class ExprKind : uint8_t {
  kConst,
  kName,
  kNsRef,
  kTuple,
  kList,
  kDict,
  kUnary,
  kBinary,
  kAnd,
  kOr,
  kNot,
  kCompare,
  kConcat,
  kCond,
  kGetattr,
  kGetitem,
  kSlice,
  kCall,
  kFilter,
  kTest,
  kTemplateData,
};

struct Expr {
  Expr(ExprKind k, int l) : kind(k), line(l) {}
  virtual ~Expr() = default;
  const ExprKind kind;
  int line;
  int height = 1;  ///< of the tree; bounded by the parser
};
using ExprPtr = std::unique_ptr<Expr>;
using ExprList = std::vector<ExprPtr>;

struct ConstExpr : Expr {
  ConstExpr(Value v, int l) : Expr(ExprKind::kConst, l), value(std::move(v)) {}
  Value value;
};
struct DataExpr : Expr {
  DataExpr(std::string t, int l) : Expr(ExprKind::kTemplateData, l), text(std::move(t)) {}
  std::string text;
};
enum class NameUse : uint8_t { kLoad, kStore, kParam };
struct NameExpr : Expr {
  NameExpr(std::string n, NameUse u, int l) : Expr(ExprKind::kName, l), name(std::move(n)), use(u) {}
  std::string name;
  NameUse use;
  VarRef ref;
  bool parameter = false;  ///< what is read is a loop variable, a macro parameter or the like
};
struct NsRefExpr : Expr {
  NsRefExpr(std::string n, std::string a, int l)
      : Expr(ExprKind::kNsRef, l), name(std::move(n)), attribute(std::move(a)) {}
  std::string name, attribute;
  VarRef ref;
};
/// Tuple, List, Concat
struct ListExpr : Expr {
  ListExpr(ExprKind k, ExprList i, int l) : Expr(k, l), items(std::move(i)) {}
  ExprList items;
};
struct DictExpr : Expr {
  explicit DictExpr(int l) : Expr(ExprKind::kDict, l) {}
  std::vector<std::pair<ExprPtr, ExprPtr>> items;
};
/// Negative, Positive (kUnary) and Not
struct UnaryExpr : Expr {
  UnaryExpr(ExprKind k, bool n, ExprPtr o, int l) : Expr(k, l), negative(n), operand(std::move(o)) {}
  bool negative;
  ExprPtr operand;
};
/// Arithmetic, And, Or
struct BinaryExpr : Expr {
  BinaryExpr(ExprKind k, BinaryOp o, ExprPtr a, ExprPtr b, int l)
      : Expr(k, l), op(o), left(std::move(a)), right(std::move(b)) {}
  BinaryOp op;
  ExprPtr left, right;
};
enum class CompareOp : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };
struct CompareExpr : Expr {
  CompareExpr(ExprPtr f, int l) : Expr(ExprKind::kCompare, l), first(std::move(f)) {}
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};
struct CondExpr : Expr {
  CondExpr(ExprPtr t, ExprPtr y, ExprPtr n, int l)
      : Expr(ExprKind::kCond, l), test(std::move(t)), yes(std::move(y)), no(std::move(n)) {}
  ExprPtr test, yes, no;  ///< no may be null
};
struct GetattrExpr : Expr {
  GetattrExpr(ExprPtr o, std::string a, int l)
      : Expr(ExprKind::kGetattr, l), object(std::move(o)), attribute(std::move(a)) {}
  ExprPtr object;
  std::string attribute;
};
struct GetitemExpr : Expr {
  GetitemExpr(ExprPtr o, ExprPtr k, int l)
      : Expr(ExprKind::kGetitem, l), object(std::move(o)), key(std::move(k)) {}
  ExprPtr object, key;
};
struct SliceExpr : Expr {
  explicit SliceExpr(int l) : Expr(ExprKind::kSlice, l) {}
  ExprPtr start, stop, step;  ///< may be null
};
struct CallArgs {
  ExprList positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star, double_star;
};
struct CallExpr : Expr {
  CallExpr(ExprPtr c, CallArgs a, int l)
      : Expr(ExprKind::kCall, l), callee(std::move(c)), args(std::move(a)) {}
  ExprPtr callee;
  CallArgs args;
};
/// Filter and Test; the input of a filter block's innermost filter is null.
struct FilterExpr : Expr {
  FilterExpr(ExprKind k, ExprPtr i, std::string n, CallArgs a, int l)
      : Expr(k, l), input(std::move(i)), name(std::move(n)), args(std::move(a)) {}
  ExprPtr input;
  std::string name;
  CallArgs args;
  FunctionObject::Code code = nullptr;  ///< null: unknown, an error when evaluated
};

enum class StmtKind : uint8_t {
  kOutput,
  kIf,
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kGeneration,
  kFilterBlock,
  kWith,
  kBlock,
  kBreak,
  kContinue,
};

struct Stmt {
  Stmt(StmtKind k, int l) : kind(k), line(l) {}
  virtual ~Stmt() = default;
  const StmtKind kind;
  int line;
};
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

/// What happens to a slot when its frame begins.
struct Load {
  enum Action : uint8_t { kParameter, kResolve, kAlias, kUndefined };
  Action action = kUndefined;
  int slot = 0;
  VarRef from;       ///< kAlias
  std::string name;  ///< kResolve
};
struct FrameInfo {
  std::vector<Load> loads;
};
/// The slots of one kind of activation.
struct FunctionInfo {
  int slots = 0;
};

struct OutputStmt : Stmt {
  explicit OutputStmt(int l) : Stmt(StmtKind::kOutput, l) {}
  ExprList items;
};
struct IfStmt : Stmt {
  explicit IfStmt(int l) : Stmt(StmtKind::kIf, l) {}
  struct Branch {
    ExprPtr test;
    Body body;
    int line;
  };
  std::vector<Branch> branches;  ///< if and elifs
  Body otherwise;
};
struct ForStmt : Stmt {
  explicit ForStmt(int l) : Stmt(StmtKind::kFor, l) {}
  ExprPtr target, iterable, test;  ///< test may be null
  ExprPtr test_target;             ///< the target again, in the activation of the test
  Body body, otherwise;
  bool recursive = false;
  bool extended = false;  ///< the body uses `loop`
  int loop_slot = -1;
  FrameInfo body_frame, else_frame, test_frame;
  FunctionInfo test_function;
  FunctionInfo function;  ///< of a recursive loop
};
struct SetStmt : Stmt {
  explicit SetStmt(int l) : Stmt(StmtKind::kSet, l) {}
  ExprPtr target, value;
  std::vector<const NsRefExpr*> namespaces;  ///< those in the target
  std::vector<const NameExpr*> exported;     ///< names set at top level
};
struct SetBlockStmt : Stmt {
  explicit SetBlockStmt(int l) : Stmt(StmtKind::kSetBlock, l) {}
  ExprPtr target, filter;  ///< filter may be null
  Body body;
  std::vector<const NameExpr*> exported;
  FrameInfo frame;
};
/// The body of a macro, a call block or a generation block.
struct MacroBody {
  std::string name;
  bool anonymous = true;
  std::vector<std::unique_ptr<NameExpr>> parameters;
  ExprList defaults;  ///< of the last parameters
  Body body;
  bool uses_caller = false, uses_kwargs = false, uses_varargs = false, explicit_caller = false;
  int caller_slot = -1, kwargs_slot = -1, varargs_slot = -1;
  FrameInfo frame;
  FunctionInfo function;
};
struct MacroStmt : Stmt {
  explicit MacroStmt(int l) : Stmt(StmtKind::kMacro, l) {}
  std::unique_ptr<NameExpr> name;
  MacroBody macro;
  bool exported = false;
};
struct CallBlockStmt : Stmt {
  CallBlockStmt(StmtKind k, int l) : Stmt(k, l) {}
  std::unique_ptr<CallExpr> call;  ///< null for a generation block
  MacroBody macro;
};
struct FilterBlockStmt : Stmt {
  explicit FilterBlockStmt(int l) : Stmt(StmtKind::kFilterBlock, l) {}
  ExprPtr filter;
  Body body;
  FrameInfo frame;
};
struct WithStmt : Stmt {
  explicit WithStmt(int l) : Stmt(StmtKind::kWith, l) {}
  ExprList targets, values;
  Body body;
  FrameInfo frame;
};
struct BlockStmt : Stmt {
  explicit BlockStmt(int l) : Stmt(StmtKind::kBlock, l) {}
  std::string name;
  Body body;
  FrameInfo frame;
  FunctionInfo function;
};
struct JumpStmt : Stmt {
  using Stmt::Stmt;
};

struct TemplateTree {
  Body body;
  FrameInfo frame;
  FunctionInfo function;
  bool has_blocks = false;
};

/// Parses `source` (well-formed UTF-8). Errors are thrown without a line; `line` is where the parser stood.
TemplateTree ParseTemplate(std::string_view source, int& line);
/// Assigns slots, checks filters and tests, finds what uses `loop`, `caller`, `varargs`, `kwargs`.
void ResolveScopes(TemplateTree& tree, int& line);

}  // namespace ullage::llm::jinja
