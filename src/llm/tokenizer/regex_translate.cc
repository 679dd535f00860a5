#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"
#include "llm/tokenizer/regex.h"
#include "llm/tokenizer/regex_sets.h"
#include "llm/tokenizer/unicode.h"

namespace ullage::llm {
namespace {

constexpr size_t kMaxNesting = 100;

bool IsAsciiDigit(char c) {
  return c >= '0' && c <= '9';
}
bool IsAsciiLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Characters that may stand in one place: items of a PCRE2 class, and expressions that match one character.
struct Union {
  std::string items;
  std::vector<std::string> others;

  bool empty() const { return items.empty() && others.empty(); }
  std::string Positive() const {
    if (others.empty()) return "[" + items + "]";
    std::string out = "(?:";
    if (!items.empty()) out += "[" + items + "]|";
    for (size_t i = 0; i < others.size(); ++i) out += (i > 0 ? "|" : "") + others[i];
    return out + ")";
  }
  std::string Expression(bool negated) const {
    if (!negated) return Positive();
    if (others.empty()) return "[^" + items + "]";
    return "(?:(?!" + Positive() + ")(?s:.))";
  }
};

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  std::string Run() {
    groups_.push_back({0, 0, false});
    while (pos_ < in_.size()) Step();
    if (groups_.size() != 1) Throw(Code::kUnsupported, "a parenthesis is not closed");
    out_.append(groups_.back().extra_closers, ')');
    return std::move(out_);
  }

 private:
  struct Group {
    size_t start;
    size_t extra_closers;  // of isolated options, closed together with the group
    bool extended;
  };

  char Peek(size_t ahead = 0) const { return pos_ + ahead < in_.size() ? in_[pos_ + ahead] : '\0'; }
  bool Take(std::string_view text) {
    if (in_.substr(pos_, text.size()) != text) return false;
    pos_ += text.size();
    return true;
  }

  void BeginAtom() {
    atom_ = out_.size();
    has_atom_ = true;
    quantified_ = false;
  }

  void Step() {
    const char c = Peek();
    if (groups_.back().extended && (IsWhiteSpace(static_cast<unsigned char>(c)) || c == '#')) {
      if (c != '#') {
        ++pos_;
      } else {
        while (pos_ < in_.size() && in_[pos_] != '\n') ++pos_;
      }
      return;
    }
    switch (c) {
      case '(':
        return OpenGroup();
      case ')':
        return CloseGroup();
      case '|':
        out_ += '|';
        ++pos_;
        has_atom_ = false;
        return;
      case '[':
        ++pos_;
        BeginAtom();
        out_ += ParseClass(0);
        return;
      case '\\':
        return Escape();
      case '*':
      case '+':
      case '?':
        Quantifier();
        return;
      case '{':
        if (!Quantifier()) {
          BeginAtom();
          out_ += "\\{";
          ++pos_;
        }
        return;
      default: {
        BeginAtom();
        const size_t length = Utf8Length(c);
        out_.append(in_.substr(pos_, length));
        pos_ += length;
      }
    }
  }

  void OpenGroup() {
    if (groups_.size() > kMaxNesting) Throw(Code::kUnsupported, "groups are nested too deeply");
    const size_t start = out_.size();
    bool extended = groups_.back().extended;
    if (Take("(?#")) {
      while (pos_ < in_.size() && in_[pos_] != ')') ++pos_;
      if (!Take(")")) Throw(Code::kUnsupported, "a comment is not closed");
      return;
    }
    if (Take("(?~")) Throw(Code::kUnsupported, "the absence operator (?~ is not supported");
    static constexpr std::string_view kPlain[] = {"(?:", "(?>", "(?=", "(?!", "(?<=", "(?<!"};
    for (std::string_view opener : kPlain) {
      if (Take(opener)) {
        out_ += opener;
        groups_.push_back({start, 0, extended});
        has_atom_ = false;
        return;
      }
    }
    if (Peek(1) == '?' && (Peek(2) == '<' || Peek(2) == '\'')) {
      const char close = Peek(2) == '<' ? '>' : '\'';
      const size_t end = in_.find(close, pos_ + 3);
      if (end == std::string_view::npos) Throw(Code::kUnsupported, "a group name is not closed");
      out_.append(in_.substr(pos_, end + 1 - pos_));
      pos_ = end + 1;
      groups_.push_back({start, 0, extended});
      has_atom_ = false;
      return;
    }
    if (Peek(1) != '?') {
      out_ += '(';
      ++pos_;
      groups_.push_back({start, 0, extended});
      has_atom_ = false;
      return;
    }
    Options(start);
  }

  /// `(?imx-imx)` or `(?imx-imx:`. Ruby's m is PCRE2's s; x is dealt with here.
  void Options(size_t start) {
    pos_ += 2;
    bool extended = groups_.back().extended;
    bool on = true;
    std::string set, unset;
    for (; Peek() != ')' && Peek() != ':'; ++pos_) {
      switch (Peek()) {
        case '-':
          on = false;
          break;
        case 'i':
          (on ? set : unset) += 'i';
          break;
        case 'm':
          (on ? set : unset) += 's';
          break;
        case 'x':
          extended = on;
          break;
        default:
          Throw(Code::kUnsupported, "group option at byte ", pos_, " is not supported");
      }
    }
    out_ += "(?" + set + (unset.empty() ? "" : "-" + unset) + ":";
    has_atom_ = false;
    if (Peek() == ':') {
      groups_.push_back({start, 0, extended});
    } else {  // holds up to the end of the enclosing group, alternatives included
      groups_.back().extended = extended;
      if (++groups_.back().extra_closers > kMaxNesting) Throw(Code::kUnsupported, "too many options");
    }
    ++pos_;
  }

  void CloseGroup() {
    if (groups_.size() == 1) Throw(Code::kUnsupported, "unmatched closing parenthesis");
    const Group group = groups_.back();
    groups_.pop_back();
    out_.append(group.extra_closers + 1, ')');
    ++pos_;
    atom_ = group.start;
    has_atom_ = true;
    quantified_ = false;
  }

  /// False if `{` begins no interval.
  bool Quantifier() {
    std::string text;
    bool interval = false, exact = false;
    if (Peek() == '{') {
      size_t p = pos_ + 1;
      const auto number = [&] {
        const size_t from = p;
        while (p < in_.size() && IsAsciiDigit(in_[p])) ++p;
        return std::string(in_.substr(from, p - from));
      };
      const std::string low = number();
      std::string high = low;
      const bool comma = p < in_.size() && in_[p] == ',';
      if (comma) {
        ++p;
        high = number();
      }
      if (p >= in_.size() || in_[p] != '}' || (low.empty() && high.empty())) return false;
      exact = !comma;
      interval = true;
      text = "{" + (low.empty() ? "0" : low) + (comma ? "," + high : "") + "}";
      pos_ = p + 1;
    } else {
      text = std::string(1, Peek());
      ++pos_;
    }
    if (!has_atom_) Throw(Code::kUnsupported, "nothing to repeat at byte ", pos_);
    if (Peek() == '?' && !exact) {
      text += '?';
      ++pos_;
    } else if (Peek() == '+' && !interval) {
      text += '+';
      ++pos_;
    }
    if (quantified_) {
      if (++wraps_ > kMaxNesting) Throw(Code::kUnsupported, "too many stacked quantifiers");
      out_.insert(atom_, "(?:");
      out_ += ')';
    }
    out_ += text;
    quantified_ = true;
    return true;
  }

  /// Hexadecimal and octal escapes and the control characters; nullopt if the escape at pos_ (behind the
  /// backslash) is none of them. Moves pos_ only when it is.
  std::optional<char32_t> EscapedCharacter(bool in_class) {
    const char c = Peek();
    const auto hex = [&](size_t from, size_t most) -> std::pair<char32_t, size_t> {
      uint32_t value = 0;
      const char* begin = in_.data() + std::min(from, in_.size());
      const char* end = in_.data() + std::min(from + most, in_.size());
      const auto [stop, error] = std::from_chars(begin, end, value, 16);
      return {value, error == std::errc() ? static_cast<size_t>(stop - begin) : 0};
    };
    switch (c) {
      case 't':
        ++pos_;
        return U'\t';
      case 'n':
        ++pos_;
        return U'\n';
      case 'r':
        ++pos_;
        return U'\r';
      case 'f':
        ++pos_;
        return U'\f';
      case 'v':
        ++pos_;
        return U'\v';
      case 'a':
        ++pos_;
        return U'\a';
      case 'e':
        ++pos_;
        return U'\x1B';
      case 'b':
        if (!in_class) return std::nullopt;
        ++pos_;
        return U'\b';
      case 'u': {
        const auto [value, length] = hex(pos_ + 1, 4);
        if (length != 4) Throw(Code::kUnsupported, "\\u needs four hexadecimal digits");
        pos_ += 5;
        return CheckScalar(value);
      }
      case 'x': {
        if (Peek(1) == '{') {
          const auto [value, length] = hex(pos_ + 2, 8);
          if (length == 0 || Peek(2 + length) != '}') Throw(Code::kUnsupported, "malformed \\x{...}");
          pos_ += 3 + length;
          return CheckScalar(value);
        }
        const auto [value, length] = hex(pos_ + 1, 2);
        if (value >= 0x80)
          Throw(Code::kUnsupported, "raw byte \\x", std::string(in_.substr(pos_ + 1, length)));
        pos_ += 1 + length;
        return value;
      }
      case '0':
      case '1':
      case '2':
      case '3':
      case '4':
      case '5':
      case '6':
      case '7': {
        if (c != '0' && !in_class) return std::nullopt;  // a back reference
        char32_t value = 0;
        for (int i = 0; i < 3 && Peek() >= '0' && Peek() <= '7'; ++i, ++pos_)
          value = value * 8 + (Peek() - '0');
        if (value >= 0x80) Throw(Code::kUnsupported, "raw byte in octal");
        return value;
      }
      default:
        return std::nullopt;
    }
  }

  static char32_t CheckScalar(char32_t c) {
    if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) Throw(Code::kUnsupported, "code point out of range");
    return c;
  }

  /// Sets that an escape names; nullopt if the escape at pos_ (behind the backslash) names none. Moves pos_
  /// only when it does.
  std::optional<std::pair<std::string, bool>> EscapedSet(bool in_class) {
    const char c = Peek();
    switch (c) {
      case 's':
      case 'S':
        ++pos_;
        return std::pair{SpaceItems(), c == 'S'};
      case 'w':
      case 'W':
        ++pos_;
        return std::pair{WordItems(in_class), c == 'W'};
      case 'd':
      case 'D':
        ++pos_;
        return std::pair{CategoryItems("Nd"), c == 'D'};
      case 'h':
      case 'H':
        ++pos_;
        return std::pair{std::string("0-9A-Fa-f"), c == 'H'};
      case 'p':
      case 'P': {
        if (Peek(1) != '{') return std::nullopt;
        const size_t end = in_.find('}', pos_);
        if (end == std::string_view::npos) Throw(Code::kUnsupported, "a property name is not closed");
        std::string_view name = in_.substr(pos_ + 2, end - pos_ - 2);
        bool negated = c == 'P';
        if (!name.empty() && name[0] == '^') {
          negated = !negated;
          name.remove_prefix(1);
        }
        pos_ = end + 1;
        return std::pair{PropertyItems(name), negated};
      }
      default:
        return std::nullopt;
    }
  }

  void Escape() {
    ++pos_;
    if (pos_ >= in_.size()) Throw(Code::kUnsupported, "the pattern ends in a backslash");
    BeginAtom();
    if (auto set = EscapedSet(false)) {
      out_ += (set->second ? "[^" : "[") + set->first + "]";
      return;
    }
    if (auto c = EscapedCharacter(false)) {
      AppendClassCharacter(out_, *c);
      return;
    }
    const char c = Peek();
    const std::string word = "[" + WordItems(false) + "]";
    switch (c) {
      case 'b':
        out_ += "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))";
        break;
      case 'B':
        out_ += "(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))";
        break;
      case 'N':
        out_ += "[^\\x{a}]";
        break;
      case 'O':
        out_ += "(?s:.)";
        break;
      case 'A':
      case 'z':
      case 'Z':
      case 'G':
      case 'K':
      case 'R':
      case 'X':
      case '1':
      case '2':
      case '3':
      case '4':
      case '5':
      case '6':
      case '7':
      case '8':
      case '9':
        out_ += '\\';
        out_ += c;
        while (IsAsciiDigit(c) && IsAsciiDigit(Peek(1))) out_ += in_[++pos_];
        break;
      case 'k': {
        const size_t end = in_.find(Peek(1) == '\'' ? '\'' : '>', pos_ + 2);
        if (end == std::string_view::npos) Throw(Code::kUnsupported, "malformed \\k");
        out_ += '\\';
        out_.append(in_.substr(pos_, end + 1 - pos_));
        pos_ = end;
        break;
      }
      case 'g':
      case 'y':
      case 'Y':
      case 'c':
      case 'C':
      case 'M':
        Throw(Code::kUnsupported, "the escape \\", c, " is not supported");
      default: {
        size_t next = pos_;
        AppendClassCharacter(out_, NextCodePoint(in_, next));
        pos_ = next;
        return;
      }
    }
    ++pos_;
  }

  /// Behind `[`. Returns an expression for one character and leaves pos_ behind `]`.
  std::string ParseClass(size_t depth) {
    if (depth > 20) Throw(Code::kUnsupported, "character classes are nested too deeply");
    const bool negated = Take("^");
    std::vector<std::string> factors;  // of an intersection
    Union part;
    for (bool first = true;; first = false) {
      if (pos_ >= in_.size()) Throw(Code::kUnsupported, "a character class is not closed");
      if (Peek() == ']' && !first) break;
      if (Take("&&")) {
        if (part.empty()) Throw(Code::kUnsupported, "empty side of &&");
        factors.push_back(part.Positive());
        part = Union();
        continue;
      }
      if (Peek() == '[') {
        if (PosixBracket(part)) continue;
        ++pos_;
        part.others.push_back(ParseClass(depth + 1));
        continue;
      }
      if (Peek() == '\\') {
        ++pos_;
        if (auto set = EscapedSet(true)) {
          if (set->second) {
            part.others.push_back("[^" + set->first + "]");
          } else {
            part.items += set->first;
          }
          continue;
        }
        --pos_;
      }
      const char32_t low = ClassCharacter();
      AppendClassCharacter(part.items, low);
      if (Peek() == '-' && Peek(1) != ']' && pos_ + 1 < in_.size() && Peek(1) != '[') {
        ++pos_;
        const size_t before = pos_;
        if (Peek() == '\\') {
          ++pos_;
          if (EscapedSet(true))
            Throw(Code::kUnsupported, "a set stands at the end of a range at byte ", before);
          --pos_;
        }
        const char32_t high = ClassCharacter();
        if (high < low) Throw(Code::kUnsupported, "empty range in a character class at byte ", before);
        part.items += '-';
        AppendClassCharacter(part.items, high);
      }
    }
    ++pos_;
    if (part.empty()) Throw(Code::kUnsupported, "empty character class");
    if (factors.empty()) {
      // A class whose only member is a class is that class.
      if (part.items.empty() && part.others.size() == 1 && !negated) return part.others[0];
      return part.Expression(negated);
    }
    std::string all;
    for (const std::string& f : factors) all += "(?=" + f + ")";
    all = "(?:" + all + part.Positive() + ")";
    return negated ? "(?:(?!" + all + ")(?s:.))" : all;
  }

  char32_t ClassCharacter() {
    if (Peek() == '\\') {
      ++pos_;
      if (pos_ >= in_.size()) Throw(Code::kUnsupported, "the pattern ends in a backslash");
      if (auto c = EscapedCharacter(true)) return *c;
    }
    if (pos_ >= in_.size()) Throw(Code::kUnsupported, "a character class is not closed");
    size_t next = pos_;
    const char32_t c = NextCodePoint(in_, next);
    pos_ = next;
    return c;
  }

  /// `[:name:]` or `[:^name:]`; false if there is none at pos_.
  bool PosixBracket(Union& part) {
    if (Peek(1) != ':') return false;
    size_t end = pos_ + 2;
    const bool negated = end < in_.size() && in_[end] == '^';
    if (negated) ++end;
    const size_t from = end;
    while (end < in_.size() && IsAsciiLetter(in_[end])) ++end;
    if (in_.substr(end, 2) != ":]") return false;
    const std::string_view name = in_.substr(from, end - from);
    const std::string items = PosixItems(name);
    if (items.empty()) Throw(Code::kUnsupported, "unknown POSIX bracket [:", name, ":]");
    if (negated) {
      part.others.push_back("[^" + items + "]");
    } else {
      part.items += items;
    }
    pos_ = end + 2;
    return true;
  }

  std::string_view in_;
  size_t pos_ = 0;
  std::string out_;
  std::vector<Group> groups_;
  size_t atom_ = 0;
  bool has_atom_ = false;
  bool quantified_ = false;
  size_t wraps_ = 0;
};

}  // namespace

std::string TranslateRegex(std::string_view pattern) {
  return Translator(pattern).Run();
}

}  // namespace ullage::llm
