#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "core/checked.h"
#include "memory/allocator.h"

namespace ullage::memory {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 62;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// The number in a file that holds nothing else; kUnlimited when there is none.
int64_t ReadNumber(const std::string& path) {
  std::ifstream in(path);
  int64_t value = 0;
  return in >> value ? value : kUnlimited;
}

int64_t AvailableInSystem() {
  std::ifstream in("/proc/meminfo");
  std::string key;
  int64_t kib = 0;
  for (std::string unit; in >> key >> kib;) {
    if (key == "MemAvailable:") return kib * 1024;
    std::getline(in, unit);
  }
  return kUnlimited;
}

// File pages that the group could drop count as free.
int64_t Reclaimable(const std::string& path, const std::string& wanted) {
  std::ifstream in(path);
  std::string key;
  for (int64_t value = 0; in >> key >> value;)
    if (key == wanted) return value;
  return 0;
}

int64_t Headroom(const std::string& limit, const std::string& usage, const std::string& stat,
                 const char* key) {
  const int64_t most = ReadNumber(limit);
  const int64_t used = ReadNumber(usage);
  if (most == kUnlimited || used == kUnlimited) return kUnlimited;
  return std::max<int64_t>(0, most - used + Reclaimable(stat, key));
}

// The group's own folder appears at the root of the mount inside a container, and below it outside. Version 2
// limits hold for all groups on the way to the root.
int64_t AvailableInGroup() {
  int64_t available = kUnlimited;
  std::ifstream in("/proc/self/cgroup");
  std::string path;
  for (std::string line; std::getline(in, line);)
    if (line.rfind("0::", 0) == 0) path = line.substr(3);
  const std::string root = "/sys/fs/cgroup";
  for (;;) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    const std::string folder = root + path;
    available = std::min(available, Headroom(folder + "/memory.max", folder + "/memory.current",
                                             folder + "/memory.stat", "inactive_file"));
    if (path.empty()) break;
    path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
  const std::string old = root + "/memory/memory.";
  return std::min(available, Headroom(old + "limit_in_bytes", old + "usage_in_bytes", old + "stat",
                                      "total_inactive_file"));
}

}  // namespace

void TrimHeap() {
  ::malloc_trim(0);
}

int64_t AvailableHostBytes() {
  return std::min(AvailableInSystem(), AvailableInGroup());
}

HostRegion::HostRegion(size_t bytes, const RegionOptions& options) {
  if (!std::has_single_bit(options.alignment))
    Throw(Code::kUsage, "alignment ", options.alignment, " of a host region is no power of two");
  if (bytes == 0) return;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const bool huge = options.huge_pages && bytes >= kHugePage;
  const size_t alignment = std::max({options.alignment, page, huge ? kHugePage : page});
  if (bytes > kMaxBytes || alignment > kMaxBytes)
    Throw(Code::kDoesNotFit, "cannot reserve ", bytes, " bytes of host memory");
  const bool commit = options.touch || options.lock;
  if (commit && static_cast<int64_t>(bytes) > AvailableHostBytes())
    Throw(Code::kDoesNotFit, "cannot reserve ", bytes, " bytes of host memory: only ", AvailableHostBytes(),
          " are available");
  // Map enough to find an aligned start, then give back what lies before and after.
  const size_t length = AlignUp(bytes, page);
  const size_t whole = length + (alignment - page);
  void* mapping = mmap(nullptr, whole, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | (commit ? 0 : MAP_NORESERVE), -1, 0);
  if (mapping == MAP_FAILED)
    Throw(Code::kDoesNotFit, "cannot reserve ", bytes, " bytes of host memory: ", std::strerror(errno));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(mapping);
  const uintptr_t start = AlignUp<uintptr_t>(begin, alignment);
  if (start > begin) munmap(mapping, start - begin);
  if (begin + whole > start + length)
    munmap(reinterpret_cast<void*>(start + length), begin + whole - (start + length));
  mapping_ = reinterpret_cast<void*>(start);
  mapped_bytes_ = length;
  data_ = static_cast<std::byte*>(mapping_);
  size_ = bytes;
  if (huge) madvise(mapping_, mapped_bytes_, MADV_HUGEPAGE);
  if (options.lock) {
    if (mlock(mapping_, mapped_bytes_) != 0) {
      const int error = errno;
      Release();
      Throw(Code::kDoesNotFit, "cannot lock ", bytes, " bytes of host memory: ", std::strerror(error));
    }
    locked_ = true;
  }
  if (options.touch)
    for (size_t i = 0; i < mapped_bytes_; i += page) const_cast<volatile std::byte*>(data_)[i] = std::byte{0};
}

bool HostRegion::TryLock() {
  if (mapping_ != nullptr && !locked_) locked_ = mlock(mapping_, mapped_bytes_) == 0;
  return locked_;
}

HostRegion::~HostRegion() {
  Release();
}

HostRegion::HostRegion(HostRegion&& other) noexcept {
  *this = std::move(other);
}

HostRegion& HostRegion::operator=(HostRegion&& other) noexcept {
  if (this == &other) return *this;
  Release();
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  mapping_ = std::exchange(other.mapping_, nullptr);
  mapped_bytes_ = std::exchange(other.mapped_bytes_, 0);
  locked_ = std::exchange(other.locked_, false);
  return *this;
}

void HostRegion::Release() noexcept {
  if (mapping_ != nullptr) munmap(mapping_, mapped_bytes_);
  data_ = nullptr;
  size_ = 0;
  mapping_ = nullptr;
  mapped_bytes_ = 0;
  locked_ = false;
}

}  // namespace ullage::memory
