/// Running the tasks of a kernel.
#pragma once

#include <cstdint>

#include "core/thread_team.h"

namespace ullage::dense {

/// Calls fn(task, worker) for all tasks: by the team, or by the caller alone where all of them together take
/// less time than waking the team does. `work` is the number of multiply-adds, or of what takes as long.
template <class Fn>
void RunTasks(ThreadTeam& team, int64_t tasks, int64_t work, const Fn& fn) {
  constexpr int64_t kWorthATeam = 32768;  // one to three microseconds
  if (work >= kWorthATeam) {
    team.Run(tasks, fn);
  } else {
    for (int64_t i = 0; i < tasks; ++i) fn(i, 0);
  }
}

}  // namespace ullage::dense
