#include <charconv>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"
#include "llm/tokenizer/bpe.h"
#include "llm/tokenizer/json_fields.h"
#include "llm/tokenizer/json_scanner.h"
#include "llm/tokenizer/tokenizer_parts.h"
#include "llm/tokenizer/unicode.h"
#include "llm/tokenizer/word_models.h"

namespace ullage::llm {
namespace {

using Members = std::unordered_map<std::string, std::string_view>;

/// The members of an object as raw text. Those that hold whole vocabularies are checked when they are read.
/// Of a member "model" the members are taken apart, too, into `model` if that is given.
Members ScanMembers(JsonScanner& scanner, Members* model = nullptr) {
  Members members;
  scanner.Object([&](std::string_view key) {
    const std::string name(key);
    if (model != nullptr && name == "model") {
      *model = ScanMembers(scanner);
    } else {
      members[name] = name == "vocab" || name == "merges" ? scanner.SkipQuickly() : scanner.Skip();
    }
  });
  return members;
}

nlohmann::json Parse(const Members& members, const char* key) {
  const auto it = members.find(key);
  return it == members.end() ? nlohmann::json() : nlohmann::json::parse(it->second);
}

TokenTable ParseVocabulary(std::string_view text) {
  TokenTable tokens;
  tokens.Reserve(text.size() / 16, text.size() / 2);
  JsonScanner scanner(text, "model.vocab");
  scanner.Object([&](std::string_view token) { tokens.Add(token, scanner.Integer()); });
  scanner.End();
  tokens.Freeze();
  return tokens;
}

std::string_view RequireMember(const Members& model, const char* key) {
  const auto it = model.find(key);
  if (it == model.end()) Throw(Code::kInvalidModel, "model: '", key, "' is missing");
  return it->second;
}

std::unique_ptr<const Model> BuildBpe(const Members& model, const nlohmann::json& fields) {
  BpeOptions options;
  options.unknown = OptionalString(fields, "unk_token", "model");
  options.subword_prefix = OptionalString(fields, "continuing_subword_prefix", "model");
  options.word_suffix = OptionalString(fields, "end_of_word_suffix", "model");
  if (options.subword_prefix && options.subword_prefix->empty()) options.subword_prefix.reset();
  if (options.word_suffix && options.word_suffix->empty()) options.word_suffix.reset();
  options.fuse_unknown = BoolField(fields, "fuse_unk", false, "model");
  options.byte_fallback = BoolField(fields, "byte_fallback", false, "model");
  options.ignore_merges = BoolField(fields, "ignore_merges", false, "model");
  BpeModel::Builder builder(ParseVocabulary(RequireMember(model, "vocab")), std::move(options));
  const std::string_view text = RequireMember(model, "merges");
  builder.Reserve(text.size() / 16);
  JsonScanner scanner(text, "model.merges");
  std::string left;
  bool first = true;
  scanner.Array([&] {
    if (scanner.Peek() != '[') {
      const std::string_view line = scanner.String();
      if (!std::exchange(first, false) || !line.starts_with("#version")) builder.AddMergeLine(line);
      return;
    }
    first = false;
    int count = 0;
    scanner.Array([&] {
      const std::string_view part = scanner.String();
      if (count == 0) left = part;
      if (count == 1) builder.AddMerge(left, part);
      ++count;
    });
    if (count != 2) scanner.Fail("a merge must have two tokens");
  });
  scanner.End();
  return builder.Build();
}

std::unique_ptr<const Model> BuildUnigram(const Members& model, const nlohmann::json& fields) {
  TokenTable tokens;
  std::vector<double> scores;
  JsonScanner scanner(RequireMember(model, "vocab"), "model.vocab");
  scanner.Array([&] {
    int count = 0;
    scanner.Array([&] {
      if (count == 0) {
        tokens.Add(scanner.String(), static_cast<int64_t>(scores.size()), TokenTable::Duplicate::kKeepFirst);
      } else {
        scores.push_back(scanner.Number());
      }
      if (++count > 2) scanner.Fail("a piece must have a text and a score");
    });
    if (count != 2) scanner.Fail("a piece must have a text and a score");
  });
  scanner.End();
  tokens.Freeze();
  UnigramModel::Options options;
  options.byte_fallback = BoolField(fields, "byte_fallback", false, "model");
  if (FindField(fields, "unk_id", "model") != nullptr) {
    options.unknown = static_cast<TokenId>(
        IntegerField(fields, "unk_id", 0, static_cast<int64_t>(scores.size()) - 1, "model"));
  }
  return std::make_unique<UnigramModel>(std::move(tokens), std::move(scores), std::vector<bool>(), options);
}

std::unique_ptr<const Model> BuildModel(const Members& model) {
  nlohmann::json fields = nlohmann::json::object();
  for (const auto& [key, value] : model) {
    if (key != "vocab" && key != "merges") fields[key] = nlohmann::json::parse(value);
  }
  std::string type = OptionalString(fields, "type", "model").value_or("");
  if (type.empty()) {  // files of early versions
    const std::string_view vocabulary = RequireMember(model, "vocab");
    type = model.contains("merges")                     ? "BPE"
           : vocabulary[0] == '['                       ? "Unigram"
           : model.contains("max_input_chars_per_word") ? "WordPiece"
                                                        : "WordLevel";
  }
  if (type == "BPE") return BuildBpe(model, fields);
  if (type == "Unigram") return BuildUnigram(model, fields);
  if (type == "WordPiece") {
    int64_t most = 100;
    if (fields.contains("max_input_chars_per_word")) {
      most = IntegerField(fields, "max_input_chars_per_word", 0, INT32_MAX, "model");
    }
    return std::make_unique<WordPieceModel>(
        ParseVocabulary(RequireMember(model, "vocab")),
        OptionalString(fields, "unk_token", "model").value_or("[UNK]"),
        OptionalString(fields, "continuing_subword_prefix", "model").value_or("##"),
        static_cast<size_t>(most));
  }
  if (type == "WordLevel") {
    return std::make_unique<WordLevelModel>(ParseVocabulary(RequireMember(model, "vocab")),
                                            OptionalString(fields, "unk_token", "model").value_or("<unk>"));
  }
  Throw(Code::kUnsupported, "model of type '", type, "' is not supported");
}

/// `id` < 0: the object names its id itself.
AddedToken ParseAddedToken(const nlohmann::json& entry, int64_t id, std::string_view where) {
  AddedToken token;
  token.content = StringField(entry, "content", where);
  token.id = static_cast<TokenId>(id >= 0 ? id : IntegerField(entry, "id", 0, INT32_MAX - 1, where));
  token.single_word = BoolField(entry, "single_word", false, where);
  token.lstrip = BoolField(entry, "lstrip", false, where);
  token.rstrip = BoolField(entry, "rstrip", false, where);
  token.special = BoolField(entry, "special", false, where);
  token.normalized = BoolField(entry, "normalized", !token.special, where);
  return token;
}

/// As `tokenizers` does, ids of the file are not believed: a token that the model has, too, goes by the
/// model's id, the others are numbered on from the size of the model's vocabulary.
void AddTokens(const nlohmann::json& list, TokenizerParts& parts) {
  if (list.is_null()) return;
  if (!list.is_array())
    Throw(Code::kInvalidModel, "'added_tokens' must be an array, found ", list.type_name());
  const TokenTable& model = parts.model->tokens();
  auto next = static_cast<TokenId>(model.size());
  std::unordered_map<std::string, size_t> places;
  for (const nlohmann::json& entry : list) {
    AddedToken token = ParseAddedToken(entry, -1, "added_tokens");
    if (token.content.empty()) continue;
    if (const auto [it, fresh] = places.emplace(token.content, parts.added.size()); !fresh) {
      token.id = parts.added[it->second].id;
      parts.added[it->second] = std::move(token);
      continue;
    }
    token.id = model.Find(token.content);
    if (token.id == kNoToken) token.id = next;
    next = std::max(next, token.id + 1);
    parts.added.push_back(std::move(token));
  }
}

}  // namespace

TokenizerConfig TokenizerConfig::Parse(std::string_view bytes) {
  TokenizerConfig config;
  constexpr std::string_view kWhere = "tokenizer_config.json";
  if (bytes.empty()) return config;
  JsonScanner scanner(bytes, kWhere);
  if (!IsValidUtf8(bytes)) scanner.Fail("not UTF-8");
  const Members members = ScanMembers(scanner);
  scanner.End();
  if (const nlohmann::json added = ullage::llm::Parse(members, "added_tokens_decoder"); added.is_object()) {
    for (const auto& [key, entry] : added.items()) {
      int64_t id = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= INT32_MAX) {
        Throw(Code::kInvalidModel, kWhere, ": added_tokens_decoder has '", key, "' where an id is expected");
      }
      config.added.push_back(ParseAddedToken(entry, id, kWhere));
    }
  }
  const auto flag = [&](const char* key) -> std::optional<bool> {
    const nlohmann::json value = ullage::llm::Parse(members, key);
    return value.is_boolean() ? std::optional(value.get<bool>()) : std::nullopt;
  };
  const auto token = [&](const char* key) -> std::optional<std::string> {
    const nlohmann::json value = ullage::llm::Parse(members, key);
    return value.is_string()   ? std::optional(value.get<std::string>())
           : value.is_object() ? OptionalString(value, "content", kWhere)
                               : std::nullopt;
  };
  config.add_bos = flag("add_bos_token");
  config.add_eos = flag("add_eos_token");
  config.add_prefix_space = flag("add_prefix_space");
  config.tokenizer_class = token("tokenizer_class").value_or("");
  config.bos = token("bos_token");
  config.eos = token("eos_token");
  config.unknown = token("unk_token");
  config.cls = token("cls_token");
  config.sep = token("sep_token");
  return config;
}

void TokenizerConfig::AddMissing(TokenizerParts& parts) const {
  const TokenTable& model = parts.model->tokens();
  const auto limit = static_cast<TokenId>(8 * (model.size() + added.size()) + (size_t{1} << 20));
  std::unordered_map<std::string, size_t> known;
  std::unordered_set<TokenId> taken;
  for (size_t i = 0; i < parts.added.size(); ++i) {
    known.emplace(parts.added[i].content, i);
    taken.insert(parts.added[i].id);
  }
  for (AddedToken token : added) {
    if (const TokenId id = model.Find(token.content); id != kNoToken) token.id = id;
    if (const auto it = known.find(token.content); it != known.end()) {
      AddedToken& mine = parts.added[it->second];
      if (!mine.parsed && mine.id == token.id) mine = token;
      continue;
    }
    const auto text = model.TextOf(token.id);
    const bool other = text && *text != token.content;
    if (token.content.empty() || other || token.id >= limit || !taken.insert(token.id).second) continue;
    known.emplace(token.content, parts.added.size());
    parts.added.push_back(std::move(token));
  }
}

std::shared_ptr<const Tokenizer> ParseTokenizerJson(std::string_view bytes, std::string_view name,
                                                    std::string_view config) {
  try {
    JsonScanner scanner(bytes, name);
    if (!IsValidUtf8(bytes)) scanner.Fail("not UTF-8");
    Members model;
    const Members members = ScanMembers(scanner, &model);
    scanner.End();
    TokenizerParts parts;
    if (model.empty()) Throw(Code::kInvalidModel, "'model' is missing");
    parts.model = BuildModel(model);
    AddTokens(Parse(members, "added_tokens"), parts);
    parts.normalizer = BuildNormalizer(Parse(members, "normalizer"));
    parts.pre_tokenizer = BuildPreTokenizer(Parse(members, "pre_tokenizer"));
    parts.post_processor = BuildPostProcessor(Parse(members, "post_processor"));
    parts.decoder = BuildDecoder(Parse(members, "decoder"));
    TokenizerConfig::Parse(config).AddMissing(parts);
    return std::make_shared<const Tokenizer>(std::move(parts));
  } catch (const Error& e) {
    if (std::string_view(e.message()).starts_with(name)) throw;
    throw Error(e.code(), StrCat(name, ": ", e.message()), e.details_json());
  } catch (const nlohmann::json::exception& e) {
    Throw(Code::kInvalidModel, name, ": ", e.what());
  }
}

}  // namespace ullage::llm
