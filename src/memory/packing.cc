#include "memory/packing.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "core/checked.h"
#include "memory/packing_greedy.h"
#include "memory/packing_instance.h"
#include "memory/packing_periodic.h"
#include "memory/packing_search.h"

namespace ullage::memory {
namespace {

using internal::Instance;
using internal::OffsetSearch;
using internal::Priority;
using internal::Problem;
using Clock = std::chrono::steady_clock;

// About a second of comparisons for the greedy portfolio.
constexpr int64_t kGreedyWork = 100'000'000;
// The search holds every pair of items that meet in time; beyond this many it would take too much memory.
constexpr int64_t kMaxMeetings = 8'000'000;
constexpr int64_t kAttemptWork = 250'000;     // of the shortest attempts
constexpr int64_t kBarrenWork = 150'000'000;  // without success, after which a kind of attempt gets less
constexpr size_t kMaxSearched = 4000;         // items: the search recurses as deep

int64_t CountMeetings(const Instance& instance) {
  std::vector<int32_t> firsts, lasts;
  for (const internal::Piece& p : instance.pieces) {
    firsts.push_back(p.first);
    lasts.push_back(p.last);
  }
  std::sort(firsts.begin(), firsts.end());
  std::sort(lasts.begin(), lasts.end());
  // A piece meets those that start before it ends and do not end before it starts.
  int64_t pairs = 0;
  for (const internal::Piece& p : instance.pieces)
    pairs += (std::lower_bound(firsts.begin(), firsts.end(), p.last) - firsts.begin()) -
             (std::upper_bound(lasts.begin(), lasts.end(), p.first) - lasts.begin());
  return pairs;
}

constexpr int64_t kKinds = 8;
using Portfolio = std::array<Priority, kKinds>;

// No single priority suits all problems. Packings without waste differ from those with a little of it: what
// finds one kind seldom finds the other.
constexpr Portfolio kForTheBound = {{{.life = 1, .bytes = 0.5, .crowd = 100},
                                     {.life = 1, .bytes = 1, .crowd = 1},
                                     {.life = 1, .bytes = 0.5, .crowd = 12},
                                     {.life = 1, .bytes = 0, .crowd = 4},
                                     {.life = 1, .bytes = 1, .crowd = 100},
                                     {.life = 1, .bytes = 0, .crowd = 1},
                                     {.life = 0, .bytes = 0, .crowd = 1, .total_crowd = true},
                                     {.life = 0, .bytes = 1, .crowd = 1, .total_crowd = true}}};
constexpr Portfolio kBelowTheBest = {{{.life = 1, .bytes = 0, .crowd = 1},
                                      {.life = 1, .bytes = 0, .crowd = 2},
                                      {.life = 1, .bytes = 0, .crowd = 4},
                                      {.life = 1, .bytes = 0.5, .crowd = 2},
                                      {.life = 2, .bytes = 1, .crowd = 3},
                                      {.life = 1, .bytes = 0.25, .crowd = 2},
                                      {.life = 2, .bytes = 0.5, .crowd = 4},
                                      {.life = 0, .bytes = 0, .crowd = 1, .total_crowd = true}}};

// Short attempts that learn from each other's failures do better than long ones: the first round is without
// noise, later ones vary.
Priority PriorityOfTurn(const Portfolio& portfolio, std::span<const double> noises, int64_t turn) {
  constexpr std::array<double, 3> kBlames = {4, 1, 20};
  Priority priority = portfolio[static_cast<size_t>(turn % kKinds)];
  const auto round = static_cast<size_t>(turn / kKinds);
  if (round == 0) return priority;
  priority.blame = kBlames[(round - 1) % kBlames.size()];
  priority.noise = noises[(round - 1) % noises.size()];
  priority.seed = static_cast<uint32_t>(turn);
  return priority;
}
constexpr std::array<double, 2> kBoundNoises = {0.3, 0.05};
constexpr int64_t kBelowShift = 5 * kKinds;  // no round without noise: these heights leave room
constexpr std::array<double, 4> kBelowNoises = {0.05, 0.1, 0.05, 0.3};

constexpr double kOfTheLimit = 0.95;  // searching: the rest is for what begins before and ends behind it

/// Pack, step by step: each step may replace the best packing known.
class Packer {
 public:
  Packer(std::span<const Buffer> buffers, const PackLimits& limits) : problem_(buffers), limits_(limits) {
    best_.lower_bound = problem_.lower_bound();
    best_.peak = -1;
    if (limits.time_limit_s > 0)
      deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                                     kOfTheLimit * std::min(limits.time_limit_s, 1e6)));
  }

  Packing Run() {
    using InPlace = Problem::InPlace;
    std::vector<Instance> instances;
    for (InPlace in_place : {InPlace::kAlways, InPlace::kShrinking, InPlace::kNever}) {
      instances.push_back(problem_.Build(in_place));
      Greedy(instances.back());
      if (Done()) break;
      if (const std::optional<Instance> layers = internal::JoinRepetitions(instances.back())) {
        Greedy(*layers);
        if (!Done()) Search(*layers, false);
      }
      if (!problem_.has_in_place()) break;
      if (Done()) break;
    }
    // The instance that joins all in-place chains first: it has the fewest items.
    for (const Instance& instance : instances)
      if (!Done()) Search(instance, !problem_.has_in_place());
    best_.proved_optimal = best_.peak == best_.lower_bound;
    return best_;
  }

 private:
  bool Done() const { return best_.peak <= std::max(best_.lower_bound, limits_.capacity.value_or(0)); }

  void Offer(const Instance& instance, std::span<const int64_t> item_offsets, const std::string& method) {
    std::vector<int64_t> offsets = problem_.BufferOffsets(instance, item_offsets);
    const int64_t peak = problem_.Peak(offsets);
    if (best_.peak >= 0 && peak >= best_.peak) return;
    best_.peak = peak;
    best_.offsets = std::move(offsets);
    best_.method = method;
  }

  void Greedy(const Instance& instance) {
    const int64_t goal = std::max(best_.lower_bound, limits_.capacity.value_or(0));
    const internal::GreedyResult result = internal::GreedyPortfolio(instance, goal, kGreedyWork);
    Offer(instance, result.offsets, result.method);
  }

  // Attempts of varying length with different priorities, at the lower bound and at heights somewhat below
  // the best one known: which heights are easy to reach is not monotone. Most work goes where it pays: below
  // the best as long as that succeeds now and then, else to the bound.
  void Search(const Instance& instance, bool complete) {
    if (limits_.work_limit <= work_ || instance.items.size() > kMaxSearched ||
        CountMeetings(instance) > kMaxMeetings)
      return;
    OffsetSearch for_bound(instance), for_below(instance);  // what they learn from failures differs, too
    int64_t bound =
        std::max(best_.lower_bound, limits_.capacity.value_or(0));  // least height worth trying here
    double depth = 0.5;  // how far below the best height attempts below it aim
    struct Aim {
      int64_t turn = 0;
      int64_t work = 0;
    } at_bound, below;
    int64_t barren = 0;  // work below the best height since that succeeded last
    while (!Done() && work_ < limits_.work_limit && !Expired()) {
      const bool pays = barren < kBarrenWork;
      const bool aim_at_bound = pays ? at_bound.work * 3 <= below.work : at_bound.work <= below.work * 3;
      Aim& aim = aim_at_bound ? at_bound : below;
      OffsetSearch& search = aim_at_bound ? for_bound : for_below;
      int64_t height = bound;
      if (!aim_at_bound) {
        const double share = aim.turn % 2 == 0 ? depth : 0.8 * depth;
        height += static_cast<int64_t>(static_cast<double>(best_.peak - bound) * share);
      }
      height = std::min(height, best_.peak - 1);
      if (height < bound) break;
      int64_t limit = aim_at_bound ? 2 * kAttemptWork : 4 * kAttemptWork;
      for (int64_t r = aim.turn / kKinds + 1; r % 2 == 0; r /= 2) limit *= 2;
      limit = std::min(limit, limits_.work_limit - work_);
      const OffsetSearch::Outcome outcome =
          search.Run(height,
                     aim_at_bound ? PriorityOfTurn(kForTheBound, kBoundNoises, aim.turn)
                                  : PriorityOfTurn(kBelowTheBest, kBelowNoises, aim.turn + kBelowShift),
                     limit, deadline_);
      const bool found = outcome == OffsetSearch::Outcome::kFound;
      best_.nodes += search.nodes();
      work_ += search.work();
      aim.work += search.work();
      ++aim.turn;
      if (found) Offer(instance, search.offsets(), "search");
      if (!aim_at_bound) {
        depth = found ? depth * 0.7 : depth + (1 - depth) * 0.04;
        barren = found ? 0 : barren + search.work();
      }
      if (outcome == OffsetSearch::Outcome::kRefuted) {
        bound = std::max(bound, height + 1);
        if (search.exact() && complete) best_.lower_bound = std::max(best_.lower_bound, height + 1);
      }
    }
  }

  bool Expired() const { return deadline_ && Clock::now() >= *deadline_; }

  Problem problem_;
  PackLimits limits_;
  OffsetSearch::Deadline deadline_;
  Packing best_;
  int64_t work_ = 0;
};

}  // namespace

int64_t PackingLowerBound(std::span<const Buffer> buffers) {
  return Problem(buffers).lower_bound();
}

Packing Pack(std::span<const Buffer> buffers, const PackLimits& limits) {
  return Packer(buffers, limits).Run();
}

}  // namespace ullage::memory
