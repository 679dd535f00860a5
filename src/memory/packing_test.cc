#include "memory/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "core/error.h"
#include "memory/test_buffers.h"

namespace ullage::memory {
namespace {

Buffer Make(int64_t size, int64_t first, int64_t last, int64_t alignment = 1) {
  return MakeBuffer(1000 + size, size, first, last, alignment);
}

// The smallest peak of a few buffers without views, by trying every order in which each buffer takes the
// lowest offset that those before it allow. Some order finds the optimum: that of the offsets of an optimal
// packing. In-place offers that can be taken are tried taken and not taken.
int64_t BruteForce(const std::vector<Buffer>& buffers, size_t link = 0, std::vector<int> joined = {}) {
  const size_t n = buffers.size();
  if (joined.empty()) joined.assign(n, kNoBuffer);
  for (; link < n; ++link) {
    const int32_t p = buffers[link].in_place;
    if (p == kNoBuffer || !Meet(buffers[p], buffers[link]) || buffers[p].last != buffers[link].first + 1 ||
        buffers[p].first >= buffers[link].first || std::count(joined.begin(), joined.end(), p) > 0)
      continue;
    std::vector<int> taken = joined;
    taken[link] = p;
    return std::min(BruteForce(buffers, link + 1, taken), BruteForce(buffers, link + 1, joined));
  }
  // Buffers that are joined get one offset: that of the head of their chain.
  std::vector<std::vector<size_t>> groups;
  std::vector<size_t> group_of(n);
  for (size_t i = 0; i < n; ++i)
    if (joined[i] == kNoBuffer) {
      group_of[i] = groups.size();
      groups.push_back({i});
    }
  for (bool again = true; again;) {
    again = false;
    for (size_t i = 0; i < n; ++i) {
      if (joined[i] == kNoBuffer) continue;
      for (size_t g = 0; g < groups.size(); ++g)
        if (groups[g].back() == static_cast<size_t>(joined[i])) {
          groups[g].push_back(i);
          again = true;
        }
    }
  }
  std::vector<size_t> order(groups.size());
  std::iota(order.begin(), order.end(), size_t{0});
  int64_t best = INT64_MAX;
  do {
    std::vector<int64_t> offset(n, -1);
    int64_t peak = 0;
    for (size_t g : order) {
      int64_t at = 0;
      int64_t alignment = 1;
      for (size_t i : groups[g]) alignment = std::max(alignment, buffers[i].alignment);
      for (bool moved = true; moved;) {
        moved = false;
        for (size_t i : groups[g])
          for (size_t j = 0; j < n; ++j)
            if (offset[j] >= 0 && Meet(buffers[i], buffers[j]) && at < offset[j] + buffers[j].size &&
                offset[j] < at + buffers[i].size) {
              at = (offset[j] + buffers[j].size + alignment - 1) / alignment * alignment;
              moved = true;
            }
      }
      for (size_t i : groups[g]) {
        offset[i] = at;
        if (buffers[i].first < buffers[i].last) peak = std::max(peak, at + buffers[i].size);
      }
    }
    best = std::min(best, peak);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

TEST(Packing, NothingAndAlmostNothing) {
  EXPECT_EQ(Pack({}).peak, 0);
  EXPECT_TRUE(Pack({}).proved_optimal);
  const std::vector<Buffer> empty = {Make(0, 0, 5), Make(100, 3, 3)};
  const Packing packing = Pack(empty);
  EXPECT_EQ(packing.peak, 0);
  EXPECT_EQ(packing.offsets, (std::vector<int64_t>{0, 0}));
}

TEST(Packing, TinyProblemsAreSolvedToTheOptimum) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const auto buffers = RandomProblem(random, 1 + random() % 7, 10, 12, false);
    const Packing packing = PackSound(buffers);
    const int64_t optimum = BruteForce(buffers);
    EXPECT_EQ(packing.peak, optimum);
    EXPECT_LE(packing.lower_bound, optimum);
    EXPECT_TRUE(packing.proved_optimal) << "peak " << packing.peak << " bound " << packing.lower_bound;
  }
}

TEST(Packing, TinyProblemsWithAlignment) {
  std::mt19937 random(12);
  for (int round = 0; round < 300; ++round) {
    const auto buffers = RandomProblem(random, 1 + random() % 6, 8, 40, true);
    const Packing packing = PackSound(buffers);
    const int64_t optimum = BruteForce(buffers);
    EXPECT_EQ(packing.peak, optimum);
    EXPECT_LE(packing.lower_bound, optimum);
  }
}

TEST(Packing, TinyProblemsInPlace) {
  std::mt19937 random(13);
  int taken = 0;
  for (int round = 0; round < 600; ++round) {
    auto buffers = RandomProblem(random, 6, 6, 12, false);
    for (size_t i = 0; i < buffers.size(); ++i)
      for (size_t j = 0; j < buffers.size(); ++j)
        if (i != j && buffers[j].last == buffers[i].first + 1 && random() % 2 == 0)
          buffers[i].in_place = static_cast<int32_t>(j);
    const Packing packing = PackSound(buffers);
    const int64_t optimum = BruteForce(buffers);
    EXPECT_GE(packing.peak, optimum);
    EXPECT_LE(packing.lower_bound, optimum);
    EXPECT_LE(packing.peak, optimum + optimum / 2);
    for (size_t i = 0; i < buffers.size(); ++i) {
      const int32_t p = buffers[i].in_place;
      taken += p != kNoBuffer && Meet(buffers[i], buffers[p]) && packing.offsets[i] == packing.offsets[p];
    }
  }
  EXPECT_GT(taken, 100);
}

TEST(Packing, InPlaceChainCostsOneBuffer) {
  std::vector<Buffer> buffers;
  for (int64_t i = 0; i < 50; ++i) {
    buffers.push_back(Make(4096, i, i + 2, 64));
    if (i > 0) buffers.back().in_place = static_cast<int32_t>(i - 1);
  }
  const Packing packing = PackSound(buffers);
  EXPECT_EQ(packing.peak, 4096);
  EXPECT_EQ(packing.lower_bound, 4096);
  for (Buffer& b : buffers) b.in_place = kNoBuffer;
  EXPECT_EQ(Pack(buffers).peak, 8192);
}

TEST(Packing, AnInPlaceOfferIsPassedOverWhileThePartnerIsNeeded) {
  std::vector<Buffer> buffers = {Make(64, 0, 4), Make(64, 2, 5)};
  buffers[1].in_place = 0;
  const Packing packing = PackSound(buffers);
  EXPECT_EQ(packing.peak, 128);
  EXPECT_EQ(packing.lower_bound, 128);
}

TEST(Packing, InPlaceThroughAView) {
  // 1 is the second half of 0; 2 takes over 1.
  std::vector<Buffer> buffers = {Make(128, 0, 3, 64), Make(64, 1, 3, 64), Make(64, 2, 6, 64)};
  buffers[1].alias_of = 0;
  buffers[1].alias_offset = 64;
  buffers[2].in_place = 1;
  const Packing packing = PackSound(buffers);
  EXPECT_EQ(packing.peak, 128);
  EXPECT_EQ(packing.offsets[2], packing.offsets[1]);
}

TEST(Packing, ViewsLieInTheirOwnersAndKeepThemAlive) {
  std::vector<Buffer> buffers = {Make(256, 0, 2, 64), Make(64, 2, 6, 64), Make(64, 4, 5, 64),
                                 Make(32, 1, 5, 32)};
  buffers[1].alias_of = 0;
  buffers[1].alias_offset = 128;
  buffers[3].alias_of = 1;
  buffers[3].alias_offset = 32;
  const Packing packing = PackSound(buffers);
  EXPECT_EQ(packing.offsets[1], packing.offsets[0] + 128);
  EXPECT_EQ(packing.offsets[3], packing.offsets[0] + 160);
  EXPECT_EQ(packing.peak, 320);
}

TEST(Packing, FixedOffsetsAreKept) {
  std::mt19937 random(14);
  for (int round = 0; round < 200; ++round) {
    auto buffers = RandomProblem(random, 12, 10, 30, true);
    const Packing before = Pack(buffers, {.work_limit = 0});
    // What was found once stays possible when some of it is pinned, shifted by a constant.
    for (size_t i = 0; i < buffers.size(); i += 3)
      if (Meet(buffers[i], buffers[i])) buffers[i].fixed_offset = before.offsets[i] + 16;
    const Packing packing = PackSound(buffers);
    for (const Buffer& b : buffers)
      EXPECT_LE(b.fixed_offset.value_or(0) + (b.fixed_offset ? b.size : 0), packing.lower_bound);
  }
}

TEST(Packing, AlignmentIsPartOfTheBound) {
  // Three live buffers of 65 bytes at multiples of 64: two of them take 128.
  const std::vector<Buffer> buffers = {Make(65, 0, 1, 64), Make(65, 0, 1, 64), Make(65, 0, 1, 64)};
  const Packing packing = Pack(buffers);
  EXPECT_EQ(packing.peak, 128 + 128 + 65);
  EXPECT_EQ(packing.lower_bound, packing.peak);
  EXPECT_TRUE(packing.proved_optimal);
}

TEST(Packing, SameAnswerEveryTimeAndGreedyIgnoresTheClock) {
  std::mt19937 random(15);
  const auto buffers = RandomProblem(random, 150, 60, 5000, true);
  const Packing a = Pack(buffers), b = Pack(buffers);
  EXPECT_EQ(a.offsets, b.offsets);
  const Packing greedy = Pack(buffers, {.work_limit = 0});
  const Packing hurried = Pack(buffers, {.work_limit = 0, .time_limit_s = 1e-9});
  EXPECT_EQ(greedy.offsets, hurried.offsets);
  EXPECT_LE(a.peak, greedy.peak);
}

TEST(Packing, CapacityEndsTheSearchEarly) {
  std::mt19937 random(16);
  const auto buffers = RandomProblem(random, 100, 40, 5000, false);
  const Packing free = Pack(buffers, {.work_limit = 0});
  const Packing packing = Pack(buffers, {.capacity = free.peak + 1});
  EXPECT_TRUE(packing.FitsIn(free.peak + 1));
  EXPECT_EQ(packing.nodes, 0);
}

TEST(Packing, RepeatedLayersReachTheBound) {
  std::vector<Buffer> buffers;
  std::mt19937 random(17);
  std::vector<std::array<int64_t, 3>> layer;
  for (int64_t i = 0; i < 30; ++i)
    layer.push_back(
        {static_cast<int64_t>(random() % 50 + 1) * 64, i, i + 1 + static_cast<int64_t>(random() % 7)});
  layer.push_back({4096, 0, 31});
  for (int64_t l = 0; l < 60; ++l)
    for (const auto& [size, first, last] : layer)
      buffers.push_back(Make(size, l * 30 + first, l * 30 + last, 64));
  for (int64_t i = 0; i < 4; ++i) buffers.push_back(Make(640, 0, 1800, 64));
  const Packing packing = PackSound(buffers);
  EXPECT_TRUE(packing.proved_optimal) << packing.peak << " over " << packing.lower_bound;
}

TEST(Packing, RandomProblemsOfEveryKindAreSound) {
  std::mt19937 random(18);
  for (int round = 0; round < 60; ++round) {
    auto buffers = RandomProblem(random, 60, 30, 2000, true);
    for (size_t i = 1; i < buffers.size(); ++i) {
      const int32_t other = static_cast<int32_t>(random() % i);
      Buffer& b = buffers[i];
      if (random() % 5 == 0 && buffers[other].size > 0) {
        b.alias_of = other;
        b.alias_offset = random() % buffers[other].size;
        b.size = std::min(b.size, buffers[other].size - b.alias_offset);
        b.alignment = 1;
      } else if (random() % 3 == 0) {
        b.in_place = other;
        b.first = std::max<int64_t>(buffers[other].last - 1, 0);
        b.last = b.first + 1 + random() % 5;
      }
    }
    const Packing packing = PackSound(buffers, {.work_limit = 2'000'000});
    EXPECT_LE(PackingLowerBound(buffers), packing.lower_bound);
  }
}

TEST(Packing, BadProblemsAreRefusedByName) {
  const auto refused = [](std::vector<Buffer> buffers, const char* part) {
    try {
      Pack(buffers);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kUsage);
      EXPECT_NE(e.message().find(part), std::string::npos) << e.message();
      return;
    }
    ADD_FAILURE() << "accepted, expected: " << part;
  };
  const std::vector<Buffer> fine = {Make(10, 0, 2), Make(20, 1, 3), Make(5, 2, 4)};
  auto bad = fine;
  bad[1].size = -1;
  refused(bad, "buffer #1 (id 1020) has a negative size");
  bad = fine;
  bad[1].last = 0;
  refused(bad, "dies before it lives");
  bad = fine;
  bad[2].alignment = 24;
  refused(bad, "power of two: 24");
  bad = fine;
  bad[2].alias_of = 3;
  refused(bad, "refers to buffer #3; there are 3");
  bad = fine;
  bad[2].in_place = 2;
  refused(bad, "refers to buffer #2");
  bad = fine;
  bad[0].alias_of = 1;
  bad[1].alias_of = 0;
  bad[0].size = bad[1].size = 10;
  refused(bad, "is a view of itself");
  bad = fine;
  bad[2].alias_of = 0;
  bad[2].alias_offset = 6;
  refused(bad, "covers bytes");
  bad = fine;
  bad[2].alias_of = 0;
  bad[2].alignment = 4;
  refused(bad, "needs alignment 4");
  bad = fine;
  bad[0].fixed_offset = 0;
  bad[1].fixed_offset = 9;
  refused(bad, "overlap");
  bad = fine;
  bad[0].alignment = 8;
  bad[0].fixed_offset = 4;
  refused(bad, "no multiple of its alignment");
  bad = fine;
  bad[0].size = bad[1].size = bad[2].size = int64_t{1} << 61;
  refused(bad, "2^62");
}

}  // namespace
}  // namespace ullage::memory
