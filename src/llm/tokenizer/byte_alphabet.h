/// The 256 printable characters that stand for bytes in byte-level vocabularies: bytes 33-126, 161-172 and
/// 174-255 are themselves, the others are U+0100 and up, in order.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace ullage::llm {

/// The character of each byte; all are below U+0144.
const std::array<char16_t, 256>& ByteAlphabet();
/// The byte of a character, or -1.
int ByteOfCharacter(char32_t c);
/// Appends the characters of the bytes.
void AppendByteCharacters(std::string& out, std::string_view bytes);

}  // namespace ullage::llm
