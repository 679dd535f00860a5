#include "llm/template/value.h"

#include "core/error.h"
#include "llm/template/text.h"

namespace ullage::llm::jinja {

void Budget::OutOfBytes() const {
  Throw(Code::kInvalidInput, "the template needs more than the ", max_bytes_, " bytes of memory it may use");
}

void Budget::OutOfSteps() const {
  Throw(Code::kInvalidInput, "the template takes more than the ", max_steps_, " steps it may take");
}

void Discard(std::vector<Value>&& values) {
  thread_local std::vector<Value> pending;
  thread_local bool draining = false;
  if (values.empty()) return;
  for (Value& v : values) {
    if (v.object() != nullptr) pending.push_back(std::move(v));
  }
  values.clear();
  if (draining) return;
  draining = true;
  while (!pending.empty()) {
    const Value last = std::move(pending.back());
    pending.pop_back();
  }
  draining = false;
  pending.shrink_to_fit();
}

StringObject::StringObject(std::string t, bool s)
    : text(std::move(t)), length(CountCodePoints(text)), safe(s) {}

DictObject::~DictObject() {
  std::vector<Value> all;
  all.reserve(items.size() * 2);
  for (auto& [key, value] : items) {
    all.push_back(std::move(key));
    all.push_back(std::move(value));
  }
  Discard(std::move(all));
}

void NamespaceObject::Clear() {
  const std::shared_ptr<DictObject> last = std::move(attributes);
  attributes = std::make_shared<DictObject>();
}

Value Args::Pop(std::string_view name) {
  for (auto it = named.begin(); it != named.end(); ++it) {
    if (it->first != name) continue;
    Value v = std::move(it->second);
    named.erase(it);
    return v;
  }
  return Value();
}

const char* TypeName(const Value& v) {
  switch (v.kind()) {
    case Kind::kMissing:
      return "missing";
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return v.as<StringObject>().safe ? "Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kRange:
      return "range";
    case Kind::kDictView:
      switch (v.as<DictViewObject>().part) {
        case DictViewObject::kKeys:
          return "dict_keys";
        case DictViewObject::kValues:
          return "dict_values";
        default:
          return "dict_items";
      }
    case Kind::kIterator:
      return "generator";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kMacro:
      return "Macro";
    case Kind::kFunction:
      return "builtin_function_or_method";
    case Kind::kLoop:
      return "LoopContext";
    case Kind::kCycler:
      return "Cycler";
  }
  return "object";
}

std::string ObjectTypeName(const Value& v) {
  switch (v.kind()) {
    case Kind::kNone:
      return "None";
    case Kind::kUndefined:
      return "jinja2.runtime.Undefined object";
    case Kind::kNamespace:
      return "jinja2.utils.Namespace object";
    case Kind::kMacro:
      return "jinja2.runtime.Macro object";
    case Kind::kLoop:
      return "jinja2.runtime.LoopContext object";
    case Kind::kCycler:
      return "jinja2.utils.Cycler object";
    default:
      return std::string(TypeName(v)) + " object";
  }
}

}  // namespace ullage::llm::jinja
