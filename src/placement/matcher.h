/// Which rule a text falls under.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "placement/rules.h"

namespace ullage::placement {

/// Annotations. A matching prefix beats any exact rule; of several matching prefixes the earliest rule wins,
/// not the longest. An empty text matches nothing. Immutable, thread-safe.
class AnnotationMatcher {
 public:
  explicit AnnotationMatcher(const std::vector<Rule>& rules);
  /// Index of the rule.
  std::optional<size_t> Match(std::string_view annotation) const;

 private:
  struct Trie {
    std::map<char, size_t> next;
    std::optional<size_t> rule;
  };
  std::vector<Trie> trie_;  // node 0 is the root
  std::unordered_map<std::string, size_t> exact_;
};

/// A place in a text.
struct Hit {
  size_t rule = 0;
  size_t begin = 0;
  size_t end = 0;
};

/// Names. The rule whose longest occurrence covers most of the name wins; of equally long ones a pattern
/// without a range beats one with, then the earlier rule. An empty text matches nothing. Immutable,
/// thread-safe.
class SubstringMatcher {
 public:
  explicit SubstringMatcher(const std::vector<Rule>& rules);
  std::optional<size_t> Match(std::string_view name) const;
  /// The same, with the place. `masked` ([begin, end) in the name) is the number of no layer: ranges do not
  /// match there.
  std::optional<Hit> Find(std::string_view name, std::pair<size_t, size_t> masked = {}) const;
  /// The longest occurrence of one rule.
  std::optional<Hit> FindRule(size_t rule, std::string_view name,
                              std::pair<size_t, size_t> masked = {}) const;

 private:
  std::vector<Rule> rules_;
};

}  // namespace ullage::placement
