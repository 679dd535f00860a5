#include "session/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>

namespace ullage::session {
namespace {

std::vector<int32_t> Identity(size_t n) {
  std::vector<int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

void RequireOrder(const OrderProblem& problem, const std::vector<int32_t>& order) {
  ASSERT_EQ(order.size(), problem.steps.size());
  std::vector<bool> done(order.size(), false);
  for (int32_t step : order) {
    ASSERT_FALSE(done[step]);
    for (int32_t before : problem.steps[step].after) ASSERT_TRUE(done[before]);
    done[step] = true;
  }
}

/// Bytes alive, by asking every block at every step.
int64_t PlainPeak(const OrderProblem& problem, const std::vector<int32_t>& order) {
  const size_t blocks = problem.blocks.size();
  std::vector<int64_t> first(blocks, 0), last(blocks, -1);
  for (size_t i = 0; i < order.size(); ++i) {
    const auto& step = problem.steps[order[i]];
    for (int32_t b : step.writes) first[b] = last[b] = static_cast<int64_t>(i);
    for (int32_t b : step.reads) last[b] = static_cast<int64_t>(i);
  }
  int64_t peak = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto& step = problem.steps[order[i]];
    const auto at = static_cast<int64_t>(i);
    int64_t live = step.scratch, made = 0;
    for (size_t b = 0; b < blocks; ++b) {
      const bool needed = last[b] >= at || problem.blocks[b].kept;
      if (first[b] <= at && needed) live += problem.blocks[b].bytes;
    }
    for (int32_t b : step.writes) made += problem.blocks[b].bytes;
    if (!step.over.empty() && last[step.over[0]] == at && !problem.blocks[step.over[0]].kept)
      live -= std::min(problem.blocks[step.over[0]].bytes, made);
    peak = std::max(peak, live);
  }
  return peak;
}

OrderProblem Random(std::mt19937& random, int32_t n, int32_t reach) {
  OrderProblem problem;
  for (int32_t s = 0; s < n; ++s) {
    OrderProblem::Step step;
    for (auto k = random() % 3; k > 0 && s > 0; --k) {
      const auto other = static_cast<int32_t>(s - 1 - static_cast<int32_t>(random() % std::min(s, reach)));
      if (std::find(step.after.begin(), step.after.end(), other) != step.after.end()) continue;
      step.after.push_back(other);
      step.reads.push_back(other);
    }
    step.writes = {s};
    step.scratch = random() % 4 == 0 ? random() % 50 : 0;
    if (!step.reads.empty() && random() % 2 == 0) step.over = {step.reads[0]};
    problem.steps.push_back(step);
    problem.blocks.push_back({static_cast<int64_t>(random() % 100 + 1), random() % 12 == 0});
  }
  return problem;
}

TEST(Schedule, PeakIsThatOfLookingAtEveryBlock) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const OrderProblem problem = Random(random, 30, 8);
    EXPECT_EQ(OrderPeak(problem, Identity(30)), PlainPeak(problem, Identity(30)));
    const auto order = LowPeakOrder(problem);
    RequireOrder(problem, order);
    EXPECT_EQ(OrderPeak(problem, order), PlainPeak(problem, order));
  }
}

TEST(Schedule, SmallGraphsReachTheOptimum) {
  std::mt19937 random(2);
  int lower = 0;
  for (int round = 0; round < 60; ++round) {
    const OrderProblem problem = Random(random, 7, 7);
    int64_t least = INT64_MAX;
    auto order = Identity(7);
    do {
      std::vector<bool> done(7, false);
      bool sound = true;
      for (int32_t s : order) {
        for (int32_t before : problem.steps[s].after) sound = sound && done[before];
        done[s] = true;
      }
      if (sound) least = std::min(least, PlainPeak(problem, order));
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_EQ(OrderPeak(problem, LowPeakOrder(problem)), least);
    lower += least < PlainPeak(problem, Identity(7));
  }
  EXPECT_GT(lower, 5);
}

TEST(Schedule, BranchesRunOneAfterTheOther) {
  // Eight branches of five steps each, level by level in the model: all of their values would be alive at
  // once.
  OrderProblem problem;
  problem.steps.push_back({{}, {}, {0}, {}, 0});
  problem.blocks.push_back({100, false});
  constexpr int32_t kBranches = 8, kLength = 5;
  for (int32_t l = 0; l < kLength; ++l)
    for (int32_t b = 0; b < kBranches; ++b) {
      const int32_t before = l == 0 ? 0 : 1 + (l - 1) * kBranches + b;
      const auto block = static_cast<int32_t>(problem.blocks.size());
      problem.steps.push_back({{before}, {before}, {block}, {}, 0});
      problem.blocks.push_back({l == kLength - 1 ? 1 : 100, false});
    }
  OrderProblem::Step join{{}, {}, {static_cast<int32_t>(problem.blocks.size())}, {}, 0};
  for (int32_t b = 0; b < kBranches; ++b) {
    join.after.push_back(1 + (kLength - 1) * kBranches + b);
    join.reads.push_back(join.after.back());
  }
  problem.steps.push_back(join);
  problem.blocks.push_back({8, true});
  const auto order = LowPeakOrder(problem);
  RequireOrder(problem, order);
  EXPECT_GT(OrderPeak(problem, Identity(problem.steps.size())), 800);
  EXPECT_LE(OrderPeak(problem, order), 300 + kBranches);
}

TEST(Schedule, LargeGraphsAreFastNeverWorseAndAlwaysTheSame) {
  std::mt19937 random(3);
  for (int32_t n : {500, 5000}) {
    const OrderProblem problem = Random(random, n, 30);
    const auto start = std::chrono::steady_clock::now();
    const auto order = LowPeakOrder(problem);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    RequireOrder(problem, order);
    EXPECT_LT(OrderPeak(problem, order), OrderPeak(problem, Identity(problem.steps.size())));
    EXPECT_EQ(order, LowPeakOrder(problem));
    EXPECT_LT(seconds, 60);  // a hang, not a benchmark
  }
}

TEST(Schedule, ChainsAndNothingStayAsTheyAre) {
  EXPECT_TRUE(LowPeakOrder({}).empty());
  OrderProblem chain;
  for (int32_t s = 0; s < 50; ++s) {
    OrderProblem::Step step;
    if (s > 0) step.after = step.reads = {s - 1};
    step.writes = {s};
    chain.steps.push_back(step);
    chain.blocks.push_back({10 + s % 3, false});
  }
  EXPECT_EQ(LowPeakOrder(chain), Identity(50));
}

}  // namespace
}  // namespace ullage::session
