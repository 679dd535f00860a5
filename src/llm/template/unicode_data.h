/// Tables behind text.cc, sorted by code point. Written by make_unicode_data.py.
#pragma once

#include <cstddef>

namespace ullage::llm::jinja {

struct Range {
  char32_t first, last;  // inclusive
};

/// A case mapping to more than one code point; unused cells are 0.
struct Expansion {
  char32_t from;
  char32_t to[3];
};

extern const Expansion kUpperExpansions[];
extern const size_t kUpperExpansionsSize;
extern const Expansion kTitleExpansions[];
extern const size_t kTitleExpansionsSize;
/// Lowercase characters that are not of category Ll.
extern const Range kOtherLowercase[];
extern const size_t kOtherLowercaseSize;
/// Uppercase characters that are not of category Lu.
extern const Range kOtherUppercase[];
extern const size_t kOtherUppercaseSize;
/// Characters with a digit value that are not of category Nd.
extern const Range kOtherDigits[];
extern const size_t kOtherDigitsSize;
/// Characters with a numeric value that are in none of the categories N*.
extern const Range kOtherNumeric[];
extern const size_t kOtherNumericSize;

}  // namespace ullage::llm::jinja
