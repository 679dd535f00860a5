/// Programs over several devices: the same results as on the host alone, whatever runs where.
#include <gtest/gtest.h>

#include <cmath>

#include "session/session.h"
#include "session/test_gpu.h"

namespace ullage::session {
namespace {

using graph::Graph;
using graph::kNone;
using graph::ValueId;
using test::TestGpu;

std::shared_ptr<const providers::Provider> Host() {
  return {std::shared_ptr<void>(), &providers::CpuProvider()};
}

ValueId Floats(Graph& g, const std::string& name, const Shape& shape, float scale) {
  std::vector<float> v(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = scale * std::sin(static_cast<float>(i) * 0.37f);
  return g.AddConstant(name, graph::MakeFloats(shape, v));
}

/// Eight layers of x = x + relu(x W) V over [s, 16], with a view, a shape that is computed, and a result in
/// the middle.
std::shared_ptr<Graph> Layers() {
  auto g = std::make_shared<Graph>();
  g->name = "layers";
  g->opsets = {{"", 21}, {"com.microsoft", 1}, {"ullage", 1}};
  ValueId x = g->AddInput("x", DType::kFloat, graph::DeclaredShape{{-1, "s"}, {16, ""}});
  const ValueId shape = g->AddValue("shape");
  g->AddNode("", "Shape", "shape_of", {x}, {shape});
  for (int layer = 0; layer < 8; ++layer) {
    const std::string at = "layers." + std::to_string(layer) + "/";
    const auto value = [&](const char* name) { return g->AddValue(at + name); };
    const ValueId up = value("up"), act = value("act"), down = value("down"), sum = value("sum");
    g->AddNode("", "MatMul", at + "up/MatMul", {x, Floats(*g, at + "w", {16, 32}, 0.2f)}, {up});
    g->AddNode("", "Relu", at + "Relu", {up}, {act});
    g->AddNode("", "MatMul", at + "down/MatMul", {act, Floats(*g, at + "v", {32, 16}, 0.1f)}, {down});
    g->AddNode("", "Add", at + "Add", {x, down}, {sum});
    x = sum;
    if (layer == 3) {
      const ValueId view = value("view");
      g->AddNode("", "Reshape", at + "Reshape", {x, shape}, {view});
      x = view;
    }
    if (layer == 4) g->outputs.push_back(x);
  }
  g->outputs.push_back(x);
  return g;
}

ProfileSpec Rows(int64_t most) {
  return {"rows", [=](const Graph&, ops::SymbolTable& table) {
            ops::ValueFacts f;
            f.dtype = DType::kFloat;
            f.shape = ops::BoundedShape::OfDims({table.Symbol("s", 1, most), ops::Bound::Exactly(16)});
            return std::vector<ops::ValueFacts>{f};
          }};
}

using Providers = std::vector<std::shared_ptr<const providers::Provider>>;
Providers TwoGpus() {
  return {std::make_shared<TestGpu>("gpux", 2), Host()};
}

Providers Peers(int count = 2) {
  auto gpus = std::make_shared<TestGpu>("gpux", count);
  gpus->peers = true;
  return {gpus, Host()};
}

std::unique_ptr<Session> Make(std::shared_ptr<Graph> graph, const std::string& rules,
                              Providers providers = TwoGpus(),
                              std::vector<ProfileSpec> profiles = {Rows(9), Rows(1)},
                              bool pre_allocate = true, const std::string& budget = "") {
  SessionSpec spec;
  spec.model_name = "layers";
  spec.graph = std::move(graph);
  spec.threads = 2;
  spec.profiles = std::move(profiles);
  spec.providers = std::move(providers);
  if (pre_allocate) spec.options.Set("session.pre_allocate_execution_buffers", "1");
  if (!rules.empty()) spec.options.Set("session.name_based_layer_assignment", rules);
  if (!budget.empty()) spec.options.Set("session.resource_partitioning_settings", budget);
  return Session::Create(std::move(spec));
}

std::vector<std::vector<float>> RunOn(Session& s, int profile, int64_t rows) {
  std::vector<float> x(static_cast<size_t>(rows) * 16);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::cos(static_cast<float>(i) * 0.7f);
  const TensorView in{x.data(), DType::kFloat, {rows, 16}, 0};
  const auto execution = s.Run(profile, {&in, 1});
  std::vector<std::vector<float>> results;
  for (size_t o = 0; o < s.graph().outputs.size(); ++o) {
    const auto& view = execution.output(o);
    results.emplace_back(view.as<float>(), view.as<float>() + view.elements());
  }
  return results;
}

std::vector<std::vector<float>> Expected(int64_t rows) {
  auto s = Make(Layers(), "", {Host()});
  return RunOn(*s, 0, rows);
}

TEST(Devices, AnySplitGivesTheSameResults) {
  const auto expected = Expected(7);
  const auto one = Expected(1);
  for (const char* rules :
       {"", "cpu(layers.)", "gpux:0(layers.[0-3]/); cpu(layers.[4-7]/)",
        "cpu(layers.[0-3]/); gpux:1(layers.[4-7]/)", "gpux:0(layers.[0-3]/); gpux:1(layers.[4-7]/)",
        "gpux:0(up/); gpux:1(down/); cpu(Add, Relu)",
        "gpux:1(layers.0/, layers.2/, layers.4/, layers.6/); cpu(layers.)", "cpu(Relu, Reshape)",
        "gpux:0(Add); cpu(MatMul); gpux:1(Relu)"}) {
    for (const bool peers : {false, true}) {
      SCOPED_TRACE(StrCat(rules, peers ? ", peers" : ""));
      const auto s = Make(Layers(), rules, peers ? Peers() : TwoGpus());
      for (int round = 0; round < 8; ++round) {
        ASSERT_EQ(RunOn(*s, 0, 7), expected);
        ASSERT_EQ(RunOn(*s, 1, 1), one);
      }
      for (size_t d = 0; d < s->device_plans().size(); ++d) {
        EXPECT_EQ(s->peak_bytes(d), s->device_plans()[d].tags.Sum()) << d;
        EXPECT_EQ(s->allocations_during_run(d), 0) << d;
      }
    }
  }
}

/// A product, and the Relu of it, in one.
class ProductAndRelu final : public kernels::Kernel {
 public:
  explicit ProductAndRelu(std::unique_ptr<kernels::Kernel> product) : product_(std::move(product)) {}
  std::vector<kernels::PrepackRequirement> PlanPrepack() const override { return product_->PlanPrepack(); }
  void Prepack(int index, std::byte* out, ThreadTeam& threads) override {
    product_->Prepack(index, out, threads);
  }
  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& slots) const override {
    product_->DeclareWorkspaceRequirements(shapes, slots);
  }
  void Compute(kernels::KernelContext& context) const override {
    product_->Compute(context);
    const TensorView& y = *context.output(0);
    for (int64_t i = 0; i < y.elements(); ++i)
      static_cast<float*>(y.data)[i] = std::max(static_cast<float*>(y.data)[i], 0.0f);
  }

 private:
  std::unique_ptr<kernels::Kernel> product_;
};

/// Does not say how much scratch it wants.
class Unsure final : public kernels::Kernel {
 public:
  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes&,
                                    std::vector<memory::WorkspaceRequirement>& slots) const override {
    slots.emplace_back().status = memory::WorkspaceStatus::kUnknown;
  }
  void Compute(kernels::KernelContext&) const override {}
};

/// Fuses every Relu with what it reads.
class FusingGpu final : public providers::Provider {
 public:
  explicit FusingGpu(bool unsure = false) : unsure_(unsure) {}
  std::string_view name() const override { return gpu_.name(); }
  std::vector<providers::DeviceInfo> devices() const override { return gpu_.devices(); }
  const kernels::Registry& registry() const override { return gpu_.registry(); }
  std::unique_ptr<providers::OpenDevice> Open(const providers::DeviceInfo& device) const override {
    return gpu_.Open(device);
  }
  bool proposes() const override { return true; }
  providers::Proposals Propose(providers::OpenDevice&, std::span<const kernels::KernelInfo> nodes,
                               std::optional<int64_t>) const override {
    providers::Proposals proposals;
    proposals.rest = true;
    for (size_t r = 0; r < nodes.size(); ++r)
      for (size_t p = 0; nodes[r].node.op == "Relu" && p < r; ++p)
        if (nodes[p].node.output(0) == nodes[r].node.input(0)) {
          proposals.groups.emplace_back().nodes = {p, r};
          proposals.groups.back().fused = true;
          proposals.groups.back().id = r;
        }
    return proposals;
  }
  std::unique_ptr<kernels::Kernel> Compile(providers::OpenDevice& device, uint64_t,
                                           const providers::Group& group,
                                           std::span<const kernels::KernelInfo> nodes) const override {
    if (unsure_) return std::make_unique<Unsure>();
    EXPECT_EQ(nodes.size(), 2u);
    EXPECT_EQ(group.outputs, nodes[1].node.outputs);
    kernels::KernelInfo host = nodes[0];
    host.device = nullptr;
    host.threads = 1;
    std::string why;
    const auto* def = providers::CpuProvider().registry().Find(host, &why);
    return std::make_unique<test::TestKernel>(std::make_unique<ProductAndRelu>(def->create(host)),
                                              static_cast<test::TestDevice&>(device), 0);
  }

 private:
  TestGpu gpu_{"gpux", 2};
  const bool unsure_;
};

TEST(Devices, GroupsRunAsOne) {
  const auto expected = Expected(7);
  const auto one = Expected(1);
  for (const char* rules : {"", "gpux:0(layers.[0-3]/); gpux:1(layers.[4-7]/)", "cpu(layers.[2-5]/)"}) {
    SCOPED_TRACE(rules);
    const auto s = Make(Layers(), rules, {std::make_shared<FusingGpu>(), Host()});
    int64_t fused = 0;
    s->program().ForEachStep([&](const Program&, const Step& step) {
      fused += step.kind == Step::Kind::kFused;
      EXPECT_EQ(step.members.size(), step.kind == Step::Kind::kFused ? 2u : 0u);
    });
    EXPECT_EQ(fused, rules[0] == 'c' ? 4 : 8);
    for (int round = 0; round < 4; ++round) {
      ASSERT_EQ(RunOn(*s, 0, 7), expected);
      ASSERT_EQ(RunOn(*s, 1, 1), one);
    }
    for (size_t d = 0; d < s->device_plans().size(); ++d)
      EXPECT_EQ(s->peak_bytes(d), s->device_plans()[d].tags.Sum()) << d;
  }
}

/// Copies from device to device, from a device to the host, and waits of the host.
struct Traffic {
  explicit Traffic(const Session& s) {
    for (const Step& step : s.program().steps())
      if (step.kind == Step::Kind::kCopy && s.program().device(step.inputs[0]) != 0)
        ++(s.program().device(step.outputs[0]) != 0 ? between : to_host);
    for (const StepSync& sync : s.profile_plans()[0].plan->sync.steps())
      waits += static_cast<int>(sync.awaited.size());
  }
  int between = 0, to_host = 0, waits = 0;
};

TEST(Devices, PeersCopyWithoutTheHost) {
  const auto expected = Expected(7);
  const char* const alternating =
      "gpux:0(layers.0/, layers.2/, layers.4/, layers.6/); gpux:1(layers.1/, layers.3/, layers.5/, "
      "layers.7/)";
  const auto by_host = Make(Layers(), alternating);
  const auto direct = Make(Layers(), alternating, Peers());
  EXPECT_EQ(RunOn(*by_host, 0, 7), expected);
  for (int round = 0; round < 200; ++round) ASSERT_EQ(RunOn(*direct, 0, 7), expected) << round;
  // From each layer to the next, and two results.
  EXPECT_EQ(Traffic(*by_host).between, 0);
  EXPECT_EQ(Traffic(*by_host).to_host, 8);
  EXPECT_EQ(Traffic(*direct).between, 7);
  EXPECT_EQ(Traffic(*direct).to_host, 2);
  EXPECT_GT(Traffic(*by_host).waits, 6);
  EXPECT_EQ(Traffic(*direct).waits, 0);
  const auto host_bytes = [](const Session& s) { return s.device_plan().tags.Sum(); };
  EXPECT_LT(host_bytes(*direct), host_bytes(*by_host));
}

TEST(Devices, PeersTakeOverMemoryInOrder) {
  // Three devices in turns, and a value of the first that all of them read late; every queue may be late.
  const auto expected = Expected(7);
  const auto s = Make(Layers(),
                      "gpux:0(layers.0/, layers.3/, layers.6/); gpux:1(layers.1/, layers.4/, layers.7/); "
                      "gpux:2(layers.2/, layers.5/)",
                      Peers(3));
  EXPECT_EQ(Traffic(*s).between, 7);
  for (int round = 0; round < 300; ++round) ASSERT_EQ(RunOn(*s, 0, 7), expected) << round;
  const auto parts = Make(Layers(), "gpux:0(up/, Add); gpux:1(down/, layers.4/); gpux:2(Relu)", Peers(3));
  EXPECT_GT(Traffic(*parts).between, 16);
  for (int round = 0; round < 300; ++round) ASSERT_EQ(RunOn(*parts, 0, 7), expected) << round;
}

/// A chain on one device of which the other device reads the beginning: nothing comes back.
std::shared_ptr<Graph> Aside(int length) {
  auto g = std::make_shared<Graph>();
  g->name = "aside";
  g->opsets = {{"", 21}};
  ValueId x = g->AddInput("x", DType::kFloat, graph::DeclaredShape{{-1, "s"}, {16, ""}});
  for (int i = 0; i < length; ++i) {
    const ValueId y = g->AddValue("y" + std::to_string(i));
    // Not over its input: the memory of two values changes hands.
    g->AddNode("", "Softmax", "main" + std::to_string(i), {x}, {y});
    if (i == 0) {
      const ValueId z = g->AddValue("z");
      g->AddNode("", "Neg", "aside", {y}, {z});
      g->outputs.push_back(z);
    }
    x = y;
  }
  g->outputs.push_back(x);
  return g;
}

TEST(Devices, SourcesOfPeersAreNotHeldForever) {
  const auto host = Make(Aside(60), "", {Host()}, {Rows(9)});
  const auto expected = RunOn(*host, 0, 9);
  const auto s = Make(Aside(60), "gpux:0(main); gpux:1(aside)", Peers(), {Rows(9)});
  EXPECT_EQ(Traffic(*s).between, 1);
  for (int round = 0; round < 300; ++round) ASSERT_EQ(RunOn(*s, 0, 9), expected) << round;
  const auto& plan = *s->profile_plans()[0].plan;
  for (const auto& item : plan.items) {
    if (item.name == "y0") {
      EXPECT_LT(item.last, 30);
    }
  }
}

TEST(Devices, GroupsStateTheirScratch) {
  try {
    Make(Layers(), "", {std::make_shared<FusingGpu>(true), Host()});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kUnsupported);
    EXPECT_NE(e.message().find("Relu that gpux:0 compiled does not state its scratch"), std::string::npos)
        << e.message();
  }
}

TEST(Devices, DelaysChangeNothing) {
  // Every step of every queue may be late; a missing wait shows as another result.
  const auto expected = Expected(7);
  const auto s = Make(Layers(), "gpux:0(up/, layers.3/); gpux:1(down/); cpu(Add, Relu)");
  for (int round = 0; round < 500; ++round) ASSERT_EQ(RunOn(*s, 0, 7), expected) << round;
}

TEST(Devices, MissingKernelsFallBack) {
  const auto expected = Expected(5);
  const auto s =
      Make(Layers(), "", {std::make_shared<TestGpu>("gpux", 1, std::set<std::string>{"Linear"}), Host()});
  EXPECT_EQ(RunOn(*s, 0, 5), expected);
  EXPECT_EQ(s->device_plans()[0].nodes, 16);
}

TEST(Devices, OneCopyPerValueAndDevice) {
  auto g = std::make_shared<Graph>();
  g->opsets = {{"", 21}};
  const ValueId x = g->AddInput("x", DType::kFloat, graph::DeclaredShape{{-1, "s"}, {16, ""}});
  for (int i = 0; i < 3; ++i) {
    const ValueId y = g->AddValue("y" + std::to_string(i));
    g->AddNode("", i == 0 ? "Relu" : i == 1 ? "Neg" : "Abs", "gpu" + std::to_string(i), {x}, {y});
    g->outputs.push_back(y);
  }
  const auto s = Make(g, "gpux:0(gpu)", TwoGpus(), {Rows(9)});
  int64_t in = 0, out = 0;
  for (const Step& step : s->program().steps())
    if (step.kind == Step::Kind::kCopy) ++(s->program().device(step.outputs[0]) == 0 ? out : in);
  EXPECT_EQ(in, 1);
  EXPECT_EQ(out, 3);
}

TEST(Devices, BudgetsAreKept) {
  const auto expected = Expected(9);
  int64_t last = -1;
  for (int64_t budget = 0; budget <= 60000; budget += 6000) {
    const auto s = Make(Layers(), "", TwoGpus(), {Rows(9)}, true, StrCat("gpux:0:", budget, "; gpux:1:0"));
    const auto& plan = s->device_plans()[0];
    EXPECT_LE(plan.tags.Sum(), budget);
    EXPECT_GE(plan.nodes, last);
    last = plan.nodes;
    EXPECT_EQ(RunOn(*s, 0, 9), expected);
  }
  EXPECT_GT(last, 20);
}

TEST(Devices, WeightsAreSplitWhereADeviceGivesLittleAtOnce) {
  const auto expected = Expected(3);
  auto gpu = std::make_shared<TestGpu>("gpux", 1);
  gpu->max_region_bytes = 16384;
  const auto s = Make(Layers(), "gpux:0(layers.)", {gpu, Host()});
  EXPECT_EQ(RunOn(*s, 0, 3), expected);
  gpu->max_region_bytes = 1024;
  try {
    Make(Layers(), "gpux:0(layers.)", {gpu, Host()});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kDoesNotFit);
    EXPECT_NE(error.message().find("at once"), std::string::npos) << error.message();
  }
}

/// y = (If c: relu(x) else: -x W), then a loop that doubles what it carries.
std::shared_ptr<Graph> Control() {
  auto g = std::make_shared<Graph>();
  g->name = "control";
  g->opsets = {{"", 21}};
  const ValueId x = g->AddInput("x", DType::kFloat, graph::DeclaredShape{{-1, "s"}, {16, ""}});
  const ValueId c = g->AddInput("c", DType::kBool, graph::DeclaredShape{});
  const ValueId h = g->AddValue("h"), y = g->AddValue("y"), z = g->AddValue("z");
  g->AddNode("", "Exp", "first/Exp", {x}, {h});
  auto& node = g->AddNode("", "If", "choose", {c}, {y});
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto body = std::make_shared<Graph>();
    body->opsets = g->opsets;
    const ValueId inner = body->AddInput("h", DType::kFloat, std::nullopt);
    body->inputs.clear();
    body->capture_values = {inner};
    body->capture_names = {"h"};
    const ValueId r = body->AddValue("r");
    body->AddNode("", branch[0] == 't' ? "Neg" : "Abs", std::string(branch) + "/op", {inner}, {r});
    body->outputs = {r};
    node.attributes[branch] = std::move(body);
  }
  g->SetCaptures(node, {h});
  const ValueId trips = g->AddConstant("trips", graph::MakeInts({}, std::vector<int64_t>{4}));
  auto& loop = g->AddNode("", "Loop", "repeat", {trips, kNone, y}, {z});
  auto body = std::make_shared<Graph>();
  body->opsets = g->opsets;
  body->AddInput("i", DType::kInt64, graph::DeclaredShape{});
  const ValueId on = body->AddInput("on", DType::kBool, graph::DeclaredShape{});
  const ValueId v = body->AddInput("v", DType::kFloat, std::nullopt);
  const ValueId kept = body->AddValue("kept"), twice = body->AddValue("twice");
  body->AddNode("", "Identity", "keep", {on}, {kept});
  body->AddNode("", "Add", "double/Add", {v, v}, {twice});
  body->outputs = {kept, twice};
  loop.attributes["body"] = std::move(body);
  const ValueId out = g->AddValue("out");
  g->AddNode("", "Add", "last/Add", {z, h}, {out});
  g->outputs = {out};
  return g;
}

TEST(Devices, ControlFlowAcrossDevices) {
  const ProfileSpec profile = {
      "all", [](const Graph&, ops::SymbolTable& table) {
        std::vector<ops::ValueFacts> f(2);
        f[0].dtype = DType::kFloat;
        f[0].shape = ops::BoundedShape::OfDims({table.Symbol("s", 1, 6), ops::Bound::Exactly(16)});
        f[1].dtype = DType::kBool;
        f[1].shape = ops::BoundedShape::Scalar();
        return f;
      }};
  for (const char* rules :
       {"", "gpux:0(first/, last/); cpu(_branch, double)", "gpux:0(_branch); cpu(first, last)",
        "gpux:0(first/); gpux:1(then_branch, double); cpu(last/, else_branch)"}) {
    SCOPED_TRACE(rules);
    const auto s = Make(Control(), rules, TwoGpus(), {profile});
    for (const bool c : {true, false, true}) {
      std::vector<float> x(4 * 16);
      for (size_t i = 0; i < x.size(); ++i) x[i] = std::cos(static_cast<float>(i));
      const std::vector<TensorView> in = {{x.data(), DType::kFloat, {4, 16}, 0},
                                          {const_cast<bool*>(&c), DType::kBool, Shape{}, 0}};
      const auto execution = s->Run(0, in);
      for (size_t i = 0; i < x.size(); ++i) {
        const float h = std::exp(x[i]);
        ASSERT_NEAR(execution.output(0).as<float>()[i], (c ? -h : h) * 16 + h, 1e-4);
      }
    }
  }
}

/// Results of any number of rows s, and between them what does not grow with s: the largest row, the first
/// two.
std::shared_ptr<Graph> Unbounded() {
  auto g = std::make_shared<Graph>();
  g->name = "unbounded";
  g->opsets = {{"", 21}};
  const auto ints = [&](const char* name, std::vector<int64_t> v) {
    return g->AddConstant(name, graph::MakeInts({static_cast<int64_t>(v.size())}, v));
  };
  const auto add = [&](const char* op, const std::string& name, std::vector<ValueId> in) {
    const ValueId out = g->AddValue(name + "_out");
    g->AddNode("", op, name, std::move(in), {out});
    return out;
  };
  const ValueId x = g->AddInput("x", DType::kFloat, graph::DeclaredShape{{-1, "s"}, {16, ""}});
  const ValueId axis = ints("axis", {0});
  const ValueId many = add("Abs", "many/Abs", {x});
  const ValueId row = add("ReduceMax", "many/ReduceMax", {many, axis});
  const ValueId there = add("Neg", "few/Neg", {row});
  const ValueId again = add("Mul", "few/Mul", {there, there});
  const ValueId sum = add("Add", "many/Add", {x, again});
  const ValueId rows = add("Slice", "many/Slice", {sum, ints("from", {0}), ints("to", {2}), axis});
  const ValueId last = add("Exp", "few/Exp", {rows});
  g->outputs = {sum, last};
  return g;
}

ProfileSpec AnyRows() {
  return {
      "any", [](const Graph&, ops::SymbolTable& table) {
        ops::ValueFacts f;
        f.dtype = DType::kFloat;
        f.shape = ops::BoundedShape::OfDims({table.Symbol("s", 2, ops::kUnbounded), ops::Bound::Exactly(16)});
        return std::vector<ops::ValueFacts>{f};
      }};
}

TEST(Devices, ValuesWithoutABoundStayOnTheHost) {
  const auto host = Make(Unbounded(), "", {Host()}, {AnyRows()}, false);
  for (const char* rules : {"", "gpux:0(many, few)", "gpux:0(few/Neg); gpux:1(few/Mul, few/Exp)"}) {
    SCOPED_TRACE(rules);
    const auto s = Make(Unbounded(), rules, TwoGpus(), {AnyRows()}, false);
    const auto& placed = s->placed();
    for (const auto& ref : placed.nodes())
      EXPECT_EQ(placed.of(ref).device == 2, ref->name[0] == 'm') << ref->name;
    EXPECT_TRUE(s->program().uses_devices());
    for (const auto& f : placed.fallbacks()) EXPECT_EQ(f.kind, placement::Fallback::Kind::kShape) << f.text;
    for (int round = 0; round < 50; ++round)
      for (const int64_t rows : {2, 700, 31}) ASSERT_EQ(RunOn(*s, 0, rows), RunOn(*host, 0, rows));
    EXPECT_EQ(s->peak_bytes(0), s->device_plans()[0].tags.Sum());
  }
  // Where memory is promised they are refused, as without devices.
  try {
    Make(Unbounded(), "", TwoGpus(), {AnyRows()}, true);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUnsupported);
    EXPECT_NE(error.message().find("nothing bounds the size of input x"), std::string::npos)
        << error.message();
  }
}

TEST(Devices, ConcurrentRunsHaveQueuesOfTheirOwn) {
  const auto expected = Expected(6);
  const auto s = Make(Layers(), "gpux:0(layers.[0-3]/); gpux:1(layers.[4-7]/)", TwoGpus(), {Rows(9)}, false);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) wrong += RunOn(*s, 0, 6) != expected;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace ullage::session
