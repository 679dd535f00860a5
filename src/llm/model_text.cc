#include "llm/model_text.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "gguf/tokenizer_data.h"

namespace ullage::llm {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::shared_ptr<const Tokenizer> LoadTokenizer(const ModelSource& source) {
  if (source.kind == ModelSource::Kind::kGguf) {
    const gguf::TokenizerData d = gguf::ReadTokenizerData(source.gguf);
    GgufTokenizerData t;
    t.model = d.model;
    t.pre = d.pre;
    t.architecture = source.type;
    t.tokens = d.tokens;
    t.scores = d.scores;
    t.token_types = d.token_types;
    t.merges = d.merges;
    t.bos = d.bos;
    t.eos = d.eos;
    t.unknown = d.unknown;
    t.pad = d.padding;
    t.add_bos = d.add_bos;
    t.add_eos = d.add_eos;
    t.add_space_prefix = d.add_space_prefix;
    auto tokenizer = LoadGgufTokenizer(t);
    source.gguf->DropHeader();
    return tokenizer;
  }
  std::error_code error;
  for (const fs::path& folder : {fs::path(source.folder), fs::path(source.folder) / ".."})
    for (const char* name : {"tokenizer.json", "tokenizer.model", "vocab.json"})
      if (fs::exists(folder / name, error)) return LoadTokenizerFolder(folder.string());
  return nullptr;
}

ChatSource LoadChatSource(const ModelSource& source) {
  if (source.kind != ModelSource::Kind::kGguf) {
    std::error_code error;
    ChatSource chat = ReadChatSource(source.folder);
    if (chat.templates.empty() && !fs::exists(fs::path(source.folder) / "tokenizer_config.json", error))
      chat = ReadChatSource((fs::path(source.folder) / "..").string());
    chat.model = source.name;
    return chat;
  }
  const gguf::TokenizerData d = gguf::ReadTokenizerData(source.gguf);
  Json special = Json::object();
  const auto add = [&](const char* name, std::optional<int32_t> id) {
    if (id && *id >= 0 && static_cast<size_t>(*id) < d.tokens.size())
      special[name] = std::string(d.tokens[static_cast<size_t>(*id)]);
  };
  add("bos_token", d.bos);
  add("eos_token", d.eos);
  add("unk_token", d.unknown);
  add("pad_token", d.padding);
  ChatSource chat = MakeChatSource(source.file, std::string(d.chat_template), special);
  if (d.chat_template.empty()) chat.templates.clear();
  for (const auto& [name, text] : d.named_templates)
    chat.templates.push_back({name, source.file, std::string(text)});
  chat.model = source.name;
  source.gguf->DropHeader();
  return chat;
}

}  // namespace ullage::llm
