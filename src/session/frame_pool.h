/// The frames of a session: one per Run in flight.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "memory/allocator.h"
#include "session/frame.h"

namespace ullage::session {

/// What one Run needs of its own: the frame, the memory that the plan's offsets are relative to, the executor
/// and room for the views of the inputs.
struct RunFrame {
  RunFrame(const Program& program, const DeviceConstants& constants, ThreadTeam& team,
           const PrepackedBlocks& prepacked, memory::Allocator* dynamic,
           std::vector<DeviceQueue> device_queues, size_t input_count)
      : queues(std::move(device_queues)),
        frame(program, &constants),
        executor(team, prepacked, dynamic, queues),
        inputs(input_count) {}

  std::vector<DeviceQueue> queues;  // by device, less 1
  Frame frame;
  memory::HostRegion arena;
  std::vector<std::byte*> arenas;  // by device
  Executor executor;
  std::vector<TensorView> inputs;
};

/// Writes to every page of the region, so that the memory is there, and with `lock` locks it where the system
/// permits. By the team: most of the time goes to the system, which clears the pages. False when locking was
/// refused.
bool MakeResident(memory::HostRegion& region, ThreadTeam& team, bool lock);

/// How a session treats a Run that begins while another is under way.
enum class Concurrency {
  kRefuse,  ///< it is busy: the one frame was reserved in advance
  kWait,    ///< it waits: the session has states, which belong to one sequence
  kShare,   ///< each gets a frame of its own
};

/// Makes and hands out frames. Thread-safe. With kShare a Run that finds no idle frame gets a new one, as
/// long as the device's limit allows it; where it does not, the Run waits for one of the others to end.
/// Frames stay for later Runs until Trim().
class FramePool {
 public:
  /// Everything that frames point to; must outlive the pool.
  struct Spec {
    const Program* program = nullptr;
    ThreadTeam* team = nullptr;
    const PrepackedBlocks* prepacked = nullptr;
    const DeviceConstants* constants = nullptr;
    memory::HostAllocator* allocator = nullptr;
    /// Bytes of one frame, by tag: what the allocator is charged with.
    memory::TagBytes bytes;
    /// The same of the devices, by number less 1.
    struct OnDevice {
      DeviceMemory* memory = nullptr;
      memory::TagBytes bytes;
    };
    std::vector<OnDevice> devices;
    /// Plans by which frames run.
    std::vector<const Plan*> plans;
    memory::RegionOptions region;
    bool resident = false;  ///< MakeResident() every frame
    bool lock = false;
    bool require_lock = false;  ///< a lock that is refused throws kDoesNotFit
    Concurrency concurrency = Concurrency::kShare;
    /// Serves what has no planned place; null where nothing may be allocated.
    memory::Allocator* dynamic = nullptr;
    size_t input_count = 0;
  };

  /// Makes the first frame. Throws kDoesNotFit.
  explicit FramePool(const Spec& spec);
  ~FramePool();
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;

  /// An idle frame, until Release(). Throws kBusy (kRefuse), or kDoesNotFit when there is no room for a frame
  /// and no Run to wait for.
  RunFrame* Acquire();
  void Release(RunFrame* frame) noexcept;
  /// Gives the memory of idle frames back, except that of one.
  void Trim();
  /// Frames that were made so far.
  int64_t made() const;

 private:
  void Add();  // mutex_ is held

  const Spec spec_;
  mutable std::mutex mutex_;
  std::condition_variable released_;
  std::vector<std::unique_ptr<RunFrame>> frames_;
  std::vector<RunFrame*> idle_;
  int64_t made_ = 0;
};

}  // namespace ullage::session
