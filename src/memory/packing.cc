#include "memory/packing.h"

#include <algorithm>

#include "core/checked.h"
#include "memory/packing_greedy.h"
#include "memory/packing_instance.h"

namespace ullage::memory {
namespace {

using internal::Problem;

// About a second of comparisons for the greedy portfolio.
constexpr int64_t kGreedyWork = 100'000'000;

}  // namespace

int64_t PackingLowerBound(std::span<const Buffer> buffers) {
  return Problem(buffers).lower_bound();
}

Packing Pack(std::span<const Buffer> buffers, const PackLimits& limits) {
  const Problem problem(buffers);
  Packing packing;
  packing.lower_bound = problem.lower_bound();
  packing.peak = -1;
  const int64_t goal = std::max(packing.lower_bound, limits.capacity.value_or(0));
  for (Problem::InPlace in_place :
       {Problem::InPlace::kAlways, Problem::InPlace::kShrinking, Problem::InPlace::kNever}) {
    const internal::Instance instance = problem.Build(in_place);
    const internal::GreedyResult greedy =
        internal::GreedyPortfolio(instance, AlignUp(goal, instance.granule), kGreedyWork);
    std::vector<int64_t> offsets = problem.BufferOffsets(instance, greedy.offsets);
    const int64_t peak = problem.Peak(offsets);
    if (packing.peak < 0 || peak < packing.peak) {
      packing.peak = peak;
      packing.offsets = std::move(offsets);
      packing.method = greedy.method;
    }
    if (!problem.has_in_place() || packing.peak <= goal) break;
  }
  packing.proved_optimal = packing.peak == packing.lower_bound;
  return packing;
}

}  // namespace ullage::memory
