/// Executes a resolved tree. One interpreter per render.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "llm/template/ast.h"
#include "llm/template/runtime.h"

namespace ullage::llm::jinja {

/// The variables of one call. Closures keep the activations around them alive.
struct Activation : CyclicObject {
  ~Activation() override { Activation::Clear(); }
  void Clear() override { Discard(std::move(slots)); }
  std::vector<Value> slots;
  std::shared_ptr<Activation> parent;
};

struct MacroObject : Object {
  const MacroBody* macro = nullptr;
  std::shared_ptr<Activation> closure;
};

struct LoopObject : CyclicObject {
  ~LoopObject() override { LoopObject::Clear(); }
  void Clear() override;
  Value iterable, after, current, before, last_changed;
  std::shared_ptr<IteratorObject> iterator;
  int64_t index0 = -1;
  int64_t length = -1;  ///< -1: not known yet
  int64_t depth0 = 0;
  const ForStmt* recursive = nullptr;
  std::shared_ptr<Activation> closure;  ///< of a recursive loop
};

class Interpreter {
 public:
  Interpreter(Runtime& rt, const TemplateTree& tree, std::shared_ptr<DictObject> variables)
      : rt_(rt), tree_(tree), variables_(std::move(variables)) {
    rt_.interpreter = this;
  }
  std::string Run();

  /// Calls a macro.
  Value Call(const MacroObject& macro, Args args);
  /// Renders a recursive loop over `iterable`.
  Value CallLoop(const ForStmt& loop, const std::shared_ptr<Activation>& closure, const Value& iterable,
                 int64_t depth0);
  /// Next item that passes the loop's test; for the iterator of a filtered loop.
  Value NextPassing(const ForStmt& loop, IteratorObject& source,
                    const std::shared_ptr<Activation>& test_activation);
  void EnterFrame(const FrameInfo& frame, Activation& a);

 private:
  enum class Flow : uint8_t { kNormal, kBreak, kContinue };
  using ActivationPtr = std::shared_ptr<Activation>;

  ActivationPtr NewActivation(const FunctionInfo& info, ActivationPtr parent);
  static void LeaveFrame(const FrameInfo& frame, Activation& a);
  static Value& Slot(Activation& a, VarRef ref);
  Value Resolve(const std::string& name);

  // Statements (interpreter.cc)
  Flow Exec(const Body& body, const ActivationPtr& a, Buffer& out);
  Flow Exec(const Stmt& s, const ActivationPtr& a, Buffer& out);
  void Output(const OutputStmt& s, const ActivationPtr& a, Buffer& out);
  Flow If(const IfStmt& s, const ActivationPtr& a, Buffer& out);
  Flow For(const ForStmt& s, const ActivationPtr& a, Buffer& out);
  /// The loop itself, in the activation of its body.
  Flow Iterate(const ForStmt& s, const Value& iterable, const ActivationPtr& outer, const ActivationPtr& a,
               int64_t depth0, Buffer& out);
  void SetVariable(const SetStmt& s, const ActivationPtr& a);
  Flow SetBlock(const SetBlockStmt& s, const ActivationPtr& a);
  Value MakeMacro(const MacroBody& macro, const ActivationPtr& a);
  void CallBlock(const CallBlockStmt& s, const ActivationPtr& a, Buffer& out);
  Flow FilterBlock(const FilterBlockStmt& s, const ActivationPtr& a, Buffer& out);
  Flow With(const WithStmt& s, const ActivationPtr& a, Buffer& out);
  void Block(const BlockStmt& s, Buffer& out);
  void Assign(const Expr& target, const Value& value, Activation& a);
  void AssignNamespace(const NsRefExpr& target, const Value& value, Activation& a);
  void Export(const std::vector<const NameExpr*>& names, Activation& a);
  std::string RunMacro(const MacroBody& macro, const ActivationPtr& a);

  // Expressions (eval.cc)
  Value Eval(const Expr& e, const ActivationPtr& a);
  Value EvalName(const NameExpr& e, Activation& a);
  Value EvalUnary(const UnaryExpr& e, const ActivationPtr& a);
  Value EvalBinary(const BinaryExpr& e, const ActivationPtr& a);
  Value EvalCompare(const CompareExpr& e, const ActivationPtr& a);
  Value EvalConcat(const ListExpr& e, const ActivationPtr& a);
  Value EvalSequence(const ListExpr& e, const ActivationPtr& a);
  Value EvalDict(const DictExpr& e, const ActivationPtr& a);
  Value EvalCond(const CondExpr& e, const ActivationPtr& a);
  Value EvalGetitem(const GetitemExpr& e, const ActivationPtr& a);
  Value EvalCall(const CallExpr& e, const ActivationPtr& a, const Value* caller);
  Value EvalFilter(const FilterExpr& e, const ActivationPtr& a);
  Args EvalArgs(const CallArgs& args, const ActivationPtr& a);

  Runtime& rt_;
  const TemplateTree& tree_;
  std::shared_ptr<DictObject> variables_;
  std::unordered_map<std::string, Value> exported_;  ///< what blocks see
  std::unordered_map<std::string, Value> globals_;
  const Value* block_text_ = nullptr;  ///< input of the innermost filter of a filter or set block
  int call_depth_ = 0;
};

// Loop and macro objects as values (loop.cc)
int64_t LoopIndex(const Value& loop);
int64_t LoopLength(Runtime& rt, const Value& loop);
std::string MacroRepr(const Value& macro);
/// Missing if there is no such attribute.
Value LoopAttribute(Runtime& rt, const Value& loop, std::string_view name);
Value MacroAttribute(Runtime& rt, const Value& macro, std::string_view name);

}  // namespace ullage::llm::jinja
