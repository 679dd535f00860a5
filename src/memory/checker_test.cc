#include "memory/checker.h"

#include <gtest/gtest.h>

#include <random>

#include "core/error.h"
#include "memory/test_buffers.h"

namespace ullage::memory {
namespace {

bool Has(const std::vector<Fault>& faults, FaultKind kind, int32_t a, int32_t b) {
  for (const Fault& f : faults)
    if (f.kind == kind && ((f.a == a && f.b == b) || (f.a == b && f.b == a))) return true;
  return false;
}

// A plan drawn by hand: 0 and 1 live together, 2 follows 0, 3 is a view into 1, 4 takes over 2 in place.
//
//   160 |           | 1 1 1 1 1 1 |
//    64 | 0 0 0     |  (3 at 64 + 32)
//     0 | 0 0 0 | 2 2 2 | 4 4     |
struct HandMade {
  std::vector<Buffer> buffers;
  Packing packing;

  HandMade() {
    buffers = {MakeBuffer(100, 64, 0, 3, 64), MakeBuffer(101, 96, 1, 7, 32), MakeBuffer(102, 48, 3, 6, 16),
               MakeBuffer(103, 32, 2, 5, 32), MakeBuffer(104, 64, 5, 8, 16)};
    buffers[3].alias_of = 1;
    buffers[3].alias_offset = 32;
    buffers[4].in_place = 2;
    packing.offsets = {0, 64, 0, 96, 0};
    packing.peak = 160;
    packing.lower_bound = 160;
    packing.proved_optimal = true;
  }
  std::vector<Fault> Check(const CheckOptions& options = {}) const {
    return CheckPacking(buffers, packing, options);
  }
};

TEST(Checker, AcceptsASoundPlan) {
  const HandMade plan;
  for (const Fault& f : plan.Check()) ADD_FAILURE() << f.message;
  EXPECT_NO_THROW(RequireSound(plan.buffers, plan.packing, {.capacity = 160}));
}

TEST(Checker, Shifted) {
  HandMade plan;
  plan.packing.offsets[1] = 32;
  plan.packing.offsets[3] = 64;
  const auto faults = plan.Check();
  EXPECT_TRUE(Has(faults, FaultKind::kOverlap, 0, 1));
  EXPECT_TRUE(Has(faults, FaultKind::kOverlap, 1, 2));
  for (const Fault& f : faults)
    if (f.kind == FaultKind::kOverlap && (f.a == 0 || f.b == 0)) {
      EXPECT_NE(f.message.find("id 100, life [0, 3)"), std::string::npos) << f.message;
      EXPECT_NE(f.message.find("id 101, life [1, 7)"), std::string::npos) << f.message;
    }
}

TEST(Checker, GrownBuffer) {
  HandMade plan;
  plan.buffers[0].size = 65;
  EXPECT_TRUE(Has(plan.Check(), FaultKind::kOverlap, 0, 1));
}

TEST(Checker, LongerLife) {
  HandMade plan;
  plan.buffers[0].last = 4;
  EXPECT_TRUE(Has(plan.Check(), FaultKind::kOverlap, 0, 2));
}

TEST(Checker, AViewKeepsItsOwnerAlive) {
  HandMade plan;
  plan.buffers[1].last = 3;  // the view lives until 5
  EXPECT_TRUE(plan.Check().empty());
  plan.buffers.push_back(MakeBuffer(105, 16, 4, 5));
  plan.packing.offsets.push_back(64);  // under the view, in bytes that only the owner has
  EXPECT_TRUE(Has(plan.Check(), FaultKind::kOverlap, 1, 5));
}

TEST(Checker, Alignment) {
  HandMade plan;
  plan.buffers[1].alignment = 128;
  EXPECT_TRUE(Has(plan.Check(), FaultKind::kMisaligned, 1, kNoBuffer));
  plan = HandMade();
  plan.buffers[3].alignment = 64;
  EXPECT_TRUE(Has(plan.Check(), FaultKind::kMisaligned, 3, kNoBuffer));
}

TEST(Checker, Views) {
  HandMade plan;
  plan.packing.offsets[3] = 64;
  EXPECT_TRUE(Has(plan.Check(), FaultKind::kAlias, 3, 1)) << "elsewhere in the owner";
  plan = HandMade();
  plan.buffers[3].alias_offset = 96;
  plan.packing.offsets[3] = 160;
  EXPECT_TRUE(Has(plan.Check(), FaultKind::kAlias, 3, 1)) << "behind the owner";
  plan = HandMade();
  plan.buffers[3].size = 65;
  EXPECT_TRUE(Has(plan.Check(), FaultKind::kAlias, 3, 1)) << "longer than the owner";
  plan = HandMade();
  plan.buffers[1].alias_of = 3;
  EXPECT_TRUE(Has(plan.Check(), FaultKind::kBadInput, 1, kNoBuffer)) << "a circle";
}

TEST(Checker, InPlace) {
  HandMade plan;
  plan.buffers[2].last = 7;
  EXPECT_TRUE(Has(plan.Check(), FaultKind::kInPlace, 2, 4)) << "the partner is still needed";
  plan = HandMade();
  plan.packing.offsets[4] = 16;
  EXPECT_TRUE(Has(plan.Check(), FaultKind::kInPlace, 2, 4)) << "not at the first byte";
  plan = HandMade();
  plan.buffers[4].in_place = kNoBuffer;
  EXPECT_TRUE(Has(plan.Check(), FaultKind::kOverlap, 2, 4)) << "never offered";
  plan = HandMade();
  plan.buffers.push_back(MakeBuffer(105, 8, 5, 6));
  plan.buffers[5].alias_of = 2;
  plan.buffers[5].last = 7;
  plan.packing.offsets.push_back(0);
  EXPECT_TRUE(Has(plan.Check(), FaultKind::kInPlace, 2, 4)) << "a view of the partner is still needed";
  plan = HandMade();
  plan.buffers[2].first = 5;
  EXPECT_TRUE(Has(plan.Check(), FaultKind::kInPlace, 2, 4)) << "both start at once";
}

TEST(Checker, TwoHeirsOfOnePartnerOverlap) {
  HandMade plan;
  plan.buffers.push_back(MakeBuffer(105, 64, 5, 8, 16));
  plan.buffers[5].in_place = 2;
  plan.packing.offsets.push_back(0);
  EXPECT_TRUE(Has(plan.Check(), FaultKind::kOverlap, 4, 5));
}

TEST(Checker, BoundsAndClaims) {
  HandMade plan;
  EXPECT_TRUE(Has(plan.Check({.capacity = 159}), FaultKind::kOutOfBounds, 1, kNoBuffer));
  plan.packing.offsets[0] = -64;
  EXPECT_TRUE(Has(plan.Check(), FaultKind::kOutOfBounds, 0, kNoBuffer));
  plan = HandMade();
  plan.packing.peak = 159;
  EXPECT_TRUE(Has(plan.Check(), FaultKind::kPeak, 1, kNoBuffer));
  EXPECT_TRUE(Has(plan.Check(), FaultKind::kOutOfBounds, 1, kNoBuffer));
  plan.packing.peak = 161;
  EXPECT_TRUE(Has(plan.Check(), FaultKind::kPeak, 1, kNoBuffer));
  EXPECT_TRUE(Has(plan.Check(), FaultKind::kBound, 1, kNoBuffer)) << "optimality without equality";
  plan = HandMade();
  plan.packing.lower_bound = 161;
  EXPECT_TRUE(Has(plan.Check(), FaultKind::kBound, 1, kNoBuffer));
  plan = HandMade();
  plan.buffers[2].fixed_offset = 16;
  EXPECT_TRUE(Has(plan.Check(), FaultKind::kMoved, 2, kNoBuffer));
}

TEST(Checker, BadInputIsAFaultNotACrash) {
  const auto spoil = [](auto&& change) {
    HandMade plan;
    change(plan);
    const auto faults = plan.Check();
    bool found = false;
    for (const Fault& f : faults) found |= f.kind == FaultKind::kBadInput;
    return found;
  };
  EXPECT_TRUE(spoil([](HandMade& p) { p.packing.offsets.pop_back(); }));
  EXPECT_TRUE(spoil([](HandMade& p) { p.buffers[0].size = -1; }));
  EXPECT_TRUE(spoil([](HandMade& p) { p.buffers[0].last = -1; }));
  EXPECT_TRUE(spoil([](HandMade& p) { p.buffers[0].alignment = 0; }));
  EXPECT_TRUE(spoil([](HandMade& p) { p.buffers[0].alignment = 48; }));
  EXPECT_TRUE(spoil([](HandMade& p) { p.buffers[0].alias_of = 5; }));
  EXPECT_TRUE(spoil([](HandMade& p) { p.buffers[0].in_place = -7; }));
  EXPECT_TRUE(spoil([](HandMade& p) { p.packing.offsets[0] = INT64_MAX - 1; }));
  EXPECT_TRUE(spoil([](HandMade& p) { p.buffers[3].alias_of = 3; }));
}

TEST(Checker, AHopelessPlanIsCutShort) {
  std::vector<Buffer> buffers(20000);
  for (size_t i = 0; i < buffers.size(); ++i) buffers[i] = MakeBuffer(static_cast<int64_t>(i), 10, 0, 1);
  Packing packing;
  packing.offsets.resize(buffers.size());
  packing.peak = 10;
  EXPECT_EQ(CheckPacking(buffers, packing).size(), 1000u);
  EXPECT_THROW(RequireSound(buffers, packing), Error);
}

// Random disturbances of valid plans against a judge that looks at every pair.
TEST(Checker, AgreesWithLookingAtEveryPair) {
  std::mt19937 random(7);
  int unsound = 0;
  for (int round = 0; round < 400; ++round) {
    std::vector<Buffer> buffers(30);
    Packing packing;
    for (size_t i = 0; i < buffers.size(); ++i) {
      const int64_t first = random() % 40;
      buffers[i] = MakeBuffer(static_cast<int64_t>(i), random() % 20, first, first + random() % 8);
    }
    packing = Pack(buffers);
    ASSERT_TRUE(CheckPacking(buffers, packing).empty());
    const size_t victim = random() % buffers.size();
    switch (random() % 3) {
      case 0:
        packing.offsets[victim] = random() % 60;
        break;
      case 1:
        buffers[victim].size += random() % 4;
        break;
      default:
        buffers[victim].last += random() % 3;
        break;
    }
    std::vector<std::pair<int32_t, int32_t>> expected, found;
    for (int32_t a = 0; a < 30; ++a)
      for (int32_t b = a + 1; b < 30; ++b) {
        const Buffer &x = buffers[a], &y = buffers[b];
        const bool time = x.first < x.last && y.first < y.last && x.first < y.last && y.first < x.last;
        const bool space = x.size > 0 && y.size > 0 && packing.offsets[a] < packing.offsets[b] + y.size &&
                           packing.offsets[b] < packing.offsets[a] + x.size;
        if (time && space) expected.emplace_back(a, b);
      }
    for (const Fault& f : CheckPacking(buffers, packing))
      if (f.kind == FaultKind::kOverlap) found.emplace_back(std::min(f.a, f.b), std::max(f.a, f.b));
    std::sort(found.begin(), found.end());
    EXPECT_EQ(expected, found);
    unsound += !expected.empty();
  }
  EXPECT_GT(unsound, 50);
}

}  // namespace
}  // namespace ullage::memory
