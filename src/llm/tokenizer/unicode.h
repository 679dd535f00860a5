/// UTF-8 and the character properties that tokenizers ask for. All functions are pure and thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ullage::llm {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

/// Bytes of the code point that starts with `lead`, in valid UTF-8.
inline size_t Utf8Length(char lead) {
  const auto b = static_cast<unsigned char>(lead);
  return b < 0x80 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}

/// Reads the code point at `pos` of valid UTF-8 and moves `pos` behind it.
inline char32_t NextCodePoint(std::string_view text, size_t& pos) {
  const auto byte = [&](size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[pos + i]));
  };
  const char32_t lead = byte(0);
  char32_t c = lead;
  if (lead < 0x80) {
    pos += 1;
  } else if (lead < 0xE0) {
    c = ((lead & 0x1F) << 6) | (byte(1) & 0x3F);
    pos += 2;
  } else if (lead < 0xF0) {
    c = ((lead & 0xF) << 12) | ((byte(1) & 0x3F) << 6) | (byte(2) & 0x3F);
    pos += 3;
  } else {
    c = ((lead & 7) << 18) | ((byte(1) & 0x3F) << 12) | ((byte(2) & 0x3F) << 6) | (byte(3) & 0x3F);
    pos += 4;
  }
  return c;
}

/// Moves `pos` (> 0, at a boundary) to the beginning of the code point before it.
inline size_t PreviousBoundary(std::string_view text, size_t pos) {
  do --pos;
  while (pos > 0 && (static_cast<unsigned char>(text[pos]) & 0xC0) == 0x80);
  return pos;
}

void AppendUtf8(std::string& out, char32_t c);
size_t CountCodePoints(std::string_view valid);

/// What the bytes at the beginning of a text are: `length` bytes that form a code point (kComplete), that can
/// never become one (kInvalid: the longest prefix of a sequence, at least one byte), or that may still become
/// one (kIncomplete, only at the end of the text).
enum class Utf8Status { kComplete, kInvalid, kIncomplete };
struct Utf8Step {
  Utf8Status status;
  size_t length;
};
Utf8Step CheckUtf8(std::string_view text);

/// Length of the longest valid prefix.
size_t ValidUtf8Prefix(std::string_view text);
inline bool IsValidUtf8(std::string_view text) {
  return ValidUtf8Prefix(text) == text.size();
}
/// Every maximal part of an invalid sequence becomes one U+FFFD, as Rust's from_utf8_lossy and the WHATWG
/// decoder do.
std::string ToValidUtf8(std::string_view text);

/// Unicode White_Space.
bool IsWhiteSpace(char32_t c);
/// Categories Nd, Nl, No.
bool IsNumeric(char32_t c);
/// ASCII punctuation and symbols, and category P.
bool IsPunctuation(char32_t c);
/// Categories M, Mn.
bool IsMark(char32_t c);
bool IsNonspacingMark(char32_t c);
/// Categories Cc, Cf, Co without tab, newline and carriage return.
bool IsControl(char32_t c);
/// The ideographs that BERT sets apart.
bool IsCjk(char32_t c);
void AppendLowercase(std::string& out, char32_t c);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
/// Unicode normalization of valid UTF-8. Linear but for sorting runs of combining marks.
std::string Normalized(std::string_view text, NormalForm form);

}  // namespace ullage::llm
