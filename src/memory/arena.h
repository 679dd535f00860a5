/// A best-fit arena with coalescing, for sizes that nothing bounds in advance.
///
/// It takes regions from the host and cuts them into chunks. A request gets the smallest free chunk that
/// holds it (the lowest address among equals), so that a repeated sequence of requests finds the same places
/// again; neighbours that are free become one chunk at once.
///
///     region  | used | free        | used     | free |      chunks lie side by side, a multiple of 256 bytes
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "memory/allocator.h"

namespace ullage {
class OptionBag;
}

namespace ullage::memory {

/// How an arena grows. The names are those of the options `ep.<provider>.arena.*`; sizes in bytes.
struct ArenaOptions {
  enum class Extend {
    kNextPowerOfTwo = 0,   ///< regions double in size
    kSameAsRequested = 1,  ///< a region is as large as the request that needs it
  };
  Extend extend_strategy = Extend::kNextPowerOfTwo;
  int64_t initial_chunk_size_bytes = int64_t{1} << 20;  ///< the first region
  int64_t initial_growth_chunk_size_bytes = int64_t{2}
                                            << 20;           ///< the second one, and the first after a shrink
  int64_t max_power_of_two_extend_bytes = int64_t{1} << 30;  ///< regions double up to here
  /// A free chunk that is larger than a request is cut when it is twice as large, or when more than this
  /// would be left unused.
  int64_t max_dead_bytes_per_chunk = 0;
  int64_t max_mem = 0;  ///< of all regions together; 0: no limit of its own

  /// Reads `ep.<provider>.arena.*`. Throws kUsage for values out of range.
  static ArenaOptions From(const OptionBag& options, std::string_view provider);
};

struct ArenaStats {
  int64_t bytes_in_use = 0;           ///< in chunks that are handed out, padding included
  int64_t total_allocated_bytes = 0;  ///< of all regions
  int64_t max_bytes_in_use = 0;
  int64_t max_alloc_size = 0;
  int64_t bytes_limit = 0;  ///< 0: none
  int64_t num_allocs = 0;
  int64_t num_arena_extensions = 0;
  int64_t num_arena_shrinkages = 0;
};

/// Thread-safe.
class BfcArena final : public Allocator {
 public:
  /// Regions are charged to `host` as activations, so its limit holds; it must outlive the arena.
  BfcArena(HostAllocator& host, const ArenaOptions& options, const RegionOptions& region = {});
  ~BfcArena() override;
  BfcArena(const BfcArena&) = delete;
  BfcArena& operator=(const BfcArena&) = delete;

  /// Throws kDoesNotFit with the request, the limit and what is in use.
  void* Allocate(size_t bytes, size_t alignment, Tag tag) override;
  void Free(void* pointer) override;
  TagBytes current() const override;
  TagBytes peak() const override;
  int64_t peak_total() const override;
  int64_t allocations() const override;

  ArenaStats stats() const;
  /// Gives regions back that nothing lies in. Returns their bytes.
  int64_t Shrink();
  /// Throws kRuntime unless chunks cover every region without gap or overlap, no two neighbours are free, and
  /// the free list holds the free chunks exactly. For tests.
  void CheckInvariants() const;

 private:
  struct Chunk {
    int64_t size = 0;
    int64_t requested = 0;  ///< > 0 while handed out
    Tag tag = Tag::kActivations;
    HostRegion* region = nullptr;
  };
  using Chunks = std::map<std::byte*, Chunk>;  // by address, all regions
  using FreeKey = std::pair<int64_t, std::byte*>;

  // All with mutex_ held.
  Chunks::iterator Extend(int64_t bytes);
  void AddRegion(int64_t bytes);
  void Cut(Chunks::iterator chunk, int64_t size);

  HostAllocator& host_;
  const ArenaOptions options_;
  RegionOptions region_options_;
  mutable std::mutex mutex_;
  std::map<std::byte*, std::unique_ptr<HostRegion>> regions_;
  Chunks chunks_;
  std::set<FreeKey> free_;
  std::unordered_map<void*, std::byte*> handed_out_;  // pointer -> start of its chunk
  int64_t next_region_bytes_;
  ArenaStats stats_;
  TagBytes current_, peak_;
};

}  // namespace ullage::memory
