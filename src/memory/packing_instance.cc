#include "memory/packing_instance.h"

#include <algorithm>
#include <bit>
#include <map>

#include "core/checked.h"

namespace ullage::memory::internal {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 62;

std::string Name(std::span<const Buffer> buffers, size_t i) {
  return StrCat("buffer #", i, " (id ", buffers[i].id, ")");
}

}  // namespace

Problem::Problem(std::span<const Buffer> buffers) : buffers_(buffers), nodes_(buffers.size()) {
  CheckBuffers();
  ResolveViews();
  granule_ = 0;
  for (size_t i = 0; i < buffers_.size(); ++i)
    if (nodes_[i].root == static_cast<int32_t>(i) && Live(i))
      granule_ = granule_ == 0 ? buffers_[i].alignment : std::min(granule_, buffers_[i].alignment);
  granule_ = std::max<int64_t>(granule_, 1);
  ResolveInPlace();
  RenumberSteps();
  ComputeLowerBound();
}

void Problem::CheckBuffers() const {
  const size_t n = buffers_.size();
  if (n > size_t{1} << 30) Throw(Code::kUsage, "too many buffers to pack: ", n);
  int64_t total = 0;
  const auto add = [&](int64_t bytes, size_t i) {
    if (__builtin_add_overflow(total, bytes, &total) || total > kMaxBytes)
      Throw(Code::kUsage, "the buffers up to ", Name(buffers_, i), " need more than 2^62 bytes");
  };
  for (size_t i = 0; i < n; ++i) {
    const Buffer& b = buffers_[i];
    if (b.size < 0) Throw(Code::kUsage, Name(buffers_, i), " has a negative size: ", b.size);
    if (b.last < b.first)
      Throw(Code::kUsage, Name(buffers_, i), " dies before it lives: [", b.first, ", ", b.last, ")");
    if (b.alignment <= 0 || !std::has_single_bit(static_cast<uint64_t>(b.alignment)))
      Throw(Code::kUsage, Name(buffers_, i), " has an alignment that is no power of two: ", b.alignment);
    for (int32_t other : {b.in_place, b.alias_of})
      if (other != kNoBuffer &&
          (other < 0 || static_cast<size_t>(other) >= n || static_cast<size_t>(other) == i))
        Throw(Code::kUsage, Name(buffers_, i), " refers to buffer #", other, "; there are ", n);
    if (b.alias_of != kNoBuffer && (b.fixed_offset || b.in_place != kNoBuffer))
      Throw(Code::kUsage, Name(buffers_, i),
            " is a view and cannot have a fixed offset or an in-place partner");
    if (b.fixed_offset && (*b.fixed_offset < 0 || *b.fixed_offset % b.alignment != 0))
      Throw(Code::kUsage, Name(buffers_, i), " is fixed at ", *b.fixed_offset,
            ", no multiple of its alignment ", b.alignment);
    add(b.size, i);
    add(b.alignment, i);
    if (b.fixed_offset) add(*b.fixed_offset, i);
  }
}

void Problem::ResolveViews() {
  const size_t n = buffers_.size();
  std::vector<uint8_t> seen(n, 0);  // 1 = on the current path, 2 = resolved
  std::vector<int32_t> path;
  for (size_t i = 0; i < n; ++i) {
    nodes_[i].first = buffers_[i].first;
    nodes_[i].last = buffers_[i].last;
  }
  for (size_t i = 0; i < n; ++i) {
    path.clear();
    int32_t at = static_cast<int32_t>(i);
    while (seen[at] == 0 && buffers_[at].alias_of != kNoBuffer) {
      seen[at] = 1;
      path.push_back(at);
      at = buffers_[at].alias_of;
    }
    if (seen[at] == 1) Throw(Code::kUsage, Name(buffers_, at), " is a view of itself");
    if (seen[at] == 0) {
      nodes_[at].root = at;
      seen[at] = 2;
    }
    for (; !path.empty(); path.pop_back()) {
      const int32_t view = path.back();
      const int32_t owner = buffers_[view].alias_of;
      const Buffer& b = buffers_[view];
      if (b.alias_offset < 0 || b.alias_offset > buffers_[owner].size ||
          b.size > buffers_[owner].size - b.alias_offset)
        Throw(Code::kUsage, Name(buffers_, view), " covers bytes [", b.alias_offset, ", ", b.alias_offset,
              " + ", b.size, ") of ", Name(buffers_, owner), ", which has ", buffers_[owner].size);
      nodes_[view].root = nodes_[owner].root;
      nodes_[view].rel = nodes_[owner].rel + b.alias_offset;
      const Buffer& root = buffers_[nodes_[view].root];
      if (b.alignment > root.alignment || nodes_[view].rel % b.alignment != 0)
        Throw(Code::kUsage, Name(buffers_, view), " needs alignment ", b.alignment, " but lies ",
              nodes_[view].rel, " bytes into ", Name(buffers_, nodes_[view].root), " of alignment ",
              root.alignment);
      seen[view] = 2;
    }
  }
  for (size_t i = 0; i < n; ++i) {
    if (nodes_[i].root == static_cast<int32_t>(i) || buffers_[i].first == buffers_[i].last) continue;
    Node& root = nodes_[nodes_[i].root];
    if (root.first == root.last) {
      root.first = buffers_[i].first;
      root.last = buffers_[i].last;
    }
    root.first = std::min(root.first, buffers_[i].first);
    root.last = std::max(root.last, buffers_[i].last);
  }
}

void Problem::ResolveInPlace() {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const Buffer& b = buffers_[i];
    if (b.in_place == kNoBuffer || !Live(i)) continue;
    const Node& view = nodes_[b.in_place];
    const int32_t partner = view.root;
    if (partner == static_cast<int32_t>(i) || !Live(partner)) continue;
    const Node& old = nodes_[partner];
    if (old.last != nodes_[i].first + 1 || old.first >= nodes_[i].first || view.rel % b.alignment != 0)
      continue;
    if (b.fixed_offset && buffers_[partner].fixed_offset &&
        *b.fixed_offset != *buffers_[partner].fixed_offset + view.rel)
      continue;
    const int32_t rival = old.heir;
    if (rival != kNoBuffer && buffers_[rival].size >= b.size) continue;
    if (rival != kNoBuffer) nodes_[rival].partner = kNoBuffer;
    nodes_[partner].heir = static_cast<int32_t>(i);
    nodes_[i].partner = partner;
    nodes_[i].partner_rel = view.rel;
    has_in_place_ = true;
  }
}

void Problem::RenumberSteps() {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (nodes_[i].root != static_cast<int32_t>(i) || !Live(i)) continue;
    steps_.push_back(nodes_[i].first);
    steps_.push_back(nodes_[i].last);
  }
  std::sort(steps_.begin(), steps_.end());
  steps_.erase(std::unique(steps_.begin(), steps_.end()), steps_.end());
}

int32_t Problem::StepIndex(int64_t step) const {
  return static_cast<int32_t>(std::lower_bound(steps_.begin(), steps_.end(), step) - steps_.begin());
}

void Problem::ComputeLowerBound() {
  struct Event {
    int32_t step;
    bool start;
    int64_t bytes;
    int64_t slack;
  };
  std::vector<Event> events;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (nodes_[i].root != static_cast<int32_t>(i) || !Live(i)) continue;
    const int64_t size = buffers_[i].size;
    const int64_t rounded = Rounded(size);
    const int32_t first = StepIndex(nodes_[i].first);
    events.push_back({first, true, rounded, rounded - size});
    events.push_back({StepIndex(nodes_[i].last), false, rounded, rounded - size});
    if (buffers_[i].fixed_offset) lower_bound_ = std::max(lower_bound_, *buffers_[i].fixed_offset + size);
    if (nodes_[i].partner == kNoBuffer) continue;
    // In the one step they share, both together take no more than the union of the two.
    const int64_t old = buffers_[nodes_[i].partner].size;
    const int64_t saved = Rounded(old) + rounded - Rounded(std::max(old, nodes_[i].partner_rel + size));
    if (saved > 0) {
      events.push_back({first, true, -saved, 0});
      events.push_back({first + 1, false, -saved, 0});
    }
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.step < b.step; });
  std::map<int64_t, int64_t> slacks;  // of the live buffers, with their number
  int64_t live = 0;
  for (size_t i = 0; i < events.size();) {
    const int32_t step = events[i].step;
    for (; i < events.size() && events[i].step == step; ++i) {
      const Event& e = events[i];
      live += e.start ? e.bytes : -e.bytes;
      if (e.bytes < 0) continue;
      const int64_t count = slacks[e.slack] += e.start ? 1 : -1;
      if (count == 0) slacks.erase(e.slack);
    }
    // The highest buffer needs no padding after it.
    if (!slacks.empty()) lower_bound_ = std::max(lower_bound_, live - slacks.rbegin()->first);
  }
}

Instance Problem::Build(InPlace in_place) const {
  Instance out;
  out.granule = granule_;
  out.times = static_cast<int32_t>(steps_.size());
  const auto taken = [&](int32_t heir) {
    const Node& node = nodes_[heir];
    if (node.partner == kNoBuffer) return false;
    if (buffers_[heir].fixed_offset && buffers_[node.partner].fixed_offset) return true;
    if (in_place == InPlace::kNever) return false;
    return in_place == InPlace::kAlways ||
           buffers_[heir].size + node.partner_rel <= buffers_[node.partner].size;
  };
  out.places.resize(buffers_.size());
  std::vector<int32_t> starts;
  for (size_t i = buffers_.size(); i-- > 0;)
    if (nodes_[i].root == static_cast<int32_t>(i) && Live(i) && !taken(static_cast<int32_t>(i)))
      starts.push_back(static_cast<int32_t>(i));
  while (!starts.empty()) {
    const int32_t start = starts.back();
    starts.pop_back();
    Item item;
    item.piece_begin = static_cast<int32_t>(out.pieces.size());
    AddMember(start, 0, &item, &out);
    for (int32_t at = start; nodes_[at].heir != kNoBuffer && taken(nodes_[at].heir); at = nodes_[at].heir) {
      const int32_t heir = nodes_[at].heir;
      if (!AddMember(heir, out.places[at].rel + nodes_[heir].partner_rel, &item, &out)) {
        starts.push_back(heir);
        break;
      }
    }
    item.piece_end = static_cast<int32_t>(out.pieces.size());
    out.items.push_back(item);
  }
  return out;
}

bool Problem::AddMember(int32_t buffer, int64_t rel, Item* item, Instance* out) const {
  const Buffer& b = buffers_[buffer];
  const int64_t alignment = std::max(item->alignment, b.alignment);
  const int64_t fixed = item->fixed >= 0 ? item->fixed : b.fixed_offset ? *b.fixed_offset - rel : -1;
  if (rel > 0) {
    if (b.fixed_offset && (*b.fixed_offset < rel || *b.fixed_offset - rel != fixed)) return false;
    // Without a fixed place the base will be a multiple of the largest alignment of all members.
    if (fixed < 0 && rel % b.alignment != 0) return false;
  } else if (b.fixed_offset && *b.fixed_offset != fixed) {
    return false;
  }
  if (fixed >= 0 && (fixed % item->alignment != 0 || (fixed + rel) % b.alignment != 0)) return false;
  item->alignment = alignment;
  item->fixed = fixed;
  out->places[buffer] = {static_cast<int32_t>(out->items.size()), rel};
  const int32_t first = StepIndex(nodes_[buffer].first);
  const int32_t last = StepIndex(nodes_[buffer].last);
  const int64_t size = Rounded(b.size);
  item->height = std::max(item->height, rel + b.size);
  if (rel != 0) out->flat = false;
  if (static_cast<size_t>(item->piece_begin) < out->pieces.size() && out->pieces.back().size == size &&
      out->pieces.back().pad == size - b.size && out->pieces.back().rel == rel)
    out->pieces.back().last = last;
  else
    out->pieces.push_back({rel, size, size - b.size, first, last});
  return true;
}

std::vector<int64_t> Problem::BufferOffsets(const Instance& instance,
                                            std::span<const int64_t> item_offsets) const {
  std::vector<int64_t> offsets(buffers_.size(), 0);
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const Instance::Place& place = instance.places[nodes_[i].root];
    if (place.item >= 0) offsets[i] = item_offsets[place.item] + place.rel + nodes_[i].rel;
  }
  return offsets;
}

int64_t Problem::Peak(std::span<const int64_t> offsets) const {
  int64_t peak = 0;
  for (size_t i = 0; i < buffers_.size(); ++i)
    if (nodes_[i].root == static_cast<int32_t>(i) && Live(i))
      peak = std::max(peak, offsets[i] + buffers_[i].size);
  return peak;
}

}  // namespace ullage::memory::internal
