/// Which steps wait for which, where a program runs on several queues at once.
///
/// The host issues the steps in order. What it does itself is done when the next step is issued. A device
/// computes in one queue and copies in another, each in the order of issue; steps of different queues are
/// ordered by events only. A copy between two devices is made in the queue of the one that it goes to, which
/// waits for the other's events. Steps with sub-graphs begin and end with all queues empty.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/checker.h"
#include "session/program.h"

namespace ullage::session {

struct StepSync {
  int32_t stream = 0;            ///< 0: the host; 2d - 1 and 2d: device d computes, copies
  std::vector<int32_t> waits;    ///< steps that the queue waits for before it begins this one
  std::vector<int32_t> awaited;  ///< steps that the host waits for before it issues this one
  bool records = false;          ///< somebody waits for this step
  bool alone = false;            ///< the host waits for everything, before and after
};

/// Steps, their queues and what the data need: who reads what another queue made. Empty for a program that
/// uses no device.
class SyncPlan {
 public:
  SyncPlan() = default;
  /// `external`: values that are written to memory given from outside.
  SyncPlan(const Program& program, const std::vector<graph::ValueId>& external);

  bool empty() const { return steps_.empty(); }
  const std::vector<StepSync>& steps() const { return steps_; }

  /// Raises the ends of lives (by value, of roots; one behind the last step that uses it) to where the host
  /// knows that queues are done with the memory, or the device's own queue does; it may be made to wait.
  void ExtendLives(const Program& program, std::vector<int64_t>* last);
  /// The step reads or writes the bytes of its inputs: it is no view, and wants to know more than a shape.
  bool touches(int64_t step) const { return touches_[static_cast<size_t>(step)] != 0; }
  /// Lets step `at` wait for step `before`.
  void AddWait(int32_t at, int32_t before);
  /// The last step before `at` that device d computes, not after `latest`; -1: none.
  int32_t LastCompute(int d, int64_t latest) const;
  /// For the judge: queues, events, and what the host's own order implies. Uses are left to the caller.
  memory::StepOrder Order() const;

 private:
  /// The first step, not before `from`, at which the host knows that step `copy` is done.
  int64_t KnownDone(int64_t copy) const;
  /// Of a copy that another device makes from device d: a step of d's behind which it is done.
  int64_t DoneOn(int d, int64_t copy, const std::vector<std::vector<int64_t>>& clocks);
  /// By step and queue: the last step of the queue that is done for certain when the step begins; -1: none.
  std::vector<std::vector<int64_t>> Clocks() const;
  std::vector<StepSync> steps_;
  std::vector<uint8_t> touches_;  // by step
};

}  // namespace ullage::session
