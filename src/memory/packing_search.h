/// The exact search: does a packing within a given height exist? Internal to the packer.
///
/// Items are placed in the order of their offsets, each as low as those placed before it allow; every packing
/// can be pushed down to such a canonical one, so nothing is lost. A branch is cut when the items still to be
/// placed cannot fit above the floor of some section (a step at which the set of live items is maximal), when
/// an item could still slide under the one being placed, or when the order of two equal offsets is not the
/// chosen one. Where no item left to place crosses a step, both sides are solved on their own.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "memory/packing_instance.h"

namespace ullage::memory::internal {

/// Which of several items at the same offset is tried first: the one of largest
///     life^life * bytes^bytes * crowd^crowd * e^(noise * chance(seed))
/// where life counts sections and crowd is the largest, over the item's sections, of
///     live bytes * (1 + blame * share of the failures seen in earlier runs).
struct Priority {
  double life = 1;
  double bytes = 1;
  double crowd = 0;
  double blame = 0;
  bool total_crowd = false;  ///< crowd is the sum over the item's sections
  double noise = 0;
  uint32_t seed = 0;
};

class OffsetSearch {
 public:
  enum class Outcome { kFound, kRefuted, kGaveUp };
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;

  explicit OffsetSearch(const Instance& instance);

  /// Looks for a packing of at most `height` bytes, placing at most `node_limit` items. kRefuted is a proof
  /// only when exact() holds.
  Outcome Run(int64_t height, const Priority& priority, int64_t work_limit, Deadline deadline);

  /// After kFound: one offset per item.
  const std::vector<int64_t>& offsets() const { return offsets_; }
  int64_t nodes() const { return nodes_; }  ///< items placed in the last Run
  int64_t work() const { return work_; }    ///< elementary steps of the last Run, the same on every machine
  bool exact() const { return exact_; }

 private:
  struct Conflict {
    int32_t item;
    int64_t above;  ///< the other item's offset is at least this one's plus `above` when it comes later
  };
  struct Share {
    int32_t index;  ///< section of an item, or item of a section
    int64_t bytes;
    int64_t pad;  ///< of these bytes, what the highest item of a packing does without
  };
  struct Candidate {
    int64_t offset;
    int32_t rank;
    int32_t item;
  };
  static constexpr int64_t kPlaced = std::numeric_limits<int64_t>::max();

  struct Undo {
    int64_t* place;
    int64_t value;
  };
  /// Sections [begin, end) with the items still to be placed in them.
  struct Part {
    int32_t begin;
    int32_t end;
    size_t items_begin;  ///< into pool_
    size_t items_end;
  };

  void BuildSections(const Instance& instance);
  void BuildConflicts();
  void SetRanks(const Priority& priority);
  bool Solve(const Part& part, int64_t last_offset, int32_t last_rank);
  bool SolveParts(const Part& part, int32_t placed, int64_t last_offset, int32_t last_rank);
  bool Place(int32_t item, int64_t offset);
  bool RefreshSection(int32_t section);
  bool Raise(int32_t item, int64_t bound);
  bool Settle();
  /// The highest offset at which the next item of a section may start.
  int64_t LatestFirst(int32_t section) const { return height_ + padding_[section] - left_[section]; }
  void Rewind(size_t mark);
  void Set(int64_t* place, int64_t value) {
    undo_.push_back({place, *place});
    *place = value;
  }
  bool OutOfBudget();

  const Instance& instance_;
  bool exact_ = true;
  size_t count_ = 0;                             // items
  std::vector<std::vector<Share>> sections_of_;  // per item
  std::vector<std::vector<Share>> items_of_;     // per section
  std::vector<int64_t> padding_;                 // per section: the most that its highest item may do without
  std::vector<std::vector<Conflict>> conflicts_;  // per item
  std::vector<int32_t> hull_begin_, hull_end_;    // per item: first section, last section + 1
  std::vector<int32_t> rank_;
  std::vector<int64_t> height_of_;

  int64_t height_ = 0;
  std::vector<int64_t>
      key_;  // per item: lowest offset that the placed items allow; kPlaced when it is placed
  std::vector<double> failures_;   // per section, in earlier runs, the latest counting most
  std::vector<int64_t> left_;      // per section: bytes still to be placed
  std::vector<int64_t> crossing_;  // per section s: items to be placed that live in s - 1 and in s
  std::vector<int64_t> offsets_;
  std::vector<Undo> undo_;
  std::vector<int32_t> pool_;
  std::vector<Candidate> candidates_;
  std::vector<int32_t> dirty_;  // sections to refresh
  std::vector<uint8_t> is_dirty_;
  std::vector<int32_t> part_of_;  // scratch of SolveParts: per section
  int64_t nodes_ = 0;
  int64_t work_ = 0;
  int64_t work_limit_ = 0;
  Deadline deadline_;
  bool gave_up_ = false;
};

}  // namespace ullage::memory::internal
