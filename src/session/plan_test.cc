#include "session/plan.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "core/error.h"
#include "placement/place.h"
#include "session/plan_check.h"
#include "session/session.h"
#include "shapes/input_bounds.h"

namespace ullage::session {
namespace {

using graph::Graph;
using graph::ValueId;

/// Splits x [4, 64] in two along axis 0, works on the halves, slices one of them, and joins all along axis 0.
std::shared_ptr<Graph> Branches() {
  auto g = std::make_shared<Graph>();
  g->name = "branches";
  g->opsets = {{"", 21}};
  const ValueId x = g->AddInput("x", DType::kFloat, graph::DeclaredShape{{4, ""}, {64, ""}});
  const auto ints = [&](const char* name, std::vector<int64_t> values) {
    return g->AddConstant(name, graph::MakeInts({static_cast<int64_t>(values.size())}, values));
  };
  const auto node = [&](const char* op, std::vector<ValueId> in, const char* out) {
    const ValueId v = g->AddValue(out);
    g->AddNode("", op, out, std::move(in), {v});
    return v;
  };
  const ValueId h = node("Exp", {x}, "h");
  const ValueId a = g->AddValue("a"), b = g->AddValue("b");
  g->AddNode("", "Split", "split", {h, ints("sizes", {1, 3})}, {a, b});
  const ValueId s = node("Slice", {b, ints("from", {-2}), ints("to", {100}), ints("axes", {0})}, "s");
  const ValueId u = node("Sigmoid", {a}, "u");
  const ValueId w = node("Tanh", {s}, "w");
  const ValueId d = node("Mul", {b, b}, "d");
  const ValueId j = g->AddValue("j");
  g->AddNode("", "Concat", "join", {u, w, d, x}, {j}).attributes["axis"] = int64_t{0};
  const ValueId y = node("Add", {j, j}, "y");
  g->outputs = {y, w};
  return g;
}

std::unique_ptr<Session> Make(const std::vector<const char*>& off) {
  SessionSpec spec;
  spec.model_name = "branches";
  spec.graph = Branches();
  spec.threads = 1;
  spec.profiles = {ExactProfile("only", {{4, 64}})};
  spec.options.Set("session.pre_allocate_execution_buffers", "1");
  for (const char* key : off) spec.options.Set(key, "0");
  return Session::Create(std::move(spec));
}

std::vector<std::vector<float>> RunOnce(Session& session) {
  std::vector<float> x(4 * 64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  const TensorView view{x.data(), DType::kFloat, Shape{4, 64}, 0};
  const Execution run = session.Run(0, {&view, 1});
  std::vector<std::vector<float>> results;
  for (size_t o = 0; o < 2; ++o) {
    const TensorView& y = run.output(o);
    results.emplace_back(y.as<float>(), y.as<float>() + y.elements());
  }
  return results;
}

TEST(Plan, SwitchesChangeBytesNotResults) {
  const std::vector<const char*> all = {"session.plan_concat", "session.plan_in_place", "session.plan_order",
                                        "session.plan_views"};
  const auto plain = Make(all);
  const auto expected = RunOnce(*plain);
  const auto full = Make({});
  EXPECT_EQ(RunOnce(*full), expected);
  EXPECT_LT(full->profile_plans()[0].plan->host().bytes, plain->profile_plans()[0].plan->host().bytes);
  for (const char* one : all) {
    const auto session = Make({one});
    EXPECT_EQ(RunOnce(*session), expected) << one;
    EXPECT_EQ(RunOnce(*session), expected) << one << ", again";
  }
  // By hand: rows of y are twice those of the joined branches.
  const auto x = [](size_t i) { return std::sin(static_cast<double>(i)); };
  EXPECT_NEAR(expected[0][5], 2 / (1 + std::exp(-std::exp(x(5)))), 1e-5);
  EXPECT_NEAR(expected[0][64 + 7], 2 * std::tanh(std::exp(x(128 + 7))), 1e-5);
  EXPECT_NEAR(expected[0][3 * 64 + 9], 2 * std::exp(2 * x(64 + 9)), 1e-4);
  EXPECT_NEAR(expected[0][6 * 64 + 11], 2 * x(11), 1e-6);
  EXPECT_NEAR(expected[1][64 + 3], std::tanh(std::exp(x(192 + 3))), 1e-5);
}

std::unique_ptr<placement::PlacedGraph> OnCpu(const Graph& graph, const shapes::GraphFacts& facts) {
  const OptionBag options;
  placement::PlaceRequest request;
  request.graph = &graph;
  request.facts = &facts;
  request.devices = placement::ReadDevices(options, providers::AllProviders(options));
  return placement::Place(request);
}

struct Judged {
  std::shared_ptr<Graph> graph = Branches();
  ops::SymbolTable table;
  shapes::GraphFacts facts;
  std::unique_ptr<placement::PlacedGraph> placed;
  std::unique_ptr<Program> program;
  std::unique_ptr<Plan> plan;

  explicit Judged(bool views = true) {
    OptionBag options;
    options.Set("session.plan_views", views ? "1" : "0");
    facts = shapes::Propagate(*graph, shapes::DeclaredInputFacts(*graph, table), {}, table);
    placed = OnCpu(*graph, facts);
    program = Program::Build(*graph, facts, *placed, 1, &options);
    plan = MakePlan(*program, facts, {}, 1);
  }
  int64_t& offset(const char* name) { return plan->offsets[static_cast<size_t>(graph->FindValue(name))]; }
  std::string Faults() const {
    std::string all;
    for (const auto& fault : CheckPlan(*program, facts, {}, *plan)) all += fault + "\n";
    return all;
  }
};

TEST(Plan, ViewsAndPlacesAreUsed) {
  Judged j;
  EXPECT_EQ(j.Faults(), "");
  EXPECT_EQ(j.program->place(j.graph->FindValue("a")), Place::kView);
  EXPECT_EQ(j.program->root(j.graph->FindValue("s")), j.graph->FindValue("h"));
  EXPECT_FALSE(j.program->whole(j.graph->FindValue("s")));
  EXPECT_EQ(j.offset("u"), j.offset("j"));
  EXPECT_EQ(j.offset("w"), j.offset("j") + 256);
  EXPECT_EQ(j.offset("d"), j.offset("j") + 3 * 256);
  Judged copies(false);
  EXPECT_EQ(copies.program->place(copies.graph->FindValue("a")), Place::kPlanned);
}

TEST(Plan, TheJudgeNamesBrokenPlans) {
  const auto says = [](const char* part, auto&& damage) {
    Judged j;
    damage(j);
    const std::string faults = j.Faults();
    EXPECT_NE(faults.find(part), std::string::npos) << "expected " << part << ", found: " << faults;
  };
  says("over its input", [](Judged& j) { j.offset("d") = j.offset("h"); });
  says("outside the arena", [](Judged& j) { j.offset("y") = j.plan->host().bytes; });
  says("outside the arena", [](Judged& j) { j.offset("y") = -64; });
  // A result over a value that a later node reads.
  says("when its bytes do not hold it", [](Judged& j) { j.offset("u") = j.offset("h") + 256; });
  // Joined values in each other's places.
  says("over its input", [](Judged& j) { std::swap(j.offset("u"), j.offset("w")); });
  // A result that outlives its bytes: w is an output of the graph.
  says("the end of the run reads w", [](Judged& j) { j.offset("y") = j.offset("w"); });
}

/// y = h + down(silu(gate(h)) * up(h)), h = tanh(x), x [S, 8], with a wide middle.
std::shared_ptr<Graph> Mlp() {
  auto g = std::make_shared<Graph>();
  g->name = "mlp";
  g->opsets = {{"", 21}};
  const ValueId x = g->AddInput("x", DType::kFloat, graph::DeclaredShape{{-1, "s"}, {8, ""}});
  const auto weights = [&](const char* name, const Shape& shape) {
    std::vector<float> w(static_cast<size_t>(shape.elements()));
    for (size_t i = 0; i < w.size(); ++i) w[i] = std::sin(static_cast<float>(i) * 0.37f) * 0.3f;
    return g->AddConstant(name, graph::MakeFloats(shape, w));
  };
  const auto node = [&](const char* op, std::vector<ValueId> in, const char* out) {
    const ValueId v = g->AddValue(out);
    g->AddNode("", op, out, std::move(in), {v});
    return v;
  };
  const ValueId h = node("Tanh", {x}, "h");
  const ValueId gate = node("MatMul", {h, weights("w_gate", {8, 64})}, "gate");
  const ValueId up = node("MatMul", {h, weights("w_up", {8, 64})}, "up");
  const ValueId act = node("Mul", {node("Sigmoid", {gate}, "silu"), up}, "act");
  const ValueId down = node("MatMul", {act, weights("w_down", {64, 8})}, "down");
  g->outputs = {node("Add", {h, down}, "y")};
  return g;
}

std::vector<ops::ValueFacts> UpToRows(int64_t rows, ops::SymbolTable& table) {
  ops::ValueFacts f;
  f.dtype = DType::kFloat;
  f.shape = ops::BoundedShape::OfDims({table.Symbol("s", 1, rows), ops::Bound::Exactly(8)});
  return {f};
}

std::unique_ptr<Session> MakeMlp(int64_t rows, const char* option, const char* value) {
  SessionSpec spec;
  spec.model_name = "mlp";
  spec.graph = Mlp();
  spec.threads = 2;
  spec.profiles = {{"only", [rows](const Graph&, ops::SymbolTable& t) { return UpToRows(rows, t); }}};
  spec.options.Set("session.pre_allocate_execution_buffers", "1");
  spec.options.Set(option, value);
  return Session::Create(std::move(spec));
}

std::vector<float> RunMlp(Session& session, int64_t rows, const std::atomic<bool>* stop = nullptr) {
  std::vector<float> x(static_cast<size_t>(rows * 8));
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::cos(static_cast<float>(i) * 0.71f);
  const TensorView view{x.data(), DType::kFloat, Shape{rows, 8}, 0};
  const Execution run = session.Run(0, {&view, 1}, stop);
  const TensorView& y = run.output(0);
  EXPECT_TRUE(y.shape == (Shape{rows, 8}));
  return {y.as<float>(), y.as<float>() + y.elements()};
}

TEST(Plan, TilesTakeLessAndChangeNoBit) {
  const auto whole = MakeMlp(600, "session.plan_tiles", "0");
  const auto tiled = MakeMlp(600, "session.plan_tiles", "1");
  const auto few = MakeMlp(600, "session.plan_tile_rows", "7");
  EXPECT_TRUE(whole->profile_plans()[0].plan->tiles.empty());
  ASSERT_FALSE(tiled->profile_plans()[0].plan->tiles.empty());
  EXPECT_LT(3 * tiled->profile_plans()[0].plan->host().bytes,
            2 * whole->profile_plans()[0].plan->host().bytes);
  for (int64_t rows : {600, 1, 7, 8, 255, 256, 257, 513, 600}) {
    const auto expected = RunMlp(*whole, rows);
    EXPECT_EQ(RunMlp(*tiled, rows), expected) << rows;
    EXPECT_EQ(RunMlp(*few, rows), expected) << rows;
  }
  EXPECT_EQ(tiled->allocations_during_run(), 0);
}

TEST(Plan, AnInterruptedTileLeavesNothingBehind) {
  const auto session = MakeMlp(64, "session.plan_tile_rows", "4");
  const auto expected = RunMlp(*session, 64);
  const std::atomic<bool> stop{true};
  EXPECT_THROW(RunMlp(*session, 64, &stop), Error);
  EXPECT_EQ(RunMlp(*session, 64), expected);
}

TEST(Plan, TheJudgeNamesBrokenTiles) {
  auto graph = Mlp();
  ops::SymbolTable table;
  const auto facts = shapes::Propagate(*graph, UpToRows(600, table), {}, table);
  const auto placed = OnCpu(*graph, facts);
  const auto program = Program::Build(*graph, facts, *placed, 1);
  PlanOptions options;
  options.tile_rows = 100;
  const auto says = [&](const char* part, auto&& damage) {
    const auto plan = MakePlan(*program, facts, {}, 1, options);
    ASSERT_EQ(plan->tiles.size(), 1u);
    ASSERT_TRUE(CheckPlan(*program, facts, {}, *plan).empty());
    damage(*plan);
    std::string faults;
    for (const auto& fault : CheckPlan(*program, facts, {}, *plan)) faults += fault + "\n";
    EXPECT_NE(faults.find(part), std::string::npos) << "expected " << part << ", found: " << faults;
  };
  const auto at = [&](const char* name) { return static_cast<size_t>(graph->FindValue(name)); };
  // The first tile leaves what it made; the second may not have written over what follows.
  says("over its input", [&](Plan& plan) { plan.offsets[at("gate")] = plan.offsets[at("h")]; });
  says("outside the arena", [&](Plan& plan) { plan.offsets[at("act")] = plan.host().bytes; });
  says("has no rows", [&](Plan& plan) { plan.tiles[0].outside[0].row_bytes += 4; });
  // What follows the tiles needs all rows.
  says("when its bytes do not hold it", [&](Plan& plan) {
    plan.tiles[0].last -= 1;
    plan.tiles[0].outside.pop_back();
  });
}

TEST(Plan, TheJudgeNamesWorkspacesOverValues) {
  for (const char* damaged : {"in", "out"}) {
    auto g = std::make_shared<Graph>();
    g->name = "product";
    g->opsets = {{"", 21}};
    const ValueId x = g->AddInput("x", DType::kFloat, graph::DeclaredShape{{8, ""}, {64, ""}});
    const ValueId h = g->AddValue("in"), y = g->AddValue("out");
    g->AddNode("", "Exp", "exp", {x}, {h});
    g->AddNode("", "Softmax", "softmax", {h}, {y});
    g->outputs = {y};
    ops::SymbolTable table;
    const auto facts = shapes::Propagate(*g, shapes::DeclaredInputFacts(*g, table), {}, table);
    const auto placed = OnCpu(*g, facts);
    const auto program = Program::Build(*g, facts, *placed, 1);
    const auto plan = MakePlan(*program, facts, {}, 1, {.in_place = false});
    ASSERT_TRUE(CheckPlan(*program, facts, {}, *plan).empty());
    plan->offsets[static_cast<size_t>(g->FindValue(damaged))] += plan->host().bytes;
    EXPECT_FALSE(CheckPlan(*program, facts, {}, *plan).empty()) << damaged;
  }
}

}  // namespace
}  // namespace ullage::session
