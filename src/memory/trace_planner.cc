#include "memory/trace_planner.h"

#include <bit>
#include <limits>

#include "core/checked.h"

namespace ullage::memory {

int64_t TracePlanner::TraceAllocation(int64_t key, int64_t size, int64_t alignment) {
  constexpr int64_t kMaxEnd = int64_t{1} << 62;
  if (size < 0 || size > kMaxEnd) Throw(Code::kRuntime, "traced block ", key, " has size ", size);
  if (alignment <= 0 || alignment > kMaxEnd || !std::has_single_bit(static_cast<uint64_t>(alignment)))
    Throw(Code::kRuntime, "traced block ", key, " has alignment ", alignment, ", which is no power of two");
  if (entries_.contains(key)) Throw(Code::kRuntime, "block ", key, " was traced twice");
  int64_t offset = 0;
  if (size > 0) {
    int64_t free = 0;
    int64_t best = -1;
    int64_t best_waste = std::numeric_limits<int64_t>::max();
    for (const auto& [begin, length] : live_) {
      const int64_t aligned = AlignUp(free, alignment);
      if (aligned <= begin && begin - aligned >= size && begin - free - size < best_waste) {
        best = aligned;
        best_waste = begin - free - size;
      }
      free = begin + length;
    }
    offset = best >= 0 ? best : AlignUp(free, alignment);
    if (offset > kMaxEnd - size)
      Throw(Code::kRuntime, "traced block ", key, " of ", size, " bytes ends beyond 2^62");
    live_.emplace(offset, size);
    if (offset + size > peak_) peak_ = offset + size;
  }
  entries_[key] = {{offset, size}, true};
  ++live_count_;
  return offset;
}

void TracePlanner::TraceFree(int64_t key) {
  const auto it = entries_.find(key);
  if (it == entries_.end() || !it->second.alive)
    Throw(Code::kRuntime, "block ", key, " is not alive and cannot be freed");
  it->second.alive = false;
  if (it->second.block.size > 0) live_.erase(it->second.block.offset);
  --live_count_;
}

std::optional<TracePlanner::Block> TracePlanner::GetBlock(int64_t key) const {
  const auto it = entries_.find(key);
  if (it == entries_.end()) return std::nullopt;
  return it->second.block;
}

void TracePlanner::Reset() {
  *this = TracePlanner();
}

}  // namespace ullage::memory
