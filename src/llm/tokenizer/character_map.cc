#include <utf8proc.h>

#include <cstring>

#include "core/error.h"
#include "llm/tokenizer/normalizer.h"
#include "llm/tokenizer/unicode.h"

namespace ullage::llm {
namespace {

constexpr size_t kLongestCluster = 5;  // bytes

int Base64Value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/// The end of the extended grapheme cluster that begins at pos.
size_t ClusterEnd(std::string_view text, size_t pos) {
  char32_t before = NextCodePoint(text, pos);
  utf8proc_int32_t state = 0;
  while (pos < text.size()) {
    size_t next = pos;
    const char32_t c = NextCodePoint(text, next);
    if (before < 0x80 && c < 0x80 && !(before == '\r' && c == '\n')) break;
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before),
                                         static_cast<utf8proc_int32_t>(c), &state)) {
      break;
    }
    before = c;
    pos = next;
  }
  return pos;
}

}  // namespace

std::string DecodeBase64(std::string_view text, std::string_view where) {
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  std::string out;
  out.reserve(text.size() / 4 * 3 + 3);
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    const int value = Base64Value(c);
    if (value < 0) Throw(Code::kInvalidModel, where, ": the character map is not base64");
    bits = (bits << 6) | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>((bits >> count) & 0xFF);
    }
  }
  return out;
}

CharacterMap::CharacterMap(std::string bytes) : bytes_(std::move(bytes)) {
  uint32_t trie_bytes = 0;
  if (bytes_.size() < 4) Throw(Code::kInvalidModel, "the character map has only ", bytes_.size(), " bytes");
  std::memcpy(&trie_bytes, bytes_.data(), 4);
  if (trie_bytes > bytes_.size() - 4 || trie_bytes % 4 != 0 || trie_bytes == 0) {
    Throw(Code::kInvalidModel, "the character map says its trie has ", trie_bytes, " bytes; ",
          bytes_.size() - 4, " follow");
  }
  units_ = trie_bytes / 4;
  if (!IsValidUtf8(std::string_view(bytes_).substr(4 + trie_bytes))) {
    Throw(Code::kInvalidModel, "the replacements of the character map are not UTF-8");
  }
}

uint32_t CharacterMap::Unit(size_t i) const {
  uint32_t unit = 0;
  if (i < units_) std::memcpy(&unit, bytes_.data() + 4 + 4 * i, 4);
  return unit;
}

CharacterMap::Match CharacterMap::Find(std::string_view text, bool longest) const {
  // Units are those of a double-array trie: bits 0-7 and 31 the label, 8 whether a value follows, 10-30 the
  // offset (shifted by eight more if bit 9 is set).
  const auto offset = [](uint32_t unit) {
    return static_cast<size_t>((unit >> 10) << ((unit & (1u << 9)) >> 6));
  };
  Match match;
  size_t node = offset(Unit(0));
  const std::string_view replacements = std::string_view(bytes_).substr(4 + 4 * units_);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0) break;
    node ^= byte;
    const uint32_t unit = Unit(node);
    if ((unit & ((1u << 31) | 0xFF)) != byte) break;
    node ^= offset(unit);
    if ((unit >> 8) & 1) {
      const size_t value = Unit(node) & ((1u << 31) - 1);
      // A replacement that begins outside of the text or inside of a character makes no match.
      if (value >= replacements.size() || (static_cast<unsigned char>(replacements[value]) & 0xC0) == 0x80)
        break;
      const size_t end = replacements.find('\0', value);
      match = {i + 1, replacements.substr(value, end == std::string_view::npos ? end : end - value)};
      if (!longest) break;
    }
  }
  return match;
}

void CharacterMap::Apply(const NormalText& from, std::string& out) const {
  const std::string_view text = from.text;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    from.CheckSize(out.size());
    const size_t end = ClusterEnd(text, pos);
    Match match;
    if (end - pos <= kLongestCluster && (match = Shortest(text.substr(pos, end - pos))).length > 0) {
      out += match.replacement;
      pos = end;
      continue;
    }
    while (pos < end) {
      const std::string_view character = text.substr(pos, Utf8Length(text[pos]));
      match = Shortest(character);
      out += match.length > 0 ? match.replacement : character;
      pos += character.size();
    }
  }
}

}  // namespace ullage::llm
