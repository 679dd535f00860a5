#include "interposer.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

namespace {

std::atomic<bool> g_counting{false}, g_refusing{false};
std::atomic<int64_t> g_calls{0}, g_heap_bytes{0}, g_heap_blocks{0};

/// False when the call must fail.
bool Enter() {
  const bool refuse = g_refusing.load(std::memory_order_relaxed);
  if (refuse || g_counting.load(std::memory_order_relaxed)) g_calls.fetch_add(1, std::memory_order_relaxed);
  return !refuse;
}

void* Added(void* p) {
  if (!p) return p;
  g_heap_bytes.fetch_add(static_cast<int64_t>(malloc_usable_size(p)), std::memory_order_relaxed);
  g_heap_blocks.fetch_add(1, std::memory_order_relaxed);
  return p;
}

void Removed(void* p) {
  if (!p) return;
  g_heap_bytes.fetch_sub(static_cast<int64_t>(malloc_usable_size(p)), std::memory_order_relaxed);
  g_heap_blocks.fetch_sub(1, std::memory_order_relaxed);
}

/// Anonymous mappings that the program made itself (the C library's own calls do not come by here). The
/// answer is their sum after the change.
enum class Change { kNone, kMap, kUnmap };
int64_t Mapped(void* address, size_t length, Change change) {
  struct Range {
    uintptr_t begin, end;
  };
  static Range ranges[4096];
  static size_t count = 0;
  static std::atomic_flag lock = ATOMIC_FLAG_INIT;
  while (lock.test_and_set(std::memory_order_acquire)) {
  }
  const uintptr_t begin = reinterpret_cast<uintptr_t>(address), end = begin + length;
  if (change == Change::kMap && count < 4096) ranges[count++] = {begin, end};
  if (change == Change::kUnmap)
    for (size_t i = 0; i < count;) {
      Range& r = ranges[i];
      if (end <= r.begin || r.end <= begin) {
        ++i;
      } else if (begin > r.begin && end < r.end && count < 4096) {
        ranges[count++] = {end, r.end};
        r.end = begin;
        ++i;
      } else if (begin > r.begin) {
        r.end = begin;
        ++i;
      } else if (end < r.end) {
        r.begin = end;
        ++i;
      } else {
        r = ranges[--count];
      }
    }
  int64_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += static_cast<int64_t>(ranges[i].end - ranges[i].begin);
  lock.clear(std::memory_order_release);
  return sum;
}

void* NoMemory() {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);

void* malloc(size_t n) {
  return Enter() ? Added(__libc_malloc(n)) : NoMemory();
}
void* calloc(size_t a, size_t b) {
  return Enter() ? Added(__libc_calloc(a, b)) : NoMemory();
}
void* realloc(void* p, size_t n) {
  if (!Enter()) return NoMemory();
  Removed(p);
  void* const q = __libc_realloc(p, n);
  if (!q && n > 0) {
    Added(p);
    return q;
  }
  return Added(q);
}
void* memalign(size_t a, size_t n) {
  return Enter() ? Added(__libc_memalign(a, n)) : NoMemory();
}
void* aligned_alloc(size_t a, size_t n) {
  return memalign(a, n);
}
int posix_memalign(void** out, size_t a, size_t n) {
  void* const p = memalign(a, n);
  if (!p) return ENOMEM;
  *out = p;
  return 0;
}
void free(void* p) {
  Removed(p);
  __libc_free(p);
}
void* mmap(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
  if (!Enter()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  auto* const p = reinterpret_cast<void*>(syscall(SYS_mmap, address, length, protection, flags, fd, offset));
  if (p != MAP_FAILED && (flags & MAP_ANONYMOUS)) Mapped(p, length, Change::kMap);
  return p;
}
int munmap(void* address, size_t length) {
  Mapped(address, length, Change::kUnmap);
  return static_cast<int>(syscall(SYS_munmap, address, length));
}
}

namespace ullage::interposer {

Live Now() {
  Live live;
  live.heap_bytes = g_heap_bytes;
  live.heap_blocks = g_heap_blocks;
  live.anonymous_bytes = Mapped(nullptr, 0, Change::kNone);
  return live;
}

Counting::Counting() {
  g_calls = 0;
  g_counting = true;
}
Counting::~Counting() {
  g_counting = false;
}
int64_t Counting::calls() const {
  return g_calls;
}

Refusing::Refusing() {
  g_calls = 0;
  g_refusing = true;
}
Refusing::~Refusing() {
  g_refusing = false;
}
int64_t Refusing::calls() const {
  return g_calls;
}

int64_t ResidentBytes() {
  long pages = 0, resident = 0;
  FILE* const statm = std::fopen("/proc/self/statm", "r");
  if (!statm) return 0;
  const int fields = std::fscanf(statm, "%ld %ld", &pages, &resident);
  std::fclose(statm);
  return fields == 2 ? int64_t{resident} * sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace ullage::interposer
