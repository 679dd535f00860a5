// Nodes that make no sense: a rule refuses or answers, and never does anything else. Meant for the
// sanitizers.
#include <gtest/gtest.h>

#include <random>

#include "ops/test_context.h"

namespace ullage::ops {
namespace {

using graph::Graph;
using graph::Node;

class Garbage {
 public:
  explicit Garbage(unsigned seed) : random_(seed) {}

  int64_t Pick(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  int64_t Number() {
    static constexpr int64_t kNasty[] = {0,
                                         1,
                                         -1,
                                         2,
                                         INT64_MIN,
                                         INT64_MAX,
                                         INT32_MAX,
                                         INT32_MIN,
                                         INT64_MAX - 1,
                                         -INT64_MAX,
                                         int64_t{1} << 40,
                                         3,
                                         12,
                                         13,
                                         32,
                                         33};
    return Pick(3) ? Pick(9) - 2 : kNasty[Pick(std::size(kNasty))];
  }
  Bound Dim() {
    switch (Pick(6)) {
      case 0:
        return Bound();
      case 1:
        return Bound::Between(Pick(4), 3 + Pick(9));
      case 2:
        return Bound::Exactly(std::max<int64_t>(Number(), 0));
      case 3:
        return table_.Symbol(std::string(1, static_cast<char>('a' + Pick(4))), 0, Pick(2) ? kUnbounded : 7);
      default:
        return Bound::Exactly(Pick(6));
    }
  }
  BoundedShape AnyShape() {
    if (Pick(12) == 0) return BoundedShape::Unknown();
    BoundedShape s = BoundedShape::Scalar();
    for (int64_t rank = Pick(8) ? Pick(6) : Pick(kMaxRank + 1); rank > 0; --rank) s.push_back(Dim());
    if (Pick(5) == 0) s.max_elements = Pick(100);
    return s;
  }
  BoundedValues Values(int count) {
    BoundedValues v;
    while (v.count < count) {
      const int64_t n = Number();
      v[v.count++] = Pick(3) ? Bound::Exactly(n) : Pick(2) ? Bound::Anything() : Dim();
    }
    return v;
  }
  graph::Attribute Attribute(std::string_view key) {
    if (key == "auto_pad") return std::string(Pick(2) ? "SAME_UPPER" : "VALID");
    if (key == "equation") {
      static const char* kEquations[] = {"ij,jk->ik", "...",          "->",  "a.b",  "ii",
                                         "i,",        "ab...->...ba", ",,,", "i->zz"};
      return std::string(kEquations[Pick(std::size(kEquations))]);
    }
    if (key == "direction") return std::string(Pick(2) ? "bidirectional" : "sideways");
    switch (Pick(8)) {
      case 0:
        return std::string("text");
      case 1:
        return 1.5f;
      case 2:
      case 3: {
        std::vector<int64_t> list(static_cast<size_t>(Pick(8) ? Pick(5) : Pick(40)));
        for (auto& n : list) n = Number();
        return list;
      }
      case 4:
        return std::vector<float>{1.0f, -2.5f, 1e30f, 0.0f};
      default:
        return Number();
    }
  }
  SymbolTable& table() { return table_; }

 private:
  std::mt19937_64 random_;
  SymbolTable table_;
};

constexpr std::string_view kKeys[] = {"axis",
                                      "axes",
                                      "keepdims",
                                      "perm",
                                      "pads",
                                      "strides",
                                      "dilations",
                                      "kernel_shape",
                                      "group",
                                      "auto_pad",
                                      "ceil_mode",
                                      "to",
                                      "dtype",
                                      "start",
                                      "end",
                                      "split",
                                      "k",
                                      "K",
                                      "N",
                                      "bits",
                                      "block_size",
                                      "num_heads",
                                      "kv_num_heads",
                                      "q_num_heads",
                                      "equation",
                                      "blocksize",
                                      "starts",
                                      "ends",
                                      "batch_dims",
                                      "allowzero",
                                      "num_outputs",
                                      "shape",
                                      "scales",
                                      "direction",
                                      "hidden_size",
                                      "layout",
                                      "axes",
                                      "value_ints",
                                      "output_padding",
                                      "output_shape",
                                      "transA",
                                      "transB",
                                      "stash_type",
                                      "sample_size",
                                      "onesided",
                                      "inverse",
                                      "gather_axis",
                                      "quantize_axis",
                                      "qkv_hidden_sizes",
                                      "state_window",
                                      "num_scan_inputs",
                                      "output_height",
                                      "keep_aspect_ratio_policy",
                                      "noop_with_empty_axes"};

TEST(Garbage, RulesRefuseOrAnswer) {
  constexpr DType kTypes[] = {DType::kFloat, DType::kInt64, DType::kInt32,
                              DType::kUInt8, DType::kBool,  DType::kFloat16};
  int answered = 0, refused = 0;
  for (const OpInfo& op : AllOps()) {
    if (op.name == "If" || op.name == "Loop" || op.name == "Scan") continue;
    for (unsigned seed = 0; seed < 300; ++seed) {
      Garbage g(seed * 7919 + 1);
      Graph graph;
      graph.opsets[std::string(op.domain)] = op.since;
      std::vector<graph::ValueId> inputs, outputs;
      const int most = op.max_inputs < 0 ? op.min_inputs + 3 : op.max_inputs;
      const int count = op.min_inputs + static_cast<int>(g.Pick(most - op.min_inputs + 1));
      for (int i = 0; i < count; ++i)
        inputs.push_back(i >= op.min_inputs && g.Pick(4) == 0
                             ? graph::kNone
                             : graph.AddInput("x", DType::kFloat, std::nullopt));
      const int results = op.max_outputs < 0 ? 1 + static_cast<int>(g.Pick(4)) : op.max_outputs;
      for (int i = 0; i < results; ++i)
        outputs.push_back(i && g.Pick(4) == 0 ? graph::kNone : graph.AddValue("y"));
      Node& node = graph.AddNode(op.domain, op.name, "n", inputs, outputs);
      for (std::string_view key : kKeys)
        if (g.Pick(3) == 0) node.attributes[std::string(key)] = g.Attribute(key);
      TestContext c(node, g.Pick(3) ? &g.table() : nullptr);
      const DType common = kTypes[g.Pick(std::size(kTypes))];
      for (int i = 0; i < count; ++i) {
        if (!c.has(i)) continue;
        const DType type = g.Pick(4) ? common : kTypes[g.Pick(std::size(kTypes))];
        BoundedShape shape = g.AnyShape();
        const Bound n = shape.exact() ? shape.Elements(BoundMath()) : Bound();
        if (n.exact() && n.lower <= BoundedValues::kMax && g.Pick(3)) {
          c.Input(i, type, shape);
          c.InputValues(i, g.Values(static_cast<int>(n.lower)));
        } else if (g.Pick(3) == 0) {
          const int length = static_cast<int>(g.Pick(6));
          c.Input(i, DType::kInt64, BoundedShape::OfDims({Bound::Exactly(length)}));
          c.InputValues(i, g.Values(length));
        } else {
          c.Input(i, type, shape);
        }
      }
      try {
        ApplyRule(c);
        ++answered;
        for (int o = 0; o < results; ++o) {
          if (!c.wants(o)) continue;
          ASSERT_TRUE(c.is_set(o)) << node.OpName() << " says nothing of output " << o;
          const BoundedShape& s = c.out_shape(o);
          ASSERT_LE(s.rank, kMaxRank);
          for (int i = 0; i < s.rank; ++i) {
            ASSERT_GE(s[i].lower, 0) << node.OpName() << " " << s.ToString();
            ASSERT_LE(s[i].lower, s[i].upper) << node.OpName() << " " << s.ToString();
          }
        }
      } catch (const Error& e) {
        ++refused;
        ASSERT_NE(std::string(e.what()).find(node.OpName()), std::string::npos) << e.what();
      }
    }
  }
  EXPECT_GT(answered, 5000);
  EXPECT_GT(refused, 5000);
}

TEST(Catalogue, VersionsAndDomains) {
  EXPECT_EQ(FindOp("", "Softmax", 12)->since, 1);
  EXPECT_EQ(FindOp("ai.onnx", "Reshape", 4)->since, 1);
  EXPECT_EQ(FindOp("", "Reshape", 13)->since, 5);
  EXPECT_EQ(FindOp("", "Attention", 22), nullptr);
  EXPECT_NE(FindOp("com.microsoft", "Attention", 1), nullptr);
  EXPECT_NE(FindOp("", "SimplifiedLayerNormalization", 14), nullptr);
  EXPECT_EQ(FindOp("", "Reshap", 13), nullptr);
  EXPECT_EQ(FindOp("", "ReduceSum", 0)->since, 13);
  EXPECT_EQ(FindOp("nobody", "Add", 13), nullptr);
  for (const OpInfo& op : AllOps()) {
    EXPECT_EQ(FindOp(op.domain, op.name, op.since), &op) << op.name << " is listed twice";
    EXPECT_NE(op.rule, nullptr);
  }
}

TEST(Catalogue, UnknownOperatorsAreNamed) {
  Graph graph;
  graph.opsets[""] = 22;
  Node& node = graph.AddNode("", "Attention", "here", {}, {graph.AddValue("y")});
  TestContext c(node);
  try {
    ApplyRule(c);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kUnsupported);
    EXPECT_NE(std::string(e.what()).find("here"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("22"), std::string::npos);
  }
}

}  // namespace
}  // namespace ullage::ops
