#include "llm/template/chat_template.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "llm/template/ast.h"
#include "llm/template/interpreter.h"
#include "llm/template/json_value.h"
#include "llm/template/raised.h"
#include "llm/template/text.h"

namespace ullage::llm {

struct Template::Parsed {
  std::string name;
  std::string source;
  jinja::TemplateTree tree;
};

namespace {

constexpr size_t kMaxSource = size_t{8} << 20;

/// Adds the place to an error's message.
[[noreturn]] void ThrowAt(const Error& e, const std::string& name, int line) {
  const nlohmann::ordered_json details = {{"template", name}, {"line", line}};
  throw Error(e.code(), StrCat(name, ", line ", line, ": ", e.message()), details.dump());
}

}  // namespace

Template Template::Parse(std::string_view source, std::string name) {
  auto parsed = std::make_shared<Parsed>();
  parsed->name = jinja::IsWellFormed(name, false) ? std::move(name) : "template";
  if (source.size() > kMaxSource) {
    Throw(Code::kInvalidInput, parsed->name, ": longer than ", kMaxSource, " bytes");
  }
  if (!jinja::IsWellFormed(source, false)) Throw(Code::kInvalidInput, parsed->name, ": not valid UTF-8");
  parsed->source = source;
  int line = 1;
  try {
    parsed->tree = jinja::ParseTemplate(source, line);
    jinja::ResolveScopes(parsed->tree, line);
  } catch (const Error& e) {
    ThrowAt(e, parsed->name, line);
  }
  return Template(std::move(parsed));
}

const std::string& Template::source() const {
  return parsed_->source;
}

std::string Template::Render(const nlohmann::ordered_json& variables, const RenderOptions& options) const {
  if (!variables.is_object()) Throw(Code::kInvalidInput, "the variables of a template must be a JSON object");
  jinja::Runtime rt(options);
  try {
    jinja::Interpreter interpreter(rt, parsed_->tree, jinja::DictFromJson(rt, variables));
    std::string text = interpreter.Run();
    if (!jinja::IsWellFormed(text, false))
      jinja::Fail("the text holds a lone surrogate, which UTF-8 cannot express");
    return text;
  } catch (const jinja::Raised& e) {
    const nlohmann::ordered_json details = {{"template", parsed_->name}, {"line", rt.line}, {"raised", true}};
    throw Error(e.code(), e.message(),
                details.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } catch (const Error& e) {
    ThrowAt(e, parsed_->name, rt.line);
  }
}

}  // namespace ullage::llm
