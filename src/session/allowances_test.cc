#include "session/allowances.h"

#include <gtest/gtest.h>

#include <functional>

namespace ullage::session {
namespace {

/// Searches with a device whose plan grows with the allowance; returns the bytes planned at the end.
int64_t Search(int64_t limit, const std::function<int64_t(int64_t)>& planned, int64_t all, int* attempts,
               bool by_sums = false) {
  Allowances a({limit});
  while (true) {
    ++*attempts;
    const int64_t allowed = std::min(*a.now()[0], all);
    if (!a.Next({{limit, planned(allowed), allowed < all, by_sums}}))
      return planned(std::min(*a.now()[0], all));
  }
}

TEST(Allowances, FillsTheLimitFromBelowAndFromAbove) {
  for (const double factor : {0.1, 0.3, 0.7, 1.0, 1.4, 3.0})
    for (const int64_t limit : {1000, 100000, 7000000}) {
      int attempts = 0;
      const auto plan = [&](int64_t allowed) {
        return static_cast<int64_t>(static_cast<double>(allowed) * factor);
      };
      const int64_t planned = Search(limit, plan, INT64_MAX / 1000, &attempts);
      EXPECT_LE(planned, limit) << factor;
      EXPECT_GE(planned, limit * 95 / 100) << factor;
      EXPECT_LE(attempts, 13);
    }
}

TEST(Allowances, EndsAtOnceWhereThereIsNothingToGain) {
  int attempts = 0;
  EXPECT_EQ(Search(
                1000, [](int64_t) { return 400; }, 500, &attempts),
            400);
  EXPECT_EQ(attempts, 1);
  attempts = 0;
  EXPECT_EQ(Search(
                1000, [](int64_t n) { return n / 2; }, 1 << 20, &attempts, true),
            500);
  EXPECT_EQ(attempts, 1);
}

TEST(Allowances, KeepsTheBestThatFits) {
  // Plans jump: what fits is found again after attempts that do not.
  int attempts = 0;
  const auto plan = [](int64_t n) -> int64_t { return n < 1500 ? 600 : 1200; };
  EXPECT_EQ(Search(1000, plan, 1 << 20, &attempts), 600);
}

TEST(Allowances, WhatNeverFitsEnds) {
  int attempts = 0;
  EXPECT_EQ(Search(
                1000, [](int64_t) { return 5000; }, 1 << 20, &attempts),
            5000);
  EXPECT_LE(attempts, 13);
}

}  // namespace
}  // namespace ullage::session
