#include "ops/families.h"
#include "ops/value_math.h"

namespace ullage::ops {
namespace {

namespace vm = value_math;

// From this version on, axes are an input.
int AxesInputSince(const ShapeContext& c) {
  return c.node().op == "ReduceSum" ? 13 : 18;
}

template <vm::Binary f>
void ReduceValues(ShapeContext& c, const Axes& axes, const BoundedShape& out) {
  if (!c.wants_values() || f == nullptr) return;
  const BoundedValues* v = c.values(0);
  const BoundedShape& in = c.shape(0);
  if (v == nullptr || v->count == 0 || !out.exact()) return;
  // Walk the input; the output index skips the reduced axes.
  BoundedValues r;
  std::array<bool, BoundedValues::kMax> seen{};
  for (int flat = 0; flat < v->count; ++flat) {
    int rest = flat, index = 0, stride = 1;
    for (int i = in.rank - 1; i >= 0; --i) {
      const int at = static_cast<int>(rest % in[i].lower);
      rest = static_cast<int>(rest / in[i].lower);
      if (axes.mask >> i & 1) continue;
      index += at * stride;
      stride *= static_cast<int>(in[i].lower);
    }
    const auto k = static_cast<size_t>(index);
    r[index] = seen[k] ? f(c, c.dtype(0), r[index], (*v)[flat]) : (*v)[flat];
    seen[k] = true;
    r.count = std::max(r.count, index + 1);
  }
  OfferValues(c, 0, c.dtype(0), r);
}

template <vm::Binary f>
void Reduce(ShapeContext& c) {
  const BoundedShape& in = c.shape(0);
  const DType type = c.dtype(0);
  const bool keep = c.node().Int("keepdims", 1) != 0;
  if (!in.known_rank()) {
    BoundedShape out;
    if (!keep && !c.has(1) && !c.node().has_attr("axes") && c.node().Int("noop_with_empty_axes", 0) == 0)
      out = BoundedShape::Scalar();
    else
      out.max_elements = in.max_elements == kUnbounded ? kUnbounded : std::max<int64_t>(in.max_elements, 1);
    c.Set(0, type, out);
    return;
  }
  const bool from_input = SinceOpset(c, AxesInputSince(c));
  Axes axes = from_input ? AxesFromInput(c, 1, in.rank) : AxesFromAttr(c, "axes", in.rank);
  if (axes.kind == Axes::kUnknown) {
    // A reduced axis becomes 1 or goes.
    BoundedShape out;
    if (keep) {
      out = in;
      for (int i = 0; i < out.rank; ++i)
        out[i] = Bound::Between(std::min<int64_t>(out[i].lower, 1), std::max<int64_t>(out[i].upper, 1));
    } else if (axes.count > 0 && axes.count <= in.rank) {
      int64_t largest = 0, smallest = kUnbounded;
      for (int i = 0; i < in.rank; ++i) {
        largest = std::max(largest, in[i].upper);
        smallest = std::min(smallest, in[i].lower);
      }
      out = AnyDims(in.rank - axes.count);
      for (int i = 0; i < out.rank; ++i) out[i] = Bound::Between(smallest, largest);
    }
    c.Set(0, type, out);
    return;
  }
  if (axes.kind == Axes::kAbsent || axes.count == 0) {
    if (from_input && c.node().Int("noop_with_empty_axes", 0) != 0) {
      PassThrough(c);
      return;
    }
    axes.mask = (1u << in.rank) - 1;
  }
  BoundedShape out = BoundedShape::Scalar();
  for (int i = 0; i < in.rank; ++i) {
    if (!(axes.mask >> i & 1)) {
      out.push_back(in[i]);
    } else if (keep) {
      out.push_back(Bound::Exactly(1));
    }
  }
  c.Set(0, type, out);
  ReduceValues<f>(c, axes, out);
}

void ArgReduce(ShapeContext& c) {
  const BoundedShape& in = c.shape(0);
  if (!in.known_rank()) {
    c.Set(0, DType::kInt64, BoundedShape::Unknown());
    return;
  }
  const int axis = c.Axis(c.node().Int("axis", 0), in.rank);
  const bool keep = c.node().Int("keepdims", 1) != 0;
  BoundedShape out = BoundedShape::Scalar();
  for (int i = 0; i < in.rank; ++i) {
    if (i != axis) {
      out.push_back(in[i]);
    } else if (keep) {
      out.push_back(Bound::Exactly(1));
    }
  }
  c.Set(0, DType::kInt64, out);
}

void AlongAxis(ShapeContext& c) {
  if (c.shape(0).known_rank() && c.node().has_attr("axis")) {
    const int rank = c.shape(0).rank;
    const int64_t axis = c.node().Int("axis", 0);
    // Before version 13 the axis cuts the shape in two and may be the rank itself.
    if (!(axis == rank && !SinceOpset(c, 13)) && !(rank == 0 && (axis == 0 || axis == -1)))
      c.Axis(axis, rank);
  }
  SameAsInput(c);
}

void Cumulative(ShapeContext& c) {
  CheckElements(c, 1, 1);
  SameAsInput(c);
  if (!c.wants_values() || c.node().op != "CumSum") return;
  const BoundedValues* v = c.values(0);
  const Bound axis = ScalarValue(c, 1);
  if (v == nullptr || !axis.exact() || c.shape(0).rank != 1) return;
  c.Axis(axis.lower, 1);
  const bool exclusive = c.node().Int("exclusive", 0) != 0, reverse = c.node().Int("reverse", 0) != 0;
  BoundedValues r;
  r.count = v->count;
  Bound sum = Bound::Exactly(0);
  for (int k = 0; k < r.count; ++k) {
    const int i = reverse ? r.count - 1 - k : k;
    const Bound with = vm::Add(c, c.dtype(0), sum, (*v)[i]);
    r[i] = exclusive ? sum : with;
    sum = with;
  }
  OfferValues(c, 0, c.dtype(0), r);
}

// The mask is stretched to the data.
void BiasSoftmax(ShapeContext& c) {
  CheckSameType(c, 0, 1);
  SameAsInput(c);
}

}  // namespace

void RegisterReductions(Registry& ops) {
  const auto reduce = [&](std::string_view name, int input_since, ShapeRule rule) {
    ops.push_back({.name = name, .since = 1, .rule = rule});
    ops.push_back(
        {.name = name, .since = input_since, .max_inputs = 2, .rule = rule, .reads_values = Bits(1)});
  };
  reduce("ReduceSum", 13, Reduce<vm::Add>);
  reduce("ReduceProd", 18, Reduce<vm::Mul>);
  reduce("ReduceMax", 18, Reduce<vm::Max>);
  reduce("ReduceMin", 18, Reduce<vm::Min>);
  for (std::string_view name :
       {"ReduceMean", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"})
    reduce(name, 18, Reduce<nullptr>);
  ops.push_back({.name = "ArgMax", .since = 1, .rule = ArgReduce});
  ops.push_back({.name = "ArgMin", .since = 1, .rule = ArgReduce});
  for (std::string_view name : {"Softmax", "LogSoftmax", "Hardmax"})
    ops.push_back({.name = name, .since = 1, .rule = AlongAxis, .in_place = Bits(0)});
  ops.push_back({.name = "LpNormalization", .since = 1, .rule = AlongAxis, .in_place = Bits(0)});
  ops.push_back({.name = "CumSum", .since = 11, .min_inputs = 2, .max_inputs = 2, .rule = Cumulative});
  ops.push_back({.name = "CumProd", .since = 26, .min_inputs = 2, .max_inputs = 2, .rule = Cumulative});
  ops.push_back({.domain = graph::kMsDomain,
                 .name = "BiasSoftmax",
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .rule = BiasSoftmax});
}

}  // namespace ullage::ops
