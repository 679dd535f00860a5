/// The parts of a pattern that name single characters and sets of them: escapes and character classes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ullage::llm {

/// Bytes that a translated pattern may have; a backslash and a letter can stand for a long list.
inline constexpr size_t kMaxTranslatedRegex = size_t{1} << 20;

/// Reads an Oniguruma pattern and writes PCRE2 items. Throws Error(kUnsupported) for what cannot be
/// translated.
class RegexReader {
 public:
  explicit RegexReader(std::string_view pattern) : in_(pattern) {}

  char Peek(size_t ahead = 0) const { return pos_ + ahead < in_.size() ? in_[pos_ + ahead] : '\0'; }
  /// Moves over `text` if it comes next.
  bool Take(std::string_view text);
  /// One code point of the pattern.
  char32_t Character();
  /// Hexadecimal and octal escapes and the control characters, behind the backslash. Nullopt, and nothing is
  /// read, if there is none of them.
  std::optional<char32_t> EscapedCharacter(bool in_class);
  /// Members of the set that an escape names, and whether it names all others. Nullopt, and nothing is read,
  /// if the escape names no set.
  std::optional<std::pair<std::string, bool>> EscapedSet(bool in_class);
  /// Behind `[`: an expression that matches one character. Reads the `]`.
  std::string Class() { return ParseClass(0); }

 protected:
  std::string_view in_;
  size_t pos_ = 0;

 private:
  struct Union;
  std::string ParseClass(size_t depth);
  char32_t ClassCharacter();
  void Range(Union& part);
  bool PosixBracket(Union& part);
};

}  // namespace ullage::llm
