/// The requests of `ullage template`: {"messages":[…],"template":"…","now":"2026-01-05T08:07:09", …} ->
/// {"text":"…"}. `template` overrides the model's, `now` (local time; default: the clock) is what
/// strftime_now formats, every other key is a variable of the template (`tools` and `documents` null,
/// `add_generation_prompt` false when absent).
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

#include "llm/template/chat_prompt.h"

namespace ullage::llm {

/// Renders one request. Throws kInvalidInput or kUnsupported.
std::string RenderTemplateRequest(const ChatSource& source, std::string_view request);

/// The answer as one line of JSON: {"text":"…"}, or {"error":{"code":"…","message":"…"}} for a request that
/// fails. Never throws an Error.
std::string AnswerTemplate(const ChatSource& source, std::string_view request);

/// Answers every line of `in` that is not empty, in order.
void AnswerTemplateLines(const ChatSource& source, std::istream& in, std::ostream& out);

}  // namespace ullage::llm
