#include "providers/cpu/dense/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "providers/cpu/dense/dense_test_util.h"

namespace ullage::dense {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<int64_t> Sorted(const Buffer& x) {
  std::vector<int64_t> order(static_cast<size_t>(x.size()));
  std::iota(order.begin(), order.end(), 0);
  auto value = [&](int64_t i) { return std::isnan(x[i]) ? -static_cast<double>(kInf) : x[i]; };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return value(a) > value(b); });
  return order;
}

void CheckTopK(const Buffer& x, int64_t k) {
  SCOPED_TRACE(testing::Message() << "n " << x.size() << " k " << k << ' ' << NameOf(x.dtype()));
  const int64_t room = std::max<int64_t>(k, 1);
  std::vector<int64_t> indices(static_cast<size_t>(room), -1);
  std::vector<float> values(static_cast<size_t>(room));
  Scratch scratch(TopKScratchBytes(x.size(), k));
  const int64_t got = TopK(x.in(), x.size(), k, indices.data(), values.data(), scratch.get());
  ASSERT_EQ(got, std::max<int64_t>(0, std::min(k, x.size())));
  const std::vector<int64_t> order = Sorted(x);
  for (int64_t i = 0; i < got; ++i) {
    const auto at = static_cast<size_t>(i);
    ASSERT_EQ(indices[at], order[at]) << i;
    ASSERT_EQ(values[at], std::isnan(x[order[at]]) ? -kInf : x[order[at]]);
  }
}

TEST(Sampling, TopKIsAStableSort) {
  ForEachTarget([] {
    for (const DType t : kTypes) {
      for (const int64_t n : {0, 1, 5, 100, 5001}) {
        Buffer x = Buffer::Random(t, n, 7);
        if (n > 4) {
          x.Set(3, NAN);
          x.Set(n - 1, -kInf);
          x.Set(2, kInf);
        }
        for (const int64_t k : {0, 1, 2, 50, 1000, 6000}) CheckTopK(x, k);
      }
    }
    std::vector<float> up(3000), down(3000), same(3000, 2);
    for (size_t i = 0; i < up.size(); ++i) {
      up[i] = static_cast<float>(i);
      down[i] = -up[i];
    }
    for (const auto& values : {up, down, same})
      for (const int64_t k : {1, 40, 2999}) CheckTopK(Buffer::Of(DType::kFloat, values), k);
  });
}

TEST(Sampling, ArgMaxTakesTheFirst) {
  ForEachTarget([] {
    for (const DType t : kTypes) {
      for (const int64_t n : {1, 3, 17, 4096, 4097, 50000}) {
        const Buffer x = Buffer::Random(t, n, static_cast<uint32_t>(n));  // halves have many equal values
        EXPECT_EQ(ArgMax(x.in(), n), Sorted(x)[0]) << n;
      }
    }
    EXPECT_EQ(ArgMax(Buffer::Of(DType::kFloat, {NAN, 1, NAN, 1}).in(), 4), 1);
    EXPECT_EQ(ArgMax(Buffer::Of(DType::kFloat, {-kInf, -kInf}).in(), 2), 0);
    EXPECT_EQ(ArgMax(Buffer::Of(DType::kFloat, {NAN, NAN}).in(), 2), 0);
    EXPECT_EQ(ArgMax(Buffer::Of(DType::kFloat, {-3, -2, -5}).in(), 3), 1);
  });
}

TEST(Sampling, LogSumExp) {
  ForEachTarget([] {
    for (const DType t : kTypes) {
      for (const int64_t n : {1, 15, 1024, 1025, 50257}) {
        const Buffer x = Buffer::Random(t, n, 3, 25);
        for (const double temperature : {1.0, 0.25, 3.0}) {
          double top = -kInf, sum = 0;
          for (int64_t i = 0; i < n; ++i) top = std::max(top, x[i] / temperature);
          for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] / temperature - top);
          EXPECT_NEAR(LogSumExp(x.in(), n, temperature), top + std::log(sum), 1e-6 * (1 + std::abs(top)));
        }
        EXPECT_NEAR(LogSoftmaxAt(x.in(), n, n / 2), x[n / 2] - LogSumExp(x.in(), n), 1e-9);
      }
    }
    EXPECT_EQ(LogSumExp(Buffer::Of(DType::kFloat, {-kInf, -kInf}).in(), 2), -kInf);
    EXPECT_EQ(LogSumExp({}, 0), -kInf);
    EXPECT_NEAR(LogSumExp(Buffer::Of(DType::kFloat, {1000, 1000, -kInf}).in(), 3), 1000 + std::log(2.0),
                1e-9);
  });
}

}  // namespace
}  // namespace ullage::dense
