/// What a session holds of one device.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "memory/tags.h"
#include "providers/device.h"

namespace ullage::session {

/// Counts what is reserved on a device, against a limit. Thread-safe; outlives what it gave.
class DeviceMemory {
 public:
  DeviceMemory(std::shared_ptr<providers::OpenDevice> device, std::optional<int64_t> limit)
      : device_(std::move(device)), limit_(limit) {}
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  providers::OpenDevice& device() const { return *device_; }

  /// Memory of the device, given back and discounted with the object. Movable.
  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept { *this = std::move(other); }
    Block& operator=(Block&& other) noexcept;
    ~Block() { Release(); }
    std::byte* data() const { return region_ ? region_->data() : nullptr; }

   private:
    friend class DeviceMemory;
    void Release() noexcept;
    DeviceMemory* memory_ = nullptr;
    std::unique_ptr<providers::Region> region_;
    memory::TagBytes bytes_;
  };
  /// The sum of `bytes` as one region. Throws kDoesNotFit, naming the device.
  Block Reserve(providers::Space space, const memory::TagBytes& bytes);
  /// Counts what the device's libraries take by themselves.
  void Charge(const memory::TagBytes& bytes);

  int64_t current() const;
  int64_t peak() const;
  int64_t reservations() const;

 private:
  void Count(const memory::TagBytes& bytes);  // mutex_ is held

  const std::shared_ptr<providers::OpenDevice> device_;
  const std::optional<int64_t> limit_;
  mutable std::mutex mutex_;
  int64_t current_ = 0, peak_ = 0, reservations_ = 0;
};

/// Places blocks one behind the other in regions of which none is larger than a device gives at once: no
/// block crosses from one to the next.
class DeviceLayout {
 public:
  struct Place {
    size_t region = 0;
    int64_t offset = 0;
  };

  /// `unit`: what the device's regions are multiples of, a power of two.
  DeviceLayout(int64_t max_region, int64_t unit) : max_region_(max_region), unit_(unit) {}
  /// Throws kDoesNotFit, naming `what`, for a block that no region can hold.
  Place Add(int64_t bytes, int64_t alignment, const std::string& what);
  /// Bytes of each region, and of all.
  const std::vector<int64_t>& regions() const { return regions_; }
  int64_t bytes() const;

 private:
  int64_t max_region_, unit_;
  std::vector<int64_t> regions_;
};

}  // namespace ullage::session
