/// The order of a program's steps: the model's, or one that needs less memory.
#pragma once

#include <vector>

#include "session/plan.h"
#include "session/schedule.h"

namespace ullage::session {

/// The program's steps and values as blocks of memory, at the upper ends of the bounds. Beside what reads
/// what, steps with random numbers keep their order, and so do those that read a cache and the one that
/// appends to it.
OrderProblem OrderProblemOf(const Program& program, const shapes::GraphFacts& facts,
                            const std::vector<graph::ValueId>& external, int threads);

/// Reorders the steps of the program and of its sub-graphs where that makes the largest arena over the
/// profiles smaller. `external` as for MakePlan.
void LowerPeak(const std::vector<const shapes::GraphFacts*>& profiles,
               const std::vector<graph::ValueId>& external, int threads, const PlanOptions& options,
               Program* program);

}  // namespace ullage::session
