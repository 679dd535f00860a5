/// The character sets of Oniguruma, written as members of a PCRE2 character class (without the brackets).
#pragma once

#include <string>
#include <string_view>

namespace ullage::llm {

/// One code point, escaped so that it is literal inside and outside of a class.
void AppendClassCharacter(std::string& out, char32_t c);

std::string SpaceItems();
/// `\w` and word boundaries outside of a class take superscript digits and fractions of Latin-1 for word
/// characters, too.
std::string WordItems(bool in_class);
/// A general category of one or two letters, with the code points that PCRE2's tables lack.
std::string CategoryItems(std::string_view category);
/// alpha, digit, punct...; empty for an unknown name.
std::string PosixItems(std::string_view name);
/// What \p{name} means: category (short or long name), POSIX name, script or binary property; case, spaces,
/// `-` and
/// `_` do not count. Throws Error(kUnsupported) for an unknown name.
std::string PropertyItems(std::string_view name);

}  // namespace ullage::llm
