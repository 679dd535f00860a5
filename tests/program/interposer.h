/// The process's allocator, interposed: counts what the whole program takes, on all threads, and can refuse
/// it. Trusts none of the product's own counters. At most one of the scopes below at a time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ullage::interposer {

/// Bytes and blocks alive now.
struct Live {
  int64_t heap_bytes = 0;  ///< usable sizes of blocks of malloc and its kin
  int64_t heap_blocks = 0;
  int64_t anonymous_bytes = 0;  ///< mmap without a file
};
Live Now();

/// Counts the calls that take memory (malloc and its kin, mmap) while it lives.
class Counting {
 public:
  Counting();
  ~Counting();
  int64_t calls() const;
};

/// While it lives, every such call fails as if the machine had nothing left.
class Refusing {
 public:
  Refusing();
  ~Refusing();
  /// Calls that were refused so far.
  int64_t calls() const;
};

/// Resident set of the process, in bytes.
int64_t ResidentBytes();

}  // namespace ullage::interposer
