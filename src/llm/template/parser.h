/// Recursive-descent parser from tokens to the tree of ast.h, with jinja2's grammar and precedence.
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "llm/template/ast.h"
#include "llm/template/lexer.h"

namespace ullage::llm::jinja {

class Parser {
 public:
  Parser(std::vector<Token> tokens, int& line) : tokens_(std::move(tokens)), line_(line) {}
  TemplateTree Parse();

 private:
  static constexpr int kMaxNesting = 150;    // brackets, unary operators and blocks inside each other
  static constexpr int kMaxHeight = 1000;    // of an expression tree
  static constexpr size_t kMaxNames = 1000;  // keyword arguments of a call, parameters of a macro

  /// Counts nesting for the lifetime of a recursive call.
  struct Nest {
    explicit Nest(Parser& p) : parser(p) {
      if (++parser.nesting_ > kMaxNesting) Fail("nested more than ", kMaxNesting, " levels deep");
    }
    ~Nest() { --parser.nesting_; }
    Parser& parser;
  };
  struct LoopScope;

  // Tokens (parser_expr.cc)
  const Token& Current() const { return tokens_[at_]; }
  const Token& Ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& Next();
  static bool IsOperator(const Token& t, std::string_view op) {
    return t.kind == TokenKind::kOperator && t.text == op;
  }
  static bool IsName(const Token& t, std::string_view name) {
    return t.kind == TokenKind::kName && t.text == name;
  }
  bool AtOperator(std::string_view op) const { return IsOperator(Current(), op); }
  bool AtName(std::string_view name) const { return IsName(Current(), name); }
  bool SkipOperator(std::string_view op);
  bool SkipName(std::string_view name);
  void ExpectOperator(std::string_view op);
  void ExpectName(std::string_view name);
  std::string ExpectAnyName();
  void Expect(TokenKind kind, const char* what);

  template <class T>
  std::unique_ptr<T> Grown(std::unique_ptr<T> node, std::initializer_list<const Expr*> children);
  static void Raise(int& height, const Expr* child);
  static void Raise(int& height, const CallArgs& args);

  // Expressions (parser_expr.cc)
  struct TupleRules {
    bool with_cond = true, explicit_parentheses = false, simplified = false, with_namespace = false;
  };
  ExprPtr Expression(bool with_cond = true);
  ExprPtr Conditional();
  ExprPtr Or();
  ExprPtr And();
  ExprPtr Not();
  ExprPtr Comparison();
  ExprPtr Sum();
  ExprPtr Concat();
  ExprPtr Product();
  ExprPtr Power();
  ExprPtr Unary(bool with_filter = true);
  ExprPtr Primary(bool with_namespace = false);
  ExprPtr TupleOrExpression(const TupleRules& rules);
  ExprPtr ListLiteral();
  ExprPtr DictLiteral();
  ExprPtr Postfix(ExprPtr node);
  ExprPtr FilterExpression(ExprPtr node);
  ExprPtr Subscript(ExprPtr node);
  ExprPtr Subscribed();
  ExprPtr Call(ExprPtr callee);
  CallArgs CallArguments();
  ExprPtr Filter(ExprPtr node, bool start_inline = false);
  ExprPtr Test(ExprPtr node);
  std::string DottedName();
  ExprPtr AssignTarget(bool with_namespace);
  std::unique_ptr<NameExpr> NameTarget();

  // Statements (parser_stmt.cc)
  using Ends = std::initializer_list<const char*>;
  Body Subparse(const Ends* ends);
  Body Statements(Ends ends, bool drop_end);
  StmtPtr Statement();
  StmtPtr For();
  StmtPtr If();
  StmtPtr Set();
  StmtPtr Macro();
  StmtPtr CallBlock();
  StmtPtr Generation();
  StmtPtr FilterBlock();
  StmtPtr With();
  StmtPtr Block();
  StmtPtr Print();
  StmtPtr Jump(StmtKind kind);
  void Signature(MacroBody& macro);
  Body FunctionBody(const char* end);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int& line_;
  int nesting_ = 0;
  int loops_ = 0;  ///< around this place within the same function
  std::vector<std::string> open_tags_;
  std::set<std::string> blocks_;
};

}  // namespace ullage::llm::jinja
