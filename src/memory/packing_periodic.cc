#include "memory/packing_periodic.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>

namespace ullage::memory::internal {
namespace {

constexpr size_t kWindow = 16;  // items in a row that must agree to count as a repetition

struct Shape {
  uint64_t hash = 0;  // of everything but the start
  int32_t first = 0;
  int32_t last = 0;
};

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdu;
  return hash ^ (hash >> 32);
}

Shape ShapeOf(const Instance& instance, const Item& item) {
  Shape shape;
  shape.first = std::numeric_limits<int32_t>::max();
  for (const Piece& p : instance.PiecesOf(item)) {
    shape.first = std::min(shape.first, p.first);
    shape.last = std::max(shape.last, p.last);
  }
  shape.hash = Mix(static_cast<uint64_t>(item.alignment), static_cast<uint64_t>(item.height));
  for (const Piece& p : instance.PiecesOf(item)) {
    shape.hash = Mix(shape.hash, static_cast<uint64_t>(p.first - shape.first));
    shape.hash = Mix(shape.hash, static_cast<uint64_t>(p.last - shape.first));
    shape.hash = Mix(shape.hash, static_cast<uint64_t>(p.rel));
    shape.hash = Mix(shape.hash, static_cast<uint64_t>(p.size));
    shape.hash = Mix(shape.hash, static_cast<uint64_t>(p.pad));
  }
  return shape;
}

bool SameShape(const Instance& instance, const Item& a, const Item& b) {
  const std::span<const Piece> p = instance.PiecesOf(a), q = instance.PiecesOf(b);
  if (a.alignment != b.alignment || p.size() != q.size()) return false;
  const int32_t shift = q[0].first - p[0].first;
  for (size_t i = 0; i < p.size(); ++i)
    if (p[i].rel != q[i].rel || p[i].size != q[i].size || p[i].pad != q[i].pad ||
        p[i].first + shift != q[i].first || p[i].last + shift != q[i].last)
      return false;
  return true;
}

// The time after which windows of items come again most often; 0 when that is rare.
int32_t FindPeriod(const std::vector<Shape>& shapes, const std::vector<int32_t>& order) {
  std::unordered_map<uint64_t, int32_t> seen;  // window -> start of its last occurrence
  std::map<int32_t, size_t> votes;
  for (size_t i = 0; i + kWindow <= order.size(); ++i) {
    const int32_t start = shapes[order[i]].first;
    uint64_t hash = 0;
    for (size_t k = i; k < i + kWindow; ++k)
      hash = Mix(Mix(hash, shapes[order[k]].hash), static_cast<uint64_t>(shapes[order[k]].first - start));
    const auto [it, fresh] = seen.try_emplace(hash, start);
    if (fresh) continue;
    if (start > it->second) ++votes[start - it->second];
    it->second = start;
  }
  int32_t period = 0;
  size_t most = shapes.size() / 4;
  for (const auto& [shift, count] : votes) {
    if (count <= most) continue;
    period = shift;
    most = count;
  }
  return period;
}

}  // namespace

std::optional<Instance> JoinRepetitions(const Instance& instance) {
  const size_t n = instance.items.size();
  std::vector<Shape> shapes;
  for (const Item& item : instance.items) shapes.push_back(ShapeOf(instance, item));
  std::vector<int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return std::tie(shapes[a].first, shapes[a].hash) < std::tie(shapes[b].first, shapes[b].hash);
  });
  const int32_t period = FindPeriod(shapes, order);
  if (period == 0) return std::nullopt;

  // The items that start at a step, by shape; each is taken once as somebody's repetition.
  std::map<std::pair<int32_t, uint64_t>, std::vector<int32_t>> starting;
  for (size_t i = n; i-- > 0;) starting[{shapes[order[i]].first, shapes[order[i]].hash}].push_back(order[i]);
  std::vector<int32_t> joined(n, -1);
  Instance out;
  out.times = instance.times;
  out.granule = instance.granule;
  out.flat = instance.flat;
  size_t repeated = 0;
  for (int32_t head : order) {
    if (joined[head] >= 0) continue;
    Item item = instance.items[head];
    const std::span<const Piece> pieces = instance.PiecesOf(item);
    item.piece_begin = static_cast<int32_t>(out.pieces.size());
    out.pieces.insert(out.pieces.end(), pieces.begin(), pieces.end());
    joined[head] = static_cast<int32_t>(out.items.size());
    // One that outlives the period cannot lie where its next repetition does, but where a later one does.
    const int32_t life = shapes[head].last - shapes[head].first;
    const int64_t shift = static_cast<int64_t>((life + period - 1) / period) * period;
    for (int32_t at = head; item.fixed < 0;) {
      const int64_t start = shapes[at].first + shift;
      if (start > std::numeric_limits<int32_t>::max()) break;
      const auto it = starting.find({static_cast<int32_t>(start), shapes[at].hash});
      if (it == starting.end()) break;
      std::vector<int32_t>& choices = it->second;
      while (!choices.empty() && joined[choices.back()] >= 0) choices.pop_back();
      if (choices.empty()) break;
      const int32_t next = choices.back();
      if (instance.items[next].fixed >= 0 || !SameShape(instance, instance.items[at], instance.items[next]))
        break;
      choices.pop_back();
      joined[next] = joined[head];
      const std::span<const Piece> more = instance.PiecesOf(instance.items[next]);
      out.pieces.insert(out.pieces.end(), more.begin(), more.end());
      ++repeated;
      at = next;
    }
    item.piece_end = static_cast<int32_t>(out.pieces.size());
    out.items.push_back(item);
  }
  if (repeated < n / 2) return std::nullopt;
  out.places = instance.places;
  for (Instance::Place& place : out.places)
    if (place.item >= 0) place.item = joined[place.item];
  return out;
}

}  // namespace ullage::memory::internal
