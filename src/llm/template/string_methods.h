/// The methods of str, in two files.
#pragma once

#include <string_view>

#include "llm/template/filters.h"

namespace ullage::llm::jinja {

/// Those that search, strip and split; null if the name is none of them.
const NamedCode* FindSearchMethod(std::string_view name);

}  // namespace ullage::llm::jinja
