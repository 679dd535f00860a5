/// Bounded integers: what is known of a dimension, or of an element of a small integer tensor, before a run.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ullage/tensor.h"

namespace ullage::ops {

/// "No upper bound is known." Lower bounds use -kUnbounded.
inline constexpr int64_t kUnbounded = INT64_MAX;
inline constexpr int32_t kNoExpr = -1;

/// A number of which lower <= n <= upper is proved. `expr` identifies an exact expression over the symbols of
/// a SymbolTable (kNoExpr: unknown): two bounds with the same expr are the same number in every run.
struct Bound {
  int64_t lower = 0;
  int64_t upper = kUnbounded;
  int32_t expr = kNoExpr;

  static Bound Exactly(int64_t n) { return {n, n, kNoExpr}; }
  static Bound Between(int64_t lo, int64_t hi) { return {lo, hi, kNoExpr}; }
  static Bound Anything() { return {-kUnbounded, kUnbounded, kNoExpr}; }
  bool exact() const { return lower == upper; }
  bool bounded() const { return upper != kUnbounded; }
};

/// Certainly the same number in every run.
inline bool Same(const Bound& a, const Bound& b) {
  return (a.exact() && b.exact() && a.lower == b.lower) || (a.expr != kNoExpr && a.expr == b.expr);
}

/// Symbols and the polynomials over them (integer coefficients), interned so that equal expressions have
/// equal ids. Symbols are non-negative integers. Not thread-safe. At run time every number is exact and no
/// table is needed.
class SymbolTable {
 public:
  SymbolTable();
  ~SymbolTable();
  SymbolTable(const SymbolTable&) = delete;
  SymbolTable& operator=(const SymbolTable&) = delete;

  /// The bound of a symbol with that name; made on first use, with the given ends; later ends intersect.
  Bound Symbol(std::string_view name, int64_t lower, int64_t upper);
  /// States a relation: the expression has these ends as well (past + new <= context).
  void Restrict(int32_t expr, int64_t lower, int64_t upper);

  /// Exact arithmetic on expressions; `a`, `b` are expr ids or exact bounds. kNoExpr when it would grow too
  /// large.
  int32_t AddExpr(const Bound& a, const Bound& b, int64_t factor_b = 1);
  int32_t MulExpr(const Bound& a, const Bound& b);
  /// a / b when b divides a as polynomials.
  int32_t DivExpr(const Bound& a, const Bound& b);
  /// floor(a / n), n > 0; the larger and the smaller of two numbers. These are atoms of their own unless they
  /// can be resolved.
  int32_t FloorDivExpr(const Bound& a, int64_t n);
  int32_t MaxExpr(const Bound& a, const Bound& b);
  int32_t MinExpr(const Bound& a, const Bound& b);
  /// The dimension that broadcasting two matching dimensions gives: a, or b where a is 1.
  int32_t BroadcastExpr(const Bound& a, const Bound& b);
  /// A new symbol that equals no other, for a number that only a run determines. `hint` is used for its name.
  Bound Fresh(std::string_view hint, int64_t lower, int64_t upper);
  /// Bound of the expression from its symbols' ends and stated relations; exact (expr dropped) when it is a
  /// constant.
  Bound BoundOf(int32_t expr) const;
  /// "2*S + P" for dumps.
  std::string ToString(int32_t expr) const;

  /// coefficient * product of symbols; a symbol stands once per power, no symbol at all: a number.
  struct Term {
    int64_t coefficient = 0;
    std::vector<std::string> symbols;
  };
  /// What Restrict() stated: the terms' sum lies within the ends.
  struct Relation {
    std::vector<Term> terms;
    int64_t lower = 0;
    int64_t upper = 0;
  };
  /// The terms of an expression; nothing when it holds more than sums and products of symbols.
  std::optional<std::vector<Term>> TermsOf(int32_t expr) const;
  std::vector<Relation> Relations() const;
  /// Names of the symbols in the expression that have no upper end.
  std::vector<std::string> UnboundedSymbols(int32_t expr) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Interval arithmetic that keeps expressions where it can. Saturating: overflow becomes kUnbounded, never a
/// wrong bound. With a null table all expressions are dropped.
class BoundMath {
 public:
  explicit BoundMath(SymbolTable* table = nullptr) : table_(table) {}
  SymbolTable* table() const { return table_; }

  Bound Add(const Bound& a, const Bound& b) const;
  Bound Sub(const Bound& a, const Bound& b) const;
  Bound Mul(const Bound& a, const Bound& b) const;
  /// Certainly a >= b, or a == b, in every run.
  bool ProvenAtLeast(const Bound& a, const Bound& b) const;
  bool ProvenEqual(const Bound& a, const Bound& b) const;
  /// Quotient that is known to be exact (Reshape's -1), for b > 0.
  Bound DivExact(const Bound& a, const Bound& b) const;
  /// floor(a / n) and ceil(a / n) for n > 0.
  Bound FloorDiv(const Bound& a, int64_t n) const;
  Bound CeilDiv(const Bound& a, int64_t n) const;
  Bound Max(const Bound& a, const Bound& b) const;
  Bound Min(const Bound& a, const Bound& b) const;
  Bound Neg(const Bound& a) const;
  /// Smallest bound that contains both (branches of a condition).
  Bound Union(const Bound& a, const Bound& b) const;

 private:
  Bound Finish(Bound interval, int32_t expr) const;
  SymbolTable* table_;
};

/// A shape of which every dimension is bounded. rank < 0: even the rank is unknown. max_elements bounds the
/// number of elements where that is tighter than the product of the dimensions' upper ends (Reshape keeps the
/// count).
struct BoundedShape {
  int rank = -1;
  std::array<Bound, kMaxRank> dims;
  int64_t max_elements = kUnbounded;

  static BoundedShape Unknown() { return {}; }
  static BoundedShape Scalar();
  static BoundedShape Of(const Shape& shape);
  static BoundedShape OfDims(std::initializer_list<Bound> dims);

  bool known_rank() const { return rank >= 0; }
  Bound& operator[](int i) { return dims[static_cast<size_t>(i)]; }
  const Bound& operator[](int i) const { return dims[static_cast<size_t>(i)]; }
  /// Negative i counts from the end.
  const Bound& at(int i) const { return dims[static_cast<size_t>(i < 0 ? i + rank : i)]; }
  /// Appends; throws kInvalidModel beyond kMaxRank.
  void push_back(const Bound& dim);
  bool exact() const;
  /// Number of elements as a bound (product of the dimensions, at most max_elements).
  Bound Elements(const BoundMath& math) const;
  /// The concrete shape; throws kInvalidModel unless exact().
  Shape ToShape() const;
  /// Upper bound of the number of elements; kUnbounded when there is none.
  int64_t ElementsUpper() const;
  /// True when `shape` lies within.
  bool Contains(const Shape& shape) const;
  std::string ToString(const SymbolTable* table = nullptr) const;
};

/// Contents of a small integer (or bool) tensor, element by element. A floating-point tensor may have them,
/// too, where all its elements are known to be integers below 2^24 in magnitude (sizes that pass through
/// floating point).
struct BoundedValues {
  static constexpr int kMax = 32;
  int count = 0;
  std::array<Bound, kMax> v;

  Bound& operator[](int i) { return v[static_cast<size_t>(i)]; }
  const Bound& operator[](int i) const { return v[static_cast<size_t>(i)]; }
  bool exact() const {
    for (int i = 0; i < count; ++i)
      if (!v[static_cast<size_t>(i)].exact()) return false;
    return true;
  }
};

}  // namespace ullage::ops
