/// Offset packing: where in one region of memory each buffer lies, so that buffers alive at the same step do
/// not overlap and the region is as small as can be found.
///
///     offset
///       ^    +-----+
///       |    |  2  |  +-------+       a buffer is a rectangle: width = life in steps, height = bytes;
///       |  +-+-----+--+   3   |       the packer chooses the height at which each rectangle lies.
///       |  |    1     +-------+
///       +--+----------+-----------> step
///
/// A pure function of its arguments: no globals, no threads, no clock unless a time limit is set. With a node
/// limit only, the same buffers give the same packing, to the byte, on every machine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ullage::memory {

inline constexpr int32_t kNoBuffer = -1;
inline constexpr int64_t kDefaultAlignment = 64;

/// One buffer. Other buffers are named by their index in the span given to Pack.
struct Buffer {
  int64_t id = 0;                         ///< the caller's name for it; used in messages only
  int64_t size = 0;                       ///< bytes, >= 0
  int64_t alignment = kDefaultAlignment;  ///< of the offset; a power of two
  int64_t first = 0;                      ///< life [first, last) in steps; empty when first == last
  int64_t last = 0;
  std::optional<int64_t> fixed_offset;  ///< must lie here; a multiple of `alignment`

  /// A buffer whose memory this one may take over: its last use is this buffer's first step, and the kernel
  /// may write its result over that input. An offer, not an order. The two then start at the same byte,
  /// whatever their sizes. An offer that cannot be taken (the partner, or a view of it, lives longer; the
  /// partner starts at the same step; alignment does not fit) is passed over; of several offers for one
  /// partner at most one is taken.
  int32_t in_place = kNoBuffer;

  /// A view: no memory of its own, lies at `alias_offset` bytes inside another buffer (or inside another
  /// view), whose life is extended to cover the view's. A view has neither `fixed_offset` nor `in_place`.
  int32_t alias_of = kNoBuffer;
  int64_t alias_offset = 0;
};

struct PackLimits {
  /// Elementary steps of the exact search, summed over all its attempts; 0 = greedy only. About 30 to 50
  /// million a second. Counted, not timed, so that the result is the same on every machine.
  int64_t work_limit = 20'000'000;
  /// Wall-clock limit of the exact search in seconds; 0 = none. Greedy results do not depend on it. A limit
  /// makes the result depend on the machine's speed.
  double time_limit_s = 0;
  /// Stop as soon as a packing of at most this many bytes is known.
  std::optional<int64_t> capacity = {};
};

struct Packing {
  std::vector<int64_t> offsets;  ///< one per buffer, views included; 0 for empty buffers
  int64_t peak = 0;              ///< max of offset + size over all buffers that have bytes and a life
  /// No packing can be smaller: the live bytes of the fullest step (aligned where that is provable), the end
  /// of the fixed buffers, and what the search has refuted.
  int64_t lower_bound = 0;
  bool proved_optimal = false;  ///< peak == lower_bound
  std::string method;           ///< what found it, e.g. "best fit by size", "search"
  int64_t nodes = 0;            ///< items that the search placed

  bool FitsIn(int64_t capacity) const { return peak <= capacity; }
};

/// Packs. Throws Error(kUsage), naming the buffer by index and id, when the problem is not well formed:
/// negative size or life, alignment that is no power of two, an index out of range, views that form a cycle
/// or leave their owner, fixed buffers that overlap, totals beyond 2^62 bytes. Never throws because of
/// `capacity`: compare `peak`.
Packing Pack(std::span<const Buffer> buffers, const PackLimits& limits = {});

/// The lower bound alone, in O(n log n). Throws like Pack.
int64_t PackingLowerBound(std::span<const Buffer> buffers);

}  // namespace ullage::memory
