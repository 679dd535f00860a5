#include "placement/matcher.h"

#include <charconv>

#include "core/error.h"

namespace ullage::placement {
namespace {

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

/// End of an occurrence of parts [part, …) that starts at `at`; npos when there is none.
size_t MatchParts(const std::vector<PatternPart>& parts, std::string_view name, size_t at,
                  std::pair<size_t, size_t> masked) {
  for (const PatternPart& part : parts) {
    if (!part.is_range) {
      if (name.compare(at, part.text.size(), part.text) != 0) return std::string_view::npos;
      at += part.text.size();
      continue;
    }
    // A whole number: no digit before it, none behind it.
    if (at > 0 && IsDigit(name[at - 1])) return std::string_view::npos;
    size_t end = at;
    while (end < name.size() && IsDigit(name[end])) ++end;
    int64_t number = 0;
    if (end == at || std::from_chars(name.data() + at, name.data() + end, number).ec != std::errc() ||
        number < part.first || number > part.last || (at < masked.second && end > masked.first))
      return std::string_view::npos;
    at = end;
  }
  return at;
}

}  // namespace

AnnotationMatcher::AnnotationMatcher(const std::vector<Rule>& rules) : trie_(1) {
  for (size_t i = 0; i < rules.size(); ++i) {
    if (rules[i].pattern.empty()) Throw(Code::kRuntime, "rule ", i, " has an empty pattern");
    if (rules[i].exact) {
      exact_.emplace(rules[i].pattern, i);
      continue;
    }
    size_t node = 0;
    for (char c : rules[i].pattern) {
      const auto [it, added] = trie_[node].next.emplace(c, trie_.size());
      const size_t next = it->second;
      if (added) trie_.emplace_back();
      node = next;
    }
    if (!trie_[node].rule) trie_[node].rule = i;
  }
}

std::optional<size_t> AnnotationMatcher::Match(std::string_view annotation) const {
  std::optional<size_t> best;
  size_t node = 0;
  for (char c : annotation) {
    const auto it = trie_[node].next.find(c);
    if (it == trie_[node].next.end()) break;
    node = it->second;
    if (const auto rule = trie_[node].rule; rule && (!best || *rule < *best)) best = rule;
  }
  if (best) return best;
  const auto it = exact_.find(std::string(annotation));
  return it == exact_.end() ? std::nullopt : std::optional<size_t>(it->second);
}

SubstringMatcher::SubstringMatcher(const std::vector<Rule>& rules) : rules_(rules) {
  for (size_t i = 0; i < rules_.size(); ++i) {
    if (rules_[i].pattern.empty()) Throw(Code::kRuntime, "rule ", i, " has an empty pattern");
    if (rules_[i].parts.empty()) rules_[i].parts.push_back({rules_[i].pattern, false, 0, 0});
  }
}

std::optional<Hit> SubstringMatcher::FindRule(size_t rule, std::string_view name,
                                              std::pair<size_t, size_t> masked) const {
  const auto& parts = rules_[rule].parts;
  std::optional<Hit> best;
  for (size_t at = 0; at < name.size(); ++at) {
    if (!parts.front().is_range) {
      at = name.find(parts.front().text, at);
      if (at == std::string_view::npos) break;
    }
    const size_t end = MatchParts(parts, name, at, masked);
    if (end != std::string_view::npos && (!best || end - at > best->end - best->begin))
      best = Hit{rule, at, end};
    if (best && parts.size() == 1 && !parts.front().is_range) break;
  }
  return best;
}

std::optional<Hit> SubstringMatcher::Find(std::string_view name, std::pair<size_t, size_t> masked) const {
  std::optional<Hit> best;
  for (size_t i = 0; i < rules_.size(); ++i) {
    const auto hit = FindRule(i, name, masked);
    if (!hit) continue;
    const size_t length = hit->end - hit->begin, best_length = best ? best->end - best->begin : 0;
    if (!best || length > best_length ||
        (length == best_length && rules_[best->rule].has_range() && !rules_[i].has_range()))
      best = hit;
  }
  return best;
}

std::optional<size_t> SubstringMatcher::Match(std::string_view name) const {
  const auto hit = Find(name);
  return hit ? std::optional<size_t>(hit->rule) : std::nullopt;
}

}  // namespace ullage::placement
