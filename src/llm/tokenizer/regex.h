/// Regular expressions of tokenizer files: Oniguruma's Ruby syntax, matched by PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace ullage::llm {

/// Rewrites an Oniguruma pattern (the syntax of `tokenizers`) for PCRE2 with UTF, UCP and MULTILINE.
/// Differences that matter: \s \w \d \h and POSIX classes, categories of code points that PCRE2's Unicode
/// version does not know, nested classes and `&&`, (?m), interval quantifiers, isolated options. Throws
/// Error(kUnsupported) naming what cannot be translated (absence operator, subexpression calls, raw bytes).
std::string TranslateRegex(std::string_view pattern);

/// A compiled pattern. Immutable and thread-safe; copies share the code.
class Regex {
 public:
  /// `pattern` in Oniguruma syntax. Throws Error(kUnsupported) with the pattern and the reason.
  static Regex Compile(std::string_view pattern);

  /// Successive matches in a text of valid UTF-8, which must outlive the matcher. An empty match right behind
  /// the previous match is passed over.
  class Matcher {
   public:
    Matcher(const Regex& regex, std::string_view text) : regex_(regex), text_(text) {}
    /// False when there is no further match. Throws Error(kInvalidInput) when the work limit is exceeded.
    bool Next(size_t& begin, size_t& end);

   private:
    const Regex& regex_;
    std::string_view text_;
    size_t pos_ = 0;
    size_t last_end_ = static_cast<size_t>(-1);
  };

  const std::string& pattern() const { return pattern_; }

 private:
  struct Code;
  bool Search(std::string_view text, size_t from, size_t& begin, size_t& end) const;

  std::shared_ptr<const Code> code_;
  std::string pattern_;
};

}  // namespace ullage::llm
