/// The judge of a plan: follows what each byte of the arena holds while the program runs. It shares no code
/// with the planner, and takes neither lives nor aliases on trust.
#pragma once

#include <string>
#include <vector>

#include "session/plan.h"

namespace ullage::session {

/// Faults, in the order in which a run would meet them, each naming node and value: a step that reads bytes
/// which no longer hold the value, a result or a workspace over something that the step still needs, bytes
/// outside the arena. Values without a bound, and what lies outside the arena, are not looked at. Sub-graphs
/// are judged by themselves, and as scratch of the step that runs them.
std::vector<std::string> CheckPlan(const Program& program, const shapes::GraphFacts& facts,
                                   const std::vector<graph::ValueId>& external, const Plan& plan);

/// Throws Error(kRuntime) with the first faults.
void RequireSoundPlan(const Program& program, const shapes::GraphFacts& facts,
                      const std::vector<graph::ValueId>& external, const Plan& plan);

}  // namespace ullage::session
