// Finds a model folder's chat templates and special tokens.
#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/read_file.h"
#include "llm/template/chat_prompt.h"
#include "llm/template/json_value.h"

namespace ullage::llm {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::optional<std::string> ReadIfThere(const fs::path& path) {
  std::error_code ec;
  if (!fs::is_regular_file(path, ec)) return std::nullopt;
  return ReadFile(path, Code::kInvalidModel);
}

/// The JSON object in a file; null if there is no such file.
Json ReadObject(const fs::path& path) {
  const std::optional<std::string> text = ReadIfThere(path);
  if (!text) return nullptr;
  Json json;
  try {
    json = ParseJson(*text, path.string());
  } catch (const Error& e) {
    throw Error(Code::kInvalidModel, e.message());
  }
  if (!json.is_object())
    Throw(Code::kInvalidModel, path.string(), ": expected a JSON object, found ", json.type_name());
  return json;
}

Json Member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() ? Json(nullptr) : *it;
}

/// A token's text: a string, or the content of an AddedToken object; null otherwise.
Json TokenText(const Json& token) {
  if (token.is_string()) return token;
  const Json content = Member(token, "content");
  return content.is_string() ? content : Json(nullptr);
}

/// "default" and the like from a chat_template value: text, a list of {name, template}, or an object name ->
/// template.
void AddTemplates(const Json& value, const std::string& origin, ChatSource& source) {
  const auto add = [&](const Json& name, const Json& text) {
    if (!name.is_string() || !text.is_string()) {
      Throw(Code::kInvalidModel, origin, ": a chat template must have a name and a text, found ",
            name.type_name(), " and ", text.type_name());
    }
    source.templates.push_back({name.get<std::string>(), origin, text.get<std::string>()});
  };
  if (value.is_null()) return;
  if (value.is_string()) {
    add("default", value);
  } else if (value.is_array()) {
    for (const Json& entry : value) add(Member(entry, "name"), Member(entry, "template"));
  } else if (value.is_object()) {
    for (const auto& [name, text] : value.items()) add(Json(name), text);
  } else {
    Throw(Code::kInvalidModel, origin, ": chat_template must be text or a list, found ", value.type_name());
  }
}

void AddSpecialTokens(const Json& config, Json& tokens) {
  if (!config.is_object()) return;
  for (const char* key :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}) {
    const Json text = TokenText(Member(config, key));
    if (!text.is_null() && !tokens.contains(key)) tokens[key] = text;
  }
  if (!tokens.contains("additional_special_tokens")) {
    Json list = Json::array();
    const Json additional = Member(config, "additional_special_tokens");
    if (additional.is_array()) {
      for (const Json& token : additional) {
        Json text = TokenText(token);
        if (!text.is_null()) list.push_back(std::move(text));
      }
    }
    if (!list.empty()) tokens["additional_special_tokens"] = std::move(list);
  }
  const Json extra = Member(config, "extra_special_tokens");
  if (!extra.is_object()) return;
  for (const auto& [name, token] : extra.items()) {
    const Json text = TokenText(token);
    if (!text.is_null() && !tokens.contains(name)) tokens[name] = text;
  }
}

void AddTemplateFiles(const fs::path& folder, ChatSource& source) {
  const fs::path main = folder / "chat_template.jinja";
  if (const auto text = ReadIfThere(main)) source.templates.push_back({"default", main.string(), *text});
  std::error_code ec;
  std::vector<fs::path> more;
  for (fs::directory_iterator it(folder / "additional_chat_templates", ec), end; !ec && it != end;
       it.increment(ec)) {
    if (it->path().extension() == ".jinja") more.push_back(it->path());
  }
  std::sort(more.begin(), more.end());
  for (const fs::path& path : more) {
    if (const auto text = ReadIfThere(path))
      source.templates.push_back({path.stem().string(), path.string(), *text});
  }
}

}  // namespace

const ChatSource::Named* ChatSource::Choose(bool with_tools) const {
  const auto find = [&](const char* name) -> const Named* {
    for (const Named& t : templates) {
      if (t.name == name) return &t;
    }
    return nullptr;
  };
  if (with_tools) {
    if (const Named* t = find("tool_use")) return t;
  }
  if (const Named* t = find("default")) return t;
  return templates.size() == 1 ? &templates[0] : nullptr;
}

ChatSource ReadChatSource(const std::string& folder) {
  ChatSource source;
  source.model = folder;
  const fs::path dir(folder);
  const Json config = ReadObject(dir / "tokenizer_config.json");
  AddTemplateFiles(dir, source);
  if (source.templates.empty()) {
    const fs::path path = dir / "chat_template.json";
    AddTemplates(Member(ReadObject(path), "chat_template"), path.string(), source);
  }
  if (source.templates.empty()) {
    AddTemplates(Member(config, "chat_template"), (dir / "tokenizer_config.json").string(), source);
  }
  AddSpecialTokens(config, source.special_tokens);
  AddSpecialTokens(ReadObject(dir / "special_tokens_map.json"), source.special_tokens);
  return source;
}

ChatSource MakeChatSource(std::string origin, std::string template_text, Json special_tokens) {
  ChatSource source;
  source.model = origin;
  source.templates.push_back({"default", std::move(origin), std::move(template_text)});
  source.special_tokens = std::move(special_tokens);
  return source;
}

}  // namespace ullage::llm
