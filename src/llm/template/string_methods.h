/// The methods of str, in two files.
#pragma once

#include <string>
#include <string_view>

#include "llm/template/filters.h"
#include "llm/template/text.h"

namespace ullage::llm::jinja {

/// Those that search, strip and split; null if the name is none of them.
const NamedCode* FindSearchMethod(std::string_view name);

/// Whether a string is markup.
inline bool IsSafe(const Value& v) {
  return v.as<StringObject>().safe;
}

/// An argument that must be a string.
inline const std::string& TextArg(const char* function, const Value& v) {
  if (v.undefined()) FailUndefined(v);
  if (!v.string()) Fail(function, "() argument must be str, not ", TypeName(v));
  return Text(v);
}

}  // namespace ullage::llm::jinja
