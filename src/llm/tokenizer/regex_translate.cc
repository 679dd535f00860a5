#include <utility>
#include <vector>

#include "core/error.h"
#include "llm/tokenizer/regex.h"
#include "llm/tokenizer/regex_reader.h"
#include "llm/tokenizer/regex_sets.h"
#include "llm/tokenizer/unicode.h"

namespace ullage::llm {
namespace {

constexpr size_t kMaxNesting = 100;

bool IsAsciiDigit(char c) {
  return c >= '0' && c <= '9';
}

class Translator : private RegexReader {
 public:
  explicit Translator(std::string_view pattern) : RegexReader(pattern) {}

  std::string Run() {
    groups_.push_back({0, 0, false});
    while (pos_ < in_.size()) {
      Step();
      if (out_.size() > kMaxTranslatedRegex) Throw(Code::kUnsupported, "the translated pattern is too long");
    }
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
        out_ += Class();
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
      default:
        AppendClassCharacter(out_, Character());
        return;
    }
    ++pos_;
  }

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
