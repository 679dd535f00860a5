/// Devices for tests: the host's kernels on memory that the host cannot touch, in queues with threads of
/// their own.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "providers/device.h"

namespace ullage::session::test {

/// Memory twice in the address space: where the host would look for it, closed, and open for the device.
class TestMemory {
 public:
  ~TestMemory() = default;
  struct Range {
    std::byte* open = nullptr;
    int64_t bytes = 0;
  };
  /// Where the device finds what has this address; the address itself outside of all regions.
  std::byte* Open(const void* address) const {
    const std::lock_guard lock(mutex_);
    auto* const at = static_cast<std::byte*>(const_cast<void*>(address));
    auto it = ranges_.upper_bound(at);
    if (it == ranges_.begin()) return at;
    --it;
    return at < it->first + it->second.bytes ? it->second.open + (at - it->first) : at;
  }
  bool Has(const void* address) const { return Open(address) != address; }
  void Add(std::byte* closed, Range range) {
    const std::lock_guard lock(mutex_);
    ranges_[closed] = range;
  }
  void Remove(std::byte* closed) {
    const std::lock_guard lock(mutex_);
    ranges_.erase(closed);
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::byte*, Range> ranges_;
};

class TestRegion final : public providers::Region {
 public:
  TestRegion(TestMemory& memory, int64_t bytes) : memory_(memory), bytes_(bytes) {
    const auto size = static_cast<size_t>(bytes);
    const int file = memfd_create("device", 0);
    if (file < 0 || ftruncate(file, bytes) != 0) Throw(Code::kDoesNotFit, "no memory for the test device");
    closed_ = static_cast<std::byte*>(mmap(nullptr, size, PROT_NONE, MAP_SHARED, file, 0));
    open_ = static_cast<std::byte*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    close(file);
    std::fill(open_, open_ + bytes, std::byte{0xcd});  // nothing is zero by itself
    memory_.Add(closed_, {open_, bytes});
  }
  ~TestRegion() override {
    memory_.Remove(closed_);
    munmap(closed_, static_cast<size_t>(bytes_));
    munmap(open_, static_cast<size_t>(bytes_));
  }
  std::byte* data() const override { return closed_; }
  int64_t bytes() const override { return bytes_; }

 private:
  TestMemory& memory_;
  int64_t bytes_;
  std::byte *closed_ = nullptr, *open_ = nullptr;
};

/// A thread that works through what it is given.
class TestStream final : public providers::Stream {
 public:
  TestStream(const providers::OpenDevice& device, unsigned seed)
      : device_(device), random_(seed), thread_([this] { Work(); }) {}
  ~TestStream() override {
    Put({});
    thread_.join();
  }
  void Put(std::function<void()> job) {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
      ++put_;
    }
    changed_.notify_all();
  }
  void Flush() override {}
  void Finish() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_ == put_; });
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  void Wait(const providers::Event& event) override;

 private:
  void Work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !jobs_.empty(); });
      const auto job = std::move(jobs_.front());
      jobs_.pop_front();
      const bool stop = !job;
      const auto delay = std::chrono::microseconds(random_() % 4 == 0 ? random_() % 200 : 0);
      lock.unlock();
      std::this_thread::sleep_for(delay);
      std::exception_ptr failure;
      try {
        if (job) job();
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      if (failure && !failure_) failure_ = failure;
      ++done_;
      changed_.notify_all();
      if (stop) return;
    }
  }

  const providers::OpenDevice& device_;
  std::minstd_rand random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  int64_t put_ = 0, done_ = 0;
  std::exception_ptr failure_;
  std::thread thread_;
};

class TestEvent final : public providers::Event {
 public:
  explicit TestEvent(const providers::OpenDevice& device) : device_(device) {}
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    void Await() {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return done; });
    }
  };
  void Record(providers::Stream& stream) override {
    auto state = state_ = std::make_shared<State>();
    static_cast<TestStream&>(stream).Put([state] {
      const std::lock_guard lock(state->mutex);
      state->done = true;
      state->changed.notify_all();
    });
  }
  void Wait() override {
    if (state_) state_->Await();
  }
  std::shared_ptr<State> state() const { return state_; }
  const providers::OpenDevice& device() const { return device_; }

 private:
  const providers::OpenDevice& device_;
  std::shared_ptr<State> state_;
};

inline void TestStream::Wait(const providers::Event& event) {
  const auto& point = static_cast<const TestEvent&>(event);
  if (&point.device() != &device_ && !device_.CopiesFrom(point.device()))
    throw Error(Code::kRuntime, "a queue waits for a device that it knows nothing of");
  if (const auto state = point.state()) Put([state] { state->Await(); });
}

/// The memories of devices that copy from one another.
struct TestPeers {
  std::mutex mutex;
  std::vector<const TestMemory*> memories;
  const TestMemory* Find(const void* address) {
    const std::lock_guard lock(mutex);
    for (const TestMemory* memory : memories)
      if (memory->Has(address)) return memory;
    return nullptr;
  }
};

class TestDevice final : public providers::OpenDevice {
 public:
  /// `peers` may be null.
  explicit TestDevice(providers::DeviceInfo info, std::shared_ptr<TestPeers> peers = nullptr)
      : info_(std::move(info)), peers_(std::move(peers)) {
    if (!peers_) return;
    const std::lock_guard lock(peers_->mutex);
    peers_->memories.push_back(&memory_);
  }
  ~TestDevice() override {
    if (!peers_) return;
    const std::lock_guard lock(peers_->mutex);
    std::erase(peers_->memories, &memory_);
  }
  const providers::DeviceInfo& info() const override { return info_; }
  int64_t alignment() const override { return 256; }
  int64_t max_region(providers::Space) const override { return max_region_bytes; }
  std::unique_ptr<providers::Region> Reserve(providers::Space, int64_t bytes) override {
    return std::make_unique<TestRegion>(memory_, bytes);
  }
  providers::MemoryInfo memory() const override { return {info_.free_bytes, info_.capacity_bytes, 0}; }
  std::unique_ptr<providers::Stream> CreateStream() override {
    return std::make_unique<TestStream>(*this, ++seed_);
  }
  std::unique_ptr<providers::Event> CreateEvent() override { return std::make_unique<TestEvent>(*this); }
  void Run(std::span<const providers::Copy> copies, providers::Stream* stream) override {
    for (const auto& copy : copies) {
      if (!memory_.Has(copy.source) && !memory_.Has(copy.target))
        throw Error(Code::kRuntime, "a copy that has nothing to do with the device");
      const auto* from = memory_.Has(copy.source) || !peers_ ? nullptr : peers_->Find(copy.source);
      if (!from) from = &memory_;
      const auto job = [this, copy, from] {
        std::memcpy(memory_.Open(copy.target), from->Open(copy.source), static_cast<size_t>(copy.bytes));
      };
      if (stream)
        static_cast<TestStream*>(stream)->Put(job);
      else
        job();
    }
  }
  bool CopiesFrom(const providers::OpenDevice& other) const override {
    return peers_ && static_cast<const TestDevice&>(other).peers_ == peers_;
  }
  TestMemory& addresses() { return memory_; }
  int64_t max_region_bytes = INT64_MAX;

 private:
  providers::DeviceInfo info_;
  std::shared_ptr<TestPeers> peers_;
  TestMemory memory_;
  unsigned seed_ = 0;
};

}  // namespace ullage::session::test
