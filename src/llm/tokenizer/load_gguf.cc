#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "llm/tokenizer/bpe.h"
#include "llm/tokenizer/gguf_pre.h"
#include "llm/tokenizer/tokenizer_parts.h"
#include "llm/tokenizer/unicode.h"

namespace ullage::llm {
namespace {

constexpr const char* kSpaceMark = "\xE2\x96\x81";

/// Type of a token; normal where the file has none.
PieceType TypeOf(const GgufTokenizerData& data, size_t i) {
  if (data.token_types.empty()) return PieceType::kNormal;
  const int32_t type = data.token_types[i];
  if (type < 0 || type > 6) Throw(Code::kInvalidModel, "tokenizer.ggml.token_type[", i, "] is ", type);
  return type == 0 ? PieceType::kNormal : static_cast<PieceType>(type);
}

void CheckId(const GgufTokenizerData& data, std::optional<TokenId> id, const char* key) {
  if (id && (*id < 0 || static_cast<size_t>(*id) >= data.tokens.size())) {
    Throw(Code::kInvalidModel, key, " is ", *id, "; there are ", data.tokens.size(), " tokens");
  }
}

void Check(const GgufTokenizerData& data) {
  if (data.tokens.empty()) Throw(Code::kInvalidModel, "tokenizer.ggml.tokens is missing or empty");
  if (data.tokens.size() > static_cast<size_t>(std::numeric_limits<TokenId>::max())) {
    Throw(Code::kInvalidModel, "tokenizer.ggml.tokens has ", data.tokens.size(), " entries");
  }
  const auto same_size = [&](size_t size, const char* key) {
    if (size != 0 && size != data.tokens.size()) {
      Throw(Code::kInvalidModel, key, " has ", size, " entries, tokenizer.ggml.tokens has ",
            data.tokens.size());
    }
  };
  same_size(data.scores.size(), "tokenizer.ggml.scores");
  same_size(data.token_types.size(), "tokenizer.ggml.token_type");
  CheckId(data, data.bos, "tokenizer.ggml.bos_token_id");
  CheckId(data, data.eos, "tokenizer.ggml.eos_token_id");
  CheckId(data, data.unknown, "tokenizer.ggml.unknown_token_id");
  CheckId(data, data.pad, "tokenizer.ggml.padding_token_id");
}

TokenTable BuildTable(const GgufTokenizerData& data) {
  TokenTable tokens;
  size_t bytes = 0;
  for (std::string_view token : data.tokens) bytes += token.size();
  tokens.Reserve(data.tokens.size(), bytes);
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    const std::string_view token = data.tokens[i];
    const auto id = static_cast<int64_t>(i);
    if (IsValidUtf8(token)) {
      tokens.Add(token, id, TokenTable::Duplicate::kKeepFirst);
    } else {
      tokens.Add(ToValidUtf8(token), id, TokenTable::Duplicate::kKeepFirst);
    }
  }
  tokens.Freeze();
  return tokens;
}

std::vector<AddedToken> SpecialTokens(const GgufTokenizerData& data, const TokenTable& tokens) {
  std::vector<AddedToken> added;
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    PieceType type = TypeOf(data, i);
    // Files without types, and some with wrong ones: what the file calls BOS and EOS is special.
    if (type == PieceType::kNormal && (data.bos == id || data.eos == id)) type = PieceType::kControl;
    const bool special = type == PieceType::kControl || type == PieceType::kUnknown;
    if (!special && type != PieceType::kUserDefined) continue;
    const std::string text(*tokens.TextOf(id));
    if (tokens.Find(text) != id) continue;
    AddedToken token{text, id, false, false, false, false, special, true};
    // Phi-3 takes the white space behind its markers, but not behind these.
    token.rstrip = data.architecture == "phi3" && data.model == "llama" && text != "<s>" && text != "<unk>" &&
                   text != "<|endoftext|>";
    added.push_back(std::move(token));
  }
  return added;
}

void BuildByteLevel(const GgufTokenizerData& data, TokenTable tokens, TokenizerParts& parts, bool& add_bos) {
  const GgufPreTokenizer pre = FindGgufPreTokenizer(data.pre);
  add_bos = pre.add_bos;
  BpeOptions options;
  options.ignore_merges = pre.ignore_merges;
  BpeModel::Builder builder(std::move(tokens), options);
  builder.Reserve(data.merges.size());
  for (size_t i = 0; i < data.merges.size(); ++i) {
    const std::string_view line = data.merges[i];
    const size_t space = line.find(' ', 1);  // the left token may itself begin with one
    if (space == std::string_view::npos || !IsValidUtf8(line)) {
      Throw(Code::kInvalidModel, "tokenizer.ggml.merges[", i,
            "] is not two tokens with a space between them");
    }
    builder.AddMerge(line.substr(0, space), line.substr(space + 1), true);
  }
  parts.model = builder.Build();
  if (pre.nfc) parts.normalizer = BuildNormalizer({{"type", "NFC"}});
  std::vector<std::unique_ptr<const PreTokenizer>> stages;
  for (const char* pattern : pre.patterns) {
    stages.push_back(MakeRegexSplit(Regex::Compile(pattern), SplitBehavior::kIsolated, false));
  }
  stages.push_back(MakeByteLevel(data.add_space_prefix.value_or(false), false));
  parts.pre_tokenizer = MakeSequence(std::move(stages));
  parts.decoder.push_back(MakeByteLevelDecoder());
}

void BuildSentencePiece(const GgufTokenizerData& data, TokenTable tokens, TokenizerParts& parts) {
  if (data.scores.empty()) Throw(Code::kInvalidModel, "tokenizer.ggml.scores is missing");
  std::vector<PieceType> types;
  bool bytes = false;
  TokenId unknown = data.unknown.value_or(kNoToken);
  for (size_t i = 0; i < data.tokens.size(); ++i) {
    if (std::isnan(data.scores[i]))
      Throw(Code::kInvalidModel, "tokenizer.ggml.scores[", i, "] is not a number");
    types.push_back(TypeOf(data, i));
    bytes = bytes || types.back() == PieceType::kByte;
    if (types.back() == PieceType::kUnknown && unknown == kNoToken) unknown = static_cast<TokenId>(i);
  }
  parts.model = std::make_unique<ScoreBpeModel>(std::move(tokens), data.scores, std::move(types),
                                                ScoreBpeModel::Options{unknown, bytes, true, false});
  using nlohmann::json;
  const json space_to_mark = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceMark}};
  const json mark_to_space = {{"type", "Replace"}, {"pattern", {{"String", kSpaceMark}}}, {"content", " "}};
  json decoders = json::array({mark_to_space, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  json normalizers = json::array({space_to_mark});
  if (data.add_space_prefix.value_or(true)) {
    const json prepend = {{"type", "Prepend"}, {"prepend", kSpaceMark}};
    normalizers = json::array({prepend, space_to_mark});
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  parts.normalizer = BuildNormalizer({{"type", "Sequence"}, {"normalizers", normalizers}});
  parts.decoder = BuildDecoder({{"type", "Sequence"}, {"decoders", decoders}});
}

}  // namespace

std::shared_ptr<const Tokenizer> LoadGgufTokenizer(const GgufTokenizerData& data) {
  Check(data);
  TokenizerParts parts;
  TokenTable tokens = BuildTable(data);
  parts.added = SpecialTokens(data, tokens);
  bool add_bos = true;
  if (data.model == "gpt2") {
    BuildByteLevel(data, std::move(tokens), parts, add_bos);
  } else if (data.model == "llama") {
    BuildSentencePiece(data, std::move(tokens), parts);
  } else {
    Throw(Code::kUnsupported, "GGUF tokenizer '", data.model, "' (tokenizer.ggml.model) is not supported");
  }
  std::vector<TokenId> before, after;
  if (data.bos && data.add_bos.value_or(add_bos)) before.push_back(*data.bos);
  if (data.eos && data.add_eos.value_or(false)) after.push_back(*data.eos);
  parts.post_processor = MakeSurroundProcessor(std::move(before), std::move(after));
  return std::make_shared<const Tokenizer>(std::move(parts));
}

}  // namespace ullage::llm
