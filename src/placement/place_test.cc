#include "placement/place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "memory/node_stats.h"
#include "placement/test_provider.h"
#include "ullage/error.h"

namespace ullage::placement {
namespace {

using namespace test;  // NOLINT

/// Six layers of one product with a weight of 64 bytes and a result of 64 bytes, then a Softmax.
ChainGraph Model() {
  ChainGraph c;
  for (int i = 0; i < 6; ++i) {
    const std::string layer = "/model/layers." + std::to_string(i);
    c.Add(layer + "/MatMul", "stage" + std::to_string(i / 3), "MatMul", {c.Weight(layer, {4, 4})});
  }
  c.Add("/head/Softmax", "", "Softmax");
  c.Finish();
  return c;
}

TEST(Place, OneDeviceTakesAll) {
  const ChainGraph c = Model();
  auto p = Placing::GpuAndHost(0);
  const auto placed = p.Place(*c.g);
  EXPECT_EQ(Where(*placed, "/model/layers.0/MatMul"), "cpu default");
  EXPECT_EQ(placed->devices()[0].nodes, 7);
  EXPECT_EQ(placed->LayerRange(0), "0-5");
  EXPECT_TRUE(placed->fallbacks().empty());
  EXPECT_TRUE(placed->warnings().empty());
}

TEST(Place, DevicesInOrderOfPreference) {
  const ChainGraph c = Model();
  auto p = Placing::GpuAndHost();
  const auto placed = p.Place(*c.g);
  EXPECT_EQ(Where(*placed, "/model/layers.5/MatMul"), "gpux:0 automatic");
  EXPECT_EQ(Where(*placed, "/head/Softmax"), "cpu no_kernel");
  ASSERT_EQ(placed->fallbacks().size(), 1u);
  EXPECT_EQ(placed->fallbacks()[0].kind, Fallback::Kind::kNoKernel);
  EXPECT_EQ(placed->fallbacks()[0].text, "no kernel for Softmax");
  ASSERT_EQ(placed->warnings().size(), 1u);
  EXPECT_NE(placed->warnings()[0].find("/head/Softmax"), std::string::npos);
}

TEST(Place, NameRules) {
  const ChainGraph c = Model();
  auto p = Placing::GpuAndHost(2);
  p.options.Set("session.name_based_layer_assignment",
                "gpu:1(layers.[0-1]/); gpux:0(layers.3/); cpu(layers.4/)");
  const auto placed = p.Place(*c.g);
  EXPECT_EQ(Where(*placed, "/model/layers.1/MatMul"), "gpux:1 rule");
  EXPECT_EQ(Where(*placed, "/model/layers.2/MatMul"), "gpux:0 automatic");
  EXPECT_EQ(Where(*placed, "/model/layers.3/MatMul"), "gpux:0 rule");
  EXPECT_EQ(Where(*placed, "/model/layers.4/MatMul"), "cpu rule");
  EXPECT_EQ(placed->unmatched_nodes(), 3);
  EXPECT_EQ(placed->coverage()[0].nodes, 2);
  EXPECT_EQ(placed->coverage()[0].bytes, 128);
  EXPECT_EQ(placed->LayerRange(0), "2-3,5");
}

TEST(Place, AnnotationRules) {
  const ChainGraph c = Model();
  auto p = Placing::GpuAndHost();
  p.options.Set("session.layer_assignment_settings", "cpu(=stage0)");
  const auto placed = p.Place(*c.g);
  EXPECT_EQ(Where(*placed, "/model/layers.2/MatMul"), "cpu rule");
  EXPECT_EQ(Where(*placed, "/model/layers.3/MatMul"), "gpux:0 automatic");
}

TEST(Place, BothKindsOfRulesAreRefused) {
  const ChainGraph c = Model();
  auto p = Placing::GpuAndHost();
  p.options.Set("session.layer_assignment_settings", "cpu(stage0)");
  p.options.Set("session.name_based_layer_assignment", "cpu(layers)");
  std::string message;
  EXPECT_EQ(CodeOf(p, *c.g, &message), Code::kUsage);
  EXPECT_NE(message.find("exclude each other"), std::string::npos);
}

TEST(Place, DevicesThatAreNotThere) {
  const ChainGraph c = Model();
  auto p = Placing::GpuAndHost();
  p.options.Set("session.name_based_layer_assignment", "npu(layers)");
  std::string message;
  EXPECT_EQ(CodeOf(p, *c.g, &message), Code::kUnsupported);
  EXPECT_EQ(message, "there is no device npu; there is gpux:0, cpu");
  auto q = Placing::GpuAndHost();
  q.options.Set("session.resource_partitioning_settings", "gpu:1:5");
  EXPECT_EQ(CodeOf(q, *c.g), Code::kUnsupported);
}

TEST(Place, RulesThatDoNothing) {
  const ChainGraph c = Model();
  auto p = Placing::GpuAndHost();
  p.options.Set("session.name_based_layer_assignment", "cpu(layer.[0-3])");
  const auto placed = p.Place(*c.g);
  EXPECT_NE(placed->warnings()[0].find("layers.0"), std::string::npos) << placed->warnings()[0];
  p.options.Set("session.strict_layer_assignment", "1");
  std::string message;
  EXPECT_EQ(CodeOf(p, *c.g, &message), Code::kUsage);
  EXPECT_NE(message.find("matches nothing"), std::string::npos);
}

TEST(Place, BudgetsEndAtTheFirstNodeThatDoesNotFit) {
  const ChainGraph c = Model();  // each product: 64 + 64, no workspace
  for (int64_t limit = 0; limit <= 6 * 128 + 10; ++limit) {
    auto p = Placing::GpuAndHost();
    p.options.Set("session.resource_partitioning_settings", "gpu:" + std::to_string(limit));
    const auto placed = p.Place(*c.g);
    EXPECT_EQ(placed->devices()[0].nodes, limit / 128) << limit;
    EXPECT_EQ(placed->devices()[0].consumed_bytes, limit / 128 * 128);
    EXPECT_EQ(placed->devices()[0].exact, limit / 128);
    if (limit < 6 * 128) {
      EXPECT_EQ(Where(*placed, "/model/layers.5/MatMul"), "cpu budget") << limit;
    }
  }
}

TEST(Place, NothingLaterIsTriedOnceADeviceIsFull) {
  ChainGraph c;
  c.Add("small");
  c.Add("large", "", "MatMul", {c.Weight("w", {4, 4})}).attributes["workspace"] = int64_t{10000};
  c.Add("small again");
  c.Finish();
  auto p = Placing::GpuAndHost();
  p.options.Set("session.resource_partitioning_settings", "gpu:1000");
  const auto placed = p.Place(*c.g);
  EXPECT_EQ(Where(*placed, "small"), "gpux:0 automatic");
  EXPECT_EQ(Where(*placed, "large"), "cpu budget");
  EXPECT_EQ(Where(*placed, "small again"), "cpu budget");
  EXPECT_NE(placed->fallbacks()[0].text.find("gpux:0 has"), std::string::npos);
}

TEST(Place, NodesWithoutKernelDoNotEndATurn) {
  ChainGraph c;
  c.Add("a");
  c.Add("s", "", "Softmax");
  c.Add("b");
  c.Finish();
  auto p = Placing::GpuAndHost();
  p.options.Set("session.resource_partitioning_settings", "gpu:1000");
  const auto placed = p.Place(*c.g);
  EXPECT_EQ(Where(*placed, "b"), "gpux:0 automatic");
}

TEST(Place, SeveralBudgets) {
  const ChainGraph c = Model();
  auto p = Placing::GpuAndHost(2);
  p.options.Set("session.resource_partitioning_settings", "gpu:0:256; gpu:1:384");
  const auto placed = p.Place(*c.g);
  EXPECT_EQ(placed->devices()[0].nodes, 2);
  EXPECT_EQ(placed->devices()[1].nodes, 3);
  EXPECT_EQ(Where(*placed, "/model/layers.2/MatMul"), "gpux:1 budget");
  EXPECT_EQ(Where(*placed, "/model/layers.5/MatMul"), "cpu budget");
}

TEST(Place, FreeMemoryAsBudget) {
  const ChainGraph c = Model();
  auto p = Placing::GpuAndHost();
  p.providers[0]->free_bytes = 128 * 4 + 100;
  p.options.Set("session.resource_partitioning_settings", "gpu:auto");
  p.options.Set("session.resource_reserve", "100");
  EXPECT_EQ(p.Place(*c.g)->devices()[0].nodes, 4);
  p.options.Set("session.resource_percent", "50");
  EXPECT_EQ(p.Place(*c.g)->devices()[0].nodes, 2);
}

TEST(Place, UnknownEstimatesTakeTheHeuristic) {
  ChainGraph c;
  c.Add("a").attributes["unsure"] = int64_t{1};
  c.Add("b").attributes["unsure"] = int64_t{1};
  c.Finish();
  auto p = Placing::GpuAndHost();
  p.options.Set("session.resource_partitioning_settings", "gpu:96");  // 64 results and half of it
  const auto placed = p.Place(*c.g);
  EXPECT_EQ(placed->devices()[0].nodes, 1);
  EXPECT_EQ(placed->devices()[0].heuristic, 1);
  p.options.Set("session.strict", "1");
  std::string message;
  EXPECT_EQ(CodeOf(p, *c.g, &message), Code::kUnsupported);
  EXPECT_NE(message.find("workspace"), std::string::npos);
}

TEST(Place, WhatNothingBoundsGoesToTheHost) {
  ChainGraph c;  // x is [4, 4]
  const ValueId open = c.g->AddInput("open", DType::kFloat, graph::DeclaredShape{{4, ""}, {-1, "n"}});
  c.Add("bounded");
  const ValueId bounded = c.last;
  c.last = open;
  c.Add("reads and makes", "", "Relu");
  const ValueId flipped = c.g->AddValue("flipped");
  c.g->AddNode("", "Transpose", "no kernel", {c.last}, {flipped});
  c.Add("product", "", "MatMul", {flipped});  // [4, 4] again
  c.Add("after", "", "Add", {bounded});
  c.Add("scratch").attributes["workspace"] = int64_t{-1};
  c.Finish();
  auto p = Placing::GpuAndHost();
  p.providers.back() = std::make_shared<TestProvider>(
      "cpu", DeviceType::kCpu, 1, std::vector<std::string>{"Relu", "Add", "MatMul", "Transpose"});
  for (const char* budget : {"", "gpu:1MB"}) {
    SCOPED_TRACE(budget);
    p.options.Set("session.resource_partitioning_settings", budget);
    const auto placed = p.Place(*c.g);
    EXPECT_EQ(Where(*placed, "bounded"), "gpux:0 automatic");
    EXPECT_EQ(Where(*placed, "reads and makes"), "cpu no_kernel");
    EXPECT_EQ(Where(*placed, "product"), "cpu no_kernel");
    EXPECT_EQ(Where(*placed, "after"), "gpux:0 automatic");
    EXPECT_EQ(Where(*placed, "scratch"), "cpu no_kernel");
    std::map<std::string, std::string> texts;
    for (const auto& f : placed->fallbacks()) {
      texts[f.node->name] = f.text;
      EXPECT_EQ(f.kind, Fallback::Kind::kShape);
      EXPECT_FALSE(f.by_rule);
    }
    EXPECT_EQ(texts["reads and makes"], "nothing bounds the size of input open");
    EXPECT_EQ(texts["product"], "nothing bounds the size of input reads and makes_out");
    EXPECT_EQ(texts["scratch"], "nothing bounds the workspace of its kernel");
    ASSERT_EQ(placed->warnings().size(), 1u);
    EXPECT_EQ(placed->warnings()[0],
              "4 nodes did not go to gpux:0 (shape): nothing bounds the size of input open (node reads and "
              "makes, and others)");
  }
  p.options.Set("session.name_based_layer_assignment", "gpux:0(product)");
  const auto placed = p.Place(*c.g);
  EXPECT_EQ(Where(*placed, "product"), "cpu no_kernel");
  const auto& all = placed->fallbacks();
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const Fallback& f) { return f.by_rule; }), 1);
  p.options.Set("session.strict", "1");
  std::string message;
  EXPECT_EQ(CodeOf(p, *c.g, &message), Code::kUnsupported);
  EXPECT_NE(message.find("nothing bounds the size"), std::string::npos) << message;
}

TEST(Place, NodesOfBodiesThatNothingBoundsGoToTheHost) {
  ChainGraph c;
  Node& node = c.AddIf("if", "", "");
  const ValueId open = c.g->AddInput("open", DType::kFloat, graph::DeclaredShape{{-1, "n"}, {4, ""}});
  for (const char* branch : {"then_branch", "else_branch"}) {
    const auto body = std::get<std::shared_ptr<Graph>>(node.attributes[branch]);
    const ValueId inner = body->AddInput("open", DType::kFloat, std::nullopt);
    body->inputs.clear();
    body->capture_values = {inner};
    body->capture_names = {"open"};
    if (branch[0] == 'e') continue;
    const ValueId made = body->AddValue("made");
    body->AddNode("", "Relu", "body/unbounded", {inner}, {made});
    body->outputs = {made};
  }
  c.g->SetCaptures(node, {open});
  c.Finish();
  auto p = Placing::GpuAndHost();
  const auto placed = p.Place(*c.g);
  EXPECT_EQ(Where(*placed, "then_branch/body"), "gpux:0 automatic");
  EXPECT_EQ(Where(*placed, "body/unbounded"), "cpu no_kernel");
  EXPECT_EQ(Where(*placed, "else_branch/body"), "gpux:0 automatic");
}

TEST(Place, ReasonsOfRefusal) {
  ChainGraph c;
  c.Add("odd").attributes["odd"] = int64_t{1};
  const ValueId cast = c.g->AddValue("wide", DType::kDouble);
  c.g->AddNode("", "Cast", "to double", {c.last}, {cast}).attributes["to"] = int64_t{11};
  c.last = cast;
  c.Add("double");
  c.Finish();
  auto p = Placing::GpuAndHost(1);
  p.Add("other", DeviceType::kCpu, 1, {});
  // The host of this test runs nothing of it: all refusals are told at once.
  std::string message;
  EXPECT_EQ(CodeOf(p, *c.g, &message), Code::kUnsupported);
  EXPECT_NE(message.find("an odd shape"), std::string::npos) << message;
  EXPECT_NE(message.find("float64"), std::string::npos) << message;
  EXPECT_NE(message.find("gpux:0: "), std::string::npos) << message;
  EXPECT_NE(message.find("cpu: "), std::string::npos) << message;
}

TEST(Place, WhatOnlyAnEarlierDeviceCanRunReturnsToIt) {
  const ChainGraph c = [] {
    ChainGraph m;
    m.Add("only gpu", "", "Sigmoid");
    m.Finish();
    return m;
  }();
  Placing p;
  p.Add("gpux", DeviceType::kGpu, 1, {"Sigmoid"});
  p.Add("cpu", DeviceType::kCpu, 1, {"Relu"});
  p.options.Set("session.name_based_layer_assignment", "cpu(only)");
  const auto placed = p.Place(*c.g);
  EXPECT_EQ(Where(*placed, "only gpu"), "gpux:0 no_kernel");
}

TEST(Place, StrictRefusesFallbacks) {
  const ChainGraph c = Model();
  auto p = Placing::GpuAndHost();
  p.options.Set("session.strict", "1");
  EXPECT_EQ(CodeOf(p, *c.g), Code::kUnsupported) << "Softmax has no kernel there";
  auto q = Placing::GpuAndHost();
  q.options.Set("session.strict", "1");
  q.options.Set("session.name_based_layer_assignment", "gpu(layers.); cpu(head)");
  q.options.Set("session.resource_partitioning_settings", "gpu:500");
  std::string message;
  EXPECT_EQ(CodeOf(q, *c.g, &message), Code::kDoesNotFit);
  EXPECT_NE(message.find("/model/layers.3/MatMul"), std::string::npos) << message;
  q.options.Set("session.resource_partitioning_settings", "gpu:768");
  EXPECT_NO_THROW(q.Place(*c.g));
  auto r = Placing::GpuAndHost();  // a budget may divide what no rule names
  r.options.Set("session.strict", "1");
  r.options.Set("session.name_based_layer_assignment", "cpu(head)");
  r.options.Set("session.resource_partitioning_settings", "gpu:500");
  EXPECT_EQ(r.Place(*c.g)->devices()[0].nodes, 3);
}

TEST(Place, BodiesAndTheirBudget) {
  ChainGraph c;
  c.Add("before");
  c.AddIf("if", "", "");
  c.Add("after");
  Graph& g = c.Finish();
  auto p = Placing::GpuAndHost();
  p.options.Set("session.resource_partitioning_settings", "gpu:1MB");
  const auto placed = p.Place(g);
  EXPECT_EQ(Where(*placed, "if"), "cpu default") << "the host chooses the branch";
  EXPECT_EQ(Where(*placed, "then_branch/body"), "gpux:0 automatic");
  EXPECT_EQ(placed->nodes().size(), 5u);
  // Nodes are asked in the order in which they run: 64 for "before", 64 + 64 for each body.
  p.options.Set("session.resource_partitioning_settings", "gpu:" + std::to_string(64 + 128));
  const auto less = p.Place(g);
  EXPECT_EQ(Where(*less, "before"), "gpux:0 automatic");
  EXPECT_EQ(less->devices()[0].nodes, 2);
  EXPECT_EQ(Where(*less, "after"), "cpu budget");
}

TEST(Place, SharedWeightsOfBodiesCountOnce) {
  ChainGraph c;
  const auto data = graph::MakeConstant(DType::kFloat, {4, 4}).constant;
  Node& node = c.AddIf("if", "", "");
  for (const char* branch : {"then_branch", "else_branch"}) {
    Graph& body = *std::get<std::shared_ptr<Graph>>(node.attributes[branch]);
    body.value(body.FindValue("w")).constant = data;
  }
  Graph& g = c.Finish();
  auto p = Placing::GpuAndHost();
  p.options.Set("session.resource_partitioning_settings", "gpu:" + std::to_string(64 + 2 * 64));
  EXPECT_EQ(p.Place(g)->devices()[0].nodes, 2);
  EXPECT_EQ(p.Place(g)->devices()[0].consumed_bytes, 192);
}

TEST(Place, ViewsFollowTheirBytes) {
  ChainGraph c;
  c.Add("first");
  const ValueId shape = c.g->AddConstant("shape", graph::MakeInts({1}, std::vector<int64_t>{16}));
  c.Add("reshape", "", "Reshape", {shape});
  c.Add("b");
  c.Finish();
  auto p = Placing::GpuAndHost();
  EXPECT_EQ(Where(*p.Place(*c.g), "reshape"), "gpux:0 automatic");
  p.options.Set("session.name_based_layer_assignment", "cpu(first)");
  EXPECT_EQ(Where(*p.Place(*c.g), "reshape"), "cpu automatic");
}

TEST(Place, ReservationsFollowChanges) {
  ChainGraph c;
  for (int i = 0; i < 8; ++i)
    c.Add("/model/layers." + std::to_string(i) + "/x").attributes["workspace"] = int64_t{10 + i};
  Graph& g = c.Finish();
  auto p = Placing::GpuAndHost();
  p.options.Set("session.strict_workspace_verification", "1");
  p.options.Set("session.name_based_layer_assignment", "cpu(layers.[4-7]/)");
  const auto placed = p.Place(g);
  EXPECT_EQ(placed->ledger().WorkspaceBytes(0), 10 + 11 + 12 + 13);
  while (g.LiveNodes() > 2) {  // fuse each device's nodes
    for (NodeId first : g.Order()) {
      const ValueId out = g.node(first).outputs[0];
      if (g.value(out).consumers.empty()) continue;
      const NodeId second = g.value(out).consumers[0];
      placed->Sync();
      if (placed->of({&g, first}).device != placed->of({&g, second}).device) continue;
      graph::Patch patch(g, "fuse");
      const ValueId in = g.node(first).inputs[0], end = g.node(second).outputs[0];
      patch.Remove(first);
      patch.Remove(second);
      patch.Add("", "Relu", "", {in}, {end}, {first, second});
      break;
    }
  }
  placed->Sync();
  ASSERT_EQ(placed->nodes().size(), 2u);
  EXPECT_EQ(placed->devices()[0].nodes, 1);
  EXPECT_EQ(placed->devices()[1].nodes, 1);
  EXPECT_EQ(placed->ledger().size(), 2u);
  EXPECT_EQ(placed->ledger().WorkspaceBytes(0), 10 + 11 + 12 + 13);
  EXPECT_EQ(placed->ledger().WorkspaceBytes(1), 14 + 15 + 16 + 17);
  std::map<NodeRef, std::optional<int64_t>> declared;
  for (const NodeRef& ref : placed->nodes()) declared[ref] = 0;
  EXPECT_EQ(placed->ledger().Verify(declared).orphans, 0);
}

TEST(Place, InsertedNodesGoWithWhatTheyRead) {
  ChainGraph c;
  c.Add("a");
  c.Add("b");
  Graph& g = c.Finish();
  auto p = Placing::GpuAndHost();
  const auto placed = p.Place(g);
  graph::Patch patch(g, "cast");
  const NodeId added = patch.Add("", "Relu", "cast", {g.node(0).outputs[0]}, {g.AddValue("v")}, {0}).id;
  patch.Commit();
  placed->Sync();
  EXPECT_EQ(placed->of({&g, added}).device, 0u);
}

TEST(Place, Statistics) {
  const ChainGraph c = Model();
  const std::string folder = ::testing::TempDir();
  memory::NodeStatsTable table;
  const std::vector<std::string_view> in = {"x", "/model/layers.0"}, out = {"/model/layers.0/MatMul_out"};
  table[memory::NodeStatsKey("/model/layers.0/MatMul", "MatMul", in, out)] = {100, 200, 300, 400, 0};
  memory::WriteNodeStats(folder + "/place_test_stats.csv", table, false);
  auto p = Placing::GpuAndHost();
  p.model_folder = folder;
  p.options.Set("session.resource_partitioning_settings", "gpu:1255,place_test_stats.csv");
  const auto placed = p.Place(*c.g);
  // 1000 as measured, then 128 each: nodes that the file lacks are estimated, never free.
  EXPECT_EQ(placed->devices()[0].nodes, 2);
  EXPECT_EQ(placed->devices()[0].consumed_bytes, 1128);
  p.options.Set("session.resource_partitioning_settings", "gpu:1255,not_there.csv");
  EXPECT_EQ(CodeOf(p, *c.g), Code::kUsage);
  std::remove((folder + "/place_test_stats.csv").c_str());
}

TEST(Place, ChosenDevices) {
  auto p = Placing::GpuAndHost(3);
  const std::vector<std::shared_ptr<const providers::Provider>> all(p.providers.begin(), p.providers.end());
  const auto names = [&](const std::string& text) {
    OptionBag options;
    options.Set("session.devices", text);
    std::string list;
    for (const auto& d : ReadDevices(options, all)) list += d.info.name + " ";
    return list;
  };
  EXPECT_EQ(names(""), "gpux:0 gpux:1 gpux:2 cpu ");
  EXPECT_EQ(names("cpu"), "cpu ");
  EXPECT_EQ(names("gpux:2,gpux:0"), "gpux:2 gpux:0 cpu ");
  EXPECT_EQ(names("gpu"), "gpux:0 gpux:1 gpux:2 cpu ");
  EXPECT_EQ(names("cpu,gpu:1,gpu"), "gpux:1 gpux:0 gpux:2 cpu ");
  EXPECT_THROW(names("opencl"), Error);
  EXPECT_THROW(names("gpu:"), Error);
}

/// Groups of the nodes at these places of what is offered.
providers::Proposals Groups(std::vector<std::vector<size_t>> groups, bool rest, bool fused = true) {
  providers::Proposals proposals;
  proposals.rest = rest;
  for (auto& nodes : groups) {
    providers::Proposal p;
    p.nodes = std::move(nodes);
    p.fused = fused;
    p.estimate.status = kernels::WorkspaceEstimate::Status::kExact;
    p.estimate.workspace_bytes = 10;
    p.id = proposals.groups.size();
    proposals.groups.push_back(std::move(p));
  }
  return proposals;
}

TEST(Place, ProposedGroupsRunAsOne) {
  const ChainGraph c = Model();
  auto p = Placing::GpuAndHost();
  auto& gpu = *p.providers[0];
  std::vector<std::string> offered;
  gpu.propose = [&](std::span<const kernels::KernelInfo> nodes, std::optional<int64_t> budget) {
    for (const auto& n : nodes) offered.push_back(n.node.name);
    EXPECT_FALSE(budget);
    return Groups({{0, 1}, {1, 2}, {3, 5}, {5, 6}}, true);
  };
  const auto placed = p.Place(*c.g);
  EXPECT_EQ(offered.size(), 7u);
  using providers::Verdict;
  EXPECT_EQ(gpu.verdicts, (std::map<uint64_t, Verdict>{{0, Verdict::kAccepted},
                                                       {1, Verdict::kRefusedTaken},
                                                       {2, Verdict::kRefusedGroup},
                                                       {3, Verdict::kRefusedTaken}}));
  ASSERT_EQ(placed->groups().size(), 1u);
  EXPECT_EQ(placed->groups()[0].proposal, 0u);
  for (const NodeRef& ref : placed->nodes())
    EXPECT_EQ(placed->of(ref).group.has_value(), ref->name.find("layers.0") != std::string::npos ||
                                                     ref->name.find("layers.1") != std::string::npos)
        << ref->name;
  // The others were offered one by one, and what has no kernel goes to the host.
  EXPECT_EQ(placed->devices()[0].nodes, 6);
  EXPECT_EQ(Where(*placed, "/head/Softmax"), "cpu no_kernel");
}

TEST(Place, AGroupMayHaveNodesWithoutKernels) {
  const ChainGraph c = Model();
  auto p = Placing::GpuAndHost();
  auto& gpu = *p.providers[0];
  gpu.propose = [](std::span<const kernels::KernelInfo>, std::optional<int64_t>) {
    return Groups({{5, 6}}, false);
  };
  auto placed = p.Place(*c.g);
  EXPECT_EQ(Where(*placed, "/head/Softmax"), "gpux:0 automatic");
  EXPECT_EQ(Where(*placed, "/model/layers.0/MatMul"), "cpu no_kernel");  // it did not want the rest
  gpu.propose = [](std::span<const kernels::KernelInfo>, std::optional<int64_t>) {
    return Groups({{0, 1}, {5, 6}}, false, false);
  };
  placed = p.Place(*c.g);
  EXPECT_EQ(gpu.verdicts[0], providers::Verdict::kAccepted);
  EXPECT_EQ(gpu.verdicts[1], providers::Verdict::kRefusedGroup);  // one has no kernel of its own
  EXPECT_EQ(placed->devices()[0].nodes, 2);
  EXPECT_TRUE(placed->groups().empty());
}

TEST(Place, RulesDecideWhatIsOffered) {
  const ChainGraph c = Model();
  auto p = Placing::GpuAndHost();
  p.options.Set("session.layer_assignment_settings", "cpu(stage0)");
  std::vector<std::string> offered;
  p.providers[0]->propose = [&](std::span<const kernels::KernelInfo> nodes, std::optional<int64_t>) {
    for (const auto& n : nodes) offered.push_back(n.node.name);
    return Groups({}, false);
  };
  p.Place(*c.g);
  EXPECT_EQ(offered, (std::vector<std::string>{"/model/layers.3/MatMul", "/model/layers.4/MatMul",
                                               "/model/layers.5/MatMul", "/head/Softmax"}));
}

TEST(Place, AGroupFitsWhollyOrNotAtAll) {
  const ChainGraph c = Model();
  auto p = Placing::GpuAndHost();
  auto& gpu = *p.providers[0];
  std::optional<int64_t> told;
  gpu.propose = [&](std::span<const kernels::KernelInfo>, std::optional<int64_t> budget) {
    told = budget;
    return Groups({{0, 1, 2}, {3, 4, 5}}, true);
  };
  // Three products with 128 bytes each, and the group's workspace.
  p.options.Set("session.resource_partitioning_settings", "gpux:394");
  auto placed = p.Place(*c.g);
  EXPECT_EQ(told, 394);
  EXPECT_EQ(gpu.verdicts[0], providers::Verdict::kAccepted);
  EXPECT_EQ(gpu.verdicts[1], providers::Verdict::kRefusedBudget);
  EXPECT_EQ(placed->devices()[0].nodes, 3);
  EXPECT_EQ(placed->devices()[0].consumed_bytes, 394);
  EXPECT_EQ(Where(*placed, "/model/layers.3/MatMul"), "cpu budget");
  p.options.Set("session.resource_partitioning_settings", "gpux:393");
  placed = p.Place(*c.g);
  EXPECT_EQ(gpu.verdicts[0], providers::Verdict::kRefusedBudget);
  EXPECT_EQ(placed->devices()[0].nodes, 0);
}

}  // namespace
}  // namespace ullage::placement
