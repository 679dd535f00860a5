#include "placement/casts.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/widened.h"
#include "placement/test_provider.h"
#include "placement/widen.h"

namespace ullage::placement {
namespace {

using namespace test;  // NOLINT

constexpr DType kHalf = DType::kFloat16;

/// Nodes over tensors of float16 of shape [4, 4].
struct HalfGraph {
  std::shared_ptr<Graph> g = std::make_shared<Graph>();

  HalfGraph() { g->opsets = {{"", 21}}; }
  ValueId Input(const std::string& name) {
    return g->AddInput(name, kHalf, graph::DeclaredShape{{4, ""}, {4, ""}});
  }
  ValueId Weight(const std::string& name, const Shape& shape = {4, 4}) {
    const auto made = graph::MakeConstant(kHalf, shape);
    for (int64_t i = 0; i < shape.elements(); ++i) made.data[2 * i + 1] = std::byte{0x3c};  // 1
    return g->AddConstant(name, made.constant);
  }
  ValueId Add(const std::string& op, const std::string& name, std::vector<ValueId> in) {
    const ValueId out = g->AddValue(name + "_out");
    g->AddNode("", op, name, std::move(in), {out});
    return out;
  }
};

/// A GPU for float32 only, and a host for all.
Placing FloatGpuAndHost(std::vector<std::string> gpu = {"Relu", "Add", "MatMul", "Mul", "Gather"}) {
  Placing p;
  p.Add("gpux", DeviceType::kGpu, 1, std::move(gpu));
  p.Add("cpu", DeviceType::kCpu, 1, {"Relu", "Add", "MatMul", "Mul", "Softmax", "Cast", "Gather"},
        kernels::kNumbersAndBool);
  return p;
}

struct Result {
  std::unique_ptr<PlacedGraph> placed;
  std::optional<Casts> casts;
};

Result Insert(Placing& p, const Graph& g) {
  Result r;
  r.placed = p.Place(g);
  shapes::GraphFacts* const facts[] = {&p.facts};
  r.casts = InsertCasts(p.options, 1, false, facts, r.placed.get());
  return r;
}

/// "gpux:0 Relu(x/float32)" in the order in which the nodes run.
std::vector<std::string> Steps(const PlacedGraph& placed) {
  std::vector<std::string> steps;
  for (const NodeRef& ref : placed.nodes()) {
    std::string in;
    for (ValueId v : ref->inputs) in += (in.empty() ? "" : ",") + ref.graph->value(v).name;
    steps.push_back(placed.devices()[placed.of(ref).device].device.info.name + " " + ref->op + "(" + in +
                    ")");
  }
  return steps;
}

TEST(Casts, AroundNeighboursNotBetweenThem) {
  HalfGraph h;
  const ValueId x = h.Input("x"), w = h.Weight("w");
  const ValueId a = h.Add("MatMul", "/layers.3/a", {x, w});
  const ValueId b = h.Add("Relu", "/layers.3/b", {a});
  const ValueId c = h.Add("Add", "/layers.3/c", {b, x});
  const ValueId d = h.Add("Softmax", "d", {c});
  h.g->outputs = {d, b};
  graph::Verify(*h.g);
  const std::string before = graph::Dump(*h.g);
  auto p = FloatGpuAndHost();
  const size_t values = h.g->value_count();
  const Result r = Insert(p, *h.g);
  ASSERT_TRUE(r.casts);
  EXPECT_EQ(graph::Dump(*h.g), before) << "others may use the graph";
  EXPECT_EQ(r.casts->casts, 3) << "x once for two readers; b and c back";
  const Graph& g = *r.casts->graph;
  EXPECT_EQ(&r.placed->graph(), &g);
  auto steps = Steps(*r.placed);
  std::sort(steps.begin(), steps.end());
  EXPECT_EQ(steps,
            (std::vector<std::string>{
                "cpu Cast(/layers.3/b_out/float32)", "cpu Cast(/layers.3/c_out/float32)", "cpu Cast(x)",
                "cpu Softmax(/layers.3/c_out)", "gpux:0 Add(/layers.3/b_out/float32,x/float32)",
                "gpux:0 MatMul(x/float32,w/float32)", "gpux:0 Relu(/layers.3/a_out/float32)"}));
  EXPECT_EQ(g.outputs, h.g->outputs);
  // The casts belong to what they serve.
  for (const NodeRef& ref : r.placed->nodes()) {
    if (ref->op != "Cast") continue;
    EXPECT_NE(ref->name.find("/layers.3/"), std::string::npos) << ref->name;
    EXPECT_EQ(r.placed->of(ref).layer, 3);
    EXPECT_EQ(ref->provenance.size(), 1u);
    EXPECT_FALSE(r.placed->of(ref).wide);
  }
  EXPECT_EQ(r.placed->devices()[0].nodes, 3);
  EXPECT_EQ(r.placed->devices()[1].nodes, 4);
  ASSERT_EQ(r.casts->weights.size(), 1u);
  EXPECT_EQ(r.casts->weights[0].wide->dtype, DType::kFloat);
  EXPECT_EQ(r.casts->weights[0].wide->AsDoubles(), std::vector<double>(16, 1.0));
  const ValueId wide = g.FindValue("x/float32");
  EXPECT_EQ(p.facts.of(wide).dtype, DType::kFloat);
  EXPECT_EQ(p.facts.of(wide).shape.ToString(), "[4,4]");
  EXPECT_EQ(p.facts.values.size(), g.value_count());
  ForgetCasts(*h.g, &p.facts);
  EXPECT_EQ(p.facts.values.size(), values);
  ASSERT_FALSE(r.placed->warnings().empty());
  EXPECT_EQ(r.placed->warnings()[0],
            "3 nodes run in float32 on gpux:0, which has no float16 kernel for Add, MatMul, Relu");
  ASSERT_EQ(r.placed->fallbacks().size(), 1u) << "only the Softmax went elsewhere";
  EXPECT_TRUE(r.placed->fallbacks()[0].node->alive);
  EXPECT_EQ(r.placed->fallbacks()[0].node.graph, &g);
}

TEST(Casts, OnTheDeviceWhereItHasThem) {
  HalfGraph h;
  h.g->outputs = {h.Add("Relu", "a", {h.Input("x")})};
  Placing p;
  p.Add("gpux", DeviceType::kGpu, 1, {"Relu"});
  // A device that stores half floats but computes with none: casts only.
  kernels::KernelDef cast;
  cast.op = "Cast";
  cast.create = [](const kernels::KernelInfo& info) -> std::unique_ptr<kernels::Kernel> {
    return std::make_unique<TestKernel>(info);
  };
  const_cast<kernels::Registry&>(p.providers[0]->registry()).Add(cast);
  p.Add("cpu", DeviceType::kCpu, 1, {"Relu", "Cast"}, kernels::kNumbersAndBool);
  const Result r = Insert(p, *h.g);
  EXPECT_EQ(Steps(*r.placed), (std::vector<std::string>{"gpux:0 Cast(x)", "gpux:0 Relu(x/float32)",
                                                        "gpux:0 Cast(a_out/float32)"}));
}

TEST(Casts, WhatIsLeftOut) {
  HalfGraph h;
  const ValueId x = h.Input("x"), past = h.Input("past");
  const ValueId ids = h.g->AddInput("ids", DType::kInt64, graph::DeclaredShape{{3, ""}});
  const ValueId table = h.Weight("table", {256, 4096});
  const ValueId kept = h.Add("Add", "state", {x, past});
  const ValueId rows = h.Add("Gather", "lookup", {table, ids});
  const ValueId wide = h.g->AddValue("wide");
  h.g->AddNode("", "Cast", "typed", {x}, {wide}).attributes["to"] = int64_t{1};
  const ValueId y = h.Add("Relu", "plain", {x});
  h.g->outputs = {kept, rows, wide, y};
  graph::Verify(*h.g);
  auto p = FloatGpuAndHost({"Relu", "Add", "Gather", "Cast"});
  p.states = {past, kept};
  auto placed = p.Place(*h.g);
  EXPECT_EQ(Where(*placed, "state"), "cpu no_kernel");
  EXPECT_EQ(Where(*placed, "lookup"), "cpu no_kernel");
  EXPECT_EQ(Where(*placed, "typed"), "cpu no_kernel");
  EXPECT_EQ(Where(*placed, "plain"), "gpux:0 automatic");
  p.options.Set("session.insert_casts", "0");
  placed = p.Place(*h.g);
  EXPECT_EQ(Where(*placed, "plain"), "cpu no_kernel");
  shapes::GraphFacts* const facts[] = {&p.facts};
  EXPECT_FALSE(InsertCasts(p.options, 1, false, facts, placed.get()));
  EXPECT_EQ(&placed->graph(), h.g.get());
}

TEST(Casts, StrictModeWantsToBeAsked) {
  HalfGraph h;
  h.g->outputs = {h.Add("Relu", "a", {h.Input("x")})};
  auto p = FloatGpuAndHost();
  p.options.Set("session.strict", "1");
  std::string message;
  EXPECT_EQ(CodeOf(p, *h.g, &message), Code::kUnsupported);
  EXPECT_NE(message.find("no kernel for Relu with type float16"), std::string::npos) << message;
  p.options.Set("session.insert_casts", "1");
  EXPECT_EQ(Where(*p.Place(*h.g), "a"), "gpux:0 automatic");
}

TEST(Casts, BudgetsCountFloats) {
  HalfGraph h;
  const ValueId x = h.Input("x"), w = h.Weight("w");
  const ValueId a = h.Add("MatMul", "a", {x, w});  // 64 of weights, 64 of result, 64 of the cast
  const ValueId b = h.Add("Add", "b", {a, x});     // 64
  const ValueId c = h.Add("Mul", "c", {b, w});     // 64: the weight is there
  h.g->outputs = {c};
  for (const auto& [budget, nodes] :
       std::vector<std::pair<int, int64_t>>{{191, 0}, {192, 1}, {255, 1}, {256, 2}, {319, 2}, {320, 3}}) {
    auto p = FloatGpuAndHost();
    p.options.Set("session.resource_partitioning_settings", "gpu:" + std::to_string(budget));
    const Result r = Insert(p, *h.g);
    EXPECT_EQ(r.placed->devices()[0].nodes, nodes) << budget;
    EXPECT_EQ(r.casts.has_value(), nodes > 0);
    EXPECT_EQ(r.placed->ledger().size(), 3u) << "reservations are those of the model's nodes";
    if (r.casts) {
      EXPECT_NE(r.placed->ledger().Find({r.casts->graph.get(), 0}), nullptr);
    }
  }
}

TEST(Casts, TwoDevicesOneWithoutTheType) {
  HalfGraph h;
  const ValueId x = h.Input("x");
  const ValueId a = h.Add("Relu", "first", {x}), b = h.Add("Relu", "second", {a}),
                c = h.Add("Relu", "third", {b});
  h.g->outputs = {c};
  Placing p;
  p.Add("gpux", DeviceType::kGpu, 2, {"Relu"});
  p.Add("npux", DeviceType::kNpu, 1, {"Relu"}, kernels::kFloats);
  p.Add("cpu", DeviceType::kCpu, 1, {"Relu", "Cast"}, kernels::kNumbersAndBool);
  p.options.Set("session.name_based_layer_assignment", "gpux:0(first); npux(second); gpux:1(third)");
  const Result r = Insert(p, *h.g);
  EXPECT_EQ(Steps(*r.placed),
            (std::vector<std::string>{"cpu Cast(x)", "gpux:0 Relu(x/float32)", "cpu Cast(first_out/float32)",
                                      "npux:0 Relu(first_out)", "cpu Cast(second_out)",
                                      "gpux:1 Relu(second_out/float32)", "cpu Cast(third_out/float32)"}));
  // Both without it: what the one makes the other takes as it is.
  p.options.Set("session.name_based_layer_assignment", "gpux:0(first, second); gpux:1(third)");
  const Result s = Insert(p, *h.g);
  EXPECT_EQ(s.casts->casts, 2);
}

TEST(Casts, ViewsBetweenWidenedNodesAreWideToo) {
  HalfGraph h;
  const ValueId shape = h.g->AddConstant("shape", graph::MakeInts({1}, std::vector<int64_t>{16}));
  const ValueId a = h.Add("Relu", "a", {h.Input("x")});
  const ValueId flat = h.Add("Reshape", "flat", {a, shape});
  h.g->outputs = {h.Add("Relu", "b", {flat})};
  auto p = FloatGpuAndHost();
  const Result r = Insert(p, *h.g);
  EXPECT_EQ(r.casts->casts, 2);
  EXPECT_EQ(r.placed->devices()[0].nodes, 3);
}

TEST(Casts, InBodies) {
  HalfGraph h;
  const ValueId x = h.Input("x");
  const ValueId c = h.g->AddInput("c", DType::kBool, graph::DeclaredShape{});
  const ValueId y = h.g->AddValue("y");
  Node& node = h.g->AddNode("", "If", "if", {c}, {y});
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto body = std::make_shared<Graph>();
    body->opsets = h.g->opsets;
    const ValueId in = body->AddInput("x", kHalf, std::nullopt);
    body->inputs.clear();
    body->capture_values = {in};
    body->capture_names = {"x"};
    const ValueId out = body->AddValue("out");
    body->AddNode("", branch[0] == 't' ? "Relu" : "Softmax", std::string(branch) + "/op", {in}, {out});
    body->outputs = {out};
    node.attributes[branch] = std::move(body);
  }
  h.g->SetCaptures(node, {x});
  h.g->outputs = {y};
  graph::Verify(*h.g);
  auto p = FloatGpuAndHost();
  const Result r = Insert(p, *h.g);
  ASSERT_TRUE(r.casts);
  EXPECT_EQ(r.casts->casts, 2);
  EXPECT_EQ(Steps(*r.placed),
            (std::vector<std::string>{"cpu Softmax(x)", "cpu Cast(x)", "gpux:0 Relu(x/float32)",
                                      "cpu Cast(out/float32)", "cpu If(c)"}));
  EXPECT_EQ(graph::Dump(*node.Subgraph("then_branch")).find("Cast"), std::string::npos);
  size_t body_values = 0;
  for (const auto& [key, facts] : p.facts.bodies) body_values = std::max(body_values, facts->values.size());
  EXPECT_EQ(body_values, 4u);
  ForgetCasts(*h.g, &p.facts);
  for (const auto& [key, facts] : p.facts.bodies) EXPECT_EQ(facts->values.size(), 2u);
}

TEST(Widened, LargeConstantsHaveBytesOnlyWhileTheyAreFilled) {
  const auto made = graph::MakeConstant(DType::kBFloat16, {256, 257});
  for (size_t i = 0; i < 256 * 257; ++i) made.data[2 * i + 1] = std::byte{0x40};  // 2
  const auto wide = graph::Widened(made.constant, true), planned = graph::Widened(made.constant, false);
  EXPECT_TRUE(graph::IsFilledLater(*wide));
  EXPECT_EQ(wide->size_bytes, 4u * 256 * 257);
  EXPECT_FALSE(planned->available());
  EXPECT_EQ(KeyOf(*planned), KeyOf(*graph::Widened(made.constant, false))) << "one weight, whoever asks";
  EXPECT_NE(KeyOf(*planned), KeyOf(*made.constant));
  const auto* numbers = reinterpret_cast<const float*>(wide->bytes);
  EXPECT_EQ(numbers[70], 0);
  graph::FillWidened(*wide, *made.constant);
  EXPECT_EQ(numbers[0], 2);
  EXPECT_EQ(numbers[256 * 257 - 1], 2);
  graph::DiscardWidened(*wide);
  EXPECT_EQ(numbers[70], 0);
}

}  // namespace
}  // namespace ullage::placement
