#include "placement/ledger.h"

#include <gtest/gtest.h>

#include <random>

#include "placement/test_graph.h"

namespace ullage::placement {
namespace {

using namespace test;  // NOLINT

NodeCost Cost(int64_t workspace, int64_t prepack = 0) {
  NodeCost cost;
  cost.workspace = workspace;
  cost.prepack = prepack;
  cost.source = CostSource::kEstimator;
  return cost;
}

struct Reserved {
  ChainGraph c;
  Graph* g = nullptr;
  ReservationLedger ledger;

  explicit Reserved(int nodes) {
    for (int i = 0; i < nodes; ++i) c.Add("n" + std::to_string(i));
    g = &c.Finish();
    for (NodeId i = 0; i < nodes; ++i) ledger.Reserve({g, i}, 0, Cost(100 * (i + 1)));
  }
};

TEST(Ledger, FusionTakesWhatItReplaces) {
  Reserved r(3);
  graph::Patch patch(*r.g, "fuse");
  const ValueId out = r.g->node(1).outputs[0];
  patch.Remove(0);
  patch.Remove(1);
  const NodeId fused = patch.Add("", "Relu", "F", {r.g->inputs[0]}, {out}, {0, 1}).id;
  patch.Commit();
  EXPECT_EQ(r.ledger.Sync(), 0);
  ASSERT_NE(r.ledger.Find({r.g, fused}), nullptr);
  EXPECT_EQ(r.ledger.Find({r.g, fused})->workspace, 300);
  EXPECT_EQ(r.ledger.Find({r.g, 0}), nullptr);
  EXPECT_EQ(r.ledger.size(), 2u);
  EXPECT_EQ(r.ledger.WorkspaceBytes(), 600);
}

TEST(Ledger, SplitNodesShare) {
  Reserved r(1);
  graph::Patch patch(*r.g, "split");
  const ValueId out = r.g->node(0).outputs[0], between = r.g->AddValue("between", DType::kFloat);
  patch.Remove(0);
  const NodeId first = patch.Add("", "Relu", "1", {r.g->inputs[0]}, {between}, {0}).id;
  const NodeId second = patch.Add("", "Relu", "2", {between}, {out}, {0}).id;
  patch.Commit();
  r.ledger.Sync();
  EXPECT_EQ(r.ledger.Find({r.g, first}), r.ledger.Find({r.g, second}));
  const auto fits = r.ledger.Verify({{{r.g, first}, 60}, {{r.g, second}, 40}});
  EXPECT_EQ(fits.equal, 1);
  EXPECT_TRUE(fits.larger.empty());
  const auto excess = r.ledger.Verify({{{r.g, first}, 60}, {{r.g, second}, 41}});
  ASSERT_EQ(excess.larger.size(), 1u);
  EXPECT_EQ(excess.larger[0].declared, 101);
  EXPECT_EQ(excess.larger[0].reserved, 100);
}

TEST(Ledger, EliminatedNodesGiveBack) {
  Reserved r(2);
  graph::Patch patch(*r.g, "eliminate");
  patch.ReplaceUses(r.g->node(0).outputs[0], r.g->inputs[0]);
  patch.Remove(0);
  patch.Commit();
  EXPECT_EQ(r.ledger.Sync(), 100);
  EXPECT_EQ(r.ledger.size(), 1u);
  EXPECT_EQ(r.ledger.Sync(), 0) << "once";
}

TEST(Ledger, ChangesBeforeTheFirstGrantDoNotCount) {
  ChainGraph c;
  c.Add("a");
  c.Add("b");
  Graph& g = c.Finish();
  {
    graph::Patch patch(g, "early");
    patch.ReplaceUses(g.node(0).outputs[0], g.inputs[0]);
    patch.Remove(0);
  }
  ReservationLedger ledger;
  ledger.Reserve({&g, 1}, 0, Cost(5));
  EXPECT_EQ(ledger.Sync(), 0);
  EXPECT_EQ(ledger.size(), 1u);
}

TEST(Ledger, Verification) {
  Reserved r(4);
  r.c.g->AddNode("", "Relu", "new", {r.g->inputs[0]}, {r.g->AddValue("v")});
  const auto v = r.ledger.Verify({{{r.g, 0}, 100},           // equal
                                  {{r.g, 1}, 150},           // smaller than 200
                                  {{r.g, 2}, 301},           // more than 300
                                  {{r.g, 3}, std::nullopt},  // cannot say
                                  {{r.g, 4}, 7}});           // was granted nothing
  EXPECT_EQ(v.equal, 1);
  EXPECT_EQ(v.smaller, 1);
  ASSERT_EQ(v.larger.size(), 1u);
  EXPECT_EQ(v.larger[0].nodes, "n2");
  EXPECT_EQ(v.missing_declarations, 1);
  EXPECT_EQ(v.missing_reservations, 1);
  EXPECT_EQ(v.orphans, 0);
  EXPECT_EQ(v.reserved_bytes, 1000);
  EXPECT_EQ(v.declared_bytes, 100 + 150 + 301 + 7);
}

/// Any sequence of fusions, splits, replacements and removals: every reservation keeps a living node, and no
/// byte is lost or made.
TEST(Ledger, NoOrphansWhateverIsRewritten) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    Reserved r(12);
    int64_t total = r.ledger.WorkspaceBytes();
    for (int change = 0; change < 10; ++change) {
      const auto order = r.g->Order();
      if (order.size() < 2) break;
      graph::Patch patch(*r.g, "random");
      const size_t at = random() % (order.size() - 1);
      const Node &first = r.g->node(order[at]), &second = r.g->node(order[at + 1]);
      const ValueId in = first.inputs[0], middle = first.outputs[0], out = second.outputs[0];
      switch (random() % 4) {
        case 0:  // two become one
          patch.Remove(order[at]);
          patch.Remove(order[at + 1]);
          patch.Add("", "Relu", "f", {in}, {out}, {order[at], order[at + 1]});
          break;
        case 1: {  // one becomes two
          patch.Remove(order[at]);
          const ValueId v = patch.NewValue("v", DType::kFloat);
          patch.Add("", "Relu", "s", {in}, {v}, {order[at]});
          patch.Add("", "Relu", "s", {v}, {middle}, {order[at]});
          break;
        }
        case 2:  // one goes
          patch.ReplaceUses(middle, in);
          patch.Remove(order[at]);
          break;
        case 3: {  // one comes and goes within a change
          const ValueId v = patch.NewValue("v", DType::kFloat);
          const NodeId added = patch.Add("", "Relu", "t", {in}, {v}, {order[at]}).id;
          patch.Remove(added);
          break;
        }
      }
      patch.Commit();
      if (random() % 2) total -= r.ledger.Sync();
    }
    total -= r.ledger.Sync();
    graph::Verify(*r.g);
    EXPECT_EQ(r.ledger.WorkspaceBytes(), total);
    std::map<NodeRef, std::optional<int64_t>> declared;
    for (NodeId id : r.g->Order()) declared[{r.g, id}] = 0;
    const auto v = r.ledger.Verify(declared);
    EXPECT_EQ(v.orphans, 0);
    for (NodeId id : r.g->Order()) EXPECT_NE(r.ledger.Find({r.g, id}), nullptr) << r.g->node(id).name;
  }
}

/// Everything fused into one node: it has all that was granted.
TEST(Ledger, EverythingFused) {
  Reserved r(20);
  while (r.g->LiveNodes() > 1) {
    const auto order = r.g->Order();
    graph::Patch patch(*r.g, "fuse");
    const ValueId in = r.g->node(order[0]).inputs[0], out = r.g->node(order[1]).outputs[0];
    patch.Remove(order[0]);
    patch.Remove(order[1]);
    patch.Add("", "Relu", "", {in}, {out}, {order[0], order[1]});
  }
  EXPECT_EQ(r.ledger.Sync(), 0);
  EXPECT_EQ(r.ledger.size(), 1u);
  EXPECT_EQ(r.ledger.Find({r.g, r.g->Order()[0]})->workspace, 100 * 20 * 21 / 2);
}

}  // namespace
}  // namespace ullage::placement
