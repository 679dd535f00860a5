/// A team of threads that run one loop at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace ullage {

/// N workers: the caller of Run() is worker 0, the others wait, first spinning for a short while, then
/// asleep.
///
/// A shared counter hands out the tasks; which worker does one must never matter for the result: kernels cut
/// their work by fixed sizes, not by size(). While the workers serve the loop of one caller, other callers do
/// their own tasks themselves, as worker 0: nobody waits for somebody else's loop. Run() allocates nothing.
class ThreadTeam {
 public:
  /// `threads` >= 1; starts threads-1 of them.
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return static_cast<int>(threads_.size()) + 1; }

  /// Calls fn(task, worker) for every task in [0, tasks), worker in [0, size()), and returns when all are
  /// done. Thread-safe, also from inside a task. The first exception of a task is thrown again here.
  template <class Fn>
  void Run(int64_t tasks, const Fn& fn) {
    if (tasks <= 0) return;
    if (tasks == 1 || threads_.empty()) {
      for (int64_t i = 0; i < tasks; ++i) fn(i, 0);
      return;
    }
    RunErased(
        tasks, [](const void* f, int64_t task, int worker) { (*static_cast<const Fn*>(f))(task, worker); },
        &fn);
  }

 private:
  using TaskFn = void (*)(const void*, int64_t, int);
  void RunErased(int64_t tasks, TaskFn fn, const void* context);
  void Work(int worker);
  void Loop(int worker);

  std::vector<std::thread> threads_;
  TaskFn fn_ = nullptr;
  const void* context_ = nullptr;
  int64_t tasks_ = 0;
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};
  alignas(64) std::atomic<int> running_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
};

/// Physical cores that this process may use: affinity mask and cgroup quota considered, hyper-threads counted
/// once.
int UsableCores();

}  // namespace ullage
