#include "llm/template/lexer.h"

#include <algorithm>
#include <charconv>

#include "llm/template/format.h"
#include "llm/template/text.h"

namespace ullage::llm::jinja {
namespace {

/// One "\n" per line end; the last line end is dropped.
std::string NormalizeLines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

/// Decodes the escapes of a string literal. jinja2 first writes characters beyond ASCII as escapes, so that a
/// backslash in front of one takes its escape's backslash.
std::string DecodeLiteral(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  const auto hex = [&](size_t& i, size_t count, const char* what) {
    char32_t c = 0;
    for (size_t k = 0; k < count; ++k, ++i) {
      const int d = i >= raw.size()                                ? -1
                    : raw[i] >= '0' && raw[i] <= '9'               ? raw[i] - '0'
                    : (raw[i] | 32) >= 'a' && (raw[i] | 32) <= 'f' ? (raw[i] | 32) - 'a' + 10
                                                                   : -1;
      if (d < 0) Fail("truncated ", what, " escape in a string");
      c = c * 16 + static_cast<char32_t>(d);
    }
    if (c > 0x10FFFF) Fail("illegal Unicode character in a string");
    AppendUtf8(out, c);
  };
  for (size_t i = 0; i < raw.size();) {
    if (raw[i] != '\\') {
      out += raw[i++];
      continue;
    }
    ++i;  // a literal never ends in a single backslash
    if (static_cast<unsigned char>(raw[i]) >= 0x80) {
      const size_t at = i;
      DecodeAt(raw, i);
      out += AsciiRepr(std::string(raw.substr(at, i - at)));
      continue;
    }
    const char c = raw[i++];
    switch (c) {
      case '\n':
        break;
      case '\\':
      case '\'':
      case '"':
        out += c;
        break;
      case 'a':
        out += '\a';
        break;
      case 'b':
        out += '\b';
        break;
      case 'f':
        out += '\f';
        break;
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case 't':
        out += '\t';
        break;
      case 'v':
        out += '\v';
        break;
      case 'x':
        hex(i, 2, "\\x");
        break;
      case 'u':
        hex(i, 4, "\\u");
        break;
      case 'U':
        hex(i, 8, "\\U");
        break;
      case 'N':
        Unsupported("\\N escapes in strings are not supported");
      case '0':
      case '1':
      case '2':
      case '3':
      case '4':
      case '5':
      case '6':
      case '7': {
        auto value = static_cast<char32_t>(c - '0');
        for (int k = 0; k < 2 && i < raw.size() && raw[i] >= '0' && raw[i] <= '7'; ++k) {
          value = value * 8 + static_cast<char32_t>(raw[i++] - '0');
        }
        AppendUtf8(out, value);
        break;
      }
      default:
        out += '\\';
        out += c;
    }
  }
  return out;
}

class Lexer {
 public:
  Lexer(std::string source, int& line) : source_(std::move(source)), s_(source_), line_(line) {}

  std::vector<Token> Run() {
    while (pos_ < s_.size()) Root();
    Add(TokenKind::kEnd);
    return std::move(tokens_);
  }

 private:
  char At(size_t i) const { return i < s_.size() ? s_[i] : '\0'; }
  bool Match(size_t i, std::string_view text) const {
    return s_.substr(std::min(i, s_.size()), text.size()) == text;
  }
  size_t SkipSpace(size_t i) const {
    while (i < s_.size()) {
      size_t next = i;
      if (!IsSpace(DecodeAt(s_, next))) break;
      i = next;
    }
    return i;
  }
  void Add(TokenKind kind, std::string text = {}) {
    Token t;
    t.kind = kind;
    t.line = line_;
    t.text = std::move(text);
    tokens_.push_back(std::move(t));
  }
  /// Moves on to `to`, counting lines.
  void Advance(size_t to) {
    line_ += static_cast<int>(
        std::count(s_.begin() + static_cast<ptrdiff_t>(pos_), s_.begin() + static_cast<ptrdiff_t>(to), '\n'));
    pos_ = to;
  }

  /// Emits the text in front of a tag at `end`. `sign` is the tag's whitespace mark.
  void Data(size_t end, char sign, bool variable) {
    std::string_view text = s_.substr(pos_, end - pos_);
    if (sign == '-') {
      text = StripSpace(text, Side::kRight);
    } else if (sign != '+' && !variable) {
      const size_t newline = text.rfind('\n');
      const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
      if (line_begin > 0 || line_starting_) {
        const std::string_view tail = text.substr(line_begin);
        if (StripSpace(tail, Side::kBoth).empty()) text = text.substr(0, line_begin);
      }
    }
    if (!text.empty()) Add(TokenKind::kData, std::string(text));
    Advance(end);
  }

  /// Where a block tag ends that may close at `i` ("+%}", "-%}" with the space behind it, "%}" with a newline
  /// behind it); npos if it does not.
  size_t CloseTag(size_t i, std::string_view close) const {
    if (At(i) == '+' && Match(i + 1, close)) return i + 1 + close.size();
    if (At(i) == '-' && Match(i + 1, close)) return SkipSpace(i + 1 + close.size());
    if (!Match(i, close)) return std::string_view::npos;
    i += close.size();
    return At(i) == '\n' ? i + 1 : i;
  }
  void EndTag(size_t end) {
    Advance(end);
    line_starting_ = end > 0 && s_[end - 1] == '\n';
  }

  void Root() {
    size_t open = pos_;
    for (;; ++open) {
      open = s_.find('{', open);
      if (open == std::string_view::npos || At(open + 1) == '%' || At(open + 1) == '{' || At(open + 1) == '#')
        break;
    }
    if (open == std::string_view::npos) {
      Add(TokenKind::kData, std::string(s_.substr(pos_)));
      Advance(s_.size());
      return;
    }
    const char kind = s_[open + 1];
    const char mark = At(open + 2);
    const char sign = mark == '-' || mark == '+' ? mark : '\0';
    Data(open, sign, kind == '{');
    const size_t inside = open + 2 + (sign != '\0' ? 1 : 0);
    line_starting_ = false;
    if (kind == '#') {
      Comment(inside);
    } else if (kind == '%' && RawBegin(inside) != std::string_view::npos) {
      Raw(RawBegin(inside));
    } else {
      Add(kind == '%' ? TokenKind::kBlockBegin : TokenKind::kVariableBegin);
      Advance(inside);
      Tag(kind == '%');
    }
  }

  void Comment(size_t i) {
    for (size_t at = i; at < s_.size(); ++at) {
      at = s_.find('#', at);
      if (at == std::string_view::npos) break;
      if (!Match(at, "#}")) continue;
      const char before = at > i ? s_[at - 1] : '\0';
      const bool marked = before == '-' || before == '+';
      EndTag(CloseTag(marked ? at - 1 : at, "#}"));
      return;
    }
    if (i < s_.size()) Fail("Missing end of comment tag");
    Advance(i);
  }

  size_t RawBegin(size_t i) const {
    i = SkipSpace(i);
    if (!Match(i, "raw")) return std::string_view::npos;
    i = SkipSpace(i + 3);
    if (Match(i, "-%}")) return SkipSpace(i + 3);
    return Match(i, "%}") ? i + 2 : std::string_view::npos;
  }

  void Raw(size_t begin) {
    Advance(begin);
    line_starting_ = begin > 0 && s_[begin - 1] == '\n';
    for (size_t open = begin; (open = s_.find("{%", open)) != std::string_view::npos; ++open) {
      const char mark = At(open + 2);
      const char sign = mark == '-' || mark == '+' ? mark : '\0';
      size_t i = SkipSpace(open + 2 + (sign != '\0' ? 1 : 0));
      if (!Match(i, "endraw")) continue;
      i = SkipSpace(i + 6);
      const size_t end = CloseTag(i, "%}");
      if (end == std::string_view::npos) continue;
      Data(open, sign, false);
      EndTag(end);
      return;
    }
    if (begin < s_.size()) Fail("Missing end of raw directive");
  }

  void Tag(bool block) {
    std::string closers;
    while (true) {
      if (pos_ >= s_.size()) return;
      if (closers.empty()) {
        size_t end = std::string_view::npos;
        if (block) {
          end = CloseTag(pos_, "%}");
        } else if (Match(pos_, "-}}")) {
          end = SkipSpace(pos_ + 3);
        } else if (Match(pos_, "}}")) {
          end = pos_ + 2;
        }
        if (end != std::string_view::npos) {
          Add(block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd);
          EndTag(end);
          return;
        }
      }
      const size_t space = SkipSpace(pos_);
      if (space != pos_) {
        Advance(space);
        continue;
      }
      if (Number() || Name() || String()) continue;
      Operator(closers);
    }
  }

  static bool Digit(char c) { return c >= '0' && c <= '9'; }
  /// The end of digits, perhaps with single underscores between them; `i` if there are none.
  template <class IsDigitOf>
  size_t Digits(size_t i, IsDigitOf is_digit) const {
    const size_t begin = i;
    while (is_digit(At(i)) || (At(i) == '_' && i > begin && is_digit(At(i + 1)))) ++i;
    return i;
  }

  bool Number() {
    if (!Digit(At(pos_))) return false;
    if ((pos_ == 0 || s_[pos_ - 1] != '.') && Float()) return true;
    size_t end = pos_;
    int base = 10;
    const char p = static_cast<char>(At(pos_ + 1) | 32);
    const auto in_base = [&base](char c) {
      const int d = Digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : 99;
      return d < base;
    };
    if (At(pos_) == '0' && (p == 'x' || p == 'o' || p == 'b')) {
      base = p == 'x' ? 16 : p == 'o' ? 8 : 2;
      const size_t first = pos_ + 2 + (At(pos_ + 2) == '_' ? 1 : 0);
      end = in_base(At(first)) ? Digits(first, in_base) : pos_;
    }
    if (end == pos_) {
      base = At(pos_) == '0' ? 1 : 10;  // a decimal that begins with 0 can only be 0
      end = Digits(pos_, [&](char c) { return base == 1 ? c == '0' : Digit(c); });
    }
    Add(TokenKind::kInteger);
    ParseInt(s_.substr(pos_, end - pos_), 0, tokens_.back().integer);
    Advance(end);
    return true;
  }

  bool Float() {
    const size_t whole = Digits(pos_, Digit);
    size_t end = whole;
    if (At(end) == '.' && Digit(At(end + 1))) end = Digits(end + 1, Digit);
    size_t exponent = end;
    if ((At(exponent) | 32) == 'e') {
      ++exponent;
      if (At(exponent) == '+' || At(exponent) == '-') ++exponent;
      if (Digit(At(exponent))) end = Digits(exponent, Digit);
    }
    if (end == whole) return false;
    Add(TokenKind::kFloat);
    ParseFloat(s_.substr(pos_, end - pos_), tokens_.back().real);
    Advance(end);
    return true;
  }

  bool Name() {
    size_t end = pos_;
    bool valid = true;
    while (end < s_.size()) {
      size_t next = end;
      const char32_t c = DecodeAt(s_, next);
      if (!IsIdentifierPart(c) && !IsAlnum(c)) break;
      valid = valid && (end == pos_ ? IsIdentifierStart(c) : IsIdentifierPart(c));
      end = next;
    }
    if (end == pos_) return false;
    if (!valid) Fail("Invalid character in identifier");
    Add(TokenKind::kName, std::string(s_.substr(pos_, end - pos_)));
    Advance(end);
    return true;
  }

  bool String() {
    const char quote = At(pos_);
    if (quote != '\'' && quote != '"') return false;
    size_t end = pos_ + 1;
    while (end < s_.size() && s_[end] != quote) end += s_[end] == '\\' ? 2 : 1;
    if (end >= s_.size()) return false;
    Add(TokenKind::kString, DecodeLiteral(s_.substr(pos_ + 1, end - pos_ - 1)));
    Advance(end + 1);
    return true;
  }

  void Operator(std::string& closers) {
    for (const char* two : {"//", "**", "==", "!=", ">=", "<="}) {
      if (!Match(pos_, two)) continue;
      Add(TokenKind::kOperator, two);
      Advance(pos_ + 2);
      return;
    }
    const char c = s_[pos_];
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == std::string_view::npos) {
      size_t next = pos_;
      DecodeAt(s_, next);
      Fail("unexpected char ", StringRepr(s_.substr(pos_, next - pos_)));
    }
    if (c == '(' || c == '[' || c == '{') {
      closers += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (closers.empty()) Fail("unexpected '", std::string(1, c), "'");
      if (closers.back() != c)
        Fail("unexpected '", std::string(1, c), "', expected '", closers.substr(closers.size() - 1), "'");
      closers.pop_back();
    }
    Add(TokenKind::kOperator, std::string(1, c));
    Advance(pos_ + 1);
  }

  const std::string source_;
  const std::string_view s_;
  int& line_;
  size_t pos_ = 0;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(std::string_view source, int& line) {
  line = 1;
  return Lexer(NormalizeLines(source), line).Run();
}

std::string Describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData:
      return "template data";
    case TokenKind::kBlockBegin:
      return "begin of statement block";
    case TokenKind::kBlockEnd:
      return "end of statement block";
    case TokenKind::kVariableBegin:
      return "begin of print statement";
    case TokenKind::kVariableEnd:
      return "end of print statement";
    case TokenKind::kInteger:
      return "integer";
    case TokenKind::kFloat:
      return "float";
    case TokenKind::kString:
      return "string";
    case TokenKind::kEnd:
      return "end of template";
    default:
      return "'" + token.text + "'";
  }
}

}  // namespace ullage::llm::jinja
