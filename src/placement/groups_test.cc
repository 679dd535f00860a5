#include "placement/groups.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "placement/test_graph.h"

namespace ullage::placement {
namespace {

using namespace test;  // NOLINT

/// A graph of nodes that are named as the value they make.
struct Nodes {
  std::shared_ptr<Graph> g = std::make_shared<Graph>();

  Nodes() { g->opsets = {{"", 21}}; }
  ValueId Input(const std::string& name) {
    return g->AddInput(name, DType::kFloat, graph::DeclaredShape{{-1, "n"}});
  }
  ValueId Add(const std::string& op, const std::string& name, std::vector<ValueId> in) {
    const ValueId v = g->AddValue(name, DType::kFloat);
    g->AddNode("", op, name, std::move(in), {v});
    return v;
  }
  NodeId At(const std::string& name) const { return Named(*g, name); }
  providers::Group Group(std::initializer_list<const char*> names) const {
    providers::Group group;
    for (const char* name : names) group.nodes.push_back(At(name));
    return group;
  }
  /// Why these are no group; "" for one.
  std::string WhyNot(std::initializer_list<const char*> names, std::vector<NodeGroup> groups = {}) const {
    auto group = Group(names);
    return FindBorders(*g, groups, &group).value_or("");
  }
};

TEST(Groups, BordersAreWhatIsReadAndWhatIsReadElsewhere) {
  Nodes n;
  const ValueId x = n.Input("x"), y = n.Input("y");
  const ValueId a = n.Add("Add", "a", {x, y}), b = n.Add("Mul", "b", {a, x}), c = n.Add("Relu", "c", {b}),
                d = n.Add("Neg", "d", {a});
  const ValueId size = n.Add("Size", "size", {b});
  n.g->outputs = {c, d, size};
  auto group = n.Group({"a", "b", "c"});
  ASSERT_EQ(FindBorders(*n.g, {}, &group), std::nullopt);
  EXPECT_EQ(group.inputs, (std::vector<ValueId>{x, y}));
  EXPECT_EQ(group.input_on_host, (std::vector<bool>{false, false}));
  EXPECT_EQ(group.outputs, (std::vector<ValueId>{a, c}));  // of b somebody wants the size only
  group = n.Group({"b"});
  ASSERT_EQ(FindBorders(*n.g, {}, &group), std::nullopt);
  EXPECT_EQ(group.inputs, (std::vector<ValueId>{a, x}));
}

TEST(Groups, ContentsThatDecideShapesComeFromTheHost) {
  Nodes n;
  const ValueId x = n.Input("x"), shape = n.Input("shape");
  const ValueId a = n.Add("Relu", "a", {x}), b = n.Add("Reshape", "b", {a, shape});
  const ValueId s = n.Add("Abs", "s", {shape}), c = n.Add("Reshape", "c", {b, s});
  n.g->outputs = {c};
  auto group = n.Group({"a", "b"});
  ASSERT_EQ(FindBorders(*n.g, {}, &group), std::nullopt);
  EXPECT_EQ(group.input_on_host, (std::vector<bool>{false, true}));
  EXPECT_NE(n.WhyNot({"b", "s", "c"}).find("decides the shape of node c"), std::string::npos);
}

TEST(Groups, NobodyStandsBetween) {
  Nodes n;
  const ValueId x = n.Input("x");
  const ValueId a = n.Add("Relu", "a", {x}), b = n.Add("Neg", "b", {a}), c = n.Add("Abs", "c", {b}),
                d = n.Add("Add", "d", {a, c});
  n.g->outputs = {d};
  EXPECT_NE(n.WhyNot({"a", "d"}).find("node c stands between"), std::string::npos);
  EXPECT_NE(n.WhyNot({"a", "b", "d"}).find("node c stands between"), std::string::npos);
  EXPECT_EQ(n.WhyNot({"a", "b", "c", "d"}), "");
  EXPECT_EQ(n.WhyNot({"b", "c"}), "");
}

TEST(Groups, GroupsDoNotNeedEachOther) {
  Nodes n;  // two chains, crossed
  const ValueId x = n.Input("x"), y = n.Input("y");
  const ValueId a1 = n.Add("Relu", "a1", {x}), b2 = n.Add("Neg", "b2", {y});
  const ValueId b1 = n.Add("Add", "b1", {a1, y}), a2 = n.Add("Add", "a2", {b2, x});
  n.g->outputs = {b1, a2};
  const NodeGroup first{n.g.get(), 0, 1, n.Group({"a1", "a2"})};
  EXPECT_EQ(n.WhyNot({"b1", "b2"}), "");
  EXPECT_NE(n.WhyNot({"b1", "b2"}, {first}).find("stands between"), std::string::npos);
  const NodeGroup second{n.g.get(), 0, 2, n.Group({"b1", "b2"})};
  EXPECT_ANY_THROW(GroupedOrder(*n.g, std::vector{first, second}));
}

TEST(Groups, WhatRunsByItselfIsInNone) {
  Nodes n;
  const ValueId x = n.Input("x");
  const ValueId a = n.Add("Relu", "a", {x}), b = n.Add("RandomNormalLike", "b", {a}),
                c = n.Add("Abs", "c", {b}), d = n.Add("NoSuchOperator", "d", {c}), e = n.Add("Abs", "e", {a});
  n.g->outputs = {d};
  EXPECT_NE(n.WhyNot({"a", "b"}).find("node b"), std::string::npos);
  EXPECT_NE(n.WhyNot({"c", "d"}).find("nobody knows the shapes"), std::string::npos);
  EXPECT_NE(n.WhyNot({"e"}).find("nobody reads"), std::string::npos);
  (void)e;
}

TEST(Groups, OrderKeepsGroupsTogether) {
  Nodes n;
  const ValueId x = n.Input("x");
  const ValueId a = n.Add("Relu", "a", {x}), b = n.Add("Neg", "b", {x}), c = n.Add("Abs", "c", {a}),
                d = n.Add("Exp", "d", {a}), e = n.Add("Add", "e", {c, b}), f = n.Add("Log", "f", {d});
  n.g->outputs = {e, f};
  const auto names = [&](std::span<const NodeGroup> groups) {
    std::string text;
    for (NodeId id : GroupedOrder(*n.g, groups)) text += n.g->node(id).name;
    return text;
  };
  EXPECT_EQ(names({}), "abcdef");
  // The group comes when its last node would have; what needs one of its results waits.
  EXPECT_EQ(names(std::vector<NodeGroup>{{n.g.get(), 0, 1, n.Group({"a", "c", "e"})}}), "bacedf");
  EXPECT_EQ(names(std::vector<NodeGroup>{{n.g.get(), 0, 1, n.Group({"a", "c"})},
                                         {n.g.get(), 0, 2, n.Group({"d", "f"})}}),
            "bacedf");
}

}  // namespace
}  // namespace ullage::placement
