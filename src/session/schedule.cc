#include "session/schedule.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <tuple>
#include <unordered_map>

namespace ullage::session {

namespace {

using Order = std::vector<int32_t>;
using Edges = std::vector<std::vector<int32_t>>;  // by step: those that must have run

constexpr int64_t kMostWork = 1'500'000;  // steps tried, over all searches; some tens of nanoseconds each
constexpr size_t kStates = 200'000;       // kept in one search, over all numbers of steps done
constexpr size_t kLeastWidth = 8, kMostWidth = 4096;

Order Identity(size_t n) {
  Order order(n);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/// Runs steps one by one and knows what is alive.
class Tape {
 public:
  explicit Tape(const OrderProblem& problem) : problem_(problem), uses_(problem.blocks.size(), 0) {
    for (const auto& step : problem.steps)
      for (const auto* list : {&step.reads, &step.writes})
        for (int32_t b : *list) ++uses_[static_cast<size_t>(b)];
    for (size_t b = 0; b < problem.blocks.size(); ++b) uses_[b] += problem.blocks[b].kept;
  }

  /// Returns the bytes alive while the step runs.
  int64_t Run(int32_t step) {
    const auto& s = problem_.steps[static_cast<size_t>(step)];
    int64_t made = 0, freed = 0, saved = 0;
    for (int32_t b : s.writes) made += Bytes(b);
    for (int32_t b : s.over)
      if (uses_[static_cast<size_t>(b)] == 1 && saved == 0) saved = std::min(Bytes(b), Bytes(s.writes[0]));
    for (const auto* list : {&s.reads, &s.writes})
      for (int32_t b : *list)
        if (--uses_[static_cast<size_t>(b)] == 0) freed += Bytes(b);
    const int64_t during = live_ + made + s.scratch - saved;
    live_ += made - freed;
    return during;
  }
  int64_t live() const { return live_; }

 private:
  int64_t Bytes(int32_t b) const { return problem_.blocks[static_cast<size_t>(b)].bytes; }

  const OrderProblem& problem_;
  std::vector<int32_t> uses_;
  int64_t live_ = 0;
};

/// Every step just before the first that needs it; of several steps that one needs, those of higher `rank`
/// first.
template <class Rank>
Order DepthFirst(const Edges& after, const Rank& rank) {
  const size_t n = after.size();
  std::vector<bool> needed(n, false), done(n, false);
  for (const auto& list : after)
    for (int32_t p : list) needed[static_cast<size_t>(p)] = true;
  Order order;
  struct Visit {
    int32_t step;
    std::vector<int32_t> after;
    size_t at = 0;
  };
  std::vector<Visit> path;
  const auto enter = [&](int32_t step) {
    done[static_cast<size_t>(step)] = true;
    Visit visit{step, after[static_cast<size_t>(step)]};
    std::stable_sort(visit.after.begin(), visit.after.end(),
                     [&](int32_t a, int32_t b) { return rank(a) > rank(b); });
    path.push_back(std::move(visit));
  };
  for (size_t s = 0; s < n; ++s) {
    if (needed[s] || done[s]) continue;
    enter(static_cast<int32_t>(s));
    while (!path.empty()) {
      Visit& top = path.back();
      if (top.at < top.after.size()) {
        const int32_t before = top.after[top.at++];
        if (!done[static_cast<size_t>(before)]) enter(before);
        continue;
      }
      order.push_back(top.step);
      path.pop_back();
    }
  }
  return order;
}

/// Peaks of the parts below a step as if it were a tree: what must be held to make its result.
std::vector<int64_t> Needs(const OrderProblem& problem) {
  std::vector<int64_t> needs(problem.steps.size(), 0);
  for (size_t s = 0; s < needs.size(); ++s) {
    const auto& step = problem.steps[s];
    int64_t own = step.scratch;
    for (const auto* list : {&step.reads, &step.writes})
      for (int32_t b : *list) own += problem.blocks[static_cast<size_t>(b)].bytes;
    for (int32_t p : step.after) own = std::max(own, needs[static_cast<size_t>(p)]);
    needs[s] = own;
  }
  return needs;
}

/// Orders of one part, by sets of steps that have run: those of k steps give those of k + 1, and of several
/// ways to one set the best is kept.
class PartSearch {
 public:
  PartSearch(const OrderProblem& problem, const Edges& after, std::span<const int32_t> steps,
             const std::vector<uint8_t>& dies_here, int64_t live, std::vector<int32_t>* number)
      : live_(live), words_((steps.size() + 63) / 64) {
    for (size_t i = 0; i < steps.size(); ++i)
      (*number)[static_cast<size_t>(steps[i])] = static_cast<int32_t>(i);
    std::unordered_map<int32_t, int32_t> block_at;
    steps_.resize(steps.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      const auto& from = problem.steps[static_cast<size_t>(steps[i])];
      Local& s = steps_[i];
      s.step = steps[i];
      s.scratch = from.scratch;
      for (int32_t p : after[static_cast<size_t>(s.step)])
        if (const int32_t at = (*number)[static_cast<size_t>(p)]; at >= 0) {
          s.after.push_back(at);
          steps_[static_cast<size_t>(at)].before.push_back(static_cast<int32_t>(i));
        }
      const auto touch = [&](int32_t b) {
        const auto [it, fresh] = block_at.try_emplace(b, static_cast<int32_t>(blocks_.size()));
        if (fresh)
          blocks_.push_back(
              {problem.blocks[static_cast<size_t>(b)].bytes, dies_here[static_cast<size_t>(b)] != 0, {}});
        blocks_[static_cast<size_t>(it->second)].users.push_back(static_cast<int32_t>(i));
        return it->second;
      };
      for (int32_t b : from.reads) s.blocks.push_back(touch(b));
      for (int32_t b : from.writes) {
        s.blocks.push_back(touch(b));
        s.made += problem.blocks[static_cast<size_t>(b)].bytes;
      }
      if (!from.writes.empty()) s.first = problem.blocks[static_cast<size_t>(from.writes[0])].bytes;
      for (int32_t b : from.over) s.over.push_back(block_at.at(b));
      s.hash = Mix(i + 1);
    }
    for (int32_t step : steps) (*number)[static_cast<size_t>(step)] = -1;
  }

  /// Finds the order with the lowest peak below `bound`; false when there is none, or it was not found within
  /// the work. `complete`: all orders were considered.
  bool Run(int64_t bound, int64_t* work, Order* out, int64_t* peak, bool* complete) {
    const size_t n = steps_.size();
    const size_t width = std::clamp(kStates / n, kLeastWidth, kMostWidth);
    *complete = true;
    std::vector<State> states(1), next;
    states[0].live = states[0].peak = live_;
    std::vector<uint64_t> done(words_, 0), next_done;
    std::vector<std::vector<int32_t>> ready(1), next_ready;
    for (size_t i = 0; i < n; ++i)
      if (steps_[i].after.empty()) ready[0].push_back(static_cast<int32_t>(i));
    std::vector<std::vector<std::pair<int32_t, int32_t>>> ways;  // by number of steps: parent, step
    std::unordered_map<uint64_t, size_t> known;
    for (size_t k = 0; k < n; ++k) {
      next.clear();
      known.clear();
      for (size_t i = 0; i < states.size(); ++i) {
        const uint64_t* set = &done[i * words_];
        const auto offer = [&](const State& state) {
          const auto [it, fresh] = known.try_emplace(state.hash, next.size());
          if (fresh)
            next.push_back(state);
          else if (state.peak < next[it->second].peak)
            next[it->second] = state;
        };
        // A step that adds nothing now adds nothing later either, and helps all others: it need not wait.
        size_t at = 0;
        std::array<State, 64> few;
        bool free = false;
        *work += static_cast<int64_t>(ready[i].size());
        for (int32_t step : ready[i]) {
          const State after = After(states[i], set, static_cast<int32_t>(i), step);
          if (after.live <= states[i].live && after.peak == states[i].peak) {
            offer(after);
            free = true;
            break;
          }
          if (at < few.size()) few[at] = after;
          ++at;
        }
        if (free) continue;
        if (at > few.size()) *complete = false;
        for (size_t j = 0; j < std::min(at, few.size()); ++j)
          if (few[j].peak < bound) offer(few[j]);
      }
      if (next.empty()) return false;
      if (*work > kMostWork) {
        *complete = false;
        return false;
      }
      if (next.size() > width) {
        *complete = false;
        std::nth_element(next.begin(), next.begin() + static_cast<std::ptrdiff_t>(width), next.end(),
                         [](const State& a, const State& b) {
                           return std::tie(a.peak, a.live, a.hash) < std::tie(b.peak, b.live, b.hash);
                         });
        next.resize(width);
      }
      next_done.resize(next.size() * words_);
      next_ready.resize(next.size());
      auto& way = ways.emplace_back();
      for (size_t i = 0; i < next.size(); ++i) {
        const auto parent = static_cast<size_t>(next[i].parent);
        uint64_t* set = &next_done[i * words_];
        std::copy_n(&done[parent * words_], words_, set);
        const int32_t step = next[i].step;
        set[step / 64] |= uint64_t{1} << (step % 64);
        next_ready[i].clear();
        for (int32_t s : ready[parent])
          if (s != step) next_ready[i].push_back(s);
        for (int32_t s : steps_[static_cast<size_t>(step)].before)
          if (All(steps_[static_cast<size_t>(s)].after, set, -1)) next_ready[i].push_back(s);
        way.emplace_back(next[i].parent, step);
      }
      states.swap(next);
      done.swap(next_done);
      ready.swap(next_ready);
    }
    *peak = states[0].peak;
    out->resize(n);
    int32_t at = 0;
    for (size_t k = n; k-- > 0;) {
      (*out)[k] = steps_[static_cast<size_t>(ways[k][static_cast<size_t>(at)].second)].step;
      at = ways[k][static_cast<size_t>(at)].first;
    }
    return true;
  }

 private:
  struct Local {
    int32_t step = 0;
    int64_t scratch = 0, made = 0, first = 0;  // first: bytes of the first block that is written
    std::vector<int32_t> after, before;        // within the part
    std::vector<int32_t> blocks, over;
    uint64_t hash = 0;
  };
  struct LocalBlock {
    int64_t bytes;
    bool dies;  // with its last user, which is of this part
    std::vector<int32_t> users;
  };
  struct State {
    int64_t live = 0, peak = 0;
    uint64_t hash = 0;  // of the set
    int32_t parent = 0, step = 0;
  };

  static uint64_t Mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  static bool All(const std::vector<int32_t>& list, const uint64_t* set, int32_t but) {
    return std::all_of(list.begin(), list.end(),
                       [&](int32_t s) { return s == but || (set[s / 64] >> (s % 64) & 1) != 0; });
  }

  State After(const State& state, const uint64_t* set, int32_t parent, int32_t step) const {
    const Local& s = steps_[static_cast<size_t>(step)];
    int64_t freed = 0, saved = 0;
    const auto dies = [&](int32_t b) {
      const LocalBlock& block = blocks_[static_cast<size_t>(b)];
      return block.dies && All(block.users, set, step);
    };
    for (int32_t b : s.blocks)
      if (dies(b)) freed += blocks_[static_cast<size_t>(b)].bytes;
    for (int32_t b : s.over)
      if (saved == 0 && dies(b)) saved = std::min(blocks_[static_cast<size_t>(b)].bytes, s.first);
    State next;
    next.live = state.live + s.made - freed;
    next.peak = std::max(state.peak, state.live + s.made + s.scratch - saved);
    next.hash = state.hash ^ s.hash;
    next.parent = parent;
    next.step = step;
    return next;
  }

  int64_t live_;
  size_t words_;
  std::vector<Local> steps_;
  std::vector<LocalBlock> blocks_;
};

/// The problem in parts that can be ordered one by one.
class Parts {
 public:
  explicit Parts(const OrderProblem& problem)
      : problem_(problem), n_(problem.steps.size()), order_(Identity(n_)) {
    Tape tape(problem);
    std::vector<int64_t> live;
    int64_t peak = 0;
    for (size_t s = 0; s < n_; ++s) {
      live.push_back(tape.live());
      peak = std::max(peak, tape.Run(static_cast<int32_t>(s)));
    }
    Link(peak / 256);
    Cut();
    for (size_t p = 0; p + 1 < cuts_.size(); ++p) live_.push_back(live[cuts_[p]]);
    peaks_ = PeaksOf(order_);
    dies_in_.assign(problem.blocks.size(), -1);
    for (size_t p = 0; p + 1 < cuts_.size(); ++p)
      for (size_t s = cuts_[p]; s < cuts_[p + 1]; ++s)
        for (const auto* list : {&problem.steps[s].reads, &problem.steps[s].writes})
          for (int32_t b : *list) dies_in_[static_cast<size_t>(b)] = static_cast<int32_t>(p);
    for (size_t b = 0; b < problem.blocks.size(); ++b)
      if (problem.blocks[b].kept) dies_in_[b] = -1;
  }

  /// Lowers the highest part, then the one that is the highest then, until one cannot be lowered.
  Order Lower() {
    if (n_ == 0) return order_;
    const std::vector<int64_t> needs = Needs(problem_);
    std::vector<Order> others;
    std::vector<std::vector<int64_t>> other_peaks;
    std::vector<uint8_t> final(peaks_.size(), 0), dies(problem_.blocks.size(), 0);
    std::vector<int32_t> number(n_, -1);
    int64_t work = 0;
    while (true) {
      const auto p = static_cast<size_t>(std::max_element(peaks_.begin(), peaks_.end()) - peaks_.begin());
      if (final[p] || cuts_[p + 1] - cuts_[p] < 2) break;
      if (others.empty()) {
        others.push_back(DepthFirst(after_, [](int32_t s) { return -s; }));
        others.push_back(DepthFirst(after_, [&](int32_t s) { return needs[static_cast<size_t>(s)]; }));
        for (const Order& order : others) other_peaks.push_back(PeaksOf(order));
      }
      bool lower = false;
      for (size_t o = 0; o < others.size(); ++o) {
        if (other_peaks[o][p] >= peaks_[p]) continue;
        Take(p, {others[o].data() + cuts_[p], cuts_[p + 1] - cuts_[p]}, other_peaks[o][p]);
        lower = true;
      }
      const std::span<const int32_t> steps{order_.data() + cuts_[p], cuts_[p + 1] - cuts_[p]};
      for (int32_t s : steps) MarkBlocks(s, static_cast<int32_t>(p), &dies);
      Order better;
      int64_t peak = 0;
      bool complete = false;
      if (work <= kMostWork && PartSearch(problem_, after_, steps, dies, live_[p], &number)
                                   .Run(peaks_[p], &work, &better, &peak, &complete)) {
        Take(p, better, peak);
        lower = true;
        final[p] = complete;
      } else {
        final[p] = 1;
      }
      if (!lower) break;
    }
    return order_;
  }

 private:
  /// Small steps that need nothing, or that nobody needs, would stop steps from being cuts: they stay after,
  /// or before, their neighbour.
  void Link(int64_t small) {
    std::vector<bool> needed(n_, false);
    for (const auto& step : problem_.steps) {
      after_.push_back(step.after);
      for (int32_t p : step.after) needed[static_cast<size_t>(p)] = true;
    }
    for (size_t s = 0; s < n_; ++s) {
      int64_t bytes = problem_.steps[s].scratch;
      for (int32_t b : problem_.steps[s].writes) bytes += problem_.blocks[static_cast<size_t>(b)].bytes;
      if (bytes > small) continue;
      const auto link = [&](size_t first, size_t second) {
        auto& list = after_[second];
        const auto f = static_cast<int32_t>(first);
        if (std::find(list.begin(), list.end(), f) == list.end()) list.push_back(f);
      };
      if (s > 0 && problem_.steps[s].after.empty()) link(s - 1, s);
      if (s + 1 < n_ && !needed[s]) link(s, s + 1);
    }
  }

  /// A step is a cut when all before it lead to it and all after it come from it.
  void Cut() {
    const auto n = static_cast<int32_t>(n_);
    std::vector<int32_t> soonest(n_, n), latest(n_, -1);  // that need it; that it needs
    for (int32_t s = 0; s < n; ++s)
      for (int32_t p : after_[static_cast<size_t>(s)]) {
        auto& first = soonest[static_cast<size_t>(p)];
        first = std::min(first, s);
        latest[static_cast<size_t>(s)] = std::max(latest[static_cast<size_t>(s)], p);
      }
    std::vector<uint8_t> follow(n_, 0);  // all later steps come from it
    int32_t least = n;
    for (int32_t s = n; s-- > 0;) {
      follow[static_cast<size_t>(s)] = least >= s;
      least = std::min(least, latest[static_cast<size_t>(s)]);
    }
    cuts_.push_back(0);
    int32_t most = 0;
    for (int32_t s = 0; s + 1 < n; ++s) {
      if (most <= s && follow[static_cast<size_t>(s)]) cuts_.push_back(static_cast<size_t>(s) + 1);
      most = std::max(most, soonest[static_cast<size_t>(s)]);
    }
    if (n_ > 0) cuts_.push_back(n_);
  }

  std::vector<int64_t> PeaksOf(const Order& order) const {
    std::vector<int64_t> peaks(cuts_.size() - 1, 0);
    Tape tape(problem_);
    for (size_t p = 0; p < peaks.size(); ++p)
      for (size_t s = cuts_[p]; s < cuts_[p + 1]; ++s) peaks[p] = std::max(peaks[p], tape.Run(order[s]));
    return peaks;
  }

  void MarkBlocks(int32_t step, int32_t part, std::vector<uint8_t>* dies) const {
    const auto& s = problem_.steps[static_cast<size_t>(step)];
    for (const auto* list : {&s.reads, &s.writes})
      for (int32_t b : *list) (*dies)[static_cast<size_t>(b)] = dies_in_[static_cast<size_t>(b)] == part;
  }

  void Take(size_t p, std::span<const int32_t> steps, int64_t peak) {
    std::copy(steps.begin(), steps.end(), order_.begin() + static_cast<std::ptrdiff_t>(cuts_[p]));
    peaks_[p] = peak;
  }

  const OrderProblem& problem_;
  size_t n_;
  Edges after_;
  Order order_;
  std::vector<size_t> cuts_;      // where parts begin, and n
  std::vector<int64_t> live_;     // by part: bytes alive before it
  std::vector<int64_t> peaks_;    // by part
  std::vector<int32_t> dies_in_;  // by block: part of its last user; -1: kept
};

}  // namespace

int64_t OrderPeak(const OrderProblem& problem, const Order& order) {
  Tape tape(problem);
  int64_t peak = 0;
  for (int32_t step : order) peak = std::max(peak, tape.Run(step));
  return peak;
}

std::vector<int32_t> LowPeakOrder(const OrderProblem& problem) {
  return Parts(problem).Lower();
}

}  // namespace ullage::session
