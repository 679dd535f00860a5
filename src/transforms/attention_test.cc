// Rotary embedding and attention over a growing cache, as traced models spell them.
#include "transforms/test_graph.h"

namespace ullage::transforms {
namespace {

using graph::Node;
using graph::ValueId;
using test::StandsFor;
using test::TestGraph;

struct RotaryForm {
  bool split = false;       ///< Split instead of two Slices
  bool swapped = false;     ///< operands of the products the other way round
  int64_t unsqueeze = 1;    ///< axis along which the tables are spread
  int64_t first = 4;        ///< where the upper half begins
  bool negate_low = false;  ///< the wrong half is negated
};

ValueId Rotary(TestGraph& t, ValueId x, ValueId cos3, ValueId sin3, const RotaryForm& f) {
  ValueId low, high;
  if (f.split) {
    Node& split = t.Add("Split", {x}, 2);
    split.attributes["axis"] = int64_t{-1};
    split.attributes["num_outputs"] = int64_t{2};
    low = split.outputs[0];
    high = split.outputs[1];
  } else {
    low = t.Op("Slice", {x, t.Ints({0}), t.Ints({f.first}), t.Ints({3}), t.Ints({1})});
    high = t.Op("Slice", {x, t.Ints({f.first}), t.Ints({INT64_MAX}), t.Ints({3}), t.Ints({1})});
  }
  Node& turned = f.negate_low ? t.Add("Concat", {high, t.Op("Neg", {low})})
                              : t.Add("Concat", {t.Op("Neg", {high}), low});
  turned.attributes["axis"] = int64_t{-1};
  const ValueId cos = t.Op("Unsqueeze", {cos3, t.Ints({f.unsqueeze})});
  const ValueId sin = t.Op("Unsqueeze", {sin3, t.Ints({f.unsqueeze})});
  const ValueId a = t.Op("Mul", f.swapped ? std::vector<ValueId>{cos, x} : std::vector<ValueId>{x, cos});
  const ValueId b = t.Op("Mul", {turned.outputs[0], sin});
  return t.Op("Add", f.swapped ? std::vector<ValueId>{b, a} : std::vector<ValueId>{a, b});
}

TEST(Rotary, MatchesHalvesInBothForms) {
  for (const bool other : {false, true}) {
    TestGraph t;
    const ValueId x = t.Input("x", {-1, 2, -1, 8}), cos = t.Input("cos", {1, -1, 8});
    const ValueId sin = t.Op("Neg", {cos});
    const ValueId y = Rotary(t, x, cos, sin, {.split = other, .swapped = other});
    t.Output(y);
    EXPECT_EQ(t.Run(FuseRotary), 1);
    const Node* n = t.Only("ullage:ApplyRotary");
    ASSERT_NE(n, nullptr);
    EXPECT_EQ(n->inputs, (std::vector<ValueId>{x, cos, sin}));
    EXPECT_EQ(n->output(0), y);
    EXPECT_TRUE(StandsFor(*n, {"n/Neg_2", "n/Concat", "n/Mul", "n/Mul_2", "n/Add"}));
  }
}

TEST(Rotary, TakesThePartThatIsNotTurned) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, 2, -1, 12}), cos = t.Input("cos", {1, -1, 8});
  const ValueId part = t.Op("Slice", {x, t.Ints({0}), t.Ints({8}), t.Ints({3}), t.Ints({1})});
  const ValueId rest = t.Op("Slice", {x, t.Ints({8}), t.Ints({12}), t.Ints({3}), t.Ints({1})});
  Node& whole = t.Add("Concat", {Rotary(t, part, cos, t.Op("Neg", {cos}), {}), rest});
  whole.attributes["axis"] = int64_t{-1};
  const ValueId y = whole.outputs[0];
  t.Output(y);
  EXPECT_EQ(t.Run(FuseRotary), 1);
  const Node* n = t.Only("ullage:ApplyRotary");
  ASSERT_NE(n, nullptr);
  EXPECT_EQ(n->input(0), x);
  EXPECT_EQ(n->output(0), y);
  EXPECT_EQ(t.Count("Slice"), 0);
}

TEST(Rotary, RefusesNearMisses) {
  for (const RotaryForm& f :
       {RotaryForm{.unsqueeze = 2}, RotaryForm{.first = 3}, RotaryForm{.negate_low = true}}) {
    TestGraph t;
    const ValueId x = t.Input("x", {2, 8, 8, 8}), cos = t.Input("cos", {2, 8, 8});
    t.Output(Rotary(t, x, cos, t.Op("Neg", {cos}), f));
    EXPECT_EQ(t.Run(FuseRotary), 0);
  }
  TestGraph t;  // tables of another width than the heads
  const ValueId x = t.Input("x", {-1, 2, -1, 8}), cos = t.Input("cos", {1, -1, 1});
  t.Output(Rotary(t, x, cos, t.Op("Neg", {cos}), {}));
  EXPECT_EQ(t.Run(FuseRotary), 0);
}

struct AttentionForm {
  int64_t heads = 4, groups = 2;
  bool bias = true, guard = true, softcap = false, divide = false;
  bool output_probabilities = false, second_reader = false;
  int64_t axis = -2;  ///< of the concatenation
  bool mask_from_present = false;
};

struct Attention {
  TestGraph t;
  ValueId q, k, v, past_k, past_v, bias, y, present_k, present_v;

  explicit Attention(const AttentionForm& f) {
    q = t.Input("q", {-1, f.heads, -1, 8});
    k = t.Input("k", {-1, f.groups, -1, 8});
    v = t.Input("v", {-1, f.groups, -1, 8});
    past_k = t.Input("past_k", {-1, f.groups, -1, 8});
    past_v = t.Input("past_v", {-1, f.groups, -1, 8});
    bias = t.Input("bias", {-1, 1, -1, -1});
    present_k = Append(past_k, k, f.axis);
    present_v = Append(past_v, v, f.axis);
    const ValueId keys = Repeat(present_k, f), values = Repeat(present_v, f);
    Node& swap = t.Add("Transpose", {keys});
    swap.attributes["perm"] = std::vector<int64_t>{0, 1, 3, 2};
    ValueId s;
    if (f.divide) {
      s = t.Op("Div", {t.Op("MatMul", {q, swap.outputs[0]}), t.Scalar(4)});
    } else {
      s = t.Op("MatMul", {t.Op("Mul", {q, t.Scalar(0.5f)}), t.Op("Mul", {swap.outputs[0], t.Scalar(0.5f)})});
    }
    if (f.softcap) s = t.Op("Mul", {t.Op("Tanh", {t.Op("Div", {s, t.Scalar(50)})}), t.Scalar(50)});
    if (f.mask_from_present) {
      Node& sum = t.Add("ReduceSum", {present_k});
      bias = sum.outputs[0];
    }
    if (f.bias) s = t.Op("Add", {s, bias});
    ValueId p = t.Op("Softmax", {s});
    if (f.guard) p = t.Op("Where", {t.Op("IsNaN", {p}), t.Floats({0}, {1}), p});
    y = t.Op("MatMul", {p, values});
    t.Output(y);
    t.Output(present_k);
    t.Output(present_v);
    if (f.output_probabilities) t.Output(p);
    if (f.second_reader) t.Output(t.Op("Neg", {present_v}));
  }

  ValueId Append(ValueId past, ValueId added, int64_t axis) {
    Node& n = t.Add("Concat", {past, added});
    n.attributes["axis"] = axis;
    return n.outputs[0];
  }
  ValueId Repeat(ValueId cache, const AttentionForm& f) {
    if (f.heads == f.groups) return cache;
    const auto dim = [&](int64_t i) {
      return t.Op("Unsqueeze", {t.Op("Gather", {t.Op("Shape", {cache}), t.Index(i)}), t.Ints({0})});
    };
    const auto shape = [&](const std::vector<ValueId>& parts) {
      Node& n = t.Add("Concat", parts);
      n.attributes["axis"] = int64_t{0};
      return n.outputs[0];
    };
    const ValueId group = t.Ints({f.heads / f.groups});
    const ValueId wide = t.Op(
        "Expand", {t.Op("Unsqueeze", {cache, t.Ints({2})}), shape({dim(0), dim(1), group, dim(2), dim(3)})});
    return t.Op("Reshape", {wide, shape({dim(0), t.Op("Mul", {dim(1), group}), dim(2), dim(3)})});
  }
};

TEST(Attention, MatchesGroupedHeadsWithMaskAndGuard) {
  Attention a({});
  EXPECT_EQ(a.t.Run(FuseAttention), 1);
  const Node* n = a.t.Only("ullage:CachedAttention");
  ASSERT_NE(n, nullptr);
  EXPECT_EQ(n->inputs, (std::vector<ValueId>{a.q, a.k, a.v, a.past_k, a.past_v, a.bias}));
  EXPECT_EQ(n->outputs, (std::vector<ValueId>{a.y, a.present_k, a.present_v}));
  EXPECT_FLOAT_EQ(n->Float("scale", 0), 0.25f);
  EXPECT_FALSE(n->has_attr("softcap"));
  EXPECT_TRUE(StandsFor(
      *n, {"n/Concat", "n/Concat_2", "n/MatMul", "n/Softmax", "n/Where", "n/MatMul_2", "n/Expand"}));
  for (const char* gone : {"MatMul", "Softmax", "Expand", "IsNaN"}) EXPECT_EQ(a.t.Count(gone), 0) << gone;
  ASSERT_EQ(a.t.g.log.size(), 1u);
  EXPECT_EQ(a.t.g.log[0].added, (std::vector<graph::NodeId>{n->id}));
}

TEST(Attention, MatchesOtherForms) {
  {
    Attention a({.groups = 4, .bias = false, .guard = false, .divide = true});
    EXPECT_EQ(a.t.Run(FuseAttention), 1);
    const Node* n = a.t.Only("ullage:CachedAttention");
    ASSERT_NE(n, nullptr);
    EXPECT_EQ(n->inputs.size(), 5u);
    EXPECT_FLOAT_EQ(n->Float("scale", 0), 0.25f);
    EXPECT_EQ(a.t.Nodes(), 1u);
  }
  {
    Attention a({.softcap = true, .divide = true, .axis = 2});
    EXPECT_EQ(a.t.Run(FuseAttention), 1);
    const Node* n = a.t.Only("ullage:CachedAttention");
    ASSERT_NE(n, nullptr);
    EXPECT_FLOAT_EQ(n->Float("softcap", 0), 50);
    EXPECT_FLOAT_EQ(n->Float("scale", 0), 0.25f);
  }
}

ValueId Flat(TestGraph& t, ValueId heads, int64_t width) {
  Node& n = t.Add("Transpose", {heads});
  n.attributes["perm"] = std::vector<int64_t>{0, 2, 1, 3};
  return t.Op("Reshape", {n.outputs[0], t.Ints({0, 0, width})});
}

TEST(Attention, MatchesMultiHeadAttentionWithTheCacheOutside) {
  for (const bool mask : {true, false}) {
    TestGraph t;
    const ValueId q = t.Input("q", {-1, -1, 32}), bias = t.Input("bias", {-1, 1, -1, -1});
    std::vector<ValueId> given, presents;
    for (const char* name : {"k", "v"}) {
      given.push_back(t.Input(std::string("past_") + name, {-1, 4, -1, 8}));
      given.push_back(t.Input(name, {-1, 4, -1, 8}));
      Node& n = t.Add("Concat", {given[given.size() - 2], given.back()});
      n.attributes["axis"] = int64_t{2};
      presents.push_back(n.outputs[0]);
    }
    Node& attention = t.Add("com.microsoft:MultiHeadAttention",
                            {q, Flat(t, presents[0], 32), Flat(t, presents[1], 32),
                             mask ? graph::kNone : bias, graph::kNone, mask ? bias : graph::kNone});
    attention.attributes["num_heads"] = int64_t{4};
    const ValueId y = attention.outputs[0];
    t.Output(y);
    for (ValueId v : presents) t.Output(v);
    EXPECT_EQ(t.Run(FuseAttention), mask ? 1 : 0);  // a bias of Q, K and V is not taken
    if (!mask) continue;
    const Node* n = t.Only("ullage:CachedAttention");
    ASSERT_NE(n, nullptr);
    EXPECT_EQ(std::vector<ValueId>(n->inputs.begin() + 1, n->inputs.end()),
              (std::vector<ValueId>{given[1], given[3], given[0], given[2], bias}));
    EXPECT_EQ(n->output(1), presents[0]);
    EXPECT_FLOAT_EQ(n->Float("scale", 0), 0.35355339f);
    ops::SymbolTable table;
    const auto facts = shapes::Propagate(t.g, shapes::DeclaredInputFacts(t.g, table), {}, table);
    EXPECT_EQ(facts.of(y).shape.ToString(&table), "[q.0 in 0..?,q.1 in 0..?,32]");
    EXPECT_EQ(facts.of(n->input(0)).shape.ToString(&table), "[q.0 in 0..?,4,q.1 in 0..?,8]");
  }
}

TEST(Attention, RefusesNearMisses) {
  for (const AttentionForm& f :
       {AttentionForm{.output_probabilities = true}, AttentionForm{.second_reader = true},
        AttentionForm{.groups = 4, .axis = 0}, AttentionForm{.mask_from_present = true}}) {
    Attention a(f);
    EXPECT_EQ(a.t.Run(FuseAttention), 0);
  }
}

}  // namespace
}  // namespace ullage::transforms
