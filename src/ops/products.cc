#include "ops/products.h"

#include "ops/families.h"

namespace ullage::ops {

BoundedShape MatMulShape(ShapeContext& c, const BoundedShape& a, const BoundedShape& b) {
  if (!a.known_rank() || !b.known_rank()) return BoundedShape::Unknown();
  if (a.rank == 0 || b.rank == 0) c.Fail("a product with a scalar");
  CheckEqual(c, a.at(-1), b.rank == 1 ? b[0] : b.at(-2), "inner dimensions");
  BoundedShape batch_a = a, batch_b = b;
  batch_a.rank = std::max(a.rank - 2, 0);
  batch_b.rank = std::max(b.rank - 2, 0);
  BoundedShape out = Broadcast(c, batch_a, batch_b);
  out.max_elements = kUnbounded;
  if (a.rank > 1) out.push_back(a.at(-2));
  if (b.rank > 1) out.push_back(b.at(-1));
  return out;
}

BoundedShape LinearShape(ShapeContext& c, const BoundedShape& a, int64_t k, const Bound& n) {
  if (!a.known_rank()) return BoundedShape::Unknown();
  if (a.rank == 0) c.Fail("the input is a scalar");
  CheckEqual(c, a.at(-1), Bound::Exactly(k), "the input's last dimension and K");
  BoundedShape out = a;
  out.max_elements = kUnbounded;
  out[a.rank - 1] = n;
  return out;
}

namespace {

void MatMul(ShapeContext& c) {
  CheckSameType(c, 0, 1);
  c.Set(0, c.dtype(0), MatMulShape(c, c.shape(0), c.shape(1)));
}

void MatMulInteger(ShapeContext& c) {
  c.Set(0, DType::kInt32, MatMulShape(c, c.shape(0), c.shape(1)));
}

// a, a_scale, a_zp, b, b_scale, b_zp, y_scale, y_zp
void QLinearMatMul(ShapeContext& c) {
  c.Set(0, c.dtype(7), MatMulShape(c, c.shape(0), c.shape(3)));
}

void MatMulIntegerToFloat(ShapeContext& c) {
  c.Set(0, c.dtype(2), MatMulShape(c, c.shape(0), c.shape(1)));
}

void DynamicQuantizeMatMul(ShapeContext& c) {
  c.Set(0, c.dtype(0), MatMulShape(c, c.shape(0), c.shape(1)));
}

BoundedShape GemmShape(ShapeContext& c, int a, int b) {
  CheckRank(c, a, 2);
  CheckRank(c, b, 2);
  const bool ta = c.node().Int("transA", 0) != 0, tb = c.node().Int("transB", 0) != 0;
  BoundedShape out = AnyDims(2);
  const BoundedShape &sa = c.shape(a), &sb = c.shape(b);
  if (sa.known_rank()) out[0] = sa[ta];
  if (sb.known_rank()) out[1] = sb[!tb];
  if (sa.known_rank() && sb.known_rank()) CheckEqual(c, sa[!ta], sb[tb], "inner dimensions");
  return out;
}

// The added matrix is stretched to the product.
void CheckBias(ShapeContext& c, int i, const BoundedShape& out) {
  if (!c.has(i) || !c.shape(i).known_rank()) return;
  const BoundedShape& s = c.shape(i);
  if (s.rank > 2) c.Fail("input ", i, " of shape ", s.ToString(), " does not fit the product");
  for (int k = 1; k <= s.rank; ++k)
    if (s.at(-k).lower > 1) CheckEqual(c, s.at(-k), out.at(-k), "bias and product dimensions");
}

void Gemm(ShapeContext& c) {
  CheckSameType(c, 0, 1);
  const BoundedShape out = GemmShape(c, 0, 1);
  CheckBias(c, 2, out);
  c.Set(0, c.dtype(0), out);
}

// A, a_scale, a_zp, B, b_scale, b_zp, C?, y_scale?, y_zp?
void QGemm(ShapeContext& c) {
  const BoundedShape out = GemmShape(c, 0, 3);
  CheckBias(c, 6, out);
  c.Set(0, c.has(8) ? c.dtype(8) : DType::kFloat, out);
}

// The batch dimension before the two of the matrix may be folded into them by transBatch: [B, M, K] from
// [M, B, K].
BoundedShape Transposed(const BoundedShape& s, bool trans, bool trans_batch) {
  BoundedShape t = s;
  if (!t.known_rank() || t.rank < 2) return t;
  if (trans_batch) {
    // perm: dims 1 .. rank-2 move to the front, dim 0 becomes row (or, with trans, is swapped with the last).
    for (int i = 0; i + 2 < t.rank; ++i) t[i] = s[i + 1];
    t[t.rank - 2] = s[0];
  }
  if (trans) std::swap(t[t.rank - 2], t[t.rank - 1]);
  return t;
}

void FusedMatMul(ShapeContext& c) {
  CheckSameType(c, 0, 1);
  const graph::Node& n = c.node();
  c.Set(0, c.dtype(0),
        MatMulShape(c, Transposed(c.shape(0), n.Int("transA", 0) != 0, n.Int("transBatchA", 0) != 0),
                    Transposed(c.shape(1), n.Int("transB", 0) != 0, n.Int("transBatchB", 0) != 0)));
}

// One operand's subscripts: letters, and an ellipsis somewhere (position in the letters, or -1).
struct Subscripts {
  std::array<char, kMaxRank> letters{};
  int count = 0;
  int ellipsis = -1;
};

Subscripts ParseSubscripts(ShapeContext& c, std::string_view text) {
  Subscripts s;
  for (size_t i = 0; i < text.size(); ++i) {
    const char ch = text[i];
    if (ch == ' ') continue;
    if (ch == '.') {
      if (s.ellipsis >= 0 || text.substr(i, 3) != "...") c.Fail("bad equation term \"", text, "\"");
      s.ellipsis = s.count;
      i += 2;
      continue;
    }
    if (!((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z'))) c.Fail("bad equation term \"", text, "\"");
    if (s.count == kMaxRank) c.Fail("equation term \"", text, "\" has too many letters");
    s.letters[static_cast<size_t>(s.count++)] = ch;
  }
  return s;
}

void Einsum(ShapeContext& c) {
  const std::string_view equation = c.node().StrView("equation", "");
  if (equation.empty()) c.Fail("attribute equation is missing");
  const size_t arrow = equation.find("->");
  std::string_view terms = equation.substr(0, arrow);
  std::array<Bound, 128> dim;
  std::array<int, 128> uses{};
  std::array<bool, 128> known{};
  BoundedShape ellipsis = BoundedShape::Scalar();
  bool any_ellipsis = false;
  for (int i = 0; i < c.input_count(); ++i) {
    if (!c.has(i)) c.Fail("input ", i, " is missing");
    CheckSameType(c, 0, i);
    const size_t comma = terms.find(',');
    if ((comma == std::string_view::npos) != (i + 1 == c.input_count()))
      c.Fail("equation \"", equation, "\" does not have ", c.input_count(), " terms");
    const Subscripts s = ParseSubscripts(c, terms.substr(0, comma));
    terms = comma == std::string_view::npos ? std::string_view() : terms.substr(comma + 1);
    const BoundedShape& shape = c.shape(i);
    for (int k = 0; k < s.count; ++k) ++uses[static_cast<size_t>(s.letters[static_cast<size_t>(k)])];
    if (!shape.known_rank()) {
      any_ellipsis |= s.ellipsis >= 0;
      if (s.ellipsis >= 0) ellipsis = BoundedShape::Unknown();
      for (int k = 0; k < s.count; ++k) {
        const auto letter = static_cast<size_t>(s.letters[static_cast<size_t>(k)]);
        if (!known[letter]) dim[letter] = Bound();
      }
      continue;
    }
    const int extra = shape.rank - s.count;
    if (extra < 0 || (extra > 0 && s.ellipsis < 0))
      c.Fail("input ", i, " of shape ", shape.ToString(), " does not match equation \"", equation, "\"");
    for (int k = 0; k < s.count; ++k) {
      const auto letter = static_cast<size_t>(s.letters[static_cast<size_t>(k)]);
      const Bound& d = shape[s.ellipsis >= 0 && k >= s.ellipsis ? k + extra : k];
      dim[letter] = known[letter] ? BroadcastDim(c, dim[letter], d) : d;
      known[letter] = true;
    }
    if (s.ellipsis >= 0) {
      any_ellipsis = true;
      BoundedShape part = BoundedShape::Scalar();
      for (int k = 0; k < extra; ++k) part.push_back(shape[s.ellipsis + k]);
      ellipsis = Broadcast(c, ellipsis, part);
    }
  }
  Subscripts out_terms;
  if (arrow != std::string_view::npos) {
    out_terms = ParseSubscripts(c, equation.substr(arrow + 2));
  } else {
    // Letters that occur once, in alphabetical order, after the ellipsis.
    if (any_ellipsis) out_terms.ellipsis = 0;
    for (size_t letter = 0; letter < uses.size(); ++letter) {
      if (uses[letter] != 1) continue;
      if (out_terms.count == kMaxRank) c.Fail("the result has too many dimensions");
      out_terms.letters[static_cast<size_t>(out_terms.count++)] = static_cast<char>(letter);
    }
  }
  if (out_terms.ellipsis >= 0 && !ellipsis.known_rank()) {
    c.Set(0, c.dtype(0), BoundedShape::Unknown());
    return;
  }
  BoundedShape out = BoundedShape::Scalar();
  for (int k = 0; k <= out_terms.count; ++k) {
    if (k == out_terms.ellipsis)
      for (int e = 0; e < ellipsis.rank; ++e) out.push_back(ellipsis[e]);
    if (k == out_terms.count) break;
    const auto letter = static_cast<size_t>(out_terms.letters[static_cast<size_t>(k)]);
    if (uses[letter] == 0) c.Fail("letter ", static_cast<char>(letter), " of the result is in no input");
    out.push_back(dim[letter]);
  }
  c.Set(0, c.dtype(0), out);
}

void Det(ShapeContext& c) {
  CheckRankAtLeast(c, 0, 2);
  BoundedShape out = c.shape(0);
  out.max_elements = kUnbounded;
  if (out.known_rank()) out.rank -= 2;
  c.Set(0, c.dtype(0), out);
}

}  // namespace

void RegisterProducts(Registry& ops) {
  const std::string_view ms = graph::kMsDomain;
  ops.push_back({.name = "MatMul", .since = 1, .min_inputs = 2, .max_inputs = 2, .rule = MatMul});
  ops.push_back(
      {.name = "MatMulInteger", .since = 10, .min_inputs = 2, .max_inputs = 4, .rule = MatMulInteger});
  ops.push_back(
      {.name = "QLinearMatMul", .since = 10, .min_inputs = 8, .max_inputs = 8, .rule = QLinearMatMul});
  ops.push_back({.name = "Gemm", .since = 1, .min_inputs = 2, .max_inputs = 3, .rule = Gemm});
  ops.push_back({.name = "Einsum", .since = 12, .min_inputs = 1, .max_inputs = -1, .rule = Einsum});
  ops.push_back({.name = "Det", .since = 11, .rule = Det});
  ops.push_back({.domain = ms, .name = "FusedMatMul", .min_inputs = 2, .max_inputs = 2, .rule = FusedMatMul});
  ops.push_back(
      {.domain = ms, .name = "TransposeMatMul", .min_inputs = 2, .max_inputs = 2, .rule = FusedMatMul});
  ops.push_back({.domain = ms, .name = "FusedGemm", .min_inputs = 2, .max_inputs = 3, .rule = Gemm});
  ops.push_back({.domain = ms, .name = "GemmFastGelu", .min_inputs = 2, .max_inputs = 3, .rule = MatMul});
  ops.push_back({.domain = ms, .name = "QGemm", .min_inputs = 6, .max_inputs = 9, .rule = QGemm});
  ops.push_back({.domain = ms,
                 .name = "MatMulIntegerToFloat",
                 .min_inputs = 4,
                 .max_inputs = 7,
                 .rule = MatMulIntegerToFloat});
  ops.push_back({.domain = ms,
                 .name = "DynamicQuantizeMatMul",
                 .min_inputs = 3,
                 .max_inputs = 5,
                 .rule = DynamicQuantizeMatMul});
  ops.push_back(
      {.domain = ms, .name = "MatMulInteger16", .min_inputs = 2, .max_inputs = 2, .rule = MatMulInteger});
}

}  // namespace ullage::ops
