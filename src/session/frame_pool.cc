#include "session/frame_pool.h"

#include <algorithm>

#include "core/checked.h"
#include "core/error.h"
#include "session/residency.h"

namespace ullage::session {

using memory::Tag;

bool MakeResident(memory::HostRegion& region, ThreadTeam& team, bool lock) {
  constexpr size_t kPage = 4096, kPiece = size_t{2} << 20;
  const size_t bytes = region.mapped_bytes();
  team.Run(static_cast<int64_t>(CeilDiv(bytes, kPiece)), [&](int64_t piece, int) {
    const size_t first = static_cast<size_t>(piece) * kPiece;
    for (size_t i = first; i < std::min(bytes, first + kPiece); i += kPage)
      const_cast<volatile std::byte*>(region.data())[i] = std::byte{0};
  });
  return !lock || bytes == 0 || region.TryLock();
}

FramePool::FramePool(const Spec& spec) : spec_(spec) {
  const std::lock_guard lock(mutex_);
  Add();
}

FramePool::~FramePool() = default;

void FramePool::Add() {
  memory::TagBytes charged;
  try {
    for (Tag tag : memory::kAllTags) {
      spec_.allocator->Charge(spec_.bytes[tag], tag);
      charged[tag] = spec_.bytes[tag];
    }
    std::vector<DeviceQueue> queues;
    for (const auto& d : spec_.devices) queues.emplace_back(*d.memory, d.bytes);
    auto made = std::make_unique<RunFrame>(*spec_.program, *spec_.constants, *spec_.team, *spec_.prepacked,
                                           spec_.dynamic, std::move(queues), spec_.input_count);
    made->arena = memory::HostRegion(static_cast<size_t>(spec_.bytes.Sum()), spec_.region);
    made->arenas.push_back(made->arena.data());
    for (const auto& queue : made->queues) made->arenas.push_back(queue.arena.data());
    for (const Plan* plan : spec_.plans) made->frame.MakeEvents(*plan, made->queues);
    if (spec_.resident && !MakeResident(made->arena, *spec_.team, spec_.lock) && spec_.require_lock)
      Throw(Code::kDoesNotFit, LockPages({made->arena.data(), made->arena.size()}, "execution buffers"));
    // Room for both lists first, so that Release() never allocates.
    frames_.reserve(frames_.size() + 1);
    idle_.reserve(frames_.size() + 1);
    idle_.push_back(made.get());
    frames_.push_back(std::move(made));
    ++made_;
  } catch (...) {
    for (Tag tag : memory::kAllTags) spec_.allocator->Discharge(charged[tag], tag);
    throw;
  }
}

RunFrame* FramePool::Acquire() {
  std::unique_lock lock(mutex_);
  while (idle_.empty()) {
    if (spec_.concurrency == Concurrency::kRefuse) throw Error(Code::kBusy, "the session is running already");
    if (spec_.concurrency == Concurrency::kShare) {
      try {
        Add();
        break;
      } catch (const Error& error) {
        // The other Runs' frames come free; the first frame always exists.
        if (error.code() != Code::kDoesNotFit) throw;
      }
    }
    released_.wait(lock);
  }
  RunFrame* const frame = idle_.back();
  idle_.pop_back();
  return frame;
}

void FramePool::Release(RunFrame* frame) noexcept {
  frame->frame.ReleaseDynamic();
  {
    const std::lock_guard lock(mutex_);
    idle_.push_back(frame);
  }
  released_.notify_one();
}

void FramePool::Trim() {
  const std::lock_guard lock(mutex_);
  while (!idle_.empty() && frames_.size() > 1) {
    RunFrame* const frame = idle_.back();
    idle_.pop_back();
    frames_.erase(std::find_if(frames_.begin(), frames_.end(),
                               [&](const std::unique_ptr<RunFrame>& f) { return f.get() == frame; }));
    for (Tag tag : memory::kAllTags) spec_.allocator->Discharge(spec_.bytes[tag], tag);
  }
}

int64_t FramePool::made() const {
  const std::lock_guard lock(mutex_);
  return made_;
}

}  // namespace ullage::session
