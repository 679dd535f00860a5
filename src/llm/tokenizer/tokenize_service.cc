#include "llm/tokenizer/tokenize_service.h"

#include <filesystem>
#include <istream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "core/error.h"
#include "llm/tokenizer/unicode.h"

namespace ullage::llm {
namespace {

using nlohmann::json;

constexpr int kMaxRequestDepth = 8;

std::string ErrorAnswer(Code code, const std::string& message) {
  const json answer = {{"error", {{"code", CodeName(code)}, {"message", message}}}};
  return answer.dump(-1, ' ', true, json::error_handler_t::replace);
}

json ParseRequest(std::string_view request) {
  const auto shallow = [](int depth, json::parse_event_t, json&) {
    if (depth > kMaxRequestDepth) Throw(Code::kInvalidInput, "the request is nested too deeply");
    return true;
  };
  json parsed;
  try {
    parsed = json::parse(ToValidUtf8(request), shallow);
  } catch (const json::exception& e) {
    Throw(Code::kInvalidInput, "the request is not JSON: ", e.what());
  }
  if (!parsed.is_object()) Throw(Code::kInvalidInput, "the request is not a JSON object");
  return parsed;
}

bool Flag(const json& request, const char* key, bool otherwise) {
  const auto it = request.find(key);
  if (it == request.end()) return otherwise;
  if (!it->is_boolean()) Throw(Code::kInvalidInput, "'", key, "' must be true or false");
  return it->get<bool>();
}

const std::string& TextMember(const json& request, const char* key) {
  const auto it = request.find(key);
  if (it == request.end() || !it->is_string())
    Throw(Code::kInvalidInput, "the request needs '", key, "', a string");
  return it->get_ref<const std::string&>();
}

template <class Fn>
std::string Guard(const Fn& fn) {
  try {
    return fn();
  } catch (const Error& e) {
    return ErrorAnswer(e.code(), e.message());
  } catch (const std::bad_alloc&) {
    return ErrorAnswer(Code::kRuntime, "out of memory");
  }
}

}  // namespace

std::string IdsAsJson(const std::vector<TokenId>& ids) {
  return json{{"ids", ids}}.dump();
}
std::string TextAsJson(std::string_view text) {
  return json{{"text", text}}.dump();
}

std::string AnswerTokenize(const Tokenizer& tokenizer, std::string_view request) {
  return Guard([&]() -> std::string {
    const json parsed = ParseRequest(request);
    const std::string& text = TextMember(parsed, "text");
    const bool special = Flag(parsed, "special", true);
    if (!parsed.contains("pair")) return IdsAsJson(tokenizer.Encode(text, special));
    const PairEncoding pair = tokenizer.EncodePair(text, TextMember(parsed, "pair"), special);
    return json{{"ids", pair.ids}, {"type_ids", pair.type_ids}}.dump();
  });
}

std::string AnswerDetokenize(const Tokenizer& tokenizer, std::string_view request) {
  return Guard([&]() -> std::string {
    const json parsed = ParseRequest(request);
    const auto list = parsed.find("ids");
    if (list == parsed.end() || !list->is_array())
      Throw(Code::kInvalidInput, "the request needs 'ids', an array");
    std::vector<TokenId> ids;
    ids.reserve(list->size());
    for (const json& id : *list) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() > static_cast<uint64_t>(INT32_MAX)) {
        Throw(Code::kInvalidInput, "'ids' holds ", id.dump(), "; token ids are integers from 0 to ",
              INT32_MAX);
      }
      ids.push_back(id.get<TokenId>());
    }
    return TextAsJson(tokenizer.Decode(ids, Flag(parsed, "skip_special", false)));
  });
}

std::shared_ptr<const Tokenizer> OpenTokenizer(const std::string& model) {
  std::error_code error;
  return std::filesystem::is_directory(model, error) ? LoadTokenizerFolder(model) : LoadTokenizerFile(model);
}

void AnswerLines(std::istream& in, std::ostream& out,
                 const std::function<std::string(std::string_view)>& answer) {
  for (std::string line; std::getline(in, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    out << answer(line) << '\n';
  }
  out.flush();
}

}  // namespace ullage::llm
