#include "llm/tokenizer/regex_reader.h"

#include <charconv>
#include <vector>

#include "core/error.h"
#include "llm/tokenizer/regex_sets.h"
#include "llm/tokenizer/unicode.h"

namespace ullage::llm {
namespace {

bool IsAsciiLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

char32_t CheckScalar(char32_t c) {
  if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) Throw(Code::kUnsupported, "code point out of range");
  return c;
}

}  // namespace

/// Characters that may stand in one place: items of a PCRE2 class, and expressions that match one character.
struct RegexReader::Union {
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

bool RegexReader::Take(std::string_view text) {
  if (in_.substr(pos_, text.size()) != text) return false;
  pos_ += text.size();
  return true;
}

char32_t RegexReader::Character() {
  size_t next = pos_;
  const char32_t c = NextCodePoint(in_, next);
  pos_ = next;
  return c;
}

std::optional<char32_t> RegexReader::EscapedCharacter(bool in_class) {
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
      if (value >= 0x80) Throw(Code::kUnsupported, "raw byte \\x", std::string(in_.substr(pos_ + 1, length)));
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

std::optional<std::pair<std::string, bool>> RegexReader::EscapedSet(bool in_class) {
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

std::string RegexReader::ParseClass(size_t depth) {
  if (depth > 20) Throw(Code::kUnsupported, "character classes are nested too deeply");
  const bool negated = Take("^");
  std::vector<std::string> factors;  // of an intersection
  Union part;
  for (bool first = true;; first = false) {
    if (pos_ >= in_.size()) Throw(Code::kUnsupported, "a character class is not closed");
    if (part.items.size() > kMaxTranslatedRegex) Throw(Code::kUnsupported, "a character class is too large");
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
    Range(part);
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

char32_t RegexReader::ClassCharacter() {
  if (Peek() == '\\') {
    ++pos_;
    if (pos_ >= in_.size()) Throw(Code::kUnsupported, "the pattern ends in a backslash");
    if (auto c = EscapedCharacter(true)) return *c;
  }
  if (pos_ >= in_.size()) Throw(Code::kUnsupported, "a character class is not closed");
  return Character();
}

/// `[:name:]` or `[:^name:]`; false if there is none at pos_.
bool RegexReader::PosixBracket(Union& part) {
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

void RegexReader::Range(Union& part) {
  const char32_t low = ClassCharacter();
  AppendClassCharacter(part.items, low);
  if (Peek() == '-' && Peek(1) != ']' && pos_ + 1 < in_.size() && Peek(1) != '[') {
    ++pos_;
    const size_t before = pos_;
    if (Peek() == '\\') {
      ++pos_;
      if (EscapedSet(true)) Throw(Code::kUnsupported, "a set stands at the end of a range at byte ", before);
      --pos_;
    }
    const char32_t high = ClassCharacter();
    if (high < low) Throw(Code::kUnsupported, "empty range in a character class at byte ", before);
    part.items += '-';
    AppendClassCharacter(part.items, high);
  }
}

}  // namespace ullage::llm
