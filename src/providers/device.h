/// Memory, queues and copies of a device that is not the host.
///
/// Addresses: every region that a device hands out occupies a range of the process's addresses of its own, so
/// that base + offset names a byte of exactly one region. Only the device may use them, and only while the
/// region lives: where a device has no pointers, or its memory is out of the host's reach, the range is not
/// accessible, and a host access is a fault rather than a wrong result.
///
/// Errors: kDoesNotFit when a device has not the bytes, kRuntime when it fails; both name the device. What
/// fails in a queue is reported by the next call that waits for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "providers/provider.h"

namespace ullage::providers {

enum class Space : uint8_t {
  kHost,
  kDevice,
  kPinned,   ///< host memory that copies at full speed
  kWeights,  ///< device memory that is written once, then only read
};

/// Memory of a device; given back with the object, once nothing in a queue uses it.
class Region {
 public:
  virtual ~Region() = default;
  virtual std::byte* data() const = 0;  ///< null: empty
  virtual int64_t bytes() const = 0;
};

class Event;

/// A queue of a device: what is put in runs in that order. Not thread-safe.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Lets the device begin.
  virtual void Flush() = 0;
  /// Waits until all is done; throws what failed.
  virtual void Finish() = 0;
  /// What follows waits for the event, recorded before on any queue of the same device, or of one that this
  /// device copies from.
  virtual void Wait(const Event& event) = 0;
};

/// A point in a queue. Recorded again, it stands for the later point. Not thread-safe.
class Event {
 public:
  virtual ~Event() = default;
  virtual void Record(Stream& stream) = 0;
  /// Waits on the host; throws what failed before that point. Done at once when never recorded.
  virtual void Wait() = 0;
};

/// Both ends in host memory or in regions of the device; at least one end in the device. The source may lie
/// in a device that this one copies from. Ranges of one batch do not overlap.
struct Copy {
  const std::byte* source = nullptr;
  std::byte* target = nullptr;
  int64_t bytes = 0;
};

struct MemoryInfo {
  int64_t free_bytes = 0;
  int64_t total_bytes = 0;
  /// That the device's libraries take outside of what is reserved through Reserve().
  int64_t overhead_bytes = 0;
};

/// A device that is in use. Thread-safe but for its streams and events; outlives what it made.
class OpenDevice {
 public:
  virtual ~OpenDevice() = default;
  virtual const DeviceInfo& info() const = 0;
  /// Of regions, and of offsets in them; a power of two.
  virtual int64_t alignment() const = 0;
  /// Largest region of that kind; 0: it has none, INT64_MAX: no limit but memory. Weights may always be
  /// reserved where device memory may.
  virtual int64_t max_region(Space space) const = 0;
  virtual std::unique_ptr<Region> Reserve(Space space, int64_t bytes) = 0;
  virtual MemoryInfo memory() const = 0;
  virtual std::unique_ptr<Stream> CreateStream() = 0;
  virtual std::unique_ptr<Event> CreateEvent() = 0;
  /// Whether copies from the other device skip the host: Run() then takes sources in its regions, and queues
  /// of this device wait for its events.
  virtual bool CopiesFrom(const OpenDevice& /*other*/) const { return false; }
  /// In the queue's order: the ends must live and rest until then. Without a queue: done on return.
  virtual void Run(std::span<const Copy> copies, Stream* stream) = 0;
  /// Around each Run of a session that uses the device; they may overlap.
  virtual void BeginRun() {}
  virtual void EndRun() {}
};

}  // namespace ullage::providers
