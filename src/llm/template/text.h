/// Text as the template language sees it: sequences of code points, stored as UTF-8 in which lone surrogates
/// may occur (a template can write them as "\ud800"). Everything here expects well-formed input;
/// IsWellFormed() checks it. Behaviour follows Python's str type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ullage::llm::jinja {

/// Decodes the code point that begins at `pos` and moves `pos` behind it.
char32_t DecodeAt(std::string_view text, size_t& pos);
void AppendUtf8(std::string& out, char32_t c);
std::u32string ToCodePoints(std::string_view text);
std::string FromCodePoints(std::u32string_view text);

/// True if every byte belongs to a correctly encoded code point; surrogates are accepted only if asked for.
bool IsWellFormed(std::string_view text, bool allow_surrogates);

size_t CountCodePoints(std::string_view text);
/// The byte where the code point with index `n` begins; text.size() if there are fewer.
size_t ByteOffset(std::string_view text, size_t n);

bool IsSpace(char32_t c);
bool IsPrintable(char32_t c);
bool IsAlpha(char32_t c);
bool IsDecimal(char32_t c);
bool IsDigit(char32_t c);
bool IsNumeric(char32_t c);
bool IsAlnum(char32_t c);
bool IsLower(char32_t c);
bool IsUpper(char32_t c);
bool IsTitle(char32_t c);
bool IsIdentifierStart(char32_t c);
bool IsIdentifierPart(char32_t c);
/// The value of a decimal digit (category Nd).
int DecimalValue(char32_t c);

std::string ToLower(std::string_view text);
std::string ToUpper(std::string_view text);
std::string ToTitle(std::string_view text);
std::string SwapCase(std::string_view text);
/// First character in title case, the rest in lower case.
std::string Capitalize(std::string_view text);

enum class Side { kBoth, kLeft, kRight };
std::string_view StripSpace(std::string_view text, Side side);
/// Strips every code point that occurs in `chars`.
std::string_view StripChars(std::string_view text, std::string_view chars, Side side);

/// First and last occurrence of `part` (byte positions; npos if none) in time linear in both lengths.
size_t Find(std::string_view text, std::string_view part, size_t from);
size_t FindLast(std::string_view text, std::string_view part);

std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends);

}  // namespace ullage::llm::jinja
