#include "ops/bound.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "ullage/error.h"

namespace ullage::ops {
namespace {

TEST(SymbolTable, EqualExpressionsAreOne) {
  SymbolTable t;
  const Bound s = t.Symbol("S", 0, 8), p = t.Symbol("P", 0, 100);
  const int32_t sum = t.AddExpr(s, p), mus = t.AddExpr(p, s);
  EXPECT_EQ(sum, mus);
  // (S + P) * 2 - S = S + 2 * P
  const int32_t a = t.AddExpr(t.BoundOf(t.MulExpr(t.BoundOf(sum), Bound::Exactly(2))), s, -1);
  const int32_t b = t.AddExpr(s, t.BoundOf(t.MulExpr(p, Bound::Exactly(2))));
  EXPECT_EQ(a, b);
  EXPECT_EQ(t.ToString(a), "2*P + S");
  EXPECT_EQ(t.BoundOf(t.AddExpr(t.BoundOf(sum), t.BoundOf(sum), -1)).upper, 0);
}

TEST(SymbolTable, RelationsTightenSumsAndTheirMultiples) {
  SymbolTable t;
  const BoundMath m(&t);
  const Bound past = t.Symbol("past", 0, 4096), fresh = t.Symbol("new", 1, 512);
  const Bound total = m.Add(past, fresh);
  EXPECT_EQ(total.upper, 4608);
  t.Restrict(total.expr, 1, 4096);
  EXPECT_EQ(t.BoundOf(total.expr).upper, 4096);
  const Bound bytes = m.Mul(m.Add(past, fresh), Bound::Exactly(256));
  EXPECT_EQ(bytes.upper, 4096 * 256);
  EXPECT_EQ(m.Add(m.Mul(past, Bound::Exactly(2)), m.Mul(fresh, Bound::Exactly(2))).upper, 8192);
  // new * (past + new), distributed
  const Bound scores = m.Add(m.Mul(fresh, past), m.Mul(fresh, fresh));
  EXPECT_EQ(scores.upper, 512 * 4096);
  // Two more are outside the relation.
  EXPECT_EQ(m.Add(total, Bound::Exactly(2)).upper, 4098);
}

TEST(SymbolTable, ExactDivision) {
  SymbolTable t;
  const BoundMath m(&t);
  const Bound b = t.Symbol("B", 1, 4), s = t.Symbol("S", 1, 32), p = t.Symbol("P", 0, 32);
  const Bound all = m.Mul(m.Mul(b, s), Bound::Exactly(512));
  const Bound heads = m.DivExact(all, m.Mul(m.Mul(b, s), Bound::Exactly(64)));
  EXPECT_TRUE(heads.exact());
  EXPECT_EQ(heads.lower, 8);
  const Bound total = m.Add(s, p);
  EXPECT_TRUE(Same(m.DivExact(m.Mul(b, total), total), b));
  EXPECT_TRUE(Same(m.DivExact(m.Mul(b, total), b), total));
  EXPECT_EQ(t.DivExpr(m.Mul(b, total), m.Add(b, s)), kNoExpr);
}

TEST(SymbolTable, FloorsSplitWhole) {
  SymbolTable t;
  const BoundMath m(&t);
  const Bound n = t.Symbol("N", 0, 100);
  // floor((6 N + 7) / 3) = 2 N + 2
  const Bound q = m.FloorDiv(m.Add(m.Mul(n, Bound::Exactly(6)), Bound::Exactly(7)), 3);
  EXPECT_TRUE(Same(q, m.Add(m.Mul(n, Bound::Exactly(2)), Bound::Exactly(2))));
  EXPECT_TRUE(Same(m.CeilDiv(n, 4), m.CeilDiv(n, 4)));
  EXPECT_EQ(m.CeilDiv(n, 4).upper, 25);
}

TEST(SymbolTable, CombinedAtomsAreSets) {
  SymbolTable t;
  const Bound a = t.Symbol("a", 0, 9), b = t.Symbol("b", 0, 9);
  const int32_t ab = t.BroadcastExpr(a, b);
  EXPECT_EQ(t.BroadcastExpr(b, a), ab);
  EXPECT_EQ(t.BroadcastExpr(a, t.BoundOf(ab)), ab);
  EXPECT_EQ(t.MaxExpr(t.BoundOf(t.MaxExpr(a, b)), b), t.MaxExpr(a, b));
  EXPECT_NE(t.MaxExpr(a, b), t.MinExpr(a, b));
}

TEST(SymbolTable, LaterEndsIntersect) {
  SymbolTable t;
  const Bound s = t.Symbol("S", 0, kUnbounded);
  EXPECT_FALSE(s.bounded());
  EXPECT_EQ(t.Symbol("S", 2, 7).upper, 7);
  EXPECT_EQ(t.BoundOf(s.expr).lower, 2);
  // A fixed symbol is a number.
  EXPECT_TRUE(t.Symbol("S", 5, 5).exact());
  EXPECT_EQ(t.Fresh("S", 0, 3).upper, 3);
}

TEST(BoundMath, SaturatesAndNeverWraps) {
  const BoundMath m;
  const Bound huge = Bound::Between(int64_t{1} << 62, int64_t{1} << 62);
  EXPECT_FALSE(m.Mul(huge, Bound::Exactly(4)).bounded());
  EXPECT_GE(m.Mul(huge, Bound::Exactly(4)).lower, int64_t{1} << 62);
  EXPECT_FALSE(m.Add(huge, huge).bounded());
  EXPECT_EQ(m.Mul(Bound::Anything(), Bound::Exactly(0)).upper, 0);
  EXPECT_FALSE(m.Neg(Bound::Exactly(INT64_MIN)).bounded());
  EXPECT_EQ(m.Sub(Bound::Exactly(0), Bound::Between(0, kUnbounded)).lower, -kUnbounded);
  EXPECT_EQ(m.DivExact(Bound::Exactly(100), Bound::Between(0, 5)).upper, 100);
}

TEST(BoundedShape, ElementsAndLimits) {
  BoundedShape s = BoundedShape::OfDims({Bound::Between(0, 10), Bound::Between(2, 10)});
  EXPECT_EQ(s.ElementsUpper(), 100);
  s.max_elements = 30;
  EXPECT_EQ(s.ElementsUpper(), 30);
  EXPECT_TRUE(s.Contains(Shape{3, 10}));
  EXPECT_FALSE(s.Contains(Shape{4, 10}));
  EXPECT_FALSE(s.Contains(Shape{3, 1}));
  EXPECT_THROW(s.ToShape(), Error);
  BoundedShape open = BoundedShape::OfDims({Bound(), Bound::Exactly(0)});
  EXPECT_EQ(open.ElementsUpper(), 0);
  EXPECT_EQ(BoundedShape::Unknown().ElementsUpper(), kUnbounded);
  for (int i = 0; i < kMaxRank - 2; ++i) open.push_back(Bound());
  EXPECT_THROW(open.push_back(Bound()), Error);
}

// Random expressions over symbols within their ends and a stated relation: the concrete value never escapes
// the interval, and fixing the symbols makes the expression that value.
TEST(BoundMath, RandomExpressionsContainTheirValues) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 4000; ++round) {
    SymbolTable t;
    const BoundMath m(&t);
    const auto pick = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
    std::vector<std::pair<Bound, int64_t>> pool;  // what is known of a number, and the number
    std::map<std::string, int64_t> fixed;
    for (int i = 0; i < 3; ++i) {
      const std::string name(1, static_cast<char>('a' + i));
      const int64_t n = pick(9);
      fixed[name] = n;
      pool.emplace_back(
          t.Symbol(name, std::max<int64_t>(0, n - pick(3)), pick(5) == 0 ? kUnbounded : n + pick(6)), n);
    }
    if (pick(2)) {
      const int32_t sum = t.AddExpr(pool[0].first, pool[1].first);
      if (sum != kNoExpr) t.Restrict(sum, 0, pool[0].second + pool[1].second + pick(3));
    }
    pool.emplace_back(Bound::Exactly(pick(5)), 0);
    pool.back().second = pool.back().first.lower;
    const int64_t loose = pick(7) - 2;
    pool.emplace_back(Bound::Between(loose - pick(3), loose + pick(3)), loose);
    for (int step = 0; step < 8; ++step) {
      const auto [a, x] = pool[static_cast<size_t>(pick(static_cast<int64_t>(pool.size())))];
      const auto [b, y] = pool[static_cast<size_t>(pick(static_cast<int64_t>(pool.size())))];
      const int64_t n = 1 + pick(5);
      Bound r;
      int64_t z = 0;
      switch (pick(9)) {
        case 0:
          r = m.Add(a, b), z = x + y;
          break;
        case 1:
          r = m.Sub(a, b), z = x - y;
          break;
        case 2:
          if (std::abs(x) > 1000000 || std::abs(y) > 1000000) continue;
          r = m.Mul(a, b), z = x * y;
          break;
        case 3:
          r = m.Max(a, b), z = std::max(x, y);
          break;
        case 4:
          r = m.Min(a, b), z = std::min(x, y);
          break;
        case 5:
          r = m.FloorDiv(a, n), z = x >= 0 ? x / n : -((-x + n - 1) / n);
          break;
        case 6:
          r = m.CeilDiv(a, n), z = x >= 0 ? (x + n - 1) / n : -(-x / n);
          break;
        case 7:
          if (y <= 0 || x % y != 0) continue;
          r = m.DivExact(a, b), z = x / y;
          break;
        default:
          r = m.Union(a, b), z = pick(2) ? x : y;
          // Later operations on it must hold for either.
          break;
      }
      ASSERT_LE(r.lower, z) << t.ToString(r.expr);
      ASSERT_GE(r.upper, z) << t.ToString(r.expr);
      pool.emplace_back(r, z);
    }
    for (const auto& [name, n] : fixed) t.Symbol(name, n, n);
    for (const auto& [b, z] : pool) {
      if (b.expr == kNoExpr) continue;
      const Bound now = t.BoundOf(b.expr);
      ASSERT_LE(now.lower, z) << t.ToString(b.expr);
      ASSERT_GE(now.upper, z) << t.ToString(b.expr);
    }
  }
}

}  // namespace
}  // namespace ullage::ops
