/// Where bytes come from: the interface through which anything in a session allocates, its counting
/// implementation on the host, and the region that holds a plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "memory/tags.h"

namespace ullage::memory {

/// Hands out memory of one device. Implementations are thread-safe.
class Allocator {
 public:
  virtual ~Allocator() = default;

  /// At least `bytes` bytes at a multiple of `alignment` (a power of two). 0 bytes give a null pointer.
  /// Throws Error(kDoesNotFit) with the numbers when the limit, or the machine, does not allow it.
  virtual void* Allocate(size_t bytes, size_t alignment, Tag tag) = 0;
  /// Returns memory from Allocate; null is ignored. Throws Error(kRuntime) on a pointer that is not alive.
  virtual void Free(void* pointer) = 0;

  /// Live bytes per tag, as requested (without padding).
  virtual TagBytes current() const = 0;
  /// The highest value that each tag's live bytes had.
  virtual TagBytes peak() const = 0;
  /// The highest value that the sum of live bytes had.
  virtual int64_t peak_total() const = 0;
  /// Number of successful Allocate calls with bytes > 0.
  virtual int64_t allocations() const = 0;
};

/// Host memory that counts. Thread-safe.
class HostAllocator : public Allocator {
 public:
  /// `limit_bytes`: the sum of live bytes never exceeds it. `name` appears in errors ("cpu").
  explicit HostAllocator(std::optional<int64_t> limit_bytes = {}, std::string name = "cpu");
  /// Frees whatever is still alive.
  ~HostAllocator() override;
  HostAllocator(const HostAllocator&) = delete;
  HostAllocator& operator=(const HostAllocator&) = delete;

  void* Allocate(size_t bytes, size_t alignment, Tag tag) override;
  void Free(void* pointer) override;
  TagBytes current() const override;
  TagBytes peak() const override;
  int64_t peak_total() const override;
  int64_t allocations() const override;

  /// From now on every Allocate of more than 0 bytes throws Error(kDoesNotFit): the guarantee that a Run does
  /// not allocate, made testable. Free still works.
  void freeze();
  void unfreeze();
  bool frozen() const;
  /// Starts a new measurement: peaks become the current values, the count 0.
  void ResetPeaks();

  /// Counts memory that is held elsewhere (a HostRegion, a file's pages) as live bytes of `tag`. Throws like
  /// Allocate.
  void Charge(int64_t bytes, Tag tag);
  /// Takes back bytes that were charged. Throws kRuntime when more is given back than was charged.
  void Discharge(int64_t bytes, Tag tag);

  std::optional<int64_t> limit() const { return limit_; }

 private:
  struct Block {
    int64_t bytes;
    Tag tag;
  };

  const std::optional<int64_t> limit_;
  const std::string name_;
  mutable std::mutex mutex_;
  void Count(int64_t bytes, Tag tag);  // checks the limit; mutex_ is held

  std::map<void*, Block> live_;
  TagBytes charged_;
  TagBytes current_;
  TagBytes peak_;
  int64_t total_ = 0;
  int64_t peak_total_ = 0;
  int64_t allocations_ = 0;
  bool frozen_ = false;
};

/// Bytes of host memory that this process may still take: what the system reports as available, and what the
/// control group leaves. A snapshot.
int64_t AvailableHostBytes();

/// Gives back to the system what the C library keeps of memory that was freed.
void TrimHeap();

struct RegionOptions {
  size_t alignment = 4096;  ///< of the base; a power of two
  bool huge_pages = true;   ///< ask for transparent huge pages when the region is at least 2 MiB; advice only
  bool touch = true;        ///< write every page now, so that the memory is there before the first Run
  bool lock = false;        ///< mlock; throws kDoesNotFit when the system's limit does not allow it
};

/// One anonymous mapping: what a plan's offsets are relative to. Movable, not copyable; gives the memory back
/// when destroyed. The contents start as zeros. Reading and writing its bytes is the owner's business to
/// synchronise.
class HostRegion {
 public:
  HostRegion() = default;
  /// Maps `bytes` bytes (0 gives an empty region). Throws Error(kDoesNotFit) with the size and the system's
  /// reason.
  explicit HostRegion(size_t bytes, const RegionOptions& options = {});
  ~HostRegion();
  HostRegion(HostRegion&& other) noexcept;
  HostRegion& operator=(HostRegion&& other) noexcept;

  std::byte* data() const { return data_; }
  /// As asked for.
  size_t size() const { return size_; }
  /// Whole pages that the region holds, alignment slack included.
  size_t mapped_bytes() const { return mapped_bytes_; }
  bool locked() const { return locked_; }
  /// Locks the pages in memory where the system permits it. Returns locked().
  bool TryLock();

 private:
  void Release() noexcept;

  std::byte* data_ = nullptr;
  size_t size_ = 0;
  void* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
  bool locked_ = false;
};

}  // namespace ullage::memory
