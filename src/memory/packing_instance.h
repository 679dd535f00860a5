/// The packing problem as the solvers see it: views folded into their owners, in-place chains optionally
/// joined into one rigid item, steps renumbered so that only those count at which a life begins or ends.
/// Internal to the packer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/packing.h"

namespace ullage::memory::internal {

/// A rectangle of an item: [first, last) in renumbered steps, bytes [base + rel, base + rel + size).
struct Piece {
  int64_t rel = 0;
  int64_t size = 0;  ///< a multiple of the instance's granule
  int64_t pad = 0;   ///< what was added to make it one; the highest piece of a packing does without
  int32_t first = 0;
  int32_t last = 0;
};

/// What gets one offset: a buffer, or buffers that must lie at a fixed distance from each other.
struct Item {
  int32_t piece_begin = 0;  ///< into Instance::pieces
  int32_t piece_end = 0;
  int64_t alignment = 1;
  int64_t fixed = -1;  ///< the offset, or -1
  int64_t height = 0;  ///< max of rel + size - pad
};

struct Instance {
  std::vector<Item> items;
  std::vector<Piece> pieces;
  int32_t times = 0;    ///< renumbered steps are in [0, times)
  int64_t granule = 1;  ///< every offset and every size is a multiple of it
  bool flat = true;     ///< every rel is 0

  struct Place {
    int32_t item = -1;
    int64_t rel = 0;
  };
  std::vector<Place>
      places;  ///< per buffer that has memory of its own: its item and the distance from its offset

  std::span<const Piece> PiecesOf(const Item& item) const {
    return {pieces.data() + item.piece_begin, pieces.data() + item.piece_end};
  }
};

/// The checked problem. Refers to the caller's buffers, which must outlive it.
class Problem {
 public:
  /// Throws as Pack does.
  explicit Problem(std::span<const Buffer> buffers);

  enum class InPlace { kNever, kShrinking, kAlways };

  /// With kAlways each in-place offer that can be taken is, with kShrinking only where the new buffer is no
  /// larger than the old.
  Instance Build(InPlace in_place) const;
  bool has_in_place() const { return has_in_place_; }

  /// Max over steps of live bytes (see packing.h), and the end of fixed buffers.
  int64_t lower_bound() const { return lower_bound_; }

  /// Offsets of the buffers from those of the instance's items.
  std::vector<int64_t> BufferOffsets(const Instance& instance, std::span<const int64_t> item_offsets) const;
  int64_t Peak(std::span<const int64_t> offsets) const;

 private:
  /// A buffer that has memory of its own, or a view of one.
  struct Node {
    int32_t root = kNoBuffer;  // the owner; itself when it is no view
    int64_t rel = 0;           // distance from the root's offset
    int64_t first = 0;         // of roots: life with all views
    int64_t last = 0;
    int32_t partner = kNoBuffer;  // of roots: the root whose memory it may take over
    int64_t partner_rel = 0;      // distance from the partner's offset
    int32_t heir = kNoBuffer;     // of roots: who may take over its memory
  };

  /// Extends an item by one buffer at distance `rel`; false when alignment or fixed offsets do not allow it.
  bool AddMember(int32_t buffer, int64_t rel, Item* item, Instance* out) const;
  void CheckBuffers() const;
  void ResolveViews();
  void ResolveInPlace();
  void RenumberSteps();
  void ComputeLowerBound();
  bool Live(size_t i) const { return nodes_[i].first < nodes_[i].last && buffers_[i].size > 0; }
  int64_t Rounded(int64_t size) const { return (size + granule_ - 1) / granule_ * granule_; }
  int32_t StepIndex(int64_t step) const;

  std::span<const Buffer> buffers_;
  std::vector<Node> nodes_;
  std::vector<int64_t> steps_;  // where lives begin and end, ascending
  int64_t granule_ = 1;
  int64_t lower_bound_ = 0;
  bool has_in_place_ = false;
};

}  // namespace ullage::memory::internal
