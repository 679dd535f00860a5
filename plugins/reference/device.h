/// The simulated GPU. It is what the device ABI means, in working order: memory of its own that the host
/// cannot reach, of which no byte more is handed out than the capacity; queues that work on their own, in
/// order, late; events; copies that take as long as a link of that bandwidth would.
///
/// How the rules of the ABI are kept:
/// - A buffer's address, which the host knows, is a range that nobody can access. Its bytes lie elsewhere,
/// and
///   only this plugin knows where: a missing copy is a fault, never a wrong result.
/// - A call is put together while the host makes it: the addresses of tensors and scratch, and copies of what
///   lies in host memory, because the host may change that as soon as compute returns.
/// - What fails in a queue is remembered, and the rest of the queue is passed over until somebody who waits
/// has
///   been told.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/thread_team.h"
#include "sdk/shared_kernel.h"

namespace ullage::reference {

struct Settings {
  int devices = 1;
  ullage_device_type type = ULLAGE_DEVICE_GPU;
  uint64_t capacity = 0;    ///< bytes of each device
  uint64_t bandwidth = 0;   ///< bytes per second; 0: no limit
  uint64_t jitter_us = 0;   ///< most microseconds that a command is delayed, at random
  uint64_t fuse = 0;        ///< most nodes that are run as one
  bool peer_copies = true;  ///< copies between two of them skip the host
  bool overlap = true;      ///< queues of one device work at the same time
};

/// Makes the N-th call fail. Thread-safe.
class Faults {
 public:
  explicit Faults(int64_t fail_at) : fail_at_(fail_at) {}
  /// Throws when this is the one.
  void Call(const char* what);

 private:
  const int64_t fail_at_;
  std::atomic<int64_t> calls_{0};
};

inline constexpr uint32_t kAlignment = 256;

class Device;

class Buffer {
 public:
  Buffer(Device& device, ullage_space_kind space, uint64_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  void* pointer() const { return address_; }
  std::byte* bytes() const { return bytes_; }

 private:
  Device& device_;
  uint64_t size_;
  bool counted_;                // pinned host memory is none of the device's
  std::byte* bytes_ = nullptr;  // what the device works on
  void* address_ = nullptr;     // what the host knows
};

/// Where the bytes of a region are for the device itself.
std::byte* Bytes(const ullage_region& region);

/// A failure in a queue.
struct Fault {
  ullage_code code = ULLAGE_FAILED;
  std::string text;
  std::atomic<bool> reported{false};
};

/// What an event stands for; shared by the event and the commands of queues.
struct Point {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t wanted = 0, done = 0;
  std::shared_ptr<Fault> fault;
};

class Event;

/// A queue with a thread. Calls come from one thread at a time.
class Stream {
 public:
  explicit Stream(Device& device);
  ~Stream();
  void Flush() {}
  void Finish();
  void Wait(Event& event);
  void Record(const std::shared_ptr<Point>& point, uint64_t ticket);
  void Copy(const ullage_copy* copies, size_t count);
  /// Puts in a call that `fill` puts together; with `waits` it returns when the kernel is done and throws
  /// what that threw.
  /// Puts in the packing of a block of weights, which then come through the link.
  void Pack(kernels::Kernel& kernel, int index, std::byte* target, uint64_t bytes);
  void Compute(const kernels::Kernel& kernel, const std::function<void(plugin::SharedCall&)>& fill,
               bool waits);

 private:
  struct Command {
    explicit Command(ThreadTeam& team) : call(team, Bytes) {}
    enum Kind { kCompute, kCopy, kPack, kRecord, kWait } kind = kCopy;
    const kernels::Kernel* kernel = nullptr;
    plugin::SharedCall call;
    kernels::Kernel* packs = nullptr;
    int block = 0;
    std::byte* target = nullptr;
    const std::byte* source = nullptr;
    uint64_t bytes = 0;
    std::shared_ptr<Point> point;
    uint64_t ticket = 0;
  };
  /// The next free place; what is not put in yet is nobody else's.
  Command& Next();
  void Put();
  void AwaitAll();
  void ReportFault();
  void Work();
  void Do(Command& command);
  bool broken() const { return fault_ && !fault_->reported; }

  Device& device_;
  ThreadTeam team_{1};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Command>> ring_;
  uint64_t put_ = 0, done_ = 0;
  std::shared_ptr<Fault> fault_;  // written by the thread alone
  bool ending_ = false;
  uint64_t random_;
  std::thread thread_;
};

class Event {
 public:
  explicit Event(Device& device) : device_(device) {}
  void Record(Stream& stream);
  void Wait();
  const std::shared_ptr<Point>& point() const { return point_; }
  /// Of the last record.
  uint64_t ticket();

 private:
  Device& device_;
  std::shared_ptr<Point> point_ = std::make_shared<Point>();
};

/// Thread-safe.
class Device {
 public:
  Device(const Settings& settings, std::shared_ptr<Faults> faults)
      : settings_(settings), faults_(std::move(faults)) {}

  std::vector<ullage_space_info> spaces() const;
  std::unique_ptr<Buffer> Reserve(ullage_space_kind space, uint64_t bytes, uint32_t alignment);
  ullage_memory_info memory() const;
  bool CanCopy(ullage_space_kind, ullage_space_kind) const { return true; }
  bool CanCopyFrom(const Device&) const { return settings_.peer_copies; }
  void Copy(const ullage_copy* copies, size_t count, Stream* stream);
  std::unique_ptr<Stream> CreateStream();
  std::unique_ptr<Event> CreateEvent();
  void BeginRun() {}
  void EndRun() {}

  const Settings& settings() const { return settings_; }
  /// Held by a queue at work where only one at a time may be.
  std::unique_lock<std::mutex> Turn() {
    return settings_.overlap ? std::unique_lock<std::mutex>() : std::unique_lock(turn_);
  }
  Faults& faults() { return *faults_; }
  /// Throws OUT_OF_MEMORY when there are not so many bytes left.
  void Take(uint64_t bytes);
  void GiveBack(uint64_t bytes);
  /// Lasts as long as the link takes for so many bytes.
  void Link(uint64_t bytes) const;
  /// Copies through it.
  void Transfer(std::byte* target, const std::byte* source, uint64_t bytes) const;

 private:
  const Settings settings_;
  std::shared_ptr<Faults> faults_;
  mutable std::mutex mutex_;
  uint64_t used_ = 0;
  std::mutex turn_;
};

}  // namespace ullage::reference
