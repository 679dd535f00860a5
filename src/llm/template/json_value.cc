#include "llm/template/json_value.h"

#include <nlohmann/json.hpp>

#include "llm/template/text.h"

namespace ullage::llm::jinja {
namespace {

Value String(Runtime& rt, const std::string& text) {
  if (!IsWellFormed(text, false)) Fail("a string among the variables is not valid UTF-8");
  return rt.Str(text);
}

}  // namespace

Value FromJson(Runtime& rt, const nlohmann::ordered_json& json) {
  using Type = nlohmann::ordered_json::value_t;
  rt.CheckStack();
  switch (json.type()) {
    case Type::null:
    case Type::discarded:
      return Value::None();
    case Type::boolean:
      return Value::Bool(json.get<bool>());
    case Type::number_integer:
      return Value::Int(json.get<int64_t>());
    case Type::number_unsigned: {
      const auto u = json.get<uint64_t>();
      if (u > static_cast<uint64_t>(INT64_MAX)) Unsupported("the integer ", u, " does not fit into 64 bits");
      return Value::Int(static_cast<int64_t>(u));
    }
    case Type::number_float:
      return Value::Float(json.get<double>());
    case Type::string:
      return String(rt, json.get_ref<const std::string&>());
    case Type::array: {
      std::vector<Value> items;
      rt.budget.Foresee(json.size() * sizeof(Value));
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(FromJson(rt, item));
      return rt.List(std::move(items));
    }
    case Type::object:
      return Runtime::DictValue(DictFromJson(rt, json));
    case Type::binary:
      Fail("binary JSON values cannot be variables");
  }
  return Value();
}

std::shared_ptr<DictObject> DictFromJson(Runtime& rt, const nlohmann::ordered_json& object) {
  auto dict = rt.Dict();
  for (const auto& [key, value] : object.items()) Set(rt, *dict, String(rt, key), FromJson(rt, value));
  return dict;
}

}  // namespace ullage::llm::jinja

namespace ullage::llm {
namespace {

using Json = nlohmann::ordered_json;

/// Builds the document; its only difference to nlohmann's own builder is that it sees how numbers were
/// written.
class DocumentBuilder {
 public:
  Json root;
  std::string problem;
  bool unsupported = false;

  bool null() { return Add(nullptr); }
  bool boolean(bool b) { return Add(b); }
  bool number_integer(int64_t i) { return Add(i); }
  bool number_unsigned(uint64_t u) { return Add(u); }
  bool number_float(double f, const std::string& text) {
    if (text.find_first_of(".eE") == std::string::npos) {
      problem = "the integer " + text + " does not fit into 64 bits";
      unsupported = true;
      return false;
    }
    return Add(f);
  }
  bool string(std::string& s) { return Add(std::move(s)); }
  bool binary(std::vector<uint8_t>&) { return false; }
  bool start_object(size_t) { return Open(Json::object()); }
  bool start_array(size_t) { return Open(Json::array()); }
  bool key(std::string& k) {
    place_ = &(*open_.back())[k];
    return true;
  }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& e) {
    problem = StrCat("not valid JSON at byte ", position, ": ", e.what());
    return false;
  }

 private:
  static constexpr size_t kMaxDepth = 500;

  Json* Place(Json value) {
    Json* at = place_;
    if (open_.empty()) {
      at = &root;
    } else if (open_.back()->is_array()) {
      open_.back()->push_back(nullptr);
      at = &open_.back()->back();
    }
    *at = std::move(value);
    return at;
  }
  bool Add(Json value) {
    Place(std::move(value));
    return true;
  }
  bool Open(Json value) {
    if (open_.size() >= kMaxDepth) {
      problem = StrCat("nested more than ", kMaxDepth, " levels deep");
      return false;
    }
    open_.push_back(Place(std::move(value)));
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  std::vector<Json*> open_;
  Json* place_ = nullptr;
};

}  // namespace

nlohmann::ordered_json ParseJson(std::string_view text, std::string_view what) {
  DocumentBuilder builder;
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
    Throw(builder.unsupported ? Code::kUnsupported : Code::kInvalidInput, what, ": ", builder.problem);
  }
  return std::move(builder.root);
}

}  // namespace ullage::llm
