#include "placement/coverage.h"

#include <gtest/gtest.h>

#include "placement/test_graph.h"

namespace ullage::placement {
namespace {

using namespace test;  // NOLINT
using Kind = RuleProblem::Kind;

const std::vector<DeviceInfo> kDevices = {Device("reference", DeviceType::kGpu),
                                          Device("cpu", DeviceType::kCpu)};

/// Twelve layers of one product each; layers 3 and 4 share their weight.
ChainGraph Model() {
  ChainGraph c;
  c.Add("/model/embed_tokens/Gather");
  const ValueId shared = c.Weight("shared", {4, 4});
  for (int i = 0; i < 12; ++i) {
    const std::string layer = "/model/layers." + std::to_string(i);
    const ValueId w = i == 3 || i == 4 ? shared : c.Weight(layer, {4, 4});
    c.Add(layer + "/attn/q_proj/MatMul", "", "MatMul", {w});
  }
  c.Add("/lm_head/MatMul", "", "MatMul", {c.Weight("head", {4, 4})});
  c.Finish();
  return c;
}

std::vector<RuleProblem> Problems(const Graph& g, const std::string& text, RuleMode mode = RuleMode::kName) {
  const auto index = Index(mode, text, kDevices, g);
  return ProblemsOf(index, g, CoverageOf(index, g));
}

TEST(Coverage, CountsNodesAndBytes) {
  const ChainGraph c = Model();
  const auto index = Index(RuleMode::kName, "gpu(layers.[2-5]/); cpu(lm_head)", kDevices, *c.g);
  const auto coverage = CoverageOf(index, *c.g);
  ASSERT_EQ(coverage.size(), 2u);
  EXPECT_EQ(coverage[0].nodes, 4);
  EXPECT_EQ(coverage[0].bytes, 3 * 64) << "a buffer that two nodes read counts once";
  EXPECT_EQ(coverage[0].first_names.front(), "/model/layers.2/attn/q_proj/MatMul");
  EXPECT_EQ(coverage[0].first_names.size(), 3u);
  EXPECT_EQ(coverage[1].nodes, 1);
  EXPECT_TRUE(ProblemsOf(index, *c.g, coverage).empty());
}

TEST(Coverage, RulesThatMatchNothingNameTheNearest) {
  const ChainGraph c = Model();
  const auto problems = Problems(*c.g, "gpu(layer.[0-3]/, layers.[0-3]/, lmhead)");
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].kind, Kind::kMatchesNothing);
  EXPECT_EQ(problems[0].rule, 0u);
  EXPECT_EQ(problems[0].nearest.front(), "layers.0");
  EXPECT_EQ(problems[1].nearest.front(), "lm_head");
  EXPECT_NE(problems[1].message.find("lm_head"), std::string::npos);
}

TEST(Coverage, ShadowedRulesNameWhoHasTheirNodes) {
  const ChainGraph c = Model();
  const auto problems = Problems(*c.g, "gpu(layers.[0-11]/attn/); cpu(q_proj)");
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].kind, Kind::kShadowed);
  EXPECT_EQ(problems[0].rule, 1u);
  EXPECT_NE(problems[0].message.find("gpu(layers.[0-11]/attn/)"), std::string::npos);
}

TEST(Coverage, PatternsThatCutNumbers) {
  const ChainGraph c = Model();
  const auto problems = Problems(*c.g, "gpu(layers.1)");
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].kind, Kind::kCutsNumber);
  EXPECT_NE(problems[0].message.find("layers.10/"), std::string::npos) << problems[0].message;
  EXPECT_TRUE(Problems(*c.g, "gpu(layers.1/)").empty());
  EXPECT_TRUE(Problems(*c.g, "gpu(layers.1, layers.10, layers.11)").empty());
}

TEST(Coverage, DevicesThatAreNotThere) {
  const ChainGraph c = Model();
  const auto problems = Problems(*c.g, "npu(layers.1/)");
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].kind, Kind::kNoDevice);
}

TEST(Coverage, DevicesWithoutPatterns) {
  const ChainGraph c = Model();
  const auto problems = Problems(*c.g, "gpu(); cpu(lm_head)");
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].kind, Kind::kNoPattern);
}

TEST(Coverage, WhatWasComputedInAdvanceIsTold) {
  ChainGraph c;
  c.Add("/model/mask/Add");
  c.Add("/model/layers.0/x");
  Graph& g = c.Finish();
  graph::Patch patch(g, "fold");
  g.ReplaceUses(g.node(0).outputs[0], g.inputs[0]);
  patch.Remove(0);
  patch.Commit();
  const auto problems = Problems(g, "gpu(mask)");
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].message.find("computed in advance"), std::string::npos);
}

TEST(Coverage, AnnotationsInBodiesCount) {
  ChainGraph c;
  c.AddIf("i", "stage1", "");
  c.Add("x", "stage10");
  const Graph& g = c.Finish();
  const auto index = Index(RuleMode::kAnnotation, "gpu(=stage1); cpu(stge2)", kDevices, g);
  const auto coverage = CoverageOf(index, g);
  EXPECT_EQ(coverage[0].nodes, 3);  // the If and one node in each branch
  EXPECT_EQ(coverage[0].bytes, 2 * 64);
  const auto problems = ProblemsOf(index, g, coverage);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].nearest.front(), "stage1");
}

}  // namespace
}  // namespace ullage::placement
