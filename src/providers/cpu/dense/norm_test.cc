#include "providers/cpu/dense/norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "providers/cpu/dense/dense_test_util.h"

namespace ullage::dense {
namespace {

struct Problem {
  int64_t rows, cols;
  bool rms = true;
  DType x = DType::kFloat, scale = DType::kFloat, y = DType::kFloat;
  bool shift = false, skip = false, skip_bias = false;
  int64_t skip_rows = 0;
  bool in_place = false;
};

double Rounded(double v, DType dtype) {
  Buffer b(dtype, 1);
  b.Set(0, static_cast<float>(v));
  return b[0];
}

Buffer Check(const Problem& p, int threads = 2) {
  SCOPED_TRACE(testing::Message() << p.rows << "x" << p.cols << (p.rms ? " rms " : " layer ") << NameOf(p.x)
                                  << ' ' << NameOf(p.scale) << ' ' << NameOf(p.y) << " skip " << p.skip);
  const int64_t pitch = p.cols + 3;
  const float epsilon = 1e-3f;
  Buffer x = Buffer::Random(p.x, p.rows * pitch, 1, 3);
  const Buffer original = x;
  const Buffer skip = Buffer::Random(p.x, (p.skip_rows > 0 ? p.skip_rows : p.rows) * p.cols, 2);
  const Buffer skip_bias = Buffer::Random(p.scale, p.cols, 3), scale = Buffer::Random(p.scale, p.cols, 4);
  const Buffer shift = Buffer::Random(p.scale, p.cols, 5);
  Buffer y(p.y, p.rows * pitch), sum(p.x, p.rows * p.cols);
  std::vector<float> mean(static_cast<size_t>(p.rows)), inv_std(static_cast<size_t>(p.rows));
  ThreadTeam team(threads);
  NormArgs a;
  a.rows = p.rows;
  a.cols = p.cols;
  a.rms = p.rms;
  a.epsilon = epsilon;
  a.x = x.in();
  a.x_pitch = pitch;
  a.scale = scale.in();
  if (p.shift) a.shift = shift.in();
  a.y = p.in_place ? x.at() : y.at();
  a.y_pitch = pitch;
  if (p.skip) {
    a.skip = skip.in();
    a.skip_pitch = p.cols;
    a.skip_rows = p.skip_rows;
    a.sum = sum.at();
    a.sum_pitch = p.cols;
  }
  if (p.skip_bias) a.skip_bias = skip_bias.in();
  a.mean = mean.data();
  a.inv_std = inv_std.data();
  Norm(team, a);
  if (p.in_place) y = x;
  EXPECT_TRUE(y.GuardIntact() && sum.GuardIntact());

  const double count = static_cast<double>(std::max<int64_t>(1, p.cols));
  for (int64_t r = 0; r < p.rows; ++r) {
    std::vector<double> v(static_cast<size_t>(p.cols));
    double total = 0, squares = 0;
    for (int64_t c = 0; c < p.cols; ++c) {
      double& e = v[static_cast<size_t>(c)];
      e = original[r * pitch + c];
      if (p.skip) e += skip[(p.skip_rows > 0 ? r % p.skip_rows : r) * p.cols + c];
      if (p.skip_bias) e += skip_bias[c];
      e = Rounded(e, p.x);
      total += e;
      if (p.skip) {
        EXPECT_NEAR(sum[r * p.cols + c], e, 2.1 * RoundingOf(p.x) * (1 + std::abs(e)));
      }
    }
    const double center = p.rms ? 0 : total / count;
    for (const double e : v) squares += (e - center) * (e - center);
    const double factor = 1 / std::sqrt(squares / count + epsilon);
    EXPECT_NEAR(mean[static_cast<size_t>(r)], center, 1e-2 * (p.x == DType::kFloat ? 1e-4 : 1));
    EXPECT_NEAR(inv_std[static_cast<size_t>(r)] / factor, 1, p.x == DType::kFloat ? 1e-5 : 1e-2);
    for (int64_t c = 0; c < p.cols; ++c) {
      double want = (v[static_cast<size_t>(c)] - center) * factor * scale[c];
      if (p.shift) want += shift[c];
      // a sum that falls between two values of the type of x may be rounded to the other one in float
      const double tolerance =
          2e-5 + 1.01 * RoundingOf(p.y) * std::abs(want) + (p.skip || p.skip_bias ? 8 * RoundingOf(p.x) : 0);
      EXPECT_NEAR(y[r * pitch + c], want, tolerance) << r << "," << c;
      if (testing::Test::HasFailure()) return y;
    }
  }
  return y;
}

TEST(Norm, AllForms) {
  ForEachTarget([] {
    for (const bool rms : {true, false}) {
      for (const int64_t cols : {1, 7, 16, 63, 64, 100, 576}) {
        Check({.rows = 3, .cols = cols, .rms = rms});
        Check({.rows = 3, .cols = cols, .rms = rms, .shift = true, .skip = true, .skip_bias = true});
        Check({.rows = 6, .cols = cols, .rms = rms, .skip = true, .skip_rows = 2});
        Check({.rows = 3, .cols = cols, .rms = rms, .in_place = true});
      }
      for (const DType x : kTypes)
        for (const DType scale : kTypes)
          for (const DType y : kTypes)
            Check({.rows = 4,
                   .cols = 90,
                   .rms = rms,
                   .x = x,
                   .scale = scale,
                   .y = y,
                   .shift = true,
                   .skip = true});
    }
  });
}

TEST(Norm, EmptyAndThreads) {
  Check({.rows = 0, .cols = 8});
  Check({.rows = 3, .cols = 0});
  const Problem p{.rows = 100, .cols = 576, .x = DType::kFloat16, .skip = true};
  const Buffer one = Check(p, 1);
  for (int threads = 2; threads <= 4; ++threads) EXPECT_TRUE(one == Check(p, threads));
}

TEST(Norm, SumInPlaceOfInput) {
  ThreadTeam team(1);
  Buffer x = Buffer::Of(DType::kFloat, {1, 2, 3, 4});
  const Buffer skip = Buffer::Of(DType::kFloat, {2, 1, 0, -1});
  Buffer y(DType::kFloat, 4);
  NormArgs a;
  a.rows = 1;
  a.cols = 4;
  a.epsilon = 0;
  a.x = x.in();
  a.skip = skip.in();
  a.sum = x.at();
  a.y = y.at();
  Norm(team, a);
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(x[i], 3);
    EXPECT_NEAR(y[i], 1, 1e-6);
  }
}

TEST(Norm, RoundsBeforeScaling) {
  ThreadTeam team(1);
  const Buffer x = Buffer::Of(DType::kBFloat16, {1, 2, 4}),
               scale = Buffer::Of(DType::kFloat, {1000, 1000, 1000});
  Buffer y(DType::kFloat, 3);
  NormArgs a;
  a.rows = 1;
  a.cols = 3;
  a.epsilon = 0;
  a.round_before_scale = true;
  a.x = x.in();
  a.scale = scale.in();
  a.y = y.at();
  Norm(team, a);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(y[i], 1000 * Rounded(x[i] / std::sqrt(7.0), DType::kBFloat16), 1e-3);
  }
}

}  // namespace
}  // namespace ullage::dense
