/// Budgets by ONNX Runtime's setting, and who gets what a device leaves.
#include <gtest/gtest.h>

#include <cstdio>

#include "memory/node_stats.h"
#include "placement/test_provider.h"

namespace ullage::placement {
namespace {

using namespace test;  // NOLINT

constexpr const char* kCuda = "session.resource_cuda_partitioning_settings";

/// Six nodes of a KiB each: a result of 64 bytes, and packed weights.
ChainGraph Kibibytes() {
  ChainGraph c;
  for (int i = 0; i < 6; ++i) c.Add("n" + std::to_string(i)).attributes["prepack"] = int64_t{1024 - 64};
  c.Finish();
  return c;
}

Placing CudaAndHost() {
  Placing p;
  p.Add("cuda", DeviceType::kGpu, 1, {"Relu"}).free_bytes = 3 * 1024 + 100;
  p.Add("cpu", DeviceType::kCpu, 1, {"Relu"});
  p.options.Set("session.resource_reserve", "0");
  return p;
}

/// The first node took four KiB when it was measured.
std::string MeasuredFile() {
  memory::NodeStatsTable table;
  const std::vector<std::string_view> in = {"x"}, out = {"n0_out"};
  table[memory::NodeStatsKey("n0", "Relu", in, out)] = {1024, 0, 2048, 1024, 0};
  const std::string path = ::testing::TempDir() + "/place_budget_test.csv";
  memory::WriteNodeStats(path, table, false);
  return path;
}

TEST(PlaceBudget, CudaSettingsInTheirFourForms) {
  const ChainGraph c = Kibibytes();
  const std::string file = MeasuredFile();
  const struct {
    std::string setting;
    int64_t nodes, limit;
  } cases[] = {
      {"2,", 2, 2048},                  // a limit, estimates
      {"6," + file, 2, 6 * 1024},       // a limit, what was measured: 4 KiB and the packed weights
      {",", 3, 3 * 1024 + 100},         // what is free, estimates
      {"," + file, 0, 3 * 1024 + 100},  // what is free, what was measured: the first does not fit
      {"6,", 6, 6 * 1024},              // equality fits
      {"0,", 0, 0},
  };
  for (const auto& t : cases) {
    SCOPED_TRACE(t.setting);
    auto p = CudaAndHost();
    p.options.Set(kCuda, t.setting);
    const auto placed = p.Place(*c.g);
    EXPECT_EQ(placed->devices()[0].nodes, t.nodes);
    EXPECT_EQ(placed->devices()[0].budget.limit_bytes, t.limit);
    EXPECT_TRUE(placed->devices()[0].budget.by_sums) << "the limit is one on sums";
    EXPECT_EQ(placed->devices()[1].nodes, 6 - t.nodes);
  }
  auto p = CudaAndHost();
  const auto placed = p.Place(*c.g);
  EXPECT_EQ(placed->devices()[0].nodes, 6) << "without the option nobody counts";
  EXPECT_EQ(placed->devices()[0].budget.limit_bytes, std::nullopt);
  EXPECT_EQ(placed->devices()[0].consumed_bytes, 0);
  for (const char* bad : {"1000", "1,2,3", ",not_there.csv"}) {
    p.options.Set(kCuda, bad);
    EXPECT_EQ(CodeOf(p, *c.g), Code::kUsage) << bad;
  }
  std::remove(file.c_str());
}

TEST(PlaceBudget, OfAnySize) {
  const ChainGraph c = Kibibytes();
  for (const auto& [budget, nodes] : std::vector<std::pair<std::string, int64_t>>{
           {"", 6}, {"gpu:1GiB", 6}, {"gpu:1KiB", 1}, {"gpu:1023", 0}, {"gpu:auto", 3}}) {
    auto p = CudaAndHost();
    p.options.Set("session.resource_partitioning_settings", budget);
    EXPECT_EQ(p.Place(*c.g)->devices()[0].nodes, nodes) << budget;
  }
}

TEST(PlaceBudget, SharesAndReservesOfWhatIsFree) {
  const ChainGraph c = Kibibytes();
  auto p = CudaAndHost();
  p.options.Set("session.resource_partitioning_settings", "gpu:auto");
  p.options.Set("session.resource_reserve", "1124");
  EXPECT_EQ(p.Place(*c.g)->devices()[0].budget.limit_bytes, 2048);
  p.options.Set("session.resource_percent", "50");
  EXPECT_EQ(p.Place(*c.g)->devices()[0].budget.limit_bytes, 1024);
  EXPECT_TRUE(p.Place(*c.g)->devices()[0].budget.detected);
}

TEST(PlaceBudget, WhatADeviceDoesNotClaimOthersAreOffered) {
  ChainGraph c;
  c.Add("one", "stage");
  c.Add("two", "stage", "Softmax");
  c.Add("three", "stage");
  c.Finish();
  Placing p;
  p.Add("gpux", DeviceType::kGpu, 1, {"Relu"});
  p.Add("npux", DeviceType::kNpu, 1, {"Relu", "Softmax"});
  p.Add("cpu", DeviceType::kCpu, 1, {"Relu", "Softmax"});
  p.options.Set("session.layer_assignment_settings", "gpux(stage)");
  const auto placed = p.Place(*c.g);
  EXPECT_EQ(Where(*placed, "one"), "gpux:0 rule");
  EXPECT_EQ(Where(*placed, "two"), "npux:0 no_kernel");
  EXPECT_EQ(Where(*placed, "three"), "gpux:0 rule");
  ASSERT_EQ(placed->fallbacks().size(), 1u);
  EXPECT_TRUE(placed->fallbacks()[0].by_rule);
  EXPECT_EQ(placed->coverage()[0].nodes, 3) << "what the rule matched, whoever has it now";
}

TEST(PlaceBudget, WhatIsRefusedIsNotCharged) {
  // A node without a kernel, and one that is too large, leave nothing behind: the next one fits exactly.
  ChainGraph c;
  c.Add("conv", "", "Relu").attributes["prepack"] = int64_t{700};
  c.Add("softmax", "", "Softmax").attributes["prepack"] = int64_t{100};
  c.Finish();
  auto p = Placing::GpuAndHost();
  p.options.Set("session.resource_partitioning_settings", "gpu:764");
  const auto placed = p.Place(*c.g);
  EXPECT_EQ(placed->devices()[0].nodes, 1);
  EXPECT_EQ(placed->devices()[0].consumed_bytes, 764);
  EXPECT_EQ(placed->ledger().Find({c.g.get(), 1})->device, 1u);
  EXPECT_EQ(placed->ledger().Find({c.g.get(), 0})->prepack, 700);
}

TEST(PlaceBudget, RulesAndBudgetsTogether) {
  // The rule says who may be offered the node, the budget refuses; an earlier device is not asked again
  // unless nobody else takes it.
  ChainGraph c;
  for (int i = 0; i < 4; ++i) c.Add("layers." + std::to_string(i) + "/x").attributes["prepack"] = int64_t{36};
  c.Finish();
  auto p = Placing::GpuAndHost(2);
  p.options.Set("session.name_based_layer_assignment", "gpu:0(layers.)");
  p.options.Set("session.resource_partitioning_settings", "gpu:0:200");
  const auto placed = p.Place(*c.g);
  EXPECT_EQ(Where(*placed, "layers.1/x"), "gpux:0 rule");
  EXPECT_EQ(Where(*placed, "layers.2/x"), "gpux:1 budget");
  ASSERT_EQ(placed->warnings().size(), 1u) << "a rule's node that went elsewhere is told";
  p.options.Set("session.strict", "1");
  EXPECT_EQ(CodeOf(p, *c.g), Code::kDoesNotFit);
}

}  // namespace
}  // namespace ullage::placement
