#include "placement/rules.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "core/error.h"

namespace ullage::placement {
namespace {

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

/// Text with its place in the option.
struct Span {
  std::string_view text;
  size_t position = 0;

  Span Sub(size_t from, size_t to) const { return {text.substr(from, to - from), position + from}; }
  Span Trimmed() const {
    size_t from = 0, to = text.size();
    while (from < to && IsBlank(text[from])) ++from;
    while (to > from && IsBlank(text[to - 1])) --to;
    return Sub(from, to);
  }
  bool empty() const { return text.empty(); }
};

/// Calls fn with each piece between separators.
template <class Fn>
void Split(const Span& span, char separator, const Fn& fn) {
  for (size_t at = 0; at <= span.text.size();) {
    const size_t end = std::min(span.text.find(separator, at), span.text.size());
    fn(span.Sub(at, end));
    at = end + 1;
  }
}

class Parser {
 public:
  explicit Parser(RuleMode mode) { set_.mode = mode; }

  RuleSet Parse(std::string_view text) {
    Split({text, 0}, ';', [&](const Span& entry) {
      if (const Span trimmed = entry.Trimmed(); !trimmed.empty()) Entry(trimmed);
    });
    return std::move(set_);
  }

 private:
  template <class... Parts>
  [[noreturn]] void Fail(size_t position, const Span& entry, const Parts&... parts) const {
    throw Error(Code::kUsage,
                StrCat("option ", OptionOf(set_.mode), ", position ", position, ", entry \"", entry.text,
                       "\": ", parts...),
                StrCat("{\"position\":", position, "}"));
  }

  void Entry(const Span& entry) {
    const size_t open = entry.text.find('('), close = entry.text.find(')');
    if (open == std::string_view::npos && close == std::string_view::npos)
      Fail(entry.position, entry, "expected DEVICE(PATTERN, …), found no parenthesis");
    if (open == std::string_view::npos) Fail(entry.position + close, entry, "')' without '('");
    if (close == std::string_view::npos) Fail(entry.position + open, entry, "'(' without ')'");
    if (close < open) Fail(entry.position + close, entry, "')' stands before '('");
    const Span name = entry.Sub(0, open).Trimmed();
    if (name.empty()) Fail(entry.position, entry, "no device is named before '('");
    Designator device;
    DesignatorFault fault;
    if (!ParseDesignator(name.text, &device, &fault))
      Fail(name.position + fault.position, entry, fault.message);
    const Span rest = entry.Sub(close + 1, entry.text.size()).Trimmed();
    if (!rest.empty())
      Fail(rest.position, entry, "unexpected text \"", rest.text, "\" behind ')'; is a ';' missing?");
    const size_t before = set_.rules.size();
    Split(entry.Sub(open + 1, close), ',', [&](const Span& item) {
      if (const Span trimmed = item.Trimmed(); !trimmed.empty()) Pattern(entry, device, trimmed);
    });
    if (set_.rules.size() == before)
      set_.warnings.push_back(StrCat("option ", OptionOf(set_.mode), ", position ", entry.position, ": ",
                                     device.text, " has no patterns"));
  }

  void Pattern(const Span& entry, const Designator& device, Span item) {
    Rule rule;
    rule.device = device;
    rule.position = item.position;
    if (item.text[0] == '=') {
      if (set_.mode == RuleMode::kName)
        Fail(item.position, entry, "'=' is for annotations; names are matched by parts");
      rule.exact = true;
      item = item.Sub(1, item.text.size()).Trimmed();
      if (item.empty()) {
        set_.warnings.push_back(StrCat("option ", OptionOf(set_.mode), ", position ", rule.position,
                                       ": '=' without a text matches nothing"));
        return;
      }
    }
    rule.pattern = item.text;
    if (!seen_.insert({rule.exact, rule.pattern}).second)
      Fail(rule.position, entry,
           rule.exact                     ? "exact"
           : set_.mode == RuleMode::kName ? "name"
                                          : "prefix",
           " pattern \"", rule.pattern, "\" is there twice");
    if (set_.mode == RuleMode::kName) Ranges(entry, item, &rule);
    set_.rules.push_back(std::move(rule));
  }

  /// `[` digits `-` opens a range; any other `[` is a character of names like "/constants/INT64/[1]".
  void Ranges(const Span& entry, const Span& item, Rule* rule) const {
    const std::string_view text = item.text;
    std::string literal;
    const auto flush = [&] {
      if (!literal.empty()) rule->parts.push_back({std::move(literal), false, 0, 0});
      literal.clear();
    };
    for (size_t i = 0; i < text.size();) {
      size_t dash = i + 1;
      while (text[i] == '[' && dash < text.size() && IsDigit(text[dash])) ++dash;
      if (text[i] != '[' || dash == i + 1 || dash >= text.size() || text[dash] != '-') {
        literal += text[i++];
        continue;
      }
      size_t close = dash + 1;
      while (close < text.size() && IsDigit(text[close])) ++close;
      if (close == dash + 1 || close >= text.size() || text[close] != ']')
        Fail(item.position + i, entry, "a range is written [FIRST-LAST], found \"", text.substr(i), "\"");
      PatternPart part;
      part.is_range = true;
      part.text = text.substr(i, close + 1 - i);
      const auto number = [&](size_t from, size_t to, int64_t* out) {
        return std::from_chars(text.data() + from, text.data() + to, *out).ec == std::errc();
      };
      if (!number(i + 1, dash, &part.first) || !number(dash + 1, close, &part.last))
        Fail(item.position + i, entry, "the numbers of range ", part.text, " are too large");
      if (part.first > part.last) Fail(item.position + i, entry, "range ", part.text, " is empty");
      flush();
      if (!rule->parts.empty() && rule->parts.back().is_range)
        Fail(item.position + i, entry, "range ", part.text, " follows another without a text between them");
      rule->parts.push_back(std::move(part));
      i = close + 1;
    }
    flush();
  }

  RuleSet set_;
  std::set<std::pair<bool, std::string>> seen_;
};

}  // namespace

bool Rule::has_range() const {
  return std::any_of(parts.begin(), parts.end(), [](const PatternPart& p) { return p.is_range; });
}

std::string Rule::ToString() const {
  return StrCat(device.text, "(", exact ? "=" : "", pattern, ")");
}

std::string_view OptionOf(RuleMode mode) {
  return mode == RuleMode::kAnnotation ? "session.layer_assignment_settings"
                                       : "session.name_based_layer_assignment";
}

RuleSet ParseRules(RuleMode mode, std::string_view text) {
  return Parser(mode).Parse(text);
}

}  // namespace ullage::placement
