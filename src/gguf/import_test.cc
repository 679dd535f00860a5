#include "gguf/import.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gguf/hyperparameters.h"
#include "gguf/test_writer.h"
#include "graph/node_named.h"

namespace ullage::gguf {
namespace {

using graph::Graph;
using graph::Node;
using test::NodeNamed;

std::shared_ptr<Graph> Import(const TestModel& m, ImportOptions options = {}) {
  return ImportGguf(m.Build(options.require_data).Parse(options.require_data), options);
}
Hyperparameters Read(const TestModel& m) {
  return ReadHyperparameters(*m.Build().Parse());
}

void ExpectRefused(Code code, const TestModel& m, const std::vector<std::string>& parts) {
  ExpectError(code, parts, [&] { Import(m); });
}

std::vector<std::string> Names(const Graph& g) {
  std::vector<std::string> out;
  for (graph::NodeId id : g.Order()) out.push_back(g.node(id).name);
  return out;
}

TestModel TinyGemma() {
  TestModel m = TinyLlama("gemma3");
  for (const char* name : {"blk.0.post_attention_norm.weight", "blk.0.post_ffw_norm.weight"})
    m.Tensor(name, {32});
  m.Tensor("blk.0.attn_q_norm.weight", {8}).Tensor("blk.0.attn_k_norm.weight", {8});
  return m;
}

TEST(Import, WritesTheGraphOfTheBuilder) {
  const auto g = Import(TinyLlama());
  const std::string mask = "/model/attn_mask_reformat/attn_mask_subgraph/";
  const std::string layer = "/model/layers.0/";
  EXPECT_EQ(Names(*g), (std::vector<std::string>{mask + "ReduceSum",
                                                 mask + "Sub",
                                                 mask + "Sub/Cast",
                                                 mask + "Shape",
                                                 mask + "Gather",
                                                 mask + "Gather/Cast",
                                                 "/model/embed_tokens/Gather",
                                                 layer + "input_layernorm/LayerNorm",
                                                 layer + "attn/q_proj/MatMul",
                                                 layer + "attn/k_proj/MatMul",
                                                 layer + "attn/v_proj/MatMul",
                                                 layer + "attn/GroupQueryAttention",
                                                 layer + "attn/o_proj/MatMul",
                                                 layer + "post_attention_layernorm/SkipLayerNorm",
                                                 layer + "mlp/gate_proj/MatMul",
                                                 layer + "mlp/up_proj/MatMul",
                                                 layer + "mlp/act_fn/Sigmoid",
                                                 layer + "mlp/act_fn/Mul",
                                                 layer + "mlp/Mul",
                                                 layer + "mlp/down_proj/MatMul",
                                                 "/model/layers.1/final_norm_layernorm/SkipLayerNorm",
                                                 "/lm_head/MatMul"}));
  std::vector<std::string> inputs, outputs;
  for (auto v : g->inputs) inputs.push_back(g->value(v).name);
  for (auto v : g->outputs) outputs.push_back(g->value(v).name);
  EXPECT_EQ(inputs, (std::vector<std::string>{"input_ids", "attention_mask", "past_key_values.0.key",
                                              "past_key_values.0.value"}));
  EXPECT_EQ(outputs, (std::vector<std::string>{"logits", "present.0.key", "present.0.value"}));
  EXPECT_EQ(g->value(g->outputs[1]).dtype, DType::kFloat16);
  const auto& past = *g->value(g->inputs[2]).declared;
  ASSERT_EQ(past.size(), 4u);
  EXPECT_EQ(past[1].value, 2);
  EXPECT_EQ(past[2].label, "past_sequence_length");
  EXPECT_EQ(past[3].value, 8);
  EXPECT_EQ((*g->value(g->outputs[0]).declared)[2].value, 8);
  EXPECT_EQ(g->opsets.at(""), 21);
  EXPECT_EQ(g->opsets.at("ullage"), 1);

  const Node& q = NodeNamed(*g, layer + "attn/q_proj/MatMul");
  EXPECT_TRUE(q.Is("ullage", "Linear"));
  EXPECT_EQ(g->value(q.outputs[0]).name, layer + "attn/q_proj/MatMul/output_0");
  EXPECT_EQ(g->value(q.inputs[1]).name, "model.layers.0.attn.q_proj.MatMul.weight");
  EXPECT_EQ(q.Str("format", ""), "dense_nk");
  const Node& norm = NodeNamed(*g, layer + "post_attention_layernorm/SkipLayerNorm");
  EXPECT_EQ(g->value(norm.outputs[3]).name, layer + "post_attention_layernorm/output_3");
  EXPECT_FLOAT_EQ(norm.Float("epsilon", 0), 1e-5f);
  const Node& attention = NodeNamed(*g, layer + "attn/GroupQueryAttention");
  EXPECT_EQ(attention.inputs.size(), 12u);
  EXPECT_EQ(attention.Int("rotary_interleaved", -1), 1);
  EXPECT_EQ(attention.Int("local_window_size", 0), -1);
  EXPECT_FLOAT_EQ(attention.Float("scale", 0), 1 / std::sqrt(8.0f));
  EXPECT_EQ(g->ConstantOf(attention.input(7))->shape, (Shape{64, 4}));
}

TEST(Import, TiedHeadSharesTheTable) {
  const auto g = Import(TinyLlama());
  const Node& head = NodeNamed(*g, "/lm_head/MatMul");
  const Node& embedding = NodeNamed(*g, "/model/embed_tokens/Gather");
  EXPECT_EQ(head.input(1), embedding.input(0));
  TestModel own = TinyLlama();
  own.Tensor("output.weight", {32, 8});
  const auto g2 = Import(own);
  EXPECT_NE(NodeNamed(*g2, "/lm_head/MatMul").input(1),
            NodeNamed(*g2, "/model/embed_tokens/Gather").input(0));
}

TEST(Import, GemmaNames) {
  const auto g =
      Import(TinyGemma().F32("gemma3.final_logit_softcapping", 30).U32("gemma3.attention.sliding_window", 9));
  const std::string layer = "/model/layers.0/";
  for (const char* name : {"post_attention_layernorm/LayerNorm", "pre_feedforward_layernorm/SkipLayerNorm",
                           "mlp/act_fn/FastGelu", "post_feedforward_layernorm/LayerNorm"})
    EXPECT_NO_THROW(NodeNamed(*g, layer + name)) << name;
  for (const char* name : {"/model/embed_tokens/Mul", "/lm_head/softcap/Div", "/lm_head/softcap/Tanh"})
    EXPECT_NO_THROW(NodeNamed(*g, name)) << name;
  EXPECT_EQ(g->value(NodeNamed(*g, "/lm_head/softcap/Mul").outputs[0]).name, "logits");
  const Node& attention = NodeNamed(*g, layer + "attn/GroupQueryAttention");
  EXPECT_EQ(attention.Int("local_window_size", 0), 9);
  EXPECT_EQ(g->value(attention.input(7)).name, "cos_cache_local");
  EXPECT_EQ(g->value(attention.input(14)).name, "model.layers.0.attn.q_norm.layernorm.weight");
}

TEST(Import, OptionsAreHonoured) {
  const auto g = Import(TinyLlama(), {.max_positions = 10, .kv_dtype = DType::kFloat});
  EXPECT_EQ(g->value(g->FindValue("cos_cache")).constant->shape, (Shape{10, 4}));
  EXPECT_EQ(g->value(g->inputs[2]).dtype, DType::kFloat);
  ExpectError(Code::kUsage, {"int8"}, [] { Import(TinyLlama(), {.kv_dtype = DType::kInt8}); });
  ExpectError(Code::kUsage, {"max_positions"}, [] { Import(TinyLlama(), {.max_positions = -1}); });
}

TEST(Import, PlansWithoutData) {
  TestModel m = TinyLlama("phi3");
  for (const char* name : {"blk.0.ffn_gate.weight", "blk.0.ffn_up.weight"}) m.Drop(name);
  m.Tensor("blk.0.ffn_up.weight", {32, 96}).Tensor("rope_freqs.weight", {4});
  m.Find("output_norm.weight").type = 1;
  const auto g = Import(m, {.require_data = false});
  EXPECT_FALSE(g->value(g->FindValue("model.embed_tokens.weight")).constant->available());
  const auto cos = g->value(g->FindValue("cos_cache")).constant;
  EXPECT_FALSE(cos->available());
  EXPECT_EQ(cos->size_bytes, 64u * 4 * 4);
  const auto norm = g->value(g->FindValue("model.layers.1.final_norm_layernorm.weight")).constant;
  EXPECT_EQ(norm->dtype, DType::kFloat);
  EXPECT_EQ(norm->size_bytes, 128u);
}

TEST(Import, EveryMissingTensorIsNamed) {
  for (const TestModel& whole : {TinyLlama(), TinyGemma()}) {
    EXPECT_NO_THROW(Import(whole));
    for (const auto& entry : whole.tensors) {
      TestModel m = whole;
      m.Drop(entry.name);
      ExpectRefused(Code::kInvalidModel, m, {"tensor " + entry.name + " is missing"});
    }
  }
  TestModel qwen = TinyLlama("qwen2");
  ExpectRefused(Code::kInvalidModel, qwen, {"tensor blk.0.attn_q.bias is missing"});
}

TEST(Import, EveryWrongShapeIsNamed) {
  for (const TestModel& whole : {TinyLlama(), TinyGemma()}) {
    for (const auto& entry : whole.tensors) {
      TestModel m = whole;
      m.Find(entry.name).dims[0] += 32;
      ExpectRefused(Code::kInvalidModel, m, {"tensor " + entry.name + " has shape", "expected ["});
    }
  }
}

TEST(Import, UnusedTensorsAreNamed) {
  ExpectRefused(Code::kInvalidModel, TinyLlama().Tensor("blk.0.attn_q_norm.weight", {8}),
                {"1 tensors", "llama", "blk.0.attn_q_norm.weight"});
  ExpectRefused(Code::kInvalidModel, TinyLlama().Tensor("blk.1.attn_norm.weight", {32}),
                {"blk.1.attn_norm.weight"});
  EXPECT_NO_THROW(Import(TinyLlama().Tensor("blk.0.attn_rot_embd.weight", {8})));
  EXPECT_NO_THROW(Import(TinyLlama().Tensor("blk.0.attn_output.bias", {32})));
}

TEST(Import, VectorsOfBlocksAreRefused) {
  TestModel m = TinyLlama();
  m.Find("output_norm.weight").type = 8;
  ExpectRefused(Code::kUnsupported, m, {"tensor output_norm.weight", "q8_0"});
}

TEST(Import, UnknownArchitecture) {
  ExpectRefused(Code::kUnsupported, TinyLlama("mamba"), {"\"mamba\"", "llama, qwen2, qwen3, phi3, gemma3"});
  TestModel none;
  none.Tensor("t", {1});
  ExpectRefused(Code::kInvalidModel, none, {"general.architecture is missing"});
}

TEST(Hyperparameters, MissingAndWrongKeys) {
  const std::vector<std::string> needed = {"context_length",       "block_count",
                                           "embedding_length",     "feed_forward_length",
                                           "attention.head_count", "attention.layer_norm_rms_epsilon"};
  for (const auto& missing : needed) {
    TestModel m;
    m.tensors = TinyLlama().tensors;
    m.String("general.architecture", "llama");
    for (const auto& key : needed) {
      if (key == missing) continue;
      key.ends_with("epsilon") ? m.F32("llama." + key, 1e-5f)
                               : m.U32("llama." + key, key == "block_count" ? 1 : 32);
    }
    ExpectRefused(Code::kInvalidModel, m, {"key llama." + missing + " is missing"});
  }
  // Of another type, or beyond its bounds.
  TestModel m;
  m.tensors = TinyLlama().tensors;
  m.String("general.architecture", "llama").String("llama.context_length", "64");
  ExpectRefused(Code::kInvalidModel, m, {"llama.context_length", "expected an integer, found string"});
  const auto with = [](auto&& change) {
    TestModel model = TinyLlama();
    change(model);
    return model;
  };
  ExpectRefused(Code::kInvalidModel, with([](TestModel& t) { t.U32("llama.attention.key_length", 0); }),
                {"llama.attention.key_length", "found 0"});
  ExpectRefused(Code::kInvalidModel, with([](TestModel& t) { t.U32("llama.rope.dimension_count", 7); }),
                {"even"});
  ExpectRefused(Code::kInvalidModel, with([](TestModel& t) { t.U32("llama.rope.dimension_count", 10); }),
                {"expected 1 to 8, found 10"});
  ExpectRefused(Code::kInvalidModel, with([](TestModel& t) { t.F32("llama.rope.freq_base", 0); }),
                {"positive"});
  ExpectRefused(Code::kInvalidModel, with([](TestModel& t) { t.F32("llama.rope.freq_base", NAN); }),
                {"finite"});
  ExpectRefused(Code::kInvalidModel, with([](TestModel& t) { t.U32("llama.vocab_size", 9); }),
                {"vocab_size", "8 rows"});
  ExpectRefused(Code::kInvalidModel,
                with([](TestModel& t) { t.Strings("tokenizer.ggml.tokens", std::vector<std::string>(9)); }),
                {"tokenizer.ggml.tokens", "9 tokens", "8 rows"});
}

TEST(Hyperparameters, LayersAreBoundedByTheTensors) {
  TestModel m;
  m.tensors = TinyLlama().tensors;
  m.String("general.architecture", "llama").U32("llama.context_length", 64).U32("llama.block_count", 1000000);
  ExpectRefused(Code::kInvalidModel, m, {"llama.block_count", "1000000 layers", "only 11 tensors"});
}

TEST(Hyperparameters, UnsupportedFeaturesAreNamed) {
  const auto refused = [](const std::function<void(TestModel&)>& change,
                          const std::vector<std::string>& parts) {
    TestModel m = TinyLlama();
    change(m);
    ExpectRefused(Code::kUnsupported, m, parts);
  };
  refused([](TestModel& m) { m.U32("llama.expert_count", 8); },
          {"mixture of experts", "MoE", "llama.expert_count"});
  refused([](TestModel& m) { m.U32("llama.pooling_type", 1); }, {"pooling_type"});
  refused([](TestModel& m) { m.Bool("llama.attention.causal", false); }, {"causal"});
  refused([](TestModel& m) { m.F32("llama.attention.clamp_kqv", 8); }, {"clamp_kqv"});
  refused([](TestModel& m) { m.F32("llama.logit_scale", 0.5f); }, {"logit_scale"});
  refused([](TestModel& m) { m.U32("llama.attention.value_length", 16); }, {"value head size (16)"});
  refused([](TestModel& m) { m.String("llama.rope.scaling.type", "ntk"); },
          {"rope scaling type \"ntk\"", "yarn"});
  refused(
      [](TestModel& m) { m.Find("blk.0.attn_q.weight").type = 8, m.U32("general.quantization_version", 1); },
      {"quantization_version"});
  TestModel fine = TinyLlama();
  fine.U32("llama.expert_count", 0).F32("llama.logit_scale", 1).F32("llama.attention.clamp_kqv", 0);
  EXPECT_NO_THROW(Import(fine));
}

TEST(Hyperparameters, CountsPerLayer) {
  const auto model = [](const std::vector<int32_t>& kv_heads) {
    TestModel m;
    m.tensors = TinyLlama().tensors;
    m.String("general.architecture", "llama").U32("llama.context_length", 64).U32("llama.block_count", 2);
    m.U32("llama.embedding_length", 32)
        .U32("llama.feed_forward_length", 48)
        .U32("llama.attention.head_count", 4);
    m.Numbers("llama.attention.head_count_kv", ValueType::kInt32, kv_heads);
    m.F32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    return m;
  };
  EXPECT_EQ(Read(model({2, 2})).kv_heads, 2);
  ExpectError(Code::kUnsupported, {"head_count_kv", "varies by layer (2 and 4)"}, [&] {
    Read(model({2, 4}));
  });
  ExpectError(Code::kInvalidModel, {"head_count_kv", "2 layers, found 3"}, [&] { Read(model({2, 2, 2})); });
  ExpectError(Code::kInvalidModel, {"head_count_kv", "found 0"}, [&] { Read(model({0, 0})); });
  ExpectError(Code::kInvalidModel, {"4 query heads", "3 key heads"}, [&] { Read(model({3, 3})); });
}

TEST(Hyperparameters, Gemma3Windows) {
  const auto model = [](uint32_t layers) {
    TestModel m;
    m.tensors = TinyLlama("gemma3").tensors;
    for (uint32_t i = 0; i < layers; ++i) m.Tensor("filler" + std::to_string(i), {1});
    m.String("general.architecture", "gemma3")
        .U32("gemma3.context_length", 64)
        .U32("gemma3.block_count", layers);
    m.U32("gemma3.embedding_length", 32).U32("gemma3.feed_forward_length", 48);
    m.U32("gemma3.attention.head_count", 4).F32("gemma3.attention.layer_norm_rms_epsilon", 1e-5f);
    m.F32("gemma3.rope.freq_base", 1e6f).U32("gemma3.attention.sliding_window", 512);
    m.String("gemma3.rope.scaling.type", "linear").F32("gemma3.rope.scaling.factor", 8);
    m.U32("gemma3.attention.key_length", 16).U32("gemma3.attention.value_length", 16);
    return m;
  };
  const auto h = Read(model(8));
  EXPECT_EQ(h.windows, (std::vector<int64_t>{512, 512, 512, 512, 512, -1, 512, 512}));
  EXPECT_TRUE(h.local_rope);
  EXPECT_EQ(h.rope.base, 1e6);
  EXPECT_EQ(h.rope.factor, 8);
  EXPECT_EQ(h.rope_local.base, 10000);
  EXPECT_EQ(h.rope_local.factor, 1);
  EXPECT_FLOAT_EQ(h.embedding_scale, std::sqrt(32.0f));
  EXPECT_FLOAT_EQ(h.attention_scale, 0.25f);
  // The 27B size alone scales by hidden / heads.
  EXPECT_FLOAT_EQ(Read(model(62)).attention_scale, 1 / std::sqrt(8.0f));
  EXPECT_EQ(Read(model(8).U32("gemma3.attention.sliding_window_pattern", 2)).windows,
            (std::vector<int64_t>{512, -1, 512, -1, 512, -1, 512, -1}));
}

TEST(Import, DefaultContextIsBounded) {
  TestModel m;
  m.tensors = TinyLlama().tensors;
  m.String("general.architecture", "llama").U32("llama.context_length", 1 << 24).U32("llama.block_count", 1);
  m.U32("llama.embedding_length", 32)
      .U32("llama.feed_forward_length", 48)
      .U32("llama.attention.head_count", 4);
  m.U32("llama.attention.head_count_kv", 2).F32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  ExpectRefused(Code::kUnsupported, m, {"context length of the file, 16777216"});
  EXPECT_NO_THROW(Import(m, {.max_positions = 100}));
}

}  // namespace
}  // namespace ullage::gguf
