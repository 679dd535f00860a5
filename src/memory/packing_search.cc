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
  failures_.assign(items_of_.size(), 0.0);
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
  const size_t sections = items_of_.size();
  const double mean =
      std::accumulate(failures_.begin(), failures_.end(), 1e-9) / static_cast<double>(sections);
  std::vector<double> weight(sections, 0.0);
  for (size_t s = 0; s < sections; ++s) {
    for (const Share& share : items_of_[s]) weight[s] += static_cast<double>(share.bytes);
    weight[s] *= 1 + priority.blame * failures_[s] / mean;
  }
  std::mt19937 random(priority.seed);
  std::vector<double> keys(count_);
  for (size_t i = 0; i < count_; ++i) {
    double crowd = 0;
    for (const Share& s : sections_of_[i])
      crowd = priority.total_crowd ? crowd + weight[s.index] : std::max(crowd, weight[s.index]);
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
  for (double& count : failures_) count *= 0.95;
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
  key_.assign(count_, 0);
  offsets_.assign(count_, 0);
  left_.assign(sections, 0);
  crossing_.assign(sections + 1, 0);
  is_dirty_.assign(sections, 0);
  part_of_.assign(sections, 0);
  undo_.clear();
  candidates_.clear();
  pool_.clear();
  for (size_t i = 0; i < count_; ++i) {
    if (instance_.items[i].fixed >= 0) key_[i] = instance_.items[i].fixed;
    if (key_[i] + height_of_[i] > height) return Outcome::kRefuted;
    pool_.push_back(static_cast<int32_t>(i));
    for (int32_t s = hull_begin_[i] + 1; s < hull_end_[i]; ++s) ++crossing_[s];
    for (const Share& s : sections_of_[i]) left_[s.index] += s.bytes;
  }
  dirty_.clear();
  for (size_t s = 0; s < sections; ++s) {
    is_dirty_[s] = 1;
    dirty_.push_back(static_cast<int32_t>(s));
  }
  if (!Settle()) return Outcome::kRefuted;
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
  // The items are kept in rising order of their floors, those placed at the end. Few have moved since the
  // last time.
  std::vector<Share>& items = items_of_[section];
  const size_t n = items.size();
  work_ += static_cast<int64_t>(n);
  for (size_t i = 1; i < n; ++i) {
    const Share share = items[i];
    const int64_t key = key_[share.index];
    size_t j = i;
    for (; j > 0 && key_[items[j - 1].index] > key; --j) items[j] = items[j - 1];
    if (j != i) items[j] = share;
  }
  // No order of the items is lower than the one by rising floors.
  const int64_t latest_first = LatestFirst(section);
  int64_t after_first = std::numeric_limits<int64_t>::max();
  int64_t top = 0;
  for (const Share& share : items) {
    const int64_t floor = key_[share.index];
    if (floor == kPlaced) break;
    top = std::max(top, floor) + share.bytes;
    if (floor <= latest_first) after_first = std::min(after_first, floor + share.bytes);
  }
  if (top > height_ + padding_[section]) {
    failures_[section] += 1;
    return false;
  }
  // An item that starts too late to come first comes after one that does.
  for (size_t i = n; i-- > 0;) {
    const int64_t floor = key_[items[i].index];
    if (floor == kPlaced) continue;
    if (floor <= latest_first) break;
    if (floor < after_first && !Raise(items[i].index, after_first)) return false;
  }
  return true;
}

// The item's offset is at least `bound`. Sections are looked at again only where that can matter: a floor up
// to LatestFirst neither makes the section too high nor keeps the item from coming first.
bool OffsetSearch::Raise(int32_t item, int64_t bound) {
  if (instance_.items[item].fixed >= 0) return false;
  const int64_t raised = AlignUp(bound, instance_.items[item].alignment);
  if (raised + height_of_[item] > height_) return false;
  Set(&key_[item], raised);
  work_ += static_cast<int64_t>(sections_of_[item].size());
  for (const Share& s : sections_of_[item]) {
    if (is_dirty_[s.index] != 0 || raised <= LatestFirst(s.index)) continue;
    is_dirty_[s.index] = 1;
    dirty_.push_back(s.index);
  }
  return true;
}

// Looks at the sections that were touched; that may raise items and so touch more.
bool OffsetSearch::Settle() {
  bool ok = true;
  for (size_t i = 0; i < dirty_.size(); ++i) {
    is_dirty_[dirty_[i]] = 0;
    if (ok) ok = RefreshSection(dirty_[i]);
  }
  dirty_.clear();
  return ok;
}

bool OffsetSearch::Place(int32_t item, int64_t offset) {
  ++nodes_;
  offsets_[item] = offset;
  Set(&key_[item], kPlaced);
  for (int32_t s = hull_begin_[item] + 1; s < hull_end_[item]; ++s) Set(&crossing_[s], crossing_[s] - 1);
  for (const Share& s : sections_of_[item]) Set(&left_[s.index], left_[s.index] - s.bytes);
  bool ok = true;
  work_ += static_cast<int64_t>(conflicts_[item].size()) + hull_end_[item] - hull_begin_[item];
  for (const Conflict& c : conflicts_[item]) {
    if (key_[c.item] < offset + c.above && !Raise(c.item, offset + c.above)) {
      ok = false;
      break;
    }
  }
  return Settle() && ok;
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
      if (key_[pool_[i]] != kPlaced) pool_.push_back(pool_[i]);
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
    if (key_[pool_[i]] != kPlaced) ++parts[part_of_[hull_begin_[pool_[i]]]].items_end;
  size_t end = pool_mark;
  for (Part& p : parts) {
    const size_t size = p.items_end;
    p.items_begin = p.items_end = end;
    end += size;
  }
  pool_.resize(end);
  for (size_t i = part.items_begin; i < part.items_end; ++i)
    if (key_[pool_[i]] != kPlaced) pool_[parts[part_of_[hull_begin_[pool_[i]]]].items_end++] = pool_[i];
  std::erase_if(parts, [](const Part& p) { return p.items_begin == p.items_end; });
  work_ += part.end - part.begin;
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return a.items_end - a.items_begin < b.items_end - b.items_begin;
  });
  bool solved = true;
  for (const Part& p : parts) {
    if (p.items_end - p.items_begin == 1) {
      const int32_t item = pool_[p.items_begin];
      offsets_[item] = key_[item];
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
  work_ += static_cast<int64_t>(part.items_end - part.items_begin) + part.end - part.begin;
  int64_t highest = std::numeric_limits<int64_t>::max();  // at which the next item may be placed
  int32_t tightest = part.begin;
  for (int32_t s = part.begin; s < part.end; ++s) {
    if (left_[s] == 0 || LatestFirst(s) >= highest) continue;
    highest = LatestFirst(s);
    tightest = s;
  }
  int64_t lowest_top = std::numeric_limits<int64_t>::max();
  for (size_t i = part.items_begin; i < part.items_end; ++i) {
    const int32_t item = pool_[i];
    lowest_top = std::min(lowest_top, std::max(key_[item], last_offset) + height_of_[item]);
    if (instance_.items[item].fixed < 0) continue;
    if (key_[item] < last_offset) return false;
    highest = std::min(highest, key_[item]);
  }
  const size_t first = candidates_.size();
  bool too_high = false;
  for (size_t i = part.items_begin; i < part.items_end; ++i) {
    const int32_t item = pool_[i];
    const int64_t offset = AlignUp(std::max(key_[item], last_offset), instance_.items[item].alignment);
    if (offset >= lowest_top || (offset == last_offset && rank_[item] < last_rank)) continue;
    if (offset > highest || offset + height_of_[item] > height_) {
      too_high = true;
      continue;
    }
    candidates_.push_back({offset, rank_[item], item});
  }
  if (too_high) failures_[tightest] += 1;
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
