// The methods of str (and of Markup, whose results stay markup).
#include <algorithm>

#include "llm/template/filters.h"
#include "llm/template/string_methods.h"
#include "llm/template/text.h"

namespace ullage::llm::jinja {
namespace {

/// An argument put into markup: escaped unless it is markup.
std::string Inserted(Runtime& rt, const Value& self, const char* function, const Value& v) {
  if (!IsSafe(self)) return TextArg(function, v);
  return Text(Escape(rt, v));
}

Value Replace(Runtime& rt, const Value& self, Args& args) {
  const Params p(rt, "replace", args, {"old", "new", "count", "/"}, 2);
  const std::string from = TextArg("replace", p[0]);
  const std::string to = Inserted(rt, self, "replace", p[1]);
  return rt.Str(ReplaceText(rt, Text(self), from, to, p[2].missing() ? -1 : ToIndex(p[2])), IsSafe(self));
}

Value RemovePrefix(Runtime& rt, const Value& self, Args& args) {
  const Params p(rt, "removeprefix", args, {"prefix", "/"}, 1);
  const std::string& prefix = TextArg("removeprefix", p[0]);
  const std::string_view text = Text(self);
  return rt.Str(text.starts_with(prefix) ? text.substr(prefix.size()) : text, IsSafe(self));
}

Value RemoveSuffix(Runtime& rt, const Value& self, Args& args) {
  const Params p(rt, "removesuffix", args, {"suffix", "/"}, 1);
  const std::string& suffix = TextArg("removesuffix", p[0]);
  const std::string_view text = Text(self);
  return rt.Str(text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : text, IsSafe(self));
}

Value Join(Runtime& rt, const Value& self, Args& args) {
  const Params p(rt, "join", args, {"iterable", "/"}, 1);
  if (!Iterable(p[0])) Fail("can only join an iterable");
  Buffer out(rt.budget);
  size_t i = 0;
  const auto it = Iterate(rt, p[0]);
  for (Value v = it->Next(rt); !v.missing(); v = it->Next(rt), ++i) {
    if (i > 0) out.Append(Text(self));
    if (IsSafe(self)) {
      out.Append(Text(Escape(rt, v)));
      continue;
    }
    if (!v.string()) Fail("sequence item ", i, ": expected str instance, ", TypeName(v), " found");
    // A single markup item is what joining gives.
    out.Append(Text(v));
  }
  return rt.Str(out.Release(), IsSafe(self));
}

template <std::string (*kConvert)(std::string_view)>
Value Converted(Runtime& rt, const Value& self, Args& args) {
  NoArguments("str method", args);
  rt.budget.Foresee(Text(self).size() * 7);
  rt.budget.Step(Text(self).size() / 8);
  return rt.Str(kConvert(Text(self)), IsSafe(self));
}

Value Casefold(Runtime& rt, const Value& self, Args& args) {
  NoArguments("casefold", args);
  if (!self.as<StringObject>().ascii()) Unsupported("str.casefold is supported for ASCII text only");
  return rt.Str(ToLower(Text(self)), IsSafe(self));
}

enum class Align { kLeft, kRight, kCenter };

Value Padded(Runtime& rt, const char* name, const Value& self, Args& args, Align align) {
  const Params p(rt, name, args, {"width", "fillchar", "/"}, 1);
  const int64_t width = ToIndex(p[0]);
  const std::string fill = p[1].missing() ? " " : Inserted(rt, self, name, p[1]);
  if (CountCodePoints(fill) != 1) Fail("The fill character must be exactly one character long");
  return rt.Str(PadText(rt, self, width, fill,
                        align == Align::kLeft    ? '<'
                        : align == Align::kRight ? '>'
                                                 : '^'),
                IsSafe(self));
}

Value Center(Runtime& rt, const Value& self, Args& args) {
  return Padded(rt, "center", self, args, Align::kCenter);
}
Value LJust(Runtime& rt, const Value& self, Args& args) {
  return Padded(rt, "ljust", self, args, Align::kLeft);
}
Value RJust(Runtime& rt, const Value& self, Args& args) {
  return Padded(rt, "rjust", self, args, Align::kRight);
}

Value ZFill(Runtime& rt, const Value& self, Args& args) {
  const Params p(rt, "zfill", args, {"width", "/"}, 1);
  const int64_t width = ToIndex(p[0]);
  std::string text = PadText(rt, self, width, "0", '>');
  const size_t fill = text.size() - Text(self).size();
  if (fill > 0 && fill < text.size() && (text[fill] == '+' || text[fill] == '-'))
    std::swap(text[0], text[fill]);
  return rt.Str(std::move(text), IsSafe(self));
}

Value ExpandTabs(Runtime& rt, const Value& self, Args& args) {
  const Params p(rt, "expandtabs", args, {"tabsize"});
  const int64_t size = p[0].missing() ? 8 : ToIndex(p[0]);
  Buffer out(rt.budget);
  int64_t column = 0;
  const std::string_view text = Text(self);
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t c = DecodeAt(text, pos);
    if (c == '\t') {
      const int64_t n = size > 0 ? size - column % size : 0;
      rt.budget.Foresee(static_cast<size_t>(n));
      out.Append(std::string(static_cast<size_t>(n), ' '));
      column += n;
      continue;
    }
    column = c == '\n' || c == '\r' ? 0 : column + 1;
    out.Append(text.substr(begin, pos - begin));
  }
  return rt.Str(out.Release(), IsSafe(self));
}

Value Format(Runtime& rt, const Value& self, Args& args) {
  return BraceFormat(rt, self, args);
}

Value FormatMap(Runtime& rt, const Value& self, Args& args) {
  const Params p(rt, "format_map", args, {"mapping", "/"}, 1);
  if (!p[0].Is(Kind::kDict)) Fail("format_map() argument must be a mapping, not ", TypeName(p[0]));
  Args fields;
  for (const auto& [key, value] : p[0].as<DictObject>().items) {
    if (key.string()) fields.named.emplace_back(Text(key), value);
  }
  return BraceFormat(rt, self, fields);
}

template <bool (*kTest)(char32_t)>
Value All(Runtime& rt, const Value& self, Args& args) {
  NoArguments("str method", args);
  const std::string_view text = Text(self);
  rt.budget.Step(text.size() / 16);
  for (size_t pos = 0; pos < text.size();) {
    if (!kTest(DecodeAt(text, pos))) return Value::Bool(false);
  }
  return Value::Bool(!text.empty());
}

Value IsAscii(Runtime&, const Value& self, Args& args) {
  NoArguments("isascii", args);
  return Value::Bool(self.as<StringObject>().ascii());
}

Value IsPrintableMethod(Runtime& rt, const Value& self, Args& args) {
  return Text(self).empty() ? Value::Bool(true) : All<IsPrintable>(rt, self, args);
}

Value IsIdentifier(Runtime& rt, const Value& self, Args& args) {
  size_t pos = 0;
  if (!Text(self).empty() && !IsIdentifierStart(DecodeAt(Text(self), pos))) return Value::Bool(false);
  return All<IsIdentifierPart>(rt, self, args);
}

Value IsLowerMethod(Runtime&, const Value& self, Args& args) {
  NoArguments("islower", args);
  return Value::Bool(IsLowerText(Text(self)));
}

Value IsUpperMethod(Runtime&, const Value& self, Args& args) {
  NoArguments("isupper", args);
  return Value::Bool(IsUpperText(Text(self)));
}

Value IsTitleMethod(Runtime&, const Value& self, Args& args) {
  NoArguments("istitle", args);
  bool cased = false, inside = false;
  for (size_t pos = 0; pos < Text(self).size();) {
    const char32_t c = DecodeAt(Text(self), pos);
    if (IsUpper(c) || IsTitle(c)) {
      if (inside) return Value::Bool(false);
      inside = cased = true;
    } else if (IsLower(c)) {
      if (!inside) return Value::Bool(false);
      cased = true;
    } else {
      inside = false;
    }
  }
  return Value::Bool(cased);
}

constexpr NamedCode kMethods[] = {
    {"capitalize", Converted<Capitalize>},
    {"casefold", Casefold},
    {"center", Center},
    {"expandtabs", ExpandTabs},
    {"format", Format},
    {"format_map", FormatMap},
    {"isalnum", All<IsAlnum>},
    {"isalpha", All<IsAlpha>},
    {"isascii", IsAscii},
    {"isdecimal", All<IsDecimal>},
    {"isdigit", All<IsDigit>},
    {"isidentifier", IsIdentifier},
    {"islower", IsLowerMethod},
    {"isnumeric", All<IsNumeric>},
    {"isprintable", IsPrintableMethod},
    {"isspace", All<IsSpace>},
    {"istitle", IsTitleMethod},
    {"isupper", IsUpperMethod},
    {"join", Join},
    {"ljust", LJust},
    {"lower", Converted<ToLower>},
    {"removeprefix", RemovePrefix},
    {"removesuffix", RemoveSuffix},
    {"replace", Replace},
    {"rjust", RJust},
    {"swapcase", Converted<SwapCase>},
    {"title", Converted<ToTitle>},
    {"upper", Converted<ToUpper>},
    {"zfill", ZFill},
};

}  // namespace

Value StringMethod(Runtime& rt, const Value& object, std::string_view name) {
  const NamedCode* method = FindSearchMethod(name);
  for (const NamedCode& m : kMethods) {
    if (name == m.name) method = &m;
  }
  if (method != nullptr) return rt.Function(method->name.data(), method->code, object);
  for (const char* other : {"encode", "translate", "maketrans"}) {
    if (name == other) Unsupported("the method str.", other, " is not supported");
  }
  if (IsSafe(object)) {
    for (const char* other : {"escape", "striptags", "unescape"}) {
      if (name == other) Unsupported("the method Markup.", other, " is not supported");
    }
  }
  return Value();
}

std::string ReplaceText(Runtime& rt, std::string_view text, std::string_view from, std::string_view to,
                        int64_t count) {
  Buffer out(rt.budget);
  size_t pos = 0;
  if (from.empty()) {
    for (; count != 0; count = count < 0 ? -1 : count - 1) {
      out.Append(to);
      if (pos >= text.size()) break;
      const size_t begin = pos;
      DecodeAt(text, pos);
      out.Append(text.substr(begin, pos - begin));
    }
    out.Append(text.substr(pos));
    return out.Release();
  }
  while (count != 0) {
    const size_t at = Find(text, from, pos);
    if (at == std::string_view::npos) break;
    out.Append(text.substr(pos, at - pos));
    out.Append(to);
    rt.budget.Step();
    pos = at + from.size();
    if (count > 0) --count;
  }
  out.Append(text.substr(pos));
  return out.Release();
}

std::string PadText(Runtime& rt, const Value& self, int64_t width, std::string_view fill, char align) {
  const auto length = static_cast<int64_t>(self.as<StringObject>().length);
  const int64_t pad = width > length ? width - length : 0;
  size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<size_t>(pad), fill.size(), &bytes)) bytes = SIZE_MAX;
  rt.budget.Foresee(bytes);
  rt.budget.Step(bytes / 16);
  // Python gives the odd place to the left if the width is odd.
  const int64_t left = align == '>' ? pad : align == '<' ? 0 : pad / 2 + (pad & width & 1);
  std::string out;
  out.reserve(bytes + Text(self).size());
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += Text(self);
  for (int64_t i = left; i < pad; ++i) out += fill;
  return out;
}

bool IsLowerText(std::string_view text) {
  bool cased = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = DecodeAt(text, pos);
    if (IsUpper(c) || IsTitle(c)) return false;
    cased |= IsLower(c);
  }
  return cased;
}

bool IsUpperText(std::string_view text) {
  bool cased = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = DecodeAt(text, pos);
    if (IsLower(c) || IsTitle(c)) return false;
    cased |= IsUpper(c);
  }
  return cased;
}

}  // namespace ullage::llm::jinja
