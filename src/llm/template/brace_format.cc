// str.format and the format specification mini-language.
#include <algorithm>
#include <cmath>

#include "llm/template/format.h"
#include "llm/template/text.h"

namespace ullage::llm::jinja {
namespace {

struct Spec {
  std::string fill = " ";
  char align = 0;  // < > = ^
  char sign = '-';
  bool alternate = false, no_negative_zero = false;
  int64_t width = 0;
  char group = 0;
  int64_t precision = -1;
  char type = 0;
};

int64_t ReadNumber(std::string_view s, size_t& i) {
  int64_t n = 0;
  while (i < s.size() && s[i] >= '0' && s[i] <= '9') {
    n = n * 10 + (s[i++] - '0');
    if (n > INT32_MAX) Fail("Too many decimal digits in format string");
  }
  return n;
}

bool IsAlign(char c) {
  return c == '<' || c == '>' || c == '=' || c == '^';
}

Spec ParseSpec(std::string_view s) {
  Spec spec;
  size_t i = 0;
  size_t behind_first = 0;
  if (!s.empty()) DecodeAt(s, behind_first);
  if (behind_first > 0 && behind_first < s.size() && IsAlign(s[behind_first])) {
    spec.fill = s.substr(0, behind_first);
    spec.align = s[behind_first];
    i = behind_first + 1;
  } else if (!s.empty() && IsAlign(s[0])) {
    spec.align = s[0];
    i = 1;
  }
  const bool explicit_align = i > 0;
  const bool explicit_fill = i > 1;
  if (i < s.size() && (s[i] == '+' || s[i] == '-' || s[i] == ' ')) spec.sign = s[i++];
  if (i < s.size() && s[i] == 'z') {
    spec.no_negative_zero = true;
    ++i;
  }
  if (i < s.size() && s[i] == '#') {
    spec.alternate = true;
    ++i;
  }
  if (i < s.size() && s[i] == '0') {
    if (!explicit_fill) spec.fill = "0";
    if (!explicit_align) spec.align = '0';  // = for numbers, < for strings
    ++i;
  }
  spec.width = ReadNumber(s, i);
  if (i < s.size() && (s[i] == ',' || s[i] == '_')) spec.group = s[i++];
  if (i < s.size() && s[i] == '.') {
    ++i;
    if (i >= s.size() || s[i] < '0' || s[i] > '9') Fail("Format specifier missing precision");
    spec.precision = ReadNumber(s, i);
  }
  if (i < s.size()) spec.type = s[i++];
  if (i < s.size()) Fail("Invalid format specifier ", StringRepr(s));
  return spec;
}

void Fill(Buffer& out, const std::string& fill, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out.Append(fill);
}

void AppendAligned(Buffer& out, const Spec& spec, std::string_view prefix, std::string_view body,
                   char default_align) {
  const char align = spec.align == 0 ? default_align : spec.align;
  const auto length = static_cast<int64_t>(CountCodePoints(prefix) + CountCodePoints(body));
  const int64_t pad = std::max<int64_t>(spec.width - length, 0);
  const int64_t left = align == '>' ? pad : align == '^' ? pad / 2 : 0;
  Fill(out, spec.fill, left);
  out.Append(prefix);
  if (align == '=') Fill(out, spec.fill, pad);
  out.Append(body);
  if (align != '=') Fill(out, spec.fill, pad - left);
}

std::string Grouped(const std::string& digits, char separator, size_t size) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % size == 0) out += separator;
    out += digits[i];
  }
  return out;
}

/// `digits` with an optional rest ("." and what follows), grouped and filled up as the specification says.
void AppendNumber(Buffer& out, Spec spec, bool negative, const std::string& radix, std::string digits,
                  const std::string& rest) {
  std::string prefix = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  prefix += radix;
  if (spec.align == '0') spec.align = '=';
  const size_t group = spec.type == 'b' || spec.type == 'o' || (spec.type | 0x20) == 'x' ? 4 : 3;
  if (spec.group != 0) {
    const auto width = static_cast<size_t>(spec.width);
    if (spec.align == '=' && spec.fill == "0") {
      // Zeros take part in the grouping; a separator never comes first.
      const size_t other = prefix.size() + rest.size();
      const auto grouped_size = [&](size_t n) { return n + (n - 1) / group; };
      size_t n = digits.size();
      while (grouped_size(n) + other < width) ++n;
      digits.insert(0, n - digits.size(), '0');
    }
    digits = Grouped(digits, spec.group, group);
  }
  AppendAligned(out, spec, prefix, digits + rest, '>');
}

void AppendFloat(Buffer& out, Spec spec, double f) {
  char type = spec.type;
  const bool percent = type == '%';
  if (percent) {
    f *= 100;
    type = 'f';
  }
  if (type == 'n') type = 'g';
  std::string text;
  if (type == 0) {
    if (spec.precision < 0) {
      text = FloatRepr(f);
    } else if (!std::isfinite(f)) {
      text = FloatRepr(f);
    } else {
      // Like g, but with at least one digit behind the point.
      const int p = static_cast<int>(std::max<int64_t>(spec.precision, 1));
      std::string e = FormatFloat(f, 'e', p - 1, false);
      const size_t at = e.find('e');
      const int exponent = std::stoi(e.substr(at + 1));
      if (f != 0 && (exponent + 1 <= -4 || exponent + 1 > p - 1)) {
        std::string mantissa = e.substr(0, at);
        if (mantissa.find('.') != std::string::npos) {
          mantissa.erase(mantissa.find_last_not_of('0') + 1);
          if (mantissa.back() == '.') mantissa.pop_back();
        }
        text = mantissa + e.substr(at);
      } else {
        text = FormatFloat(f, 'g', p, false);
        if (text.find('.') == std::string::npos && text.find('e') == std::string::npos) text += ".0";
      }
    }
  } else if (std::string_view("eEfFgG").find(type) != std::string_view::npos) {
    text = FormatFloat(f, type, spec.precision < 0 ? 6 : static_cast<int>(spec.precision), spec.alternate);
  } else {
    Fail("Unknown format code '", std::string(1, spec.type), "' for object of type 'float'");
  }
  bool negative = text[0] == '-';
  if (negative) text.erase(0, 1);
  if (spec.no_negative_zero && text.find_first_of("123456789ni") == std::string::npos) negative = false;
  if (percent) text += '%';
  const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string digits = text.substr(0, end), rest = text.substr(end);
  if (digits.empty()) {  // nan, inf
    spec.group = 0;
    AppendNumber(out, spec, negative, "", rest, "");
    return;
  }
  AppendNumber(out, spec, negative, "", digits, rest);
}

void AppendInteger(Buffer& out, const Spec& spec, int64_t value) {
  if (spec.type == '%' ||
      std::string_view("eEfFgG").find(spec.type == 0 ? '?' : spec.type) != std::string_view::npos) {
    AppendFloat(out, spec, static_cast<double>(value));
    return;
  }
  if (spec.precision >= 0) Fail("Precision not allowed in integer format specifier");
  if (spec.no_negative_zero)
    Fail("Negative zero coercion (z) not allowed in format specifier with integer format code");
  if (spec.type == 'c') {
    if (value < 0 || value > 0x10FFFF) Fail("%c arg not in range(0x110000)");
    std::string text;
    AppendUtf8(text, static_cast<char32_t>(value));
    Spec s = spec;
    if (s.align == '0') s.align = '=';
    AppendAligned(out, s, "", text, '>');
    return;
  }
  int base = 10;
  std::string radix;
  switch (spec.type) {
    case 0:
    case 'd':
    case 'n':
      break;
    case 'b':
      base = 2;
      break;
    case 'o':
      base = 8;
      break;
    case 'x':
    case 'X':
      base = 16;
      break;
    default:
      Fail("Unknown format code '", std::string(1, spec.type), "' for object of type 'int'");
  }
  if (spec.alternate && base != 10) radix = std::string("0") + spec.type;
  if (spec.group == ',' && base != 10) Fail("Cannot specify ',' with '", std::string(1, spec.type), "'.");
  std::string digits = FormatInteger(value, base, spec.type == 'X');
  if (value < 0) digits.erase(0, 1);
  AppendNumber(out, spec, value < 0, radix, digits, "");
}

void AppendFormatted(Runtime& rt, Buffer& out, const Value& v, const std::string& spec_text) {
  if (spec_text.empty()) {
    AppendStr(rt, out, v);
    return;
  }
  if (v.string() && v.as<StringObject>().safe) Fail("Unsupported format specification for Markup.");
  if (!v.number() && !v.string()) Fail("unsupported format string passed to ", TypeName(v), ".__format__");
  Spec spec = ParseSpec(spec_text);
  rt.budget.Foresee(static_cast<size_t>(spec.width) * 4 +
                    static_cast<size_t>(std::max<int64_t>(spec.precision, 0)));
  if (v.integral()) {
    AppendInteger(out, spec, v.integer());
  } else if (v.number()) {
    AppendFloat(out, spec, v.real());
  } else {
    if (spec.type != 0 && spec.type != 's') {
      Fail("Unknown format code '", std::string(1, spec.type), "' for object of type 'str'");
    }
    if (spec.sign != '-' || spec.alternate || spec.align == '=' || spec.group != 0) {
      Fail("format specifier ", StringRepr(spec_text), " is not allowed for strings");
    }
    if (spec.align == '0') spec.align = '<';
    std::string_view text = Text(v);
    if (spec.precision >= 0) text = text.substr(0, ByteOffset(text, static_cast<size_t>(spec.precision)));
    AppendAligned(out, spec, "", text, '<');
  }
}

/// One str.format call.
class Formatter {
 public:
  Formatter(Runtime& rt, const Args& fields, bool safe) : rt_(rt), fields_(fields), safe_(safe) {}

  void Format(Buffer& out, std::string_view s, int depth) {
    if (depth < 0) Fail("Max string recursion exceeded");
    for (size_t i = 0; i < s.size();) {
      const size_t brace = std::min(s.find_first_of("{}", i), s.size());
      out.Append(s.substr(i, brace - i));
      i = brace;
      if (i >= s.size()) return;
      if (i + 1 < s.size() && s[i + 1] == s[i]) {
        out.Append(s[i]);
        i += 2;
        continue;
      }
      if (s[i] == '}') Fail("Single '}' encountered in format string");
      if (i + 1 >= s.size()) Fail("Single '{' encountered in format string");
      Field(out, s, ++i, depth);
    }
  }

 private:
  void Field(Buffer& out, std::string_view s, size_t& i, int depth) {
    const size_t begin = i;
    bool bracket = false;
    for (; i < s.size(); ++i) {
      if (s[i] == '{') Fail("unexpected '{' in field name");
      if (s[i] == '[') bracket = true;
      if (s[i] == ']') bracket = false;
      if (!bracket && (s[i] == '}' || s[i] == ':' || s[i] == '!')) break;
    }
    const std::string_view name = s.substr(begin, i - begin);
    char conversion = 0;
    if (i < s.size() && s[i] == '!') {
      if (i + 2 >= s.size()) Fail("unmatched '{' in format spec");
      conversion = s[i + 1];
      i += 2;
      if (s[i] != ':' && s[i] != '}') Fail("expected ':' after conversion specifier");
    }
    std::string_view spec;
    if (i < s.size() && s[i] == ':') {
      const size_t spec_begin = ++i;
      int level = 1;
      for (; i < s.size(); ++i) {
        if (s[i] == '{') ++level;
        if (s[i] == '}' && --level == 0) break;
      }
      spec = s.substr(spec_begin, i - spec_begin);
    }
    if (i >= s.size()) Fail("expected '}' before end of string");
    ++i;
    Value v = Lookup(name);
    if (conversion == 's') {
      v = rt_.Str(ToStr(rt_, v));
    } else if (conversion == 'r' || conversion == 'a') {
      const std::string repr = ToRepr(rt_, v);
      v = rt_.Str(conversion == 'r' ? repr : AsciiRepr(repr));
    } else if (conversion != 0) {
      Fail("Unknown conversion specifier '", std::string(1, conversion), "'");
    }
    Buffer spec_text(rt_.budget);
    Format(spec_text, spec, depth - 1);
    if (!safe_) {
      AppendFormatted(rt_, out, v, spec_text.text());
      return;
    }
    Buffer field(rt_.budget);
    AppendFormatted(rt_, field, v, spec_text.text());
    const bool markup = v.string() && v.as<StringObject>().safe;
    out.Append(markup ? field.text() : EscapeHtml(field.text()));
  }

  static bool AllDigits(std::string_view s) {
    return !s.empty() && s.find_first_not_of("0123456789") == std::string_view::npos;
  }

  Value Lookup(std::string_view name) {
    std::string numbered;
    if (name.empty()) {
      if (numbering_ == kManual)
        Fail("cannot switch from manual field specification to automatic field numbering");
      numbering_ = kAutomatic;
      numbered = std::to_string(next_++);
      name = numbered;
    } else if (AllDigits(name)) {
      if (numbering_ == kAutomatic)
        Fail("cannot switch from automatic field numbering to manual field specification");
      numbering_ = kManual;
    }
    const size_t end = std::min(name.find_first_of(".["), name.size());
    const std::string_view first = name.substr(0, end);
    Value v;
    if (AllDigits(first)) {
      int64_t index = 0;
      if (!ParseInt(first, 10, index) || index >= static_cast<int64_t>(fields_.positional.size())) {
        Fail("Replacement index ", first, " out of range for positional args tuple");
      }
      v = fields_.positional[static_cast<size_t>(index)];
    } else {
      const auto it = std::find_if(fields_.named.begin(), fields_.named.end(),
                                   [&](const auto& field) { return field.first == first; });
      if (it == fields_.named.end()) Fail("str.format: no argument ", StringRepr(first));
      v = it->second;
    }
    size_t i = end;
    while (i < name.size()) {
      if (name[i] == '.') {
        const size_t stop = std::min(name.find_first_of(".[", i + 1), name.size());
        if (stop == i + 1) Fail("Empty attribute in format string");
        v = GetAttribute(rt_, v, name.substr(i + 1, stop - i - 1));
        i = stop;
      } else if (name[i] == '[') {
        const size_t close = name.find(']', i);
        if (close == std::string_view::npos) Fail("Missing ']' in format string");
        const std::string_view key = name.substr(i + 1, close - i - 1);
        if (key.empty()) Fail("Empty attribute in format string");
        int64_t index = 0;
        const bool number = AllDigits(key) && ParseInt(key, 10, index);
        v = GetItem(rt_, v, number ? Value::Int(index) : rt_.Str(key));
        i = close + 1;
      } else {
        Fail("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return v;
  }

  enum Numbering { kUndecided, kAutomatic, kManual };
  Runtime& rt_;
  const Args& fields_;
  bool safe_;
  Numbering numbering_ = kUndecided;
  size_t next_ = 0;
};

}  // namespace

Value BraceFormat(Runtime& rt, const Value& format, const Args& fields) {
  const bool safe = format.as<StringObject>().safe;
  Buffer out(rt.budget);
  Formatter(rt, fields, safe).Format(out, Text(format), 2);
  return rt.Str(out.Release(), safe);
}

}  // namespace ullage::llm::jinja
