// Look-ups: Gather, GatherElements, GatherND.
#include "op.h"
#include "spread.h"

namespace ullage_opencl {
namespace {

class GatherBase : public Op {
 public:
  explicit GatherBase(const ullage_kernel_info& info) : Op(info) {
    const Facts facts = node_.facts();
    const int64_t size = SizeOf(facts.in(0).dtype);
    if (size == 0) node_.Unsupported("elements that share bytes");
    options_ = Define("SIZE", size) + Define("I", TypeCode(facts.in(1).dtype));
  }

 protected:
  std::string options_;
};

class Gather final : public GatherBase {
 public:
  explicit Gather(const ullage_kernel_info& info) : GatherBase(info), axis_(node_.Int("axis", 0)) {
    kernel_ = &Use("gather.cl", options_, "gather");
  }
  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &indices = *c.in(1), &y = *c.out(0);
    const int axis = Axis(axis_, x.rank);
    if (y.elements() == 0) return;
    c.Start(*kernel_)
        .Add(x)
        .Add(indices)
        .Add(y)
        .Value(Count(y.elements()))
        .Long(x[axis])
        .Value(Count(x.elements(axis + 1, x.rank)))
        .Value(Count(indices.elements()))
        .RunOver(y.elements());
  }

 private:
  int64_t axis_;
  KernelRef* kernel_;
};

class GatherElements final : public GatherBase {
 public:
  explicit GatherElements(const ullage_kernel_info& info) : GatherBase(info), axis_(node_.Int("axis", 0)) {
    kernel_ = &Use("gather.cl", options_, "gather_elements");
  }
  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &indices = *c.in(1), &y = *c.out(0);
    if (y.elements() == 0) return;
    const int axis = Axis(axis_, x.rank);
    Dims dims;
    Strides strides;
    dims.rank = y.rank;
    const auto dense = DenseStrides(x.dims.data(), x.rank);
    for (size_t i = 0; i < dense.size(); ++i) {
      dims.d[i] = Count(y.dims[i]);
      strides.s[i] = dense[i];
    }
    c.Start(*kernel_)
        .Add(x)
        .Add(indices)
        .Add(y)
        .Value(Count(y.elements()))
        .Value(dims)
        .Value(strides)
        .Int(axis)
        .Long(x[axis])
        .RunOver(y.elements());
  }

 private:
  int64_t axis_;
  KernelRef* kernel_;
};

class GatherNd final : public GatherBase {
 public:
  explicit GatherNd(const ullage_kernel_info& info)
      : GatherBase(info), batch_dims_(node_.Int("batch_dims", 0)) {
    kernel_ = &Use("gather.cl", options_, "gather_nd");
  }
  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &indices = *c.in(1), &y = *c.out(0);
    if (y.elements() == 0) return;
    const int batch = static_cast<int>(batch_dims_), depth = static_cast<int>(indices.back());
    if (batch < 0 || batch >= indices.rank || batch + depth > x.rank || depth < 1)
      node_.Invalid("indices of shape " + indices.ToString() + " for " + x.ToString());
    Dims source;
    Strides strides;
    source.rank = depth;
    const auto dense = DenseStrides(x.dims.data(), x.rank);
    for (int i = 0; i < depth; ++i) {
      source.d[i] = Count(x[batch + i]);
      strides.s[i] = dense[static_cast<size_t>(batch + i)];
    }
    c.Start(*kernel_)
        .Add(x)
        .Add(indices)
        .Add(y)
        .Value(Count(y.elements()))
        .Value(Count(x.elements(batch + depth, x.rank)))
        .Value(Count(indices.elements(batch, indices.rank - 1)))
        .Int(depth)
        .Value(source)
        .Value(strides)
        .Long(batch > 0 ? x.elements(batch, x.rank) : 0)
        .RunOver(y.elements());
  }

 private:
  int64_t batch_dims_;
  KernelRef* kernel_;
};

/// Elements of a shape are the host's.
std::string OfShapes(const Node& node) {
  const ValueFacts& x = node.facts().in(0);
  const int64_t n = x.UpperElements();
  return !(kFloats & Bit(x.dtype)) && x.rank() >= 0 && x.rank() <= 1 && n >= 0 && n <= 64
             ? "arithmetic on shapes stays on the host"
             : "";
}

}  // namespace

void AddGather(std::vector<OpEntry>& ops) {
  const auto add = [&](const char* name, MakeOp make, int32_t since) {
    OpEntry e;
    e.op = name;
    e.types = {kAnyType, kIndices};
    e.make = make;
    e.since = since;
    e.refuse = OfShapes;
    ops.push_back(e);
  };
  add("Gather", Make<Gather>, 1);
  add("GatherElements", Make<GatherElements>, 11);
  add("GatherND", Make<GatherNd>, 11);
}

}  // namespace ullage_opencl
