/// What each rule of a rule set did, and what nobody meant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "placement/layering_index.h"

namespace ullage::placement {

struct RuleCoverage {
  size_t rule = 0;
  int64_t nodes = 0;                     ///< that fell under the rule, sub-graphs included
  int64_t bytes = 0;                     ///< of the constants that they read, each buffer once
  std::vector<std::string> first_names;  ///< of those nodes, a few
  int64_t touched = 0;                   ///< nodes that the pattern matches, whoever has them
  std::vector<size_t> taken_by;          ///< rules that have nodes which this one matches, too
};

struct RuleProblem {
  enum class Kind {
    kNoPattern,  ///< a device without patterns
    kNoDevice,   ///< nothing of that name takes part
    kMatchesNothing,
    kShadowed,    ///< other rules have all that it matches
    kCutsNumber,  ///< "layers.1" has nodes of layers.10
  };
  Kind kind = Kind::kMatchesNothing;
  size_t rule = 0;  ///< not for kNoPattern
  std::string message;
  std::vector<std::string> nearest;  ///< kMatchesNothing: names that exist, the most similar first
};

std::vector<RuleCoverage> CoverageOf(const LayeringIndex& index, const graph::Graph& root);
/// Everything that strict mode refuses and other modes warn of, in the order of the rules.
std::vector<RuleProblem> ProblemsOf(const LayeringIndex& index, const graph::Graph& root,
                                    const std::vector<RuleCoverage>& coverage);

}  // namespace ullage::placement
