/// Greedy packing: items are placed one after the other in some order, each in a gap between the placed items
/// that it meets in time. Internal to the packer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "memory/packing_instance.h"

namespace ullage::memory::internal {

enum class Fit {
  kBest,   ///< the gap that leaves the least unused
  kFirst,  ///< the lowest gap
};

struct GreedyResult {
  std::vector<int64_t> offsets;  ///< per item
  int64_t height = 0;            ///< max of offset + item height
  std::string method;
};

/// Places items one by one.
class GreedyPlacer {
 public:
  explicit GreedyPlacer(const Instance& instance);

  /// Places all items in this order (fixed items first, whatever the order says); stops early, returning a
  /// height of at least `give_up`, once the packing reaches it. Throws kUsage when fixed items overlap.
  GreedyResult Run(std::span<const int32_t> order, Fit fit, int64_t give_up);

  /// Comparisons made since construction: a measure of time that is the same on every machine.
  int64_t work() const { return work_; }

 private:
  struct Interval {
    int64_t low;
    int64_t high;
  };

  void Collect(size_t node, size_t begin, size_t end, size_t limit, const Piece& piece);
  void Insert(int32_t item, int64_t offset);
  void CollectItem(const Item& item);
  int64_t ChooseOffset(const Item& item, Fit fit);

  const Instance& instance_;
  std::vector<int32_t> by_first_;  // pieces in the order of their first step
  std::vector<int32_t> firsts_;    // their first steps
  std::vector<size_t> position_;   // of each piece in by_first_
  std::vector<int32_t> owner_;     // item of each piece
  std::vector<int32_t> latest_;    // segment tree: the latest last step of placed pieces, 0 when none
  size_t leaves_ = 1;
  std::vector<int64_t> offsets_;     // of items
  std::vector<Interval> intervals_;  // scratch: offsets that are taken
  int64_t work_ = 0;
};

/// The portfolio: several orders, both fits, then repeated runs in which the items that stick out move to the
/// front. Stops at a packing of height `target` or less, or when `work_limit` comparisons are used (the first
/// order always runs to its end).
GreedyResult GreedyPortfolio(const Instance& instance, int64_t target, int64_t work_limit);

}  // namespace ullage::memory::internal
