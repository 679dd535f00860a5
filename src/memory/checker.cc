#include "memory/checker.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/error.h"
#include "memory/checker_order.h"

namespace ullage::memory {
namespace {

using internal::FindOrderFaults;
using internal::OrderedBuffer;
using internal::OrderFault;

/// What the judge derives about one buffer from the caller's description.
struct Extent {
  int32_t owner = kNoBuffer;  // itself unless it is a view
  int64_t first = 0;          // of owners: own life and that of all views
  int64_t last = 0;
  bool valid = true;
};

class Judge {
 public:
  Judge(std::span<const Buffer> buffers, const Packing& packing, const CheckOptions& options)
      : buffers_(buffers), packing_(packing), options_(options), extents_(buffers.size()) {}

  std::vector<Fault> Run() {
    if (packing_.offsets.size() != buffers_.size()) {
      Report(FaultKind::kBadInput, kNoBuffer, kNoBuffer,
             StrCat("the plan has ", packing_.offsets.size(), " offsets for ", buffers_.size(), " buffers"));
      return std::move(faults_);
    }
    CheckInput();
    FollowViews();
    CheckPlaces();
    CheckClaims();
    CheckOverlaps();
    if (options_.order) CheckOrder();
    return std::move(faults_);
  }

 private:
  bool Full() const { return faults_.size() >= options_.max_faults; }

  std::string Describe(int32_t i) const {
    const Buffer& b = buffers_[i];
    return StrCat("buffer #", i, " (id ", b.id, ", life [", extents_[i].first, ", ", extents_[i].last,
                  "), bytes [", packing_.offsets[i], ", ", packing_.offsets[i], " + ", b.size, "))");
  }

  void Report(FaultKind kind, int32_t a, int32_t b, std::string message) {
    if (!Full()) faults_.push_back({kind, a, b, StrCat(FaultName(kind), ": ", message)});
  }

  void Reject(int32_t i, const std::string& why) {
    extents_[i].valid = false;
    Report(FaultKind::kBadInput, i, kNoBuffer, StrCat(Describe(i), " ", why));
  }

  bool IsIndex(int32_t i) const { return i >= 0 && static_cast<size_t>(i) < buffers_.size(); }

  void CheckInput() {
    for (int32_t i = 0; IsIndex(i); ++i) {
      const Buffer& b = buffers_[i];
      extents_[i].first = b.first;
      extents_[i].last = b.last;
      int64_t end = 0;
      if (b.size < 0) {
        Reject(i, "has a negative size");
      } else if (__builtin_add_overflow(packing_.offsets[i], b.size, &end)) {
        Reject(i, "ends beyond 2^63");
      } else if (b.last < b.first) {
        Reject(i, "has a life that ends before it begins");
      } else if (b.alignment <= 0 || (b.alignment & (b.alignment - 1)) != 0) {
        Reject(i, StrCat("has alignment ", b.alignment, ", which is no power of two"));
      } else if ((b.alias_of != kNoBuffer && !IsIndex(b.alias_of)) ||
                 (b.in_place != kNoBuffer && !IsIndex(b.in_place))) {
        Reject(i, StrCat("refers to buffer #", b.alias_of != kNoBuffer ? b.alias_of : b.in_place));
      }
    }
  }

  // Finds each view's owner and stretches the owner's life. A view of a view counts for the first owner's
  // life, too.
  void FollowViews() {
    for (int32_t i = 0; IsIndex(i); ++i) {
      int32_t at = i;
      size_t hops = 0;
      while (extents_[at].valid && buffers_[at].alias_of != kNoBuffer && hops <= buffers_.size()) {
        if (extents_[buffers_[at].alias_of].owner != kNoBuffer) {  // known from an earlier view
          at = extents_[buffers_[at].alias_of].owner;
          break;
        }
        at = buffers_[at].alias_of;
        ++hops;
      }
      if (hops > buffers_.size()) {
        Reject(i, "is a view of itself");
        continue;
      }
      if (!extents_[at].valid) extents_[i].valid = false;
      extents_[i].owner = at;
    }
    for (int32_t i = 0; IsIndex(i); ++i) {
      const Buffer& b = buffers_[i];
      if (!extents_[i].valid || extents_[i].owner == i || b.first == b.last) continue;
      Extent& owner = extents_[extents_[i].owner];
      const bool empty = owner.first == owner.last;
      owner.first = empty ? b.first : std::min(owner.first, b.first);
      owner.last = empty ? b.last : std::max(owner.last, b.last);
    }
  }

  // True for a buffer that holds bytes in memory at some step.
  bool Present(int32_t i) const {
    const Extent& e = extents_[extents_[i].owner == kNoBuffer ? i : extents_[i].owner];
    return extents_[i].valid && e.valid && e.first < e.last && buffers_[i].size > 0;
  }

  void CheckPlaces() {
    for (int32_t i = 0; IsIndex(i); ++i) {
      if (!Present(i)) continue;
      const Buffer& b = buffers_[i];
      const int64_t offset = packing_.offsets[i];
      if (offset % b.alignment != 0)
        Report(FaultKind::kMisaligned, i, kNoBuffer, StrCat(Describe(i), " needs alignment ", b.alignment));
      if (offset < 0)
        Report(FaultKind::kOutOfBounds, i, kNoBuffer, StrCat(Describe(i), " starts before the region"));
      if (offset + b.size > packing_.peak)
        Report(FaultKind::kOutOfBounds, i, kNoBuffer,
               StrCat(Describe(i), " ends beyond the peak ", packing_.peak));
      if (options_.capacity && offset + b.size > *options_.capacity)
        Report(FaultKind::kOutOfBounds, i, kNoBuffer,
               StrCat(Describe(i), " ends beyond the capacity ", *options_.capacity));
      if (b.fixed_offset && *b.fixed_offset != offset)
        Report(FaultKind::kMoved, i, kNoBuffer, StrCat(Describe(i), " is fixed at ", *b.fixed_offset));
      if (b.alias_of == kNoBuffer) continue;
      const int32_t owner = b.alias_of;
      if (b.alias_offset < 0 || offset - packing_.offsets[owner] != b.alias_offset)
        Report(FaultKind::kAlias, i, owner,
               StrCat(Describe(i), " should lie ", b.alias_offset, " bytes into ", Describe(owner)));
      else if (offset + b.size > packing_.offsets[owner] + buffers_[owner].size)
        Report(FaultKind::kAlias, i, owner, StrCat(Describe(i), " leaves its owner ", Describe(owner)));
    }
  }

  void CheckClaims() {
    int64_t top = 0;
    int32_t highest = kNoBuffer;
    for (int32_t i = 0; IsIndex(i); ++i) {
      if (!Present(i) || packing_.offsets[i] + buffers_[i].size <= top) continue;
      top = packing_.offsets[i] + buffers_[i].size;
      highest = i;
    }
    if (top != packing_.peak)
      Report(FaultKind::kPeak, highest, kNoBuffer,
             StrCat("the plan claims a peak of ", packing_.peak, " bytes, but the highest buffer ends at ",
                    top));
    if (packing_.lower_bound > packing_.peak)
      Report(FaultKind::kBound, highest, kNoBuffer,
             StrCat("lower bound ", packing_.lower_bound, " is above the peak ", packing_.peak));
    if (packing_.proved_optimal && packing_.lower_bound != packing_.peak)
      Report(FaultKind::kBound, highest, kNoBuffer,
             StrCat("optimality is claimed with peak ", packing_.peak, " and lower bound ",
                    packing_.lower_bound));
  }

  bool BytesMeet(int32_t a, int32_t b) const {
    return packing_.offsets[a] < packing_.offsets[b] + buffers_[b].size &&
           packing_.offsets[b] < packing_.offsets[a] + buffers_[a].size;
  }

  // `young` starts while `old` is alive and they share bytes. True when the in-place rule allows it.
  bool Allowed(int32_t young, int32_t old) {
    const int32_t partner = buffers_[young].in_place;
    if (partner == kNoBuffer || !extents_[partner].valid || extents_[partner].owner != old) {
      Report(FaultKind::kOverlap, old, young,
             StrCat(Describe(old), " and ", Describe(young), " share bytes"));
      return false;
    }
    if (extents_[old].last != extents_[young].first + 1 || extents_[old].first >= extents_[young].first) {
      Report(FaultKind::kInPlace, old, young,
             StrCat(Describe(young), " takes over ", Describe(old),
                    ", whose last use is not the first step of the former"));
      return false;
    }
    if (packing_.offsets[partner] != packing_.offsets[young]) {
      Report(FaultKind::kInPlace, old, young,
             StrCat(Describe(young), " takes over ", Describe(partner),
                    " but does not start at its first byte"));
      return false;
    }
    return true;
  }

  // Sweeps over the steps. `clean_` holds live buffers that are disjoint, by offset; `crowded_` those that
  // shared bytes with a live one when they came (legally, in place, or not).
  void CheckOverlaps() {
    std::vector<int32_t> starts, ends;
    for (int32_t i = 0; IsIndex(i); ++i)
      if (Present(i) && extents_[i].owner == i) starts.push_back(i);
    ends = starts;
    std::stable_sort(starts.begin(), starts.end(),
                     [&](int32_t a, int32_t b) { return extents_[a].first < extents_[b].first; });
    std::stable_sort(ends.begin(), ends.end(),
                     [&](int32_t a, int32_t b) { return extents_[a].last < extents_[b].last; });
    size_t e = 0;
    for (int32_t young : starts) {
      if (Full()) return;
      const size_t before = e;
      for (; e < ends.size() && extents_[ends[e]].last <= extents_[young].first; ++e) Remove(ends[e]);
      if (e != before) Settle();
      bool meets = false;
      for (int32_t old : CleanMeeting(young)) {
        meets = true;
        // Of two that start together the later in the list counts as the younger, unless only the other order
        // is legal.
        if (extents_[old].first == extents_[young].first && buffers_[old].in_place != kNoBuffer)
          Allowed(old, young);
        else
          Allowed(young, old);
      }
      for (int32_t old : crowded_)
        if (BytesMeet(young, old)) Allowed(young, old);
      if (meets)
        crowded_.push_back(young);
      else
        clean_.emplace(packing_.offsets[young], young);
    }
  }

  std::vector<int32_t> CleanMeeting(int32_t young) const {
    std::vector<int32_t> found;
    auto it = clean_.lower_bound(packing_.offsets[young]);
    if (it != clean_.begin() && BytesMeet(std::prev(it)->second, young))
      found.push_back(std::prev(it)->second);
    for (; it != clean_.end() && it->first < packing_.offsets[young] + buffers_[young].size; ++it)
      found.push_back(it->second);
    return found;
  }

  void Remove(int32_t i) {
    const auto it = clean_.find(packing_.offsets[i]);
    if (it != clean_.end() && it->second == i)
      clean_.erase(it);
    else
      std::erase(crowded_, i);
  }

  void Settle() {
    std::erase_if(crowded_, [&](int32_t i) {
      if (!CleanMeeting(i).empty()) return false;
      clean_.emplace(packing_.offsets[i], i);
      return true;
    });
  }

  void CheckOrder() {
    std::vector<OrderedBuffer> ordered;
    for (int32_t i = 0; IsIndex(i); ++i) {
      const int32_t owner = extents_[i].owner;
      if (!Present(i) || owner == kNoBuffer)
        ordered.push_back({});
      else
        ordered.push_back({owner, extents_[owner].first, extents_[owner].last, packing_.offsets[owner],
                           packing_.offsets[owner] + buffers_[owner].size});
    }
    for (OrderFault& f : FindOrderFaults(ordered, *options_.order, options_.max_faults)) {
      std::string who = f.a == kNoBuffer ? "" : Describe(f.a);
      if (f.b != kNoBuffer && f.b != f.a) who += StrCat(" and ", Describe(f.b));
      Report(f.kind, f.a, f.b, who.empty() ? f.message : StrCat(who, ": ", f.message));
    }
  }

  std::span<const Buffer> buffers_;
  const Packing& packing_;
  const CheckOptions& options_;
  std::vector<Extent> extents_;
  std::vector<Fault> faults_;
  std::map<int64_t, int32_t> clean_;
  std::vector<int32_t> crowded_;
};

}  // namespace

std::string_view FaultName(FaultKind kind) {
  switch (kind) {
    case FaultKind::kBadInput:
      return "bad input";
    case FaultKind::kOverlap:
      return "overlap";
    case FaultKind::kInPlace:
      return "in-place hazard";
    case FaultKind::kMisaligned:
      return "misaligned";
    case FaultKind::kOutOfBounds:
      return "out of bounds";
    case FaultKind::kMoved:
      return "moved";
    case FaultKind::kAlias:
      return "bad view";
    case FaultKind::kPeak:
      return "wrong peak";
    case FaultKind::kBound:
      return "wrong bound";
    case FaultKind::kLife:
      return "used outside its life";
    case FaultKind::kUnordered:
      return "unordered";
  }
  return "fault";
}

std::vector<Fault> CheckPacking(std::span<const Buffer> buffers, const Packing& packing,
                                const CheckOptions& options) {
  return Judge(buffers, packing, options).Run();
}

void RequireSound(std::span<const Buffer> buffers, const Packing& packing, const CheckOptions& options) {
  const std::vector<Fault> faults = CheckPacking(buffers, packing, options);
  if (faults.empty()) return;
  std::string text = StrCat("the memory plan is unsound (", faults.size(), " faults): ");
  for (size_t i = 0; i < faults.size() && i < 3; ++i) text += StrCat(i == 0 ? "" : "; ", faults[i].message);
  Throw(Code::kRuntime, text);
}

}  // namespace ullage::memory
