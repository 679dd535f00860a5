// Reduce*, ArgMax, ArgMin, Softmax, LogSoftmax.
#include <algorithm>

#include "op.h"
#include "spread.h"

namespace ullage_opencl {
namespace {

constexpr const char* kModes[] = {"ReduceSum",       "ReduceMean",      "ReduceMax", "ReduceMin",
                                  "ReduceProd",      "ReduceSumSquare", "ReduceL2",  "ReduceL1",
                                  "ReduceLogSumExp", "ReduceLogSum"};

class Reduce final : public Op {
 public:
  explicit Reduce(const ullage_kernel_info& info) : Op(info) {
    const std::string op = node_.op();
    const auto mode = std::find(std::begin(kModes), std::end(kModes), op) - std::begin(kModes);
    axes_ = node_.Ints("axes");
    none_means_none_ = node_.Int("noop_with_empty_axes", 0) != 0;
    const int32_t type = node_.facts().in(0).dtype;
    if (mode >= 6 && mode != 7 && !(kFloats & Bit(type))) node_.Unsupported("integers");
    kernel_ = &Use("reduce.cl", Define("T", TypeCode(type)) + Define("MODE", mode), "reduce");
  }
  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &y = *c.out(0);
    auto axes = c.in(1) ? c.in(1)->HostInts() : axes_;
    std::vector<bool> reduced(static_cast<size_t>(x.rank), axes.empty() && !none_means_none_);
    for (int64_t a : axes) reduced[static_cast<size_t>(Axis(a, x.rank))] = true;
    const auto dense = DenseStrides(x.dims.data(), x.rank);
    std::vector<int64_t> kept_dims, kept_strides, reduced_dims, reduced_strides;
    for (size_t i = 0; i < reduced.size(); ++i) {
      (reduced[i] ? reduced_dims : kept_dims).push_back(x.dims[i]);
      (reduced[i] ? reduced_strides : kept_strides).push_back(dense[i]);
    }
    if (y.elements() == 0) return;
    const Walk kept(kept_dims, {kept_strides}), inner(reduced_dims, {reduced_strides});
    if (kept.count != y.elements()) node_.Invalid("a result of shape " + y.ToString());
    c.Start(*kernel_)
        .Add(x)
        .Add(y)
        .Value(Count(inner.count))
        .Value(kept.dims)
        .Value(kept.strides[0])
        .Value(inner.dims)
        .Value(inner.strides[0])
        .Run(kept.count, 1, 1, 64);
  }

 private:
  std::vector<int64_t> axes_;
  bool none_means_none_ = false;
  KernelRef* kernel_;
};

class Arg final : public Op {
 public:
  explicit Arg(const ullage_kernel_info& info) : Op(info), axis_(node_.Int("axis", 0)) {
    kernel_ =
        &Use("arg.cl",
             Define("T", TypeCode(node_.facts().in(0).dtype)) + Define("SMALLEST", node_.op() == "ArgMin") +
                 Define("LAST", node_.Int("select_last_index", 0) != 0),
             "arg");
  }
  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &y = *c.out(0);
    const int axis = Axis(axis_, x.rank);
    if (y.elements() == 0) return;
    const int64_t n = x.rank == 0 ? 1 : x[axis];
    if (n == 0) node_.Invalid("none of the elements of shape " + x.ToString());
    c.Start(*kernel_)
        .Add(x)
        .Add(y)
        .Value(Count(n))
        .Value(Count(x.elements(std::min(axis + 1, x.rank), x.rank)))
        .Run(x.elements() / n, 1, 1, 64);
  }

 private:
  int64_t axis_;
  KernelRef* kernel_;
};

class Softmax final : public Op {
 public:
  explicit Softmax(const ullage_kernel_info& info) : Op(info) {
    old_ = node_.opset() < 13;
    axis_ = node_.Int("axis", old_ ? 1 : -1);
    kernel_ =
        &Use("softmax.cl",
             Define("T", TypeCode(node_.facts().in(0).dtype)) + Define("LOG", node_.op() == "LogSoftmax"),
             "softmax");
  }
  void Compute(const Context& c) const override {
    const Tensor& x = *c.in(0);
    if (x.elements() == 0) return;
    const int axis = Axis(axis_, x.rank);
    const int64_t n = x.rank == 0 ? 1 : old_ ? x.elements(axis, x.rank) : x[axis];
    const int64_t inner = old_ ? 1 : x.elements(std::min(axis + 1, x.rank), x.rank);
    c.Start(*kernel_)
        .Add(x)
        .Add(c.out(0))
        .Value(Count(n))
        .Value(Count(inner))
        .Run(x.elements() / n, 1, 1, 64);
  }

 private:
  bool old_ = false;
  int64_t axis_ = -1;
  KernelRef* kernel_;
};

}  // namespace

void AddReduce(std::vector<OpEntry>& ops) {
  for (const char* name : kModes) {
    OpEntry e;
    e.op = name;
    e.types = {kFloats | Bit(kInt64) | Bit(kInt32)};
    e.make = Make<Reduce>;
    e.input_spaces = {ULLAGE_SPACE_DEVICE, ULLAGE_SPACE_HOST};
    ops.push_back(e);
  }
  for (const char* name : {"ArgMax", "ArgMin"}) {
    OpEntry e;
    e.op = name;
    e.types = {kFloats | Bit(kInt64) | Bit(kInt32) | Bit(kUInt8) | Bit(kInt8)};
    e.make = Make<Arg>;
    ops.push_back(e);
  }
  for (const char* name : {"Softmax", "LogSoftmax"}) {
    OpEntry e;
    e.op = name;
    e.types = {kFloats};
    e.make = Make<Softmax>;
    e.may_alias = {{0, 0}};
    ops.push_back(e);
  }
}

}  // namespace ullage_opencl
