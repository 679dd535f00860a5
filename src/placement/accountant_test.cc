#include "placement/accountant.h"

#include <gtest/gtest.h>

#include "placement/budget.h"
#include "placement/stats.h"
#include "placement/test_graph.h"
#include "ullage/error.h"

namespace ullage::placement {
namespace {

using namespace test;  // NOLINT
using Estimate = kernels::NodeEstimate;

/// Two nodes that add a weight of 1000 bytes, with results of 1000 bytes each.
struct SharedWeight {
  ChainGraph c;
  ops::SymbolTable table;
  shapes::GraphFacts facts;
  NodeRef a, b;

  explicit SharedWeight(bool shared = true, int64_t elements = 250) {
    c.g->inputs.clear();
    c.last = c.g->AddInput("input", DType::kFloat, graph::DeclaredShape{{elements, ""}});
    const ValueId w = c.Weight("w", {elements});
    const ValueId v = shared ? w : c.Weight("v", {elements});
    a = {c.g.get(), c.Add("A", "", "Add", {w}).id};
    b = {c.g.get(), c.Add("B", "", "Add", {v}).id};
    c.g->outputs = {c.last};
    facts = shapes::Propagate(*c.g, shapes::DeclaredInputFacts(*c.g, table), {}, table);
  }
  ResourceAccountant Accountant(std::optional<int64_t> limit = std::nullopt,
                                ResourceAccountant::ProfileOf profile = nullptr) {
    return {limit, [this](const Graph&) { return &facts; }, std::move(profile)};
  }
};

TEST(Accountant, SharedWeightsAreChargedOnce) {
  SharedWeight m;
  auto accountant = m.Accountant();
  EXPECT_EQ(accountant.ComputeNodeCostForBudget(m.a, {}).total(), 3000);
  EXPECT_EQ(accountant.ComputeNodeCostForBudget(m.b, {}).total(), 1500);
}

TEST(Accountant, CommitOfBoth) {
  SharedWeight m;
  auto accountant = m.Accountant();
  const auto a = accountant.ComputeNodeCostForBudget(m.a, {});
  const auto b = accountant.ComputeNodeCostForBudget(m.b, {});
  accountant.Commit(m.a, a);
  accountant.Commit(m.b, b);
  EXPECT_EQ(accountant.consumed_bytes(), 4500);
}

TEST(Accountant, ProbesThatAreNotCommittedLeaveNothing) {
  SharedWeight m;
  auto accountant = m.Accountant();
  accountant.ComputeNodeCostForBudget(m.a, {});
  accountant.ComputeNodeCostForBudget(m.b, {});
  accountant.BeginPass();
  accountant.Commit(m.b, accountant.ComputeNodeCostForBudget(m.b, {}));
  EXPECT_EQ(accountant.consumed_bytes(), 3000);
}

TEST(Accountant, CommittedWeightsStayCommitted) {
  SharedWeight m;
  auto accountant = m.Accountant();
  accountant.Commit(m.a, accountant.ComputeNodeCostForBudget(m.a, {}));
  accountant.BeginPass();
  const auto b = accountant.ComputeNodeCostForBudget(m.b, {});
  EXPECT_EQ(b.total(), 1500);
  accountant.Commit(m.b, b);
  EXPECT_EQ(accountant.consumed_bytes(), 4500);
}

TEST(Accountant, AskingTwiceChangesNothing) {
  SharedWeight m;
  auto accountant = m.Accountant();
  EXPECT_EQ(accountant.ComputeResourceCount(m.a).total(), 2000);
  EXPECT_EQ(accountant.ComputeResourceCount(m.a).total(), 2000);
  EXPECT_EQ(accountant.ComputeResourceCount(m.b).total(), 1000);
}

TEST(Accountant, OwnWeights) {
  SharedWeight m(false, 100);
  auto accountant = m.Accountant();
  for (const NodeRef& n : {m.a, m.b}) {
    const auto cost = accountant.ComputeNodeCostForBudget(n, {});
    EXPECT_EQ(cost.total(), 1200);
    accountant.Commit(n, cost);
  }
  EXPECT_EQ(accountant.consumed_bytes(), 2400);
}

TEST(Accountant, OneBufferUnderTwoNamesIsOneWeight) {
  ChainGraph c;
  const auto data = graph::MakeConstant(DType::kFloat, {4, 4}).constant;
  const ValueId v = c.g->AddConstant("v", data), w = c.g->AddConstant("w", graph::WithShape(data, {16}));
  c.Add("a", "", "Add", {v});
  c.Add("b", "", "Add", {w});
  const Graph& g = c.Finish();
  ResourceAccountant accountant(std::nullopt, nullptr);
  EXPECT_EQ(accountant.ComputeResourceCount({&g, 0}).initializers, 64);
  EXPECT_EQ(accountant.ComputeResourceCount({&g, 1}).initializers, 0);
}

TEST(Accountant, EqualNamesInTwoGraphsAreTwoWeights) {
  ChainGraph one, two;
  one.Add("a", "", "Add", {one.Weight("w", {4, 4})});
  two.Add("a", "", "Add", {two.Weight("w", {4, 4})});
  ResourceAccountant accountant(std::nullopt, nullptr);
  EXPECT_EQ(accountant.ComputeResourceCount({one.g.get(), 0}).initializers, 64);
  EXPECT_EQ(accountant.ComputeResourceCount({two.g.get(), 0}).initializers, 64);
}

TEST(Accountant, WeightsOfFilesThatAreNotThere) {
  ChainGraph c;
  const auto absent = [&](const std::string& name, uint64_t offset) {
    graph::Constant constant;
    constant.dtype = DType::kFloat;
    constant.shape = {4, 4};
    constant.size_bytes = 64;
    constant.file = "model.data";
    constant.file_offset = offset;
    return c.g->AddConstant(name, std::make_shared<const graph::Constant>(constant));
  };
  c.Add("a", "", "Add", {absent("v", 0)});
  c.Add("b", "", "Add", {absent("w", 64)});
  c.Add("c", "", "Add", {absent("v again", 0)});
  const Graph& g = c.Finish();
  ResourceAccountant accountant(std::nullopt, nullptr);
  EXPECT_EQ(accountant.ComputeResourceCount({&g, 0}).initializers, 64);
  EXPECT_EQ(accountant.ComputeResourceCount({&g, 1}).initializers, 64);
  EXPECT_EQ(accountant.ComputeResourceCount({&g, 2}).initializers, 0);
}

TEST(Accountant, StopEndsWithThePass) {
  SharedWeight m;
  auto accountant = m.Accountant();
  accountant.SetStopAssignment();
  EXPECT_TRUE(accountant.stopped());
  accountant.BeginPass();
  EXPECT_FALSE(accountant.stopped());
}

TEST(Accountant, EqualityFits) {
  SharedWeight m;
  auto exactly = m.Accountant(3000), short_by_one = m.Accountant(2999);
  EXPECT_TRUE(exactly.Fits(exactly.ComputeNodeCostForBudget(m.a, {})));
  EXPECT_FALSE(short_by_one.Fits(short_by_one.ComputeNodeCostForBudget(m.a, {})));
  const auto a = exactly.ComputeNodeCostForBudget(m.a, {});
  exactly.Commit(m.a, a);
  EXPECT_TRUE(exactly.Fits(NodeCost{}));
  EXPECT_FALSE(exactly.Fits(NodeCost{0, 1, 0, 0, 0, CostSource::kEstimator}));
}

TEST(Accountant, EstimatesTakeThePlaceOfTheHeuristic) {
  SharedWeight m;
  auto accountant = m.Accountant();
  Estimate estimate;
  estimate.status = Estimate::Status::kExact;
  EXPECT_EQ(accountant.ComputeNodeCostForBudget(m.a, estimate).total(), 2000) << "zero is an answer";
  estimate.workspace_bytes = 70;
  estimate.transient_bytes = 30;
  estimate.prepack_bytes = 500;
  estimate.temporary_prepack_bytes = 9999;
  const auto cost = accountant.ComputeNodeCostForBudget(m.a, estimate);
  EXPECT_EQ(cost.total(), 2000 + 70 + 500);
  EXPECT_EQ(cost.source, CostSource::kEstimator);
  estimate.transient_bytes = 80;
  EXPECT_EQ(accountant.ComputeNodeCostForBudget(m.a, estimate).workspace, 80);
}

TEST(Accountant, UnavailableIsNeverZero) {
  SharedWeight m;
  auto accountant = m.Accountant();
  Estimate estimate;
  estimate.workspace_bytes = 12;  // says nothing without a status
  EXPECT_EQ(accountant.ComputeNodeCostForBudget(m.a, estimate).workspace, 1000);
  estimate.transient_bytes = 5000;
  EXPECT_EQ(accountant.ComputeNodeCostForBudget(m.a, estimate).workspace, 5000);
}

TEST(Accountant, PackedWeightsReplaceTheirSource) {
  SharedWeight m;
  auto accountant = m.Accountant();
  Estimate estimate;
  estimate.status = Estimate::Status::kExact;
  estimate.prepack_bytes = 800;
  estimate.replaced_inputs = 1u << 1;
  EXPECT_EQ(accountant.ComputeNodeCostForBudget(m.a, estimate).total(), 1000 + 800);
  EXPECT_EQ(accountant.ComputeNodeCostForBudget(m.b, {}).total(), 3000) << "who reads the source is charged";
}

TEST(Accountant, UnboundedResultsCountNothing) {
  ChainGraph c;
  c.g->inputs.clear();
  c.last = c.g->AddInput("free", DType::kFloat, graph::DeclaredShape{{-1, "n"}});
  c.Add("a");
  const Graph& g = c.Finish();
  ops::SymbolTable table;
  const auto facts = shapes::Propagate(g, shapes::DeclaredInputFacts(g, table), {}, table);
  ResourceAccountant accountant(std::nullopt, [&](const Graph&) { return &facts; });
  EXPECT_EQ(accountant.ComputeResourceCount({&g, 0}).total(), 0);
}

TEST(Accountant, HugeSizesAreRefusedNotWrapped) {
  ChainGraph c;
  graph::Constant huge;
  huge.dtype = DType::kFloat;
  huge.size_bytes = static_cast<size_t>(INT64_MAX) - 10;
  const auto constant = [&](uint64_t offset) {
    huge.file = "f";
    huge.file_offset = offset;
    return c.g->AddConstant("h" + std::to_string(offset), std::make_shared<const graph::Constant>(huge));
  };
  c.Add("a", "", "Add", {constant(0), constant(1)});
  const Graph& g = c.Finish();
  ResourceAccountant accountant(std::nullopt, nullptr);
  EXPECT_THROW(accountant.ComputeResourceCount({&g, 0}), Error);
}

TEST(Accountant, Profiles) {
  SharedWeight m;
  const auto profile = [&](const NodeRef& n) -> std::optional<NodeProfile> {
    if (n == m.a) return NodeProfile{100, 200, 300, 400};
    if (n == m.b) return NodeProfile{50, 0, 150, 0};
    return std::nullopt;
  };
  auto accountant = m.Accountant(500 * 1024, profile);
  EXPECT_EQ(accountant.ComputeNodeCostForBudget(m.a, {}).total(), 1000);
  EXPECT_EQ(accountant.ComputeNodeCostForBudget(m.b, {}).total(), 200);
  EXPECT_EQ(accountant.limit_bytes(), 512000);
  Estimate estimate;
  estimate.status = Estimate::Status::kBound;
  estimate.workspace_bytes = 700;
  const auto both = accountant.ComputeNodeCostForBudget(m.a, estimate);
  EXPECT_EQ(both.workspace, 700) << "the larger one: they measure the same";
  EXPECT_EQ(both.source, CostSource::kBoth);
}

TEST(Accountant, NodesThatTheProfileLacksFallBack) {
  SharedWeight m;
  auto accountant = m.Accountant(std::nullopt, [](const NodeRef&) { return std::nullopt; });
  EXPECT_EQ(accountant.ComputeNodeCostForBudget(m.a, {}).total(), 3000);
}

TEST(Budget, CudaSettings) {
  EXPECT_EQ(ParseCudaSetting("500,stats.csv")->limit_bytes, 512000);
  EXPECT_EQ(ParseCudaSetting("500,stats.csv")->stats_file, "stats.csv");
  EXPECT_EQ(ParseCudaSetting("500,")->stats_file, "");
  EXPECT_EQ(ParseCudaSetting(",stats.csv")->limit_bytes, std::nullopt);
  EXPECT_TRUE(ParseCudaSetting(","));
  EXPECT_FALSE(ParseCudaSetting(",").value().limit_bytes);
  EXPECT_FALSE(ParseCudaSetting(""));
  for (const char* text : {"1000", "1,2,3", "x,", "-1,", "1.5,", "18446744073709551615,", "9007199254740992,",
                           "99999999999999999999999,"})
    EXPECT_THROW(ParseCudaSetting(text), Error) << text;
  EXPECT_EQ(ParseCudaSetting("9007199254740991,")->limit_bytes, 9007199254740991 * 1024);
}

TEST(Budget, GeneralSettings) {
  const auto all =
      ParseBudgetSettings(" gpu:6GiB; cpu:8GiB,stats.csv ;; gpu:1:auto; gpu:nvidia:; opencl:0:5 ");
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[0].device.text, "gpu");
  EXPECT_EQ(all[0].limit_bytes, int64_t{6} << 30);
  EXPECT_EQ(all[1].stats_file, "stats.csv");
  EXPECT_EQ(all[2].device.ordinal, 1);
  EXPECT_EQ(all[2].limit_bytes, std::nullopt);
  EXPECT_EQ(all[3].device.vendor, "nvidia");
  EXPECT_EQ(all[4].device.text, "opencl:0");
  EXPECT_EQ(all[4].limit_bytes, 5);
  EXPECT_TRUE(ParseBudgetSettings("").empty());
  for (const auto& [text, position] :
       std::vector<std::pair<std::string, std::string>>{{"gpu", "position 0"},
                                                        {"cpu:1; gpu:6 apples", "position 11"},
                                                        {"cpu:1;npu:x:1", "position 10"},
                                                        {":6GiB", "position 0"},
                                                        {"cpu:1,a,b", "position 5"}}) {
    try {
      ParseBudgetSettings(text);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kUsage);
      EXPECT_NE(e.message().find(position), std::string::npos) << e.message();
    }
  }
}

TEST(Budget, Resolved) {
  std::vector<DeviceInfo> devices = {
      Device("cuda", DeviceType::kGpu), Device("reference", DeviceType::kGpu, 0),
      Device("reference", DeviceType::kGpu, 1), Device("cpu", DeviceType::kCpu)};
  devices[2].free_bytes = 1000;
  const auto budgets =
      ResolveBudgets(ParseCudaSetting("1,f.csv"),
                     ParseBudgetSettings("cuda:512; reference:1:auto; cpu:9; cpu:7"), devices, 100, 50);
  EXPECT_EQ(budgets[0].limit_bytes, 512) << "the smaller one";
  EXPECT_EQ(budgets[0].stats_file, "f.csv");
  EXPECT_EQ(budgets[1].limit_bytes, std::nullopt);
  EXPECT_EQ(budgets[2].limit_bytes, 450);
  EXPECT_TRUE(budgets[2].detected);
  EXPECT_EQ(budgets[3].limit_bytes, 7);
  EXPECT_THROW(ResolveBudgets(std::nullopt, ParseBudgetSettings("npu:1"), devices, 0, 100), Error);
  EXPECT_NO_THROW(ResolveBudgets(ParseCudaSetting(","), {}, {}, 0, 100)) << "a CUDA setting without CUDA";
}

TEST(Budget, FreeMemory) {
  EXPECT_EQ(BudgetOfFree(1000, 100, 100), 900);
  EXPECT_EQ(BudgetOfFree(1000, 100, 50), 450);
  EXPECT_EQ(BudgetOfFree(50, 100, 100), 0);
  EXPECT_EQ(BudgetOfFree(INT64_MAX, 0, 100), INT64_MAX);
  EXPECT_EQ(BudgetOfFree(1000, -5, 200), 1000);
}

TEST(Budget, StatisticsLieBesideTheModel) {
  EXPECT_EQ(StatsPath("/a/b.csv", "/models/x"), "/a/b.csv");
  EXPECT_EQ(StatsPath("b.csv", "/models/x"), "/models/x/b.csv");
  EXPECT_EQ(StatsPath("b.csv", ""), "b.csv");
}

}  // namespace
}  // namespace ullage::placement
