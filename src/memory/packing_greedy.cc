#include "memory/packing_greedy.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "core/checked.h"

namespace ullage::memory::internal {

GreedyPlacer::GreedyPlacer(const Instance& instance)
    : instance_(instance),
      by_first_(instance.pieces.size()),
      position_(instance.pieces.size()),
      owner_(instance.pieces.size()),
      offsets_(instance.items.size()) {
  std::iota(by_first_.begin(), by_first_.end(), 0);
  std::stable_sort(by_first_.begin(), by_first_.end(),
                   [&](int32_t a, int32_t b) { return instance.pieces[a].first < instance.pieces[b].first; });
  for (size_t i = 0; i < by_first_.size(); ++i) {
    position_[by_first_[i]] = i;
    firsts_.push_back(instance.pieces[by_first_[i]].first);
  }
  for (size_t i = 0; i < instance.items.size(); ++i)
    for (int32_t p = instance.items[i].piece_begin; p < instance.items[i].piece_end; ++p)
      owner_[p] = static_cast<int32_t>(i);
  leaves_ = std::bit_ceil(std::max<size_t>(by_first_.size(), 1));
}

void GreedyPlacer::Insert(int32_t item, int64_t offset) {
  offsets_[item] = offset;
  for (int32_t p = instance_.items[item].piece_begin; p < instance_.items[item].piece_end; ++p) {
    const int32_t last = instance_.pieces[p].last;
    for (size_t node = leaves_ + position_[p]; node > 0 && latest_[node] < last; node /= 2)
      latest_[node] = last;
  }
}

void GreedyPlacer::Collect(size_t node, size_t begin, size_t end, size_t limit, const Piece& piece) {
  ++work_;
  if (begin >= limit || latest_[node] <= piece.first) return;
  if (end - begin == 1) {
    const int32_t other = by_first_[begin];
    const Piece& q = instance_.pieces[other];
    const int64_t low = offsets_[owner_[other]] + q.rel;
    intervals_.push_back({low - piece.rel - piece.size, low + q.size - piece.rel});
    return;
  }
  const size_t middle = begin + (end - begin) / 2;
  Collect(2 * node, begin, middle, limit, piece);
  Collect(2 * node + 1, middle, end, limit, piece);
}

void GreedyPlacer::CollectItem(const Item& item) {
  intervals_.clear();
  for (const Piece& piece : instance_.PiecesOf(item)) {
    const size_t limit =
        static_cast<size_t>(std::lower_bound(firsts_.begin(), firsts_.end(), piece.last) - firsts_.begin());
    Collect(1, 0, leaves_, limit, piece);
  }
}

// An interval (low, high) holds the offsets at which the item would overlap one placed piece.
int64_t GreedyPlacer::ChooseOffset(const Item& item, Fit fit) {
  CollectItem(item);
  std::sort(intervals_.begin(), intervals_.end(),
            [](const Interval& a, const Interval& b) { return a.low < b.low; });
  work_ += static_cast<int64_t>(intervals_.size()) * std::bit_width(intervals_.size());
  int64_t free = 0;  // lowest offset not ruled out so far
  int64_t best = -1;
  int64_t best_waste = std::numeric_limits<int64_t>::max();
  for (const Interval& taken : intervals_) {
    if (taken.low >= free && taken.high > free) {
      const int64_t offset = AlignUp(free, item.alignment);
      if (offset <= taken.low && taken.low - free < best_waste) {
        best = offset;
        best_waste = taken.low - free;
        if (fit == Fit::kFirst || best_waste == 0) return best;
      }
    }
    free = std::max(free, taken.high);
  }
  return best >= 0 ? best : AlignUp(free, item.alignment);
}

GreedyResult GreedyPlacer::Run(std::span<const int32_t> order, Fit fit, int64_t give_up) {
  GreedyResult result;
  latest_.assign(2 * leaves_, 0);
  for (size_t i = 0; i < instance_.items.size(); ++i) {
    const Item& item = instance_.items[i];
    if (item.fixed < 0) continue;
    CollectItem(item);
    for (const Interval& taken : intervals_)
      if (taken.low < item.fixed && item.fixed < taken.high)
        Throw(Code::kUsage, "two buffers with fixed offsets overlap; one of them lies at ", item.fixed,
              " with ", item.height, " bytes");
    Insert(static_cast<int32_t>(i), item.fixed);
    result.height = std::max(result.height, item.fixed + item.height);
  }
  for (int32_t index : order) {
    const Item& item = instance_.items[index];
    if (item.fixed >= 0) continue;
    const int64_t offset = ChooseOffset(item, fit);
    Insert(index, offset);
    result.height = std::max(result.height, offset + item.height);
    if (result.height >= give_up) return result;
  }
  result.offsets = offsets_;
  return result;
}

namespace {

struct Order {
  const char* name;
  std::vector<int32_t> items;
};

// Sorts by falling keys, then by rising index.
Order SortedBy(const char* name, const std::vector<std::pair<double, double>>& keys) {
  Order order{name, std::vector<int32_t>(keys.size())};
  std::iota(order.items.begin(), order.items.end(), 0);
  std::stable_sort(order.items.begin(), order.items.end(),
                   [&](int32_t a, int32_t b) { return keys[a] > keys[b]; });
  return order;
}

std::vector<Order> Orders(const Instance& instance) {
  const size_t n = instance.items.size();
  std::vector<double> load(static_cast<size_t>(instance.times) + 1,
                           0.0);  // live bytes per step, then their sums
  for (const Piece& p : instance.pieces) {
    load[p.first] += static_cast<double>(p.size);
    load[p.last] -= static_cast<double>(p.size);
  }
  std::partial_sum(load.begin(), load.end(), load.begin());
  std::vector<double> sums(load.size() + 1, 0.0);
  std::partial_sum(load.begin(), load.end(), sums.begin() + 1);
  std::vector<double> size(n), life(n), area(n), first(n), last(n), crowd(n);
  for (size_t i = 0; i < n; ++i) {
    size[i] = static_cast<double>(instance.items[i].height);
    first[i] = instance.times;
    for (const Piece& p : instance.PiecesOf(instance.items[i])) {
      life[i] += p.last - p.first;
      area[i] += static_cast<double>(p.last - p.first) * static_cast<double>(p.size);
      crowd[i] += sums[p.last] - sums[p.first];
      first[i] = std::min<double>(first[i], p.first);
      last[i] = std::max<double>(last[i], p.last);
    }
  }
  std::vector<std::pair<double, double>> keys(n);
  std::vector<Order> orders;
  const auto add = [&](const char* name, auto&& key) {
    for (size_t i = 0; i < n; ++i) keys[i] = key(i);
    orders.push_back(SortedBy(name, keys));
  };
  using Key = std::pair<double, double>;
  add("by size", [&](size_t i) { return Key(size[i], life[i]); });
  add("by life", [&](size_t i) { return Key(life[i], size[i]); });
  add("by area", [&](size_t i) { return Key(area[i], size[i]); });
  add("by start", [&](size_t i) { return Key(-first[i], size[i]); });
  add("by start, longest first", [&](size_t i) { return Key(-first[i], last[i]); });
  add("by end", [&](size_t i) { return Key(last[i], size[i]); });
  add("by crowd", [&](size_t i) { return Key(crowd[i], size[i]); });
  add("by size and crowd",
      [&](size_t i) { return Key(size[i] * crowd[i] / std::max(life[i], 1.0), life[i]); });
  return orders;
}

}  // namespace

GreedyResult GreedyPortfolio(const Instance& instance, int64_t target, int64_t work_limit) {
  GreedyPlacer placer(instance);
  GreedyResult best;
  best.height = std::numeric_limits<int64_t>::max();
  std::vector<int32_t> best_order;
  Fit best_fit = Fit::kBest;
  const auto attempt = [&](const std::vector<int32_t>& order, Fit fit, const std::string& method) {
    GreedyResult result = placer.Run(order, fit, best.height);
    if (result.height >= best.height) return false;
    best = std::move(result);
    best.method = method;
    best_order = order;
    best_fit = fit;
    return true;
  };
  for (const Order& order : Orders(instance)) {
    for (Fit fit : {Fit::kBest, Fit::kFirst}) {
      attempt(order.items, fit, StrCat(fit == Fit::kBest ? "best fit " : "first fit ", order.name));
      if (best.height <= target || placer.work() > work_limit) return best;
    }
  }
  // Items that end at the top were placed too late: move them forward, further each time it does not help.
  std::vector<int32_t> order = best_order;
  std::vector<int64_t> offsets = best.offsets;
  const std::string base = best.method;
  for (int round = 0; round < 64 && placer.work() < work_limit; ++round) {
    int64_t top = 0;
    for (size_t i = 0; i < instance.items.size(); ++i)
      top = std::max(top, offsets[i] + instance.items[i].height);
    const auto middle = std::stable_partition(order.begin(), order.end(), [&](int32_t i) {
      return offsets[i] + instance.items[i].height == top && instance.items[i].fixed < 0;
    });
    if (middle == order.begin()) break;
    GreedyResult result = placer.Run(order, best_fit, std::numeric_limits<int64_t>::max());
    offsets = result.offsets;
    if (result.height < best.height) {
      best = std::move(result);
      best.method = base + ", improved";
    }
    if (best.height <= target) break;
  }
  return best;
}

}  // namespace ullage::memory::internal
