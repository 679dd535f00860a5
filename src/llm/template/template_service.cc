#include "llm/template/template_service.h"

#include <exception>
#include <istream>
#include <ostream>

#include "core/error.h"
#include "llm/template/json_value.h"

namespace ullage::llm {
namespace {

using Json = nlohmann::ordered_json;

/// Removes and returns a member; null if it is not there.
Json Take(Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end()) return nullptr;
  Json value = std::move(*it);
  object.erase(it);
  return value;
}

std::string Line(const Json& answer) {
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string ErrorLine(std::string_view code, std::string_view message) {
  return Line({{"error", {{"code", code}, {"message", message}}}});
}

}  // namespace

std::string RenderTemplateRequest(const ChatSource& source, std::string_view text) {
  Json json = ParseJson(text, "request");
  if (!json.is_object())
    Throw(Code::kInvalidInput, "request: expected a JSON object, found ", json.type_name());
  ChatRequest request;
  request.adapt = false;
  request.add_generation_prompt = false;
  request.messages = Take(json, "messages");
  if (!request.messages.is_array()) {
    Throw(Code::kInvalidInput, "request: \"messages\" must be a list, found ", request.messages.type_name());
  }
  request.tools = Take(json, "tools");
  request.documents = Take(json, "documents");
  const Json now = Take(json, "now");
  if (now.is_string()) {
    request.now = LocalTime::Parse(now.get<std::string>());
  } else if (!now.is_null()) {
    Throw(Code::kInvalidInput, "request: \"now\" must be a string, found ", now.type_name());
  }
  const Json override = Take(json, "template");
  request.variables = std::move(json);
  if (override.is_null()) return ApplyChatTemplate(source, request);
  if (!override.is_string()) {
    Throw(Code::kInvalidInput, "request: \"template\" must be a string, found ", override.type_name());
  }
  return ApplyChatTemplate(MakeChatSource("template", override.get<std::string>(), source.special_tokens),
                           request);
}

std::string AnswerTemplate(const ChatSource& source, std::string_view request) {
  try {
    return Line({{"text", RenderTemplateRequest(source, request)}});
  } catch (const Error& e) {
    return ErrorLine(CodeName(e.code()), e.message());
  } catch (const std::exception& e) {
    return ErrorLine(CodeName(Code::kRuntime), e.what());
  }
}

void AnswerTemplateLines(const ChatSource& source, std::istream& in, std::ostream& out) {
  for (std::string line; std::getline(in, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    out << AnswerTemplate(source, line) << '\n' << std::flush;
  }
}

}  // namespace ullage::llm
