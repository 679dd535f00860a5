/// Steps with sub-graphs, and values that are no tensors, in sessions that may not allocate and in those that
/// may.
#include <gtest/gtest.h>

#include <functional>

#include "core/error.h"
#include "kernels/sequence.h"
#include "session/session.h"

namespace ullage::session {
namespace {

using graph::DeclaredShape;
using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::ValueId;

std::shared_ptr<Graph> NewGraph(const char* name = "test") {
  auto g = std::make_shared<Graph>();
  g->name = name;
  g->opsets = {{"", 21}, {"ullage", 1}};
  return g;
}

ValueId Op(Graph& g, const char* op, std::vector<ValueId> inputs, const char* axis_key = nullptr,
           int64_t axis = 0) {
  const ValueId y = g.AddValue("y");
  Node& n = g.AddNode("", op, "", std::move(inputs), {y});
  if (axis_key) n.attributes[axis_key] = axis;
  return y;
}

ValueId Int(Graph& g, int64_t n) {
  return g.AddConstant("c", graph::MakeInts(Shape{}, {{n}}));
}
ValueId Ints(Graph& g, std::vector<int64_t> n) {
  return g.AddConstant("c", graph::MakeInts(Shape{static_cast<int64_t>(n.size())}, n));
}
ValueId Floats(Graph& g, const Shape& shape, std::vector<float> v) {
  return g.AddConstant("c", graph::MakeFloats(shape, v));
}

/// A capture of the outer value `name` in a body.
ValueId Capture(Graph& body, const char* name, DType dtype) {
  const ValueId v = body.AddValue(name, dtype);
  body.value(v).is_input = true;
  body.capture_values.push_back(v);
  body.capture_names.push_back(name);
  return v;
}

std::unique_ptr<Session> Make(std::shared_ptr<Graph> g, bool guarantee, std::vector<ops::Bound> dims = {}) {
  SessionSpec spec;
  spec.graph = std::move(g);
  spec.threads = 1;
  if (guarantee) spec.options.Set("session.pre_allocate_execution_buffers", "1");
  // The inputs as declared; unknown dimensions take `dims` in turn.
  spec.profiles.push_back({"main", [dims](const Graph& graph, ops::SymbolTable& table) {
                             auto facts = shapes::DeclaredInputFacts(graph, table);
                             size_t at = 0;
                             for (auto& f : facts)
                               for (int d = 0; d < f.shape.rank; ++d)
                                 if (!f.shape[d].exact() && at < dims.size()) {
                                   f.shape[d] = table.Symbol(StrCat("d", at), dims[at].lower, dims[at].upper);
                                   ++at;
                                 }
                             return facts;
                           }});
  return Session::Create(std::move(spec));
}

template <class T>
std::vector<T> Values(const TensorView& view) {
  return {view.as<T>(), view.as<T>() + view.elements()};
}

std::string RefusalOf(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return std::string(CodeName(e.code())) + ": " + e.message() + e.details_json();
  }
  return "";
}

/// (a, b) -> (b, a + b), `trips` times or as often as the input says.
std::shared_ptr<Graph> Fibonacci() {
  auto g = NewGraph();
  const ValueId trips = g->AddInput("trips", DType::kInt64, DeclaredShape{});
  auto body = NewGraph("body");
  body->AddInput("i", DType::kInt64, DeclaredShape{});
  const ValueId go = body->AddInput("go", DType::kBool, DeclaredShape{});
  const ValueId a = body->AddInput("a", DType::kFloat, std::nullopt);
  const ValueId b = body->AddInput("b", DType::kFloat, std::nullopt);
  const ValueId sum = Op(*body, "Add", {a, b}), on = Op(*body, "Identity", {go});
  body->outputs = {on, b, sum};
  const ValueId x = Floats(*g, {2}, {0, 1}), y = Floats(*g, {2}, {1, 1});
  const ValueId p = g->AddValue("p"), q = g->AddValue("q");
  g->AddNode("", "Loop", "fibonacci", {trips, kNone, x, y}, {p, q}).attributes["body"] = body;
  g->outputs = {p, q};
  return g;
}

TEST(Loop, CarriedValuesMayBeExchanged) {
  for (bool guarantee : {true, false}) {
    const auto s = Make(Fibonacci(), guarantee);
    for (int64_t n : {0, 1, 2, 7, 3}) {
      const TensorView in{&n, DType::kInt64, Shape{}, 0};
      auto run = s->Run(0, {&in, 1});
      float a = 0, b = 1;
      for (int64_t i = 0; i < n; ++i) a = std::exchange(b, a + b);
      EXPECT_EQ(Values<float>(run.output(0))[0], a) << n;
      EXPECT_EQ(Values<float>(run.output(1))[0], b) << n;
    }
  }
}

/// Rows i, i * i… below the last, and the numbers 0…trips-1 beside; trips are the rows of x, or the value of
/// n.
std::shared_ptr<Graph> Growing(bool by_value, int64_t fixed = 0) {
  auto g = NewGraph();
  ValueId trips;
  if (fixed > 0) {
    trips = Int(*g, fixed);
    g->AddInput("unused", DType::kInt64, DeclaredShape{});
  } else if (by_value) {
    trips = g->AddInput("n", DType::kInt64, DeclaredShape{});
  } else {
    const ValueId x = g->AddInput("x", DType::kFloat, DeclaredShape{{-1, "rows"}, {2, ""}});
    trips = Op(*g, "Gather", {Op(*g, "Shape", {x}), Int(*g, 0)});
  }
  auto body = NewGraph("body");
  const ValueId i = body->AddInput("i", DType::kInt64, DeclaredShape{});
  const ValueId go = body->AddInput("go", DType::kBool, DeclaredShape{});
  const ValueId rows = body->AddInput("rows", DType::kInt64, std::nullopt);
  const ValueId row = Op(*body, "Unsqueeze", {Op(*body, "Mul", {i, i}), Ints(*body, {0, 1})});
  const ValueId pair =
      Op(*body, "Concat", {Op(*body, "Unsqueeze", {i, Ints(*body, {0, 1})}), row}, "axis", 1);
  const ValueId more = Op(*body, "Concat", {rows, pair}, "axis", 0);
  body->outputs = {Op(*body, "Identity", {go}), more, Op(*body, "Identity", {i})};
  const ValueId first = g->AddConstant("first", graph::MakeInts(Shape{1, 2}, {{-1, -2}}));
  const ValueId all = g->AddValue("all"), numbers = g->AddValue("numbers");
  g->AddNode("", "Loop", "grow", {trips, kNone, first}, {all, numbers}).attributes["body"] = body;
  g->outputs = {all, numbers};
  return g;
}

void ExpectGrown(const Execution& run, int64_t trips) {
  std::vector<int64_t> rows{-1, -2}, numbers;
  for (int64_t i = 0; i < trips; ++i) {
    rows.insert(rows.end(), {i, i * i});
    numbers.push_back(i);
  }
  ASSERT_EQ(run.output(0).shape, (Shape{trips + 1, 2}));
  EXPECT_EQ(Values<int64_t>(run.output(0)), rows);
  ASSERT_EQ(run.output(1).shape, (Shape{trips}));
  EXPECT_EQ(Values<int64_t>(run.output(1)), numbers);
}

TEST(Loop, GrowsWithinThePlanWhereTheTripsAreBounded) {
  const auto s = Make(Growing(false), true, {ops::Bound::Between(0, 9)});
  std::vector<float> x(18);
  for (int64_t n : {9, 0, 1, 4}) {
    const TensorView in{x.data(), DType::kFloat, Shape{n, 2}, 0};
    auto run = s->Run(0, {&in, 1});
    ExpectGrown(run, n);
  }
  EXPECT_EQ(s->allocations_during_run(), 0);
}

TEST(Loop, ManyRoundsAreBoundedByWhatOneAdds) {
  const auto s = Make(Growing(false, 1000), true);
  int64_t unused = 0;
  const TensorView in{&unused, DType::kInt64, Shape{}, 0};
  auto run = s->Run(0, {&in, 1});
  ExpectGrown(run, 1000);
  // Twice what is carried, what the body makes, and the results: no more than a few times 1001 rows.
  EXPECT_LT(s->device_plan().tags.Sum(), 8 * 1001 * 16);
}

TEST(Loop, WithoutABoundIsRefusedWhereMemoryIsPromised) {
  const std::string refusal = RefusalOf([] { Make(Growing(true), true); });
  EXPECT_EQ(refusal.rfind("unsupported", 0), 0u) << refusal;
  EXPECT_NE(refusal.find("all of node grow"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("\"unbounded\":[\"all\""), std::string::npos) << refusal;
  const auto s = Make(Growing(true), false);
  for (int64_t n : {5, 0, 70, 2}) {
    const TensorView in{&n, DType::kInt64, Shape{}, 0};
    auto run = s->Run(0, {&in, 1});
    ExpectGrown(run, n);
  }
}

TEST(Loop, StopsWhenTheConditionSaysSo) {
  auto g = NewGraph();
  const ValueId limit = g->AddInput("limit", DType::kInt64, DeclaredShape{});
  auto body = NewGraph("body");
  body->AddInput("i", DType::kInt64, DeclaredShape{});
  body->AddInput("go", DType::kBool, DeclaredShape{});
  const ValueId x = body->AddInput("x", DType::kInt64, DeclaredShape{});
  const ValueId most = Capture(*body, "limit", DType::kInt64);
  const ValueId doubled = Op(*body, "Add", {x, x});
  body->outputs = {Op(*body, "Less", {doubled, most}), doubled};
  const ValueId y = g->AddValue("y");
  Node& n = g->AddNode("", "Loop", "double", {kNone, kNone, Int(*g, 1)}, {y});
  n.attributes["body"] = body;
  g->SetCaptures(n, {limit});
  g->outputs = {y};
  const auto s = Make(g, true);
  for (int64_t most_value : {100, 3, 1}) {
    const TensorView in{&most_value, DType::kInt64, Shape{}, 0};
    auto run = s->Run(0, {&in, 1});
    int64_t want = 1;
    do want *= 2;
    while (want < most_value);
    EXPECT_EQ(Values<int64_t>(run.output(0))[0], want);
  }
}

TEST(Scan, RunsAlongAnyAxisBothWays) {
  for (bool guarantee : {true, false}) {
    auto g = NewGraph();
    const ValueId x = g->AddInput("x", DType::kFloat, DeclaredShape{{2, ""}, {-1, "steps"}});
    auto body = NewGraph("body");
    const ValueId sum = body->AddInput("sum", DType::kFloat, std::nullopt);
    const ValueId slice = body->AddInput("slice", DType::kFloat, std::nullopt);
    const ValueId next = Op(*body, "Add", {sum, slice});
    body->outputs = {next, Op(*body, "Identity", {next})};
    const ValueId total = g->AddValue("total"), sums = g->AddValue("sums");
    Node& n = g->AddNode("", "Scan", "sums", {Floats(*g, {2}, {10, 20}), x}, {total, sums});
    n.attributes["body"] = body;
    n.attributes["num_scan_inputs"] = int64_t{1};
    n.attributes["scan_input_axes"] = std::vector<int64_t>{-1};
    n.attributes["scan_output_axes"] = std::vector<int64_t>{1};
    n.attributes["scan_input_directions"] = std::vector<int64_t>{1};
    g->outputs = {total, sums};
    const auto s = Make(g, guarantee, {ops::Bound::Between(0, 6)});
    for (int64_t steps : {6, 1, 0, 3}) {
      std::vector<float> data(static_cast<size_t>(2 * steps));
      for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i * i);
      const TensorView in{data.data(), DType::kFloat, Shape{2, steps}, 0};
      auto run = s->Run(0, {&in, 1});
      float a = 10, b = 20;
      std::vector<float> first, second;
      for (int64_t k = steps - 1; k >= 0; --k) {
        first.push_back(a += data[static_cast<size_t>(k)]);
        second.push_back(b += data[static_cast<size_t>(steps + k)]);
      }
      EXPECT_EQ(Values<float>(run.output(0)), (std::vector<float>{a, b}));
      first.insert(first.end(), second.begin(), second.end());
      ASSERT_EQ(run.output(1).shape, (Shape{2, steps}));
      EXPECT_EQ(Values<float>(run.output(1)), first);
    }
    EXPECT_EQ(s->allocations_during_run(), 0);
  }
}

TEST(If, ResultsLieWhereTheBranchWroteThem) {
  auto g = NewGraph();
  const ValueId c = g->AddInput("c", DType::kBool, DeclaredShape{});
  const ValueId x = g->AddInput("x", DType::kFloat, DeclaredShape{{1000, ""}});
  const auto branch = [&](bool then) {
    auto b = NewGraph(then ? "then" : "else");
    const ValueId inner = Capture(*b, "x", DType::kFloat);
    b->outputs = {then ? Op(*b, "Abs", {inner}) : inner};
    return b;
  };
  const ValueId y = g->AddValue("y");
  Node& n = g->AddNode("", "If", "choose", {c}, {y});
  n.attributes["then_branch"] = branch(true);
  n.attributes["else_branch"] = branch(false);
  g->SetCaptures(n, {x});
  g->outputs = {y};
  const auto s = Make(g, true);
  EXPECT_LT(s->device_plan().tags[memory::Tag::kActivations], 2 * 4000);
  std::vector<float> data(1000, -3.0f);
  for (bool taken : {true, false}) {
    uint8_t flag = taken;
    const TensorView in[] = {{&flag, DType::kBool, Shape{}, 0}, {data.data(), DType::kFloat, Shape{1000}, 0}};
    auto run = s->Run(0, in);
    EXPECT_EQ(Values<float>(run.output(0))[999], taken ? 3.0f : -3.0f);
  }
}

TEST(If, ABranchThatIsNotValidIsRefusedWhenARunAsksForIt) {
  auto g = NewGraph();
  const ValueId c = g->AddInput("c", DType::kBool, DeclaredShape{});
  const ValueId x = g->AddInput("x", DType::kFloat, DeclaredShape{{2, ""}, {3, ""}});
  const auto branch = [&](bool then) {
    auto b = NewGraph(then ? "then" : "else");
    const ValueId inner = Capture(*b, "x", DType::kFloat);
    b->outputs = {then ? Op(*b, "Abs", {inner}) : Op(*b, "MatMul", {inner, inner})};
    return b;
  };
  const ValueId y = g->AddValue("y");
  Node& n = g->AddNode("", "If", "choose", {c}, {y});
  n.attributes["then_branch"] = branch(true);
  n.attributes["else_branch"] = branch(false);
  g->SetCaptures(n, {x});
  g->outputs = {y};
  const auto s = Make(g, true);
  std::vector<float> data(6, -3.0f);
  uint8_t flag = 1;
  const TensorView in[] = {{&flag, DType::kBool, Shape{}, 0}, {data.data(), DType::kFloat, Shape{2, 3}, 0}};
  EXPECT_EQ(Values<float>(s->Run(0, in).output(0))[5], 3.0f);
  flag = 0;
  EXPECT_NE(RefusalOf([&] { static_cast<void>(s->Run(0, in)); }).find("the inputs ask for the else_branch"),
            std::string::npos);
  flag = 1;
  EXPECT_EQ(Values<float>(s->Run(0, in).output(0))[0], 3.0f);
}

TEST(Sequences, ArePlannedWhereTheyAreBounded) {
  auto g = NewGraph();
  const ValueId x = g->AddInput("x", DType::kFloat, DeclaredShape{{-1, "rows"}, {2, ""}});
  const ValueId parts = Op(*g, "SplitToSequence", {x, Int(*g, 2)}, "axis", 0);
  const ValueId last = Op(*g, "SequenceAt", {parts, Int(*g, -1)});
  const ValueId grown = Op(*g, "SequenceInsert", {parts, last, Int(*g, 0)});
  const ValueId less = Op(*g, "SequenceErase", {grown, Int(*g, 1)});
  g->outputs = {Op(*g, "ConcatFromSequence", {less}, "axis", 0), Op(*g, "SequenceLength", {less}), last};
  for (bool guarantee : {true, false}) {
    const auto s = Make(g, guarantee, {ops::Bound::Between(1, 7)});
    for (int64_t rows : {7, 4, 1}) {
      std::vector<float> data(static_cast<size_t>(2 * rows));
      for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
      const TensorView in{data.data(), DType::kFloat, Shape{rows, 2}, 0};
      auto run = s->Run(0, {&in, 1});
      // The last part in front, and the first part gone.
      const size_t tail = rows % 2 ? 2 : 4;
      std::vector<float> want(data.end() - static_cast<long>(tail), data.end());
      want.insert(want.end(), data.begin() + static_cast<long>(std::min<size_t>(4, data.size())), data.end());
      EXPECT_EQ(Values<float>(run.output(0)), want) << rows;
      EXPECT_EQ(Values<int64_t>(run.output(1))[0], (rows + 1) / 2);
      EXPECT_EQ(run.output(2).shape, (Shape{rows % 2 ? 1 : 2, 2}));
    }
    if (guarantee) {
      EXPECT_EQ(s->allocations_during_run(), 0);
    }
  }
}

TEST(Sequences, PositionsOutsideAreRefused) {
  auto g = NewGraph();
  const ValueId at = g->AddInput("at", DType::kInt64, DeclaredShape{});
  const ValueId parts = Op(*g, "SequenceConstruct", {Int(*g, 4), Int(*g, 5)});
  g->outputs = {Op(*g, "SequenceAt", {parts, at})};
  const auto s = Make(g, true);
  for (int64_t k : {-3, 2}) {
    const TensorView in{&k, DType::kInt64, Shape{}, 0};
    EXPECT_NE(RefusalOf([&] {
                (void)s->Run(0, {&in, 1});
              }).find("outside of a sequence of 2"),
              std::string::npos);
  }
  int64_t k = -1;
  const TensorView in{&k, DType::kInt64, Shape{}, 0};
  auto run = s->Run(0, {&in, 1});
  EXPECT_EQ(Values<int64_t>(run.output(0))[0], 5);
}

TEST(Session, SizesThatThePlanTookForEqualMustBe) {
  auto g = NewGraph();
  const ValueId a = g->AddInput("a", DType::kFloat, DeclaredShape{{-1, "n"}});
  const ValueId b = g->AddInput("b", DType::kFloat, DeclaredShape{{-1, "n"}});
  g->outputs = {Op(*g, "Add", {a, b})};
  SessionSpec spec;
  spec.graph = g;
  spec.threads = 1;
  spec.profiles.push_back({"main", [](const Graph& graph, ops::SymbolTable& table) {
                             const auto limits = shapes::ParseMaxShapeOverride("a:[4]");
                             return shapes::BoundedInputFacts(graph, limits, {}, true, table);
                           }});
  const auto s = Session::Create(std::move(spec));
  std::vector<float> x(4, 1.0f);
  const auto run = [&](int64_t m, int64_t n) {
    const TensorView in[] = {{x.data(), DType::kFloat, Shape{m}, 0}, {x.data(), DType::kFloat, Shape{n}, 0}};
    return RefusalOf([&] { (void)s->Run(0, in); });
  };
  EXPECT_EQ(run(3, 3), "");
  EXPECT_NE(run(0, 0).find("input a: shape [0]"), std::string::npos);
  EXPECT_NE(run(1, 3).find("dimension 0 of input b is 3, dimension 0 of input a is 1"), std::string::npos);
  EXPECT_NE(run(4, 5).find("input b"), std::string::npos);
}

}  // namespace
}  // namespace ullage::session
