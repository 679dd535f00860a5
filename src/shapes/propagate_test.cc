#include "shapes/propagate.h"

#include <gtest/gtest.h>

#include "shapes/input_bounds.h"
#include "ullage/error.h"

namespace ullage::shapes {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;
using ops::Bound;
using ops::BoundedShape;
using ops::SymbolTable;
using ops::ValueFacts;

std::unique_ptr<Graph> NewGraph() {
  auto g = std::make_unique<Graph>();
  g->opsets[""] = 18;
  g->opsets["com.microsoft"] = 1;
  return g;
}

ValueId Ints(Graph& g, std::vector<int64_t> values) {
  return g.AddConstant("c", graph::MakeInts(Shape{static_cast<int64_t>(values.size())}, values));
}

ValueId Number(Graph& g, int64_t value, DType dtype = DType::kInt64) {
  return g.AddConstant("c", graph::MakeInts(Shape{}, {{value}}, dtype));
}

ValueId Op(Graph& g, const char* op, std::vector<ValueId> inputs, const char* domain = "") {
  const ValueId y = g.AddValue("y");
  g.AddNode(domain, op, "", std::move(inputs), {y});
  return y;
}

Node& Last(Graph& g) {
  return g.node(static_cast<graph::NodeId>(g.node_slots() - 1));
}

ValueFacts Facts(DType dtype, std::initializer_list<Bound> dims) {
  ValueFacts f;
  f.dtype = dtype;
  f.shape = BoundedShape::OfDims(dims);
  return f;
}

TEST(Propagate, ShapeChainsKeepExpressions) {
  auto g = NewGraph();
  const ValueId x = g->AddInput("x", DType::kFloat, graph::DeclaredShape{{-1, "b"}, {-1, "s"}, {64, ""}});
  // Reshape(x, [Shape(x)[0], Shape(x)[1], 4, -1]), transposed and flattened again.
  const ValueId shape = Op(*g, "Shape", {x});
  const ValueId b = Op(*g, "Unsqueeze", {Op(*g, "Gather", {shape, Number(*g, 0)}), Ints(*g, {0})});
  const ValueId s = Op(*g, "Slice", {shape, Ints(*g, {1}), Ints(*g, {2})});
  const ValueId target = g->AddValue("target");
  g->AddNode("", "Concat", "", {b, s, Ints(*g, {4}), Ints(*g, {-1})}, {target}).attributes["axis"] =
      int64_t{0};
  const ValueId heads = Op(*g, "Reshape", {x, target});
  const ValueId back = Op(*g, "Reshape", {heads, Ints(*g, {0, 0, -1})});
  const ValueId sum = Op(*g, "Add", {x, back});
  SymbolTable table;
  table.Symbol("x.0", 1, 4);
  table.Symbol("x.1", 1, 128);
  const auto facts = Propagate(*g, DeclaredInputFacts(*g, table), {}, table);
  EXPECT_EQ(facts.of(heads).shape.ToString(&table), "[x.0 in 1..4,x.1 in 1..128,4,16]<=32768");
  EXPECT_EQ(facts.of(sum).shape.ToString(&table), "[x.0 in 1..4,x.1 in 1..128,64]<=32768");
  ASSERT_TRUE(facts.of(target).values);
  EXPECT_TRUE(ops::Same((*facts.of(target).values)[1], facts.of(x).shape[1]));
}

TEST(Propagate, EqualLabelsProveNothing) {
  auto g = NewGraph();
  const ValueId a = g->AddInput("a", DType::kFloat, graph::DeclaredShape{{-1, "n"}});
  const ValueId b = g->AddInput("b", DType::kFloat, graph::DeclaredShape{{-1, "n"}});
  const ValueId sum = Op(*g, "Add", {a, b});
  SymbolTable table;
  table.Symbol("a.0", 1, 5);
  table.Symbol("b.0", 1, 7);
  const auto facts = Propagate(*g, DeclaredInputFacts(*g, table), {}, table);
  EXPECT_FALSE(ops::Same(facts.of(a).shape[0], facts.of(b).shape[0]));
  EXPECT_EQ(facts.of(sum).shape[0].upper, 7);
  EXPECT_EQ(facts.of(sum).shape[0].lower, 1);
}

// If over two branches that read one outer value.
std::unique_ptr<Graph> WithIf(ValueId& y, ValueId condition_of_constant) {
  auto g = NewGraph();
  const ValueId c = condition_of_constant == 2 ? g->AddInput("c", DType::kBool, graph::DeclaredShape{})
                                               : Number(*g, condition_of_constant, DType::kBool);
  const ValueId x = g->AddInput("x", DType::kFloat, graph::DeclaredShape{{-1, ""}, {8, ""}});
  const auto branch = [&](bool then) {
    std::shared_ptr<Graph> body = NewGraph();
    const ValueId in = body->AddValue("x_inner", DType::kFloat);
    body->value(in).is_input = true;
    body->capture_values = {in};
    body->capture_names = {"x"};
    if (then) {
      body->outputs = {Op(*body, "Relu", {in})};
    } else {
      const ValueId out = body->AddValue("t");
      body->AddNode("", "Transpose", "", {in}, {out}).attributes["perm"] = std::vector<int64_t>{1, 0};
      body->outputs = {out};
    }
    return body;
  };
  y = Op(*g, "If", {c});
  Node& node = Last(*g);
  node.attributes["then_branch"] = branch(true);
  node.attributes["else_branch"] = branch(false);
  g->SetCaptures(node, {x});
  return g;
}

TEST(Propagate, IfIsTheUnionOfItsBranches) {
  ValueId y;
  SymbolTable table;
  const Bound n = table.Symbol("n", 1, 20);
  auto g = WithIf(y, 2);
  auto facts =
      Propagate(*g, {Facts(DType::kBool, {}), Facts(DType::kFloat, {n, Bound::Exactly(8)})}, {}, table);
  EXPECT_EQ(facts.of(y).shape.ToString(), "[1..20,1..20]<=160");
  EXPECT_EQ(facts.of(y).dtype, DType::kFloat);
  EXPECT_EQ(facts.bodies.size(), 2u);
  // A condition that is known leaves the other branch out.
  g = WithIf(y, 1);
  facts = Propagate(*g, {Facts(DType::kFloat, {n, Bound::Exactly(8)})}, {}, table);
  EXPECT_EQ(facts.of(y).shape.ToString(&table), "[n in 1..20,8]");
  EXPECT_EQ(facts.bodies.size(), 1u);
  g = WithIf(y, 0);
  facts = Propagate(*g, {Facts(DType::kFloat, {n, Bound::Exactly(8)})}, {}, table);
  EXPECT_EQ(facts.of(y).shape.ToString(&table), "[8,n in 1..20]");
}

TEST(Propagate, BodiesOverDifferentInputsHaveShapesOfTheirOwn) {
  auto g = NewGraph();
  const ValueId c = g->AddInput("c", DType::kBool, graph::DeclaredShape{});
  const ValueId inputs[] = {g->AddInput("x", DType::kFloat, graph::DeclaredShape{{-1, ""}, {4, ""}}),
                            g->AddInput("z", DType::kFloat, graph::DeclaredShape{{-1, ""}})};
  std::vector<std::pair<NodeId, ValueId>> made;  // the If, and the result in its branch
  for (const ValueId outer : inputs) {
    Op(*g, "If", {c});
    Node& node = Last(*g);
    for (const char* branch : {"then_branch", "else_branch"}) {
      std::shared_ptr<Graph> body = NewGraph();
      const ValueId in = body->AddValue("in", DType::kFloat);
      body->value(in).is_input = true;
      body->capture_values = {in};
      body->capture_names = {g->value(outer).name};
      body->outputs = {Op(*body, "Relu", {in})};
      if (branch[0] == 't') made.emplace_back(node.id, body->outputs[0]);
      node.attributes[branch] = std::move(body);
    }
    g->SetCaptures(node, {outer});
  }
  SymbolTable table;
  const auto facts =
      Propagate(*g,
                {Facts(DType::kBool, {}), Facts(DType::kFloat, {table.Symbol("n", 1, 8), Bound::Exactly(4)}),
                 Facts(DType::kFloat, {table.Symbol("m", 2, 3)})},
                {}, table);
  EXPECT_EQ(facts.bodies.at({made[0].first, "then_branch"})->of(made[0].second).shape.ToString(), "[1..8,4]");
  EXPECT_EQ(facts.bodies.at({made[1].first, "then_branch"})->of(made[1].second).shape.ToString(), "[2..3]");
}

TEST(Propagate, BranchesThatCannotBeValidAreRefused) {
  ValueId y;
  SymbolTable table;
  const Bound n = table.Symbol("n", 1, 20);
  const std::vector<ValueFacts> inputs = {Facts(DType::kBool, {}),
                                          Facts(DType::kFloat, {n, Bound::Exactly(8)})};
  auto g = WithIf(y, 2);
  auto& taken = *Last(*g).Subgraph("else_branch");
  Last(taken).attributes["perm"] = std::vector<int64_t>{1, 0, 2};  // of a matrix
  auto facts = Propagate(*g, inputs, {}, table);
  EXPECT_EQ(facts.of(y).shape.ToString(&table), "[n in 1..20,8]");
  EXPECT_EQ(facts.bodies.size(), 1u);
  ASSERT_EQ(facts.refused.size(), 1u);
  EXPECT_EQ(facts.refused.begin()->first.second, "else_branch");
  // Neither way is valid.
  auto& other = *Last(*g).Subgraph("then_branch");
  other.AddNode("", "Transpose", "", {other.capture_values[0]}, {other.AddValue("t")}).attributes["perm"] =
      std::vector<int64_t>{0};
  EXPECT_THROW(Propagate(*g, inputs, {}, table), Error);
  // An invalid branch whose condition is known fails as well.
  g = WithIf(y, 0);
  Last(*Last(*g).Subgraph("else_branch")).attributes["perm"] = std::vector<int64_t>{1, 0, 2};
  EXPECT_THROW(Propagate(*g, {inputs[1]}, {}, table), Error);
}

TEST(Propagate, RanksThatMakeTheRestInvalidAreRefused) {
  for (const bool needs_matrix : {true, false}) {
    ValueId y;
    SymbolTable table;
    const Bound n = table.Symbol("n", 1, 20);
    auto g = WithIf(y, 2);
    auto& body = *Last(*g).Subgraph("else_branch");
    body.outputs = {Op(body, "Unsqueeze", {body.outputs[0], Ints(body, {0})})};
    const ValueId z = g->AddValue("z");
    if (needs_matrix)
      g->AddNode("", "Transpose", "", {y}, {z}).attributes["perm"] = std::vector<int64_t>{1, 0};
    else
      g->AddNode("", "Relu", "", {y}, {z});
    const auto facts =
        Propagate(*g, {Facts(DType::kBool, {}), Facts(DType::kFloat, {n, Bound::Exactly(8)})}, {}, table);
    EXPECT_EQ(facts.of(z).shape.ToString(&table), needs_matrix ? "[8,n in 1..20]" : "[...]<=160");
    EXPECT_EQ(facts.refused.size(), needs_matrix ? 1u : 0u);
    EXPECT_EQ(facts.bodies.size(), needs_matrix ? 1u : 2u);
  }
}

// Loop(M, true, x): each round doubles x along axis 0 (grow) or keeps it, and gives a row of it.
std::unique_ptr<Graph> WithLoop(bool grow, int64_t rounds, ValueId& last, ValueId& rows) {
  auto g = NewGraph();
  const ValueId x = g->AddInput("x", DType::kFloat, graph::DeclaredShape{{-1, ""}, {4, ""}});
  std::shared_ptr<Graph> body = NewGraph();
  body->AddInput("i", DType::kInt64, graph::DeclaredShape{});
  const ValueId cond = body->AddInput("cond", DType::kBool, graph::DeclaredShape{});
  const ValueId v = body->AddInput("v", DType::kFloat, std::nullopt);
  ValueId next = body->AddValue("next");
  body->AddNode("", "Concat", "", grow ? std::vector{v, v} : std::vector{v}, {next}).attributes["axis"] =
      int64_t{0};
  const ValueId row = Op(*body, "Gather", {v, Number(*body, 0)});
  body->outputs = {Op(*body, "Identity", {cond}), next, row};
  last = g->AddValue("last");
  rows = g->AddValue("rows");
  Node& node = g->AddNode("", "Loop", "", {Number(*g, rounds), Number(*g, 1, DType::kBool), x}, {last, rows});
  node.attributes["body"] = body;
  g->SetCaptures(node, {});
  return g;
}

TEST(Propagate, LoopsSettleOrWiden) {
  ValueId last, rows;
  SymbolTable table;
  const Bound n = table.Symbol("n", 1, 20);
  const std::vector<ValueFacts> inputs = {Facts(DType::kFloat, {n, Bound::Exactly(4)})};
  auto g = WithLoop(false, 5, last, rows);
  auto facts = Propagate(*g, inputs, {}, table);
  EXPECT_EQ(facts.of(last).shape.ToString(&table), "[n in 1..20,4]");
  EXPECT_EQ(facts.of(rows).shape.ToString(&table), "[5,4]");
  g = WithLoop(true, 5, last, rows);
  facts = Propagate(*g, inputs, {}, table);
  EXPECT_EQ(facts.of(last).shape[0].upper, 20 << 5);
  EXPECT_EQ(facts.of(last).shape[1].upper, 4);
  EXPECT_EQ(facts.of(rows).shape.ToString(&table), "[5,4]");
  // Doubling adds more from round to round, so that no step bounds many of them.
  g = WithLoop(true, 1000, last, rows);
  facts = Propagate(*g, inputs, {}, table);
  EXPECT_FALSE(facts.of(last).shape[0].bounded());
  EXPECT_EQ(facts.of(rows).shape.ToString(&table), "[1000,4]");
}

TEST(Propagate, ScansSliceAndStack) {
  auto g = NewGraph();
  g->AddInput("state", DType::kFloat, std::nullopt);
  g->AddInput("seq", DType::kFloat, std::nullopt);
  std::shared_ptr<Graph> body = NewGraph();
  const ValueId s = body->AddInput("s", DType::kFloat, std::nullopt);
  const ValueId e = body->AddInput("e", DType::kFloat, std::nullopt);
  const ValueId sum = Op(*body, "Add", {s, e});
  body->outputs = {sum, Op(*body, "Relu", {sum})};
  const ValueId final_state = g->AddValue("f"), all = g->AddValue("a");
  Node& node = g->AddNode("", "Scan", "", {g->inputs[0], g->inputs[1]}, {final_state, all});
  node.attributes["body"] = body;
  node.attributes["num_scan_inputs"] = int64_t{1};
  node.attributes["scan_input_axes"] = std::vector<int64_t>{1};
  g->SetCaptures(node, {});
  SymbolTable table;
  const Bound t = table.Symbol("t", 0, 30);
  const auto facts =
      Propagate(*g, {Facts(DType::kFloat, {Bound::Exactly(6)}), Facts(DType::kFloat, {Bound::Exactly(6), t})},
                {}, table);
  EXPECT_EQ(facts.of(final_state).shape.ToString(&table), "[6]");
  EXPECT_EQ(facts.of(all).shape.ToString(&table), "[t in 0..30,6]");
}

// A name stands for one number: what differs from round to round of a loop has none.
TEST(Propagate, LoopBodiesNameNothing) {
  auto g = NewGraph();
  const ValueId x = g->AddInput("x", DType::kFloat, std::nullopt);
  std::shared_ptr<Graph> body = NewGraph();
  body->AddInput("i", DType::kInt64, graph::DeclaredShape{});
  const ValueId cond = body->AddInput("cond", DType::kBool, graph::DeclaredShape{});
  const ValueId v = body->AddInput("v", DType::kFloat, std::nullopt);
  const ValueId found = Op(*body, "NonZero", {v});
  body->outputs = {Op(*body, "Identity", {cond}), Op(*body, "Identity", {v}), found};
  const ValueId last = g->AddValue("last"), rows = g->AddValue("rows");
  Node& node = g->AddNode("", "Loop", "", {Number(*g, 3), graph::kNone, x}, {last, rows});
  node.attributes["body"] = body;
  g->SetCaptures(node, {});
  SymbolTable table;
  const auto facts = Propagate(*g, {Facts(DType::kFloat, {Bound::Exactly(7)})}, {}, table);
  EXPECT_EQ(facts.of(rows).shape.ToString(&table), "[3,1,last in 0..7]");
  // At the top level it has one, so that two uses are known to be equal.
  auto top = NewGraph();
  const ValueId y = top->AddInput("y", DType::kFloat, std::nullopt);
  const ValueId nz = Op(*top, "NonZero", {y});
  const ValueId twice = Op(*top, "Add", {nz, nz});
  const auto named = Propagate(*top, {Facts(DType::kFloat, {Bound::Exactly(7)})}, {}, table);
  EXPECT_TRUE(ops::Same(named.of(nz).shape[1], named.of(twice).shape[1]));
  EXPECT_NE(named.of(nz).shape[1].expr, ops::kNoExpr);
}

TEST(Propagate, GenerationCaches) {
  auto g = NewGraph();
  const ValueId q = g->AddInput("q", DType::kFloat, std::nullopt);
  const ValueId past = g->AddInput("past", DType::kFloat, std::nullopt);
  const ValueId lens = g->AddInput("lens", DType::kInt32, std::nullopt);
  const ValueId mask = g->AddInput("mask", DType::kInt64, std::nullopt);
  ValueId total = Op(*g, "Gather", {Op(*g, "Shape", {mask}), Number(*g, 1)});
  total = Op(*g, "Cast", {total});
  Last(*g).attributes["to"] = int64_t{6};
  const ValueId y = g->AddValue("y"), k = g->AddValue("k"), v = g->AddValue("v");
  Node& node = g->AddNode("com.microsoft", "GroupQueryAttention", "",
                          {q, graph::kNone, graph::kNone, past, past, lens, total}, {y, k, v});
  node.attributes["num_heads"] = int64_t{8};
  node.attributes["kv_num_heads"] = int64_t{2};
  SymbolTable table;
  const Bound s = table.Symbol("S", 1, 512), p = table.Symbol("P", 0, 4096);
  const int32_t t = table.AddExpr(p, s);
  table.Restrict(t, 1, 4096);
  const Bound one = Bound::Exactly(1);
  const auto run = [&](const Bound& rows) {
    return Propagate(*g,
                     {Facts(DType::kFloat, {one, s, Bound::Exactly(12 * 64)}),
                      Facts(DType::kFloat, {one, Bound::Exactly(2), rows, Bound::Exactly(64)}),
                      Facts(DType::kInt32, {one}), Facts(DType::kInt64, {one, table.BoundOf(t)})},
                     {}, table);
  };
  auto facts = run(p);
  EXPECT_EQ(facts.of(y).shape.ToString(&table), "[1,S in 1..512,512]");
  EXPECT_EQ(facts.of(k).shape.ToString(&table), "[1,2,P + S in 1..4096,64]");
  EXPECT_EQ(facts.of(v).shape[2].upper, 4096);
  // A buffer that past and present share keeps its rows.
  facts = run(Bound::Exactly(4096));
  EXPECT_EQ(facts.of(k).shape.ToString(&table), "[1,2,4096,64]");
  // Windowed caches keep theirs whatever the total.
  node.attributes["sliding_window_cache"] = int64_t{1};
  facts = run(Bound::Exactly(128));
  EXPECT_EQ(facts.of(k).shape.ToString(&table), "[1,2,128,64]");
}

TEST(Propagate, OwnOperators) {
  auto g = NewGraph();
  const ValueId x = g->AddInput("x", DType::kFloat16, std::nullopt);
  const ValueId cache = g->AddInput("cache", DType::kFloat16, std::nullopt);
  const ValueId flag = g->AddInput("flag", DType::kBool, std::nullopt);
  const ValueId w = Ints(*g, {0});
  const ValueId packed = Op(*g, "Linear", {x, w}, "ullage");
  Last(*g).attributes["K"] = int64_t{64};
  Last(*g).attributes["N"] = int64_t{96};
  const ValueId half = Op(*g, "SwiGLU", {packed}, "ullage");
  const ValueId token = Op(*g, "LastToken", {half}, "ullage");
  const ValueId y = g->AddValue("y"), k = g->AddValue("k"), v = g->AddValue("v");
  Node& attention = g->AddNode("ullage", "CachedAttention", "", {x, x, x, cache, cache}, {y, k, v});
  attention.attributes["q_num_heads"] = int64_t{4};
  attention.attributes["kv_num_heads"] = int64_t{4};
  const ValueId chosen = Op(*g, "Select",
                            {flag, g->AddConstant("a", graph::MakeFloats(Shape{4}, std::vector<float>(4))),
                             g->AddConstant("b", graph::MakeFloats(Shape{9}, std::vector<float>(9)))},
                            "ullage");
  const ValueId rows = Op(*g, "BlockGather", {cache, x}, "ullage");
  (void)rows;
  SymbolTable table;
  const Bound s = table.Symbol("S", 1, 32), p = table.Symbol("P", 0, 100), two = Bound::Exactly(2);
  const std::vector<ValueFacts> inputs = {
      Facts(DType::kFloat16, {two, s, Bound::Exactly(64)}),
      Facts(DType::kFloat16, {two, Bound::Exactly(4), p, Bound::Exactly(16)}), Facts(DType::kBool, {})};
  // BlockGather refuses a table of rank 4.
  EXPECT_THROW(Propagate(*g, inputs, {}, table), Error);
  g->RemoveNode(g->value(rows).producer);
  const auto facts = Propagate(*g, inputs, {}, table);
  EXPECT_EQ(facts.of(half).shape.ToString(&table), "[2,S in 1..32,48]");
  EXPECT_EQ(facts.of(token).shape.ToString(&table), "[2,1,48]");
  EXPECT_EQ(facts.of(token).dtype, DType::kFloat16);
  EXPECT_EQ(facts.of(y).shape.ToString(&table), "[2,S in 1..32,64]");
  EXPECT_EQ(facts.of(k).shape.ToString(&table), "[2,4,P + S in 1..132,16]");
  EXPECT_EQ(facts.of(chosen).shape.ToString(&table), "[y_4#1 in 4..9]<=9");
}

TEST(Propagate, ErrorsNameTheNode) {
  auto g = NewGraph();
  const ValueId a = g->AddInput("a", DType::kFloat, std::nullopt);
  const ValueId b = g->AddInput("b", DType::kFloat, std::nullopt);
  g->AddNode("", "MatMul", "the_product", {a, b}, {g->AddValue("y")});
  SymbolTable table;
  try {
    Propagate(*g,
              {Facts(DType::kFloat, {Bound::Exactly(2), Bound::Exactly(3)}),
               Facts(DType::kFloat, {Bound::Exactly(4), Bound::Exactly(5)})},
              {}, table);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kInvalidModel);
    EXPECT_NE(std::string(e.what()).find("the_product"), std::string::npos);
  }
  EXPECT_THROW(Propagate(*g, {}, {}, table), Error);
}

}  // namespace
}  // namespace ullage::shapes
