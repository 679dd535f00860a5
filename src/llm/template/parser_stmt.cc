#include <algorithm>

#include "llm/template/parser.h"

namespace ullage::llm::jinja {
namespace {

/// A copy of an assignment target.
ExprPtr CloneTarget(const Expr& e) {
  if (e.kind == ExprKind::kName) {
    const auto& n = static_cast<const NameExpr&>(e);
    return std::make_unique<NameExpr>(n.name, n.use, n.line);
  }
  if (e.kind == ExprKind::kNsRef) {
    const auto& n = static_cast<const NsRefExpr&>(e);
    return std::make_unique<NsRefExpr>(n.name, n.attribute, n.line);
  }
  auto tuple = std::make_unique<ListExpr>(ExprKind::kTuple, ExprList(), e.line);
  for (const ExprPtr& item : static_cast<const ListExpr&>(e).items)
    tuple->items.push_back(CloneTarget(*item));
  tuple->height = e.height;
  return tuple;
}

void CollectNamespaces(const Expr& e, std::vector<const NsRefExpr*>& out) {
  if (e.kind == ExprKind::kNsRef) out.push_back(static_cast<const NsRefExpr*>(&e));
  if (e.kind != ExprKind::kTuple) return;
  for (const ExprPtr& item : static_cast<const ListExpr&>(e).items) CollectNamespaces(*item, out);
}

}  // namespace

/// The loops that break and continue may refer to, for the lifetime of the object.
struct Parser::LoopScope {
  LoopScope(Parser& p, int loops) : parser(p), before(p.loops_) { p.loops_ = loops; }
  ~LoopScope() { parser.loops_ = before; }
  Parser& parser;
  int before;
};

TemplateTree Parser::Parse() {
  TemplateTree tree;
  tree.body = Subparse(nullptr);
  tree.has_blocks = !blocks_.empty();
  return tree;
}

Body Parser::Subparse(const Ends* ends) {
  const Nest nest(*this);
  Body body;
  std::unique_ptr<OutputStmt> output;
  const auto emit = [&](ExprPtr e) {
    if (output == nullptr) output = std::make_unique<OutputStmt>(e->line);
    output->items.push_back(std::move(e));
  };
  const auto flush = [&] {
    if (output != nullptr) body.push_back(std::move(output));
  };
  while (Current().kind != TokenKind::kEnd) {
    if (Current().kind == TokenKind::kData) {
      const int line = Current().line;
      emit(std::make_unique<DataExpr>(Next().text, line));
    } else if (Current().kind == TokenKind::kVariableBegin) {
      Next();
      emit(TupleOrExpression(TupleRules()));
      Expect(TokenKind::kVariableEnd, "the end of the print statement");
    } else {
      flush();
      Expect(TokenKind::kBlockBegin, "a statement");
      if (ends != nullptr &&
          std::any_of(ends->begin(), ends->end(), [&](const char* end) { return AtName(end); })) {
        return body;
      }
      body.push_back(Statement());
      Expect(TokenKind::kBlockEnd, "the end of the statement block");
    }
  }
  flush();
  return body;
}

Body Parser::Statements(Ends ends, bool drop_end) {
  SkipOperator(":");
  Expect(TokenKind::kBlockEnd, "the end of the statement block");
  Body body = Subparse(&ends);
  if (Current().kind == TokenKind::kEnd) {
    Fail("Unexpected end of template: '", *ends.begin(), "' is missing for the block '", open_tags_.back(),
         "'");
  }
  if (drop_end) Next();
  return body;
}

StmtPtr Parser::Statement() {
  if (Current().kind != TokenKind::kName) Fail("tag name expected, got ", Describe(Current()));
  const std::string tag = Current().text;
  open_tags_.push_back(tag);
  StmtPtr statement;
  if (tag == "for") {
    statement = For();
  } else if (tag == "if") {
    statement = If();
  } else if (tag == "set") {
    statement = Set();
  } else if (tag == "macro") {
    statement = Macro();
  } else if (tag == "call") {
    statement = CallBlock();
  } else if (tag == "filter") {
    statement = FilterBlock();
  } else if (tag == "with") {
    statement = With();
  } else if (tag == "print") {
    statement = Print();
  } else if (tag == "block") {
    statement = Block();
  } else if (tag == "generation") {
    statement = Generation();
  } else if (tag == "break") {
    statement = Jump(StmtKind::kBreak);
  } else if (tag == "continue") {
    statement = Jump(StmtKind::kContinue);
  } else if (tag == "extends" || tag == "include" || tag == "import" || tag == "from" ||
             tag == "autoescape") {
    Unsupported("the tag '", tag, "' is not supported in chat templates");
  } else {
    open_tags_.pop_back();
    Fail("Encountered unknown tag '", tag, "'.",
         open_tags_.empty() ? ""
                            : " The innermost block that needs to be closed is '" + open_tags_.back() + "'.");
  }
  open_tags_.pop_back();
  return statement;
}

StmtPtr Parser::For() {
  auto node = std::make_unique<ForStmt>(Next().line);
  node->target = AssignTarget(false);
  ExpectName("in");
  TupleRules rules;
  rules.with_cond = false;
  node->iterable = TupleOrExpression(rules);
  if (SkipName("if")) {
    node->test = Expression();
    node->test_target = CloneTarget(*node->target);
  }
  node->recursive = SkipName("recursive");
  const int around = node->recursive ? 0 : loops_;
  bool otherwise = false;
  {
    const LoopScope scope(*this, around + 1);
    node->body = Statements({"endfor", "else"}, false);
    otherwise = Next().text == "else";
  }
  if (otherwise) {
    const LoopScope scope(*this, around);
    node->otherwise = Statements({"endfor"}, true);
  }
  return node;
}

StmtPtr Parser::If() {
  auto node = std::make_unique<IfStmt>(Next().line);
  while (true) {
    TupleRules rules;
    rules.with_cond = false;
    IfStmt::Branch branch;
    branch.line = Current().line;
    branch.test = TupleOrExpression(rules);
    branch.body = Statements({"elif", "else", "endif"}, false);
    node->branches.push_back(std::move(branch));
    const std::string end = Next().text;
    if (end == "elif") continue;
    if (end == "else") node->otherwise = Statements({"endif"}, true);
    return node;
  }
}

StmtPtr Parser::Set() {
  const int line = Next().line;
  ExprPtr target = AssignTarget(true);
  if (SkipOperator("=")) {
    auto node = std::make_unique<SetStmt>(line);
    node->target = std::move(target);
    CollectNamespaces(*node->target, node->namespaces);
    node->value = TupleOrExpression(TupleRules());
    return node;
  }
  auto node = std::make_unique<SetBlockStmt>(line);
  node->target = std::move(target);
  node->filter = Filter(nullptr);
  node->body = Statements({"endset"}, true);
  return node;
}

void Parser::Signature(MacroBody& macro) {
  ExpectOperator("(");
  while (!AtOperator(")")) {
    if (!macro.parameters.empty()) ExpectOperator(",");
    auto name = NameTarget();
    name->use = NameUse::kParam;
    if (macro.parameters.size() >= kMaxNames) Fail("more than ", kMaxNames, " macro parameters");
    for (const auto& other : macro.parameters) {
      if (other->name == name->name) Fail("duplicate argument '", name->name, "' in a macro");
    }
    if (SkipOperator("=")) {
      macro.defaults.push_back(Expression());
    } else if (!macro.defaults.empty()) {
      Fail("non-default argument follows default argument");
    }
    macro.parameters.push_back(std::move(name));
  }
  ExpectOperator(")");
}

Body Parser::FunctionBody(const char* end) {
  const LoopScope scope(*this, 0);
  return Statements({end}, true);
}

StmtPtr Parser::Macro() {
  auto node = std::make_unique<MacroStmt>(Next().line);
  node->name = NameTarget();
  node->macro.name = node->name->name;
  node->macro.anonymous = false;
  Signature(node->macro);
  node->macro.body = FunctionBody("endmacro");
  return node;
}

StmtPtr Parser::CallBlock() {
  auto node = std::make_unique<CallBlockStmt>(StmtKind::kCallBlock, Next().line);
  if (AtOperator("(")) Signature(node->macro);
  ExprPtr call = Expression();
  if (call->kind != ExprKind::kCall) Fail("expected call");
  node->call.reset(static_cast<CallExpr*>(call.release()));
  node->macro.body = FunctionBody("endcall");
  return node;
}

StmtPtr Parser::Generation() {
  auto node = std::make_unique<CallBlockStmt>(StmtKind::kGeneration, Next().line);
  node->macro.body = FunctionBody("endgeneration");
  return node;
}

StmtPtr Parser::FilterBlock() {
  auto node = std::make_unique<FilterBlockStmt>(Next().line);
  node->filter = Filter(nullptr, true);
  node->body = Statements({"endfilter"}, true);
  return node;
}

StmtPtr Parser::With() {
  auto node = std::make_unique<WithStmt>(Next().line);
  while (Current().kind != TokenKind::kBlockEnd) {
    if (!node->targets.empty()) ExpectOperator(",");
    ExprPtr target = AssignTarget(false);
    const auto make_param = [](auto& self, Expr& e) -> void {
      if (e.kind == ExprKind::kName) static_cast<NameExpr&>(e).use = NameUse::kParam;
      if (e.kind != ExprKind::kTuple) return;
      for (const ExprPtr& item : static_cast<ListExpr&>(e).items) self(self, *item);
    };
    make_param(make_param, *target);
    node->targets.push_back(std::move(target));
    ExpectOperator("=");
    node->values.push_back(Expression());
  }
  node->body = Statements({"endwith"}, true);
  return node;
}

StmtPtr Parser::Block() {
  auto node = std::make_unique<BlockStmt>(Next().line);
  node->name = ExpectAnyName();
  if (AtName("scoped") || AtName("required")) {
    Unsupported("the block modifier '", Current().text, "' is not supported in chat templates");
  }
  if (AtOperator("-")) Fail("Block names have to be valid identifiers and may not contain hyphens");
  if (!blocks_.insert(node->name).second) Fail("block '", node->name, "' defined twice");
  node->body = FunctionBody("endblock");
  SkipName(node->name);
  return node;
}

StmtPtr Parser::Print() {
  auto node = std::make_unique<OutputStmt>(Next().line);
  while (Current().kind != TokenKind::kBlockEnd) {
    if (!node->items.empty()) ExpectOperator(",");
    node->items.push_back(Expression());
  }
  return node;
}

StmtPtr Parser::Jump(StmtKind kind) {
  const int line = Next().line;
  if (loops_ == 0) Fail("'", kind == StmtKind::kBreak ? "break" : "continue", "' outside loop");
  return std::make_unique<JumpStmt>(kind, line);
}

TemplateTree ParseTemplate(std::string_view source, int& line) {
  std::vector<Token> tokens = Tokenize(source, line);
  line = 1;
  return Parser(std::move(tokens), line).Parse();
}

}  // namespace ullage::llm::jinja
