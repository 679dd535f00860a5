#include "providers/cpu/dense/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <tuple>
#include <vector>

#include "providers/cpu/dense/dense_test_util.h"

namespace ullage::dense {
namespace {

struct Problem {
  int64_t m, n, k;
  DType a = DType::kFloat, b = DType::kFloat, c = DType::kFloat;
  bool trans_a = false, trans_b = false, packed = false;
  int bias = 0;  // 0 none, 1 row, 2 full, 3 column, 4 scalar
  float alpha = 1, beta = 1;
};

/// Runs the product on `threads` with the exact scratch, and compares with a double-precision loop.
Buffer Check(const Problem& p, int threads = 2) {
  SCOPED_TRACE(testing::Message() << "m " << p.m << " n " << p.n << " k " << p.k << " types " << NameOf(p.a)
                                  << ' ' << NameOf(p.b) << ' ' << NameOf(p.c) << " ta " << p.trans_a << " tb "
                                  << p.trans_b << " packed " << p.packed << " bias " << p.bias);
  const int64_t lda = (p.trans_a ? p.m : p.k) + 3, ldb = (p.trans_b ? p.k : p.n) + 5, ldc = p.n + 2;
  const Buffer a = Buffer::Random(p.a, (p.trans_a ? p.k : p.m) * lda, 1);
  const Buffer b = Buffer::Random(p.b, (p.trans_b ? p.n : p.k) * ldb, 2);
  const Buffer bias = Buffer::Random(DType::kFloat16, p.m * p.n + 1, 3);
  Buffer c(p.c, p.m * ldc);
  ThreadTeam team(threads);

  GemmArgs g;
  g.m = p.m;
  g.n = p.n;
  g.k = p.k;
  g.a = a.in();
  g.lda = lda;
  g.trans_a = p.trans_a;
  g.b = b.in();
  g.ldb = ldb;
  g.trans_b = p.trans_b;
  g.c = c.at();
  g.ldc = ldc;
  g.alpha = p.alpha;
  g.beta = p.beta;
  if (p.bias != 0) g.bias = bias.in();
  g.bias_row_stride = p.bias == 2 ? p.n : p.bias == 3 ? 1 : 0;
  g.bias_col_stride = p.bias == 1 || p.bias == 2 ? 1 : 0;
  std::vector<std::byte> packed;
  if (p.packed) {
    packed.resize(PackedBBytes(p.n, p.k, p.b));
    PackB(team, b.in(), p.trans_b, ldb, p.n, p.k, packed.data());
    g.b_packed = true;
    g.b.data = packed.data();
  }
  Scratch scratch(GemmScratchBytes(g, threads));
  Gemm(team, g, scratch.get());

  EXPECT_TRUE(c.GuardIntact());
  int wrong = 0;
  for (int64_t i = 0; i < p.m && wrong < 3; ++i) {
    for (int64_t j = 0; j < p.n && wrong < 3; ++j) {
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < p.k; ++k) {
        const double t = a[p.trans_a ? k * lda + i : i * lda + k] * b[p.trans_b ? j * ldb + k : k * ldb + j];
        sum += t;
        magnitude += std::abs(t);
      }
      double want = p.alpha * sum;
      if (p.bias != 0) want += p.beta * bias[i * g.bias_row_stride + j * g.bias_col_stride];
      const double tolerance =
          2e-6 * (1 + std::abs(p.alpha) * magnitude) + 1.01 * RoundingOf(p.c) * std::abs(want);
      if (!(std::abs(c[i * ldc + j] - want) <= tolerance)) {
        ADD_FAILURE() << "at " << i << "," << j << ": " << c[i * ldc + j] << " instead of " << want;
        ++wrong;
      }
    }
  }
  return c;
}

TEST(Gemm, Shapes) {
  ForEachTarget([] {
    for (const auto& [m, n, k] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{{1, 1, 1},
                                                                                    {1, 33, 17},
                                                                                    {1, 160, 300},
                                                                                    {1, 130, 2100},
                                                                                    {2, 64, 5},
                                                                                    {3, 31, 2050},
                                                                                    {5, 32, 9},
                                                                                    {7, 95, 64},
                                                                                    {11, 40, 300},
                                                                                    {12, 257, 33},
                                                                                    {13, 65, 270},
                                                                                    {97, 70, 40},
                                                                                    {200, 290, 300}}) {
      for (int form = 0; form < 4; ++form) {
        Check({.m = m, .n = n, .k = k, .trans_b = (form & 1) != 0, .packed = (form & 2) != 0});
      }
    }
  });
}

TEST(Gemm, TypesAndTransposes) {
  ForEachTarget([] {
    for (const int64_t m : {1, 6, 30}) {
      for (const DType a : kTypes)
        for (const DType b : kTypes)
          for (int form = 0; form < 8; ++form) {
            Check({.m = m,
                   .n = 71,
                   .k = 43,
                   .a = a,
                   .b = b,
                   .c = kTypes[form % 3],
                   .trans_a = (form & 1) != 0,
                   .trans_b = (form & 2) != 0,
                   .packed = (form & 4) != 0});
          }
    }
  });
}

TEST(Gemm, BiasAlphaBeta) {
  ForEachTarget([] {
    for (int bias = 1; bias <= 4; ++bias) {
      Check({.m = 5, .n = 37, .k = 20, .bias = bias, .alpha = 0.5f, .beta = -2});
      Check({.m = 1, .n = 200, .k = 20, .c = DType::kFloat16, .packed = true, .bias = bias, .alpha = 3});
    }
  });
}

TEST(Gemm, EmptyDimensions) {
  Check({.m = 0, .n = 5, .k = 3});
  Check({.m = 5, .n = 0, .k = 3});
  Check({.m = 0, .n = 0, .k = 0, .packed = true});
  for (const int64_t m : {1, 4, 30}) {
    Check({.m = m, .n = 50, .k = 0, .bias = 1});
    Check({.m = m, .n = 50, .k = 0, .packed = true});
  }
}

TEST(Gemm, SameBitsForAnyThreads) {
  for (const int64_t m : {1, 3, 150}) {
    const Problem p{.m = m, .n = 300, .k = 530, .b = DType::kFloat16, .packed = true};
    const Buffer one = Check(p, 1);
    for (int threads = 2; threads <= 4; ++threads) EXPECT_TRUE(one == Check(p, threads)) << threads;
  }
}

TEST(Gemm, RowsDoNotDependOnTheirNumber) {
  ForEachTarget([] {
    for (const bool packed : {false, true}) {
      for (const bool trans_b : {false, true}) {
        Problem p{.m = 110, .n = 130, .k = 2100, .b = DType::kBFloat16, .trans_b = trans_b, .packed = packed};
        const Buffer all = Check(p);
        for (const int64_t m : {1, 2, 5, 12, 13}) {
          p.m = m;
          const Buffer some = Check(p);
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < p.n; ++j)
              ASSERT_EQ(all[i * 132 + j], some[i * 132 + j]) << m << " rows, at " << i;
          }
        }
      }
    }
  });
}

TEST(Gemm, PanelsCanBePackedOneByOne) {
  const Buffer b = Buffer::Random(DType::kBFloat16, 50 * 70, 5);
  ThreadTeam team(2);
  std::vector<std::byte> all(PackedBBytes(70, 50, b.dtype())), parts(all.size());
  ASSERT_EQ(all.size(), PackedBPanels(70) * PackedBPanelBytes(50, b.dtype()));
  PackB(team, b.in(), false, 70, 70, 50, all.data());
  for (int64_t p = PackedBPanels(70); p-- > 0;) PackB(b.in(), false, 70, 70, 50, p, p + 1, parts.data());
  EXPECT_EQ(all, parts);
  std::vector<std::byte> rows(all.size(), std::byte{0xff});
  for (const auto& [first, last] : {std::pair{30, 50}, std::pair{0, 7}, std::pair{7, 30}})
    PackBRows(team, b.in(), 70, 70, 50, first, last, rows.data());
  EXPECT_EQ(all, rows);
}

TEST(Gemm, BatchesBroadcast) {
  // [2,1,m,k] x [3,k,n] -> [2,3,m,n]
  const int64_t m = 9, n = 40, k = 21;
  const Buffer a = Buffer::Random(DType::kFloat, 2 * m * k, 1),
               b = Buffer::Random(DType::kFloat, 3 * k * n, 2);
  ThreadTeam team(2);
  for (const bool packed : {false, true}) {
    Buffer c(DType::kFloat, 6 * m * n);
    std::vector<std::byte> weights(3 * PackedBBytes(n, k, b.dtype()));
    GemmArgs g;
    g.m = m;
    g.n = n;
    g.k = k;
    g.a = a.in();
    g.lda = k;
    g.b = b.in();
    g.ldb = n;
    g.c = c.at();
    g.ldc = n;
    g.batch_rank = 2;
    g.batch_dims[0] = 2;
    g.batch_dims[1] = 3;
    g.a_batch_strides[0] = m * k;
    g.b_batch_strides[1] = k * n;
    g.c_batch_strides[0] = 3 * m * n;
    g.c_batch_strides[1] = m * n;
    if (packed) {
      for (int64_t i = 0; i < 3; ++i) {
        PackB(team, b.in(i * k * n), false, n, n, k, weights.data() + i * PackedBBytes(n, k, b.dtype()));
      }
      g.b_packed = true;
      g.b.data = weights.data();
      g.b_batch_strides[1] = 1;
    }
    Scratch scratch(GemmScratchBytes(g, 2));
    Gemm(team, g, scratch.get());
    for (int64_t x = 0; x < 2; ++x)
      for (int64_t y = 0; y < 3; ++y)
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            double want = 0;
            for (int64_t kk = 0; kk < k; ++kk) want += a[(x * m + i) * k + kk] * b[(y * k + kk) * n + j];
            ASSERT_NEAR(c[((x * 3 + y) * m + i) * n + j], want, 1e-5);
          }
  }
}

TEST(Gemm, NotANumberIsKept) {
  Buffer a = Buffer::Random(DType::kFloat, 14 * 10, 1);
  a.Set(13 * 10 + 3, NAN);
  const Buffer b = Buffer::Random(DType::kFloat, 10 * 33, 2);
  Buffer c(DType::kFloat, 14 * 33);
  ThreadTeam team(1);
  GemmArgs g;
  g.m = 14;
  g.n = 33;
  g.k = 10;
  g.a = a.in();
  g.lda = 10;
  g.b = b.in();
  g.ldb = 33;
  g.c = c.at();
  g.ldc = 33;
  Scratch scratch(GemmScratchBytes(g, 1));
  Gemm(team, g, scratch.get());
  for (int64_t i = 0; i < 14; ++i)
    for (int64_t j = 0; j < 33; ++j) EXPECT_EQ(std::isnan(c[i * 33 + j]), i == 13);
}

}  // namespace
}  // namespace ullage::dense
