/// Values from JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "llm/template/runtime.h"

namespace ullage::llm::jinja {

/// Objects become dicts in the order of their members. Throws for text that is no UTF-8, integers beyond 64
/// bits and values nested too deeply.
Value FromJson(Runtime& rt, const nlohmann::ordered_json& json);
std::shared_ptr<DictObject> DictFromJson(Runtime& rt, const nlohmann::ordered_json& object);

}  // namespace ullage::llm::jinja

namespace ullage::llm {

/// Parses JSON text for use as template variables: members keep their order, and an integer that fits neither
/// int64 nor uint64 is kUnsupported instead of being rounded to a float. Throws kInvalidInput for bad JSON;
/// `what` names the text.
nlohmann::ordered_json ParseJson(std::string_view text, std::string_view what);

}  // namespace ullage::llm
