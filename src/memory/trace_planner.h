/// The on-line pattern planner, for sessions whose shapes are known only while they run: the first Run with a
/// set of input shapes is traced, allocation by allocation and free by free, and the pattern found is used by
/// later Runs with the same shapes. Each request is placed when it comes (the gap of least waste between live
/// blocks), so the result depends on the order; where lives are known in advance, Pack does better.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace ullage::memory {

/// Not thread-safe: one trace belongs to one Run.
class TracePlanner {
 public:
  struct Block {
    int64_t offset = 0;
    int64_t size = 0;
  };

  /// Places a block of `size` bytes for `key` (a value's index, or a negative number for a workspace slot)
  /// and returns its offset. Size 0 gets offset 0 and takes no room. A key that was freed may be traced again
  /// only after Reset. Throws kRuntime on a key traced twice, a negative size, a bad alignment or an end
  /// beyond 2^62.
  int64_t TraceAllocation(int64_t key, int64_t size, int64_t alignment = 1);

  /// Ends the life of `key`. Throws kRuntime when it is not alive.
  void TraceFree(int64_t key);

  /// Where `key` lies in the pattern, alive or not.
  std::optional<Block> GetBlock(int64_t key) const;

  /// The size of one backing buffer for the whole pattern.
  int64_t peak() const { return peak_; }
  /// Number of blocks alive now (empty ones included).
  size_t live() const { return live_count_; }

  void Reset();

 private:
  struct Entry {
    Block block;
    bool alive = true;
  };
  std::map<int64_t, Entry> entries_;  // by key
  std::map<int64_t, int64_t> live_;   // offset -> size, blocks that are alive and not empty
  int64_t peak_ = 0;
  size_t live_count_ = 0;
};

}  // namespace ullage::memory
