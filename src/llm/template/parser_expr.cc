#include <algorithm>

#include "llm/template/parser.h"

namespace ullage::llm::jinja {

const Token& Parser::Next() {
  const Token& t = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  line_ = Current().line;
  return t;
}

bool Parser::SkipOperator(std::string_view op) {
  if (!AtOperator(op)) return false;
  Next();
  return true;
}

bool Parser::SkipName(std::string_view name) {
  if (!AtName(name)) return false;
  Next();
  return true;
}

void Parser::ExpectOperator(std::string_view op) {
  if (!SkipOperator(op)) Fail("expected token '", op, "', got ", Describe(Current()));
}

void Parser::ExpectName(std::string_view name) {
  if (!SkipName(name)) Fail("expected token '", name, "', got ", Describe(Current()));
}

std::string Parser::ExpectAnyName() {
  if (Current().kind != TokenKind::kName) Fail("expected a name, got ", Describe(Current()));
  return Next().text;
}

void Parser::Expect(TokenKind kind, const char* what) {
  if (Current().kind != kind) Fail("expected ", what, ", got ", Describe(Current()));
  Next();
}

void Parser::Raise(int& height, const Expr* child) {
  if (child != nullptr) height = std::max(height, child->height + 1);
}

void Parser::Raise(int& height, const CallArgs& args) {
  for (const ExprPtr& a : args.positional) Raise(height, a.get());
  for (const auto& a : args.named) Raise(height, a.second.get());
  Raise(height, args.star.get());
  Raise(height, args.double_star.get());
}

template <class T>
std::unique_ptr<T> Parser::Grown(std::unique_ptr<T> node, std::initializer_list<const Expr*> children) {
  for (const Expr* c : children) Raise(node->height, c);
  if (node->height > kMaxHeight) Fail("an expression of more than ", kMaxHeight, " levels");
  return node;
}

ExprPtr Parser::Expression(bool with_cond) {
  const Nest nest(*this);
  return with_cond ? Conditional() : Or();
}

ExprPtr Parser::Conditional() {
  const int line = Current().line;
  ExprPtr yes = Or();
  while (SkipName("if")) {
    ExprPtr test = Or();
    ExprPtr no;
    if (SkipName("else")) {
      const Nest nest(*this);
      no = Conditional();
    }
    const Expr* children[] = {test.get(), yes.get(), no.get()};
    yes = Grown(std::make_unique<CondExpr>(std::move(test), std::move(yes), std::move(no), line),
                {children[0], children[1], children[2]});
  }
  return yes;
}

ExprPtr Parser::Or() {
  ExprPtr left = And();
  while (AtName("or")) {
    const int line = Next().line;
    ExprPtr right = And();
    const Expr *a = left.get(), *b = right.get();
    left = Grown(
        std::make_unique<BinaryExpr>(ExprKind::kOr, BinaryOp::kAdd, std::move(left), std::move(right), line),
        {a, b});
  }
  return left;
}

ExprPtr Parser::And() {
  ExprPtr left = Not();
  while (AtName("and")) {
    const int line = Next().line;
    ExprPtr right = Not();
    const Expr *a = left.get(), *b = right.get();
    left = Grown(
        std::make_unique<BinaryExpr>(ExprKind::kAnd, BinaryOp::kAdd, std::move(left), std::move(right), line),
        {a, b});
  }
  return left;
}

ExprPtr Parser::Not() {
  if (!AtName("not")) return Comparison();
  const Nest nest(*this);
  const int line = Next().line;
  ExprPtr operand = Not();
  const Expr* a = operand.get();
  return Grown(std::make_unique<UnaryExpr>(ExprKind::kNot, false, std::move(operand), line), {a});
}

ExprPtr Parser::Comparison() {
  const int line = Current().line;
  ExprPtr first = Sum();
  std::unique_ptr<CompareExpr> node;
  while (true) {
    static constexpr std::pair<const char*, CompareOp> kOps[] = {
        {"==", CompareOp::kEq}, {"!=", CompareOp::kNe}, {"<", CompareOp::kLt},
        {"<=", CompareOp::kLe}, {">", CompareOp::kGt},  {">=", CompareOp::kGe}};
    const auto* op =
        std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& o) { return AtOperator(o.first); });
    CompareOp found = CompareOp::kIn;
    if (op != std::end(kOps)) {
      found = op->second;
      Next();
    } else if (AtName("not") && IsName(Ahead(), "in")) {
      found = CompareOp::kNotIn;
      Next();
      Next();
    } else if (!SkipName("in")) {
      break;
    }
    if (node == nullptr) {
      const Expr* a = first.get();
      node = Grown(std::make_unique<CompareExpr>(std::move(first), line), {a});
    }
    ExprPtr operand = Sum();
    const Expr* b = operand.get();
    node->rest.emplace_back(found, std::move(operand));
    node = Grown(std::move(node), {b});
  }
  if (node == nullptr) return first;
  return node;
}

ExprPtr Parser::Sum() {
  ExprPtr left = Concat();
  while (AtOperator("+") || AtOperator("-")) {
    const BinaryOp op = AtOperator("+") ? BinaryOp::kAdd : BinaryOp::kSub;
    const int line = Next().line;
    ExprPtr right = Concat();
    const Expr *a = left.get(), *b = right.get();
    left = Grown(std::make_unique<BinaryExpr>(ExprKind::kBinary, op, std::move(left), std::move(right), line),
                 {a, b});
  }
  return left;
}

ExprPtr Parser::Concat() {
  const int line = Current().line;
  ExprPtr first = Product();
  if (!AtOperator("~")) return first;
  ExprList items;
  const Expr* a = first.get();
  items.push_back(std::move(first));
  auto node = Grown(std::make_unique<ListExpr>(ExprKind::kConcat, std::move(items), line), {a});
  while (SkipOperator("~")) {
    ExprPtr item = Product();
    const Expr* b = item.get();
    node->items.push_back(std::move(item));
    node = Grown(std::move(node), {b});
  }
  return node;
}

ExprPtr Parser::Product() {
  ExprPtr left = Power();
  while (true) {
    static constexpr std::pair<const char*, BinaryOp> kOps[] = {
        {"*", BinaryOp::kMul}, {"/", BinaryOp::kDiv}, {"//", BinaryOp::kFloorDiv}, {"%", BinaryOp::kMod}};
    const auto* op =
        std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& o) { return AtOperator(o.first); });
    if (op == std::end(kOps)) return left;
    const int line = Next().line;
    ExprPtr right = Power();
    const Expr *a = left.get(), *b = right.get();
    left = Grown(
        std::make_unique<BinaryExpr>(ExprKind::kBinary, op->second, std::move(left), std::move(right), line),
        {a, b});
  }
}

ExprPtr Parser::Power() {
  ExprPtr left = Unary();
  while (AtOperator("**")) {
    const int line = Next().line;
    ExprPtr right = Unary();
    const Expr *a = left.get(), *b = right.get();
    left = Grown(std::make_unique<BinaryExpr>(ExprKind::kBinary, BinaryOp::kPow, std::move(left),
                                              std::move(right), line),
                 {a, b});
  }
  return left;
}

ExprPtr Parser::Unary(bool with_filter) {
  ExprPtr node;
  if (AtOperator("-") || AtOperator("+")) {
    const Nest nest(*this);
    const bool negative = AtOperator("-");
    const int line = Next().line;
    ExprPtr operand = Unary(false);
    const Expr* a = operand.get();
    node = Grown(std::make_unique<UnaryExpr>(ExprKind::kUnary, negative, std::move(operand), line), {a});
  } else {
    node = Primary();
  }
  node = Postfix(std::move(node));
  return with_filter ? FilterExpression(std::move(node)) : std::move(node);
}

ExprPtr Parser::Primary(bool with_namespace) {
  const int line = Current().line;
  switch (Current().kind) {
    case TokenKind::kName: {
      const std::string name = Next().text;
      if (name == "true" || name == "True") return std::make_unique<ConstExpr>(Value::Bool(true), line);
      if (name == "false" || name == "False") return std::make_unique<ConstExpr>(Value::Bool(false), line);
      if (name == "none" || name == "None") return std::make_unique<ConstExpr>(Value::None(), line);
      if (with_namespace && SkipOperator("."))
        return std::make_unique<NsRefExpr>(name, ExpectAnyName(), line);
      return std::make_unique<NameExpr>(name, NameUse::kLoad, line);
    }
    case TokenKind::kString: {
      std::string text = Next().text;
      while (Current().kind == TokenKind::kString) text += Next().text;
      return std::make_unique<ConstExpr>(
          Value(Kind::kString, std::make_shared<StringObject>(std::move(text), false)), line);
    }
    case TokenKind::kInteger:
      return std::make_unique<ConstExpr>(Value::Int(Next().integer), line);
    case TokenKind::kFloat:
      return std::make_unique<ConstExpr>(Value::Float(Next().real), line);
    default:
      break;
  }
  if (SkipOperator("(")) {
    TupleRules rules;
    rules.explicit_parentheses = true;
    ExprPtr node = TupleOrExpression(rules);
    ExpectOperator(")");
    return node;
  }
  if (AtOperator("[")) return ListLiteral();
  if (AtOperator("{")) return DictLiteral();
  Fail("unexpected ", Describe(Current()));
}

ExprPtr Parser::TupleOrExpression(const TupleRules& rules) {
  int line = Current().line;
  auto tuple = std::make_unique<ListExpr>(ExprKind::kTuple, ExprList(), line);
  bool is_tuple = false;
  while (true) {
    if (!tuple->items.empty()) ExpectOperator(",");
    if (Current().kind == TokenKind::kVariableEnd || Current().kind == TokenKind::kBlockEnd ||
        AtOperator(")")) {
      break;
    }
    ExprPtr item = rules.simplified ? Primary(rules.with_namespace) : Expression(rules.with_cond);
    const Expr* a = item.get();
    tuple->items.push_back(std::move(item));
    tuple = Grown(std::move(tuple), {a});
    if (!AtOperator(",")) break;
    is_tuple = true;
    line = Current().line;
  }
  if (!is_tuple) {
    if (!tuple->items.empty()) return std::move(tuple->items[0]);
    if (!rules.explicit_parentheses) Fail("Expected an expression, got ", Describe(Current()));
  }
  tuple->line = line;
  return tuple;
}

ExprPtr Parser::ListLiteral() {
  const int line = Next().line;
  auto list = std::make_unique<ListExpr>(ExprKind::kList, ExprList(), line);
  while (!AtOperator("]")) {
    if (!list->items.empty()) ExpectOperator(",");
    if (AtOperator("]")) break;
    ExprPtr item = Expression();
    const Expr* a = item.get();
    list->items.push_back(std::move(item));
    list = Grown(std::move(list), {a});
  }
  ExpectOperator("]");
  return list;
}

ExprPtr Parser::DictLiteral() {
  auto dict = std::make_unique<DictExpr>(Next().line);
  while (!AtOperator("}")) {
    if (!dict->items.empty()) ExpectOperator(",");
    if (AtOperator("}")) break;
    ExprPtr key = Expression();
    ExpectOperator(":");
    ExprPtr value = Expression();
    const Expr *a = key.get(), *b = value.get();
    dict->items.emplace_back(std::move(key), std::move(value));
    dict = Grown(std::move(dict), {a, b});
  }
  ExpectOperator("}");
  return dict;
}

ExprPtr Parser::Postfix(ExprPtr node) {
  while (true) {
    if (AtOperator(".") || AtOperator("[")) {
      node = Subscript(std::move(node));
    } else if (AtOperator("(")) {
      node = Call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::FilterExpression(ExprPtr node) {
  while (true) {
    if (AtOperator("|")) {
      node = Filter(std::move(node));
    } else if (AtName("is")) {
      node = Test(std::move(node));
    } else if (AtOperator("(")) {
      node = Call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::Subscript(ExprPtr node) {
  const Expr* object = node.get();
  const bool dot = AtOperator(".");
  const int line = Next().line;
  if (dot) {
    if (Current().kind == TokenKind::kName) {
      return Grown(std::make_unique<GetattrExpr>(std::move(node), Next().text, line), {object});
    }
    if (Current().kind != TokenKind::kInteger) Fail("expected name or number");
    auto key = std::make_unique<ConstExpr>(Value::Int(Next().integer), line);
    return Grown(std::make_unique<GetitemExpr>(std::move(node), std::move(key), line), {object});
  }
  ExprList keys;
  while (!AtOperator("]")) {
    if (!keys.empty()) ExpectOperator(",");
    keys.push_back(Subscribed());
  }
  ExpectOperator("]");
  ExprPtr key;
  if (keys.size() == 1) {
    key = std::move(keys[0]);
  } else {
    auto tuple = std::make_unique<ListExpr>(ExprKind::kTuple, ExprList(), line);
    for (ExprPtr& k : keys) {
      if (k->kind == ExprKind::kSlice) Unsupported("a slice within a tuple of subscripts is not supported");
      Raise(tuple->height, k.get());
      tuple->items.push_back(std::move(k));
    }
    key = std::move(tuple);
  }
  const Expr* k = key.get();
  return Grown(std::make_unique<GetitemExpr>(std::move(node), std::move(key), line), {object, k});
}

ExprPtr Parser::Subscribed() {
  auto slice = std::make_unique<SliceExpr>(Current().line);
  if (!AtOperator(":")) {
    ExprPtr first = Expression();
    if (!AtOperator(":")) return first;
    slice->start = std::move(first);
  }
  Next();
  if (!AtOperator(":") && !AtOperator("]") && !AtOperator(",")) slice->stop = Expression();
  if (SkipOperator(":") && !AtOperator("]") && !AtOperator(",")) slice->step = Expression();
  const Expr* children[] = {slice->start.get(), slice->stop.get(), slice->step.get()};
  return Grown(std::move(slice), {children[0], children[1], children[2]});
}

ExprPtr Parser::Call(ExprPtr callee) {
  const int line = Current().line;
  const Expr* a = callee.get();
  CallArgs args = CallArguments();
  auto node = std::make_unique<CallExpr>(std::move(callee), std::move(args), line);
  Raise(node->height, node->args);
  return Grown(std::move(node), {a});
}

CallArgs Parser::CallArguments() {
  ExpectOperator("(");
  CallArgs args;
  bool comma = false;
  const auto ensure = [](bool ok) {
    if (!ok) Fail("invalid syntax for function call expression");
  };
  while (!AtOperator(")")) {
    if (comma) {
      ExpectOperator(",");
      if (AtOperator(")")) break;
    }
    if (SkipOperator("*")) {
      ensure(args.star == nullptr && args.double_star == nullptr);
      args.star = Expression();
    } else if (SkipOperator("**")) {
      ensure(args.double_star == nullptr);
      args.double_star = Expression();
    } else if (Current().kind == TokenKind::kName && IsOperator(Ahead(), "=")) {
      ensure(args.double_star == nullptr);
      std::string name = Next().text;
      Next();
      if (args.named.size() >= kMaxNames) Fail("more than ", kMaxNames, " keyword arguments");
      for (const auto& other : args.named) {
        if (other.first == name) Fail("keyword argument repeated: ", name);
      }
      args.named.emplace_back(std::move(name), Expression());
    } else {
      ensure(args.star == nullptr && args.double_star == nullptr && args.named.empty());
      args.positional.push_back(Expression());
    }
    comma = true;
  }
  ExpectOperator(")");
  return args;
}

std::string Parser::DottedName() {
  std::string name = ExpectAnyName();
  while (SkipOperator(".")) name += "." + ExpectAnyName();
  return name;
}

ExprPtr Parser::Filter(ExprPtr node, bool start_inline) {
  while (AtOperator("|") || start_inline) {
    if (!start_inline) Next();
    start_inline = false;
    const int line = Current().line;
    std::string name = DottedName();
    CallArgs args;
    if (AtOperator("(")) args = CallArguments();
    const Expr* a = node.get();
    auto filter = std::make_unique<FilterExpr>(ExprKind::kFilter, std::move(node), std::move(name),
                                               std::move(args), line);
    Raise(filter->height, filter->args);
    node = Grown(std::move(filter), {a});
  }
  return node;
}

ExprPtr Parser::Test(ExprPtr node) {
  const int line = Next().line;
  const bool negated = SkipName("not");
  std::string name = DottedName();
  CallArgs args;
  const TokenKind kind = Current().kind;
  if (AtOperator("(")) {
    args = CallArguments();
  } else if ((kind == TokenKind::kName || kind == TokenKind::kString || kind == TokenKind::kInteger ||
              kind == TokenKind::kFloat || AtOperator("[") || AtOperator("{")) &&
             !AtName("else") && !AtName("or") && !AtName("and")) {
    if (AtName("is")) Fail("You cannot chain multiple tests with is");
    const Nest nest(*this);
    args.positional.push_back(Postfix(Primary()));
  }
  const Expr* a = node.get();
  auto test =
      std::make_unique<FilterExpr>(ExprKind::kTest, std::move(node), std::move(name), std::move(args), line);
  Raise(test->height, test->args);
  ExprPtr result = Grown(std::move(test), {a});
  if (!negated) return result;
  const Expr* b = result.get();
  return Grown(std::make_unique<UnaryExpr>(ExprKind::kNot, false, std::move(result), line), {b});
}

namespace {

/// Turns a parsed expression into an assignment target; false if it cannot be one.
bool MakeTarget(Expr& e) {
  if (e.kind == ExprKind::kName) {
    static_cast<NameExpr&>(e).use = NameUse::kStore;
    return true;
  }
  if (e.kind == ExprKind::kNsRef) return true;
  if (e.kind != ExprKind::kTuple) return false;
  for (const ExprPtr& item : static_cast<ListExpr&>(e).items) {
    if (!MakeTarget(*item)) return false;
  }
  return true;
}

}  // namespace

ExprPtr Parser::AssignTarget(bool with_namespace) {
  TupleRules rules;
  rules.simplified = true;
  rules.with_namespace = with_namespace;
  ExprPtr target = TupleOrExpression(rules);
  if (!MakeTarget(*target)) Fail("can't assign to this expression");
  return target;
}

std::unique_ptr<NameExpr> Parser::NameTarget() {
  const int line = Current().line;
  std::string name = ExpectAnyName();
  for (const char* reserved : {"true", "false", "none", "True", "False", "None"}) {
    if (name == reserved) Fail("can't assign to '", name, "'");
  }
  return std::make_unique<NameExpr>(std::move(name), NameUse::kStore, line);
}

}  // namespace ullage::llm::jinja
