#include <charconv>
#include <cmath>

#include "llm/template/interpreter.h"
#include "llm/template/runtime.h"
#include "llm/template/text.h"

namespace ullage::llm::jinja {
namespace {

void AppendHex(std::string& out, char32_t c, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += "0123456789abcdef"[(c >> shift) & 15];
}

void AppendSequence(Runtime& rt, Buffer& out, const std::vector<Value>& items, const char* open,
                    const char* close) {
  out.Append(open);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.Append(", ");
    AppendRepr(rt, out, items[i]);
  }
  out.Append(close);
}

void AppendDict(Runtime& rt, Buffer& out, const DictObject& dict) {
  out.Append("{");
  bool first = true;
  for (const auto& [key, value] : dict.items) {
    if (!first) out.Append(", ");
    first = false;
    AppendRepr(rt, out, key);
    out.Append(": ");
    AppendRepr(rt, out, value);
  }
  out.Append("}");
}

void AppendView(Runtime& rt, Buffer& out, const Value& v) {
  const auto& view = v.as<DictViewObject>();
  out.Append(TypeName(v));
  out.Append("([");
  bool first = true;
  for (const auto& [key, value] : view.dict->items) {
    if (!first) out.Append(", ");
    first = false;
    if (view.part == DictViewObject::kItems) out.Append("(");
    if (view.part != DictViewObject::kValues) AppendRepr(rt, out, key);
    if (view.part == DictViewObject::kItems) out.Append(", ");
    if (view.part != DictViewObject::kKeys) AppendRepr(rt, out, value);
    if (view.part == DictViewObject::kItems) out.Append(")");
  }
  out.Append("])");
}

}  // namespace

bool Truthy(Runtime& rt, const Value& v) {
  switch (v.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return v.integer() != 0;
    case Kind::kFloat:
      return v.real() != 0;
    case Kind::kLoop:
      return LoopLength(rt, v) != 0;
    default: {
      int64_t n = 0;
      return !TryLength(rt, v, n) || n != 0;
    }
  }
}

void AppendStr(Runtime& rt, Buffer& out, const Value& v) {
  if (v.string()) {
    out.Append(Text(v));
  } else if (!v.undefined()) {
    AppendRepr(rt, out, v);
  }
}

void AppendRepr(Runtime& rt, Buffer& out, const Value& v) {
  rt.CheckStack();
  rt.budget.Step();
  switch (v.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
      out.Append("Undefined");
      return;
    case Kind::kNone:
      out.Append("None");
      return;
    case Kind::kBool:
      out.Append(v.integer() != 0 ? "True" : "False");
      return;
    case Kind::kInt:
      out.Append(std::to_string(v.integer()));
      return;
    case Kind::kFloat:
      out.Append(FloatRepr(v.real()));
      return;
    case Kind::kString:
      if (v.as<StringObject>().safe) {
        out.Append("Markup(");
        out.Append(StringRepr(Text(v)));
        out.Append(")");
      } else {
        out.Append(StringRepr(Text(v)));
      }
      return;
    case Kind::kList:
      AppendSequence(rt, out, Items(v), "[", "]");
      return;
    case Kind::kTuple:
      AppendSequence(rt, out, Items(v), "(", Items(v).size() == 1 ? ",)" : ")");
      return;
    case Kind::kDict:
      AppendDict(rt, out, v.as<DictObject>());
      return;
    case Kind::kDictView:
      AppendView(rt, out, v);
      return;
    case Kind::kRange: {
      const auto& r = v.as<RangeObject>();
      out.Append(StrCat("range(", r.start, ", ", r.stop));
      if (r.step != 1) out.Append(StrCat(", ", r.step));
      out.Append(")");
      return;
    }
    case Kind::kNamespace:
      out.Append("<Namespace ");
      AppendDict(rt, out, *v.as<NamespaceObject>().attributes);
      out.Append(">");
      return;
    case Kind::kMacro:
      out.Append(MacroRepr(v));
      return;
    case Kind::kLoop:
      out.Append(StrCat("<LoopContext ", LoopIndex(v), "/", LoopLength(rt, v), ">"));
      return;
    case Kind::kIterator:
    case Kind::kFunction:
    case Kind::kCycler:
      Unsupported(
          "the text of a '", TypeName(v),
          "' object holds an address and is not supported (a filter like list or a call may be missing)");
  }
}

std::string ToStr(Runtime& rt, const Value& v) {
  if (v.string()) {
    rt.budget.Step(Text(v).size() / 64);
    return Text(v);
  }
  Buffer out(rt.budget);
  AppendStr(rt, out, v);
  return out.Release();
}

std::string ToRepr(Runtime& rt, const Value& v) {
  Buffer out(rt.budget);
  AppendRepr(rt, out, v);
  return out.Release();
}

Value SoftStr(Runtime& rt, const Value& v) {
  return v.string() ? v : rt.Str(ToStr(rt, v));
}

std::string FloatRepr(double f) {
  if (std::isnan(f)) return "nan";
  if (std::isinf(f)) return f < 0 ? "-inf" : "inf";
  char raw[40];
  const auto end = std::to_chars(raw, raw + sizeof raw, f, std::chars_format::scientific);
  const std::string_view text(raw, static_cast<size_t>(end.ptr - raw));
  const size_t e = text.find('e');
  std::string digits;
  std::string out;
  for (char c : text.substr(0, e)) {
    if (c == '-') {
      out = "-";
    } else if (c != '.') {
      digits += c;
    }
  }
  int exponent = 0;
  const char* first = text.data() + e + 1;
  if (*first == '+') ++first;
  std::from_chars(first, end.ptr, exponent);
  const int n = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (n > 1) out += "." + digits.substr(1);
    out += exponent < 0 ? "e-" : "e+";
    const std::string size = std::to_string(std::abs(exponent));
    return out + (size.size() < 2 ? "0" : "") + size;
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (n <= exponent + 1) return out + digits + std::string(static_cast<size_t>(exponent + 1 - n), '0') + ".0";
  return out + digits.substr(0, static_cast<size_t>(exponent) + 1) + "." +
         digits.substr(static_cast<size_t>(exponent) + 1);
}

std::string StringRepr(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  out.reserve(text.size() + 2);
  for (size_t pos = 0; pos < text.size();) {
    const size_t at = pos;
    const char32_t c = DecodeAt(text, pos);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (IsPrintable(c)) {
      out.append(text.substr(at, pos - at));
    } else if (c < 0x100) {
      out += "\\x";
      AppendHex(out, c, 2);
    } else if (c < 0x10000) {
      out += "\\u";
      AppendHex(out, c, 4);
    } else {
      out += "\\U";
      AppendHex(out, c, 8);
    }
  }
  return out + quote;
}

std::string EscapeHtml(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Value Escape(Runtime& rt, const Value& v) {
  if (v.string() && v.as<StringObject>().safe) return v;
  return rt.Str(EscapeHtml(ToStr(rt, v)), true);
}

int64_t ToIndex(const Value& v) {
  if (v.integral()) return v.integer();
  if (v.undefined()) FailUndefined(v);
  Fail("'", TypeName(v), "' object cannot be interpreted as an integer");
}

bool ParseInt(std::string_view text, int64_t base, int64_t& out) {
  if (base != 0 && (base < 2 || base > 36)) return false;
  const std::u32string s = ToCodePoints(StripSpace(text, Side::kBoth));
  size_t i = 0;
  bool negative = false;
  if (i < s.size() && (s[i] == '+' || s[i] == '-')) negative = s[i++] == '-';
  bool prefixed = false;
  if (i + 1 < s.size() && s[i] == '0') {
    const char32_t p = s[i + 1] | 0x20;
    const int64_t of = p == 'x' ? 16 : p == 'o' ? 8 : p == 'b' ? 2 : 0;
    if (of != 0 && (base == 0 || base == of)) {
      base = of;
      i += 2;
      prefixed = true;
    }
  }
  const bool literal = base == 0;
  if (literal) base = 10;
  const size_t begin = i;
  bool digit_before = prefixed, any = false, nonzero = false;
  uint64_t value = 0;
  bool overflow = false;
  for (; i < s.size(); ++i) {
    if (s[i] == '_') {
      if (!digit_before) return false;
      digit_before = false;
      continue;
    }
    int64_t d = 99;
    if (IsDecimal(s[i])) {
      d = DecimalValue(s[i]);
    } else if (s[i] < 0x80 && IsAlpha(s[i])) {
      d = static_cast<int64_t>(s[i] | 0x20) - 'a' + 10;
    }
    if (d >= base) return false;
    overflow |= __builtin_mul_overflow(value, static_cast<uint64_t>(base), &value);
    overflow |= __builtin_add_overflow(value, static_cast<uint64_t>(d), &value);
    nonzero |= d != 0;
    digit_before = any = true;
  }
  if (!any || !digit_before) return false;
  if (literal && nonzero && s[begin] == '0') return false;
  const uint64_t limit = static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0);
  if (overflow || value > limit) Unsupported("the integer ", text, " does not fit into 64 bits");
  out = negative ? static_cast<int64_t>(-value) : static_cast<int64_t>(value);
  return true;
}

bool ParseFloat(std::string_view text, double& out) {
  std::string s;
  const std::u32string raw = ToCodePoints(StripSpace(text, Side::kBoth));
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] == '_') {
      if (i == 0 || i + 1 == raw.size() || !IsDecimal(raw[i - 1]) || !IsDecimal(raw[i + 1])) return false;
    } else if (IsDecimal(raw[i])) {
      s += static_cast<char>('0' + DecimalValue(raw[i]));
    } else if (raw[i] < 0x80) {
      s += static_cast<char>(raw[i] >= 'A' && raw[i] <= 'Z' ? raw[i] + 32 : raw[i]);
    } else {
      return false;
    }
  }
  size_t i = 0;
  double sign = 1;
  if (i < s.size() && (s[i] == '+' || s[i] == '-')) sign = s[i++] == '-' ? -1 : 1;
  const std::string body = s.substr(i);
  if (body == "inf" || body == "infinity" || body == "nan") {
    out = body == "nan" ? std::nan("") : sign * HUGE_VAL;
    return true;
  }
  if (body.find_first_not_of("0123456789.e+-") != std::string::npos || body.empty() || body[0] == '-' ||
      body[0] == '+' || body[0] == 'e') {
    return false;
  }
  double value = 0;
  const auto r = std::from_chars(body.data(), body.data() + body.size(), value);
  if (r.ptr != body.data() + body.size() || r.ec == std::errc::invalid_argument) return false;
  if (r.ec == std::errc::result_out_of_range) {
    // Too large or too small: the decimal exponent of the first digit that is not 0 tells.
    const size_t e = std::min(body.find('e'), body.size());
    const size_t point = std::min(body.find('.'), e);
    const size_t digit = body.find_first_of("123456789");
    const bool large_exponent = e + 1 < body.size() && body[e + 1] != '-';
    const bool integral = digit < point && e == body.size();
    value = large_exponent || integral ? HUGE_VAL : 0;
  }
  out = sign * value;
  return true;
}

}  // namespace ullage::llm::jinja
