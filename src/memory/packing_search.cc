#include "memory/packing_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "core/checked.h"

namespace ullage::memory::internal {

OffsetSearch::OffsetSearch(const Instance& instance)
    : instance_(instance), exact_(instance.flat), count_(instance.items.size()) {
  for (const Item& item : instance.items) height_of_.push_back(item.height);
  BuildSections(instance);
  BuildConflicts();
}

void OffsetSearch::BuildSections(const Instance& instance) {
  using Top = std::pair<int64_t, int64_t>;  // end of a piece, and its padding
  struct Event {
    int32_t time;
    bool start;
    int32_t item;
    Top top;
  };
  std::vector<Event> events;
  for (size_t i = 0; i < count_; ++i)
    for (const Piece& p : instance.PiecesOf(instance.items[i])) {
      events.push_back({p.first, true, static_cast<int32_t>(i), {p.rel + p.size, p.pad}});
      events.push_back({p.last, false, static_cast<int32_t>(i), {p.rel + p.size, p.pad}});
    }
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.start < b.start;
  });
  std::map<int32_t, std::vector<Top>> live;  // per item its live pieces
  std::map<std::vector<std::pair<int32_t, Top>>, int32_t> known;
  sections_of_.resize(count_);
  bool grown = false;
  for (const Event& e : events) {
    if (e.start) {
      live[e.item].push_back(e.top);
      grown = true;
      continue;
    }
    if (grown) {
      std::vector<std::pair<int32_t, Top>> set;
      for (const auto& [item, tops] : live)
        set.emplace_back(item, *std::max_element(tops.begin(), tops.end()));
      if (known.emplace(set, static_cast<int32_t>(items_of_.size())).second) {
        const int32_t section = static_cast<int32_t>(items_of_.size());
        items_of_.emplace_back();
        for (const auto& [item, top] : set) {
          items_of_.back().push_back({item, top.first, top.second});
          sections_of_[item].push_back({section, top.first, top.second});
        }
      }
      grown = false;
    }
    std::vector<Top>& tops = live[e.item];
    tops.erase(std::find(tops.begin(), tops.end(), e.top));
    if (tops.empty()) live.erase(e.item);
  }
  for (const std::vector<Share>& shares : items_of_) {
    padding_.push_back(0);
    for (const Share& share : shares) padding_.back() = std::max(padding_.back(), share.pad);
  }
  for (size_t i = 0; i < count_; ++i) {
    hull_begin_.push_back(sections_of_[i].front().index);
    hull_end_.push_back(sections_of_[i].back().index + 1);
  }
}

void OffsetSearch::BuildConflicts() {
  conflicts_.resize(count_);
  std::vector<int64_t> above(count_, 0);
  std::vector<int32_t> met;
  for (size_t i = 0; i < count_; ++i) {
    met.clear();
    for (const Share& section : sections_of_[i])
      for (const Share& other : items_of_[section.index]) {
        if (other.index == static_cast<int32_t>(i)) continue;
        if (above[other.index] == 0) met.push_back(other.index);
        above[other.index] = std::max(above[other.index], section.bytes);
      }
    for (int32_t j : met) {
      conflicts_[i].push_back({j, above[j]});
      above[j] = 0;
    }
  }
}

void OffsetSearch::SetRanks(const Priority& priority) {
  std::vector<double> total(items_of_.size(), 0.0);
  for (size_t s = 0; s < items_of_.size(); ++s)
    for (const Share& share : items_of_[s]) total[s] += static_cast<double>(share.bytes);
  std::mt19937 random(priority.seed);
  std::vector<double> keys(count_);
  for (size_t i = 0; i < count_; ++i) {
    double crowd = 0;
    for (const Share& s : sections_of_[i]) crowd = std::max(crowd, total[s.index]);
    // The generator's own output, not a distribution's, which differs between libraries.
    const double chance = static_cast<double>(random()) * 0x1p-32 - 0.5;
    keys[i] = priority.life * std::log(static_cast<double>(sections_of_[i].size())) +
              priority.bytes * std::log(static_cast<double>(height_of_[i])) +
              priority.crowd * std::log(crowd) + priority.noise * chance;
  }
  std::vector<int32_t> order(count_);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return keys[a] > keys[b]; });
  rank_.resize(count_);
  for (size_t i = 0; i < count_; ++i) rank_[order[i]] = static_cast<int32_t>(i);
}

OffsetSearch::Outcome OffsetSearch::Run(int64_t height, const Priority& priority, int64_t work_limit,
                                        Deadline deadline) {
  SetRanks(priority);
  height_ = height;
  nodes_ = 0;
  work_ = static_cast<int64_t>(count_ + items_of_.size());
  work_limit_ = work_limit;
  deadline_ = deadline;
  gave_up_ = false;
  const size_t sections = items_of_.size();
  floor_.assign(count_, 0);
  placed_.assign(count_, 0);
  offsets_.assign(count_, 0);
  left_.assign(sections, 0);
  lowest_.assign(sections, 0);
  crossing_.assign(sections + 1, 0);
  is_dirty_.assign(sections, 0);
  part_of_.assign(sections, 0);
  undo_.clear();
  candidates_.clear();
  pool_.clear();
  for (size_t i = 0; i < count_; ++i) {
    if (instance_.items[i].fixed >= 0) floor_[i] = instance_.items[i].fixed;
    if (floor_[i] + height_of_[i] > height) return Outcome::kRefuted;
    pool_.push_back(static_cast<int32_t>(i));
    for (int32_t s = hull_begin_[i] + 1; s < hull_end_[i]; ++s) ++crossing_[s];
    for (const Share& s : sections_of_[i]) left_[s.index] += s.bytes;
  }
  for (size_t s = 0; s < sections; ++s)
    if (!RefreshSection(static_cast<int32_t>(s))) return Outcome::kRefuted;
  const Part whole{0, static_cast<int32_t>(sections), 0, pool_.size()};
  if (SolveParts(whole, -1, 0, -1)) return Outcome::kFound;
  return gave_up_ ? Outcome::kGaveUp : Outcome::kRefuted;
}

bool OffsetSearch::OutOfBudget() {
  if (gave_up_) return true;
  if (work_ >= work_limit_) gave_up_ = true;
  if (deadline_ && (nodes_ & 255) == 0 && std::chrono::steady_clock::now() >= *deadline_) gave_up_ = true;
  return gave_up_;
}

void OffsetSearch::Rewind(size_t mark) {
  for (; undo_.size() > mark; undo_.pop_back()) *undo_.back().place = undo_.back().value;
}

bool OffsetSearch::RefreshSection(int32_t section) {
  stack_.clear();
  work_ += static_cast<int64_t>(items_of_[section].size());
  for (const Share& share : items_of_[section])
    if (placed_[share.index] == 0) stack_.push_back({floor_[share.index], share.bytes});
  if (stack_.empty()) return true;
  std::sort(stack_.begin(), stack_.end(), [](const Level& a, const Level& b) { return a.floor < b.floor; });
  if (stack_.front().floor != lowest_[section]) Set(&lowest_[section], stack_.front().floor);
  // No order of the items is lower than the one by rising floors.
  int64_t top = 0;
  for (const Level& level : stack_) top = std::max(top, level.floor) + level.bytes;
  return top - padding_[section] <= height_;
}

bool OffsetSearch::Place(int32_t item, int64_t offset) {
  ++nodes_;
  offsets_[item] = offset;
  Set(&placed_[item], 1);
  for (int32_t s = hull_begin_[item] + 1; s < hull_end_[item]; ++s) Set(&crossing_[s], crossing_[s] - 1);
  dirty_.clear();
  const auto touch = [&](int32_t s) {
    if (is_dirty_[s] == 0) {
      is_dirty_[s] = 1;
      dirty_.push_back(s);
    }
  };
  for (const Share& s : sections_of_[item]) {
    Set(&left_[s.index], left_[s.index] - s.bytes);
    touch(s.index);
  }
  bool ok = true;
  work_ += static_cast<int64_t>(conflicts_[item].size()) + hull_end_[item] - hull_begin_[item];
  for (const Conflict& c : conflicts_[item]) {
    const int32_t j = c.item;
    const int64_t bound = offset + c.above;
    if (placed_[j] != 0 || floor_[j] >= bound) continue;
    if (instance_.items[j].fixed >= 0) {
      ok = false;
      break;
    }
    const int64_t raised = AlignUp(bound, instance_.items[j].alignment);
    if (raised + height_of_[j] > height_) {
      ok = false;
      break;
    }
    for (const Share& s : sections_of_[j])
      if (floor_[j] == lowest_[s.index]) touch(s.index);
    Set(&floor_[j], raised);
  }
  for (int32_t s : dirty_) {
    is_dirty_[s] = 0;
    if (ok) ok = RefreshSection(s);
  }
  return ok;
}

// Splits the sections of `part` where nothing crosses (after `placed` was placed; -1 looks everywhere) and
// solves each.
bool OffsetSearch::SolveParts(const Part& part, int32_t placed, int64_t last_offset, int32_t last_rank) {
  const size_t pool_mark = pool_.size();
  std::vector<Part> parts;
  bool split = placed < 0;
  if (placed >= 0)
    for (int32_t s = hull_begin_[placed]; s <= hull_end_[placed] && !split; ++s)
      split = s > part.begin && s < part.end && crossing_[s] == 0;
  if (!split) {
    for (size_t i = part.items_begin; i < part.items_end; ++i)
      if (placed_[pool_[i]] == 0) pool_.push_back(pool_[i]);
    const bool solved = Solve({part.begin, part.end, pool_mark, pool_.size()}, last_offset, last_rank);
    pool_.resize(pool_mark);
    return solved;
  }
  int32_t begin = part.begin;
  // Which part each section belongs to; then the items, part by part.
  for (int32_t s = part.begin + 1; s <= part.end; ++s) {
    if (s < part.end && crossing_[s] != 0) continue;
    for (int32_t t = begin; t < s; ++t) part_of_[t] = static_cast<int32_t>(parts.size());
    parts.push_back({begin, s, 0, 0});
    begin = s;
  }
  for (size_t i = part.items_begin; i < part.items_end; ++i)
    if (placed_[pool_[i]] == 0) ++parts[part_of_[hull_begin_[pool_[i]]]].items_end;
  size_t end = pool_mark;
  for (Part& p : parts) {
    const size_t size = p.items_end;
    p.items_begin = p.items_end = end;
    end += size;
  }
  pool_.resize(end);
  for (size_t i = part.items_begin; i < part.items_end; ++i)
    if (placed_[pool_[i]] == 0) pool_[parts[part_of_[hull_begin_[pool_[i]]]].items_end++] = pool_[i];
  std::erase_if(parts, [](const Part& p) { return p.items_begin == p.items_end; });
  work_ += part.end - part.begin;
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return a.items_end - a.items_begin < b.items_end - b.items_begin;
  });
  bool solved = true;
  for (const Part& p : parts) {
    if (p.items_end - p.items_begin == 1) {
      const int32_t item = pool_[p.items_begin];
      offsets_[item] = floor_[item];
      continue;
    }
    if (!Solve(p, last_offset, last_rank)) {
      solved = false;
      break;
    }
  }
  pool_.resize(pool_mark);
  return solved;
}

bool OffsetSearch::Solve(const Part& part, int64_t last_offset, int32_t last_rank) {
  if (part.items_begin == part.items_end) return true;
  for (int32_t s = part.begin; s < part.end; ++s)
    if (left_[s] > 0 && std::max(lowest_[s], last_offset) + left_[s] - padding_[s] > height_) return false;
  int64_t lowest_top = std::numeric_limits<int64_t>::max();
  int64_t lowest_fixed = std::numeric_limits<int64_t>::max();
  for (size_t i = part.items_begin; i < part.items_end; ++i) {
    const int32_t item = pool_[i];
    lowest_top = std::min(lowest_top, std::max(floor_[item], last_offset) + height_of_[item]);
    if (instance_.items[item].fixed >= 0) {
      if (floor_[item] < last_offset) return false;
      lowest_fixed = std::min(lowest_fixed, floor_[item]);
    }
  }
  work_ += static_cast<int64_t>(part.items_end - part.items_begin) + part.end - part.begin;
  const size_t first = candidates_.size();
  for (size_t i = part.items_begin; i < part.items_end; ++i) {
    const int32_t item = pool_[i];
    const int64_t offset = AlignUp(std::max(floor_[item], last_offset), instance_.items[item].alignment);
    if (offset >= lowest_top || offset > lowest_fixed) continue;
    if (offset == last_offset && rank_[item] < last_rank) continue;
    if (offset + height_of_[item] > height_) continue;
    candidates_.push_back({offset, rank_[item], item});
  }
  std::sort(candidates_.begin() + static_cast<std::ptrdiff_t>(first), candidates_.end(),
            [](const Candidate& a, const Candidate& b) {
              return a.offset != b.offset ? a.offset < b.offset : a.rank < b.rank;
            });
  const size_t last = candidates_.size();
  bool solved = false;
  for (size_t c = first; c < last && !solved && !OutOfBudget(); ++c) {
    const Candidate candidate = candidates_[c];
    const size_t mark = undo_.size();
    solved = Place(candidate.item, candidate.offset) &&
             SolveParts(part, candidate.item, candidate.offset, candidate.rank);
    Rewind(mark);
  }
  candidates_.resize(first);
  return solved;
}

}  // namespace ullage::memory::internal
