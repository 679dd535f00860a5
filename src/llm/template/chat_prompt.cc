#include "llm/template/chat_prompt.h"

#include "core/error.h"

namespace ullage::llm {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNeedle = "needle-7f3a";

/// A message's reasoning goes by several names; templates find it under each of them.
Json AliasReasoning(const Json& messages) {
  if (!messages.is_array()) return messages;
  Json out = Json::array();
  for (const Json& message : messages) {
    const Json* reasoning = nullptr;
    if (message.is_object()) {
      for (const char* key : {"reasoning_content", "thinking", "reasoning"}) {
        const auto it = message.find(key);
        if (reasoning == nullptr && it != message.end() && !it->is_null()) reasoning = &*it;
      }
    }
    if (reasoning == nullptr) {
      out.push_back(message);
      continue;
    }
    Json aliased = {{"thinking", *reasoning}};
    for (const auto& [key, value] : message.items()) aliased[key] = value;
    aliased["reasoning_content"] = *reasoning;
    out.push_back(std::move(aliased));
  }
  return out;
}

bool IsRaised(const Error& e) {
  return e.details_json().find("\"raised\":true") != std::string::npos;
}

/// True if a user message with this content comes out as text.
bool Prints(const Template& t, Json variables, const Json& content, const RenderOptions& options) {
  variables["messages"] = Json::array({{{"role", "user"}, {"content", content}}});
  try {
    const std::string text = t.Render(variables, options);
    return text.find(kNeedle) != std::string::npos && text.find("'type'") == std::string::npos &&
           text.find("\"type\"") == std::string::npos;
  } catch (const Error&) {
    return false;
  }
}

bool IsTextParts(const Json& content) {
  if (!content.is_array() || content.empty()) return false;
  for (const Json& part : content) {
    if (!part.is_object() || part.value("type", "") != "text" || !part.contains("text") ||
        !part["text"].is_string()) {
      return false;
    }
  }
  return true;
}

std::string JoinParts(const Json& parts) {
  std::string out;
  for (const Json& part : parts) out += (out.empty() ? "" : "\n") + part["text"].get<std::string>();
  return out;
}

/// Brings message contents into the form that the template prints.
void AdaptContents(const Template& t, Json& variables, const RenderOptions& options) {
  Json& messages = variables["messages"];
  bool has_text = false, has_parts = false;
  for (const Json& m : messages) {
    if (!m.is_object() || !m.contains("content")) continue;
    has_text |= m["content"].is_string();
    has_parts |= IsTextParts(m["content"]);
  }
  Json probe = variables;
  probe.erase("messages");
  probe["tools"] = nullptr;
  const Json parts = Json::array({{{"type", "text"}, {"text", kNeedle}}});
  const bool prints_text = has_text || has_parts ? Prints(t, probe, kNeedle, options) : true;
  if (has_text && !prints_text && Prints(t, probe, parts, options)) {
    for (Json& m : messages) {
      if (!m.is_object() || !m.contains("content") || !m["content"].is_string()) continue;
      m["content"] = Json::array({{{"type", "text"}, {"text", m["content"]}}});
    }
  } else if (has_parts && prints_text && !Prints(t, probe, parts, options)) {
    for (Json& m : messages) {
      if (m.is_object() && m.contains("content") && IsTextParts(m["content"]))
        m["content"] = JoinParts(m["content"]);
    }
  }
}

/// Puts a leading system message in front of the first user message; false if that cannot be done.
bool MergeSystem(Json& messages) {
  if (messages.size() < 2 || !messages[0].is_object() || messages[0].value("role", "") != "system")
    return false;
  Json& user = messages[1];
  if (!user.is_object() || user.value("role", "") != "user") return false;
  const Json &a = messages[0]["content"], &b = user["content"];
  if (a.is_string() && b.is_string()) {
    user["content"] = a.get<std::string>() + "\n\n" + b.get<std::string>();
  } else if (IsTextParts(a) && b.is_array()) {
    Json merged = a;
    for (const Json& part : b) merged.push_back(part);
    user["content"] = std::move(merged);
  } else {
    return false;
  }
  messages.erase(0);
  return true;
}

}  // namespace

Json ChatVariables(const ChatSource& source, const ChatRequest& request) {
  if (!source.special_tokens.is_object() || !request.variables.is_object()) {
    Throw(Code::kInvalidInput, "special tokens and variables of a chat must be JSON objects");
  }
  Json variables = source.special_tokens;
  variables["messages"] = AliasReasoning(request.messages);
  variables["tools"] = request.tools;
  variables["documents"] = request.documents;
  variables["add_generation_prompt"] = request.add_generation_prompt;
  for (const auto& [key, value] : request.variables.items()) variables[key] = value;
  return variables;
}

std::string ApplyChatTemplate(const ChatSource& source, const ChatRequest& request,
                              const RenderOptions& limits) {
  const ChatSource::Named* chosen = source.Choose(!request.tools.is_null());
  if (chosen == nullptr) {
    Throw(Code::kInvalidInput, source.model.empty() ? "the model" : source.model,
          source.templates.empty() ? " has no chat template"
                                   : " has several chat templates and none of them is the default",
          "; give one with --template FILE, or use --raw to send the text as it is");
  }
  const Template t = Template::Parse(chosen->source, chosen->origin);
  RenderOptions options = limits;
  if (request.now) options.now = *request.now;
  Json variables = ChatVariables(source, request);
  if (!request.adapt || !variables["messages"].is_array()) return t.Render(variables, options);
  AdaptContents(t, variables, options);
  try {
    return t.Render(variables, options);
  } catch (const Error& e) {
    if (!IsRaised(e) || !MergeSystem(variables["messages"])) throw;
    try {
      return t.Render(variables, options);
    } catch (const Error&) {
      throw e;
    }
  }
}

}  // namespace ullage::llm
