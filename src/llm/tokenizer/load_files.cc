#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/mapped_file.h"
#include "llm/tokenizer/bpe.h"
#include "llm/tokenizer/gguf_pre.h"
#include "llm/tokenizer/json_scanner.h"
#include "llm/tokenizer/tokenizer_parts.h"
#include "llm/tokenizer/unicode.h"

namespace ullage::llm {
namespace {

namespace fs = std::filesystem;

/// A file that is mapped while its bytes are needed; empty if it does not exist.
class FileText {
 public:
  explicit FileText(const fs::path& path) {
    std::error_code error;
    if (fs::is_regular_file(path, error)) file_ = MappedFile::Open(path.string());
  }
  std::string_view text() const {
    if (!file_) return {};
    return {reinterpret_cast<const char*>(file_->bytes().data()), file_->bytes().size()};
  }

 private:
  std::shared_ptr<const MappedFile> file_;
};

bool LooksLikeJson(std::string_view text) {
  const size_t at = text.find_first_not_of(" \t\r\n");
  return at != std::string_view::npos && text[at] == '{';
}

/// GPT-2's files: vocab.json, merges.txt, and tokenizer_config.json for the rest.
std::shared_ptr<const Tokenizer> ParseVocabAndMerges(const fs::path& folder, const TokenizerConfig& config) {
  const fs::path vocab_path = folder / "vocab.json", merges_path = folder / "merges.txt";
  const FileText vocab(vocab_path), merges(merges_path);
  const std::string name = vocab_path.string();
  JsonScanner scanner(vocab.text(), name);
  if (!IsValidUtf8(vocab.text())) scanner.Fail("not UTF-8");
  TokenTable tokens;
  scanner.Object([&](std::string_view token) { tokens.Add(token, scanner.Integer()); });
  scanner.End();
  tokens.Freeze();

  BpeModel::Builder builder(std::move(tokens), BpeOptions());
  std::string_view rest = merges.text();
  if (!IsValidUtf8(rest)) Throw(Code::kInvalidModel, merges_path.string(), ": not UTF-8");
  for (bool first = true; !rest.empty(); first = false) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (first && line.starts_with("#version"))) continue;
    builder.AddMergeLine(line);
  }
  TokenizerParts parts;
  parts.model = builder.Build();
  const bool prefix_space = config.add_prefix_space.value_or(false);
  if (config.tokenizer_class.starts_with("Qwen2")) {
    const GgufPreTokenizer qwen = FindGgufPreTokenizer("qwen2");
    std::vector<std::unique_ptr<const PreTokenizer>> stages;
    stages.push_back(MakeRegexSplit(Regex::Compile(qwen.patterns[0]), SplitBehavior::kIsolated, false));
    stages.push_back(MakeByteLevel(prefix_space, false));
    parts.pre_tokenizer = MakeSequence(std::move(stages));
    parts.normalizer = BuildNormalizer({{"type", "NFC"}});
  } else if (config.tokenizer_class.starts_with("CLIP")) {
    Throw(Code::kUnsupported, folder.string(), ": vocab.json and merges.txt of a ", config.tokenizer_class);
  } else {
    parts.pre_tokenizer = MakeByteLevel(prefix_space, true);
  }
  parts.decoder.push_back(MakeByteLevelDecoder());

  config.AddMissing(parts);
  const TokenTable& table = parts.model->tokens();
  const auto special = [&](const std::optional<std::string>& text) {
    const TokenId id = text ? table.Find(*text) : kNoToken;
    const auto known = [&](const AddedToken& t) { return t.content == *text; };
    if (id != kNoToken && std::none_of(parts.added.begin(), parts.added.end(), known)) {
      parts.added.push_back({*text, id, false, false, false, false, true, true});
    }
    return id;
  };
  const TokenId bos = special(config.bos), eos = special(config.eos);
  special(config.unknown);
  const TokenId cls = special(config.cls), sep = special(config.sep);
  const bool roberta = config.tokenizer_class.find("Roberta") != std::string::npos ||
                       config.tokenizer_class.starts_with("Bart");
  if (roberta && cls != kNoToken && sep != kNoToken) {
    parts.post_processor = BuildPostProcessor(
        {{"type", "RobertaProcessing"}, {"cls", {*config.cls, cls}}, {"sep", {*config.sep, sep}}});
  } else {
    std::vector<TokenId> before, after;
    if (bos != kNoToken && config.add_bos.value_or(false)) before.push_back(bos);
    if (eos != kNoToken && config.add_eos.value_or(false)) after.push_back(eos);
    parts.post_processor = MakeSurroundProcessor(std::move(before), std::move(after));
  }
  return std::make_shared<const Tokenizer>(std::move(parts));
}

}  // namespace

std::shared_ptr<const Tokenizer> LoadTokenizerFile(const std::string& path) {
  const std::shared_ptr<const MappedFile> file = MappedFile::Open(path);
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  // A SentencePiece model by itself means what the sentencepiece library does; the config would change that.
  if (!LooksLikeJson(text)) return ParseSentencePiece(text, path);
  const FileText config(fs::path(path).parent_path() / "tokenizer_config.json");
  return ParseTokenizerJson(text, path, config.text());
}

std::shared_ptr<const Tokenizer> LoadTokenizerFolder(const std::string& folder) {
  const fs::path root(folder);
  std::error_code error;
  if (!fs::is_directory(root, error)) Throw(Code::kInvalidModel, folder, ": not a folder");
  if (fs::is_regular_file(root / "tokenizer.json", error)) {
    return LoadTokenizerFile((root / "tokenizer.json").string());
  }
  const FileText config(root / "tokenizer_config.json");
  if (fs::is_regular_file(root / "vocab.json", error) && fs::is_regular_file(root / "merges.txt", error)) {
    return ParseVocabAndMerges(root, TokenizerConfig::Parse(config.text()));
  }
  for (const char* name : {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model"}) {
    if (!fs::is_regular_file(root / name, error)) continue;
    const FileText file(root / name);
    return ParseSentencePiece(file.text(), (root / name).string(), config.text());
  }
  Throw(Code::kInvalidModel, folder,
        ": no tokenizer.json, no vocab.json with merges.txt, no tokenizer.model");
}

}  // namespace ullage::llm
