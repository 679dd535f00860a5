// Plans that are sound, broken in one place each: the checker must name the kind of damage and the culprit.

#include <gtest/gtest.h>

#include "memory/checker.h"
#include "memory/test_buffers.h"

namespace ullage::memory {
namespace {

/// A random program on several streams with its sound plan. Step s writes buffer s and reads earlier ones.
struct Case {
  std::vector<Buffer> buffers;
  Packing packing;
  StepOrder order;

  std::vector<Fault> Check(const CheckOptions& rest = {}) const {
    CheckOptions options = rest;
    options.order = &order;
    return CheckPacking(buffers, packing, options);
  }
  bool Finds(FaultKind kind, int32_t culprit) const {
    for (const Fault& f : Check())
      if (f.kind == kind && (f.a == culprit || f.b == culprit)) return true;
    return false;
  }

  // Per step: the steps that have finished before it starts, as bits. Events point forward.
  std::vector<uint32_t> Before() const {
    const size_t n = order.streams.size();
    std::vector<uint32_t> before(n, 0);
    for (size_t b = 0; b < n; ++b) {
      const auto after = [&](size_t a) { before[b] |= before[a] | uint32_t{1} << a; };
      for (size_t a = 0; a < b; ++a)
        if (order.streams[a] == order.streams[b]) after(a);
      for (const auto& e : order.events)
        if (e.wait == static_cast<int64_t>(b)) after(static_cast<size_t>(e.signal));
    }
    return before;
  }
  static bool Ordered(const std::vector<uint32_t>& before, int64_t a, int64_t b) {
    return (before[b] >> a & 1) != 0;
  }

  bool BytesMeet(size_t a, size_t b) const {
    return packing.offsets[a] < packing.offsets[b] + buffers[b].size &&
           packing.offsets[b] < packing.offsets[a] + buffers[a].size;
  }

  /// Every pair of steps that must be ordered and is not, looking at all pairs of uses.
  size_t Unordered() const {
    const auto before = Before();
    size_t count = 0;
    for (const Use& x : order.uses)
      for (const Use& y : order.uses)
        count += x.step < y.step && (x.writes || y.writes) && BytesMeet(x.buffer, y.buffer) &&
                 !Ordered(before, x.step, y.step);
    return count;
  }
};

Case RandomCase(std::mt19937& random) {
  Case c;
  const int64_t steps = 24;
  std::vector<std::vector<int32_t>> reads(steps);
  for (int64_t s = 0; s < steps; ++s) {
    c.order.streams.push_back(static_cast<int32_t>(random() % 3) * 7);
    c.buffers.push_back(MakeBuffer(s, 16 + random() % 64, s, s + 1, 1 << (random() % 5)));
    c.order.uses.push_back({static_cast<int32_t>(s), s, true});
    for (int k = 0; k < 2 && s > 0; ++k) {
      const auto other = static_cast<int32_t>(s - 1 - random() % std::min<int64_t>(s, 6));
      reads[s].push_back(other);
      c.order.uses.push_back({other, s, false});
      c.buffers[other].last = s + 1;
    }
  }
  for (int64_t s = 1; s < steps; ++s) {
    const int32_t partner = reads[s][0];
    if (c.buffers[partner].last == s + 1) c.buffers[s].in_place = partner;
  }
  c.packing = Pack(c.buffers, {.work_limit = 0});
  // Events for the data, and for bytes that change hands.
  auto before = c.Before();
  for (const Use& x : c.order.uses)
    for (const Use& y : c.order.uses)
      if (x.step < y.step && (x.writes || y.writes) && c.BytesMeet(x.buffer, y.buffer) &&
          !Case::Ordered(before, x.step, y.step)) {
        c.order.events.push_back({x.step, y.step});
        before = c.Before();
      }
  return c;
}

constexpr int kRounds = 60;

/// Calls `damage` on copies of sound plans until it has done something (returned the culprit) `kRounds`
/// times.
template <class Damage>
void Mutate(uint32_t seed, FaultKind expected, const Damage& damage) {
  std::mt19937 random(seed);
  int damaged = 0;
  for (int round = 0; round < 20 * kRounds && damaged < kRounds; ++round) {
    Case c = RandomCase(random);
    ASSERT_TRUE(c.Check().empty()) << c.Check()[0].message;
    const int32_t culprit = damage(c, static_cast<int32_t>(random() % c.buffers.size()));
    if (culprit == kNoBuffer) continue;
    ++damaged;
    EXPECT_TRUE(c.Finds(expected, culprit)) << FaultName(expected) << " of buffer #" << culprit;
  }
  EXPECT_EQ(damaged, kRounds);
}

bool Partners(const Case& c, size_t a, size_t b) {
  return c.buffers[a].in_place == static_cast<int32_t>(b) || c.buffers[b].in_place == static_cast<int32_t>(a);
}

TEST(CheckerMutation, AShiftedOffsetOverlaps) {
  Mutate(1, FaultKind::kOverlap, [](Case& c, int32_t i) {
    for (size_t j = 0; j < c.buffers.size(); ++j) {
      if (!Meet(c.buffers[i], c.buffers[j]) || c.BytesMeet(i, j) || Partners(c, i, j)) continue;
      c.packing.offsets[i] = c.packing.offsets[j];
      return i;
    }
    return kNoBuffer;
  });
}

TEST(CheckerMutation, ANewNeighbourOverlaps) {
  Mutate(2, FaultKind::kOverlap, [](Case& c, int32_t i) {
    Buffer twin = c.buffers[i];
    twin.in_place = kNoBuffer;
    c.buffers.push_back(twin);
    c.packing.offsets.push_back(c.packing.offsets[i]);
    return static_cast<int32_t>(c.buffers.size()) - 1;
  });
}

TEST(CheckerMutation, AMisalignedOffset) {
  Mutate(3, FaultKind::kMisaligned, [](Case& c, int32_t i) {
    if (c.buffers[i].alignment == 1) return kNoBuffer;
    c.packing.offsets[i] += 1;
    return i;
  });
}

TEST(CheckerMutation, AShortenedLife) {
  Mutate(4, FaultKind::kLife, [](Case& c, int32_t i) {
    if (c.buffers[i].last - c.buffers[i].first < 2) return kNoBuffer;
    c.buffers[i].last -= 1;
    return i;
  });
}

TEST(CheckerMutation, ALifeThatStartsTooLate) {
  Mutate(5, FaultKind::kLife, [](Case& c, int32_t i) {
    if (c.buffers[i].last - c.buffers[i].first < 2) return kNoBuffer;
    c.buffers[i].first += 1;
    return i;
  });
}

TEST(CheckerMutation, AnInPlacePartnerWithALaterReader) {
  Mutate(6, FaultKind::kInPlace, [](Case& c, int32_t i) {
    const int32_t partner = c.buffers[i].in_place;
    if (partner == kNoBuffer || !c.BytesMeet(i, partner) || c.buffers[partner].last >= 24) return kNoBuffer;
    c.order.uses.push_back({partner, c.buffers[partner].last, false});
    c.buffers[partner].last += 1;
    return i;
  });
}

TEST(CheckerMutation, AReaderThatTheLifeDoesNotKnow) {
  Mutate(7, FaultKind::kLife, [](Case& c, int32_t i) {
    if (c.buffers[i].last >= 24) return kNoBuffer;
    c.order.uses.push_back({i, c.buffers[i].last, false});
    return i;
  });
}

TEST(CheckerMutation, AnInPlaceOfferThatWasNeverMade) {
  Mutate(8, FaultKind::kOverlap, [](Case& c, int32_t i) {
    const int32_t partner = c.buffers[i].in_place;
    if (partner == kNoBuffer || !c.BytesMeet(i, partner)) return kNoBuffer;
    c.buffers[i].in_place = kNoBuffer;
    return i;
  });
}

TEST(CheckerMutation, AViewThatLiesElsewhere) {
  Mutate(9, FaultKind::kAlias, [](Case& c, int32_t i) {
    Buffer view = MakeBuffer(99, 8, c.buffers[i].first, c.buffers[i].last);
    view.alias_of = i;
    view.alias_offset = 4;
    c.buffers.push_back(view);
    c.packing.offsets.push_back(c.packing.offsets[i] + 4);
    EXPECT_TRUE(c.Check().empty());
    c.packing.offsets.back() += 1;
    return static_cast<int32_t>(c.buffers.size()) - 1;
  });
}

TEST(CheckerMutation, AViewThatOutlivesItsOwner) {
  Mutate(10, FaultKind::kOverlap, [](Case& c, int32_t i) {
    // The view stretches the owner's life into that of a buffer that took the bytes over.
    for (size_t j = 0; j < c.buffers.size(); ++j) {
      if (c.buffers[j].first < c.buffers[i].last || !c.BytesMeet(i, j)) continue;
      Buffer view = MakeBuffer(99, 8, c.buffers[i].first, c.buffers[j].first + 1);
      view.alias_of = i;
      c.buffers.push_back(view);
      c.packing.offsets.push_back(c.packing.offsets[i]);
      return i;
    }
    return kNoBuffer;
  });
}

TEST(CheckerMutation, ANegativeOffsetAPinAndAPeak) {
  Mutate(11, FaultKind::kOutOfBounds, [](Case& c, int32_t i) {
    c.packing.offsets[i] = -c.buffers[i].alignment;
    return i;
  });
  Mutate(12, FaultKind::kMoved, [](Case& c, int32_t i) {
    c.buffers[i].fixed_offset = c.packing.offsets[i] + 16;
    return i;
  });
  Mutate(13, FaultKind::kPeak, [](Case& c, int32_t) {
    c.packing.peak -= 1;
    for (size_t i = 0; i < c.buffers.size(); ++i)
      if (c.packing.offsets[i] + c.buffers[i].size > c.packing.peak) return static_cast<int32_t>(i);
    return kNoBuffer;
  });
}

TEST(CheckerMutation, AStepMovedToAnotherStream) {
  Mutate(14, FaultKind::kUnordered, [](Case& c, int32_t i) {
    c.order.streams[i] = 100;  // the step that writes buffer i
    const auto before = c.Before();
    for (const Use& use : c.order.uses)
      if (use.buffer == i && use.step > i && !Case::Ordered(before, i, use.step)) return i;
    return kNoBuffer;
  });
}

// Events taken away, against a look at all pairs of uses.
TEST(CheckerMutation, AMissingEvent) {
  std::mt19937 random(15);
  int unsound = 0;
  for (int round = 0; round < 10 * kRounds; ++round) {
    Case c = RandomCase(random);
    if (c.order.events.empty()) continue;
    c.order.events.erase(c.order.events.begin() +
                         static_cast<std::ptrdiff_t>(random() % c.order.events.size()));
    const bool broken = c.Unordered() > 0;
    unsound += broken;
    const auto faults = c.Check();
    EXPECT_EQ(!faults.empty(), broken);
    for (const Fault& f : faults) EXPECT_EQ(f.kind, FaultKind::kUnordered) << f.message;
  }
  EXPECT_GT(unsound, kRounds);
}

TEST(CheckerMutation, BadOrdersAreFaults) {
  std::mt19937 random(16);
  const Case sound = RandomCase(random);
  const auto refused = [&](auto&& change) {
    Case c = sound;
    change(c);
    const auto faults = c.Check();
    return !faults.empty() && faults[0].kind == FaultKind::kBadInput;
  };
  EXPECT_TRUE(refused([](Case& c) { c.order.streams[3] = -1; }));
  EXPECT_TRUE(refused([](Case& c) { c.order.events.push_back({5, 5}); }));
  EXPECT_TRUE(refused([](Case& c) { c.order.events.push_back({5, 24}); }));
  EXPECT_TRUE(refused([](Case& c) { c.order.uses.push_back({0, 24, false}); }));
  EXPECT_TRUE(refused([](Case& c) { c.order.uses.push_back({-1, 2, false}); }));
  EXPECT_TRUE(refused([](Case& c) { c.order.uses.push_back({24, 2, false}); }));
}

TEST(CheckerMutation, AHopelessOrderIsCutShort) {
  const int64_t steps = 20000;
  Case c;
  for (int64_t s = 0; s < steps; ++s) {
    c.order.streams.push_back(s % 2 == 0 ? 0 : 1);
    c.buffers.push_back(MakeBuffer(s, 8, s, s + 1));
    c.order.uses.push_back({static_cast<int32_t>(s), s, true});
    c.packing.offsets.push_back(0);
  }
  c.packing.peak = 8;
  EXPECT_EQ(c.Check().size(), 1000u);
}

}  // namespace
}  // namespace ullage::memory
