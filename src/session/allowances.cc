#include "session/allowances.h"

#include <algorithm>

namespace ullage::session {

Allowances::Allowances(std::vector<std::optional<int64_t>> first)
    : now_(std::move(first)), ranges_(now_.size()) {}

bool Allowances::Next(const std::vector<PlacementOutcome>& outcomes) {
  const auto over = [](const PlacementOutcome& o) {
    return o.limit_bytes && o.planned_bytes > *o.limit_bytes;
  };
  const bool fits = std::none_of(outcomes.begin(), outcomes.end(), over);
  if (ended_) return false;
  if (fits) best_ = now_;
  bool changed = false;
  auto next = now_;
  for (size_t d = 0; d < outcomes.size(); ++d) {
    const PlacementOutcome& o = outcomes[d];
    if (!o.limit_bytes || !now_[d]) continue;
    Range& range = ranges_[d];
    const int64_t tried = *now_[d], limit = *o.limit_bytes;
    if (over(o)) {
      if (tried == 0) continue;  // nothing was placed for want of bytes; less is no help
      range.exceeds = tried;
      if (range.fits && *range.fits >= tried) range.fits.reset();
      const double share = static_cast<double>(limit) / static_cast<double>(o.planned_bytes);
      next[d] = range.fits ? *range.fits + (tried - *range.fits) / 2
                           : static_cast<int64_t>(static_cast<double>(tried) * share * 0.9);
    } else {
      range.fits = tried;
      if (!o.refused || o.by_sums || o.planned_bytes > limit - limit / 64) continue;
      if (range.exceeds) {
        if (*range.exceeds - tried <= std::max<int64_t>(tried / 64, 1)) continue;
        next[d] = tried + (*range.exceeds - tried) / 2;
      } else if (o.planned_bytes < limit) {
        const double share =
            static_cast<double>(limit) / static_cast<double>(std::max<int64_t>(o.planned_bytes, 1));
        const int64_t base = std::max<int64_t>(tried, limit / 16);
        next[d] = static_cast<int64_t>(static_cast<double>(base) * std::clamp(share, 1.3, 4.0));
      }
    }
    changed = changed || next[d] != now_[d];
  }
  if (changed && ++attempts_ < kMaxAttempts) {
    now_ = std::move(next);
    return true;
  }
  ended_ = true;
  if (fits || !best_) return false;
  now_ = *best_;
  return true;
}

namespace {

std::vector<uint32_t> Signature(const placement::PlacedGraph& placed) {
  std::vector<uint32_t> all;
  for (const auto& ref : placed.nodes()) {
    const auto& node = placed.of(ref);
    all.push_back(static_cast<uint32_t>(2 * node.device + node.wide));
    all.push_back(node.group ? static_cast<uint32_t>(*node.group + 1) : 0);
  }
  return all;
}

}  // namespace

void PlannedPlacements::Remember(const placement::PlacedGraph& placed, std::vector<int64_t> bytes) {
  bytes_[Signature(placed)] = std::move(bytes);
}

const std::vector<int64_t>* PlannedPlacements::Find(const placement::PlacedGraph& placed) const {
  if (bytes_.empty()) return nullptr;
  const auto it = bytes_.find(Signature(placed));
  return it == bytes_.end() ? nullptr : &it->second;
}

}  // namespace ullage::session
