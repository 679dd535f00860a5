// Products: every form of weight, biases, merging, and what must be left alone.
#include "transforms/test_graph.h"

namespace ullage::transforms {
namespace {

using graph::kNone;
using graph::Node;
using graph::ValueId;
using test::StandsFor;
using test::TestGraph;

TEST(Linear, TakesDenseWeightsInEveryOrientation) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, 8});
  const ValueId kn = t.Zeros({8, 3}), nk = t.Zeros({5, 8});
  t.Output(t.Op("MatMul", {x, kn}));
  Node& transpose = t.Add("Transpose", {nk});
  transpose.attributes["perm"] = std::vector<int64_t>{1, 0};
  t.Output(t.Op("MatMul", {x, transpose.outputs[0]}));
  Node& gemm = t.Add("Gemm", {x, nk, t.Zeros({1, 5})});
  gemm.attributes["transB"] = int64_t{1};
  gemm.annotation = "head";
  const std::string gemm_name = gemm.name;
  t.Output(gemm.outputs[0]);
  EXPECT_EQ(t.Run(MakeLinear), 3);
  EXPECT_EQ(t.Count("ullage:Linear"), 3);
  EXPECT_EQ(t.Nodes(), 3u);  // the transpose went
  for (size_t o = 0; o < 3; ++o) {
    const Node& n = *t.g.ProducerOf(t.g.outputs[o]);
    EXPECT_EQ(n.Int("K", 0), 8);
    EXPECT_EQ(n.Int("N", 0), o == 0 ? 3 : 5);
    EXPECT_EQ(n.Str("format", ""), o == 0 ? "dense_kn" : "dense_nk");
  }
  const Node& head = *t.g.ProducerOf(t.g.outputs[2]);
  EXPECT_TRUE(head.has_input(5));
  EXPECT_EQ(t.g.value(head.input(5)).constant->shape, Shape({5}));
  EXPECT_EQ(head.annotation, "head");
  EXPECT_TRUE(StandsFor(head, {gemm_name}));
  EXPECT_NE(head.name.find(gemm_name), std::string::npos);
  ASSERT_EQ(t.g.log.size(), 3u);
  EXPECT_EQ(t.g.log[1].pass, "linear");
  EXPECT_EQ(t.g.log[1].removed.size(), 2u);
  EXPECT_EQ(t.g.log[1].added.size(), 1u);
}

TEST(Linear, LeavesOtherProductsAlone) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, 8}), w = t.Input("w", {8, 3});
  t.Output(t.Op("MatMul", {x, w}));                                          // not constant
  t.Output(t.Op("MatMul", {t.Input("b", {2, -1, 8}), t.Zeros({2, 8, 3})}));  // batched
  t.Output(t.Op("MatMul", {t.Zeros({4, 8}), w}));                            // constant on the left
  t.Output(t.Op("MatMul", {t.Input("d", {-1, 8}, DType::kDouble), t.Zeros({8, 3}, DType::kDouble)}));
  Node& scaled = t.Add("Gemm", {x, t.Zeros({8, 3})});
  scaled.attributes["alpha"] = 0.5f;
  t.Output(scaled.outputs[0]);
  t.Output(t.Op("Gemm", {x, t.Zeros({8, 3}), t.Scalar(1)}));                         // a scalar C
  t.Output(t.Op("Gemm", {t.Input("r", {4, 8}), t.Zeros({8, 3}), t.Zeros({4, 3})}));  // C by rows
  Node& left = t.Add("Gemm", {t.Input("l", {8, -1}), t.Zeros({8, 3})});
  left.attributes["transA"] = int64_t{1};
  t.Output(left.outputs[0]);
  Node& swapped = t.Add("Transpose", {t.Zeros({3, 8})});
  swapped.attributes["perm"] = std::vector<int64_t>{0, 1};  // no transpose at all
  t.Output(t.Op("MatMul", {t.Input("s", {-1, 3}), swapped.outputs[0]}));
  EXPECT_EQ(t.Run(MakeLinear), 0);
  EXPECT_TRUE(t.g.log.empty());
}

ValueId Dequantized(TestGraph& t, DType codes, const Shape& shape, const Shape& scales, int64_t axis,
                    int64_t block) {
  Node& n = t.Add("DequantizeLinear", {t.Zeros(shape, codes), t.Zeros(scales)});
  n.attributes["axis"] = axis;
  if (block > 0) n.attributes["block_size"] = block;
  return n.outputs[0];
}

TEST(Linear, ReadsDequantizedWeightsInPlace) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, -1, 64});
  t.Output(t.Op("MatMul", {x, Dequantized(t, DType::kInt4, {64, 8}, {2, 8}, 0, 32)}));
  Node& transpose = t.Add("Transpose", {Dequantized(t, DType::kUInt4, {8, 64}, {8, 4}, -1, 16)});
  transpose.attributes["perm"] = std::vector<int64_t>{1, 0};
  t.Output(t.Op("MatMul", {x, transpose.outputs[0]}));
  t.Output(t.Op("MatMul", {x, Dequantized(t, DType::kInt8, {64, 8}, {8}, 1, 0)}));  // per column
  t.Output(t.Op("MatMul", {x, Dequantized(t, DType::kUInt8, {64, 8}, {}, 1, 0)}));  // per tensor
  EXPECT_EQ(t.Run(MakeLinear), 4);
  EXPECT_EQ(t.Nodes(), 4u);
  const char* formats[] = {"qdq_kn", "qdq_nk", "qdq_kn", "qdq_kn"};
  const int64_t bits[] = {4, 4, 8, 8}, blocks[] = {32, 16, 0, 0};
  for (size_t o = 0; o < 4; ++o) {
    const Node& n = *t.g.ProducerOf(t.g.outputs[o]);
    EXPECT_EQ(n.Str("format", ""), formats[o]) << o;
    EXPECT_EQ(n.Int("bits", 0), bits[o]) << o;
    EXPECT_EQ(n.Int("block_size", -1), blocks[o]) << o;
    EXPECT_EQ(n.Int("N", 0), 8) << o;
    EXPECT_EQ(n.Int("accuracy_level", 0), 0) << o;
    EXPECT_EQ(n.provenance.size(), o == 1 ? 3u : 2u) << o;
  }
}

TEST(Linear, LeavesWeightsThatAreQuantisedAcrossTheWrongAxis) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, 64});
  t.Output(t.Op("MatMul", {x, Dequantized(t, DType::kInt4, {64, 32}, {64, 2}, 1, 16)}));  // blocks along N
  t.Output(t.Op("MatMul", {x, Dequantized(t, DType::kInt8, {64, 8}, {64}, 0, 0)}));       // a scale per K
  t.Output(t.Op("MatMul", {x, Dequantized(t, DType::kInt32, {64, 8}, {8}, 1, 0)}));       // a bias type
  EXPECT_EQ(t.Run(MakeLinear), 0);
}

TEST(Linear, KeepsADequantizedWeightThatOthersRead) {
  TestGraph t;
  const ValueId w = Dequantized(t, DType::kInt8, {64, 8}, {8}, 1, 0);
  t.Output(t.Op("MatMul", {t.Input("x", {-1, 64}), w}));
  t.Output(w);
  EXPECT_EQ(t.Run(MakeLinear), 1);
  EXPECT_EQ(t.Count("DequantizeLinear"), 1);
}

Node& NBits(TestGraph& t, ValueId x, int64_t n, int64_t level) {
  Node& node = t.Add("com.microsoft:MatMulNBits", {x, t.Zeros({n, 2, 16}, DType::kUInt8), t.Zeros({n, 2}),
                                                   t.Zeros({n, 1}, DType::kUInt8)});
  node.attributes["K"] = int64_t{64};
  node.attributes["N"] = n;
  node.attributes["bits"] = int64_t{4};
  node.attributes["block_size"] = int64_t{32};
  node.attributes["accuracy_level"] = level;
  return node;
}

TEST(Linear, TakesMatMulNBitsWithTheBiasBehind) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, -1, 64});
  Node& product = NBits(t, x, 8, 4);
  Node& add = t.Add("Add", {t.Zeros({8}), product.outputs[0]});
  add.annotation = "late";
  t.Output(add.outputs[0]);
  EXPECT_EQ(t.Run(MakeLinear), 2);
  const Node* linear = t.Only("ullage:Linear");
  ASSERT_NE(linear, nullptr);
  EXPECT_EQ(t.Nodes(), 1u);
  EXPECT_EQ(linear->Str("format", ""), "nbits");
  EXPECT_EQ(linear->Int("accuracy_level", 0), 4);
  EXPECT_TRUE(linear->has_input(3));
  EXPECT_FALSE(linear->has_input(4));
  EXPECT_TRUE(linear->has_input(5));
  EXPECT_EQ(linear->annotation, "late");
  EXPECT_TRUE(StandsFor(*linear, {"n/MatMulNBits", "n/Add"}));
}

TEST(Linear, LeavesSumsThatAreNoBias) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, -1, 64});
  t.Output(t.Op("Add", {NBits(t, x, 8, 0).outputs[0], t.Zeros({4, 8})}));  // differs by row
  t.Output(t.Op("Add", {NBits(t, x, 8, 0).outputs[0], t.Scalar(1)}));
  t.Output(t.Op("Add", {NBits(t, x, 8, 0).outputs[0], t.Input("b", {8})}));
  t.Output(t.Op("Add", {NBits(t, x, 8, 0).outputs[0], t.Zeros({1, 1, 1, 8})}));  // raises the rank
  const ValueId shared = NBits(t, x, 8, 0).outputs[0];
  t.Output(t.Op("Add", {shared, t.Zeros({8})}));
  t.Output(shared);
  EXPECT_EQ(t.Run(MakeLinear), 5);
  EXPECT_EQ(t.Count("Add"), 5);
}

TEST(MultiLinear, MergesWhatReadsTheSameActivations) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, -1, 64});
  std::vector<ValueId> out;
  for (const char* name : {"/layers.3/attn/q_proj/MatMul", "/layers.3/attn/k_proj/MatMul_1",
                           "/layers.3/attn/v_proj/MatMul_2", "/layers.4/attn/k_proj/MatMul"}) {
    Node& n = NBits(t, x, 8 * static_cast<int64_t>(out.size() + 1), 4);
    n.provenance = {name};
    out.push_back(n.outputs[0]);
    t.Output(n.outputs[0]);
  }
  t.Output(NBits(t, x, 8, 0).outputs[0]);  // another accuracy
  t.Run(MakeLinear);
  EXPECT_EQ(t.Run(MergeLinears), 1);
  const Node* merged = t.Only("ullage:MultiLinear");
  ASSERT_NE(merged, nullptr);
  EXPECT_EQ(merged->outputs, (std::vector<ValueId>{out[0], out[1], out[2]}));
  EXPECT_EQ(merged->inputs.size(), 16u);
  EXPECT_EQ(merged->input(0), x);
  EXPECT_EQ(merged->input(5), kNone);
  EXPECT_EQ(merged->Ints("N"), (std::vector<int64_t>{8, 16, 24}));
  EXPECT_EQ(merged->Ints("bits"), (std::vector<int64_t>{4, 4, 4}));
  EXPECT_EQ(merged->Ints("block_size"), (std::vector<int64_t>{32, 32, 32}));
  EXPECT_EQ(merged->Int("K", 0), 64);
  EXPECT_EQ(merged->Int("accuracy_level", 0), 4);
  EXPECT_EQ(merged->provenance.size(), 3u);
  EXPECT_EQ(t.Count("ullage:Linear"), 2);
}

TEST(TiedEmbedding, GathersColumnsOfTheWeight) {
  TestGraph t;
  const ValueId w = t.Zeros({4, 100});
  Node& transpose = t.Add("Transpose", {w});
  transpose.attributes["perm"] = std::vector<int64_t>{1, 0};
  Node& gather = t.Add("Gather", {transpose.outputs[0], t.Input("ids", {-1, -1}, DType::kInt64)});
  const ValueId out = gather.outputs[0];
  t.Output(out);
  EXPECT_EQ(t.Run(GatherTransposed), 1);
  const Node* rows = t.g.ProducerOf(out);
  ASSERT_TRUE(rows && rows->Is("", "Transpose"));
  EXPECT_EQ(rows->Ints("perm"), (std::vector<int64_t>{1, 2, 0}));
  const Node* columns = t.g.ProducerOf(rows->input(0));
  EXPECT_EQ(columns->input(0), w);
  EXPECT_EQ(columns->Int("axis", 0), 1);
  EXPECT_EQ(t.Nodes(), 2u);
  ops::SymbolTable table;
  const auto facts = shapes::Propagate(t.g, shapes::DeclaredInputFacts(t.g, table), {}, table);
  EXPECT_EQ(facts.of(out).shape.ToString(&table), "[ids.0 in 0..?,ids.1 in 0..?,4]");
}

TEST(TiedEmbedding, LeavesOtherGathers) {
  TestGraph t;
  const ValueId ids = t.Input("ids", {-1}, DType::kInt64);
  Node& gather = t.Add("Gather", {t.Op("Transpose", {t.Zeros({4, 100})}), ids});
  gather.attributes["axis"] = int64_t{1};
  t.Output(gather.outputs[0]);
  t.Output(t.Op("Gather", {t.Op("Transpose", {t.Input("w", {4, 100})}), ids}));
  EXPECT_EQ(t.Run(GatherTransposed), 0);
}

}  // namespace
}  // namespace ullage::transforms
