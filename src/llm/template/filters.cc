#include "llm/template/filters.h"

#include "llm/template/text.h"

namespace ullage::llm::jinja {

FunctionObject::Code FindFilter(std::string_view name) {
  for (const auto find : {FindTextFilter, FindSequenceFilter, FindLazyFilter, FindValueFilter}) {
    if (const FunctionObject::Code code = find(name)) return code;
  }
  return nullptr;
}

namespace {

/// The function that a template names by a value, as in map("upper").
FunctionObject::Code ByValue(Runtime& rt, const char* kind, FunctionObject::Code (*find)(std::string_view),
                             const Value& name) {
  if (name.undefined())
    Fail("No ", kind, " named Undefined. (", name.as<UndefinedObject>().message,
         "; did you forget to quote the callable name?)");
  const FunctionObject::Code code = name.string() ? find(Text(name)) : nullptr;
  if (code == nullptr) Fail("No ", kind, " named ", ToRepr(rt, name), ".");
  return code;
}

}  // namespace

Value CallFilter(Runtime& rt, const Value& name, const Value& input, Args args) {
  return ByValue(rt, "filter", FindFilter, name)(rt, input, args);
}

bool CallTest(Runtime& rt, const Value& name, const Value& input, Args args) {
  return Truthy(rt, ByValue(rt, "test", FindTest, name)(rt, input, args));
}

AttributeGetter::AttributeGetter(Runtime& rt, const Value& path, bool ignore_case, Value fallback)
    : rt_(rt), ignore_case_(ignore_case), fallback_(std::move(fallback)) {
  if (path.missing() || path.none()) return;
  if (!path.string()) {
    parts_.push_back(path);
    return;
  }
  const std::string_view text = Text(path);
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    int64_t index = 0;
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos &&
        ParseInt(part, 10, index)) {
      parts_.push_back(Value::Int(index));
    } else {
      parts_.push_back(rt.Str(part));
    }
    begin = end + 1;
  }
}

Value AttributeGetter::operator()(const Value& item) const {
  Value v = item;
  for (const Value& part : parts_) {
    v = GetItem(rt_, v, part);
    if (v.undefined() && !fallback_.missing() && !fallback_.none()) v = fallback_;
  }
  if (ignore_case_ && v.string()) return rt_.Str(ToLower(Text(v)));
  return v;
}

}  // namespace ullage::llm::jinja
