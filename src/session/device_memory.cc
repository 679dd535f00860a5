#include "session/device_memory.h"

#include <algorithm>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "core/options.h"

namespace ullage::session {

DeviceMemory::Block& DeviceMemory::Block::operator=(Block&& other) noexcept {
  if (this == &other) return *this;
  Release();
  memory_ = std::exchange(other.memory_, nullptr);
  region_ = std::move(other.region_);
  bytes_ = other.bytes_;
  return *this;
}

void DeviceMemory::Block::Release() noexcept {
  region_.reset();
  if (!memory_) return;
  const std::lock_guard lock(memory_->mutex_);
  for (const int64_t bytes : bytes_.bytes) memory_->current_ -= bytes;
  memory_ = nullptr;
}

void DeviceMemory::Count(const memory::TagBytes& bytes) {
  const int64_t sum = bytes.Sum();
  if (limit_ && sum > *limit_ - current_)
    Throw(Code::kDoesNotFit, device_->info().name, ": ", bytes.ToString(), " asked for, ",
          FormatSize(std::max<int64_t>(*limit_ - current_, 0)), " left of ", FormatSize(*limit_));
  current_ = CheckedAdd(current_, sum);
  peak_ = std::max(peak_, current_);
}

DeviceMemory::Block DeviceMemory::Reserve(providers::Space space, const memory::TagBytes& bytes) {
  Block block;
  if (bytes.Sum() == 0) return block;
  {
    const std::lock_guard lock(mutex_);
    Count(bytes);
    ++reservations_;
  }
  block.memory_ = this;
  block.bytes_ = bytes;
  block.region_ = device_->Reserve(space, bytes.Sum());
  return block;
}

void DeviceMemory::Charge(const memory::TagBytes& bytes) {
  const std::lock_guard lock(mutex_);
  Count(bytes);
}

int64_t DeviceMemory::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

int64_t DeviceMemory::peak() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

int64_t DeviceMemory::reservations() const {
  const std::lock_guard lock(mutex_);
  return reservations_;
}

DeviceLayout::Place DeviceLayout::Add(int64_t bytes, int64_t alignment, const std::string& what) {
  const int64_t size = AlignUp<int64_t>(bytes, unit_);
  if (size > max_region_)
    Throw(Code::kDoesNotFit, what, " takes ", FormatSize(bytes), ", the device gives at most ",
          FormatSize(max_region_), " at once");
  if (regions_.empty()) regions_.push_back(0);
  const int64_t offset = AlignUp<int64_t>(regions_.back(), alignment);
  if (offset > max_region_ - size) {
    regions_.push_back(size);
    return {regions_.size() - 1, 0};
  }
  regions_.back() = AlignUp<int64_t>(offset + bytes, unit_);
  return {regions_.size() - 1, offset};
}

int64_t DeviceLayout::bytes() const {
  int64_t sum = 0;
  for (const int64_t r : regions_) sum = CheckedAdd(sum, r);
  return sum;
}

}  // namespace ullage::session
