#include "gguf/tokenizer_data.h"

#include <algorithm>
#include <array>

#include "core/error.h"

namespace ullage::gguf {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";
constexpr std::string_view kTemplate = "tokenizer.chat_template";
constexpr int32_t kNormal = 1;
constexpr int32_t kByte = 6;

/// Texts of special tokens with which models end a turn or a text. Not </s>: Gemma has it as a piece of HTML.
constexpr std::string_view kEndMarkers[] = {
    "<|im_end|>",      "<|endoftext|>",   "<|eot_id|>",    "<|eom_id|>",
    "<|end_of_text|>", "<|end|>",         "<end_of_turn>", "<end_of_utterance>",
    "<|return|>",      "<|end_of_turn|>", "<EOT>"};

class Source {
 public:
  explicit Source(const GgufFile& file) : file_(file) {}

  static std::string Name(std::string_view key) { return std::string(kPrefix) + std::string(key); }
  const MetaValue* Find(std::string_view key) const { return file_.Find(Name(key)); }
  std::optional<bool> Bool(std::string_view key) const { return file_.Bool(Name(key)); }

  /// Numbers beyond the vocabulary: none where the token is only a convenience, else an error.
  std::optional<int32_t> Id(std::string_view key, size_t tokens, bool needed) const {
    const auto id = file_.Int(Name(key));
    if (!id || *id == -1 || *id == 0xffffffff) return std::nullopt;
    if (*id >= 0 && *id < static_cast<int64_t>(tokens)) return static_cast<int32_t>(*id);
    if (!needed) return std::nullopt;
    file_.FailKey(*Find(key), StrCat("token ", *id, " is outside the vocabulary of ", tokens));
  }

  void CheckCount(std::string_view key, size_t found, size_t tokens) const {
    if (found != 0 && found != tokens)
      file_.FailKey(*Find(key),
                    StrCat("expected one element for each of ", tokens, " tokens, found ", found));
  }

 private:
  const GgufFile& file_;
};

void ReadTemplates(const GgufFile& file, TokenizerData& data) {
  data.chat_template = file.String(kTemplate).value_or("");
  for (const MetaValue& v : file.metadata()) {
    if (v.key.size() <= kTemplate.size() + 1 || !v.key.starts_with(kTemplate) ||
        v.key[kTemplate.size()] != '.')
      continue;
    data.named_templates.emplace(std::string(v.key.substr(kTemplate.size() + 1)), *file.String(v.key));
  }
  if (!data.chat_template.empty()) return;
  if (const auto it = data.named_templates.find("default"); it != data.named_templates.end())
    data.chat_template = it->second;
}

void FindStopIds(TokenizerData& data) {
  for (const auto& id : {data.eos, data.eot, data.eom})
    if (id) data.stop_ids.push_back(*id);
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    if (!data.token_types.empty() && (data.token_types[i] == kNormal || data.token_types[i] == kByte))
      continue;
    if (data.token_types.empty() && !data.tokens[i].starts_with('<')) continue;
    if (std::find(std::begin(kEndMarkers), std::end(kEndMarkers), data.tokens[i]) != std::end(kEndMarkers))
      data.stop_ids.push_back(static_cast<int32_t>(i));
  }
  std::sort(data.stop_ids.begin(), data.stop_ids.end());
  data.stop_ids.erase(std::unique(data.stop_ids.begin(), data.stop_ids.end()), data.stop_ids.end());
}

}  // namespace

TokenizerData ReadTokenizerData(const std::shared_ptr<const GgufFile>& file) {
  const Source source(*file);
  TokenizerData data;
  data.file = file;
  const auto model = file->String(Source::Name("model"));
  if (!model) Throw(Code::kInvalidModel, file->path(), ": key ", Source::Name("model"), " is missing");
  data.model = *model;
  data.pre = file->String(Source::Name("pre")).value_or("");
  data.tokens = file->Strings(Source::Name("tokens")).value_or(std::vector<std::string_view>());
  const size_t count = data.tokens.size();
  if (count == 0)
    Throw(Code::kInvalidModel, file->path(), ": the tokenizer (", Printable(data.model),
          ") has no tokens (key ", Source::Name("tokens"), ")");
  if (count > static_cast<size_t>(INT32_MAX))
    file->FailKey(*source.Find("tokens"), "more tokens than 31 bits can count");
  data.scores = file->Floats(Source::Name("scores")).value_or(std::vector<float>());
  source.CheckCount("scores", data.scores.size(), count);
  const auto types = file->Ints(Source::Name("token_type")).value_or(std::vector<int64_t>());
  source.CheckCount("token_type", types.size(), count);
  data.token_types.reserve(types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] < 0 || types[i] > kByte)
      file->FailKey(*source.Find("token_type"),
                    StrCat("token ", i, " has type ", types[i], ", expected 0 to ", kByte));
    data.token_types.push_back(static_cast<int32_t>(types[i]));
  }
  data.merges = file->Strings(Source::Name("merges")).value_or(std::vector<std::string_view>());

  struct Slot {
    const char* key;
    std::optional<int32_t> TokenizerData::*id;
    bool needed;
  };
  constexpr Slot kSlots[] = {
      {"bos_token_id", &TokenizerData::bos, true},
      {"eos_token_id", &TokenizerData::eos, true},
      {"eot_token_id", &TokenizerData::eot, true},
      {"eom_token_id", &TokenizerData::eom, true},
      {"unknown_token_id", &TokenizerData::unknown, false},
      {"seperator_token_id", &TokenizerData::separator, false},  // as the format spells it
      {"padding_token_id", &TokenizerData::padding, false},
      {"cls_token_id", &TokenizerData::cls, false},
      {"mask_token_id", &TokenizerData::mask, false},
      {"prefix_token_id", &TokenizerData::fim_prefix, false},
      {"suffix_token_id", &TokenizerData::fim_suffix, false},
      {"middle_token_id", &TokenizerData::fim_middle, false},
      {"fim_pre_token_id", &TokenizerData::fim_prefix, false},
      {"fim_suf_token_id", &TokenizerData::fim_suffix, false},
      {"fim_mid_token_id", &TokenizerData::fim_middle, false}};
  for (const Slot& slot : kSlots)
    if (const auto id = source.Id(slot.key, count, slot.needed)) data.*slot.id = id;
  data.add_bos = source.Bool("add_bos_token");
  data.add_eos = source.Bool("add_eos_token");
  data.add_sep = source.Bool("add_sep_token");
  data.add_space_prefix = source.Bool("add_space_prefix");
  data.remove_extra_whitespaces = source.Bool("remove_extra_whitespaces");
  if (const MetaValue* v = source.Find("precompiled_charsmap")) {
    if (!v->is_array() ||
        (v->count != 0 && v->element != ValueType::kUInt8 && v->element != ValueType::kInt8))
      file->FailKey(*v, "expected an array of bytes");
    data.precompiled_charsmap = {reinterpret_cast<const char*>(v->bytes.data()), v->bytes.size()};
  }
  FindStopIds(data);
  ReadTemplates(*file, data);
  return data;
}

ModelDescription ReadDescription(const GgufFile& file) {
  // By number of general.file_type; empty where a type was removed from the format.
  constexpr std::string_view kFileTypes[] = {
      "F32",    "F16",      "Q4_0",     "Q4_1",     "Q4_1 some F16", "",       "",          "Q8_0",
      "Q5_0",   "Q5_1",     "Q2_K",     "Q3_K_S",   "Q3_K_M",        "Q3_K_L", "Q4_K_S",    "Q4_K_M",
      "Q5_K_S", "Q5_K_M",   "Q6_K",     "IQ2_XXS",  "IQ2_XS",        "Q2_K_S", "IQ3_XS",    "IQ3_XXS",
      "IQ1_S",  "IQ4_NL",   "IQ3_S",    "IQ3_M",    "IQ2_S",         "IQ2_M",  "IQ4_XS",    "IQ1_M",
      "BF16",   "Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",         "TQ2_0",  "MXFP4 MoE", "NVFP4"};
  ModelDescription d;
  d.name = file.String("general.name").value_or("");
  d.architecture = file.String("general.architecture").value_or("");
  d.size_label = file.String("general.size_label").value_or("");
  d.license = file.String("general.license").value_or("");
  if (const auto type = file.Int("general.file_type")) {
    const bool known = *type >= 0 && *type < static_cast<int64_t>(std::size(kFileTypes)) &&
                       !kFileTypes[static_cast<size_t>(*type)].empty();
    d.file_type =
        known ? std::string(kFileTypes[static_cast<size_t>(*type)]) : StrCat("unknown (", *type, ")");
  }
  return d;
}

}  // namespace ullage::gguf
