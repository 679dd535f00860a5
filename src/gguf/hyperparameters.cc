#include "gguf/hyperparameters.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/error.h"

namespace ullage::gguf {
namespace {

struct ArchitectureInfo {
  std::string_view name;
  Architecture architecture;
  bool interleaved_rope;  // pairs of neighbours: the converter permutes Q and K of llama
};
constexpr ArchitectureInfo kArchitectures[] = {
    {"llama", Architecture::kLlama, true},    {"qwen2", Architecture::kQwen2, false},
    {"qwen3", Architecture::kQwen3, false},   {"phi3", Architecture::kPhi3, false},
    {"gemma3", Architecture::kGemma3, false},
};

/// Bound of every count: products of three of them stay below 2^63.
constexpr int64_t kMaxCount = 1 << 20;
constexpr int64_t kMaxContext = 1 << 24;
constexpr int64_t kMaxHeadSize = 8192;

/// Reads keys that begin with the architecture's name.
class Keys {
 public:
  Keys(const GgufFile& file, std::string_view prefix) : file_(file), prefix_(prefix) {}

  std::string Name(std::string_view suffix) const { return prefix_ + "." + std::string(suffix); }
  bool Has(std::string_view suffix) const { return file_.Find(Name(suffix)) != nullptr; }
  std::optional<int64_t> Int(std::string_view suffix) const { return file_.Int(Name(suffix)); }
  std::optional<double> Float(std::string_view suffix) const {
    const auto v = file_.Float(Name(suffix));
    if (v && !std::isfinite(*v)) Fail(suffix, StrCat("expected a finite number, found ", *v));
    return v;
  }
  [[noreturn]] void Fail(std::string_view suffix, const std::string& reason) const {
    file_.FailKey(*file_.Find(Name(suffix)), reason);
  }
  [[noreturn]] void Missing(std::string_view suffix) const {
    Throw(Code::kInvalidModel, file_.path(), ": key ", Name(suffix), " is missing");
  }
  [[noreturn]] void Unsupported(const std::string& what) const {
    Throw(Code::kUnsupported, file_.path(), ": ", what, " is not supported");
  }

  int64_t Count(std::string_view suffix, std::optional<int64_t> fallback, int64_t max) const {
    const auto v = Int(suffix);
    if (!v && fallback) return *fallback;
    if (!v) Missing(suffix);
    if (*v < 1 || *v > max) Fail(suffix, StrCat("expected 1 to ", max, ", found ", *v));
    return *v;
  }
  /// A count, or one per layer that are all the same.
  int64_t UniformCount(std::string_view suffix, std::optional<int64_t> fallback, int64_t layers) const {
    const MetaValue* v = file_.Find(Name(suffix));
    if (!v || !v->is_array()) return Count(suffix, fallback, kMaxCount);
    const auto counts = *file_.Ints(Name(suffix));
    if (counts.size() != static_cast<size_t>(layers))
      Fail(suffix, StrCat("expected one number for each of ", layers, " layers, found ", counts.size()));
    for (int64_t n : counts) {
      if (n != counts[0])
        Unsupported(StrCat("key ", v->key, " that varies by layer (", counts[0], " and ", n, ")"));
      if (n < 1 || n > kMaxCount) Fail(suffix, StrCat("expected 1 to ", kMaxCount, ", found ", n));
    }
    return counts[0];
  }
  double Positive(std::string_view suffix, std::optional<double> fallback) const {
    const auto v = Float(suffix);
    if (!v && fallback) return *fallback;
    if (!v) Missing(suffix);
    if (*v <= 0) Fail(suffix, StrCat("expected a positive number, found ", *v));
    return *v;
  }
  double NonNegative(std::string_view suffix, double fallback) const {
    const double v = Float(suffix).value_or(fallback);
    if (v < 0) Fail(suffix, StrCat("expected no negative number, found ", v));
    return v;
  }

  const GgufFile& file() const { return file_; }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

/// Keys whose features would change the result and are not built.
void RefuseFeatures(const Keys& keys) {
  for (const char* suffix :
       {"expert_count", "pooling_type", "nextn_predict_layers", "attention.shared_kv_layers",
        "embedding_length_per_layer_input", "attention.q_lora_rank", "attention.kv_lora_rank",
        "attention.key_length_mla", "attention.value_length_mla"}) {
    const MetaValue* v = keys.file().Find(keys.Name(suffix));
    if (!v || (!v->is_array() && *keys.Int(suffix) == 0)) continue;
    keys.Unsupported(StrCat(std::string_view(suffix) == "expert_count" ? "a mixture of experts (MoE): " : "",
                            "key ", v->key));
  }
  for (const char* suffix :
       {"attention.clamp_kqv", "attention.max_alibi_bias", "attention.temperature_scale"})
    if (keys.Float(suffix).value_or(0) != 0) keys.Unsupported("key " + keys.Name(suffix));
  for (const char* suffix : {"logit_scale", "residual_scale", "embedding_scale", "attention.output_scale"})
    if (keys.Float(suffix).value_or(1) != 1) keys.Unsupported("key " + keys.Name(suffix) + " other than 1");
  if (keys.file().Bool(keys.Name("use_parallel_residual")).value_or(false))
    keys.Unsupported("key " + keys.Name("use_parallel_residual"));
  if (!keys.file().Bool(keys.Name("attention.causal")).value_or(true))
    keys.Unsupported("attention that is not causal (key " + keys.Name("attention.causal") + ")");
  for (const char* suffix : {"rope.dimension_sections", "rope.scaling.alpha", "rope.dimension_count_swa",
                             "attention.key_length_swa", "attention.value_length_swa"})
    if (keys.Has(suffix)) keys.Unsupported("key " + keys.Name(suffix));
}

void ReadRopeScaling(const Keys& keys, const Hyperparameters& h, Rope& rope) {
  const bool long_factors = keys.file().FindTensor("rope_factors_long.weight") != nullptr ||
                            keys.file().FindTensor("rope_factors_short.weight") != nullptr;
  const auto type = keys.file().String(keys.Name("rope.scaling.type"));
  const char* factor_key = keys.Has("rope.scaling.factor") || !keys.Has("rope.scale_linear")
                               ? "rope.scaling.factor"
                               : "rope.scale_linear";
  const double factor = keys.NonNegative(factor_key, 1);
  rope.factor = factor == 0 ? 1 : factor;
  rope.original_context = keys.Count("rope.scaling.original_context_length", h.context_length, kMaxContext);
  rope.attention_factor =
      keys.Positive("rope.scaling.attn_factor", 1) * keys.Positive("rope.scaling.yarn_attn_factor", 1);
  if (!type) {
    rope.scaling = long_factors       ? RopeScaling::kLongRope
                   : rope.factor != 1 ? RopeScaling::kLinear
                                      : RopeScaling::kNone;
  } else if (*type == "none") {
    rope.scaling = RopeScaling::kNone;
    rope.factor = 1;
  } else if (*type == "linear") {
    rope.scaling = long_factors ? RopeScaling::kLongRope : RopeScaling::kLinear;
  } else if (*type == "longrope") {
    rope.scaling = RopeScaling::kLongRope;
  } else if (*type == "yarn") {
    rope.scaling = RopeScaling::kYarn;
    rope.yarn_extrapolation = keys.Float("rope.scaling.yarn_ext_factor").value_or(1);
    if (rope.yarn_extrapolation < 0) rope.yarn_extrapolation = 1;
    rope.yarn_beta_fast = keys.Positive("rope.scaling.yarn_beta_fast", 32);
    rope.yarn_beta_slow = keys.Positive("rope.scaling.yarn_beta_slow", 1);
    rope.yarn_log_multiplier = keys.NonNegative("rope.scaling.yarn_log_multiplier", 0);
  } else {
    Throw(Code::kUnsupported, keys.file().path(), ": rope scaling type \"", Printable(*type),
          "\" is not supported; expected none, linear, yarn or longrope");
  }
}

void ReadRope(const Keys& keys, bool interleaved, Hyperparameters& h) {
  h.rope.interleaved = interleaved;
  h.rope.dimensions = keys.Count("rope.dimension_count", h.head_size, h.head_size);
  if (h.rope.dimensions % 2 != 0)
    Throw(Code::kInvalidModel, keys.file().path(),
          ": the number of rotated elements of a head must be even, found ", h.rope.dimensions, " (key ",
          keys.Name("rope.dimension_count"), ", or the head size)");
  h.rope.base = keys.Positive("rope.freq_base", 10000);
  ReadRopeScaling(keys, h, h.rope);
  const bool windows = std::any_of(h.windows.begin(), h.windows.end(), [](int64_t w) { return w > 0; });
  if (!windows || (h.architecture != Architecture::kGemma3 && !keys.Has("rope.freq_base_swa"))) return;
  h.local_rope = true;
  h.rope_local.dimensions = h.rope.dimensions;
  h.rope_local.interleaved = interleaved;
  h.rope_local.base = keys.Positive("rope.freq_base_swa", 10000);
}

void ReadWindows(const Keys& keys, Hyperparameters& h) {
  h.windows.assign(static_cast<size_t>(h.layers), -1);
  const int64_t window = keys.Int("attention.sliding_window").value_or(0);
  if (window < 0)
    keys.Fail("attention.sliding_window", StrCat("expected no negative number, found ", window));
  if (window == 0) return;
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  const MetaValue* pattern = keys.file().Find(keys.Name(kPattern));
  if (pattern && pattern->is_array()) {
    const auto local = *keys.file().Ints(keys.Name(kPattern));
    if (local.size() != h.windows.size())
      keys.Fail(kPattern,
                StrCat("expected one element for each of ", h.layers, " layers, found ", local.size()));
    for (size_t i = 0; i < local.size(); ++i)
      if (local[i] != 0) h.windows[i] = window;
    return;
  }
  // Period p: every p-th layer sees everything; 0: none does.
  int64_t period = h.architecture == Architecture::kGemma3 ? 6 : 0;
  if (pattern) period = *keys.Int(kPattern);
  if (period < 0) keys.Fail(kPattern, StrCat("expected no negative number, found ", period));
  for (int64_t i = 0; i < h.layers; ++i)
    if (period == 0 || i % period < period - 1) h.windows[static_cast<size_t>(i)] = window;
}

float AttentionScale(const Keys& keys, const Hyperparameters& h) {
  const double given = keys.NonNegative("attention.scale", 0);
  if (given > 0) return static_cast<float>(given);
  // Gemma 3 27B is the one size whose queries are scaled by hidden / heads instead of the head size.
  const bool by_hidden = h.architecture == Architecture::kGemma3 && h.layers == 62;
  const double size = by_hidden ? static_cast<double>(h.hidden / h.heads) : static_cast<double>(h.head_size);
  return static_cast<float>(1 / std::sqrt(size));
}

void CheckQuantization(const GgufFile& file) {
  const auto version = file.Int("general.quantization_version");
  if (!version || *version == 2) return;
  const bool blocks = std::any_of(file.tensors().begin(), file.tensors().end(),
                                  [](const auto& t) { return !t.type->is_dense(); });
  if (blocks)
    Throw(Code::kUnsupported, file.path(), ": key general.quantization_version: ", *version,
          " is not supported for block types; expected 2");
}

}  // namespace

std::string KnownArchitectures() {
  std::string list;
  for (const auto& a : kArchitectures) list += (list.empty() ? "" : ", ") + std::string(a.name);
  return list;
}

Hyperparameters ReadHyperparameters(const GgufFile& file) {
  const std::string_view name = file.architecture();
  const auto* info = std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                                  [&](const ArchitectureInfo& a) { return a.name == name; });
  if (info == std::end(kArchitectures))
    Throw(Code::kUnsupported, file.path(), ": architecture \"", Printable(name),
          "\" is not supported; expected one of ", KnownArchitectures());
  const Keys keys(file, name);
  RefuseFeatures(keys);
  CheckQuantization(file);

  Hyperparameters h;
  h.architecture = info->architecture;
  h.architecture_name = name;
  h.context_length = keys.Count("context_length", std::nullopt, kMaxContext);
  h.layers = keys.Count("block_count", std::nullopt, kMaxCount);
  if (static_cast<size_t>(h.layers) > file.tensors().size())
    keys.Fail("block_count",
              StrCat(h.layers, " layers, but the file has only ", file.tensors().size(), " tensors"));
  h.hidden = keys.Count("embedding_length", std::nullopt, kMaxCount);
  h.feed_forward = keys.UniformCount("feed_forward_length", std::nullopt, h.layers);
  h.heads = keys.UniformCount("attention.head_count", std::nullopt, h.layers);
  h.kv_heads = keys.UniformCount("attention.head_count_kv", h.heads, h.layers);
  if (h.heads % h.kv_heads != 0)
    Throw(Code::kInvalidModel, file.path(), ": key ", keys.Name("attention.head_count"), ": ", h.heads,
          " query heads are no multiple of ", h.kv_heads, " key heads");
  std::optional<int64_t> head_size;
  if (const int64_t size = h.hidden / h.heads; size > 0 && size <= kMaxHeadSize) head_size = size;
  h.head_size = keys.Count("attention.key_length", head_size, kMaxHeadSize);
  const int64_t value_size = keys.Count("attention.value_length", h.head_size, kMaxHeadSize);
  if (value_size != h.head_size)
    keys.Unsupported(
        StrCat("a value head size (", value_size, ") other than the key head size (", h.head_size, ")"));
  h.norm_epsilon = static_cast<float>(keys.Positive("attention.layer_norm_rms_epsilon", std::nullopt));
  h.attention_softcap = static_cast<float>(keys.NonNegative("attn_logit_softcapping", 0));
  h.final_softcap = static_cast<float>(keys.NonNegative("final_logit_softcapping", 0));
  if (h.architecture == Architecture::kGemma3) h.embedding_scale = std::sqrt(static_cast<float>(h.hidden));
  h.attention_scale = AttentionScale(keys, h);
  ReadWindows(keys, h);
  ReadRope(keys, info->interleaved_rope, h);

  const TensorInfo* embedding = file.FindTensor("token_embd.weight");
  if (!embedding) Throw(Code::kInvalidModel, file.path(), ": tensor token_embd.weight is missing");
  if (embedding->shape.rank() != 2 || embedding->shape[1] != h.hidden)
    Throw(Code::kInvalidModel, file.path(), ": tensor token_embd.weight has shape ",
          embedding->shape.ToString(), ", expected [vocabulary,", h.hidden, "]");
  h.vocab_size = embedding->shape[0];
  if (const auto v = keys.Int("vocab_size"); v && *v != h.vocab_size)
    keys.Fail("vocab_size",
              StrCat("found ", *v, ", but tensor token_embd.weight has ", h.vocab_size, " rows"));
  if (const MetaValue* tokens = file.Find("tokenizer.ggml.tokens");
      tokens && tokens->is_array() && tokens->count > static_cast<uint64_t>(h.vocab_size))
    file.FailKey(*tokens, StrCat("found ", tokens->count, " tokens, but tensor token_embd.weight has only ",
                                 h.vocab_size, " rows"));
  return h;
}

}  // namespace ullage::gguf
