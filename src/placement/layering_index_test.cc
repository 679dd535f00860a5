#include "placement/layering_index.h"

#include <gtest/gtest.h>

#include "placement/test_graph.h"

namespace ullage::placement {
namespace {

using namespace test;  // NOLINT
using R = std::optional<size_t>;
using Source = LayeringIndex::Source;

const std::vector<DeviceInfo> kTwo = {Device("DeviceA"), Device("DeviceB"), Device("cpu", DeviceType::kCpu)};

TEST(LayeringIndex, Chain) {
  ChainGraph c;
  c.Add("a", "RuleA");
  c.Add("n");
  c.Add("b", "RuleB");
  const Graph& g = c.Finish();
  const auto index = Index(RuleMode::kAnnotation, "DeviceA(RuleA); DeviceB(RuleB)", kTwo, g);
  EXPECT_EQ(index.RuleOf(g, Named(g, "a")), R(0));
  EXPECT_EQ(index.RuleOf(g, Named(g, "n")), R());
  EXPECT_EQ(index.RuleOf(g, Named(g, "b")), R(1));
}

TEST(LayeringIndex, RuleWithoutDeviceLeavesItsNodes) {
  ChainGraph c;
  c.Add("a", "RuleA");
  c.AddIf("i", "RuleA", "");
  const Graph& g = c.Finish();
  const auto index = Index(RuleMode::kAnnotation, "Nowhere(RuleA)", kTwo, g);
  EXPECT_EQ(index.RuleOf(g, Named(g, "a")), R());
  const NodeId i = Named(g, "i");
  const Graph& body = *g.node(i).Subgraph("then_branch");
  EXPECT_EQ(index.RuleOf(body, body.Order()[0]), R());
}

TEST(LayeringIndex, BodiesInherit) {
  ChainGraph c;
  c.AddIf("i", "RuleA", "");
  c.AddIf("j", "RuleA", "RuleB");
  c.AddIf("k", "RuleA", "no rule of this name");
  const Graph& g = c.Finish();
  const auto index = Index(RuleMode::kAnnotation, "DeviceA(=RuleA); DeviceB(RuleB)", kTwo, g);
  const auto in_body = [&](const char* name) {
    const Graph& body = *g.node(Named(g, name)).Subgraph("else_branch");
    return index.RuleOf(body, body.Order()[0]);
  };
  EXPECT_EQ(in_body("i"), R(0));
  EXPECT_EQ(in_body("j"), R(1));
  EXPECT_EQ(in_body("k"), R(0));
}

TEST(LayeringIndex, NestedBodiesInheritTheEffectiveRule) {
  ChainGraph c;
  Node& outer = c.AddIf("outer", "RuleA", "");
  ChainGraph inner;
  inner.AddIf("inner", "", "");
  outer.attributes["then_branch"] = inner.g;
  inner.g->outputs = {inner.last};
  c.g->outputs = {c.last};
  const auto index = Index(RuleMode::kAnnotation, "DeviceA(RuleA)", kTwo, *c.g);
  const Graph& innermost = *inner.g->node(Named(*inner.g, "inner")).Subgraph("then_branch");
  EXPECT_EQ(index.RuleOf(innermost, innermost.Order()[0]), R(0));
}

TEST(LayeringIndex, NamesDoNotInherit) {
  ChainGraph c;
  c.AddIf("/layers.0/If", "", "");
  const Graph& g = c.Finish();
  const auto index = Index(RuleMode::kName, "DeviceA(layers.0/); DeviceB(else_branch)", kTwo, g);
  const Node& node = g.node(Named(g, "/layers.0/If"));
  EXPECT_EQ(index.RuleOf(g, node.id), R(0));
  const Graph& then_body = *node.Subgraph("then_branch");
  const Graph& else_body = *node.Subgraph("else_branch");
  EXPECT_EQ(index.RuleOf(then_body, then_body.Order()[0]), R());
  EXPECT_EQ(index.RuleOf(else_body, else_body.Order()[0]), R(1));
}

TEST(LayeringIndex, AnnotatedLater) {
  ChainGraph c;
  c.Add("a");
  Graph& g = c.Finish();
  auto index = Index(RuleMode::kAnnotation, "DeviceA(RuleA)", kTwo, g);
  EXPECT_EQ(index.RuleOf(g, 0), R());
  g.node(0).annotation = "RuleA";
  index.Update(g, {0});
  EXPECT_EQ(index.RuleOf(g, 0), R(0));
  g.node(0).annotation = "gone";
  index.Update(g, {0});
  EXPECT_EQ(index.RuleOf(g, 0), R()) << "a node that matches no more keeps no old rule";
}

TEST(LayeringIndex, UpdateReachesIntoBodies) {
  ChainGraph c;
  c.AddIf("i", "", "");
  Graph& g = c.Finish();
  auto index = Index(RuleMode::kAnnotation, "DeviceA(RuleA)", kTwo, g);
  const NodeId i = Named(g, "i");
  const Graph& body = *g.node(i).Subgraph("then_branch");
  EXPECT_EQ(index.RuleOf(body, 0), R());
  g.node(i).annotation = "RuleA";
  index.Update(g, {i});
  EXPECT_EQ(index.RuleOf(body, 0), R(0));
}

TEST(LayeringIndex, ReleasedNodesAreFreeAndRulesStay) {
  ChainGraph c;
  c.Add("a", "RuleA1");
  c.Add("b", "RuleA2");
  Graph& g = c.Finish();
  auto index = Index(RuleMode::kAnnotation, "DeviceA(RuleA)", kTwo, g);
  index.Release(g, {0, 1});
  EXPECT_EQ(index.View(g, 1), (std::vector<NodeId>{0, 1}));
  EXPECT_EQ(index.devices()[0], R(0));
  graph::Patch patch(g, "layout");
  const NodeId added = patch.Add("", "Identity", "new", {g.node(1).outputs[0]}, {g.AddValue("n")}, {1}).id;
  patch.Commit();
  index.Sync(g);
  EXPECT_EQ(index.RuleOf(g, added), R(0));
  EXPECT_EQ(index.RuleOf(g, 0), R());
}

TEST(LayeringIndex, ViewsOfDevices) {
  ChainGraph c;
  c.Add("a", "RuleA");
  c.Add("n");
  c.Add("b", "RuleB");
  c.Add("m");
  c.Add("a2", "RuleC");
  const Graph& g = c.Finish();
  const auto index = Index(RuleMode::kAnnotation, "DeviceA(RuleA); DeviceB(RuleB); DeviceA(RuleC)", kTwo, g);
  EXPECT_EQ(index.View(g, 0), (std::vector<NodeId>{0, 1, 3, 4}));  // two rules and the rule-less
  EXPECT_EQ(index.View(g, 1), (std::vector<NodeId>{1, 2, 3}));
  EXPECT_EQ(index.View(g, 2), (std::vector<NodeId>{1, 3}));  // owns no rule
}

TEST(LayeringIndex, NewNodesFollowTheMutationLog) {
  ChainGraph c;
  c.Add("a", "RuleA");
  c.Add("n");
  c.Add("b", "RuleB");
  Graph& g = c.Finish();
  auto index = Index(RuleMode::kAnnotation, "DeviceA(RuleA); DeviceB(RuleB)", kTwo, g);
  graph::Patch patch(g, "layout");
  const auto after = [&](NodeId id) {
    return patch.Add("", "Identity", "t", {g.node(id).outputs[0]}, {g.AddValue("t")}, {id}).id;
  };
  const NodeId a = after(0), n = after(1), b = after(2);
  patch.Commit();
  index.Sync(g);
  EXPECT_EQ(index.RuleOf(g, a), R(0));
  EXPECT_EQ(index.RuleOf(g, n), R());
  EXPECT_EQ(index.RuleOf(g, b), R(1));
}

TEST(LayeringIndex, FusedNodesCarryTheirRules) {
  ChainGraph c;
  c.Add("/model/layers.0/mlp/Mul");
  c.Add("/model/layers.1/norm/Pow");
  Graph& g = c.Finish();
  auto names = Index(RuleMode::kName, "DeviceB(layers.1/)", kTwo, g);
  auto generic = Index(RuleMode::kName, "DeviceA(layers.0/); DeviceB(Pow)", kTwo, g);
  graph::Patch patch(g, "fuse");
  patch.Remove(0);
  patch.Remove(1);
  Node& fused = patch.Add("ullage", "Fused", "Fused", {g.inputs[0]}, {c.last}, {0, 1});
  patch.Commit();
  names.Sync(g);
  EXPECT_EQ(names.RuleOf(g, 0), R());
  EXPECT_EQ(names.RuleOf(g, fused.id), R(0)) << "found by the second node it came from";
  EXPECT_EQ(names.Find(g, fused.id)->source, Source::kProvenance);
  generic.Sync(g);
  EXPECT_EQ(generic.RuleOf(g, fused.id), R(0)) << "its own name comes first";
  EXPECT_EQ(generic.Find(g, fused.id)->source, Source::kName);
}

TEST(LayeringIndex, FusedNodesRememberEveryAnnotation) {
  ChainGraph c;
  c.Add("a", "unruled");
  c.Add("b", "RuleB");
  Graph& g = c.Finish();
  auto index = Index(RuleMode::kAnnotation, "DeviceB(RuleB)", kTwo, g);
  graph::Patch patch(g, "fuse");
  patch.Remove(0);
  patch.Remove(1);
  const NodeId fused = patch.Add("ullage", "Fused", "F", {g.inputs[0]}, {c.last}, {0, 1}).id;
  patch.Commit();
  EXPECT_EQ(g.node(fused).annotation, "unruled");
  index.Sync(g);
  EXPECT_EQ(index.RuleOf(g, fused), R(0));
}

TEST(LayeringIndex, NumbersCutByPatternsAreMarked) {
  ChainGraph c;
  c.Add("/layers.1/x");
  c.Add("/layers.10/x");
  const Graph& g = c.Finish();
  const auto index = Index(RuleMode::kName, "DeviceA(layers.1)", kTwo, g);
  EXPECT_FALSE(index.Find(g, 0)->cuts_number);
  EXPECT_TRUE(index.Find(g, 1)->cuts_number);
}

TEST(LayeringIndex, FinalNormGoesWithTheOutput) {
  ChainGraph c;
  const ValueId w = c.Weight("w", {4, 4}), v = c.Weight("v", {4});
  for (const char* layer : {"0", "1"}) {
    c.Add(std::string("/model/layers.") + layer + "/input_layernorm/LayerNorm", "", "LayerNormalization",
          {v});
    c.Add(std::string("/model/layers.") + layer + "/mlp/MatMul", "", "MatMul", {w});
  }
  c.Add("/model/layers.2/final_norm_layernorm/LayerNorm", "", "LayerNormalization", {v});
  c.Add("/lm_head/MatMul", "", "MatMul", {c.Weight("head", {4, 4})});
  const Graph& g = c.Finish();
  const NodeId norm = Named(g, "/model/layers.2/final_norm_layernorm/LayerNorm");
  const auto index = Index(RuleMode::kName, "DeviceA(layers.[0-9]/); DeviceB(lm_head)", kTwo, g);
  EXPECT_EQ(index.layers(g).layers(), 2);
  EXPECT_EQ(index.layers(g).layer(norm), -1);
  EXPECT_EQ(index.RuleOf(g, norm), R(1));
  EXPECT_EQ(index.Find(g, norm)->source, Source::kOutput);
  EXPECT_EQ(index.RuleOf(g, Named(g, "/model/layers.1/mlp/MatMul")), R(0));
  const auto no_head = Index(RuleMode::kName, "DeviceA(layers.[0-9]/)", kTwo, g);
  EXPECT_EQ(no_head.RuleOf(g, norm), R());
  const auto by_name = Index(RuleMode::kName, "DeviceA(final_norm); DeviceB(lm_head)", kTwo, g);
  EXPECT_EQ(by_name.RuleOf(g, norm), R(0));
}

}  // namespace
}  // namespace ullage::placement
