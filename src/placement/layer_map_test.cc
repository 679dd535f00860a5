#include "placement/layer_map.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "onnx/import.h"
#include "placement/layer_names.h"
#include "placement/test_graph.h"

namespace ullage::placement {
namespace {

using namespace test;  // NOLINT
namespace fs = std::filesystem;

int64_t NumberIn(const std::string& name) {
  const auto layer = FindLayer(name);
  return layer ? layer->number : -1;
}

TEST(LayerNames, Found) {
  EXPECT_EQ(NumberIn("/model/layers.0/attn/q_proj/MatMul_Q4"), 0);
  EXPECT_EQ(NumberIn("/model/layers.31/mlp/experts.7/MatMul"), 31);
  EXPECT_EQ(NumberIn("/transformer/h.11/attn/c_attn/Gemm"), 11);
  EXPECT_EQ(NumberIn("transformer.h.3.mlp.c_fc.weight"), 3);
  EXPECT_EQ(NumberIn("blk.12.attn_q.weight"), 12);
  EXPECT_EQ(NumberIn("/m/encoder/layer.1/attention/self/MatMul"), 1);
  EXPECT_EQ(NumberIn("/decoder/block.4/layer.0/SelfAttention/q/MatMul"), 4);
  EXPECT_EQ(NumberIn("/layer2/layer2.0/conv1/Conv"), 2);
  EXPECT_EQ(NumberIn("encoder_layer_5/x"), 5);
  EXPECT_EQ(NumberIn("m.model.layers.007.self_attn"), 7);
}

TEST(LayerNames, NotFound) {
  for (const char* name :
       {"", "/model/embed_tokens/Gather", "/lm_head/MatMul", "node_MatMul_226", "Attention_0",
        "SkipLayerNorm_AddBias_3", "/layernorm_1/Add", "bench.3", "h3", "/model/Constant_17", "layers.",
        "layers.99999999999999999999999/x", "/path.2/x", "1"})
    EXPECT_EQ(NumberIn(name), -1) << name;
}

TEST(LayerNames, PlaceOfTheNumber) {
  const std::string name = "/model/layers.12/x";
  const auto layer = FindLayer(name);
  ASSERT_TRUE(layer);
  EXPECT_EQ(name.substr(layer->begin), "layers.12/x");
  EXPECT_EQ(name.substr(layer->number_begin, layer->number_end - layer->number_begin), "12");
  EXPECT_EQ(layer->stack(name), "/model/layers.");
}

TEST(LayerNames, Modules) {
  EXPECT_EQ(PathOfModule("m.model.layers.0.self_attn"), "/m/model/layers.0/self_attn/");
  EXPECT_EQ(PathOfModule(""), "/");
  EXPECT_EQ(PathOfModule("h.3"), "/h.3/");
}

TEST(LayerNames, Metadata) {
  Node node;
  EXPECT_TRUE(ScopesOfMetadata(node).empty());
  node.metadata["namespace"] =
      ": __main__.KW/m: a.LlamaForCausalLM/m.model.layers.1: a.Layer/m.model.layers.1.mlp: a.MLP/mul_3: "
      "aten.mul.Tensor";
  EXPECT_EQ(ScopesOfMetadata(node),
            (std::vector<std::string>{"/m/model/layers.1/mlp/mul_3", "m.model.layers.1.mlp"}));
  node.metadata["pkg.torch.onnx.name_scopes"] = "['', 'm', \"m.model.layers.0\", 'view']";
  EXPECT_EQ(ScopesOfMetadata(node), (std::vector<std::string>{"/m/model/layers.0/view", "m.model.layers.0"}));
  for (const char* broken : {"", "[", "['", "['a", "garbage", "[]", "['\\"}) {
    node.metadata["pkg.torch.onnx.name_scopes"] = broken;
    ScopesOfMetadata(node);
  }
}

TEST(LayerMap, NamesProvenanceMetadata) {
  ChainGraph c;
  c.Add("/model/layers.3/a");
  c.Add("plain");
  c.Add("node_add_7").metadata["namespace"] = "m: K/m.h.2: Block/add_7: aten.add";
  Node& fused = c.Add("SkipLayerNorm_0");
  fused.provenance = {"x", "/model/layers.4/b"};
  const LayerMap map(c.Finish());
  EXPECT_EQ(map.layer(0), 3);
  EXPECT_EQ(map.layer(2), 2);
  EXPECT_EQ(map.layer(3), 4);
  EXPECT_EQ(map.scopes(2).front(), "/m/h.2/add_7");
  EXPECT_EQ(map.layers(), 5);
}

TEST(LayerMap, OptimizedNamesTakeTheScopeOfTheirSurroundings) {
  ChainGraph c;
  c.Add("/m/encoder/layer.0/a");
  c.Add("Gelu_AddBias_0");
  c.Add("/m/encoder/layer.0/b");
  c.Add("Attention_1");  // at the seam: with what it follows
  c.Add("/m/encoder/layer.1/a");
  c.Add("FullyConnect_MatMul_5", "", "MatMul", {c.Weight("encoder.layer.1.dense.weight", {4, 4})});
  c.Add("SkipLayerNorm_9");  // nothing of a layer behind it
  const LayerMap map(c.Finish());
  EXPECT_EQ(map.layer(1), 0);
  EXPECT_EQ(map.scopes(1), (std::vector<std::string>{"/m/encoder/layer.0/"}));
  EXPECT_EQ(map.layer(3), 0);
  EXPECT_EQ(map.layer(5), 1);
  EXPECT_EQ(map.scopes(5).front(), "/encoder/layer.1/dense/weight/");
  EXPECT_EQ(map.layer(6), -1);
}

TEST(LayerMap, NamedNodesWithoutLayerStayWithout) {
  ChainGraph c;
  c.Add("/model/layers.0/a");
  c.Add("/model/rotary/Cos");
  c.Add("/model/layers.0/b");
  const LayerMap map(c.Finish());
  EXPECT_EQ(map.layer(1), -1);
  EXPECT_TRUE(map.scopes(1).empty());
}

/// A decoder whose names tell nothing: embedding, two layers of attention and a perceptron, norm, head.
TEST(LayerMap, StructureAlone) {
  ChainGraph c;
  Graph& g = *c.g;
  const ValueId w = c.Weight("w", {4, 4}), v = c.Weight("v", {4});
  int next = 0;
  std::map<int64_t, std::set<NodeId>> expected;
  const auto add = [&](int64_t layer, const std::string& op, std::vector<ValueId> in) {
    const ValueId out = g.AddValue("t");
    const Node& node = g.AddNode(op == "Attention" ? "com.microsoft" : "", op,
                                 "node_" + op + "_" + std::to_string(next++), std::move(in), {out});
    expected[layer].insert(node.id);
    return out;
  };
  ValueId x = add(-1, "Gather", {w, c.last});
  for (int64_t layer = 0; layer < 3; ++layer) {
    const ValueId normed = add(layer, "LayerNormalization", {x, v});
    const ValueId attended = add(layer, "Attention", {add(layer, "MatMul", {normed, w})});
    const ValueId sum = add(layer, "Add", {x, add(layer, "MatMul", {attended, w})});
    const ValueId mlp =
        add(layer, "Relu", {add(layer, "MatMul", {add(layer, "LayerNormalization", {sum, v}), w})});
    x = add(layer, "Add", {sum, add(layer, "MatMul", {mlp, w})});
  }
  c.last = add(-1, "MatMul", {add(-1, "LayerNormalization", {x, v}), w});
  const LayerMap map(c.Finish());
  for (const auto& [layer, nodes] : expected)
    for (NodeId id : nodes) EXPECT_EQ(map.layer(id), layer) << g.node(id).name;
  EXPECT_EQ(map.layers(), 3);
  EXPECT_EQ(map.scopes(*expected[1].begin()).front(), "/model/layers.1/");
}

TEST(LayerMap, ScalarsAndRowsAreNoWork) {
  ChainGraph c;
  c.Add("/layers.0/MatMul", "", "MatMul", {c.Weight("w", {4, 4})});
  c.Add("/layers.1/norm/Mul", "", "LayerNormalization", {c.Weight("row", {1, 1, 4})});
  const LayerMap map(c.Finish());
  EXPECT_TRUE(map.is_final_norm(1));
  EXPECT_EQ(map.layers(), 1);
}

TEST(LayerMap, LastLayerThatWorksIsNoNorm) {
  ChainGraph c;
  c.Add("/layers.0/MatMul", "", "MatMul", {c.Weight("w", {4, 4})});
  c.Add("/layers.1/norm", "", "LayerNormalization", {c.Weight("v", {4})});
  c.Add("/layers.1/MatMul", "", "MatMul", {c.Weight("w2", {4, 4})});
  const LayerMap map(c.Finish());
  EXPECT_EQ(map.layer(1), 1);
  EXPECT_EQ(map.layers(), 2);
}

std::string Zoo() {
  const char* shared = std::getenv("ULLAGE_SHARED");
  return (shared ? std::string(shared) : std::string(ULLAGE_SOURCE_DIR) + "/../shared") + "/data/zoo";
}

/// Real exports of two-layer networks: both layers are found, each with the weights of a layer, and nothing
/// that carries a final norm's number counts as a third one.
TEST(LayerMapZoo, LayersOfRealExports) {
  if (!fs::exists(Zoo())) GTEST_SKIP() << "no zoo";
  const std::vector<std::pair<std::string, int64_t>> models = {
      {"genai-llama-int4-cpu", 2},   {"genai-llama-fp16-cpu", 2},
      {"genai-gemma3-fp32-cpu", -1}, {"dynamo-llama-op23", 2},
      {"dynamo-bert-op18", 2},       {"fused-bert", 2},
      {"fused-bert-mha", 2},         {"fused-vit", 2},
      {"fused-whisper-encoder", 2},  {"optimum-gpt2", 2},
      {"optimum-gpt2-O2", 2},        {"optimum-llama", 2},
  };
  for (const auto& [name, layers] : models) {
    const std::string folder = Zoo() + "/" + name;
    std::string file;
    for (const auto& e : fs::recursive_directory_iterator(folder))
      if (e.path().extension() == ".onnx" && (file.empty() || e.path().string() < file))
        file = e.path().string();
    if (file.empty()) continue;
    onnx::ImportOptions options;
    options.require_data = false;
    const auto g = onnx::ImportOnnx(file, options);
    const LayerMap map(*g);
    if (layers >= 0) {
      EXPECT_EQ(map.layers(), layers) << name;
    }
    std::map<int64_t, int> matrices;
    for (NodeId id : g->Order())
      for (ValueId v : g->node(id).inputs)
        if (const auto* constant = g->ConstantOf(v))
          matrices[map.layer(id)] += constant->elements() >= 1024 && constant->shape.rank() >= 2;
    for (int64_t l = 0; l < map.layers(); ++l) {
      EXPECT_GE(matrices[l], 2) << name << " layer " << l;
      EXPECT_EQ(matrices[l], matrices[0]) << name << " layer " << l;
    }
  }
}

}  // namespace
}  // namespace ullage::placement
