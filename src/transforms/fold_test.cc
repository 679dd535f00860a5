// Folding of constants and sizes, conditionals, the last token, and the pipeline itself.
#include "transforms/test_graph.h"
#include "ullage/error.h"

namespace ullage::transforms {
namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::ValueId;
using test::TestGraph;

/// Adds; anything else it cannot do.
std::vector<graph::ConstantPtr> EvaluateAdd(const Node& n, const Graph&,
                                            std::span<const graph::ConstantPtr> in) {
  if (n.op != "Add") return {};
  const auto a = in[0]->AsDoubles(), b = in[1]->AsDoubles();
  std::vector<float> out;
  for (size_t i = 0; i < a.size(); ++i) out.push_back(static_cast<float>(a[i] + b[i]));
  return {graph::MakeFloats(in[0]->shape, out)};
}

PassOptions WithEvaluator() {
  PassOptions options;
  options.evaluate = EvaluateAdd;
  return options;
}

TEST(ConstantFolding, ComputesChainsAndKeepsNames) {
  TestGraph t;
  const ValueId sum =
      t.Op("Add", {t.Floats({1, 2}, {2}), t.Op("Add", {t.Floats({3, 4}, {2}), t.Floats({5, 6}, {2})})});
  t.Output(sum);
  t.Output(t.Op("Mul", {t.Input("x", {-1, 2}), sum}));
  EXPECT_EQ(t.Run(FoldConstants, WithEvaluator()), 2);
  ASSERT_TRUE(t.g.value(sum).constant);
  EXPECT_EQ(t.g.value(sum).constant->AsDoubles(), (std::vector<double>{9, 12}));
  EXPECT_EQ(t.g.value(sum).name, "Add_1");
  EXPECT_EQ(t.Nodes(), 1u);
}

TEST(ConstantFolding, ViewsCostNothing) {
  TestGraph t;
  const ValueId w = t.Zeros({1 << 12, 1 << 12}, DType::kUInt8);
  const ValueId view = t.Op("Reshape", {w, t.Ints({1 << 10, -1})});
  t.Output(view);
  PassOptions options;  // no evaluator, and too large for one
  options.max_folded_bytes = 1024;
  EXPECT_EQ(t.Run(FoldConstants, options), 1);
  EXPECT_EQ(t.g.value(view).constant->shape, Shape({1 << 10, 1 << 14}));
  EXPECT_EQ(t.g.value(view).constant->bytes, t.g.value(w).constant->bytes);
}

TEST(ConstantFolding, LeavesWhatItMustNotCompute) {
  TestGraph t;
  auto absent = std::make_shared<graph::Constant>();
  absent->dtype = DType::kFloat;
  absent->shape = Shape({2});
  absent->size_bytes = 8;
  const ValueId missing = t.g.AddConstant("missing", absent);
  t.Output(t.Op("Add", {missing, missing}));                  // no data
  t.Output(t.Op("Mul", {t.Scalar(1), t.Scalar(2)}));          // the evaluator cannot
  t.Output(t.Op("Add", {t.Zeros({1000}), t.Zeros({1000})}));  // too large
  t.Output(t.Op("RandomNormalLike", {t.Zeros({2})}));         // different in each run
  const ValueId given = t.Input("d", {2});
  t.g.value(given).constant = graph::MakeFloats({2}, std::vector<float>{1, 2});
  t.Output(t.Op("Add", {given, given}));  // only a default
  PassOptions options = WithEvaluator();
  options.max_folded_bytes = 100;
  EXPECT_EQ(t.Run(FoldConstants, options), 0);
}

TEST(ConstantFolding, SparesWeightsOfProductsUntilTheEnd) {
  TestGraph t;
  PassOptions options;
  options.evaluate = [](const Node& n, const Graph&, std::span<const graph::ConstantPtr> in) {
    EXPECT_EQ(n.op, "Transpose");
    return std::vector<graph::ConstantPtr>{graph::WithShape(in[0], {in[0]->shape[1], in[0]->shape[0]})};
  };
  const ValueId w = t.Op("Transpose", {t.Zeros({64, 32})});
  t.Output(t.Op("MatMul", {t.Input("x", {-1, 32}), w}));
  EXPECT_EQ(t.Run(FoldConstants, options), 0);
  EXPECT_EQ(t.Run(FoldRemaining, options), 1);
  EXPECT_EQ(t.Count("Transpose"), 0);
}

TEST(ShapeFolding, KnownSizesBecomeConstants) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, 3, 8});
  const ValueId width = t.Op("Gather", {t.Op("Shape", {x}), t.Index(2)});
  const ValueId half = t.Op("Div", {width, t.Index(2)});
  t.Output(t.Op("Range", {t.Index(0), half, t.Index(1)}));
  EXPECT_GT(t.Run(FoldShapes), 0);
  EXPECT_EQ(t.Nodes(), 1u);  // the range itself is a result of the model
  const Node& range = *t.g.ProducerOf(t.g.outputs[0]);
  EXPECT_EQ(t.g.value(range.input(1)).constant->AsInts(), (std::vector<int64_t>{4}));
}

TEST(ShapeFolding, ReadsSizesFromTheEarliestTensor) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, -1, 8}), past = t.Input("past", {-1, 2, -1, 4});
  Node& transpose = t.Add("Transpose", {t.Op("Reshape", {t.Op("Relu", {x}), t.Ints({0, -1, 2, 4})})});
  transpose.attributes["perm"] = std::vector<int64_t>{0, 2, 1, 3};
  Node& present = t.Add("Concat", {past, transpose.outputs[0]});
  present.attributes["axis"] = int64_t{-2};
  const ValueId y = t.Op("Neg", {present.outputs[0]});
  t.Output(y);
  const ValueId total = t.Op("Gather", {t.Op("Shape", {y}), t.Index(-2)});
  t.Output(t.Op("Range", {t.Index(0), total, t.Index(1)}));
  EXPECT_GT(t.Run(FoldShapes), 0);
  // total = past's size 2 + x's size 1
  const Node& range = *t.g.ProducerOf(t.g.outputs[1]);
  const Node* sum = t.g.ProducerOf(range.input(1));
  ASSERT_TRUE(sum && sum->op == "Add");
  std::vector<std::pair<ValueId, int64_t>> reads;
  for (ValueId v : sum->inputs) {
    const Node* gather = t.g.ProducerOf(v);
    ASSERT_EQ(gather->op, "Gather");
    reads.emplace_back(t.g.ProducerOf(gather->input(0))->input(0),
                       t.g.value(gather->input(1)).constant->AsInts().front());
  }
  EXPECT_EQ(reads[0], std::make_pair(past, int64_t{2}));
  EXPECT_EQ(reads[1].second, 1);
  EXPECT_EQ(reads[1].first, x);
}

TEST(ShapeFolding, MergesEqualShapesAndDropsWhatDoesNothing) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, -1, 8});
  const auto shape_of = [&](ValueId v) {
    const auto dim = [&](int64_t i) {
      return t.Op("Unsqueeze", {t.Op("Gather", {t.Op("Shape", {v}), t.Index(i)}), t.Ints({0})});
    };
    Node& n = t.Add("Concat", {dim(0), dim(1), t.Ints({2}), t.Ints({4})});
    n.attributes["axis"] = int64_t{0};
    return n.outputs[0];
  };
  const ValueId a = t.Op("Relu", {x}), b = t.Op("Neg", {a});
  t.Output(t.Op("Reshape", {a, shape_of(a)}));
  t.Output(t.Op("Reshape", {b, shape_of(b)}));
  t.Output(t.Op("Abs", {t.Op("Expand", {b, t.Op("Shape", {x})})}));
  t.Output(t.Op("Exp", {t.Op("Slice", {b, t.Ints({0}), t.Ints({INT64_MAX}), t.Ints({1})})}));
  t.Output(t.Op("Tanh", {t.Op("Slice", {b, t.Ints({-1}), t.Ints({INT64_MIN}), t.Ints({1}), t.Ints({-1})})}));
  t.Run(FoldShapes);
  EXPECT_EQ(t.Count("Concat"), 1);
  EXPECT_EQ(t.Count("Shape"), 1);
  EXPECT_EQ(t.Count("Expand"), 0);
  EXPECT_EQ(t.Count("Slice"), 1);  // the one that reverses
}

std::shared_ptr<Graph> Body(const std::vector<graph::ConstantPtr>& results) {
  auto body = std::make_shared<Graph>();
  body->opsets = {{"", 21}};
  for (const auto& c : results) body->outputs.push_back(body->AddConstant("k", c));
  return body;
}

TEST(Select, ReplacesAChoiceBetweenConstants) {
  TestGraph t;
  const ValueId condition = t.Input("c", {}, DType::kBool);
  Node& node = t.Add("If", {condition}, 2);
  const auto small = graph::MakeFloats({2}, std::vector<float>{1, 2});
  const auto large = graph::MakeFloats({4}, std::vector<float>{1, 2, 3, 4});
  node.attributes["then_branch"] = Body({large, large});
  node.attributes["else_branch"] = Body({small, small});
  t.g.SetCaptures(node, {});
  const std::string name = node.name;
  for (ValueId v : node.outputs) t.Output(v);
  EXPECT_EQ(t.Run(SelectConstants), 1);
  EXPECT_EQ(t.Count("ullage:Select"), 2);
  const Node& n = *t.g.ProducerOf(t.g.outputs[1]);
  EXPECT_EQ(n.input(0), condition);
  EXPECT_EQ(t.g.value(n.input(1)).constant, large);
  EXPECT_EQ(t.g.value(n.input(2)).constant, small);
  EXPECT_TRUE(test::StandsFor(n, {name}));
}

TEST(Select, KeepsBranchesThatComputeOrDiffer) {
  TestGraph t;
  const auto f = graph::MakeFloats({2}, std::vector<float>{1, 2});
  const auto i = graph::MakeInts({2}, std::vector<int64_t>{1, 2});
  for (const bool types : {true, false}) {
    Node& node = t.Add("If", {t.Input("c", {}, DType::kBool)});
    auto other = Body({types ? i : f});
    if (!types) {
      const ValueId y = other->AddValue("y");
      other->AddNode("", "Neg", "neg", {other->outputs[0]}, {y});
      other->outputs = {y};
    }
    node.attributes["then_branch"] = Body({f});
    node.attributes["else_branch"] = other;
    t.g.SetCaptures(node, {});
    if (types) continue;  // (an If of two types is no valid result)
    t.Output(node.outputs[0]);
  }
  t.g.RemoveNode(0);
  EXPECT_EQ(t.Run(SelectConstants), 0);
}

TEST(InlineIf, MovesTheOnlyPossibleBranch) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, 8});
  Node& node =
      t.Add("If", {t.g.AddConstant("c", graph::MakeInts({}, std::vector<int64_t>{1}, DType::kBool))}, 3);
  node.annotation = "block";
  auto then_body = std::make_shared<Graph>();
  then_body->opsets = {{"", 21}};
  const ValueId inner = then_body->AddValue("inner"), y = then_body->AddValue("y");
  then_body->value(inner).is_input = true;
  then_body->capture_values = {inner};
  then_body->capture_names = {"x"};
  then_body->AddNode("", "Neg", "body/neg", {inner}, {y});
  then_body->outputs = {y, inner, then_body->AddConstant("k", graph::MakeFloats({}, std::vector<float>{3}))};
  auto else_body = std::make_shared<Graph>();
  else_body->opsets = {{"", 21}};
  const ValueId other = else_body->AddValue("other");
  else_body->value(other).is_input = true;
  else_body->capture_values = {other};
  else_body->capture_names = {"x"};
  else_body->outputs = {other, other, other};
  node.attributes["then_branch"] = then_body;
  node.attributes["else_branch"] = else_body;
  t.g.SetCaptures(node, {x});
  for (ValueId v : node.outputs) t.Output(v);
  const auto outputs = t.g.outputs;
  EXPECT_EQ(t.Run(InlineConditionals), 1);
  EXPECT_EQ(t.g.outputs, outputs);
  EXPECT_EQ(t.Count("If"), 0);
  const Node* neg = t.g.ProducerOf(outputs[0]);
  ASSERT_TRUE(neg && neg->op == "Neg");
  EXPECT_EQ(neg->input(0), x);
  EXPECT_EQ(neg->annotation, "block");
  EXPECT_EQ(neg->provenance, (std::vector<std::string>{"body/neg"}));
  EXPECT_NE(neg->name.find("body/neg"), std::string::npos);
  EXPECT_EQ(t.g.ProducerOf(outputs[1])->op, "Identity");
  EXPECT_EQ(t.g.value(outputs[2]).constant->AsDoubles().front(), 3);
}

ValueId Head(TestGraph& t, ValueId hidden, int64_t n) {
  Node& linear = t.Add("ullage:Linear", {hidden, t.Zeros({8, n})});
  linear.attributes["K"] = int64_t{8};
  linear.attributes["N"] = n;
  linear.attributes["format"] = std::string("dense_kn");
  return linear.outputs[0];
}

PassOptions Last(const TestGraph& t) {
  PassOptions options;
  options.last_token_output = t.g.value(t.g.outputs[0]).name;
  return options;
}

TEST(LastToken, StandsBeforeTheNormOfTheHead) {
  TestGraph t;
  const ValueId r = t.Input("r", {-1, -1, 8}), o = t.Op("Relu", {r});
  Node& norm = t.Add("com.microsoft:SkipSimplifiedLayerNormalization", {r, o, t.Zeros({8})});
  ValueId y = Head(t, norm.outputs[0], 100);
  y = t.Op("Mul", {t.Op("Tanh", {t.Op("Div", {y, t.Scalar(30)})}), t.Scalar(30)});
  t.Output(y);
  EXPECT_EQ(t.Run(KeepLastToken, Last(t)), 1);
  EXPECT_EQ(t.Count("ullage:LastToken"), 2);
  EXPECT_EQ(t.g.ProducerOf(norm.input(0))->op, "LastToken");
  EXPECT_EQ(t.g.ProducerOf(norm.input(1))->op, "LastToken");
  ops::SymbolTable table;
  const auto facts = shapes::Propagate(t.g, shapes::DeclaredInputFacts(t.g, table), {}, table);
  EXPECT_EQ(facts.of(y).shape.ToString(&table), "[r.0 in 0..?,1,100]");
  EXPECT_EQ(t.Run(KeepLastToken, Last(t)), 0);  // there is one token only
}

TEST(LastToken, StopsWhereAllTokensAreWanted) {
  TestGraph t;
  const ValueId r = t.Input("r", {-1, -1, 8}), o = t.Op("Relu", {r});
  Node& norm = t.Add("com.microsoft:SkipSimplifiedLayerNormalization", {r, o, t.Zeros({8})}, 4);
  const ValueId y = Head(t, norm.outputs[0], 100);
  t.Output(y);
  t.Output(norm.outputs[3]);  // the hidden states
  EXPECT_EQ(t.Run(KeepLastToken, Last(t)), 1);
  EXPECT_EQ(t.Count("ullage:LastToken"), 1);
  const Node& head = *t.g.ProducerOf(y);
  EXPECT_EQ(t.g.ProducerOf(head.input(0))->op, "LastToken");
}

TEST(LastToken, CutsTheResultWhereNothingElseCanBe) {
  TestGraph t;
  Node& cumulative = t.Add("CumSum", {t.Input("x", {-1, -1, 8}), t.Index(1)});
  const ValueId y = cumulative.outputs[0];
  t.Output(y);
  EXPECT_EQ(t.Run(KeepLastToken, Last(t)), 1);
  EXPECT_EQ(t.g.ProducerOf(y)->op, "LastToken");
  EXPECT_EQ(t.Count("CumSum"), 1);
}

TEST(Pipeline, NamesThePassesWhenOneIsUnknown) {
  TestGraph t;
  t.Output(t.Op("Relu", {t.Input("x", {2})}));
  PassOptions options;
  options.disabled = {"no-such-pass"};
  try {
    RunPipeline(t.g, options);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kUsage);
    EXPECT_NE(std::string(e.what()).find("multi-linear"), std::string::npos);
  }
}

TEST(Pipeline, SwitchesPassesOff) {
  for (const char* off : {"", "linear", "all"}) {
    TestGraph t;
    t.Output(t.Op("MatMul", {t.Input("x", {-1, 8}), t.Zeros({8, 3})}));
    t.Op("Relu", {t.g.outputs[0]});  // dead
    PassOptions options;
    if (*off) options.disabled = {off};
    RunPipeline(t.g, options);
    EXPECT_EQ(t.Count("ullage:Linear"), *off ? 0 : 1);
    EXPECT_EQ(t.Count("Relu"), std::string(off) == "all" ? 1 : 0);
  }
}

TEST(Pipeline, RunsOnBodies) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, 8}), w = t.Zeros({8, 3});
  Node& node = t.Add("If", {t.Input("c", {}, DType::kBool)});
  std::vector<std::shared_ptr<Graph>> bodies;
  for (const char* key : {"then_branch", "else_branch"}) {
    auto body = std::make_shared<Graph>();
    body->opsets = {{"", 21}};
    const ValueId a = body->AddValue("x"), b = body->AddValue("w"), y = body->AddValue("y");
    body->value(a).is_input = body->value(b).is_input = true;
    body->capture_values = {a, b};
    body->capture_names = {"x", "w"};
    body->AddNode("", "MatMul", "product", {a, b}, {y});
    body->outputs = {y};
    node.attributes[key] = body;
    bodies.push_back(body);
  }
  t.g.SetCaptures(node, {x, w});
  t.Output(node.outputs[0]);
  RunPipeline(t.g, {});
  for (const auto& body : bodies) {
    EXPECT_TRUE(body->ProducerOf(body->outputs[0])->Is("ullage", "Linear"));
    EXPECT_EQ(body->log.size(), 1u);
  }
}

}  // namespace
}  // namespace ullage::transforms
