#include "core/thread_team.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ullage {
namespace {

constexpr int kSpins = 20000;  // about 0.2 ms; longer gaps between two loops put the workers to sleep

inline void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

ThreadTeam::ThreadTeam(int threads) {
  for (int i = 1; i < threads; ++i) threads_.emplace_back([this, i] { Loop(i); });
}

ThreadTeam::~ThreadTeam() {
  stop_.store(true);
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void ThreadTeam::RunErased(int64_t tasks, TaskFn fn, const void* context) {
  // running_: 0 when the team is free; otherwise 1 for the caller that has it, and 1 for each worker at work.
  int free = 0;
  const int busy = static_cast<int>(threads_.size()) + 1;
  if (!running_.compare_exchange_strong(free, busy, std::memory_order_acquire, std::memory_order_relaxed)) {
    for (int64_t i = 0; i < tasks; ++i) fn(context, i, 0);
    return;
  }
  fn_ = fn;
  context_ = context;
  tasks_ = tasks;
  next_.store(0, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  Work(0);
  for (int spin = 0; running_.load(std::memory_order_acquire) != 1; ++spin) {
    if (spin < kSpins) {
      Pause();
    } else {
      const int left = running_.load(std::memory_order_acquire);
      if (left != 1) running_.wait(left, std::memory_order_acquire);
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
  for (;;) {
    int spin = 0;
    while (epoch_.load(std::memory_order_acquire) == seen) {
      if (++spin < kSpins) {
        Pause();
      } else {
        epoch_.wait(seen, std::memory_order_acquire);
      }
    }
    ++seen;
    if (stop_.load()) return;
    Work(worker);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 2) running_.notify_one();
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
