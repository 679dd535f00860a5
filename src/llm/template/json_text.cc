// json.dumps
#include <algorithm>
#include <cmath>

#include "llm/template/runtime.h"
#include "llm/template/text.h"

namespace ullage::llm::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Runtime& rt, Buffer& out, const JsonStyle& style) : rt_(rt), out_(out), style_(style) {}

  void Write(const Value& v) {
    rt_.CheckStack();
    rt_.budget.Step();
    switch (v.kind()) {
      case Kind::kNone:
        out_.Append("null");
        return;
      case Kind::kBool:
        out_.Append(v.integer() != 0 ? "true" : "false");
        return;
      case Kind::kInt:
        out_.Append(std::to_string(v.integer()));
        return;
      case Kind::kFloat:
        out_.Append(Number(v.real()));
        return;
      case Kind::kString:
        Quoted(Text(v));
        return;
      case Kind::kList:
      case Kind::kTuple:
        Array(Items(v));
        return;
      case Kind::kDict:
        Object(v.as<DictObject>());
        return;
      default:
        Fail("Object of type ", TypeName(v), " is not JSON serializable");
    }
  }

 private:
  static std::string Number(double f) {
    if (std::isnan(f)) return "NaN";
    if (std::isinf(f)) return f < 0 ? "-Infinity" : "Infinity";
    return FloatRepr(f);
  }

  void Escape(std::string& to, char32_t unit) const {
    to += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) to += "0123456789abcdef"[(unit >> shift) & 15];
  }

  void Quoted(std::string_view text) {
    std::string quoted = "\"";
    quoted.reserve(text.size() + 2);
    for (size_t pos = 0; pos < text.size();) {
      const size_t begin = pos;
      const char32_t c = DecodeAt(text, pos);
      switch (c) {
        case '"':
          quoted += "\\\"";
          continue;
        case '\\':
          quoted += "\\\\";
          continue;
        case '\n':
          quoted += "\\n";
          continue;
        case '\r':
          quoted += "\\r";
          continue;
        case '\t':
          quoted += "\\t";
          continue;
        case '\f':
          quoted += "\\f";
          continue;
        case '\b':
          quoted += "\\b";
          continue;
        default:
          break;
      }
      if (c < 0x20 || (style_.ensure_ascii && c >= 0x7F && c < 0x10000)) {
        Escape(quoted, c);
      } else if (style_.ensure_ascii && c >= 0x10000) {
        Escape(quoted, 0xD800 + ((c - 0x10000) >> 10));
        Escape(quoted, 0xDC00 + ((c - 0x10000) & 0x3FF));
      } else {
        quoted.append(text.substr(begin, pos - begin));
      }
    }
    quoted += '"';
    out_.Append(quoted);
  }

  void NewLine() {
    if (!style_.multiline) return;
    out_.Append('\n');
    for (int i = 0; i < depth_; ++i) out_.Append(style_.indent);
  }

  void Array(const std::vector<Value>& items) {
    if (items.empty()) {
      out_.Append("[]");
      return;
    }
    out_.Append('[');
    ++depth_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.Append(style_.item_separator);
      NewLine();
      Write(items[i]);
    }
    --depth_;
    NewLine();
    out_.Append(']');
  }

  void Key(const Value& key) {
    switch (key.kind()) {
      case Kind::kString:
        Quoted(Text(key));
        return;
      case Kind::kNone:
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kFloat:
        out_.Append('"');
        Write(key);
        out_.Append('"');
        return;
      default:
        Fail("keys must be str, int, float, bool or None, not ", TypeName(key));
    }
  }

  void Object(const DictObject& dict) {
    if (dict.items.empty()) {
      out_.Append("{}");
      return;
    }
    std::vector<const std::pair<Value, Value>*> order;
    order.reserve(dict.items.size());
    for (const auto& item : dict.items) order.push_back(&item);
    if (style_.sort_keys) {
      std::stable_sort(order.begin(), order.end(),
                       [&](const auto* a, const auto* b) { return Less(rt_, a->first, b->first); });
    }
    out_.Append('{');
    ++depth_;
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0) out_.Append(style_.item_separator);
      NewLine();
      Key(order[i]->first);
      out_.Append(style_.key_separator);
      Write(order[i]->second);
    }
    --depth_;
    NewLine();
    out_.Append('}');
  }

  Runtime& rt_;
  Buffer& out_;
  const JsonStyle& style_;
  int depth_ = 0;
};

}  // namespace

void AppendJson(Runtime& rt, Buffer& out, const Value& v, const JsonStyle& style) {
  JsonWriter(rt, out, style).Write(v);
}

}  // namespace ullage::llm::jinja
