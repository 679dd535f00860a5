// Filters that make text.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "llm/template/filters.h"
#include "llm/template/format.h"
#include "llm/template/text.h"

namespace ullage::llm::jinja {
namespace {

bool IsSafe(const Value& v) {
  return v.as<StringObject>().safe;
}

template <std::string (*kConvert)(std::string_view)>
Value Converted(Runtime& rt, const Value& input, Args& args) {
  NoArguments("filter", args);
  const Value s = SoftStr(rt, input);
  rt.budget.Foresee(Text(s).size() * 7);
  rt.budget.Step(Text(s).size() / 8);
  return rt.Str(kConvert(Text(s)), IsSafe(s));
}

/// Words begin behind white space and opening brackets, and behind hyphens.
std::string TitleWords(std::string_view text) {
  std::string out;
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto separates = [](char32_t c) {
      return IsSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    };
    size_t end = 0;
    bool first = true, separator = false;
    for (size_t next = 0; end < rest.size(); end = next) {
      const bool s = separates(DecodeAt(rest, next));
      if (first) separator = s;
      if (s != separator) break;
      first = false;
    }
    const std::string_view word = rest.substr(0, end);
    size_t head = 0;
    DecodeAt(word, head);
    out += ToUpper(word.substr(0, head));
    out += ToLower(word.substr(head));
    rest.remove_prefix(end);
  }
  return out;
}

Value Trim(Runtime& rt, const Value& input, Args& args) {
  const Params p(rt, "trim", args, {"chars"});
  const Value s = SoftStr(rt, input);
  rt.budget.Step(Text(s).size() / 16);
  if (p[0].missing() || p[0].none()) return rt.Str(StripSpace(Text(s), Side::kBoth), IsSafe(s));
  if (!p[0].string()) Fail("strip arg must be None or str");
  return rt.Str(StripChars(Text(s), Text(p[0]), Side::kBoth), IsSafe(s));
}

Value Replace(Runtime& rt, const Value& input, Args& args) {
  const Params p(rt, "replace", args, {"old", "new", "count"}, 2);
  const int64_t count = p[2].missing() || p[2].none() ? -1 : ToIndex(p[2]);
  const std::string text = ToStr(rt, input), from = ToStr(rt, p[0]), to = ToStr(rt, p[1]);
  return rt.Str(ReplaceText(rt, text, from, to, count));
}

Value Join(Runtime& rt, const Value& input, Args& args) {
  const Params p(rt, "join", args, {"d", "attribute"});
  const AttributeGetter get(rt, p[1]);
  const std::string separator = p[0].missing() ? "" : ToStr(rt, p[0]);
  Buffer out(rt.budget);
  bool first = true;
  const auto it = Iterate(rt, input);
  for (Value v = it->Next(rt); !v.missing(); v = it->Next(rt)) {
    if (!first) out.Append(separator);
    first = false;
    AppendStr(rt, out, get(v));
  }
  return rt.Str(out.Release());
}

Value String(Runtime& rt, const Value& input, Args& args) {
  NoArguments("string", args);
  return SoftStr(rt, input);
}

Value Safe(Runtime& rt, const Value& input, Args& args) {
  NoArguments("safe", args);
  return rt.Str(ToStr(rt, input), true);
}

Value EscapeFilter(Runtime& rt, const Value& input, Args& args) {
  NoArguments("escape", args);
  return Escape(rt, input);
}

Value ForceEscape(Runtime& rt, const Value& input, Args& args) {
  NoArguments("forceescape", args);
  return rt.Str(EscapeHtml(ToStr(rt, input)), true);
}

Value FormatFilter(Runtime& rt, const Value& input, Args& args) {
  if (!args.positional.empty() && !args.named.empty()) {
    Fail("can't handle positional and keyword arguments at the same time");
  }
  const Value format = SoftStr(rt, input);
  if (args.named.empty()) return PercentFormat(rt, format, rt.Tuple(std::move(args.positional)));
  auto dict = rt.Dict();
  for (const auto& [key, value] : args.named) Set(rt, *dict, rt.Str(key), value);
  return PercentFormat(rt, format, Runtime::DictValue(std::move(dict)));
}

Value Center(Runtime& rt, const Value& input, Args& args) {
  const Params p(rt, "center", args, {"width"});
  const Value s = SoftStr(rt, input);
  return rt.Str(PadText(rt, s, p[0].missing() ? 80 : ToIndex(p[0]), " ", '^'), IsSafe(s));
}

Value Indent(Runtime& rt, const Value& input, Args& args) {
  const Params p(rt, "indent", args, {"width", "first", "blank"});
  std::string indention;
  if (p[0].string()) {
    indention = Text(p[0]);
  } else {
    const int64_t width = p[0].missing() ? 4 : ToIndex(p[0]);
    rt.budget.Foresee(static_cast<size_t>(std::max<int64_t>(width, 0)));
    indention.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  if (input.undefined()) FailUndefined(input);
  if (!input.string()) Fail("the filter indent needs a string, not ", TypeName(input));
  const std::string text = Text(input) + "\n";
  const std::vector<std::string_view> lines = SplitLines(text, false);
  const bool blank = Flag(rt, p[2]);
  Buffer out(rt.budget);
  if (Flag(rt, p[1])) out.Append(indention);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out.Append('\n');
      if (blank || !lines[i].empty()) out.Append(indention);
    }
    out.Append(lines[i]);
  }
  return rt.Str(out.Release(), IsSafe(input));
}

Value Truncate(Runtime& rt, const Value& input, Args& args) {
  const Params p(rt, "truncate", args, {"length", "killwords", "end", "leeway"});
  const int64_t length = p[0].missing() ? 255 : ToIndex(p[0]);
  const Value end = p[2].missing() ? rt.Str("...") : p[2];
  const int64_t leeway = p[3].missing() || p[3].none() ? 5 : ToIndex(p[3]);
  const int64_t end_length = Length(rt, end);
  if (length < end_length) Fail("truncate: expected length >= ", end_length, ", got ", length);
  if (leeway < 0) Fail("truncate: expected leeway >= 0, got ", leeway);
  const int64_t have = Length(rt, input);
  if (have <= length || have - length <= leeway) return input;
  const Value head = GetSlice(rt, input, Value::None(), Value::Int(length - end_length), Value::None());
  if (Flag(rt, p[1])) return Arithmetic(rt, BinaryOp::kAdd, head, end);
  if (!head.string()) Fail("'", TypeName(head), "' object has no attribute 'rsplit'");
  const size_t space = Text(head).rfind(' ');
  const Value words = rt.Str(std::string_view(Text(head)).substr(0, space), IsSafe(head));
  return Arithmetic(rt, BinaryOp::kAdd, words, end);
}

/// textwrap.wrap of one paragraph that is cut at white space only.
void WrapParagraph(std::string_view text, int64_t width, bool break_long, std::vector<std::string>& lines) {
  const auto is_space = [](char c) { return std::strchr("\t\n\v\f\r ", c) != nullptr && c != '\0'; };
  std::vector<std::string_view> chunks;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && is_space(text[end]) == is_space(text[i])) ++end;
    chunks.push_back(text.substr(i, end - i));
    i = end;
  }
  const auto blank = [](std::string_view s) { return StripSpace(s, Side::kBoth).empty(); };
  const auto length = [](std::string_view s) { return static_cast<int64_t>(CountCodePoints(s)); };
  size_t next = 0;
  while (next < chunks.size()) {
    std::vector<std::string_view> line;
    int64_t used = 0;
    if (!lines.empty() && blank(chunks[next])) ++next;
    while (next < chunks.size() && used + length(chunks[next]) <= width) {
      used += length(chunks[next]);
      line.push_back(chunks[next++]);
    }
    if (next < chunks.size() && length(chunks[next]) > width) {
      const int64_t room = width < 1 ? 1 : width - used;
      if (break_long) {
        const size_t cut = ByteOffset(chunks[next], static_cast<size_t>(room));
        line.push_back(chunks[next].substr(0, cut));
        chunks[next].remove_prefix(cut);
      } else if (line.empty()) {
        line.push_back(chunks[next++]);
      }
    }
    if (!line.empty() && blank(line.back())) line.pop_back();
    if (line.empty()) continue;
    std::string joined;
    for (const std::string_view piece : line) joined += piece;
    lines.push_back(std::move(joined));
  }
}

Value WordWrap(Runtime& rt, const Value& input, Args& args) {
  const Params p(rt, "wordwrap", args, {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
  const int64_t width = p[0].missing() ? 79 : ToIndex(p[0]);
  const bool break_long = p[1].missing() || Truthy(rt, p[1]);
  const bool hyphens = p[3].missing() || Truthy(rt, p[3]);
  if (input.undefined()) FailUndefined(input);
  if (!input.string()) Fail("the filter wordwrap needs a string, not ", TypeName(input));
  if (hyphens && Text(input).find('-') != std::string::npos) {
    Unsupported("wordwrap of text with hyphens is supported with break_on_hyphens=false only");
  }
  if (width <= 0) Fail("invalid width ", width, " (must be > 0)");
  rt.budget.Step(Text(input).size());
  const std::string between = p[2].missing() || p[2].none() ? "\n" : ToStr(rt, p[2]);
  Buffer out(rt.budget);
  bool first = true;
  for (const std::string_view paragraph : SplitLines(Text(input), false)) {
    std::vector<std::string> lines;
    WrapParagraph(paragraph, width, break_long, lines);
    if (lines.empty()) lines.emplace_back();
    for (const std::string& line : lines) {
      if (!first) out.Append(between);
      first = false;
      out.Append(line);
    }
  }
  return rt.Str(out.Release());
}

Value StripTags(Runtime& rt, const Value& input, Args& args) {
  NoArguments("striptags", args);
  std::string text = ToStr(rt, input);
  const auto cut = [&](std::string_view open, std::string_view close) {
    std::string out;
    size_t from = 0;
    while (true) {
      const size_t begin = Find(text, open, from);
      const size_t end = begin == std::string::npos ? begin : Find(text, close, begin);
      if (end == std::string::npos) break;
      out += text.substr(from, begin - from);
      from = end + close.size();
    }
    text = out + text.substr(from);
  };
  cut("<!--", "-->");
  cut("<", ">");
  std::string out;
  std::string_view rest = StripSpace(text, Side::kBoth);
  while (!rest.empty()) {
    size_t end = 0;
    for (size_t next = 0; end < rest.size(); end = next) {
      if (IsSpace(DecodeAt(rest, next))) break;
    }
    if (!out.empty()) out += ' ';
    out += rest.substr(0, end);
    rest = StripSpace(rest.substr(end), Side::kLeft);
  }
  if (out.find('&') != std::string::npos)
    Unsupported("striptags of text with character references is not supported");
  return rt.Str(std::move(out));
}

Value WordCount(Runtime& rt, const Value& input, Args& args) {
  NoArguments("wordcount", args);
  const std::string text = ToStr(rt, input);
  rt.budget.Step(text.size() / 16);
  int64_t words = 0;
  bool inside = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = DecodeAt(text, pos);
    const bool word = c == '_' || IsAlnum(c);
    words += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value::Int(words);
}

std::string Quote(Runtime& rt, const Value& v, bool query) {
  std::string out;
  for (const char c : ToStr(rt, v)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !query);
    if (plain) {
      out += c;
    } else if (c == ' ' && query) {
      out += '+';
    } else {
      const auto b = static_cast<unsigned char>(c);
      out += '%';
      out += "0123456789ABCDEF"[b >> 4];
      out += "0123456789ABCDEF"[b & 15];
    }
  }
  return out;
}

Value UrlEncode(Runtime& rt, const Value& input, Args& args) {
  NoArguments("urlencode", args);
  if (input.string() || !Iterable(input)) return rt.Str(Quote(rt, input, false));
  std::string out;
  const auto add = [&](const Value& key, const Value& value) {
    if (!out.empty()) out += '&';
    out += Quote(rt, key, true) + "=" + Quote(rt, value, true);
  };
  if (input.Is(Kind::kDict)) {
    for (const auto& [key, value] : input.as<DictObject>().items) add(key, value);
    return rt.Str(std::move(out));
  }
  for (const Value& pair : ToVector(rt, input)) {
    const std::vector<Value> two = ToVector(rt, pair);
    if (two.size() != 2) Fail("urlencode needs pairs, got ", two.size(), " values");
    add(two[0], two[1]);
  }
  return rt.Str(std::move(out));
}

Value XmlAttr(Runtime& rt, const Value& input, Args& args) {
  const Params p(rt, "xmlattr", args, {"autospace"});
  if (!input.Is(Kind::kDict)) Fail("'", TypeName(input), "' object has no attribute 'items'");
  Buffer out(rt.budget);
  bool first = true;
  for (const auto& [key, value] : input.as<DictObject>().items) {
    if (value.none() || value.undefined()) continue;
    if (!key.string()) Fail("expected string or bytes-like object, got '", TypeName(key), "'");
    if (Text(key).find_first_of(" \t\n\r\f\v/>=") != std::string::npos) {
      Fail("Invalid character in attribute name: ", StringRepr(Text(key)));
    }
    if (!first || p[0].missing() || Truthy(rt, p[0])) out.Append(' ');
    first = false;
    out.Append(Text(Escape(rt, key)));
    out.Append("=\"");
    out.Append(Text(Escape(rt, value)));
    out.Append("\"");
  }
  return rt.Str(out.Release());
}

Value FileSize(Runtime& rt, const Value& input, Args& args) {
  const Params p(rt, "filesizeformat", args, {"binary"});
  double bytes = 0;
  if (input.number()) {
    bytes = input.real();
  } else if (!input.string() || !ParseFloat(Text(input), bytes)) {
    if (input.undefined()) FailUndefined(input);
    Fail("could not convert ", TypeName(input), " to float");
  }
  const bool binary = Flag(rt, p[0]);
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return rt.Str("1 Byte");
  if (bytes < base) return rt.Str(std::to_string(TruncateToInt(bytes)) + " Bytes");
  static constexpr const char* kPrefixes[] = {"k", "M", "G", "T", "P", "E", "Z", "Y"};
  double unit = base;
  for (int i = 0;; ++i) {
    unit *= base;
    if (bytes >= unit && i < 7) continue;
    const std::string prefix = binary ? ToUpper(kPrefixes[i]) + "iB" : std::string(kPrefixes[i]) + "B";
    return rt.Str(FormatFloat(base * bytes / unit, 'f', 1, false) + " " + prefix);
  }
}

Value PrettyPrint(Runtime& rt, const Value& input, Args& args) {
  NoArguments("pprint", args);
  const auto sorted = [&](auto& self, const Value& v) -> Value {
    rt.CheckStack();
    if (v.Is(Kind::kList) || v.Is(Kind::kTuple)) {
      std::vector<Value> items;
      for (const Value& item : Items(v)) items.push_back(self(self, item));
      return v.Is(Kind::kList) ? rt.List(std::move(items)) : rt.Tuple(std::move(items));
    }
    if (!v.Is(Kind::kDict)) return v;
    auto items = v.as<DictObject>().items;
    std::stable_sort(items.begin(), items.end(), [&](const auto& a, const auto& b) {
      const bool comparable =
          (a.first.string() && b.first.string()) || (a.first.number() && b.first.number());
      if (!comparable) Unsupported("pprint of a dict with keys of several types is not supported");
      return Less(rt, a.first, b.first);
    });
    auto dict = rt.Dict();
    for (const auto& [key, value] : items) Set(rt, *dict, key, self(self, value));
    return Runtime::DictValue(std::move(dict));
  };
  std::string text = ToRepr(rt, sorted(sorted, input));
  if (CountCodePoints(text) > 80)
    Unsupported("pprint of a value that does not fit on one line is not supported");
  return rt.Str(std::move(text));
}

Value Urlize(Runtime&, const Value&, Args&) {
  Unsupported("the filter urlize is not supported");
}

constexpr NamedCode kFilters[] = {
    {"capitalize", Converted<Capitalize>},
    {"center", Center},
    {"e", EscapeFilter},
    {"escape", EscapeFilter},
    {"filesizeformat", FileSize},
    {"forceescape", ForceEscape},
    {"format", FormatFilter},
    {"indent", Indent},
    {"join", Join},
    {"lower", Converted<ToLower>},
    {"pprint", PrettyPrint},
    {"replace", Replace},
    {"safe", Safe},
    {"string", String},
    {"striptags", StripTags},
    {"title", Converted<TitleWords>},
    {"trim", Trim},
    {"truncate", Truncate},
    {"upper", Converted<ToUpper>},
    {"urlencode", UrlEncode},
    {"urlize", Urlize},
    {"wordcount", WordCount},
    {"wordwrap", WordWrap},
    {"xmlattr", XmlAttr},
};

}  // namespace

FunctionObject::Code FindTextFilter(std::string_view name) {
  return Lookup(kFilters, name);
}

}  // namespace ullage::llm::jinja
