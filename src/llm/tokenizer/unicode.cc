#include "llm/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>

#include "llm/tokenizer/unicode_tables.h"

namespace ullage::llm {
namespace {

bool InRanges(char32_t c, const CodePointRange* ranges, size_t size) {
  const CodePointRange* it = std::upper_bound(
      ranges, ranges + size, c, [](char32_t v, const CodePointRange& r) { return v < r.first; });
  return it != ranges && c <= it[-1].last;
}

}  // namespace

void AppendUtf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    const char bytes[] = {static_cast<char>(0xC0 | (c >> 6)), static_cast<char>(0x80 | (c & 0x3F))};
    out.append(bytes, 2);
  } else if (c < 0x10000) {
    const char bytes[] = {static_cast<char>(0xE0 | (c >> 12)), static_cast<char>(0x80 | ((c >> 6) & 0x3F)),
                          static_cast<char>(0x80 | (c & 0x3F))};
    out.append(bytes, 3);
  } else {
    const char bytes[] = {static_cast<char>(0xF0 | (c >> 18)), static_cast<char>(0x80 | ((c >> 12) & 0x3F)),
                          static_cast<char>(0x80 | ((c >> 6) & 0x3F)), static_cast<char>(0x80 | (c & 0x3F))};
    out.append(bytes, 4);
  }
}

size_t CountCodePoints(std::string_view valid) {
  return static_cast<size_t>(std::count_if(
      valid.begin(), valid.end(), [](char b) { return (static_cast<unsigned char>(b) & 0xC0) != 0x80; }));
}

Utf8Step CheckUtf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {Utf8Status::kComplete, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Status::kInvalid, 1};
  const size_t need = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and values above U+10FFFF.
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < need; ++i) {
    if (i == text.size()) return {Utf8Status::kIncomplete, i};
    const bool good = i == 1 ? byte(1) >= low && byte(1) <= high : (byte(i) & 0xC0) == 0x80;
    if (!good) return {Utf8Status::kInvalid, i};
  }
  return {Utf8Status::kComplete, need};
}

size_t ValidUtf8Prefix(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    while (text.size() - pos >= 8) {
      uint64_t word;
      std::memcpy(&word, text.data() + pos, 8);
      if (word & 0x8080808080808080u) break;
      pos += 8;
    }
    if (pos == text.size()) break;
    const Utf8Step step = CheckUtf8(text.substr(pos));
    if (step.status != Utf8Status::kComplete) break;
    pos += step.length;
  }
  return pos;
}

std::string ToValidUtf8(std::string_view text) {
  std::string out;
  for (;;) {
    const size_t good = ValidUtf8Prefix(text);
    out.append(text.substr(0, good));
    text.remove_prefix(good);
    if (text.empty()) return out;
    AppendUtf8(out, kReplacementCharacter);
    text.remove_prefix(CheckUtf8(text).length);
  }
}

bool IsWhiteSpace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool IsNumeric(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return InRanges(c, kNumeric, kNumericSize);
}

bool IsPunctuation(char32_t c) {
  return InRanges(c, kPunctuation, kPunctuationSize);
}
bool IsMark(char32_t c) {
  return c >= 0x300 && InRanges(c, kMark, kMarkSize);
}
bool IsNonspacingMark(char32_t c) {
  return c >= 0x300 && InRanges(c, kNonspacingMark, kNonspacingMarkSize);
}
bool IsControl(char32_t c) {
  return InRanges(c, kControl, kControlSize);
}

bool IsCjk(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

void AppendLowercase(std::string& out, char32_t c) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
    return;
  }
  const LowercaseException* end = kLowercaseExceptions + kLowercaseExceptionsSize;
  const LowercaseException* it = std::lower_bound(
      kLowercaseExceptions, end, c, [](const LowercaseException& e, char32_t v) { return e.from < v; });
  if (it != end && it->from == c) {
    AppendUtf8(out, it->to[0]);
    if (it->to[1] != 0) AppendUtf8(out, it->to[1]);
    return;
  }
  AppendUtf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

}  // namespace ullage::llm
