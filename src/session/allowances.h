/// How many bytes, by the sums that placement adds up, make plans that fill their limits.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "placement/place.h"

namespace ullage::session {

/// What came of one placement, by device.
struct PlacementOutcome {
  std::optional<int64_t> limit_bytes;
  int64_t planned_bytes = 0;
  bool refused = false;  ///< nodes went elsewhere for want of bytes
  bool by_sums = false;  ///< the user asked for the sums themselves: they are not exceeded
};

/// Searches, device by device at once, between what fits and what does not. Sums count every result, plans
/// only those alive at the same time, so there is mostly room for more than the limit by sums; caches and
/// copies can take more than was counted.
class Allowances {
 public:
  explicit Allowances(std::vector<std::optional<int64_t>> first);

  /// By device, for the next attempt; nothing: no limit.
  const std::vector<std::optional<int64_t>>& now() const { return now_; }
  /// Takes the outcome of the attempt with now(); false: it was the last.
  bool Next(const std::vector<PlacementOutcome>& outcomes);

 private:
  struct Range {
    std::optional<int64_t> fits, exceeds;
  };
  static constexpr int kMaxAttempts = 12;

  std::vector<std::optional<int64_t>> now_;
  std::optional<std::vector<std::optional<int64_t>>> best_;  // of those that fit everywhere
  std::vector<Range> ranges_;
  int attempts_ = 0;
  bool ended_ = false;
};

/// Bytes that plans of placements took, by device: a placement that comes again need not be planned again.
class PlannedPlacements {
 public:
  void Remember(const placement::PlacedGraph& placed, std::vector<int64_t> bytes);
  /// Null: it was not planned yet.
  const std::vector<int64_t>* Find(const placement::PlacedGraph& placed) const;

 private:
  std::map<std::vector<uint32_t>, std::vector<int64_t>> bytes_;  // by where each node is, and how
};

}  // namespace ullage::session
