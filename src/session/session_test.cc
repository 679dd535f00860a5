#include "session/session.h"

#include <gtest/gtest.h>

#include <cmath>
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
      s->Run(0, {&in, 1});
      const auto want = Expected(x);
      const TensorView& y = s->output(0);
      ASSERT_EQ(y.shape, (Shape{rows, 4}));
      for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(y.as<float>()[i], want[i], 1e-5f);
    }
    auto x = Input(1);
    const TensorView in = View(x);
    s->Run(1, {&in, 1});
    EXPECT_NEAR(s->output(0).as<float>()[3], Expected(x)[3], 1e-5f);
    EXPECT_EQ(s->allocations_during_run(), 0);
  }
}

TEST(Session, RefusesInputsOutsideOfTheBoundsBeforeAnythingRuns) {
  const auto s = Make(true);
  auto x = Input(9);
  const TensorView in = View(x);
  try {
    s->Run(0, {&in, 1});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kInvalidInput);
    EXPECT_NE(e.message().find("input x"), std::string::npos) << e.message();
    EXPECT_NE(e.message().find("[9,4]"), std::string::npos) << e.message();
  }
  TensorView wrong = in;
  wrong.dtype = DType::kInt32;
  EXPECT_THROW(s->Run(0, {&wrong, 1}), Error);
  EXPECT_THROW(s->Run(0, {}), Error);
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
          s->Run(0, {&in, 1});
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
    s->Run(0, in);
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_FLOAT_EQ(s->output(0).as<float>()[i], c ? x[i] + 1 : x[i] * x[i]);
  }
}

/// Rows of a table and the product with its transpose, as models with tied embeddings have them. `rows`: the
/// table is stored [V, D]; else [D, V].
std::shared_ptr<Graph> Tied(bool rows, const graph::ConstantPtr& table) {
  auto g = NewGraph();
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
  s->Run(0, {&in, 1});
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t row =
        ids[static_cast<size_t>(i)] < 0 ? ids[static_cast<size_t>(i)] + v : ids[static_cast<size_t>(i)];
    for (int64_t c = 0; c < d; ++c)
      ASSERT_FLOAT_EQ(s->output(1).as<float>()[i * d + c], table[static_cast<size_t>(row * d + c)]);
    for (int64_t n = 0; n < v; ++n) {
      double want = 0;
      for (int64_t c = 0; c < d; ++c)
        want += double{table[static_cast<size_t>(row * d + c)]} * table[static_cast<size_t>(n * d + c)];
      ASSERT_NEAR(s->output(0).as<float>()[i * v + n], want, 1e-4 * std::max(1.0, std::abs(want)));
    }
  }
  ids[1] = v;
  EXPECT_THROW(s->Run(0, {&in, 1}), Error);
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
    s->Run(0, {&in, 1});
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

}  // namespace
}  // namespace ullage::session
