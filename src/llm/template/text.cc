#include "llm/template/text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>

#include "llm/template/unicode_data.h"

namespace ullage::llm::jinja {
namespace {

utf8proc_category_t Category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool InRanges(const Range* table, size_t size, char32_t c) {
  const Range* end = table + size;
  const Range* at = std::upper_bound(table, end, c, [](char32_t v, const Range& r) { return v < r.first; });
  return at != table && c <= (at - 1)->last;
}

const Expansion* FindExpansion(const Expansion* table, size_t size, char32_t c) {
  const Expansion* end = table + size;
  const Expansion* at =
      std::lower_bound(table, end, c, [](const Expansion& e, char32_t v) { return e.from < v; });
  return at != end && at->from == c ? at : nullptr;
}

void AppendExpansion(std::string& out, const Expansion& e) {
  for (char32_t c : e.to) {
    if (c != 0) AppendUtf8(out, c);
  }
}

void AppendUpper(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  } else if (const Expansion* e = FindExpansion(kUpperExpansions, kUpperExpansionsSize, c)) {
    AppendExpansion(out, *e);
  } else {
    AppendUtf8(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
  }
}

void AppendTitle(std::string& out, char32_t c) {
  if (c < 0x80) {
    AppendUpper(out, c);
  } else if (const Expansion* e = FindExpansion(kTitleExpansions, kTitleExpansionsSize, c)) {
    AppendExpansion(out, *e);
  } else {
    AppendUtf8(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
  }
}

bool IsCased(char32_t c) {
  return IsLower(c) || IsUpper(c) || IsTitle(c);
}

bool IsCaseIgnorable(char32_t c) {
  if (c == '\'' || c == '.' || c == ':' || c == '^' || c == '`' || c == 0xB7 || c == 0x387 || c == 0x55F ||
      c == 0x5F4 || c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027 || c == 0xFE13 || c == 0xFE52 ||
      c == 0xFE55 || c == 0xFF07 || c == 0xFF0E || c == 0xFF1A) {
    return true;
  }
  const utf8proc_category_t k = Category(c);
  return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
         k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK;
}

/// A capital sigma becomes the final form behind a letter and before none.
bool IsFinalSigma(std::u32string_view text, size_t i) {
  size_t before = i;
  while (before > 0 && IsCaseIgnorable(text[before - 1])) --before;
  if (before == 0 || !IsCased(text[before - 1])) return false;
  size_t after = i + 1;
  while (after < text.size() && IsCaseIgnorable(text[after])) ++after;
  return after == text.size() || !IsCased(text[after]);
}

void AppendLower(std::string& out, std::u32string_view text, size_t i) {
  const char32_t c = text[i];
  if (c < 0x80) {
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  } else if (c == 0x130) {
    AppendUtf8(out, 'i');
    AppendUtf8(out, 0x307);
  } else if (c == 0x3A3) {
    AppendUtf8(out, IsFinalSigma(text, i) ? 0x3C2 : 0x3C3);
  } else {
    AppendUtf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

bool IsLineEnd(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

template <class Pred>
std::string_view Strip(std::string_view text, Side side, Pred strip) {
  size_t begin = 0;
  if (side != Side::kRight) {
    while (begin < text.size()) {
      size_t next = begin;
      if (!strip(DecodeAt(text, next))) break;
      begin = next;
    }
  }
  size_t end = text.size();
  if (side != Side::kLeft) {
    while (end > begin) {
      size_t at = end - 1;
      while (at > begin && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
      size_t pos = at;
      if (!strip(DecodeAt(text, pos))) break;
      end = at;
    }
  }
  return text.substr(begin, end - begin);
}

}  // namespace

char32_t DecodeAt(std::string_view text, size_t& pos) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[i])); };
  const char32_t b = byte(pos);
  const size_t n = b < 0x80 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
  if (pos + n > text.size()) {
    pos = text.size();
    return 0xFFFD;
  }
  char32_t c = n == 1 ? b : b & (0xFFu >> (n + 1));
  for (size_t i = 1; i < n; ++i) c = (c << 6) | (byte(pos + i) & 0x3F);
  pos += n;
  return c;
}

void AppendUtf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

std::u32string ToCodePoints(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) out += DecodeAt(text, pos);
  return out;
}

std::string FromCodePoints(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char32_t c : text) AppendUtf8(out, c);
  return out;
}

bool IsWellFormed(std::string_view text, bool allow_surrogates) {
  for (size_t pos = 0; pos < text.size();) {
    const auto b = static_cast<unsigned char>(text[pos]);
    if (b < 0x80) {
      ++pos;
      continue;
    }
    if (b < 0xC2 || b > 0xF4) return false;
    const size_t n = b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
    if (pos + n > text.size()) return false;
    for (size_t i = 1; i < n; ++i) {
      if ((static_cast<unsigned char>(text[pos + i]) & 0xC0) != 0x80) return false;
    }
    const char32_t c = DecodeAt(text, pos);
    if ((n == 3 && c < 0x800) || (n == 4 && (c < 0x10000 || c > 0x10FFFF))) return false;
    if (c >= 0xD800 && c < 0xE000 && !allow_surrogates) return false;
  }
  return true;
}

size_t CountCodePoints(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

size_t ByteOffset(std::string_view text, size_t n) {
  size_t pos = 0;
  for (; pos < text.size(); ++pos) {
    if ((text[pos] & 0xC0) == 0x80) continue;
    if (n-- == 0) return pos;
  }
  return pos;
}

bool IsSpace(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool IsPrintable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool IsAlpha(char32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  const utf8proc_category_t k = Category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool IsDecimal(char32_t c) {
  return c < 0x80 ? c >= '0' && c <= '9' : Category(c) == UTF8PROC_CATEGORY_ND;
}

bool IsDigit(char32_t c) {
  return IsDecimal(c) || InRanges(kOtherDigits, kOtherDigitsSize, c);
}

bool IsNumeric(char32_t c) {
  if (c < 0x80) return IsDecimal(c);
  const utf8proc_category_t k = Category(c);
  return (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO) ||
         InRanges(kOtherNumeric, kOtherNumericSize, c);
}

bool IsAlnum(char32_t c) {
  return IsAlpha(c) || IsNumeric(c);
}

bool IsLower(char32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z';
  return Category(c) == UTF8PROC_CATEGORY_LL || InRanges(kOtherLowercase, kOtherLowercaseSize, c);
}

bool IsUpper(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z';
  return Category(c) == UTF8PROC_CATEGORY_LU || InRanges(kOtherUppercase, kOtherUppercaseSize, c);
}

bool IsTitle(char32_t c) {
  return c >= 0x80 && Category(c) == UTF8PROC_CATEGORY_LT;
}

bool IsIdentifierStart(char32_t c) {
  return c == '_' || IsAlpha(c) || Category(c) == UTF8PROC_CATEGORY_NL;
}

bool IsIdentifierPart(char32_t c) {
  if (c < 0x80) return c == '_' || IsAlpha(c) || IsDecimal(c);
  const utf8proc_category_t k = Category(c);
  return IsIdentifierStart(c) || k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC ||
         k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_PC;
}

int DecimalValue(char32_t c) {
  if (c < 0x80) return static_cast<int>(c - '0');
  // Decimal digits come in runs of ten consecutive code points, in order.
  char32_t zero = c;
  while (c - zero < 10 && IsDecimal(zero - 1)) --zero;
  return static_cast<int>((c - zero) % 10);
}

std::string ToLower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const std::u32string chars = ToCodePoints(text);
  for (size_t i = 0; i < chars.size(); ++i) AppendLower(out, chars, i);
  return out;
}

std::string ToUpper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) AppendUpper(out, DecodeAt(text, pos));
  return out;
}

std::string ToTitle(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const std::u32string chars = ToCodePoints(text);
  bool inside = false;
  for (size_t i = 0; i < chars.size(); ++i) {
    if (inside) {
      AppendLower(out, chars, i);
    } else {
      AppendTitle(out, chars[i]);
    }
    inside = IsCased(chars[i]);
  }
  return out;
}

std::string SwapCase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const std::u32string chars = ToCodePoints(text);
  for (size_t i = 0; i < chars.size(); ++i) {
    if (IsUpper(chars[i])) {
      AppendLower(out, chars, i);
    } else if (IsLower(chars[i])) {
      AppendUpper(out, chars[i]);
    } else {
      AppendUtf8(out, chars[i]);
    }
  }
  return out;
}

std::string Capitalize(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const std::u32string chars = ToCodePoints(text);
  for (size_t i = 0; i < chars.size(); ++i) {
    if (i == 0) {
      AppendTitle(out, chars[i]);
    } else {
      AppendLower(out, chars, i);
    }
  }
  return out;
}

std::string_view StripSpace(std::string_view text, Side side) {
  return Strip(text, side, IsSpace);
}

std::string_view StripChars(std::string_view text, std::string_view chars, Side side) {
  std::u32string set = ToCodePoints(chars);
  std::sort(set.begin(), set.end());
  return Strip(text, side, [&](char32_t c) { return std::binary_search(set.begin(), set.end(), c); });
}

size_t Find(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  const void* at = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return at == nullptr ? std::string_view::npos
                       : static_cast<size_t>(static_cast<const char*>(at) - text.data());
}

size_t FindLast(std::string_view text, std::string_view part) {
  if (part.size() <= 32) return text.rfind(part);
  const std::string reversed_text(text.rbegin(), text.rend());
  const std::string reversed_part(part.rbegin(), part.rend());
  const size_t at = Find(reversed_text, reversed_part, 0);
  return at == std::string_view::npos ? at : text.size() - at - part.size();
}

std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> out;
  size_t start = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t at = pos;
    const char32_t c = DecodeAt(text, pos);
    if (!IsLineEnd(c)) continue;
    if (c == '\r' && pos < text.size() && text[pos] == '\n') ++pos;
    out.push_back(text.substr(start, (keep_ends ? pos : at) - start));
    start = pos;
  }
  if (start < text.size()) out.push_back(text.substr(start));
  return out;
}

}  // namespace ullage::llm::jinja
