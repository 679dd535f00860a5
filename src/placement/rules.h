/// Layer assignment rules: `device(pattern, pattern); device(pattern)`.
///
/// Annotation rules (`session.layer_assignment_settings`) are compared with the `layer_ann` property of
/// nodes: `text` is a prefix, `=text` the whole annotation. Name rules
/// (`session.name_based_layer_assignment`) are looked for anywhere in names of nodes; `[0-15]` in them stands
/// for a whole number in that range. Blanks around tokens do not matter; empty entries and patterns are
/// skipped. There is no quoting: a pattern holds none of `,` `;` `)`. Patterns are case-sensitive.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "placement/designator.h"

namespace ullage::placement {

enum class RuleMode {
  kAnnotation,  ///< session.layer_assignment_settings
  kName,        ///< session.name_based_layer_assignment
};

/// A piece of a name pattern: a text, or a number within [first, last].
struct PatternPart {
  std::string text;
  bool is_range = false;
  int64_t first = 0;
  int64_t last = 0;
};

/// One pattern. The index in the rule set is its priority.
struct Rule {
  Designator device;
  std::string pattern;             ///< without the `=`
  bool exact = false;              ///< annotation mode: the whole text rather than a prefix
  std::vector<PatternPart> parts;  ///< name mode
  size_t position = 0;             ///< of the pattern in the option's text

  bool has_range() const;
  /// "gpu(layers.[0-15]/)", as it could be written.
  std::string ToString() const;
};

struct RuleSet {
  RuleMode mode = RuleMode::kName;
  std::vector<Rule> rules;
  /// What was skipped although somebody wrote it: devices without patterns. Refused in strict mode.
  std::vector<std::string> warnings;

  bool empty() const { return rules.empty(); }
};

/// Option that a mode's text comes from.
std::string_view OptionOf(RuleMode mode);

/// Throws kUsage with the option, the position (from 0) and the entry: missing or reversed parentheses, no
/// device, a device or specifier that means nothing, text behind an entry, a pattern that is there twice with
/// the same meaning, `=` in a name rule, a range that is none.
RuleSet ParseRules(RuleMode mode, std::string_view text);

}  // namespace ullage::placement
