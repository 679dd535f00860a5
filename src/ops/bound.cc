#include "ops/bound.h"

#include "core/error.h"
#include "ops/interval.h"

namespace ullage::ops {

using interval::Ends;
using interval::EndsOf;

Bound BoundMath::Finish(Bound b, int32_t expr) const {
  if (table_ == nullptr || expr == kNoExpr || b.exact()) return {b.lower, b.upper, kNoExpr};
  const Bound known = table_->BoundOf(expr);
  const Ends ends = interval::Intersect(EndsOf(b), EndsOf(known));
  return {ends.lower, ends.upper, ends.lower == ends.upper ? kNoExpr : expr};
}

namespace {

Bound FromEnds(const Ends& e) {
  return {e.lower, e.upper, kNoExpr};
}

bool Nameable(const Bound& a, const Bound& b) {
  return (a.expr != kNoExpr || a.exact()) && (b.expr != kNoExpr || b.exact());
}

}  // namespace

Bound BoundMath::Add(const Bound& a, const Bound& b) const {
  const Bound r = FromEnds(interval::Add(EndsOf(a), EndsOf(b)));
  if (!table_ || r.exact() || !Nameable(a, b)) return r;
  return Finish(r, table_->AddExpr(a, b));
}

Bound BoundMath::Sub(const Bound& a, const Bound& b) const {
  const Bound r = FromEnds(interval::Add(EndsOf(a), interval::Neg(EndsOf(b))));
  if (Same(a, b)) return Bound::Exactly(0);
  if (!table_ || r.exact() || !Nameable(a, b)) return r;
  return Finish(r, table_->AddExpr(a, b, -1));
}

Bound BoundMath::Mul(const Bound& a, const Bound& b) const {
  const Bound r = FromEnds(interval::Mul(EndsOf(a), EndsOf(b)));
  if (!table_ || r.exact() || !Nameable(a, b)) return r;
  return Finish(r, table_->MulExpr(a, b));
}

bool BoundMath::ProvenAtLeast(const Bound& a, const Bound& b) const {
  return (a.lower >= b.upper && b.bounded()) || Same(a, b) || Sub(a, b).lower >= 0;
}

bool BoundMath::ProvenEqual(const Bound& a, const Bound& b) const {
  if (Same(a, b)) return true;
  const Bound d = Sub(a, b);
  return d.exact() && d.lower == 0;
}

Bound BoundMath::DivExact(const Bound& a, const Bound& b) const {
  const int64_t least = std::max<int64_t>(b.lower, 1);
  Bound r = Bound::Anything();
  if (a.exact() && b.exact() && b.lower > 0) return Bound::Exactly(a.lower / b.lower);
  if (Same(a, b)) return Bound::Exactly(1);
  // Quotients of the ends; a negative end grows towards zero with the divisor.
  if (a.lower >= 0) {
    r.lower = b.bounded()
                  ? a.lower / std::max<int64_t>(b.upper, 1) + (a.lower % std::max<int64_t>(b.upper, 1) != 0)
                  : (a.lower > 0 ? 1 : 0);
  } else if (!interval::NoLower(EndsOf(a))) {
    r.lower = interval::FloorDiv(a.lower, least);
  }
  if (a.bounded()) r.upper = a.upper >= 0 ? a.upper / least : 0;
  if (r.lower > r.upper) r.lower = r.upper;
  if (!table_ || !Nameable(a, b)) return r;
  return Finish(r, table_->DivExpr(a, b));
}

Bound BoundMath::FloorDiv(const Bound& a, int64_t n) const {
  if (n == 1) return a;
  const Bound r = FromEnds(interval::FloorDiv(EndsOf(a), n));
  if (!table_ || r.exact() || a.expr == kNoExpr) return r;
  return Finish(r, table_->FloorDivExpr(a, n));
}

Bound BoundMath::CeilDiv(const Bound& a, int64_t n) const {
  return FloorDiv(Add(a, Bound::Exactly(n - 1)), n);
}

Bound BoundMath::Max(const Bound& a, const Bound& b) const {
  if (ProvenAtLeast(a, b)) return a;
  if (ProvenAtLeast(b, a)) return b;
  const Bound r = FromEnds(interval::Max(EndsOf(a), EndsOf(b)));
  if (!table_ || !Nameable(a, b)) return r;
  return Finish(r, table_->MaxExpr(a, b));
}

Bound BoundMath::Min(const Bound& a, const Bound& b) const {
  if (ProvenAtLeast(a, b)) return b;
  if (ProvenAtLeast(b, a)) return a;
  const Bound r = FromEnds(interval::Min(EndsOf(a), EndsOf(b)));
  if (!table_ || !Nameable(a, b)) return r;
  return Finish(r, table_->MinExpr(a, b));
}

Bound BoundMath::Neg(const Bound& a) const {
  return Sub(Bound::Exactly(0), a);
}

Bound BoundMath::Union(const Bound& a, const Bound& b) const {
  if (Same(a, b)) return {std::min(a.lower, b.lower), std::max(a.upper, b.upper), a.expr};
  return {std::min(a.lower, b.lower), std::max(a.upper, b.upper), kNoExpr};
}

BoundedShape BoundedShape::Scalar() {
  BoundedShape s;
  s.rank = 0;
  return s;
}

BoundedShape BoundedShape::Of(const Shape& shape) {
  BoundedShape s;
  s.rank = shape.rank();
  for (int i = 0; i < s.rank; ++i) s[i] = Bound::Exactly(shape[i]);
  return s;
}

BoundedShape BoundedShape::OfDims(std::initializer_list<Bound> dims) {
  BoundedShape s = Scalar();
  for (const Bound& d : dims) s.push_back(d);
  return s;
}

void BoundedShape::push_back(const Bound& dim) {
  if (rank < 0) rank = 0;
  if (rank == kMaxRank)
    Throw(Code::kInvalidModel, "a tensor of rank ", rank + 1, " or more; the limit is ", kMaxRank);
  dims[static_cast<size_t>(rank++)] = dim;
}

bool BoundedShape::exact() const {
  if (rank < 0) return false;
  for (int i = 0; i < rank; ++i)
    if (!(*this)[i].exact() || (*this)[i].lower < 0 || !(*this)[i].bounded()) return false;
  return true;
}

Shape BoundedShape::ToShape() const {
  if (!exact()) Throw(Code::kInvalidModel, "the shape ", ToString(), " is not determined");
  Shape s;
  for (int i = 0; i < rank; ++i) s.push_back((*this)[i].lower);
  return s;
}

int64_t BoundedShape::ElementsUpper() const {
  if (rank < 0) return max_elements;
  Ends n{1, 1};
  for (int i = 0; i < rank; ++i) {
    if ((*this)[i].upper <= 0) return 0;
    n = interval::Mul(n, EndsOf((*this)[i]));
  }
  return std::min(n.upper, max_elements);
}

Bound BoundedShape::Elements(const BoundMath& math) const {
  if (rank < 0) return Bound::Between(0, max_elements);
  Bound n = Bound::Exactly(1);
  for (int i = 0; i < rank; ++i) n = math.Mul(n, (*this)[i]);
  if (n.upper > max_elements && n.lower <= max_elements) n.upper = max_elements;
  return n;
}

bool BoundedShape::Contains(const Shape& shape) const {
  Ends n{1, 1};
  for (int64_t d : shape) n = interval::Mul(n, {d, d});
  if (n.upper > max_elements) return false;
  if (rank < 0) return true;
  if (rank != shape.rank()) return false;
  for (int i = 0; i < rank; ++i)
    if (shape[i] < (*this)[i].lower || shape[i] > (*this)[i].upper) return false;
  return true;
}

std::string BoundedShape::ToString(const SymbolTable* table) const {
  std::string s = "[";
  if (rank < 0) s += "...";
  for (int i = 0; i < rank; ++i) {
    const Bound& d = (*this)[i];
    if (i) s += ",";
    if (d.exact()) {
      s += std::to_string(d.lower);
      continue;
    }
    if (table && d.expr != kNoExpr) s += table->ToString(d.expr) + " in ";
    s += std::to_string(d.lower) + ".." + (d.bounded() ? std::to_string(d.upper) : "?");
  }
  s += "]";
  if (max_elements != kUnbounded) s += "<=" + std::to_string(max_elements);
  return s;
}

}  // namespace ullage::ops
