#include "providers/cpu/dense/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "providers/cpu/dense/dense_test_util.h"

namespace ullage::dense {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

double Exact(UnaryOp op, double x, double alpha) {
  switch (op) {
    case UnaryOp::kIdentity:
      return x;
    case UnaryOp::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case UnaryOp::kSilu:
      return x / (1 + std::exp(-alpha * x));
    case UnaryOp::kGeluErf:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case UnaryOp::kGeluTanh:
      return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case UnaryOp::kTanh:
      return std::tanh(x);
    case UnaryOp::kExp:
      return std::exp(x);
    case UnaryOp::kErf:
      return std::erf(x);
    case UnaryOp::kRelu:
      return std::max(0.0, x);
    case UnaryOp::kSoftplus:
      return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    case UnaryOp::kSoftcap:
      return alpha * std::tanh(x / alpha);
    case UnaryOp::kSqrt:
      return std::sqrt(x);
    case UnaryOp::kReciprocal:
      return 1 / x;
    case UnaryOp::kNeg:
      return -x;
    case UnaryOp::kAbs:
      return std::abs(x);
    case UnaryOp::kScale:
      return alpha * x;
  }
  return 0;
}

constexpr UnaryOp kOps[] = {UnaryOp::kIdentity,   UnaryOp::kSigmoid,  UnaryOp::kSilu,    UnaryOp::kGeluErf,
                            UnaryOp::kGeluTanh,   UnaryOp::kTanh,     UnaryOp::kExp,     UnaryOp::kErf,
                            UnaryOp::kRelu,       UnaryOp::kSoftplus, UnaryOp::kSoftcap, UnaryOp::kSqrt,
                            UnaryOp::kReciprocal, UnaryOp::kNeg,      UnaryOp::kAbs,     UnaryOp::kScale};

TEST(Unary, AccuracyOverTheRange) {
  ForEachTarget([] {
    ThreadTeam team(2);
    std::vector<float> points;
    for (int i = -6000; i <= 6000; ++i) points.push_back(static_cast<float>(i) * 0.0173f);
    for (int i = -400; i <= 60; ++i) {  // many magnitudes
      points.push_back(static_cast<float>(std::pow(10.0, i / 20.0)));
      points.push_back(-points.back());
    }
    const Buffer x = Buffer::Of(DType::kFloat, points);
    for (const UnaryOp op : kOps) {
      SCOPED_TRACE(static_cast<int>(op));
      const float alpha = op == UnaryOp::kSilu ? 1.702f : 30;
      Buffer y(DType::kFloat, x.size());
      Unary(team, op, x.in(), x.size(), y.at(), alpha);
      double worst = 0;
      for (int64_t i = 0; i < x.size(); ++i) {
        const double want = Exact(op, x[i], alpha);
        if (std::isnan(want) || std::abs(want) > 3e38) continue;
        if (std::abs(want) < 1e-36) {              // near the subnormals
          EXPECT_NEAR(y[i], want, 2e-41) << x[i];  // 1e-5 of 1e-36: the rounding of an exponent of 88
          continue;
        }
        // functions of e^x inherit the rounding of their argument: one step, and three for GeluTanh
        double argument = 0, steps = 1;
        if (op == UnaryOp::kGeluTanh) {
          argument = std::abs(x[i]) * (1 + x[i] * x[i]);
          steps = 3;
        } else if (op == UnaryOp::kSilu || op == UnaryOp::kSoftplus || op == UnaryOp::kSigmoid) {
          argument = 1.702 * std::abs(x[i]);
        }
        const double slope = steps * 6e-8 * std::min(90.0, argument);
        const double error = std::abs(y[i] - want) / std::abs(want);
        worst = std::max(worst, error);
        EXPECT_LE(error, 1e-6 + slope) << "x " << x[i] << " gives " << y[i] << " instead of " << want;
        if (testing::Test::HasFailure()) return;
      }
      RecordProperty("worst", std::to_string(worst));
    }
  });
}

TEST(Unary, SpecialValues) {
  ForEachTarget([] {
    ThreadTeam team(1);
    const Buffer x = Buffer::Of(DType::kFloat, {0, -0.0f, kInf, -kInf, NAN, 1e30f, -1e30f, 89.5f, -200});
    auto run = [&](UnaryOp op) {
      Buffer y(DType::kFloat, x.size());
      Unary(team, op, x.in(), x.size(), y.at());
      return y;
    };
    for (const UnaryOp op : kOps) EXPECT_TRUE(std::isnan(run(op)[4])) << static_cast<int>(op);
    const Buffer e = run(UnaryOp::kExp), t = run(UnaryOp::kTanh), f = run(UnaryOp::kErf),
                 s = run(UnaryOp::kSigmoid);
    EXPECT_EQ(e[0], 1);
    EXPECT_EQ(e[2], kInf);
    EXPECT_EQ(e[3], 0);
    EXPECT_EQ(e[7], kInf);
    EXPECT_EQ(e[8], 0);
    for (const Buffer* y : {&t, &f}) {
      EXPECT_EQ((*y)[0], 0);
      EXPECT_TRUE(std::signbit((*y)[1]));
      EXPECT_EQ((*y)[2], 1);
      EXPECT_EQ((*y)[3], -1);
      EXPECT_EQ((*y)[5], 1);
    }
    EXPECT_EQ(s[0], 0.5);
    EXPECT_EQ(s[2], 1);
    EXPECT_EQ(s[3], 0);
    EXPECT_EQ(run(UnaryOp::kRelu)[3], 0);
    EXPECT_EQ(run(UnaryOp::kSoftplus)[2], kInf);
    EXPECT_EQ(run(UnaryOp::kSoftplus)[3], 0);
    EXPECT_EQ(run(UnaryOp::kGeluErf)[5], 1e30f);
  });
}

TEST(Unary, TypesSizesAndThreads) {
  ForEachTarget([] {
    for (const DType in : kTypes)
      for (const DType out : kTypes)
        for (const int64_t n : {0, 1, 7, 16, 33, 5000}) {
          const Buffer x = Buffer::Random(in, n, 1, 4);
          Buffer y(out, n), one(out, n);
          ThreadTeam team(3), single(1);
          Unary(team, UnaryOp::kSilu, x.in(), n, y.at());
          Unary(single, UnaryOp::kSilu, x.in(), n, one.at());
          EXPECT_TRUE(y.GuardIntact());
          EXPECT_TRUE(y == one);
          for (int64_t i = 0; i < n; ++i) {
            const double want = Exact(UnaryOp::kSilu, x[i], 1);
            ASSERT_NEAR(y[i], want, (1e-6 + 1.01 * RoundingOf(out)) * std::abs(want) + 1e-7);
          }
        }
  });
}

TEST(Cast, EveryBitPatternOfTheHalves) {
  ForEachTarget([] {
    ThreadTeam team(1);
    for (const DType half : {DType::kFloat16, DType::kBFloat16}) {
      std::vector<uint16_t> bits(65536), back(65536);
      for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
      std::vector<float> wide(65536);
      Cast(team, {bits.data(), half}, 65536, {wide.data(), DType::kFloat});
      Cast(team, {wide.data(), DType::kFloat}, 65536, {back.data(), half});
      for (size_t i = 0; i < bits.size(); ++i) {
        const float want = half == DType::kFloat16 ? HalfToFloat(bits[i]) : BFloat16ToFloat(bits[i]);
        if (std::isnan(want)) {
          EXPECT_TRUE(std::isnan(wide[i]));
          const float again = half == DType::kFloat16 ? HalfToFloat(back[i]) : BFloat16ToFloat(back[i]);
          EXPECT_TRUE(std::isnan(again));
        } else {
          ASSERT_EQ(wide[i], want) << i;
          ASSERT_EQ(back[i], bits[i]) << i;
        }
      }
    }
  });
}

TEST(Cast, RoundsToNearestEven) {
  ForEachTarget([] {
    ThreadTeam team(1);
    std::mt19937 rng(1);
    std::vector<float> x(20011);
    for (float& v : x) v = std::bit_cast<float>(static_cast<uint32_t>(rng()));
    for (size_t i = 0; i + 1 < 10000; i += 2) {  // halfway cases
      x[i] = std::bit_cast<float>((std::bit_cast<uint32_t>(x[i]) & 0xffff0000u) | 0x8000u);
      x[i + 1] = std::bit_cast<float>((std::bit_cast<uint32_t>(x[i + 1]) & 0x8fffe000u) | 0x38001000u);
    }
    for (const DType half : {DType::kFloat16, DType::kBFloat16}) {
      std::vector<uint16_t> y(x.size());
      Cast(team, {x.data(), DType::kFloat}, static_cast<int64_t>(x.size()), {y.data(), half});
      for (size_t i = 0; i < x.size(); ++i) {
        const uint16_t want = half == DType::kFloat16 ? FloatToHalf(x[i]) : FloatToBFloat16(x[i]);
        ASSERT_TRUE(y[i] == want || std::isnan(x[i])) << x[i];
      }
    }
  });
}

double Exact(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd:
      return a + b;
    case BinaryOp::kSub:
      return a - b;
    case BinaryOp::kMul:
      return a * b;
    case BinaryOp::kDiv:
      return a / b;
    case BinaryOp::kMin:
      return std::min(a, b);
    default:
      return std::max(a, b);
  }
}

TEST(Binary, SpreadsTypesAndOperators) {
  ForEachTarget([] {
    constexpr BinaryOp ops[] = {BinaryOp::kAdd, BinaryOp::kSub, BinaryOp::kMul,
                                BinaryOp::kDiv, BinaryOp::kMin, BinaryOp::kMax};
    constexpr Spread spreads[] = {Spread::kFull, Spread::kScalar, Spread::kRow, Spread::kColumn};
    int turn = 0;
    ThreadTeam team(2);
    for (const auto& [rows, cols] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1}, {3, 17}, {5, 64}, {0, 4}, {4, 0}, {2, 20000}, {700, 30}})
      for (const Spread as : spreads)
        for (const Spread bs : spreads) {
          const DType at = kTypes[turn % 3], bt = kTypes[turn / 3 % 3], ot = kTypes[turn / 9 % 3];
          const BinaryOp op = ops[turn++ % 6];
          const Buffer a = Buffer::Random(at, std::max<int64_t>(rows * cols, 1) + rows + cols, 1),
                       b = Buffer::Random(bt, std::max<int64_t>(rows * cols, 1) + rows + cols, 2);
          Buffer out(ot, rows * cols);
          Binary(team, op, a.in(), as, b.in(), bs, rows, cols, out.at());
          EXPECT_TRUE(out.GuardIntact());
          auto index = [&, n = cols](Spread s, int64_t r, int64_t c) {
            return s == Spread::kFull ? r * n + c : s == Spread::kRow ? c : s == Spread::kColumn ? r : 0;
          };
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < cols; ++c) {
              const double want = Exact(op, a[index(as, r, c)], b[index(bs, r, c)]);
              if (std::abs(want) > 60000) continue;
              ASSERT_NEAR(out[r * cols + c], want, (2e-7 + 1.01 * RoundingOf(ot)) * std::abs(want) + 1e-7);
            }
        }
    Buffer x = Buffer::Of(DType::kFloat, {1, NAN, 3}), y = Buffer::Of(DType::kFloat, {NAN, 2, 2});
    Binary(team, BinaryOp::kMax, x.in(), Spread::kFull, y.in(), Spread::kFull, 1, 3, x.at());
    EXPECT_TRUE(std::isnan(x[0]) && std::isnan(x[1]));
    EXPECT_EQ(x[2], 3);
  });
}

TEST(Gated, FormsAndTypes) {
  ForEachTarget([] {
    ThreadTeam team(2);
    for (const GateOp op :
         {GateOp::kSilu, GateOp::kGeluErf, GateOp::kGeluTanh, GateOp::kSigmoid, GateOp::kRelu})
      for (const int stride : {1, 2})
        for (const DType t : kTypes)
          for (const int64_t cols : {1, 30, 64, 5000}) {
            const int64_t rows = 3, pitch = 2 * cols + 2;
            const Buffer x = Buffer::Random(t, rows * pitch, 1, 9);
            Buffer y(t, rows * cols);
            GatedArgs g;
            g.op = op;
            g.rows = rows;
            g.cols = cols;
            g.gate = x.in();
            g.up = x.in(stride == 1 ? cols : 1);
            g.gate_pitch = g.up_pitch = pitch;
            g.stride = stride;
            g.alpha = 1.702f;
            g.beta = 1;
            g.limit = 7;
            g.y = y.at();
            g.y_pitch = cols;
            Gated(team, g);
            EXPECT_TRUE(y.GuardIntact());
            for (int64_t r = 0; r < rows; ++r)
              for (int64_t c = 0; c < cols; ++c) {
                const double gate = std::min(7.0, x[r * pitch + c * stride]);
                const double up = std::clamp(x[r * pitch + (stride == 1 ? cols + c : 2 * c + 1)], -7.0, 7.0);
                const UnaryOp act[] = {UnaryOp::kSilu, UnaryOp::kGeluErf, UnaryOp::kGeluTanh,
                                       UnaryOp::kSigmoid, UnaryOp::kRelu};
                const double want = Exact(act[static_cast<int>(op)], gate, 1.702) * (up + 1);
                ASSERT_NEAR(y[r * cols + c], want, 1e-5 + 1.01 * RoundingOf(t) * std::abs(want));
              }
          }
  });
}

TEST(Gated, HandVectors) {
  ThreadTeam team(1);
  const Buffer x = Buffer::Of(DType::kFloat, {1, 2, 10, -9});
  Buffer y(DType::kFloat, 2);
  GatedArgs g;
  g.rows = 1;
  g.cols = 2;
  g.gate = x.in();
  g.up = x.in(1);
  g.stride = 2;
  g.alpha = 1.702f;
  g.beta = 1;
  g.limit = 7;
  g.y = y.at();
  Gated(team, g);
  EXPECT_NEAR(y[0], 2.53739, 1e-5);
  EXPECT_NEAR(y[1], -41.99972, 1e-5);
}

TEST(Softmax, RowsTypesAndInfinities) {
  ForEachTarget([] {
    ThreadTeam team(2);
    for (const DType in : kTypes)
      for (const DType out : kTypes)
        for (const int64_t cols : {1, 5, 16, 100, 3000})
          for (const bool log : {false, true}) {
            const int64_t rows = 4;
            Buffer x = Buffer::Random(in, rows * cols, 1, 20);
            x.Set(0, -kInf);
            Buffer y(out, rows * cols);
            Softmax(team, x.in(), rows, cols, y.at(), log, 0.5f);
            EXPECT_TRUE(y.GuardIntact());
            for (int64_t r = 0; r < rows; ++r) {
              double top = -kInf, sum = 0;
              for (int64_t c = 0; c < cols; ++c) top = std::max(top, 0.5 * x[r * cols + c]);
              for (int64_t c = 0; c < cols; ++c)
                sum += top == -kInf ? 0 : std::exp(0.5 * x[r * cols + c] - top);
              for (int64_t c = 0; c < cols; ++c) {
                const double shifted = 0.5 * x[r * cols + c] - (top == -kInf ? 0 : top);
                const double want = log        ? shifted - (sum == 0 ? 0 : std::log(sum))
                                    : sum == 0 ? 0
                                               : std::exp(shifted) / sum;
                if (std::isinf(want)) {
                  ASSERT_EQ(y[r * cols + c], want);
                } else {
                  ASSERT_NEAR(y[r * cols + c], want, 1e-7 + (2e-6 + 1.01 * RoundingOf(out)) * std::abs(want));
                }
              }
            }
          }
    Buffer none(DType::kFloat, 0);
    Softmax(team, none.in(), 0, 5, none.at());
    Softmax(team, none.in(), 5, 0, none.at());
  });
}

}  // namespace
}  // namespace ullage::dense
