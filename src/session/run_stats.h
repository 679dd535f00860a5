/// Memory statistics of one Run, node by node.
#pragma once

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "memory/node_stats.h"
#include "session/frame.h"

namespace ullage::session {

/// Gathers what the steps of one Run take; those of sub-graphs too, each time they run. Not thread-safe;
/// unlike a Run without statistics it allocates.
class RunStats {
 public:
  /// After the step has run. `temp_sum` and `temp_peak`: scratch that was asked for, and most of it that was
  /// alive at once.
  void Record(const Frame& frame, size_t step, int64_t temp_sum, int64_t temp_peak);
  const std::vector<std::pair<std::string, memory::NodeStats>>& rows() const { return rows_; }

 private:
  std::vector<std::pair<std::string, memory::NodeStats>> rows_;
  std::unordered_set<std::string> charged_;  // names of values
};

}  // namespace ullage::session
