#include "llm/tokenizer/json_scanner.h"

#include <charconv>

#include "core/error.h"
#include "llm/tokenizer/unicode.h"

namespace ullage::llm {
namespace {

constexpr int kMaxDepth = 64;

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

void JsonScanner::Fail(std::string_view what) const {
  Throw(Code::kInvalidModel, name_, ": JSON at byte ", pos_, ": ", what);
}

void JsonScanner::Space() {
  while (pos_ < text_.size() &&
         (text_[pos_] == ' ' || text_[pos_] == '\n' || text_[pos_] == '\r' || text_[pos_] == '\t')) {
    ++pos_;
  }
}

char JsonScanner::Peek() {
  Space();
  if (pos_ == text_.size()) Fail("a value is missing");
  return text_[pos_];
}

void JsonScanner::Expect(char c) {
  Space();
  if (pos_ == text_.size() || text_[pos_] != c) Fail(std::string("expected '") + c + "'");
  ++pos_;
}

void JsonScanner::Open(char c) {
  Expect(c);
  if (++depth_ > kMaxDepth) Fail("nested too deeply");
}

bool JsonScanner::Close(char c) {
  Space();
  if (pos_ < text_.size() && text_[pos_] == c) {
    ++pos_;
    return true;
  }
  return false;
}

bool JsonScanner::More(char close) {
  Space();
  if (pos_ < text_.size() && text_[pos_] == ',') {
    ++pos_;
    return true;
  }
  Expect(close);
  return false;
}

std::string_view JsonScanner::String() {
  Expect('"');
  const size_t start = pos_;
  const auto plain = [&] {
    while (pos_ < text_.size() && text_[pos_] != '"' && text_[pos_] != '\\' &&
           static_cast<unsigned char>(text_[pos_]) >= 0x20) {
      ++pos_;
    }
    if (pos_ == text_.size()) Fail("a string is not closed");
    if (static_cast<unsigned char>(text_[pos_]) < 0x20) Fail("control character in a string");
  };
  plain();
  if (text_[pos_] == '"') return text_.substr(start, pos_++ - start);
  unescaped_.assign(text_.substr(start, pos_ - start));
  while (text_[pos_] == '\\') {
    if (++pos_ == text_.size()) Fail("a string is not closed");
    switch (text_[pos_++]) {
      case '"':
        unescaped_ += '"';
        break;
      case '\\':
        unescaped_ += '\\';
        break;
      case '/':
        unescaped_ += '/';
        break;
      case 'b':
        unescaped_ += '\b';
        break;
      case 'f':
        unescaped_ += '\f';
        break;
      case 'n':
        unescaped_ += '\n';
        break;
      case 'r':
        unescaped_ += '\r';
        break;
      case 't':
        unescaped_ += '\t';
        break;
      case 'u': {
        char32_t c = Hex4();
        if (c >= 0xDC00 && c < 0xE000) Fail("lone surrogate");
        if (c >= 0xD800 && c < 0xDC00) {
          if (text_.substr(pos_, 2) != "\\u") Fail("lone surrogate");
          pos_ += 2;
          const char32_t low = Hex4();
          if (low < 0xDC00 || low >= 0xE000) Fail("lone surrogate");
          c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        }
        AppendUtf8(unescaped_, c);
        break;
      }
      default:
        Fail("unknown escape in a string");
    }
    const size_t from = pos_;
    plain();
    unescaped_.append(text_.substr(from, pos_ - from));
  }
  ++pos_;
  return unescaped_;
}

uint32_t JsonScanner::Hex4() {
  uint32_t value = 0;
  if (pos_ + 4 > text_.size()) Fail("\\u needs four hexadecimal digits");
  const auto [end, error] = std::from_chars(text_.data() + pos_, text_.data() + pos_ + 4, value, 16);
  if (error != std::errc() || end != text_.data() + pos_ + 4) Fail("\\u needs four hexadecimal digits");
  pos_ += 4;
  return value;
}

std::string_view JsonScanner::NumberText() {
  Space();
  const size_t start = pos_;
  const auto digits = [&] {
    const size_t from = pos_;
    while (pos_ < text_.size() && IsDigit(text_[pos_])) ++pos_;
    if (pos_ == from) Fail("expected a number");
    return pos_ - from;
  };
  if (pos_ < text_.size() && text_[pos_] == '-') ++pos_;
  const size_t first = pos_;
  if (digits() > 1 && text_[first] == '0') Fail("a number has a leading zero");
  if (pos_ < text_.size() && text_[pos_] == '.') {
    ++pos_;
    digits();
  }
  if (pos_ < text_.size() && (text_[pos_] == 'e' || text_[pos_] == 'E')) {
    ++pos_;
    if (pos_ < text_.size() && (text_[pos_] == '+' || text_[pos_] == '-')) ++pos_;
    digits();
  }
  return text_.substr(start, pos_ - start);
}

int64_t JsonScanner::Integer() {
  const std::string_view number = NumberText();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size()) Fail("expected an integer");
  return value;
}

double JsonScanner::Number() {
  const std::string_view number = NumberText();
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size()) Fail("number out of range");
  return value;
}

void JsonScanner::SkipLiteral(std::string_view word) {
  if (text_.substr(pos_, word.size()) != word) Fail("unknown literal");
  pos_ += word.size();
}

std::string_view JsonScanner::Skip() {
  const char c = Peek();
  const size_t start = pos_;
  switch (c) {
    case '{':
      Object([&](std::string_view) { Skip(); });
      break;
    case '[':
      Array([&] { Skip(); });
      break;
    case '"':
      String();
      break;
    case 't':
      SkipLiteral("true");
      break;
    case 'f':
      SkipLiteral("false");
      break;
    case 'n':
      SkipLiteral("null");
      break;
    default:
      NumberText();
  }
  return text_.substr(start, pos_ - start);
}

std::string_view JsonScanner::SkipQuickly() {
  const char c = Peek();
  if (c != '{' && c != '[') return Skip();
  const size_t start = pos_;
  size_t depth = 0;
  do {
    if (pos_ == text_.size()) Fail("a bracket is not closed");
    const char next = text_[pos_++];
    if (next == '"') {
      while (pos_ < text_.size() && text_[pos_] != '"') pos_ += text_[pos_] == '\\' ? 2 : 1;
      if (pos_ >= text_.size()) Fail("a string is not closed");
      ++pos_;
    } else if ((next | 0x20) == '{') {  // [ or {
      ++depth;
    } else if ((next | 0x20) == '}') {  // ] or }
      --depth;
    }
  } while (depth > 0);
  return text_.substr(start, pos_ - start);
}

void JsonScanner::End() {
  Space();
  if (pos_ != text_.size()) Fail("text after the end of the document");
}

}  // namespace ullage::llm
