#include "session/session.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "core/error.h"
#include "graph/patch.h"
#include "memory/checker.h"

namespace ullage::session {
namespace {

using graph::DeclaredDim;
using graph::Graph;
using graph::kNone;
using graph::ValueId;

std::shared_ptr<Graph> NewGraph() {
  auto g = std::make_shared<Graph>();
  g->name = "test";
  g->opsets = {{"", 21}, {"com.microsoft", 1}, {"ullage", 1}};
  return g;
}

ValueId Floats(Graph& g, const char* name, const Shape& shape, float first, float step) {
  std::vector<float> v(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = first + step * static_cast<float>(i);
  return g.AddConstant(name, graph::MakeFloats(shape, v));
}

/// y = relu(x W + b) + x, with x [S, 4], S declared unknown.
std::shared_ptr<Graph> Residual() {
  auto g = NewGraph();
  const ValueId x = g->AddInput("x", DType::kFloat, graph::DeclaredShape{{-1, "s"}, {4, ""}});
  const ValueId w = Floats(*g, "w", {4, 4}, -0.5f, 0.125f), b = Floats(*g, "b", {4}, 0.25f, -0.1f);
  const ValueId m = g->AddValue("m"), a = g->AddValue("a"), r = g->AddValue("r"), y = g->AddValue("y");
  g->AddNode("", "MatMul", "matmul", {x, w}, {m});
  g->AddNode("", "Add", "add", {m, b}, {a});
  g->AddNode("", "Relu", "relu", {a}, {r});
  g->AddNode("", "Add", "residual", {r, x}, {y});
  g->outputs = {y};
  return g;
}

ProfileSpec Rows(std::string name, int64_t least, int64_t most) {
  return {std::move(name), [=](const Graph&, ops::SymbolTable& table) {
            ops::ValueFacts f;
            f.dtype = DType::kFloat;
            f.shape = ops::BoundedShape::OfDims({table.Symbol("s", least, most), ops::Bound::Exactly(4)});
            return std::vector<ops::ValueFacts>{f};
          }};
}

std::vector<float> Expected(const std::vector<float>& x) {
  std::vector<float> y(x.size());
  for (size_t r = 0; r < x.size() / 4; ++r)
    for (size_t j = 0; j < 4; ++j) {
      double sum = 0.25 - 0.1 * static_cast<double>(j);
      for (size_t k = 0; k < 4; ++k) sum += x[r * 4 + k] * (-0.5 + 0.125 * static_cast<double>(k * 4 + j));
      y[r * 4 + j] = static_cast<float>(std::max(sum, 0.0) + x[r * 4 + j]);
    }
  return y;
}

std::vector<float> Input(int64_t rows) {
  std::vector<float> x(static_cast<size_t>(rows) * 4);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i) * 0.7f);
  return x;
}

std::unique_ptr<Session> Make(bool pre_allocate, bool plan_only = false, std::optional<int64_t> limit = {}) {
  SessionSpec spec;
  spec.model_name = "residual";
  spec.graph = Residual();
  spec.threads = 2;
  spec.profiles = {Rows("many", 1, 8), Rows("one", 1, 1)};
  spec.cpu_limit = limit;
  spec.plan_only = plan_only;
  if (pre_allocate) spec.options.Set("session.pre_allocate_execution_buffers", "1");
  return Session::Create(std::move(spec));
}

TensorView View(std::vector<float>& x) {
  return {x.data(), DType::kFloat, Shape{static_cast<int64_t>(x.size() / 4), 4}, 0};
}

TEST(Session, RunsWithinItsProfiles) {
  for (bool pre_allocate : {false, true}) {
    const auto s = Make(pre_allocate);
    for (int64_t rows : {8, 1, 3, 8}) {
      auto x = Input(rows);
      const TensorView in = View(x);
      const Execution run = s->Run(0, {&in, 1});
      const auto want = Expected(x);
      const TensorView& y = run.output(0);
      ASSERT_EQ(y.shape, (Shape{rows, 4}));
      for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(y.as<float>()[i], want[i], 1e-5f);
    }
    auto x = Input(1);
    const TensorView in = View(x);
    EXPECT_NEAR(s->Run(1, {&in, 1}).output(0).as<float>()[3], Expected(x)[3], 1e-5f);
    EXPECT_EQ(s->allocations_during_run(), 0);
  }
}

TEST(Session, RefusesInputsOutsideOfTheBoundsBeforeAnythingRuns) {
  const auto s = Make(true);
  auto x = Input(9);
  const TensorView in = View(x);
  try {
    (void)s->Run(0, {&in, 1});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kInvalidInput);
    EXPECT_NE(e.message().find("input x"), std::string::npos) << e.message();
    EXPECT_NE(e.message().find("[9,4]"), std::string::npos) << e.message();
  }
  TensorView wrong = in;
  wrong.dtype = DType::kInt32;
  EXPECT_THROW((void)s->Run(0, {&wrong, 1}), Error);
  EXPECT_THROW((void)s->Run(0, {}), Error);
}

TEST(Session, PlanAndSessionAgreeToTheByte) {
  const auto plan = Make(true, true);
  const auto session = Make(true);
  EXPECT_EQ(plan->device_plan().tags, session->device_plan().tags);
  EXPECT_EQ(session->peak_bytes(), session->device_plan().tags.Sum());
}

TEST(Session, ALimitIsKeptToTheByte) {
  const int64_t need = Make(true, true)->device_plan().tags.Sum();
  EXPECT_NO_THROW(Make(true, false, need));
  try {
    Make(true, false, need - 1);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kDoesNotFit);
    EXPECT_NE(e.details_json().find("\"missing_bytes\":1"), std::string::npos) << e.details_json();
  }
}

TEST(Session, ASecondRunIsBusy) {
  const auto s = Make(true);
  std::atomic<int> busy{0}, done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      auto x = Input(8);
      const TensorView in = View(x);
      for (int i = 0; i < 200; ++i) {
        try {
          const Execution run = s->Run(0, {&in, 1});
          ++done;
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), Code::kBusy);
          ++busy;
        }
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(busy + done, 800);
  EXPECT_GE(done.load(), 1);
  EXPECT_EQ(s->allocations_during_run(), 0);
}

TEST(Session, ResultsHoldTheOneFrameUntilTheyAreReleased) {
  const auto s = Make(true);
  auto x = Input(2);
  const TensorView in = View(x);
  Execution first = s->Run(0, {&in, 1});
  try {
    (void)s->Run(0, {&in, 1});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kBusy);
  }
  first.Release();
  EXPECT_NO_THROW((void)s->Run(0, {&in, 1}));
  // A refused Run gives its frame back.
  auto wide = Input(9);
  const TensorView outside = View(wide);
  EXPECT_THROW((void)s->Run(0, {&outside, 1}), Error);
  EXPECT_NO_THROW((void)s->Run(0, {&in, 1}));
}

void ExpectResult(const Execution& run, const std::vector<float>& x) {
  const auto want = Expected(x);
  const TensorView& y = run.output(0);
  ASSERT_EQ(y.elements(), static_cast<int64_t>(want.size()));
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(y.as<float>()[i], want[i], 1e-5f);
}

TEST(Session, RunsGoSideBySide) {
  const auto s = Make(false);
  auto a = Input(8), b = Input(3);
  const TensorView in_a = View(a), in_b = View(b);
  // Both hold results at the same time, so neither waited for the other.
  const Execution first = s->Run(0, {&in_a, 1});
  const Execution second = s->Run(0, {&in_b, 1});
  ExpectResult(first, a);
  ExpectResult(second, b);
  EXPECT_EQ(s->allocations_during_run(), 1);
}

TEST(Session, ManyThreadsShareASession) {
  const auto s = Make(false);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        auto x = Input(1 + (t * 3 + i) % 8);
        const TensorView in = View(x);
        ExpectResult(s->Run(0, {&in, 1}), x);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_LE(s->allocations_during_run(), 3);
  EXPECT_LE(s->peak_bytes(), 4 * s->device_plan().tags.Sum());
  s->Trim();
  EXPECT_EQ(s->current_bytes(), s->device_plan().tags.Sum());
}

TEST(Session, WhereTheLimitLeavesNoRoomForAnotherFrameARunWaits) {
  const int64_t need = Make(false, true)->device_plan().tags.Sum();
  const auto s = Make(false, false, need);
  auto a = Input(8), b = Input(3);
  const TensorView in_a = View(a);
  Execution first = s->Run(0, {&in_a, 1});
  std::atomic<bool> ended{false};
  std::thread other([&] {
    const TensorView in_b = View(b);
    ExpectResult(s->Run(0, {&in_b, 1}), b);
    ended = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(ended);
  ExpectResult(first, a);
  first.Release();
  other.join();
  EXPECT_TRUE(ended);
  EXPECT_LE(s->peak_bytes(), need);
}

std::unique_ptr<Session> MakeOpen(const std::vector<std::pair<std::string, std::string>>& options = {},
                                  const std::shared_ptr<Graph>& graph = Residual(),
                                  std::optional<int64_t> limit = {}) {
  SessionSpec spec;
  spec.graph = graph;
  spec.threads = 2;
  spec.profiles = {Rows("open", 0, ops::kUnbounded)};
  spec.cpu_limit = limit;
  for (const auto& [key, value] : options) spec.options.Set(key, value);
  return Session::Create(std::move(spec));
}

/// Twenty products, one after the other: y = x W^20 with W the cyclic shift by one column.
std::shared_ptr<Graph> Chain() {
  auto g = NewGraph();
  std::vector<float> w(16, 0);
  for (size_t i = 0; i < 4; ++i) w[i * 4 + (i + 1) % 4] = 1;
  ValueId v = g->AddInput("x", DType::kFloat, graph::DeclaredShape{{-1, "s"}, {4, ""}});
  for (int i = 0; i < 20; ++i) {
    const ValueId weight = g->AddConstant("w", graph::MakeFloats({4, 4}, w)), next = g->AddValue("v");
    g->AddNode("", "MatMul", "", {v, weight}, {next});
    v = next;
  }
  g->outputs = {v};
  return g;
}

TEST(Session, SizesWithoutABoundComeFromTheArena) {
  const auto s = MakeOpen();
  for (int64_t rows : {3, 1000, 1, 70}) {
    const auto x = Input(rows);
    auto copy = x;
    const TensorView in = View(copy);
    const Execution run = s->Run(0, {&in, 1});
    ExpectResult(run, x);
    EXPECT_GT(s->arena_stats()->bytes_in_use, 0) << "the results lie there";
  }
  EXPECT_EQ(s->arena_stats()->bytes_in_use, 0);
  EXPECT_FALSE(Make(true)->arena_stats().has_value());
}

TEST(Session, ValuesGoBackToTheArenaAfterTheirLastReader) {
  const auto s = MakeOpen({{"session.disabled_passes", "all"}}, Chain());
  const int64_t rows = 4096, value = rows * 16;
  auto x = Input(rows);
  const TensorView in = View(x);
  Execution run = s->Run(0, {&in, 1});
  for (size_t i = 0; i < x.size(); ++i) ASSERT_FLOAT_EQ(run.output(0).as<float>()[i], x[i]) << i;
  EXPECT_GE(s->arena_stats()->num_allocs, 20);
  // The one being read, the one being written, and the scratch of a product.
  EXPECT_LT(s->arena_stats()->max_bytes_in_use, 8 * value);
  EXPECT_LT(s->arena_stats()->bytes_in_use, 2 * value);
}

TEST(Session, TheArenaShrinksAfterARunWhereAsked) {
  const auto s = MakeOpen({{"memory.enable_memory_arena_shrinkage", "cpu:0"}});
  auto x = Input(50);
  const TensorView in = View(x);
  for (int i = 0; i < 3; ++i) ExpectResult(s->Run(0, {&in, 1}), x);
  EXPECT_EQ(s->arena_stats()->total_allocated_bytes, 0);
  EXPECT_EQ(s->arena_stats()->num_arena_shrinkages, 3);
  EXPECT_THROW(MakeOpen({{"memory.enable_memory_arena_shrinkage", "gpu:0"}}), Error);
  const auto kept = MakeOpen();
  ExpectResult(kept->Run(0, {&in, 1}), x);
  EXPECT_GT(kept->arena_stats()->total_allocated_bytes, 0);
  kept->Trim();
  EXPECT_EQ(kept->arena_stats()->total_allocated_bytes, 0);
}

TEST(Session, TheArenaKeepsItsLimits) {
  auto x = Input(100000);
  const TensorView in = View(x);
  const auto code = [&](Session& s) {
    try {
      (void)s.Run(0, {&in, 1});
    } catch (const Error& e) {
      return e.code();
    }
    return Code::kUsage;
  };
  const auto capped = MakeOpen({{"ep.cpu.arena.max_mem", "1MiB"}});
  EXPECT_EQ(code(*capped), Code::kDoesNotFit);
  const auto limited = MakeOpen({}, Residual(), 1 << 20);
  EXPECT_EQ(code(*limited), Code::kDoesNotFit);
  // What was taken before the failure went back.
  EXPECT_EQ(limited->arena_stats()->bytes_in_use, 0);
  auto small = Input(5);
  const TensorView fits = View(small);
  ExpectResult(limited->Run(0, {&fits, 1}), small);
}

TEST(Session, ThreadsShareTheArena) {
  const auto s = MakeOpen();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        auto x = Input(1 + (t * 31 + i * 7) % 100);
        const TensorView in = View(x);
        ExpectResult(s->Run(0, {&in, 1}), x);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(s->arena_stats()->bytes_in_use, 0);
}

TEST(Session, NodeStatisticsChargeEachValueOnce) {
  SessionSpec spec;
  spec.graph = Residual();
  spec.threads = 1;
  spec.profiles = {Rows("many", 1, 8)};
  spec.options.Set("session.disabled_passes", "all");
  spec.collect_node_stats = true;
  const auto s = Session::Create(std::move(spec));
  EXPECT_TRUE(s->node_stats().empty());
  for (int64_t rows : {2, 8, 3}) {
    auto x = Input(rows);
    const TensorView in = View(x);
    ExpectResult(s->Run(0, {&in, 1}), x);
  }
  std::map<std::string, memory::NodeStats> by_name;
  for (const auto& [key, stats] : s->node_stats()) by_name[key.substr(0, key.rfind('_'))] = stats;
  ASSERT_EQ(by_name.size(), 4u);
  const int64_t value = 8 * 16;
  EXPECT_EQ(by_name["matmul"].input_sizes, value);
  EXPECT_EQ(by_name["matmul"].initializers_sizes, 64);
  EXPECT_EQ(by_name["add"].initializers_sizes, 16);
  EXPECT_EQ(by_name["add"].input_sizes, 0);
  EXPECT_EQ(by_name["residual"].input_sizes, 0);
  for (const auto& [name, stats] : by_name) {
    EXPECT_EQ(stats.total_dynamic_sizes, value) << name;
    EXPECT_GE(stats.peak_temp_allocations, stats.total_temp_allocations) << name;
  }
}

TEST(Session, UnboundedSizesAreRefusedInAdvance) {
  SessionSpec spec;
  spec.graph = Residual();
  spec.profiles = {Rows("open", 0, ops::kUnbounded)};
  spec.plan_only = true;
  try {
    Session::Create(std::move(spec));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kUnsupported);
    EXPECT_NE(e.details_json().find("unbounded"), std::string::npos);
  }
}

TEST(Session, UnknownOperatorsAreNamed) {
  auto g = NewGraph();
  const ValueId x = g->AddInput("x", DType::kFloat, graph::DeclaredShape{{1, ""}, {4, ""}});
  const ValueId y = g->AddValue("y");
  g->AddNode("com.example", "Frobnicate", "node_7", {x}, {y});
  g->outputs = {y};
  SessionSpec spec;
  spec.graph = g;
  spec.profiles = {Rows("p", 1, 1)};
  try {
    Session::Create(std::move(spec));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kUnsupported);
    EXPECT_NE(e.message().find("com.example:Frobnicate"), std::string::npos) << e.message();
    EXPECT_NE(e.message().find("node_7"), std::string::npos) << e.message();
  }
}

/// y = if c then x + 1 else x * x; both branches read x from outside.
std::shared_ptr<Graph> Branching() {
  auto g = NewGraph();
  const ValueId c = g->AddInput("c", DType::kBool, graph::DeclaredShape{});
  const ValueId x = g->AddInput("x", DType::kFloat, graph::DeclaredShape{{2, ""}, {4, ""}});
  const ValueId y = g->AddValue("y");
  const auto branch = [&](bool then) {
    auto b = std::make_shared<Graph>();
    b->name = then ? "then" : "else";
    b->opsets = g->opsets;
    const ValueId inner = b->AddValue("x", DType::kFloat);
    b->value(inner).is_input = true;
    b->capture_values = {inner};
    b->capture_names = {"x"};
    const ValueId out = b->AddValue("out");
    if (then) {
      const ValueId one = Floats(*b, "one", {1}, 1, 0);
      b->AddNode("", "Add", "add_one", {inner, one}, {out});
    } else {
      b->AddNode("", "Mul", "square", {inner, inner}, {out});
    }
    b->outputs = {out};
    return b;
  };
  graph::Node& node = g->AddNode("", "If", "choose", {c}, {y});
  node.attributes["then_branch"] = branch(true);
  node.attributes["else_branch"] = branch(false);
  g->SetCaptures(node, {x});
  g->outputs = {y};
  return g;
}

TEST(Session, OnlyTheTakenBranchRuns) {
  SessionSpec spec;
  spec.graph = Branching();
  spec.profiles = {ExactProfile("p", {Shape{}, Shape{2, 4}})};
  spec.options.Set("session.pre_allocate_execution_buffers", "1");
  const auto s = Session::Create(std::move(spec));
  auto x = Input(2);
  for (bool c : {true, false, true}) {
    uint8_t flag = c;
    const TensorView in[] = {{&flag, DType::kBool, Shape{}, 0}, {x.data(), DType::kFloat, Shape{2, 4}, 0}};
    const Execution run = s->Run(0, in);
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_FLOAT_EQ(run.output(0).as<float>()[i], c ? x[i] + 1 : x[i] * x[i]);
  }
}

/// Rows of a table and the product with its transpose, as models with tied embeddings have them. `rows`: the
/// table is stored [V, D]; else [D, V].
std::shared_ptr<Graph> Tied(bool rows, const graph::ConstantPtr& values) {
  auto g = NewGraph();
  const auto table = std::make_shared<graph::Constant>(*values);
  table->file = "model";  // not computed: memory of its own would be counted
  const bool blocks = !table->block_type.empty();
  const int64_t v = table->shape[rows ? 0 : 1], d = table->shape[rows ? 1 : 0];
  const ValueId ids = g->AddInput("ids", DType::kInt64, graph::DeclaredShape{{-1, "s"}});
  const ValueId w = g->AddConstant("table", table);
  const ValueId taken = g->AddValue("taken"), y = g->AddValue("y");
  ValueId x = taken;
  g->AddNode(blocks ? "ullage" : "", blocks ? "BlockGather" : "Gather", "gather", {w, ids}, {taken})
      .attributes["axis"] = int64_t{rows ? 0 : 1};
  if (!rows) {
    x = g->AddValue("x");
    g->AddNode("", "Transpose", "transpose", {taken}, {x}).attributes["perm"] = std::vector<int64_t>{1, 0};
  }
  graph::Node& head = g->AddNode("ullage", "Linear", "head", {x, w}, {y});
  head.attributes["K"] = d;
  head.attributes["N"] = v;
  head.attributes["format"] = std::string(blocks ? "ggml" : rows ? "dense_nk" : "dense_kn");
  g->outputs = {y, x};
  return g;
}

void CheckTied(const std::shared_ptr<Graph>& graph, const std::vector<float>& table, int64_t d) {
  const auto v = static_cast<int64_t>(table.size()) / d;
  SessionSpec spec;
  spec.graph = graph;
  spec.profiles = {ExactProfile("p", {Shape{3}})};
  spec.options.Set("ep.cpu.activation_bits", "24");
  const auto s = Session::Create(std::move(spec));
  EXPECT_EQ(s->device_plan().tags[memory::Tag::kWeights], 0) << "the table is kept twice";
  std::vector<int64_t> ids = {v - 1, 0, -2};
  const TensorView in{ids.data(), DType::kInt64, Shape{3}, 0};
  const Execution run = s->Run(0, {&in, 1});
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t row =
        ids[static_cast<size_t>(i)] < 0 ? ids[static_cast<size_t>(i)] + v : ids[static_cast<size_t>(i)];
    for (int64_t c = 0; c < d; ++c)
      ASSERT_FLOAT_EQ(run.output(1).as<float>()[i * d + c], table[static_cast<size_t>(row * d + c)]);
    for (int64_t n = 0; n < v; ++n) {
      double want = 0;
      for (int64_t c = 0; c < d; ++c)
        want += double{table[static_cast<size_t>(row * d + c)]} * table[static_cast<size_t>(n * d + c)];
      ASSERT_NEAR(run.output(0).as<float>()[i * v + n], want, 1e-4 * std::max(1.0, std::abs(want)));
    }
  }
  ids[1] = v;
  EXPECT_THROW((void)s->Run(0, {&in, 1}), Error);
}

TEST(Session, TablesThatAProductReadsAreKeptOnce) {
  const int64_t v = 45, d = 64;
  std::vector<float> table(static_cast<size_t>(v * d)), turned(table.size());
  for (size_t i = 0; i < table.size(); ++i) table[i] = std::sin(static_cast<float>(i) * 0.37f);
  for (int64_t r = 0; r < v; ++r)
    for (int64_t c = 0; c < d; ++c)
      turned[static_cast<size_t>(c * v + r)] = table[static_cast<size_t>(r * d + c)];
  CheckTied(Tied(true, graph::MakeFloats({v, d}, table)), table, d);
  CheckTied(Tied(false, graph::MakeFloats({d, v}, turned)), table, d);
  // Q8_0: a float16 scale, here 1/4, and 32 codes.
  auto blocks = std::make_shared<std::vector<uint8_t>>();
  for (size_t i = 0; i < table.size(); ++i) {
    if (i % 32 == 0) blocks->insert(blocks->end(), {0x00, 0x34});
    const auto code = static_cast<int8_t>(static_cast<int>(i * 7 % 255) - 127);
    blocks->push_back(static_cast<uint8_t>(code));
    table[i] = static_cast<float>(code) * 0.25f;
  }
  auto constant = std::make_shared<graph::Constant>();
  constant->dtype = DType::kUInt8;
  constant->shape = {v, d};
  constant->block_type = "q8_0";
  constant->size_bytes = blocks->size();
  constant->bytes = reinterpret_cast<const std::byte*>(blocks->data());
  constant->owner = blocks;
  CheckTied(Tied(true, constant), table, d);
}

TEST(Session, ManySessionsCanLiveAndDie) {
  for (int i = 0; i < 20; ++i) {
    const auto s = Make(true);
    auto x = Input(2);
    const TensorView in = View(x);
    ExpectResult(s->Run(0, {&in, 1}), x);
  }
}

TEST(Evaluate, ComputesConstants) {
  auto g = NewGraph();
  const ValueId a = Floats(*g, "a", {2, 2}, 1, 1), b = Floats(*g, "b", {2}, 10, 10), y = g->AddValue("y");
  const graph::Node& n = g->AddNode("", "Add", "add", {a, b}, {y});
  const graph::ConstantPtr in[] = {g->value(a).constant, g->value(b).constant};
  const auto out = EvaluateNode(n, *g, in);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0]->AsDoubles(), (std::vector<double>{11, 22, 13, 24}));
}

TEST(Evaluate, RulesReadConstants) {
  auto g = NewGraph();
  const auto ints = [&](const char* name, int64_t v) {
    graph::NewConstant c = graph::MakeConstant(DType::kInt64, Shape{1});
    std::memcpy(c.data, &v, sizeof v);
    return g->AddConstant(name, c.constant);
  };
  const ValueId x = Floats(*g, "x", {5}, 1, 1), from = ints("from", 1), to = ints("to", 3),
                y = g->AddValue("y");
  graph::Node& n = g->AddNode("", "Slice", "slice", {x, from, to}, {y});
  n.opset = 13;
  const graph::ConstantPtr in[] = {g->value(x).constant, g->value(from).constant, g->value(to).constant};
  const auto out = EvaluateNode(n, *g, in);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0]->AsDoubles(), (std::vector<double>{2, 3}));
}

}  // namespace
}  // namespace ullage::session
