#include "gguf/import.h"

#include <array>

#include "core/checked.h"
#include "core/error.h"
#include "gguf/hyperparameters.h"
#include "gguf/rope_tables.h"
#include "gguf/weights.h"
#include "graph/absent.h"

namespace ullage::gguf {
namespace {

using graph::ConstantPtr;
using graph::kMsDomain;
using graph::kNone;
using graph::kUllageDomain;
using graph::Node;
using graph::ValueId;

/// Bytes of sine and cosine tables that a file's own context length may ask for.
constexpr int64_t kMaxDefaultTableBytes = int64_t{256} << 20;

using Attributes = std::map<std::string, graph::Attribute, std::less<>>;

/// Sine and cosine values of the graph.
struct Tables {
  ValueId cos = kNone;
  ValueId sin = kNone;
};

class Importer {
 public:
  Importer(const std::shared_ptr<const GgufFile>& file, const ImportOptions& options)
      : file_(*file),
        weights_(file, options.require_data),
        require_data_(options.require_data),
        h_(ReadHyperparameters(*file)),
        kv_dtype_(options.kv_dtype),
        g_(NewGraph()) {
    positions_ = Positions(options.max_positions);
  }

  std::shared_ptr<graph::Graph> Run() {
    Inputs();
    Lengths();
    AllTables();
    residual_ = Embedding();
    for (int64_t layer = 0; layer < h_.layers; ++layer) {
      const std::string base = Base(layer);
      Attention(layer, base, Norm(base + "input_layernorm", Block(layer, "attn_norm"), layer == 0));
      Mlp(layer, base, Norm(base + MlpNorm(), Block(layer, "ffn_norm"), false));
    }
    Head(Norm(Base(h_.layers) + "final_norm_layernorm", "output_norm", false));
    for (ValueId v : present_) g_->outputs.push_back(v);
    weights_.CheckAllUsed();
    graph::Verify(*g_);
    return g_;
  }

 private:
  static std::shared_ptr<graph::Graph> NewGraph() {
    auto g = std::make_shared<graph::Graph>();
    g->name = "main_graph";
    g->opsets = {{"", 21}, {std::string(kMsDomain), 1}, {std::string(kUllageDomain), 1}};
    return g;
  }

  int64_t Positions(int64_t asked) const {
    if (asked < 0) Throw(Code::kUsage, "max_positions must not be negative, found ", asked);
    if (asked > 0) return asked;
    const int64_t bytes = h_.context_length * h_.rope.dimensions * 4 * (h_.local_rope ? 2 : 1);
    if (bytes > kMaxDefaultTableBytes)
      Throw(Code::kUnsupported, file_.path(), ": the context length of the file, ", h_.context_length,
            ", takes ", bytes, " bytes of rotary tables; ask for a shorter context");
    return h_.context_length;
  }

  static std::string Base(int64_t layer) { return "/model/layers." + std::to_string(layer) + "/"; }
  static std::string Block(int64_t layer, std::string_view tensor) {
    return "blk." + std::to_string(layer) + "." + std::string(tensor);
  }
  /// Name of a weight of the node of that name: "/model/layers.0/attn/q_proj/MatMul" has its weight in
  /// "model.layers.0.attn.q_proj.MatMul.weight".
  static std::string WeightName(std::string_view node, std::string_view suffix) {
    std::string name(node.substr(1));
    for (char& c : name)
      if (c == '/') c = '.';
    return name + "." + std::string(suffix);
  }
  bool four_norms() const { return h_.architecture == Architecture::kGemma3; }
  const char* MlpNorm() const {
    return four_norms() ? "pre_feedforward_layernorm" : "post_attention_layernorm";
  }

  /// A node with one output: `out`, or a new value `<name>/output_0`.
  ValueId Op(std::string_view domain, std::string_view op, const std::string& name,
             std::vector<ValueId> inputs, DType dtype, Attributes attributes = {}, ValueId out = kNone) {
    if (out == kNone) out = g_->AddValue(name + "/output_0", dtype);
    g_->AddNode(domain, op, name, std::move(inputs), {out}).attributes = std::move(attributes);
    return out;
  }
  ValueId Float(float value) {
    const std::string name = StrCat("/model/constants/FLOAT/", value);
    const ValueId known = g_->FindValue(name);
    return known != kNone ? known : g_->AddConstant(name, graph::MakeFloats({}, std::array{value}));
  }

  graph::DeclaredShape CacheShape(const char* length) const {
    return {{-1, "batch_size"}, {h_.kv_heads, ""}, {-1, length}, {h_.head_size, ""}};
  }

  void Inputs() {
    input_ids_ = g_->AddInput("input_ids", DType::kInt64,
                              graph::DeclaredShape{{-1, "batch_size"}, {-1, "sequence_length"}});
    mask_ = g_->AddInput("attention_mask", DType::kInt64,
                         graph::DeclaredShape{{-1, "batch_size"}, {-1, "total_sequence_length"}});
    for (int64_t layer = 0; layer < h_.layers; ++layer)
      for (const char* part : {"key", "value"})
        past_.push_back(g_->AddInput(StrCat("past_key_values.", layer, ".", part), kv_dtype_,
                                     CacheShape("past_sequence_length")));
  }

  /// Length of each row minus one, and the longest length, from the attention mask.
  void Lengths() {
    const std::string base = "/model/attn_mask_reformat/attn_mask_subgraph/";
    const ValueId one_list =
        g_->AddConstant("/model/constants/INT64/[1]", graph::MakeInts({1}, std::array<int64_t, 1>{1}));
    const ValueId one =
        g_->AddConstant("/model/constants/INT64/1", graph::MakeInts({}, std::array<int64_t, 1>{1}));
    const ValueId sum =
        Op("", "ReduceSum", base + "ReduceSum", {mask_, one_list}, DType::kInt64, {{"keepdims", int64_t{0}}});
    const ValueId less = Op("", "Sub", base + "Sub", {sum, one_list}, DType::kInt64);
    seqlens_ = Cast(base + "Sub/Cast", less, DType::kInt32);
    const ValueId shape = Op("", "Shape", base + "Shape", {mask_}, DType::kInt64);
    const ValueId total =
        Op("", "Gather", base + "Gather", {shape, one}, DType::kInt64, {{"axis", int64_t{0}}});
    total_ = Cast(base + "Gather/Cast", total, DType::kInt32);
  }

  ValueId Cast(const std::string& name, ValueId in, DType to) {
    return Op("", "Cast", name, {in}, to, {{"to", static_cast<int64_t>(to)}});
  }

  void AllTables() {
    ConstantPtr factors;
    const int64_t pairs = h_.rope.dimensions / 2;
    if (weights_.Has("rope_freqs.weight")) factors = weights_.Vector("rope_freqs.weight", pairs);
    if (h_.rope.scaling == RopeScaling::kLongRope) {
      const auto long_factors = weights_.Vector("rope_factors_long.weight", pairs);
      const auto short_factors = weights_.Vector("rope_factors_short.weight", pairs);
      if (!factors) factors = positions_ > h_.rope.original_context ? long_factors : short_factors;
    }
    tables_ = AddTables(h_.local_rope ? "_global" : "", h_.rope, factors);
    if (h_.local_rope) local_tables_ = AddTables("_local", h_.rope_local, nullptr);
  }

  Tables AddTables(const std::string& suffix, const Rope& rope, const ConstantPtr& factors) {
    if (!require_data_) {
      const Shape shape{positions_, rope.dimensions / 2};
      const auto absent = [&](const std::string& name) {
        return g_->AddConstant(
            name, graph::MakeAbsent(DType::kFloat, shape, name + " is not computed for planning"));
      };
      return {absent("cos_cache" + suffix), absent("sin_cache" + suffix)};
    }
    const RopeTables t =
        MakeRopeTables(rope, factors ? CheckedFactors(*factors) : std::vector<float>(), positions_);
    return {g_->AddConstant("cos_cache" + suffix, t.cos), g_->AddConstant("sin_cache" + suffix, t.sin)};
  }

  std::vector<float> CheckedFactors(const graph::Constant& factors) const {
    const auto numbers = factors.AsDoubles();
    std::vector<float> out(numbers.begin(), numbers.end());
    for (float f : out)
      if (!(f > 0))
        Throw(Code::kInvalidModel, file_.path(), ": a factor of the rotary frequencies is ", f,
              ", expected a positive number");
    return out;
  }

  ValueId Embedding() {
    const auto table = weights_.Matrix("token_embd.weight", h_.vocab_size, h_.hidden);
    embedding_ = g_->AddConstant("model.embed_tokens.weight", table);
    const std::string base = "/model/embed_tokens/";
    ValueId out;
    if (!table->block_type.empty()) {
      out = Op(kUllageDomain, "BlockGather", base + "Gather", {embedding_, input_ids_}, DType::kFloat);
    } else {
      out = Op("", "Gather", base + "Gather", {embedding_, input_ids_}, table->dtype);
      if (table->dtype != DType::kFloat) out = Cast(base + "Gather/Cast", out, DType::kFloat);
    }
    if (h_.embedding_scale != 1)
      out = Op("", "Mul", base + "Mul", {out, Float(h_.embedding_scale)}, DType::kFloat);
    return out;
  }

  ValueId Normalized(const std::string& layer, const std::string& tensor, ValueId in) {
    const ValueId scale =
        g_->AddConstant(WeightName(layer, "weight"), weights_.Vector(tensor + ".weight", h_.hidden));
    const ValueId out = g_->AddValue(layer + "/output_0", DType::kFloat);
    return Op("", "SimplifiedLayerNormalization", layer + "/LayerNorm", {in, scale}, DType::kFloat,
              {{"epsilon", h_.norm_epsilon}, {"axis", int64_t{-1}}, {"stash_type", int64_t{1}}}, out);
  }

  /// Norm of the residual stream: after what the last block added to it, unless it is the first.
  ValueId Norm(const std::string& layer, const std::string& tensor, bool first) {
    if (first) return Normalized(layer, tensor, residual_);
    const ValueId scale =
        g_->AddConstant(WeightName(layer, "weight"), weights_.Vector(tensor + ".weight", h_.hidden));
    const ValueId out = g_->AddValue(layer + "/output_0", DType::kFloat);
    std::vector<ValueId> outputs = {out};
    const bool last = tensor == "output_norm";
    const ValueId sum = last ? kNone : g_->AddValue(layer + "/output_3", DType::kFloat);
    if (!last) outputs.insert(outputs.end(), {kNone, kNone, sum});
    Node& n = g_->AddNode(kMsDomain, "SkipSimplifiedLayerNormalization", layer + "/SkipLayerNorm",
                          {residual_, added_, scale}, outputs);
    n.attributes["epsilon"] = h_.norm_epsilon;
    residual_ = sum;
    return out;
  }

  ValueId Multiply(const std::string& name, ValueId in, ValueId weight, ValueId out = kNone) {
    const graph::Constant& w = *g_->ConstantOf(weight);
    const std::string format = w.block_type.empty() ? "dense_nk" : "ggml";
    return Op(kUllageDomain, "Linear", name, {in, weight}, DType::kFloat,
              {{"K", w.shape[1]}, {"N", w.shape[0]}, {"format", format}}, out);
  }
  ValueId Multiply(const std::string& name, ValueId in, const ConstantPtr& weight) {
    return Multiply(name, in, g_->AddConstant(WeightName(name, "weight"), weight));
  }
  ValueId AddBias(const std::string& name, const std::string& tensor, ValueId in, int64_t size,
                  ValueId out = kNone) {
    const ValueId bias = g_->AddConstant(WeightName(name, "bias"), weights_.Vector(tensor, size));
    return Op("", "Add", name, {in, bias}, DType::kFloat, {}, out);
  }
  /// base/MatMul, and base/Add where there is a bias.
  ValueId Project(const std::string& base, const std::string& tensor, ValueId in, int64_t rows,
                  int64_t columns, bool bias_required = false) {
    const ValueId out = Multiply(base + "/MatMul", in, weights_.Matrix(tensor + ".weight", rows, columns));
    if (!bias_required && !weights_.Has(tensor + ".bias")) return out;
    return AddBias(base + "/Add", tensor + ".bias", out, rows);
  }

  void Attention(int64_t layer, const std::string& base, ValueId in) {
    const int64_t q_size = h_.heads * h_.head_size;
    const int64_t kv_size = h_.kv_heads * h_.head_size;
    const std::string attn = base + "attn/";
    ValueId q = kNone, k = kNone, v = kNone;
    if (h_.architecture == Architecture::kPhi3 && weights_.Has(Block(layer, "attn_qkv.weight"))) {
      q = Project(attn + "qkv_proj", Block(layer, "attn_qkv"), in, q_size + 2 * kv_size, h_.hidden);
    } else {
      const bool bias = h_.architecture == Architecture::kQwen2;
      q = Project(attn + "q_proj", Block(layer, "attn_q"), in, q_size, h_.hidden, bias);
      k = Project(attn + "k_proj", Block(layer, "attn_k"), in, kv_size, h_.hidden, bias);
      v = Project(attn + "v_proj", Block(layer, "attn_v"), in, kv_size, h_.hidden, bias);
    }
    const auto index = static_cast<size_t>(layer);
    const int64_t window = h_.windows[index];
    const Tables& tables = h_.local_rope && window > 0 ? local_tables_ : tables_;
    std::vector<ValueId> inputs = {q,        k,      v,          past_[2 * index], past_[2 * index + 1],
                                   seqlens_, total_, tables.cos, tables.sin,       kNone,
                                   kNone,    kNone};
    const bool head_norms =
        h_.architecture == Architecture::kQwen3 || h_.architecture == Architecture::kGemma3;
    if (head_norms) {
      inputs.insert(inputs.end(), {kNone, kNone});
      for (const char* part : {"q_norm", "k_norm"})
        inputs.push_back(g_->AddConstant(
            WeightName(attn + part, "layernorm.weight"),
            weights_.Vector(Block(layer, std::string("attn_") + part + ".weight"), h_.head_size)));
    }
    const std::string name = attn + "GroupQueryAttention";
    const ValueId out = g_->AddValue(name + "/output_0", DType::kFloat);
    std::vector<ValueId> outputs = {out};
    for (const char* part : {"key", "value"}) {
      const ValueId present = g_->AddValue(StrCat("present.", layer, ".", part), kv_dtype_);
      g_->value(present).declared = CacheShape("total_sequence_length");
      outputs.push_back(present);
      present_.push_back(present);
    }
    Node& n = g_->AddNode(kMsDomain, "GroupQueryAttention", name, inputs, outputs);
    n.attributes["num_heads"] = h_.heads;
    n.attributes["kv_num_heads"] = h_.kv_heads;
    n.attributes["scale"] = h_.attention_scale;
    n.attributes["local_window_size"] = window;
    n.attributes["softcap"] = h_.attention_softcap;
    n.attributes["do_rotary"] = int64_t{1};
    n.attributes["rotary_interleaved"] = int64_t{h_.rope.interleaved};
    if (head_norms) n.attributes["qk_norm_epsilon"] = h_.norm_epsilon;

    added_ = Project(attn + "o_proj", Block(layer, "attn_output"), out, h_.hidden, q_size);
    if (four_norms())
      added_ = Normalized(base + "post_attention_layernorm", Block(layer, "post_attention_norm"), added_);
  }

  void Mlp(int64_t layer, const std::string& base, ValueId in) {
    const std::string mlp = base + "mlp/";
    const int64_t size = h_.feed_forward;
    ValueId gate = kNone, up = kNone;
    if (h_.architecture == Architecture::kPhi3) {  // one matrix: the gate's rows, then the others
      const std::string fused = Block(layer, "ffn_up.weight");
      gate = Multiply(mlp + "gate_proj/MatMul", in, weights_.Rows(fused, 2 * size, h_.hidden, 0, size));
      up = Multiply(mlp + "up_proj/MatMul", in, weights_.Rows(fused, 2 * size, h_.hidden, size, size));
    } else {
      gate = Project(mlp + "gate_proj", Block(layer, "ffn_gate"), in, size, h_.hidden);
      up = Project(mlp + "up_proj", Block(layer, "ffn_up"), in, size, h_.hidden);
    }
    ValueId active = kNone;
    if (h_.architecture == Architecture::kGemma3) {
      active = Op("", "Gelu", mlp + "act_fn/FastGelu", {gate}, DType::kFloat,
                  {{"approximate", std::string("tanh")}});
    } else {
      const ValueId sigmoid = Op("", "Sigmoid", mlp + "act_fn/Sigmoid", {gate}, DType::kFloat);
      active = Op("", "Mul", mlp + "act_fn/Mul", {gate, sigmoid}, DType::kFloat);
    }
    const ValueId product = Op("", "Mul", mlp + "Mul", {active, up}, DType::kFloat);
    added_ = Project(mlp + "down_proj", Block(layer, "ffn_down"), product, h_.hidden, size);
    if (four_norms())
      added_ = Normalized(base + "post_feedforward_layernorm", Block(layer, "post_ffw_norm"), added_);
  }

  void Head(ValueId in) {
    const ValueId logits = g_->AddValue("logits", DType::kFloat);
    g_->value(logits).declared =
        graph::DeclaredShape{{-1, "batch_size"}, {-1, "sequence_length"}, {h_.vocab_size, ""}};
    g_->outputs = {logits};
    const bool bias = weights_.Has("output.bias");
    const bool cap = h_.final_softcap > 0;
    ValueId weight = embedding_;
    if (weights_.Has("output.weight"))
      weight = g_->AddConstant("lm_head.MatMul.weight",
                               weights_.Matrix("output.weight", h_.vocab_size, h_.hidden));
    ValueId out = Multiply("/lm_head/MatMul", in, weight, bias || cap ? kNone : logits);
    if (bias) out = AddBias("/lm_head/Add", "output.bias", out, h_.vocab_size, cap ? kNone : logits);
    if (!cap) return;
    const ValueId limit = Float(h_.final_softcap);
    out = Op("", "Div", "/lm_head/softcap/Div", {out, limit}, DType::kFloat);
    out = Op("", "Tanh", "/lm_head/softcap/Tanh", {out}, DType::kFloat);
    Op("", "Mul", "/lm_head/softcap/Mul", {out, limit}, DType::kFloat, {}, logits);
  }

  const GgufFile& file_;
  Weights weights_;
  const bool require_data_;
  const Hyperparameters h_;
  const DType kv_dtype_;
  const std::shared_ptr<graph::Graph> g_;
  int64_t positions_ = 0;

  ValueId input_ids_ = kNone;
  ValueId mask_ = kNone;
  ValueId seqlens_ = kNone;
  ValueId total_ = kNone;
  std::vector<ValueId> past_;  // key and value of each layer
  std::vector<ValueId> present_;
  Tables tables_;
  Tables local_tables_;
  ValueId embedding_ = kNone;
  ValueId residual_ = kNone;
  ValueId added_ = kNone;  // what the last block adds to the residual stream
};

}  // namespace

std::shared_ptr<graph::Graph> ImportGguf(const std::shared_ptr<const GgufFile>& file,
                                         const ImportOptions& options) {
  if (options.kv_dtype != DType::kFloat16 && options.kv_dtype != DType::kFloat)
    Throw(Code::kUsage, "keys and values can be float16 or float32, found ", NameOf(options.kv_dtype));
  return Importer(file, options).Run();
}

std::shared_ptr<graph::Graph> ImportGguf(const std::string& path, const ImportOptions& options) {
  return ImportGguf(GgufFile::Open(path, options.require_data), options);
}

void SetPositions(graph::Graph& graph, int64_t positions) {
  for (const char* suffix : {"", "_global", "_local"})
    for (const char* stem : {"cos_cache", "sin_cache"}) {
      const ValueId v = graph.FindValue(std::string(stem) + suffix);
      const graph::Constant* table = graph.ConstantOf(v);
      if (!table) continue;
      const Shape shape{positions, table->shape[1]};
      graph.value(v).constant =
          graph::MakeAbsent(table->dtype, shape, "tables are not computed for planning");
    }
}

}  // namespace ullage::gguf
