// libFuzzer target: rules, designators and budgets, and what rules match. The first byte chooses the option;
// behind a line break follow names.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.h"
#include "placement/budget.h"
#include "placement/matcher.h"

namespace {

using namespace ullage;
using namespace ullage::placement;

void Require(bool holds) {
  if (!holds) __builtin_trap();
}

/// The same rules, written by themselves.
void RequireSame(const RuleSet& a) {
  std::string text;
  for (const Rule& rule : a.rules) text += (text.empty() ? "" : ";") + rule.ToString();
  const RuleSet b = ParseRules(a.mode, text);
  Require(a.rules.size() == b.rules.size());
  for (size_t i = 0; i < a.rules.size(); ++i)
    Require(a.rules[i].pattern == b.rules[i].pattern && a.rules[i].exact == b.rules[i].exact &&
            a.rules[i].device.text == b.rules[i].device.text &&
            a.rules[i].parts.size() == b.rules[i].parts.size());
}

/// What the documentation says, rule by rule.
std::optional<size_t> Annotated(const RuleSet& set, std::string_view text) {
  if (text.empty()) return std::nullopt;
  for (const bool exact : {false, true})
    for (size_t i = 0; i < set.rules.size(); ++i)
      if (set.rules[i].exact == exact &&
          (exact ? text == set.rules[i].pattern
                 : text.substr(0, set.rules[i].pattern.size()) == set.rules[i].pattern))
        return i;
  return std::nullopt;
}

std::optional<size_t> Named(const RuleSet& set, std::string_view name) {
  std::optional<size_t> best;
  for (size_t i = 0; i < set.rules.size(); ++i)
    if (name.find(set.rules[i].pattern) != std::string_view::npos &&
        (!best || set.rules[i].pattern.size() > set.rules[*best].pattern.size()))
      best = i;
  return best;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 4096) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string_view option = all.substr(0, all.find('\n'));
  try {
    if (data[0] % 4 == 2) {
      for (const auto& setting : ParseBudgetSettings(option))
        Require(!setting.limit_bytes || *setting.limit_bytes >= 0);
      return 0;
    }
    if (data[0] % 4 == 3) {
      ParseCudaSetting(option);
      return 0;
    }
    const RuleSet set = ParseRules(data[0] % 4 == 0 ? RuleMode::kAnnotation : RuleMode::kName, option);
    RequireSame(set);
    const bool ranges =
        std::any_of(set.rules.begin(), set.rules.end(), [](const Rule& r) { return r.has_range(); });
    const AnnotationMatcher annotations(set.rules);
    const SubstringMatcher names(set.rules);
    for (size_t at = option.size(); at < all.size();) {
      const size_t end = std::min(all.find('\n', at + 1), all.size());
      const std::string_view name = all.substr(at + 1, end - at - 1);
      at = end;
      if (set.mode == RuleMode::kAnnotation)
        Require(annotations.Match(name) == Annotated(set, name));
      else if (const auto found = names.Match(name); !ranges)
        Require(found == Named(set, name));
    }
  } catch (const Error& error) {
    Require(error.code() == Code::kUsage);
  }
  return 0;
}
