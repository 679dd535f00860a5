// The pipeline over models that real exporters wrote (the zoo, when it is there).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "onnx/import.h"
#include "shapes/input_bounds.h"
#include "transforms/pass.h"
#include "ullage/error.h"

namespace ullage::transforms {
namespace {

namespace fs = std::filesystem;
using graph::Graph;
using graph::Node;

std::string Zoo() {
  const char* shared = std::getenv("ULLAGE_SHARED");
  return (shared ? std::string(shared) : std::string(ULLAGE_SOURCE_DIR) + "/../shared") + "/data/zoo";
}

std::map<std::string, int> Histogram(const Graph& g) {
  std::map<std::string, int> count;
  for (const auto id : g.Order()) {
    const Node& n = g.node(id);
    ++count[n.OpName()];
    for (const auto& [key, a] : n.attributes)
      if (const auto* sub = std::get_if<std::shared_ptr<Graph>>(&a))
        for (const auto& [op, k] : Histogram(**sub)) count[op] += k;
  }
  return count;
}

/// Enough arithmetic to fold what exporters compute from constants: operands of one size, or numbers.
std::vector<graph::ConstantPtr> Evaluate(const Node& n, const Graph&,
                                         std::span<const graph::ConstantPtr> in) {
  if (in.empty() || in.size() > 2 || n.outputs.size() != 1) return {};
  const graph::Constant& a = *in[0];
  const graph::Constant& b = *in.back();
  if (a.elements() != 1 && b.elements() != 1 && !(a.shape == b.shape)) return {};
  const auto x = a.AsDoubles(), y = b.AsDoubles();
  std::vector<float> out;
  const Shape& shape = a.shape.rank() >= b.shape.rank() && a.elements() >= b.elements() ? a.shape : b.shape;
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const double u = x[a.elements() == 1 ? 0 : static_cast<size_t>(i)];
    const double v = y[b.elements() == 1 ? 0 : static_cast<size_t>(i)];
    double r = 0;
    if (n.op == "Add")
      r = u + v;
    else if (n.op == "Mul")
      r = u * v;
    else if (n.op == "Div" && a.dtype == DType::kFloat)
      r = u / v;
    else if (n.op == "Sqrt")
      r = std::sqrt(u);
    else if (n.op == "Cast" && n.Int("to", 0) == 1)
      r = u;
    else
      return {};
    out.push_back(static_cast<float>(r));
  }
  if (n.op != "Cast" && a.dtype != DType::kFloat) return {};
  return {graph::MakeFloats(shape, out)};
}

using Counts = std::map<std::string, int>;

/// What must be found in a model, over all its layers.
struct Expected {
  const char* model;
  Counts ops;
};

const Counts kDecomposed = {{"ullage:CachedAttention", 2},
                            {"ullage:ApplyRotary", 4},
                            {"SimplifiedLayerNormalization", 1},
                            {"com.microsoft:SkipSimplifiedLayerNormalization", 4},
                            {"ullage:SwiGLU", 2},
                            {"ullage:MultiLinear", 4},
                            {"ullage:Linear", 5},
                            {"ullage:LastToken", 2},
                            {"Softmax", 0},
                            {"Pow", 0},
                            {"DequantizeLinear", 0}};
const Counts kDecomposedHeadNorms = {{"ullage:CachedAttention", 2},
                                     {"ullage:ApplyRotary", 4},
                                     {"SimplifiedLayerNormalization", 5},
                                     {"com.microsoft:SkipSimplifiedLayerNormalization", 4},
                                     {"ullage:SwiGLU", 2},
                                     {"ullage:MultiLinear", 4},
                                     {"Softmax", 0},
                                     {"Pow", 0}};
const Counts kGenai = {{"ullage:MultiLinear", 2}, {"ullage:Linear", 7},    {"ullage:SwiGLU", 2},
                       {"ullage:LastToken", 2},   {"DequantizeLinear", 0}, {"com.microsoft:MatMulNBits", 0}};
const Counts kLongRope = {{"If", 0}, {"ullage:Select", 2}, {"ullage:SwiGLU", 2}, {"ullage:MultiLinear", 2}};

const Expected kExpected[] = {
    {"optimum-llama/model.onnx", kDecomposed},
    {"ortq-llama-fp16/model.onnx", kDecomposed},
    {"ortq-llama-q4f16/model.onnx", kDecomposed},
    {"ortq-llama-q4-b32/model.onnx", kDecomposed},
    {"ortq-llama-q4-b32-acc4-asym/model.onnx", kDecomposed},
    {"ortq-llama-q4-gather/model.onnx", kDecomposed},
    {"ortq-llama-q4-qdq/model.onnx", kDecomposed},
    {"optimum-qwen3/model.onnx", kDecomposedHeadNorms},
    {"ortq-qwen3-q8-b32/model.onnx", kDecomposedHeadNorms},
    {"hub-layout-qwen3/onnx/model.onnx", kDecomposedHeadNorms},
    {"hub-layout-qwen3/onnx/model_fp16.onnx", kDecomposedHeadNorms},
    {"hub-layout-qwen3/onnx/model_q4f16.onnx", kDecomposedHeadNorms},
    {"optimum-gemma3/model.onnx",
     {{"ullage:CachedAttention", 3},
      {"ullage:ApplyRotary", 6},
      {"SimplifiedLayerNormalization", 13},
      {"com.microsoft:SkipSimplifiedLayerNormalization", 6},
      {"ullage:SwiGLU", 3},
      {"ullage:MultiLinear", 6},
      {"Softmax", 0}}},
    {"optimum-gpt2/model.onnx",
     {{"ullage:CachedAttention", 2}, {"com.microsoft:FastGelu", 2}, {"ullage:Linear", 9}, {"Gemm", 0}}},
    {"optimum-t5/decoder_model_merged.onnx",
     {{"ullage:CachedAttention", 2}, {"ullage:SwiGLU", 4}, {"ullage:Linear", 26}, {"ullage:MultiLinear", 6}}},
    {"optimum-whisper/decoder_model_merged.onnx", {{"ullage:CachedAttention", 2}, {"com.microsoft:Gelu", 4}}},
    {"dynamo-llama-op23/model.onnx", {{"ullage:SwiGLU", 2}, {"Cos", 1}, {"Sin", 1}, {"ullage:LastToken", 2}}},
    {"genai-llama-fp32-cpu/model.onnx", kGenai},
    {"genai-llama-int4-cpu/model.onnx", kGenai},
    {"genai-llama128-int4-qdq/model.onnx", kGenai},
    {"genai-llama128-int4-kquant-mixed/model.onnx", kGenai},
    {"genai05-llama-int4-cpu/model.onnx", kGenai},
    {"genai-phi3longrope-fp32-cpu/model.onnx", kLongRope},
    {"genai-phi3longrope-int4-cpu/model.onnx", kLongRope},
    {"genai-llama-fp16-cpu/model.onnx",
     {{"ullage:CachedAttention", 2}, {"com.microsoft:MultiHeadAttention", 0}, {"ullage:SwiGLU", 2}}},
    {"genai-qwen3-fp16-cpu/model.onnx", {{"ullage:CachedAttention", 2}, {"ullage:SwiGLU", 2}}},
    {"genai-llama-int4-prune-lm-head/model.onnx", {{"ullage:LastToken", 0}}},
    {"genai-gemma-fp32-cpu/model.onnx", {{"Transpose", 1}, {"ullage:SwiGLU", 2}, {"ullage:MultiLinear", 2}}},
};

void CollectNames(const Graph& g, std::set<std::string>& names) {
  for (const auto id : g.Order()) {
    const Node& n = g.node(id);
    names.insert(n.provenance.begin(), n.provenance.end());
    for (const auto& [key, a] : n.attributes)
      if (const auto* sub = std::get_if<std::shared_ptr<Graph>>(&a)) CollectNames(**sub, names);
  }
}

void Propagate(const Graph& g) {
  ops::SymbolTable table;
  shapes::Propagate(g, shapes::DeclaredInputFacts(g, table), {}, table);
}

TEST(Zoo, PipelineHoldsOnEveryModel) {
  if (!fs::exists(Zoo())) GTEST_SKIP() << "no exported models at " << Zoo();
  std::map<std::string, Counts> expected;
  for (const auto& e : kExpected) expected[e.model] = e.ops;
  size_t models = 0;
  for (const auto& entry : fs::recursive_directory_iterator(Zoo())) {
    if (entry.path().extension() != ".onnx") continue;
    const std::string name = fs::relative(entry.path(), Zoo()).string();
    SCOPED_TRACE(name);
    const auto g = onnx::ImportOnnx(entry.path().string());
    std::vector<std::string> outputs, after;
    std::set<std::string> before, names;
    CollectNames(*g, before);
    for (const auto v : g->outputs) outputs.push_back(g->value(v).name);
    PassOptions options;
    options.evaluate = Evaluate;
    if (g->FindValue("logits") >= 0) options.last_token_output = "logits";
    try {
      RunPipeline(*g, options);
      Propagate(*g);
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
      continue;
    }
    ++models;
    for (const auto v : g->outputs) after.push_back(g->value(v).name);
    EXPECT_EQ(after, outputs);
    CollectNames(*g, names);
    for (const auto& n : names) EXPECT_TRUE(before.count(n)) << n << " is no node of the model";
    const Counts found = Histogram(*g);
    if (const auto it = expected.find(name); it != expected.end()) {
      for (const auto& [op, count] : it->second) {
        const auto f = found.find(op);
        EXPECT_EQ(f == found.end() ? 0 : f->second, count) << op;
      }
      expected.erase(it);
    }
  }
  EXPECT_GT(models, 100u);
  for (const auto& [name, ops] : expected) ADD_FAILURE() << name << " is missing";
}

TEST(Zoo, NothingChangesWithAllPassesOff) {
  const std::string path = Zoo() + "/optimum-llama/model.onnx";
  if (!fs::exists(path)) GTEST_SKIP();
  const auto g = onnx::ImportOnnx(path);
  const std::string before = graph::Dump(*g);
  PassOptions options;
  options.disabled = {"all"};
  // What makes operators runnable has no switch, and finds nothing here.
  for (const PassTiming& ran : RunPipeline(*g, options)) EXPECT_EQ(ran.name, "qlinear");
  EXPECT_EQ(graph::Dump(*g), before);
}

}  // namespace
}  // namespace ullage::transforms
