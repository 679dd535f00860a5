// The graph: names, uses, order, captures, constants.
#include "graph/graph.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "core/error.h"

namespace ullage::graph {
namespace {

using Ids = std::vector<NodeId>;
using Names = std::vector<std::string>;

std::string ErrorOf(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

/// x -> Relu a -> Add(a, a) b
struct Small {
  Graph g;
  ValueId x, a, b;
  Small() {
    g.name = "small";
    g.opsets[""] = 21;
    x = g.AddInput("x", DType::kFloat, DeclaredShape{{2, ""}, {-1, "N"}});
    a = g.AddValue("a");
    b = g.AddValue("b");
    g.AddNode("", "Relu", "relu", {x}, {a});
    g.AddNode("", "Add", "add", {a, a}, {b});
    g.outputs = {b};
  }
};

TEST(Graph, NamesAreUnique) {
  Graph g;
  EXPECT_EQ(g.value(g.AddValue("v")).name, "v");
  EXPECT_EQ(g.value(g.AddValue("v")).name, "v_1");
  EXPECT_EQ(g.value(g.AddValue("v_2")).name, "v_2");
  EXPECT_EQ(g.value(g.AddValue("v")).name, "v_3");
  EXPECT_FALSE(g.value(g.AddValue("")).name.empty());
  EXPECT_NE(g.value(g.AddValue("")).name, g.value(g.AddValue("")).name);
  EXPECT_EQ(g.UniqueNodeName("n"), "n");
  EXPECT_EQ(g.UniqueNodeName("n"), "n_2");
  EXPECT_EQ(g.UniqueNodeName("n_3"), "n_3");
  EXPECT_EQ(g.UniqueNodeName("n"), "n_4");
  EXPECT_EQ(g.FindValue("v_2"), 2);
  EXPECT_EQ(g.FindValue("nothing"), kNone);
}

TEST(Graph, ManyEqualNamesTakeLinearTime) {
  Graph g;
  for (int i = 0; i < 50000; ++i) g.AddValue("same");
  EXPECT_EQ(g.value_count(), 50000u);
  EXPECT_EQ(g.value(49999).name, "same_49999");
}

TEST(Graph, ProducersConsumersAndProvenance) {
  Small s;
  EXPECT_EQ(s.g.ProducerOf(s.a)->name, "relu");
  EXPECT_EQ(s.g.ProducerOf(s.x), nullptr);
  EXPECT_EQ(s.g.ProducerOf(kNone), nullptr);
  EXPECT_EQ(s.g.value(s.a).consumers, (Ids{1, 1}));  // one entry per use
  EXPECT_EQ(s.g.node(0).provenance, Names{"relu"});
  EXPECT_EQ(s.g.node(0).opset, 21);
  EXPECT_TRUE(s.g.IsOutput(s.b));
  const ValueId c = s.g.AddValue("c");
  EXPECT_EQ(s.g.AddNode("", "Neg", "", {s.b}, {kNone, c}).name, "c");
  EXPECT_EQ(s.g.AddNode("x.y", "Sink", "", {c}, {}).name, "Sink");
  EXPECT_EQ(s.g.node(3).OpName(), "x.y:Sink");
  Verify(s.g);
}

TEST(Graph, AValueHasOneProducer) {
  Small s;
  EXPECT_NE(ErrorOf([&] { s.g.AddNode("", "Neg", "n", {s.x}, {s.a}); }).find("a is produced twice"),
            std::string::npos);
  Small t;
  EXPECT_NE(ErrorOf([&] { t.g.AddNode("", "Neg", "n", {t.a}, {t.x}); }).find("a graph input"),
            std::string::npos);
  Small u;
  const ValueId c = u.g.AddConstant("c", MakeFloats({}, std::vector<float>{1}));
  EXPECT_NE(ErrorOf([&] { u.g.AddNode("", "Neg", "n", {u.x}, {c}); }).find("an initializer"),
            std::string::npos);
  Small v;
  const ValueId d = v.g.AddValue("d");
  EXPECT_NE(ErrorOf([&] {
              v.g.AddNode("", "Split", "n", {v.x}, {d, d});
            }).find("produces value d twice"),
            std::string::npos);
}

TEST(Graph, OrderSortsAndStaysClose) {
  Graph g;
  const ValueId x = g.AddInput("x", DType::kFloat, std::nullopt);
  const ValueId a = g.AddValue("a"), b = g.AddValue("b"), c = g.AddValue("c");
  g.AddNode("", "Late", "late", {b}, {c});   // 0: needs 2
  g.AddNode("", "Free", "free", {x}, {});    // 1
  g.AddNode("", "Mid", "mid", {a, a}, {b});  // 2: needs 3
  g.AddNode("", "First", "first", {x}, {a});
  EXPECT_EQ(g.Order(), (Ids{1, 3, 2, 0}));
  g.RemoveNode(1);
  EXPECT_EQ(g.Order(), (Ids{3, 2, 0}));
  EXPECT_EQ(g.LiveNodes(), 3u);
}

TEST(Graph, ACycleIsNamed) {
  Graph g;
  g.name = "main";
  const ValueId x = g.AddInput("x", DType::kFloat, std::nullopt);
  const ValueId a = g.AddValue("a"), b = g.AddValue("b"), c = g.AddValue("c"), d = g.AddValue("d");
  g.AddNode("", "A", "before", {x}, {a});
  g.AddNode("", "B", "one", {a, c}, {b});
  g.AddNode("", "C", "two", {b}, {c});
  g.AddNode("", "D", "after", {c}, {d});
  const std::string e = ErrorOf([&] { g.Order(); });
  EXPECT_TRUE(e == "graph main has a cycle: one <- two <- one" ||
              e == "graph main has a cycle: two <- one <- two")
      << e;
}

TEST(Graph, AHugeCycleIsFoundQuicklyAndNotNamedInFull) {
  Graph g;
  constexpr int kNodes = 100000;
  std::vector<ValueId> v;
  for (int i = 0; i < kNodes; ++i) v.push_back(g.AddValue("v" + std::to_string(i)));
  for (int i = 0; i < kNodes; ++i)
    g.AddNode("", "N", "", {v[static_cast<size_t>((i + 1) % kNodes)]}, {v[static_cast<size_t>(i)]});
  const std::string e = ErrorOf([&] { g.Order(); });
  EXPECT_NE(e.find("has a cycle"), std::string::npos);
  EXPECT_LT(e.size(), 1000u);
}

TEST(Graph, ReplaceUsesMovesEveryUse) {
  Small s;
  const ValueId c = s.g.AddConstant("c", MakeFloats({}, std::vector<float>{1}));
  s.g.ReplaceUses(s.a, c);
  EXPECT_EQ(s.g.node(1).inputs, (std::vector<ValueId>{c, c}));
  EXPECT_TRUE(s.g.value(s.a).consumers.empty());
  EXPECT_EQ(s.g.value(c).consumers, (Ids{1, 1}));
  s.g.ReplaceUses(s.b, s.x);
  EXPECT_EQ(s.g.outputs, std::vector<ValueId>{s.x});
  s.g.ReplaceUses(c, c);
  EXPECT_EQ(s.g.value(c).consumers.size(), 2u);
  Verify(s.g);
}

TEST(Graph, SetInputKeepsUsesRight) {
  Small s;
  s.g.SetInput(s.g.node(1), 1, s.x);
  EXPECT_EQ(s.g.value(s.a).consumers, Ids{1});
  EXPECT_EQ(s.g.value(s.x).consumers, (Ids{0, 1}));
  s.g.SetInput(s.g.node(1), 4, s.x);
  EXPECT_EQ(s.g.node(1).inputs.size(), 5u);
  EXPECT_EQ(s.g.node(1).input(3), kNone);
  s.g.SetInput(s.g.node(1), 4, kNone);
  EXPECT_FALSE(s.g.node(1).has_input(4));
  EXPECT_FALSE(s.g.node(1).has_input(99));
  Verify(s.g);
}

/// An If whose branch reads x and w, with an If inside that reads w.
struct Nested {
  Graph g;
  std::shared_ptr<Graph> outer = std::make_shared<Graph>(), inner = std::make_shared<Graph>();
  ValueId x, w, y;
  static ValueId Captured(Graph& sub, const Graph& from, ValueId v) {
    const ValueId id = sub.AddValue(from.value(v).name);
    sub.value(id).is_input = true;
    sub.capture_values.push_back(id);
    sub.capture_names.push_back(from.value(v).name);
    return id;
  }
  Nested() {
    x = g.AddInput("x", DType::kBool, std::nullopt);
    w = g.AddConstant("w", MakeFloats({2}, std::vector<float>{1, 2}));
    const ValueId ox = Captured(*outer, g, x), ow = Captured(*outer, g, w);
    const ValueId iw = Captured(*inner, *outer, ow);
    const ValueId r = inner->AddValue("r");
    inner->AddNode("", "Neg", "neg", {iw}, {r});
    inner->outputs = {r};
    const ValueId o = outer->AddValue("o");
    Node& inner_if = outer->AddNode("", "If", "inner_if", {ox}, {o});
    inner_if.attributes.emplace("then_branch", inner);
    outer->SetCaptures(inner_if, {ow});
    outer->outputs = {o};
    y = g.AddValue("y");
    Node& outer_if = g.AddNode("", "If", "outer_if", {x}, {y});
    outer_if.attributes.emplace("then_branch", outer);
    g.SetCaptures(outer_if, {x, w});
    g.outputs = {y};
  }
};

TEST(Graph, CapturesCountAsUsesAndCarryConstantsDown) {
  Nested n;
  Verify(n.g);
  EXPECT_EQ(n.g.value(n.w).consumers, Ids{0});
  EXPECT_EQ(n.g.value(n.x).consumers, (Ids{0, 0}));
  const Value& outer_w = n.outer->value(n.outer->capture_values[1]);
  const Value& inner_w = n.inner->value(n.inner->capture_values[0]);
  EXPECT_EQ(outer_w.constant, n.g.value(n.w).constant);
  EXPECT_EQ(inner_w.constant, n.g.value(n.w).constant);
  EXPECT_EQ(inner_w.dtype, DType::kFloat);
}

TEST(Graph, ReplaceUsesReachesIntoSubgraphs) {
  Nested n;
  const ValueId other = n.g.AddConstant("other", MakeInts({}, std::vector<int64_t>{7}));
  n.g.ReplaceUses(n.w, other);
  Verify(n.g);
  EXPECT_EQ(n.g.node(0).captures, (std::vector<ValueId>{n.x, other}));
  EXPECT_EQ(n.outer->capture_names[1], "other");
  const Value& inner = n.inner->value(n.inner->capture_values[0]);
  EXPECT_EQ(inner.constant->AsInts(), std::vector<int64_t>{7});
  EXPECT_EQ(inner.dtype, DType::kInt64);
  // A value that is no constant takes the constant away again.
  n.g.ReplaceUses(other, n.x);
  EXPECT_EQ(n.inner->value(n.inner->capture_values[0]).constant, nullptr);
  Verify(n.g);
}

TEST(Graph, RemovedNodesReleaseTheirCaptures) {
  Nested n;
  n.g.RemoveNode(0);
  EXPECT_TRUE(n.g.value(n.w).consumers.empty());
  EXPECT_TRUE(n.g.value(n.x).consumers.empty());
  EXPECT_EQ(n.g.value(n.y).producer, kNone);
}

TEST(Node, AttributesHaveTypes) {
  Small s;
  Node& n = s.g.node(0);
  n.attributes["axis"] = int64_t{-1};
  n.attributes["eps"] = 0.5f;
  n.attributes["mode"] = std::string("nearest");
  n.attributes["perm"] = std::vector<int64_t>{1, 0};
  EXPECT_EQ(n.Int("axis", 3), -1);
  EXPECT_EQ(n.Int("other", 3), 3);
  EXPECT_EQ(n.RequiredInt("axis"), -1);
  EXPECT_EQ(n.Float("eps", 1), 0.5f);
  EXPECT_EQ(n.Str("mode", ""), "nearest");
  EXPECT_EQ(n.Ints("perm"), (std::vector<int64_t>{1, 0}));
  EXPECT_TRUE(n.Ints("none").empty());
  EXPECT_EQ(n.Tensor("none"), nullptr);
  EXPECT_EQ(n.Subgraph("none"), nullptr);
  EXPECT_EQ(ErrorOf([&] { n.Int("eps", 0); }), "node relu (Relu): attribute eps is not an integer");
  EXPECT_EQ(ErrorOf([&] { n.RequiredInt("k"); }), "node relu (Relu): attribute k is missing");
}

TEST(Graph, DumpIsStable) {
  Small s;
  s.g.node(0).attributes["axis"] = int64_t{1};
  s.g.node(1).annotation = "layer.0";
  EXPECT_EQ(Dump(s.g),
            "input  %x:float32[2,N]\n"
            "%a = Relu(%x) axis=1  # relu\n"
            "%b = Add(%a, %a)  # add @layer.0\n"
            "output %b\n");
  Nested n;
  EXPECT_EQ(Dump(n.g), Dump(Nested().g));
  EXPECT_NE(Dump(n.g).find("capture %w:float32"), std::string::npos);
}

TEST(Constant, ValuesOfEveryReadableType) {
  const std::vector<int64_t> ints{0, 1, -1};
  EXPECT_EQ(MakeInts({3}, ints)->AsInts(), ints);
  EXPECT_EQ(MakeInts({3}, ints, DType::kInt32)->AsInts(), ints);
  EXPECT_EQ(MakeInts({3}, ints, DType::kBool)->AsInts(), (std::vector<int64_t>{0, 1, 1}));
  EXPECT_EQ(MakeInts({3}, ints)->AsDoubles(), (std::vector<double>{0, 1, -1}));
  const auto half = MakeConstant(DType::kFloat16, {2});
  const uint16_t bits[2] = {0x3c00, 0xc000};
  std::memcpy(half.data, bits, sizeof bits);
  EXPECT_EQ(half.constant->AsDoubles(), (std::vector<double>{1, -2}));
  const auto brain = MakeConstant(DType::kBFloat16, {1});
  const uint16_t three = 0x4040;
  std::memcpy(brain.data, &three, sizeof three);
  EXPECT_EQ(brain.constant->AsDoubles(), std::vector<double>{3});
  EXPECT_NE(ErrorOf([&] { brain.constant->AsInts(); }).find("expected an integer tensor, found bfloat16"),
            std::string::npos);
  const auto nibbles = MakeConstant(DType::kInt4, {3});
  EXPECT_EQ(nibbles.constant->size_bytes, 2u);
  EXPECT_EQ(nibbles.data[0], std::byte{0});
}

TEST(Constant, AbsentAndReshaped) {
  Constant c;
  c.dtype = DType::kFloat;
  c.shape = {2};
  c.size_bytes = 8;
  c.absent = "the file is missing";
  EXPECT_FALSE(c.available());
  EXPECT_EQ(ErrorOf([&] { c.data(); }), "the file is missing");
  EXPECT_NE(ErrorOf([&] { c.AsDoubles(); }), "");
  EXPECT_NE(ErrorOf([&] { MakeInts({2}, std::vector<int64_t>{1, 2, 3}); }), "");
  EXPECT_NE(ErrorOf([&] { MakeFloats({2}, std::vector<float>{1}); }), "");
  // Blocks of a quantised format are no numbers.
  const auto blocks = std::make_shared<Constant>(*MakeConstant(DType::kUInt8, {18}).constant);
  blocks->block_type = "q4_0";
  blocks->shape = {32};
  EXPECT_NE(ErrorOf([&] { blocks->AsInts(); }).find("q4_0[32]"), std::string::npos);
  const auto a = MakeFloats({2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  const auto b = WithShape(a, {6});
  EXPECT_EQ(b->shape, Shape({6}));
  EXPECT_EQ(b->bytes, a->bytes);
  EXPECT_NE(ErrorOf([&] { WithShape(a, {5}); }), "");
}

}  // namespace
}  // namespace ullage::graph
