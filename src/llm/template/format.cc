// Number formatting shared by `%` and str.format, and the `%` operator on strings.
#include "llm/template/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "llm/template/text.h"

namespace ullage::llm::jinja {

std::string FormatFloat(double f, char type, int precision, bool alternate) {
  const bool upper = type >= 'A' && type <= 'Z';
  if (!std::isfinite(f)) {
    const char* text = std::isnan(f) ? "nan" : std::signbit(f) ? "-inf" : "inf";
    return upper ? ToUpper(text) : text;
  }
  if (alternate) {  // keeps the point and trailing zeros, which to_chars cannot
    const char format[] = {'%', '#', '.', '*', type, '\0'};
    std::string out(static_cast<size_t>(std::snprintf(nullptr, 0, format, precision, f)) + 1, '\0');
    std::snprintf(out.data(), out.size(), format, precision, f);
    out.pop_back();
    return out;
  }
  const int lower = type | 0x20;
  const auto style = lower == 'e'   ? std::chars_format::scientific
                     : lower == 'f' ? std::chars_format::fixed
                                    : std::chars_format::general;
  std::string out(static_cast<size_t>(precision) + 400, '\0');
  const auto end = std::to_chars(out.data(), out.data() + out.size(), f, style, precision);
  out.resize(static_cast<size_t>(end.ptr - out.data()));
  return upper ? ToUpper(out) : out;
}

std::string FormatInteger(int64_t value, int base, bool upper) {
  uint64_t u = value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const char* const alphabet = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string digits;
  do {
    digits += alphabet[u % static_cast<uint64_t>(base)];
    u /= static_cast<uint64_t>(base);
  } while (u != 0);
  if (value < 0) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return digits;
}

int64_t TruncateToInt(double f) {
  if (std::isnan(f)) Fail("cannot convert float NaN to integer");
  if (std::isinf(f)) Fail("cannot convert float infinity to integer");
  const double t = std::trunc(f);
  if (t < -9223372036854775808.0 || t >= 9223372036854775808.0) {
    Unsupported("the integer part of ", FloatRepr(f), " does not fit into 64 bits");
  }
  return static_cast<int64_t>(t);
}

std::string AsciiRepr(const std::string& repr) {
  std::string out;
  for (size_t pos = 0; pos < repr.size();) {
    const char32_t c = DecodeAt(repr, pos);
    if (c < 0x80) {
      out += static_cast<char>(c);
      continue;
    }
    char buffer[16];
    std::snprintf(buffer, sizeof buffer,
                  c < 0x100     ? "\\x%02x"
                  : c < 0x10000 ? "\\u%04x"
                                : "\\U%08x",
                  static_cast<unsigned>(c));
    out += buffer;
  }
  return out;
}

namespace {

struct Spec {
  bool minus = false, plus = false, space = false, alternate = false, zero = false;
  int64_t width = 0;
  int64_t precision = -1;
  char type = 0;
};

/// The arguments of one `%` operation.
class PercentArguments {
 public:
  explicit PercentArguments(const Value& values) : values_(values), tuple_(values.Is(Kind::kTuple)) {}

  Value Next() {
    if (tuple_) {
      if (next_ >= Items(values_).size()) Fail("not enough arguments for format string");
      return Items(values_)[next_++];
    }
    if (next_++ > 0) Fail("not enough arguments for format string");
    return values_;
  }
  Value Named(Runtime& rt, const std::string& key) {
    if (!values_.Is(Kind::kDict)) Fail("format requires a mapping");
    used_name_ = true;
    const Value* v = Find(rt, values_.as<DictObject>(), rt.Str(key));
    if (v == nullptr) Fail("format: no item ", StringRepr(key));
    return *v;
  }
  void Finish() const {
    if (used_name_) return;
    const bool mapping = !tuple_ && !values_.string() &&
                         (values_.Is(Kind::kDict) || values_.Is(Kind::kList) || values_.Is(Kind::kRange) ||
                          values_.undefined());
    if (tuple_ ? next_ < Items(values_).size() : next_ == 0 && !mapping) {
      Fail("not all arguments converted during string formatting");
    }
  }

 private:
  const Value& values_;
  bool tuple_;
  bool used_name_ = false;
  size_t next_ = 0;
};

void Pad(Buffer& out, const std::string& sign, const std::string& body, const Spec& spec, bool numeric) {
  const auto length = static_cast<int64_t>(CountCodePoints(sign) + CountCodePoints(body));
  const size_t fill = spec.width > length ? static_cast<size_t>(spec.width - length) : 0;
  const bool zero = spec.zero && numeric && !spec.minus;
  if (!spec.minus && !zero) out.Append(std::string(fill, ' '));
  out.Append(sign);
  if (zero) out.Append(std::string(fill, '0'));
  out.Append(body);
  if (spec.minus) out.Append(std::string(fill, ' '));
}

void AppendNumber(Buffer& out, std::string text, const Spec& spec) {
  std::string sign;
  if (!text.empty() && text[0] == '-') {
    sign = "-";
    text.erase(0, 1);
  } else if (spec.plus) {
    sign = "+";
  } else if (spec.space) {
    sign = " ";
  }
  if (spec.alternate) {
    if (spec.type == 'x' || spec.type == 'X' || spec.type == 'o') sign += std::string("0") + spec.type;
  }
  Pad(out, sign, text, spec, true);
}

void AppendInteger(Buffer& out, const Value& v, const Spec& spec) {
  int64_t value = 0;
  if (v.integral()) {
    value = v.integer();
  } else if (v.number() && (spec.type == 'd' || spec.type == 'i' || spec.type == 'u')) {
    value = TruncateToInt(v.real());
  } else {
    if (v.undefined()) FailUndefined(v);
    Fail("%", std::string(1, spec.type),
         " format: ", v.number() || spec.type != 'd' ? "an integer" : "a real number", " is required, not ",
         TypeName(v));
  }
  const int base = spec.type == 'o' ? 8 : (spec.type | 0x20) == 'x' ? 16 : 10;
  std::string text = FormatInteger(value, base, spec.type == 'X');
  const size_t digits = text.size() - (value < 0 ? 1 : 0);
  if (spec.precision > static_cast<int64_t>(digits)) {
    text.insert(value < 0 ? 1 : 0, static_cast<size_t>(spec.precision) - digits, '0');
  }
  AppendNumber(out, text, spec);
}

void AppendConverted(Runtime& rt, Buffer& out, const Value& v, const Spec& spec, bool safe) {
  switch (spec.type) {
    case 's':
    case 'r':
    case 'a': {
      std::string text = spec.type == 's' ? ToStr(rt, v) : ToRepr(rt, v);
      if (spec.type == 'a') text = AsciiRepr(text);
      if (safe && !(spec.type == 's' && v.string() && v.as<StringObject>().safe)) text = EscapeHtml(text);
      if (spec.precision >= 0) text.resize(ByteOffset(text, static_cast<size_t>(spec.precision)));
      Pad(out, "", text, spec, false);
      return;
    }
    case 'c': {
      if (v.string() && v.as<StringObject>().length == 1) {
        Pad(out, "", Text(v), spec, false);
        return;
      }
      if (!v.integral()) Fail("%c requires int or char");
      if (v.integer() < 0 || v.integer() > 0x10FFFF) Fail("%c arg not in range(0x110000)");
      std::string text;
      AppendUtf8(text, static_cast<char32_t>(v.integer()));
      Pad(out, "", text, spec, false);
      return;
    }
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X':
      AppendInteger(out, v, spec);
      return;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G': {
      if (!v.number()) {
        if (v.undefined()) FailUndefined(v);
        Fail("must be real number, not ", TypeName(v));
      }
      const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
      AppendNumber(out, FormatFloat(v.real(), spec.type, precision, spec.alternate), spec);
      return;
    }
    default:
      Fail("unsupported format character '", std::string(1, spec.type), "'");
  }
}

}  // namespace

Value PercentFormat(Runtime& rt, const Value& format, const Value& values) {
  const std::string& f = Text(format);
  const bool safe = format.as<StringObject>().safe;
  Buffer out(rt.budget);
  PercentArguments args(values);
  size_t i = 0;
  const auto number = [&](int64_t& to) {
    if (i < f.size() && f[i] == '*') {
      ++i;
      const Value v = args.Next();
      if (!v.integral()) Fail("* wants int");
      to = v.integer();
    } else {
      while (i < f.size() && f[i] >= '0' && f[i] <= '9') {
        to = to * 10 + (f[i++] - '0');
        if (to > INT32_MAX) Fail("width too big");
      }
    }
    if (to > INT32_MAX || to < -INT32_MAX) Fail("width too big");
  };
  while (i < f.size()) {
    const size_t percent = std::min(f.find('%', i), f.size());
    out.Append(std::string_view(f).substr(i, percent - i));
    i = percent + 1;
    if (percent == f.size()) break;
    Spec spec;
    std::string name;
    bool named = false;
    if (i < f.size() && f[i] == '(') {
      int depth = 1;
      const size_t begin = ++i;
      for (; i < f.size() && depth > 0; ++i) depth += f[i] == '(' ? 1 : f[i] == ')' ? -1 : 0;
      if (depth > 0) Fail("incomplete format key");
      name = f.substr(begin, i - 1 - begin);
      named = true;
    }
    for (; i < f.size(); ++i) {
      if (f[i] == '-') {
        spec.minus = true;
      } else if (f[i] == '+') {
        spec.plus = true;
      } else if (f[i] == ' ') {
        spec.space = true;
      } else if (f[i] == '#') {
        spec.alternate = true;
      } else if (f[i] == '0') {
        spec.zero = true;
      } else {
        break;
      }
    }
    const Value by_name = named ? args.Named(rt, name) : Value();
    number(spec.width);
    if (spec.width < 0) {
      spec.minus = true;
      spec.width = -spec.width;
    }
    if (i < f.size() && f[i] == '.') {
      ++i;
      spec.precision = 0;
      number(spec.precision);
      spec.precision = std::max<int64_t>(spec.precision, 0);
    }
    if (i < f.size() && (f[i] == 'h' || f[i] == 'l' || f[i] == 'L')) ++i;
    if (i >= f.size()) Fail("incomplete format");
    spec.type = f[i++];
    rt.budget.Foresee(static_cast<size_t>(spec.width) +
                      static_cast<size_t>(std::max<int64_t>(spec.precision, 0)));
    if (spec.type == '%') {
      out.Append('%');
      continue;
    }
    AppendConverted(rt, out, named ? by_name : args.Next(), spec, safe);
  }
  args.Finish();
  return rt.Str(out.Release(), safe);
}

}  // namespace ullage::llm::jinja
