#include <optional>
#include <utility>

#include "core/error.h"
#include "ops/families.h"

namespace ullage::ops {
namespace {

// Rounds of a loop whose facts may still change before they are widened.
constexpr int kExactRounds = 3;
// A loop of at most so many rounds is followed round by round.
constexpr int64_t kUnrolledRounds = 48;

bool SameBound(const Bound& a, const Bound& b) {
  return a.lower == b.lower && a.upper == b.upper && a.expr == b.expr;
}

bool SameFacts(const ValueFacts& a, const ValueFacts& b) {
  if (a.dtype != b.dtype || a.kind != b.kind || !SameBound(a.length, b.length) ||
      a.shape.rank != b.shape.rank || a.shape.max_elements != b.shape.max_elements || !a.values != !b.values)
    return false;
  for (int i = 0; i < a.shape.rank; ++i)
    if (!SameBound(a.shape[i], b.shape[i])) return false;
  if (!a.values) return true;
  if (a.values->count != b.values->count) return false;
  for (int i = 0; i < a.values->count; ++i)
    if (!SameBound((*a.values)[i], (*b.values)[i])) return false;
  return true;
}

ValueFacts UnionFacts(const ShapeContext& c, const ValueFacts& a, const ValueFacts& b) {
  if (SameFacts(a, b)) return a;
  if (a.dtype != b.dtype && a.dtype != DType::kUndefined && b.dtype != DType::kUndefined)
    c.Fail("a result has type ", NameOf(a.dtype), " on one way and ", NameOf(b.dtype), " on another");
  const auto is_sequence = [](const ValueFacts& f) {
    return f.kind == graph::TypeKind::kSequence || f.kind == graph::TypeKind::kOptionalSequence;
  };
  if (a.kind != b.kind && !(is_sequence(a) && is_sequence(b)))
    c.Fail("a result is a tensor on one way and none on another");
  ValueFacts r;
  r.dtype = a.dtype == DType::kUndefined ? b.dtype : a.dtype;
  r.kind = a.kind == b.kind ? a.kind : graph::TypeKind::kOptionalSequence;
  r.length = c.math().Union(a.length, b.length);
  // Of a sequence without elements nothing is said about them.
  const bool a_empty = r.kind != graph::TypeKind::kTensor && a.length.upper == 0,
             b_empty = r.kind != graph::TypeKind::kTensor && b.length.upper == 0;
  r.shape = a_empty ? b.shape : b_empty ? a.shape : UnionOf(c.math(), a.shape, b.shape);
  if (a.values && b.values && a.values->count == b.values->count && r.shape.exact()) {
    auto v = std::make_shared<BoundedValues>(*a.values);
    for (int i = 0; i < v->count; ++i) (*v)[i] = c.math().Union((*v)[i], (*b.values)[i]);
    r.values = std::move(v);
  }
  return r;
}

// Gives up what changed from one round to the next.
ValueFacts Widen(const ValueFacts& before, const ValueFacts& after) {
  ValueFacts r = after;
  if (after.shape.rank >= 0 && before.shape.rank == after.shape.rank)
    for (int i = 0; i < r.shape.rank; ++i)
      if (!SameBound(before.shape[i], after.shape[i])) r.shape[i] = Bound();
  if (!SameBound(before.length, after.length)) r.length = Bound();
  if (before.shape.max_elements != after.shape.max_elements) r.shape.max_elements = kUnbounded;
  if (before.values && after.values && !SameFacts(before, after)) r.values = nullptr;
  return r;
}

void Publish(ShapeContext& c, int o, const ValueFacts& f) {
  if (!c.wants(o)) return;
  c.Set(o, f.dtype, f.shape);
  if (f.kind != graph::TypeKind::kTensor) c.SetKind(o, f.kind, f.length);
  if (f.values && c.wants_values()) c.SetValues(o, *f.values);
}

std::shared_ptr<graph::Graph> Body(const ShapeContext& c, std::string_view key) {
  auto body = c.node().Subgraph(key);
  if (!body) c.Fail("attribute ", key, " is missing");
  return body;
}

ValueFacts InputFacts(const ShapeContext& c, int i) {
  ValueFacts f;
  f.dtype = c.dtype(i);
  f.shape = c.shape(i);
  f.kind = c.kind(i);
  f.length = c.length(i);
  if (const BoundedValues* v = c.values(i)) f.values = std::make_shared<BoundedValues>(*v);
  return f;
}

void If(ShapeContext& c) {
  const Bound condition = ScalarValue(c, 0);
  const bool is_true = condition.lower > 0, is_false = condition.exact() && condition.lower == 0;
  std::vector<ValueFacts> facts;
  std::optional<Error> refused;
  bool taken = false;
  for (const bool branch : {true, false}) {
    if (branch ? is_false : is_true) continue;
    const auto body = Body(c, branch ? "then_branch" : "else_branch");
    if (static_cast<int>(body->outputs.size()) < c.output_count())
      c.Fail("a branch gives ", body->outputs.size(), " results, expected ", c.output_count());
    std::vector<ValueFacts> results;
    try {
      results = c.RunSubgraph(*body, {});
    } catch (const Error& error) {
      // No input makes it valid: runs take the other branch, or are refused.
      if (is_true || is_false || refused || error.code() != Code::kInvalidModel) throw;
      refused = error;
      c.RefuseSubgraph(*body, error.message());
      continue;
    }
    if (!std::exchange(taken, true)) {
      facts = std::move(results);
    } else {
      for (size_t i = 0; i < facts.size() && i < results.size(); ++i)
        facts[i] = UnionFacts(c, facts[i], results[i]);
    }
  }
  for (int o = 0; o < c.output_count() && o < static_cast<int>(facts.size()); ++o)
    Publish(c, o, facts[static_cast<size_t>(o)]);
}

// A body's inputs are before, carried, after; the first `skip` results come before the carried ones.
struct LoopBody {
  const graph::Graph& graph;
  std::vector<ValueFacts> before;
  std::vector<ValueFacts> after;
  size_t skip = 0;
  int64_t trips = kUnbounded;  // the most rounds that can happen

  std::vector<ValueFacts> Round(ShapeContext& c, const std::vector<ValueFacts>& carried) const {
    std::vector<ValueFacts> inputs = before;
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    inputs.insert(inputs.end(), after.begin(), after.end());
    std::vector<ValueFacts> results = c.RunSubgraph(graph, inputs);
    if (results.size() < skip + carried.size()) c.Fail("the body gives too few results");
    return results;
  }
};

// Calls fn for each number of which facts of one rank consist: the dimensions, and the length of a sequence.
template <class Fn>
void EachNumber(ValueFacts& f, const Fn& fn) {
  for (int d = 0; d < f.shape.rank; ++d) fn(f.shape[d], d);
  if (f.kind != graph::TypeKind::kTensor) fn(f.length, kMaxRank);
}

const Bound& NumberOf(const ValueFacts& f, int at) {
  return at == kMaxRank ? f.length : f.shape[at];
}

void DropExprs(ValueFacts& f) {
  EachNumber(f, [](Bound& b, int) { b.expr = kNoExpr; });
}

// Numbers that grew from `carried` to `next` may grow by as much in each of the rounds that are left. That is
// proved by one round from symbols that reach as far: each comes out at most that much larger than it went
// in. On success `carried` holds for all rounds, and the results of the body with it are returned.
std::optional<std::vector<ValueFacts>> Extrapolate(ShapeContext& c, const LoopBody& body,
                                                   std::vector<ValueFacts>& carried,
                                                   const std::vector<ValueFacts>& next, int64_t rounds) {
  SymbolTable* table = c.math().table();
  if (table == nullptr || body.trips == kUnbounded) return std::nullopt;
  struct Growth {
    size_t value;
    int at;
    Bound symbol;
    int64_t step;
  };
  std::vector<Growth> growing;
  std::vector<ValueFacts> wide = next;
  for (size_t i = 0; i < wide.size(); ++i) {
    ValueFacts& f = wide[i];
    if (SameFacts(carried[i], f)) continue;
    if (f.shape.rank != carried[i].shape.rank || f.shape.rank < 0) return std::nullopt;
    f.values = nullptr;
    f.shape.max_elements = kUnbounded;
    bool bounded = true;
    EachNumber(f, [&](Bound& b, int at) {
      const Bound& from = NumberOf(carried[i], at);
      if (SameBound(from, b)) return;
      bounded &= b.bounded() && b.lower >= 0;
      if (!bounded) return;
      const int64_t step = b.upper - from.upper;
      const Bound most = c.math().Add(Bound::Exactly(from.upper),
                                      c.math().Mul(Bound::Exactly(step), Bound::Exactly(rounds)));
      bounded = most.bounded();
      if (bounded) {
        b = table->Fresh(c.node().name, b.lower, std::max(most.upper, b.upper));
        growing.push_back({i, at, b, step});
      }
    });
    if (!bounded) return std::nullopt;
  }
  auto results = body.Round(c, wide);
  for (size_t i = 0; i < wide.size(); ++i) {
    const ValueFacts& result = results[body.skip + i];
    if (result.kind != wide[i].kind || result.shape.rank != wide[i].shape.rank) return std::nullopt;
    bool holds = true;
    EachNumber(wide[i], [&](Bound& b, int at) {
      const Bound& out = NumberOf(result, at);
      const auto grows = std::find_if(growing.begin(), growing.end(),
                                      [&](const Growth& g) { return g.value == i && g.at == at; });
      holds &= out.lower >= b.lower;
      holds &= grows == growing.end() ? Same(out, b) || out.upper <= b.upper
                                      : c.math().Sub(out, grows->symbol).upper <= grows->step;
    });
    // Contents that were kept must hold for every round.
    if (!holds || (wide[i].values && !SameFacts(UnionFacts(c, wide[i], result), wide[i])))
      return std::nullopt;
  }
  carried = std::move(wide);
  for (auto& f : carried) DropExprs(f);
  for (auto& f : results) DropExprs(f);
  return results;
}

// Widens `carried` until it holds before and after every round; returns the body's results for it.
std::vector<ValueFacts> FixedPoint(ShapeContext& c, const LoopBody& body, std::vector<ValueFacts>& carried) {
  bool tried = false;
  for (int64_t round = 0;; ++round) {
    auto results = body.Round(c, carried);
    if (body.trips == 0) return results;
    std::vector<ValueFacts> next;
    bool changed = false;
    for (size_t i = 0; i < carried.size(); ++i) {
      next.push_back(UnionFacts(c, carried[i], results[body.skip + i]));
      changed |= !SameFacts(carried[i], next[i]);
    }
    if (!changed) return results;
    // All rounds that can happen have been looked at.
    if (body.trips <= kUnrolledRounds) {
      carried = std::move(next);
      if (round + 1 >= body.trips) return results;
      continue;
    }
    if (round >= kExactRounds) {
      if (!std::exchange(tried, true))
        if (auto all = Extrapolate(c, body, carried, next, body.trips - round)) return *all;
      for (size_t i = 0; i < carried.size(); ++i) next[i] = Widen(carried[i], next[i]);
    }
    carried = std::move(next);
    // After widening each fact can only lose what is left: a few rounds per dimension at most.
    if (round > kExactRounds + 2 + (kMaxRank + 1) * static_cast<int64_t>(carried.size()))
      c.Fail("the shapes of the loop do not settle");
  }
}

ValueFacts Stacked(const ShapeContext& c, const ValueFacts& f, const Bound& count, int axis) {
  ValueFacts r;
  r.dtype = f.dtype;
  if (!f.shape.known_rank()) return r;
  const int rank = f.shape.rank + 1;
  const int at = c.Axis(axis, rank);
  r.shape.rank = 0;
  for (int i = 0, k = 0; i < rank; ++i) r.shape.push_back(i == at ? count : f.shape[k++]);
  return r;
}

// M?, cond?, v_initial... -> v_final..., scan outputs...; body: iteration, cond, v... -> cond, v..., scan...
void Loop(ShapeContext& c) {
  const auto body = Body(c, "body");
  const size_t carried_count = c.input_count() > 2 ? static_cast<size_t>(c.input_count()) - 2 : 0;
  if (body->inputs.size() != carried_count + 2)
    c.Fail("the body has ", body->inputs.size(), " inputs, expected ", carried_count + 2);
  if (body->outputs.size() < carried_count + 1 ||
      static_cast<int>(body->outputs.size()) - 1 < c.output_count())
    c.Fail("the body gives ", body->outputs.size(), " results for ", c.output_count(), " of the loop");
  const Bound limit = c.has(0) ? ScalarValue(c, 0) : Bound::Anything();
  const Bound most = c.math().Max(limit, Bound::Exactly(0));
  const Bound start = c.has(1) ? ScalarValue(c, 1) : Bound::Exactly(1);

  ValueFacts iteration, condition;
  iteration.dtype = DType::kInt64;
  iteration.shape = BoundedShape::Scalar();
  auto number = std::make_shared<BoundedValues>();
  number->count = 1;
  (*number)[0] = Bound::Between(0, most.bounded() ? std::max<int64_t>(most.upper - 1, 0) : kUnbounded);
  iteration.values = number;
  condition.dtype = DType::kBool;
  condition.shape = BoundedShape::Scalar();
  auto truth = std::make_shared<BoundedValues>();
  truth->count = 1;
  (*truth)[0] = Bound::Exactly(1);  // the body runs only when it holds
  condition.values = truth;

  std::vector<ValueFacts> carried;
  for (size_t i = 0; i < carried_count; ++i) carried.push_back(InputFacts(c, static_cast<int>(i) + 2));
  const LoopBody rounds{
      *body, {iteration, condition}, {}, 1, start.exact() && start.lower == 0 ? 0 : most.upper};
  const auto results = FixedPoint(c, rounds, carried);

  const bool stops = start.exact() && start.lower == 0;
  const bool goes_on = start.lower > 0 && results[0].values && results[0].values->count == 1 &&
                       (*results[0].values)[0].lower > 0;
  const Bound trips = stops ? Bound::Exactly(0) : goes_on && c.has(0) ? most : Bound::Between(0, most.upper);
  int o = 0;
  for (size_t i = 0; i < carried_count; ++i) Publish(c, o++, carried[i]);
  for (size_t i = carried_count + 1; o < c.output_count(); ++i)
    Publish(c, o++, Stacked(c, results[i], trips, 0));
}

// Version 8 has an optional input of sequence lengths in front and a batch axis before everything; later ones
// scan along any axis.
void Scan(ShapeContext& c) {
  const auto body = Body(c, "body");
  const bool batched = !SinceOpset(c, 9);
  const int first = batched ? 1 : 0;
  const int64_t scanned = c.node().RequiredInt("num_scan_inputs");
  const int given = c.input_count() - first;
  if (scanned < 1 || scanned > given) c.Fail("num_scan_inputs is ", scanned);
  const int states = given - static_cast<int>(scanned);
  if (static_cast<int>(body->inputs.size()) != given)
    c.Fail("the body has ", body->inputs.size(), " inputs, expected ", given);
  if (static_cast<int>(body->outputs.size()) < std::max(c.output_count(), states))
    c.Fail("the body gives ", body->outputs.size(), " results, expected ", c.output_count());
  for (int i = first; i < c.input_count(); ++i)
    if (!c.has(i)) c.Fail("input ", i, " is missing");
  const auto in_axes = c.node().IntsView("scan_input_axes"), out_axes = c.node().IntsView("scan_output_axes");
  Bound batch, length;
  const auto without = [&](const ValueFacts& f, int64_t axis_attr, Bound& size, bool fresh) {
    ValueFacts r;
    r.dtype = f.dtype;
    if (!f.shape.known_rank()) return r;
    if (f.shape.rank == 0) c.Fail("a scanned or batched input is a scalar");
    const int axis = c.Axis(axis_attr, f.shape.rank);
    size = fresh ? f.shape[axis] : Equated(c, size, f.shape[axis], "lengths of the inputs");
    r.shape.rank = 0;
    for (int k = 0; k < f.shape.rank; ++k)
      if (k != axis) r.shape.push_back(f.shape[k]);
    return r;
  };
  std::vector<ValueFacts> carried, slices;
  bool batch_known = false, length_known = false;
  for (int i = 0; i < given; ++i) {
    ValueFacts f = InputFacts(c, first + i);
    if (batched) {
      f = without(f, 0, batch, !batch_known);
      batch_known = true;
    }
    if (i < states) {
      carried.push_back(std::move(f));
      continue;
    }
    const auto k = static_cast<size_t>(i - states);
    slices.push_back(without(f, k < in_axes.size() ? in_axes[k] : 0, length, !length_known));
    length_known = true;
  }
  const auto results = FixedPoint(c, LoopBody{*body, {}, slices, 0, length.upper}, carried);
  for (int o = 0; o < c.output_count(); ++o) {
    const auto i = static_cast<size_t>(o);
    const auto k = static_cast<size_t>(o - states);
    ValueFacts f =
        o < states ? carried[i]
                   : Stacked(c, results[i], length, k < out_axes.size() ? static_cast<int>(out_axes[k]) : 0);
    if (batched) f = Stacked(c, f, batch, 0);
    Publish(c, o, f);
  }
}

// sequence, sequence or tensor... -> sequences; the body takes the elements, and tensors as they are.
void SequenceMap(ShapeContext& c) {
  const auto body = Body(c, "body");
  if (static_cast<int>(body->inputs.size()) != c.input_count())
    c.Fail("the body has ", body->inputs.size(), " inputs, expected ", c.input_count());
  if (static_cast<int>(body->outputs.size()) < c.output_count())
    c.Fail("the body gives ", body->outputs.size(), " results, expected ", c.output_count());
  if (c.kind(0) != graph::TypeKind::kSequence) c.Fail("input 0 is no sequence");
  std::vector<ValueFacts> inputs;
  for (int i = 0; i < c.input_count(); ++i) {
    ValueFacts f = InputFacts(c, i);
    if (f.kind == graph::TypeKind::kSequence) {
      // An element's sizes are numbers per round.
      DropExprs(f);
      f.kind = graph::TypeKind::kTensor;
      f.length = Bound();
      f.values = nullptr;
    }
    inputs.push_back(std::move(f));
  }
  const auto results = c.RunSubgraph(*body, inputs);
  for (int o = 0; o < c.output_count(); ++o) {
    ValueFacts f = results[static_cast<size_t>(o)];
    if (f.kind != graph::TypeKind::kTensor) c.Unsupported("a body that gives sequences");
    DropExprs(f);
    f.kind = graph::TypeKind::kSequence;
    f.length = c.length(0);
    f.values = nullptr;
    Publish(c, o, f);
  }
}

}  // namespace

void RegisterControl(Registry& ops) {
  ops.push_back({.name = "If", .since = 1, .max_outputs = -1, .rule = If, .reads_values = Bits(0)});
  ops.push_back({.name = "Loop",
                 .since = 1,
                 .min_inputs = 0,
                 .max_inputs = -1,
                 .max_outputs = -1,
                 .rule = Loop,
                 .reads_values = Bits(0, 1)});
  ops.push_back(
      {.name = "Scan", .since = 8, .min_inputs = 0, .max_inputs = -1, .max_outputs = -1, .rule = Scan});
  ops.push_back(
      {.name = "SequenceMap", .since = 17, .max_inputs = -1, .max_outputs = -1, .rule = SequenceMap});
}

}  // namespace ullage::ops
