#include "memory/allocator.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/checked.h"

namespace ullage::memory {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 62;

void RequirePowerOfTwo(size_t alignment) {
  if (!std::has_single_bit(alignment)) Throw(Code::kUsage, "alignment ", alignment, " is no power of two");
}

}  // namespace

HostAllocator::HostAllocator(std::optional<int64_t> limit_bytes, std::string name)
    : limit_(limit_bytes), name_(std::move(name)) {}

HostAllocator::~HostAllocator() {
  for (const auto& [pointer, block] : live_) std::free(pointer);
}

void HostAllocator::Count(int64_t bytes, Tag tag) {
  const auto describe = [&] {
    return StrCat(name_, ": no room for ", bytes, " bytes of ", TagName(tag), ": ");
  };
  if (frozen_) Throw(Code::kDoesNotFit, describe(), "allocation is frozen, ", total_, " bytes are in use");
  if (limit_ && (total_ > *limit_ || bytes > *limit_ - total_))
    Throw(Code::kDoesNotFit, describe(), "the limit is ", *limit_, ", in use are ", total_, " (",
          current_.ToString(), ")");
  total_ = CheckedAdd(total_, bytes, "bytes in use");
  current_.Add(tag, bytes);
  peak_.RaiseTo(current_);
  peak_total_ = std::max(peak_total_, total_);
}

void* HostAllocator::Allocate(size_t bytes, size_t alignment, Tag tag) {
  RequirePowerOfTwo(alignment);
  if (bytes == 0) return nullptr;
  if (bytes > kMaxBytes) Throw(Code::kDoesNotFit, name_, ": no room for ", bytes, " bytes of ", TagName(tag));
  const int64_t count = static_cast<int64_t>(bytes);
  const std::lock_guard lock(mutex_);
  const TagBytes old_peak = peak_;
  const int64_t old_peak_total = peak_total_;
  Count(count, tag);
  void* pointer = nullptr;
  const int error = posix_memalign(&pointer, std::max(alignment, sizeof(void*)), bytes);
  if (error != 0) {
    total_ -= count;
    current_.Add(tag, -count);
    peak_ = old_peak;
    peak_total_ = old_peak_total;
    Throw(Code::kDoesNotFit, name_, ": the system has no ", bytes, " bytes for ", TagName(tag), ": ",
          std::strerror(error));
  }
  live_.emplace(pointer, Block{count, tag});
  ++allocations_;
  return pointer;
}

void HostAllocator::Free(void* pointer) {
  if (pointer == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    const auto it = live_.find(pointer);
    if (it == live_.end()) Throw(Code::kRuntime, name_, ": freed a pointer that is not alive");
    total_ -= it->second.bytes;
    current_.Add(it->second.tag, -it->second.bytes);
    live_.erase(it);
  }
  std::free(pointer);
}

TagBytes HostAllocator::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

TagBytes HostAllocator::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

int64_t HostAllocator::peak_total() const {
  const std::lock_guard lock(mutex_);
  return peak_total_;
}

int64_t HostAllocator::allocations() const {
  const std::lock_guard lock(mutex_);
  return allocations_;
}

void HostAllocator::freeze() {
  const std::lock_guard lock(mutex_);
  frozen_ = true;
}

void HostAllocator::unfreeze() {
  const std::lock_guard lock(mutex_);
  frozen_ = false;
}

bool HostAllocator::frozen() const {
  const std::lock_guard lock(mutex_);
  return frozen_;
}

void HostAllocator::ResetPeaks() {
  const std::lock_guard lock(mutex_);
  peak_ = current_;
  peak_total_ = total_;
  allocations_ = 0;
}

void HostAllocator::Charge(int64_t bytes, Tag tag) {
  if (bytes < 0) Throw(Code::kRuntime, name_, ": charged ", bytes, " bytes of ", TagName(tag));
  if (bytes == 0) return;
  const std::lock_guard lock(mutex_);
  Count(bytes, tag);
  charged_.Add(tag, bytes);
}

void HostAllocator::Discharge(int64_t bytes, Tag tag) {
  const std::lock_guard lock(mutex_);
  if (bytes < 0 || bytes > charged_[tag])
    Throw(Code::kRuntime, name_, ": discharged ", bytes, " bytes of ", TagName(tag), ", charged are ",
          charged_[tag]);
  charged_.Add(tag, -bytes);
  current_.Add(tag, -bytes);
  total_ -= bytes;
}

}  // namespace ullage::memory
