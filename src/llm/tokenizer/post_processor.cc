#include "llm/tokenizer/post_processor.h"

#include <map>
#include <utility>

#include "llm/tokenizer/json_fields.h"

namespace ullage::llm {
namespace {

constexpr std::string_view kWhere = "tokenizer.json: post_processor";

class SequenceProcessor final : public PostProcessor {
 public:
  explicit SequenceProcessor(std::vector<std::unique_ptr<const PostProcessor>> parts)
      : parts_(std::move(parts)) {}
  void Apply(std::vector<TokenRun>& runs, bool add_special) const override {
    for (const auto& part : parts_) part->Apply(runs, add_special);
  }

 private:
  std::vector<std::unique_ptr<const PostProcessor>> parts_;
};

/// A place of a template: a sequence (0 or 1), or fixed tokens.
struct Place {
  int sequence;
  std::vector<TokenId> ids;
  int32_t type_id;
};

class TemplateProcessor final : public PostProcessor {
 public:
  TemplateProcessor(std::vector<Place> single, std::vector<Place> pair)
      : single_(std::move(single)), pair_(std::move(pair)) {}

  void Apply(std::vector<TokenRun>& runs, bool add_special) const override {
    if (runs.size() > 2) {
      Throw(Code::kUnsupported, kWhere, ": a template behind a template (", runs.size(), " sequences)");
    }
    std::vector<TokenRun> out;
    for (const Place& place : runs.size() == 1 ? single_ : pair_) {
      if (place.sequence < 0) {
        if (add_special) out.push_back({place.ids, place.type_id});
      } else if (static_cast<size_t>(place.sequence) < runs.size()) {
        out.push_back({runs[static_cast<size_t>(place.sequence)].ids, place.type_id});
      }
    }
    runs = std::move(out);
  }

 private:
  std::vector<Place> single_, pair_;
};

/// Bert: CLS A SEP, B SEP with types 0 and 1. Roberta: CLS A SEP, SEP B SEP, all of type 0.
class ClsSepProcessor final : public PostProcessor {
 public:
  ClsSepProcessor(TokenId cls, TokenId sep, bool roberta) : cls_(cls), sep_(sep), roberta_(roberta) {}
  void Apply(std::vector<TokenRun>& runs, bool add_special) const override {
    for (size_t i = 0; i < runs.size(); ++i) {
      TokenRun& run = runs[i];
      if (roberta_) run.type_id = 0;
      if (!add_special) continue;
      if (!roberta_) run.type_id = i == 0 ? 0 : 1;
      if (i == 0) run.ids.insert(run.ids.begin(), cls_);
      if (i > 0 && roberta_) run.ids.insert(run.ids.begin(), sep_);
      run.ids.push_back(sep_);
    }
  }

 private:
  TokenId cls_, sep_;
  bool roberta_;
};

class SurroundProcessor final : public PostProcessor {
 public:
  SurroundProcessor(std::vector<TokenId> before, std::vector<TokenId> after)
      : before_(std::move(before)), after_(std::move(after)) {}
  void Apply(std::vector<TokenRun>& runs, bool add_special) const override {
    if (!add_special) return;
    for (TokenRun& run : runs) {
      run.ids.insert(run.ids.begin(), before_.begin(), before_.end());
      run.ids.insert(run.ids.end(), after_.begin(), after_.end());
    }
  }

 private:
  std::vector<TokenId> before_, after_;
};

using SpecialTokens = std::map<std::string, std::vector<TokenId>>;

std::vector<Place> BuildTemplate(const nlohmann::json& places, const SpecialTokens& special) {
  std::vector<Place> out;
  for (const nlohmann::json& entry : places) {
    if (const nlohmann::json* token = FindField(entry, "SpecialToken", kWhere)) {
      const std::string id = StringField(*token, "id", kWhere);
      const auto it = special.find(id);
      if (it == special.end()) {
        Throw(Code::kInvalidModel, kWhere, ": special token '", id,
              "' of the template is not among special_tokens");
      }
      out.push_back(
          {-1, it->second, static_cast<int32_t>(IntegerField(*token, "type_id", 0, INT32_MAX, kWhere))});
    } else {
      const nlohmann::json& sequence = RequireField(entry, "Sequence", kWhere);
      const std::string id = StringField(sequence, "id", kWhere);
      if (id != "A" && id != "B")
        Throw(Code::kInvalidModel, kWhere, ": sequence '", id, "' is neither A nor B");
      out.push_back({id == "A" ? 0 : 1,
                     {},
                     static_cast<int32_t>(IntegerField(sequence, "type_id", 0, INT32_MAX, kWhere))});
    }
  }
  return out;
}

std::unique_ptr<const PostProcessor> BuildTemplateProcessor(const nlohmann::json& config) {
  SpecialTokens special;
  if (const nlohmann::json* tokens = FindField(config, "special_tokens", kWhere)) {
    if (!tokens->is_object()) FailField(*tokens, "special_tokens", "an object", kWhere);
    for (const auto& [name, token] : tokens->items()) {
      std::vector<TokenId>& ids = special[name];
      for (const nlohmann::json& id : ArrayField(token, "ids", kWhere)) {
        const bool fits = id.is_number_unsigned() && id.get<uint64_t>() < static_cast<uint64_t>(INT32_MAX);
        if (!fits) Throw(Code::kInvalidModel, kWhere, ": special token '", name, "' has an id out of range");
        ids.push_back(id.get<TokenId>());
      }
    }
  }
  return std::make_unique<TemplateProcessor>(BuildTemplate(ArrayField(config, "single", kWhere), special),
                                             BuildTemplate(ArrayField(config, "pair", kWhere), special));
}

/// The id of a ["text", id] member.
TokenId TokenPair(const nlohmann::json& config, const char* key) {
  const nlohmann::json& pair = ArrayField(config, key, kWhere);
  if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_number_integer() || pair[1] < 0 ||
      pair[1] >= INT32_MAX) {
    Throw(Code::kInvalidModel, kWhere, ": '", key, "' must be a token and its id");
  }
  return pair[1].get<TokenId>();
}

}  // namespace

std::unique_ptr<const PostProcessor> BuildPostProcessor(const nlohmann::json& config) {
  if (config.is_null()) return nullptr;
  const std::string type = StringField(config, "type", kWhere);
  if (type == "Sequence") {
    std::vector<std::unique_ptr<const PostProcessor>> parts;
    for (const nlohmann::json& part : ArrayField(config, "processors", kWhere)) {
      if (auto built = BuildPostProcessor(part)) parts.push_back(std::move(built));
    }
    return std::make_unique<SequenceProcessor>(std::move(parts));
  }
  if (type == "TemplateProcessing") return BuildTemplateProcessor(config);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    return std::make_unique<ClsSepProcessor>(TokenPair(config, "cls"), TokenPair(config, "sep"),
                                             type == "RobertaProcessing");
  }
  if (type == "ByteLevel") return nullptr;
  Throw(Code::kUnsupported, kWhere, " of type '", type, "' is not supported");
}

std::unique_ptr<const PostProcessor> MakeSurroundProcessor(std::vector<TokenId> before,
                                                           std::vector<TokenId> after) {
  return std::make_unique<SurroundProcessor>(std::move(before), std::move(after));
}

}  // namespace ullage::llm
