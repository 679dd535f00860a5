// Patches: provenance, names, the mutation log, removal of dead nodes.
#include "graph/patch.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace ullage::graph {
namespace {

using Ids = std::vector<NodeId>;
using Names = std::vector<std::string>;

/// x -> first a -> second b -> third c, an unused node beside them
struct Chain {
  Graph g;
  ValueId x, a, b, c, unused;
  Chain() {
    g.opsets[""] = 21;
    g.opsets["com.microsoft"] = 1;
    x = g.AddInput("x", DType::kFloat, std::nullopt);
    a = g.AddValue("a");
    b = g.AddValue("b");
    c = g.AddValue("c");
    unused = g.AddValue("unused");
    g.AddNode("", "A", "/layers.0/first", {x}, {a});
    g.AddNode("", "B", "/layers.0/second", {a}, {b});
    g.AddNode("", "C", "/layers.1/third", {b}, {c});
    g.AddNode("", "D", "dead", {b}, {unused});
    g.outputs = {c};
    g.node(1).annotation = "layer.0";
    g.node(2).annotation = "layer.1";
    g.node(0).metadata["namespace"] = "zero";
    g.node(1).metadata["namespace"] = "one";
    g.node(1).metadata["only"] = "here";
  }
};

TEST(Patch, ANodeStandsForThoseItReplaces) {
  Chain t;
  {
    Patch patch(t.g, "fuse");
    patch.Remove(0);
    patch.Remove(1);
    const Node& fused = patch.Add("com.microsoft", "Fused", "fused", {t.x}, {t.b}, {0, 1});
    EXPECT_EQ(fused.name, "/layers.0/first/fused");
    EXPECT_EQ(fused.opset, 1);
    EXPECT_EQ(fused.provenance, (Names{"/layers.0/first", "/layers.0/second"}));
    EXPECT_EQ(fused.annotation, "layer.0");
    EXPECT_EQ(fused.metadata.at("namespace"), "zero");
    EXPECT_EQ(fused.metadata.at("only"), "here");
  }
  Verify(t.g);
  ASSERT_EQ(t.g.log.size(), 1u);
  EXPECT_EQ(t.g.log[0].pass, "fuse");
  EXPECT_EQ(t.g.log[0].removed, (Ids{0, 1}));
  EXPECT_EQ(t.g.log[0].added, (Ids{4}));
  // A second fusion hands all names on, each once.
  Patch again(t.g, "fuse-more");
  again.Remove(4);
  again.Remove(2);
  const Node& all = again.Add("", "All", "", {t.x}, {t.c}, {4, 2, 1});
  EXPECT_EQ(all.provenance, (Names{"/layers.0/first", "/layers.0/second", "/layers.1/third"}));
  EXPECT_EQ(all.name.rfind("/layers.0/first/fused", 0), 0u);
  EXPECT_NE(all.name, "/layers.0/first/fused");  // names are never used twice
  again.Commit();
  again.Commit();
  EXPECT_EQ(t.g.log.size(), 2u);
}

TEST(Patch, NothingDoneIsNothingLogged) {
  Chain t;
  {
    Patch patch(t.g, "idle");
    patch.SetInput(t.g.node(1), 0, t.x);
  }
  EXPECT_TRUE(t.g.log.empty());
}

TEST(Patch, ANodeMustStandForSomething) {
  Chain t;
  Patch patch(t.g, "loose");
  EXPECT_THROW(patch.Add("", "X", "x", {t.x}, {}, {}), Error);
}

TEST(Patch, AnOutputMustBeReleasedFirst) {
  Chain t;
  Patch patch(t.g, "hasty");
  EXPECT_THROW(patch.Add("", "X", "x", {t.x}, {t.b}, {1}), Error);
}

TEST(Patch, NewValuesAndConstants) {
  Chain t;
  Patch patch(t.g, "grow");
  const ValueId v = patch.NewValue("a", DType::kFloat16);
  EXPECT_EQ(t.g.value(v).name, "a_1");
  EXPECT_EQ(t.g.value(v).dtype, DType::kFloat16);
  const ValueId c = patch.NewConstant("k", MakeInts({}, std::vector<int64_t>{3}));
  EXPECT_EQ(t.g.ConstantOf(c)->AsInts(), std::vector<int64_t>{3});
  patch.ReplaceUses(t.b, c);
  EXPECT_EQ(t.g.node(2).inputs, std::vector<ValueId>{c});
}

TEST(RemoveDeadNodes, FollowsChainsUpAndKeepsOutputs) {
  Chain t;
  EXPECT_EQ(RemoveDeadNodes(t.g), 1u);
  EXPECT_FALSE(t.g.node(3).alive);
  EXPECT_EQ(RemoveDeadNodes(t.g), 0u);
  t.g.outputs = {t.a};
  EXPECT_EQ(RemoveDeadNodes(t.g), 2u);
  EXPECT_EQ(t.g.LiveNodes(), 1u);
  Verify(t.g);
}

}  // namespace
}  // namespace ullage::graph
