#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/error.h"
#include "ops/bound.h"
#include "ops/interval.h"

namespace ullage::ops {
namespace {

using interval::Ends;

// Larger polynomials stop being useful and start being slow.
constexpr size_t kMaxTerms = 32;
constexpr int kMaxDegree = 8;
constexpr int kRelationDepth = 3;

// Product of powers of atoms: (atom, power) by ascending atom; empty: 1.
using Monomial = std::vector<std::pair<int32_t, int32_t>>;
// Sum of coefficient * monomial, no zero coefficients; empty: 0.
using Poly = std::map<Monomial, int64_t>;

int Degree(const Monomial& m) {
  int degree = 0;
  for (const auto& [atom, power] : m) degree += power;
  return degree;
}

Monomial Times(const Monomial& a, const Monomial& b) {
  Monomial r;
  auto i = a.begin();
  auto j = b.begin();
  while (i != a.end() || j != b.end()) {
    if (j == b.end() || (i != a.end() && i->first < j->first)) {
      r.push_back(*i++);
    } else if (i == a.end() || j->first < i->first) {
      r.push_back(*j++);
    } else {
      r.emplace_back(i->first, i->second + j->second);
      ++i;
      ++j;
    }
  }
  return r;
}

std::optional<Monomial> Over(const Monomial& a, const Monomial& b) {
  Monomial r = a;
  for (const auto& [atom, power] : b) {
    const auto it =
        std::find_if(r.begin(), r.end(), [atom = atom](const auto& factor) { return factor.first == atom; });
    if (it == r.end() || it->second < power) return std::nullopt;
    it->second -= power;
    if (it->second == 0) r.erase(it);
  }
  return r;
}

bool AddTerm(Poly& p, const Monomial& m, int64_t coefficient) {
  const auto [it, fresh] = p.emplace(m, coefficient);
  if (!fresh && __builtin_add_overflow(it->second, coefficient, &it->second)) return false;
  if (it->second == 0) p.erase(it);
  return true;
}

// p += factor * m * q
bool AddScaled(Poly& p, const Poly& q, int64_t factor, const Monomial& m) {
  for (const auto& [monomial, coefficient] : q) {
    int64_t c;
    if (__builtin_mul_overflow(coefficient, factor, &c)) return false;
    Monomial product = Times(monomial, m);
    if (Degree(product) > kMaxDegree || !AddTerm(p, product, c)) return false;
  }
  return p.size() <= kMaxTerms;
}

// Order in which exact division takes leading terms: a product of leading terms is the leading term of the
// product.
bool LexLess(const Monomial& a, const Monomial& b) {
  size_t i = 0;
  for (;; ++i) {
    if (i == a.size() || i == b.size()) return a.size() < b.size();
    if (a[i].first != b[i].first) return a[i].first > b[i].first;
    if (a[i].second != b[i].second) return a[i].second < b[i].second;
  }
}

const std::pair<const Monomial, int64_t>& Leading(const Poly& p) {
  return *std::max_element(p.begin(), p.end(),
                           [](const auto& x, const auto& y) { return LexLess(x.first, y.first); });
}

struct Atom {
  enum Kind { kSymbol, kFloorDiv, kMax, kMin, kBroadcast };
  Kind kind = kSymbol;
  std::string name;         // symbols
  Ends ends;                // symbols
  std::vector<int32_t> of;  // operands: one for kFloorDiv, two or more in ascending order for the others
  int64_t divisor = 1;
};

}  // namespace

struct SymbolTable::Impl {
  std::vector<Atom> atoms;
  std::map<std::string, int32_t, std::less<>> symbols;
  std::map<std::string, int, std::less<>> suffixes;  // last number that Fresh() appended to a hint
  std::map<std::tuple<int, std::vector<int32_t>, int64_t>, int32_t> derived;
  std::vector<Poly> polys;
  std::map<Poly, int32_t> ids;
  std::vector<std::pair<Poly, Ends>> relations;
  mutable std::vector<std::optional<Ends>> known;  // by expr; emptied when a statement is added

  int32_t Intern(Poly p) {
    if (p.size() > kMaxTerms) return kNoExpr;
    const auto [it, fresh] = ids.emplace(std::move(p), static_cast<int32_t>(polys.size()));
    if (fresh) polys.push_back(it->first);
    return it->second;
  }

  std::optional<Poly> PolyOf(const Bound& b) const {
    if (b.expr != kNoExpr) return polys[static_cast<size_t>(b.expr)];
    if (!b.exact()) return std::nullopt;
    Poly p;
    if (b.lower != 0) p[{}] = b.lower;
    return p;
  }

  int32_t InternAtom(int32_t atom) {
    Poly p;
    p[{{atom, 1}}] = 1;
    return Intern(std::move(p));
  }

  int32_t Derive(Atom::Kind kind, std::vector<int32_t> of, int64_t divisor = 1) {
    const auto [it, fresh] =
        derived.emplace(std::tuple{static_cast<int>(kind), of, divisor}, static_cast<int32_t>(atoms.size()));
    if (fresh) {
      Atom atom;
      atom.kind = kind;
      atom.of = std::move(of);
      atom.divisor = divisor;
      atoms.push_back(std::move(atom));
    }
    return InternAtom(it->second);
  }

  // Operands of an expression that is one atom of that kind alone; else the expression itself.
  void Operands(Atom::Kind kind, int32_t expr, std::vector<int32_t>& of) const {
    const Poly& p = polys[static_cast<size_t>(expr)];
    if (p.size() == 1 && p.begin()->second == 1 && p.begin()->first.size() == 1 &&
        p.begin()->first[0].second == 1) {
      const Atom& atom = atoms[static_cast<size_t>(p.begin()->first[0].first)];
      if (atom.kind == kind) {
        of.insert(of.end(), atom.of.begin(), atom.of.end());
        return;
      }
    }
    of.push_back(expr);
  }

  // Max, min and broadcasting are associative, commutative and idempotent: one atom per set of operands.
  int32_t Combine(Atom::Kind kind, const Bound& a, const Bound& b) {
    const int32_t ea = ExprOf(a), eb = ExprOf(b);
    if (ea == kNoExpr || eb == kNoExpr) return kNoExpr;
    std::vector<int32_t> of;
    Operands(kind, ea, of);
    Operands(kind, eb, of);
    std::sort(of.begin(), of.end());
    of.erase(std::unique(of.begin(), of.end()), of.end());
    if (of.size() == 1) return of[0];
    return of.size() > kMaxTerms ? kNoExpr : Derive(kind, std::move(of));
  }

  Ends EndsOfAtom(int32_t id) const {
    const Atom& atom = atoms[static_cast<size_t>(id)];
    if (atom.kind == Atom::kSymbol) return atom.ends;
    Ends ends = EndsOfExpr(atom.of[0]);
    if (atom.kind == Atom::kFloorDiv) return interval::FloorDiv(ends, atom.divisor);
    bool may_be_empty = ends.lower < 1;
    for (size_t i = 1; i < atom.of.size(); ++i) {
      const Ends next = EndsOfExpr(atom.of[i]);
      may_be_empty |= next.lower < 1;
      ends = atom.kind == Atom::kMin ? interval::Min(ends, next) : interval::Max(ends, next);
    }
    if (atom.kind == Atom::kBroadcast && may_be_empty) ends.lower = 0;
    return ends;
  }

  Ends EndsOfMonomial(const Monomial& m) const {
    Ends r{1, 1};
    for (const auto& [atom, power] : m)
      for (int i = 0; i < power; ++i) r = interval::Mul(r, EndsOfAtom(atom));
    return r;
  }

  Ends EndsOfPoly(const Poly& p, int depth) const {
    Ends ends{0, 0};
    for (const auto& [monomial, coefficient] : p)
      ends = interval::Add(ends, interval::Mul({coefficient, coefficient}, EndsOfMonomial(monomial)));
    if (depth == 0) return ends;
    // p = q * relation + rest, where q is a multiple of a monomial that makes p shorter.
    for (const auto& [relation, stated] : relations) {
      for (const auto& [monomial, coefficient] : p) {
        for (const auto& [divisor, divisor_coefficient] : relation) {
          const auto quotient = Over(monomial, divisor);
          if (!quotient || coefficient % divisor_coefficient != 0) continue;
          const int64_t factor = coefficient / divisor_coefficient;
          Poly rest = p;
          if (factor == INT64_MIN || !AddScaled(rest, relation, -factor, *quotient) ||
              rest.size() >= p.size())
            continue;
          const Ends scale = interval::Mul({factor, factor}, EndsOfMonomial(*quotient));
          ends = interval::Intersect(
              ends, interval::Add(interval::Mul(scale, stated), EndsOfPoly(rest, depth - 1)));
        }
      }
    }
    return ends;
  }

  Ends EndsOfExpr(int32_t expr) const {
    const auto i = static_cast<size_t>(expr);
    if (i < known.size() && known[i]) return *known[i];
    const Ends ends = EndsOfPoly(polys[i], kRelationDepth);
    if (known.size() < polys.size()) known.resize(polys.size());
    known[i] = ends;
    return ends;
  }

  std::string AtomName(const SymbolTable& table, int32_t id) const {
    const Atom& atom = atoms[static_cast<size_t>(id)];
    if (atom.kind == Atom::kSymbol) return atom.name;
    if (atom.kind == Atom::kFloorDiv)
      return "floor((" + table.ToString(atom.of[0]) + ")/" + std::to_string(atom.divisor) + ")";
    std::string text = atom.kind == Atom::kMax ? "max(" : atom.kind == Atom::kMin ? "min(" : "broadcast(";
    for (size_t i = 0; i < atom.of.size(); ++i) text += (i ? ", " : "") + table.ToString(atom.of[i]);
    return text + ")";
  }

  std::optional<std::vector<Term>> TermsOf(const Poly& p) const {
    std::vector<Term> terms;
    for (const auto& [monomial, coefficient] : p) {
      Term term{coefficient, {}};
      for (const auto& [id, power] : monomial) {
        const Atom& atom = atoms[static_cast<size_t>(id)];
        if (atom.kind != Atom::kSymbol) return std::nullopt;
        term.symbols.insert(term.symbols.end(), static_cast<size_t>(power), atom.name);
      }
      terms.push_back(std::move(term));
    }
    return terms;
  }

  void UnboundedSymbols(int32_t expr, std::set<std::string>* names) const {
    for (const auto& [monomial, coefficient] : polys[static_cast<size_t>(expr)])
      for (const auto& [id, power] : monomial) {
        const Atom& atom = atoms[static_cast<size_t>(id)];
        if (atom.kind == Atom::kSymbol && atom.ends.upper == kUnbounded) names->insert(atom.name);
        for (int32_t of : atom.of) UnboundedSymbols(of, names);
      }
  }

  // The expression of an exact number or an expression.
  int32_t ExprOf(const Bound& b) {
    if (b.expr != kNoExpr) return b.expr;
    auto p = PolyOf(b);
    return p ? Intern(std::move(*p)) : kNoExpr;
  }
};

SymbolTable::SymbolTable() : impl_(std::make_unique<Impl>()) {}
SymbolTable::~SymbolTable() = default;

Bound SymbolTable::Symbol(std::string_view name, int64_t lower, int64_t upper) {
  lower = std::max<int64_t>(lower, 0);
  auto it = impl_->symbols.find(name);
  if (it == impl_->symbols.end()) {
    Atom atom;
    atom.name = name;
    atom.ends = {lower, std::max(upper, lower)};
    it = impl_->symbols.emplace(std::string(name), static_cast<int32_t>(impl_->atoms.size())).first;
    impl_->atoms.push_back(std::move(atom));
  } else {
    Ends& ends = impl_->atoms[static_cast<size_t>(it->second)].ends;
    const Ends both = interval::Intersect(ends, {lower, upper});
    if (both.lower != ends.lower || both.upper != ends.upper) {
      ends = both;
      impl_->known.clear();
    }
  }
  return BoundOf(impl_->InternAtom(it->second));
}

Bound SymbolTable::Fresh(std::string_view hint, int64_t lower, int64_t upper) {
  std::string name(hint);
  if (impl_->symbols.count(name)) {
    int& n = impl_->suffixes[name];
    do name = std::string(hint) + "#" + std::to_string(++n);
    while (impl_->symbols.count(name));
  }
  return Symbol(name, lower, upper);
}

void SymbolTable::Restrict(int32_t expr, int64_t lower, int64_t upper) {
  if (expr == kNoExpr) return;
  const Poly& p = impl_->polys[static_cast<size_t>(expr)];
  if (p.empty() || (p.size() == 1 && p.begin()->first.empty())) return;
  impl_->relations.emplace_back(p, Ends{lower, upper});
  impl_->known.clear();
}

int32_t SymbolTable::AddExpr(const Bound& a, const Bound& b, int64_t factor_b) {
  auto p = impl_->PolyOf(a);
  const auto q = impl_->PolyOf(b);
  if (!p || !q || !AddScaled(*p, *q, factor_b, {})) return kNoExpr;
  return impl_->Intern(std::move(*p));
}

int32_t SymbolTable::MulExpr(const Bound& a, const Bound& b) {
  const auto p = impl_->PolyOf(a);
  const auto q = impl_->PolyOf(b);
  if (!p || !q) return kNoExpr;
  Poly r;
  for (const auto& [monomial, coefficient] : *p)
    if (!AddScaled(r, *q, coefficient, monomial)) return kNoExpr;
  return impl_->Intern(std::move(r));
}

int32_t SymbolTable::DivExpr(const Bound& a, const Bound& b) {
  auto rest = impl_->PolyOf(a);
  const auto divisor = impl_->PolyOf(b);
  if (!rest || !divisor || divisor->empty()) return kNoExpr;
  const auto& [lead, lead_coefficient] = Leading(*divisor);
  Poly quotient;
  while (!rest->empty()) {
    const auto [monomial, coefficient] = Leading(*rest);
    const auto m = Over(monomial, lead);
    if (!m || coefficient == INT64_MIN || coefficient % lead_coefficient != 0) return kNoExpr;
    const int64_t c = coefficient / lead_coefficient;
    if (!AddTerm(quotient, *m, c) || !AddScaled(*rest, *divisor, -c, *m) || quotient.size() > kMaxTerms)
      return kNoExpr;
  }
  return impl_->Intern(std::move(quotient));
}

int32_t SymbolTable::FloorDivExpr(const Bound& a, int64_t n) {
  const auto p = impl_->PolyOf(a);
  if (!p || n <= 0) return kNoExpr;
  // floor((n * q + r) / n) = q + floor(r / n)
  Poly whole, rest;
  for (const auto& [monomial, coefficient] : *p) {
    const int64_t q = interval::FloorDiv(coefficient, n);
    if (q != 0) whole[monomial] = q;
    if (coefficient - q * n != 0) rest[monomial] = coefficient - q * n;
  }
  if (rest.empty() || (rest.size() == 1 && rest.begin()->first.empty()))
    return impl_->Intern(std::move(whole));
  const int32_t r = impl_->Intern(std::move(rest));
  const int32_t w = impl_->Intern(std::move(whole));
  if (r == kNoExpr || w == kNoExpr) return kNoExpr;
  Bound left = BoundOf(w), right = BoundOf(impl_->Derive(Atom::kFloorDiv, {r}, n));
  return AddExpr(left, right);
}

int32_t SymbolTable::MaxExpr(const Bound& a, const Bound& b) {
  return impl_->Combine(Atom::kMax, a, b);
}

int32_t SymbolTable::MinExpr(const Bound& a, const Bound& b) {
  return impl_->Combine(Atom::kMin, a, b);
}

int32_t SymbolTable::BroadcastExpr(const Bound& a, const Bound& b) {
  return impl_->Combine(Atom::kBroadcast, a, b);
}

Bound SymbolTable::BoundOf(int32_t expr) const {
  if (expr == kNoExpr) return Bound::Anything();
  const Ends ends = impl_->EndsOfExpr(expr);
  const bool constant = ends.lower == ends.upper;
  return {ends.lower, ends.upper, constant ? kNoExpr : expr};
}

std::optional<std::vector<SymbolTable::Term>> SymbolTable::TermsOf(int32_t expr) const {
  if (expr == kNoExpr) return std::nullopt;
  return impl_->TermsOf(impl_->polys[static_cast<size_t>(expr)]);
}

std::vector<SymbolTable::Relation> SymbolTable::Relations() const {
  std::vector<Relation> all;
  for (const auto& [poly, ends] : impl_->relations)
    if (auto terms = impl_->TermsOf(poly)) all.push_back({std::move(*terms), ends.lower, ends.upper});
  return all;
}

std::vector<std::string> SymbolTable::UnboundedSymbols(int32_t expr) const {
  std::set<std::string> names;
  if (expr != kNoExpr) impl_->UnboundedSymbols(expr, &names);
  return {names.begin(), names.end()};
}

std::string SymbolTable::ToString(int32_t expr) const {
  if (expr == kNoExpr) return "?";
  const Poly& p = impl_->polys[static_cast<size_t>(expr)];
  if (p.empty()) return "0";
  std::string text;
  for (auto it = p.rbegin(); it != p.rend(); ++it) {
    const auto& [monomial, coefficient] = *it;
    if (!text.empty())
      text += coefficient < 0 ? " - " : " + ";
    else if (coefficient < 0)
      text += "-";
    const std::string magnitude = std::to_string(coefficient).substr(coefficient < 0 ? 1 : 0);
    if (monomial.empty() || magnitude != "1") text += magnitude + (monomial.empty() ? "" : "*");
    for (size_t i = 0; i < monomial.size(); ++i) {
      text += (i ? "*" : "") + impl_->AtomName(*this, monomial[i].first);
      if (monomial[i].second > 1) text += "^" + std::to_string(monomial[i].second);
    }
  }
  return text;
}

}  // namespace ullage::ops
