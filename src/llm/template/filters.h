/// The filters of jinja2, by topic. Each takes the input value and the arguments of the call.
#pragma once

#include <string_view>
#include <vector>

#include "llm/template/runtime.h"

namespace ullage::llm::jinja {

struct NamedCode {
  std::string_view name;
  FunctionObject::Code code;
};

/// Null if the topic has no such filter.
FunctionObject::Code FindTextFilter(std::string_view name);
FunctionObject::Code FindSequenceFilter(std::string_view name);
FunctionObject::Code FindLazyFilter(std::string_view name);
FunctionObject::Code FindValueFilter(std::string_view name);

template <size_t kSize>
FunctionObject::Code Lookup(const NamedCode (&table)[kSize], std::string_view name) {
  for (const NamedCode& entry : table) {
    if (entry.name == name) return entry.code;
  }
  return nullptr;
}

/// Reads an attribute path ("address.city", 0, "a.0.b") off values.
class AttributeGetter {
 public:
  /// A path of none or missing gives the value itself. `fallback` (may be missing) replaces what is
  /// undefined.
  AttributeGetter(Runtime& rt, const Value& path, bool ignore_case = false, Value fallback = Value());
  Value operator()(const Value& item) const;

 private:
  Runtime& rt_;
  std::vector<Value> parts_;
  bool ignore_case_;
  Value fallback_;
};

/// True if the argument was given and is true.
inline bool Flag(Runtime& rt, const Value& v) {
  return !v.missing() && Truthy(rt, v);
}

}  // namespace ullage::llm::jinja
