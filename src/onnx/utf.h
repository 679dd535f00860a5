/// UTF-8 to code points and back, strictly. Internal to src/onnx.
#pragma once

#include <string>
#include <string_view>

namespace ullage::onnx {

/// False when a code point is a surrogate or beyond U+10FFFF.
inline bool AppendUtf8(std::u32string_view code_points, std::string& out) {
  for (const char32_t c : code_points) {
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return false;
    const auto put = [&](unsigned value) { out += static_cast<char>(value); };
    const auto tail = [&](int shift) { put(0x80u | ((c >> shift) & 0x3fu)); };
    if (c < 0x80) {
      put(c);
    } else if (c < 0x800) {
      put(0xc0u | (c >> 6));
      tail(0);
    } else if (c < 0x10000) {
      put(0xe0u | (c >> 12));
      tail(6);
      tail(0);
    } else {
      put(0xf0u | (c >> 18));
      tail(12);
      tail(6);
      tail(0);
    }
  }
  return true;
}

/// False when the text is no well-formed UTF-8.
inline bool AppendCodePoints(std::string_view text, std::u32string& out) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
    const unsigned lead = byte(i++);
    if (lead < 0x80) {
      out += static_cast<char32_t>(lead);
      continue;
    }
    const int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || text.size() - i < static_cast<size_t>(more)) return false;
    char32_t c = lead & (0x3fu >> more);
    for (int k = 0; k < more; ++k, ++i) {
      if ((byte(i) & 0xc0u) != 0x80) return false;
      c = c << 6 | (byte(i) & 0x3fu);
    }
    const char32_t smallest = more == 3 ? 0x10000 : more == 2 ? 0x800 : 0x80;
    if (c < smallest || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return false;
    out += c;
  }
  return true;
}

}  // namespace ullage::onnx
