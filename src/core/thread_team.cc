#include "core/thread_team.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <set>
#include <string>
#include <utility>

#include "core/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ullage {
namespace {

using Clock = std::chrono::steady_clock;

// Gaps between two loops that a worker waits through awake; longer ones put it to sleep.
constexpr auto kSpinTime = std::chrono::microseconds(200);
// A thread that comes back to its clock after so long was off its processor.
constexpr auto kTakenOff = std::chrono::microseconds(50);
constexpr int kPausesPerLook = 32;  // a few microseconds
// Loops for which a worker does not spin after it was taken off its processor.
constexpr int kCalmLoops = 16;

// The parts of ThreadTeam::epoch_: how many workers besides the caller are inside of the loop, whether more
// may join, and the number of the loop. fn_, context_ and tasks_ change only while nobody is inside or may
// join, so a worker that wakes up late touches no loop that is over, and nobody waits for it.
constexpr uint32_t kInside = (1u << 11) - 1;
constexpr uint32_t kOpen = 1u << 11;
constexpr uint32_t kNumber = ~(kOpen | kInside);
constexpr uint32_t kNextNumber = kOpen << 1;

inline void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

enum class Spun { kReady, kTooLong, kTakenOff };

// Waits awake, but not where others want the processor.
template <class Ready>
Spun SpinUntil(const Ready& ready) {
  if (ready()) return Spun::kReady;
  const Clock::time_point start = Clock::now();
  for (Clock::time_point last = start;;) {
    for (int i = 0; i < kPausesPerLook; ++i) {
      Pause();
      if (ready()) return Spun::kReady;
    }
    const Clock::time_point now = Clock::now();
    if (now - last > kTakenOff) return Spun::kTakenOff;
    if (now - start > kSpinTime) return Spun::kTooLong;
    last = now;
  }
}

// With more threads than processors nobody spins.
bool MaySpin(size_t threads) {
  static const int processors = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  }();
  return static_cast<int>(threads) <= processors;
}

// Into loop `number`, if it is still open.
bool Join(std::atomic<uint32_t>* epoch, uint32_t number) {
  uint32_t state = epoch->load(std::memory_order_relaxed);
  while ((state & kOpen) != 0 && (state & kNumber) == number)
    if (epoch->compare_exchange_weak(state, state + 1, std::memory_order_acquire, std::memory_order_relaxed))
      return true;
  return false;
}

// Out of it; the last one wakes the caller, which waits for `running` to change. 0 stays: the team is free.
void Leave(std::atomic<uint32_t>* epoch, std::atomic<int>* running) {
  const uint32_t before = epoch->fetch_sub(1, std::memory_order_acq_rel);
  if ((before & (kOpen | kInside)) != 1) return;
  int value = running->load(std::memory_order_relaxed);
  while (value != 0 && !running->compare_exchange_weak(value, value + 1, std::memory_order_release,
                                                       std::memory_order_relaxed)) {
  }
  running->notify_one();
}

}  // namespace

ThreadTeam::ThreadTeam(int threads) {
  if (threads > static_cast<int>(kInside))
    Throw(Code::kUsage, "a team of ", threads, " threads; at most ", kInside, " are possible");
  for (int i = 1; i < threads; ++i) threads_.emplace_back([this, i] { Loop(i); });
}

ThreadTeam::~ThreadTeam() {
  stop_.store(true);
  epoch_.fetch_add(kNextNumber);
  epoch_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void ThreadTeam::RunErased(int64_t tasks, TaskFn fn, const void* context) {
  // running_: 0 when the team is free.
  int free = 0;
  if (!running_.compare_exchange_strong(free, 1, std::memory_order_acquire, std::memory_order_relaxed)) {
    for (int64_t i = 0; i < tasks; ++i) fn(context, i, 0);
    return;
  }
  fn_ = fn;
  context_ = context;
  tasks_ = tasks;
  next_.store(0, std::memory_order_relaxed);
  epoch_.store(((epoch_.load(std::memory_order_relaxed) & kNumber) + kNextNumber) | kOpen,
               std::memory_order_release);
  epoch_.notify_all();
  Work(0);
  epoch_.fetch_and(~kOpen, std::memory_order_acq_rel);
  const auto empty = [&] { return (epoch_.load(std::memory_order_acquire) & kInside) == 0; };
  if (!MaySpin(threads_.size() + 1) || SpinUntil(empty) != Spun::kReady) {
    for (;;) {
      const int before = running_.load(std::memory_order_acquire);
      if (empty()) break;
      running_.wait(before, std::memory_order_acquire);
    }
  }
  std::exception_ptr error;
  if (failed_.load(std::memory_order_relaxed)) {
    failed_.store(false, std::memory_order_relaxed);
    error = std::exchange(error_, nullptr);
  }
  running_.store(0, std::memory_order_release);
  if (error) std::rethrow_exception(error);
}

void ThreadTeam::Work(int worker) {
  for (;;) {
    const int64_t task = next_.fetch_add(1, std::memory_order_relaxed);
    if (task >= tasks_) return;
    try {
      fn_(context_, task, worker);
    } catch (...) {
      if (!failed_.exchange(true)) error_ = std::current_exception();
    }
  }
}

void ThreadTeam::Loop(int worker) {
  uint32_t seen = 0;
  int calm = 0;
  bool may_spin = true;
  for (;;) {
    const auto news = [&] { return (epoch_.load(std::memory_order_relaxed) & kNumber) != seen; };
    Spun spun = Spun::kTooLong;
    if (may_spin && calm == 0) spun = SpinUntil(news);
    if (spun == Spun::kTakenOff) {
      calm = kCalmLoops;
    } else if (calm > 0) {
      --calm;
    }
    uint32_t state = epoch_.load(std::memory_order_acquire);
    while ((state & kNumber) == seen) {
      epoch_.wait(state, std::memory_order_acquire);
      state = epoch_.load(std::memory_order_acquire);
    }
    if (stop_.load()) return;
    seen = state & kNumber;
    if (!Join(&epoch_, seen)) continue;
    may_spin = MaySpin(threads_.size() + 1);  // which is settled when a loop begins
    Work(worker);
    Leave(&epoch_, &running_);
  }
}

int UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    std::set<std::string> physical;  // "package/core", or the processor itself where the kernel does not say
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &set)) continue;
      const std::string dir = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
      std::string package, core;
      std::ifstream(dir + "physical_package_id") >> package;
      std::ifstream(dir + "core_id") >> core;
      physical.insert(core.empty() ? "cpu" + std::to_string(cpu) : package + "/" + core);
    }
    cores = std::max(1, static_cast<int>(physical.size()));
  }
  std::string quota;
  double period = 0;
  std::ifstream cgroup("/sys/fs/cgroup/cpu.max");
  if (cgroup >> quota >> period && quota != "max" && period > 0) {
    const int allowed = static_cast<int>(std::stod(quota) / period + 0.5);
    cores = std::max(1, std::min(cores, allowed));
  }
  return cores;
}

}  // namespace ullage
