#include "placement/coverage.h"

#include <algorithm>
#include <set>

#include "core/checked.h"
#include "core/error.h"
#include "core/options.h"
#include "placement/buffers.h"
#include "placement/layer_names.h"

namespace ullage::placement {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

constexpr size_t kFewNames = 3;
constexpr size_t kMostCandidates = 20'000;

template <class Fn>
void ForEachNode(const Graph& graph, const Fn& fn) {
  for (NodeId id : graph.Order()) {
    fn(graph, id);
    for (const auto& [key, body] : SubgraphsOf(graph.node(id))) ForEachNode(*body, fn);
  }
}

/// Pieces of names that a pattern may have meant: path segments, and layers with their number.
std::set<std::string> Candidates(const LayeringIndex& index, const Graph& root) {
  std::set<std::string> all;
  ForEachNode(root, [&](const Graph& graph, NodeId id) {
    for (const auto& text : index.Texts(graph, id)) {
      if (all.size() > kMostCandidates) return;
      if (index.rules().mode == RuleMode::kAnnotation) {
        all.insert(text);
        continue;
      }
      if (const auto layer = FindLayer(text))
        all.insert(text.substr(layer->begin, layer->number_end - layer->begin));
      for (size_t at = 0; at < text.size();) {
        const size_t slash = std::min(text.find('/', at), text.size());
        if (slash > at) all.insert(text.substr(at, slash - at));
        at = slash + 1;
      }
    }
  });
  return all;
}

/// The pattern as a name could have it: the first number of each range, no slashes at the ends.
std::string PlainPattern(const Rule& rule) {
  std::string plain;
  for (const auto& part : rule.parts) plain += part.is_range ? std::to_string(part.first) : part.text;
  if (rule.parts.empty()) plain = rule.pattern;
  const size_t from = plain.find_first_not_of('/');
  if (from == std::string::npos) return plain;
  return plain.substr(from, plain.find_last_not_of('/') + 1 - from);
}

std::vector<std::string> NearestNames(const Rule& rule, const std::set<std::string>& candidates) {
  const std::string plain = PlainPattern(rule);
  std::vector<std::string_view> left(candidates.begin(), candidates.end());
  std::vector<std::string> nearest;
  while (!left.empty() && nearest.size() < kFewNames) {
    const std::string_view best = Nearest(plain, left);
    nearest.emplace_back(best);
    left.erase(std::find(left.begin(), left.end(), best));
  }
  return nearest;
}

std::string Join(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& w : words) text += (text.empty() ? "" : ", ") + w;
  return text;
}

/// Some node that the rule names was in the model and is gone, with nothing left that stands for it.
bool NamesRemovedNode(const LayeringIndex& index, const Graph& root, size_t rule) {
  if (index.rules().mode != RuleMode::kName) return false;
  const SubstringMatcher matcher({index.rules().rules[rule]});
  for (size_t i = 0; i < root.node_slots(); ++i) {
    const Node& node = root.node(static_cast<NodeId>(i));
    if (!node.alive && matcher.Match(node.name)) return true;
  }
  return false;
}

}  // namespace

std::vector<RuleCoverage> CoverageOf(const LayeringIndex& index, const Graph& root) {
  const size_t count = index.rules().rules.size();
  std::vector<RuleCoverage> all(count);
  std::vector<std::set<BufferKey>> buffers(count);
  std::vector<std::set<size_t>> taken(count);
  for (size_t r = 0; r < count; ++r) all[r].rule = r;
  ForEachNode(root, [&](const Graph& graph, NodeId id) {
    const Node& node = graph.node(id);
    const auto own = index.RuleOf(graph, id);
    if (own) {
      RuleCoverage& c = all[*own];
      ++c.nodes;
      if (c.first_names.size() < kFewNames) c.first_names.push_back(node.name);
      for (ValueId v : node.inputs) {
        const auto* constant = graph.ConstantOf(v);
        if (constant && buffers[*own].insert(KeyOf(*constant)).second)
          c.bytes = CheckedAdd(c.bytes, static_cast<int64_t>(constant->size_bytes), "bytes of a rule");
      }
    }
    for (size_t r = 0; r < count; ++r) {
      if (!index.Touches(r, graph, id)) continue;
      ++all[r].touched;
      if (own && *own != r) taken[r].insert(*own);
    }
  });
  for (size_t r = 0; r < count; ++r) all[r].taken_by.assign(taken[r].begin(), taken[r].end());
  return all;
}

std::vector<RuleProblem> ProblemsOf(const LayeringIndex& index, const Graph& root,
                                    const std::vector<RuleCoverage>& coverage) {
  std::vector<RuleProblem> problems;
  const auto& rules = index.rules().rules;
  for (const auto& warning : index.rules().warnings)
    problems.push_back({RuleProblem::Kind::kNoPattern, 0, warning, {}});
  std::set<std::string> candidates;
  std::vector<std::vector<std::string>> cut(rules.size());
  ForEachNode(root, [&](const Graph& graph, NodeId id) {
    const auto* match = index.Find(graph, id);
    if (match && match->cuts_number) cut[match->rule].push_back(match->text);
  });
  for (const RuleCoverage& c : coverage) {
    const Rule& rule = rules[c.rule];
    const std::string name = StrCat("rule ", c.rule, ", ", rule.ToString());
    if (!index.devices()[c.rule]) {
      problems.push_back({RuleProblem::Kind::kNoDevice,
                          c.rule,
                          StrCat(name, ": no device that takes part is ", rule.device.text),
                          {}});
    } else if (c.touched == 0 && c.nodes == 0) {
      if (candidates.empty()) candidates = Candidates(index, root);
      const auto nearest = NearestNames(rule, candidates);
      std::string message = name + ": matches nothing";
      if (NamesRemovedNode(index, root, c.rule))
        message += "; what it names was computed in advance and is no node any more";
      else if (!nearest.empty())
        message += "; the nearest names are " + Join(nearest);
      problems.push_back({RuleProblem::Kind::kMatchesNothing, c.rule, message, nearest});
    } else if (c.nodes == 0) {
      std::vector<std::string> by;
      for (size_t r : c.taken_by) by.push_back(rules[r].ToString());
      problems.push_back(
          {RuleProblem::Kind::kShadowed,
           c.rule,
           StrCat(name, ": has no nodes; all ", c.touched, " that it matches fall under ", Join(by)),
           {}});
    }
    if (!cut[c.rule].empty())
      problems.push_back(
          {RuleProblem::Kind::kCutsNumber,
           c.rule,
           StrCat(name, ": ends within a number in ", cut[c.rule].size(), " names, ", cut[c.rule].front(),
                  " the first; end it with the separator, or write a range"),
           {}});
  }
  return problems;
}

}  // namespace ullage::placement
