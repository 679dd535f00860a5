// ScatterND and ScatterElements without a reduction.
#include "gemm.h"
#include "spread.h"

namespace ullage_opencl {
namespace {

class Scatter final : public Op {
 public:
  explicit Scatter(const ullage_kernel_info& info) : Op(info), nd_(node_.op() == "ScatterND") {
    const Facts facts = node_.facts();
    const int64_t size = SizeOf(facts.in(0).dtype);
    if (size == 0) node_.Unsupported("elements that share bytes");
    if (node_.Str("reduction", "none") != "none")
      node_.Unsupported("reduction " + node_.Str("reduction", "none"));
    axis_ = node_.Int("axis", 0);
    copy_ = &Use("movement.cl", Define("SIZE", size), "rows");
    scatter_ = &Use("scatter.cl", Define("SIZE", size) + Define("I", TypeCode(facts.in(1).dtype)),
                    nd_ ? "scatter_nd" : "scatter_elements");
  }

  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &indices = *c.in(1), &updates = *c.in(2), &y = *c.out(0);
    if (y.elements() == 0) return;
    if (!(x.buffer == y.buffer && x.offset == y.offset)) {
      const uint32_t count = Count(y.elements());
      c.Start(*copy_).Add(x).Add(y).Value(count).Value(count).Long(0).Long(0).Long(0).Long(0).RunOver(count);
    }
    if (updates.elements() == 0) return;
    const auto wrong = [&] {
      node_.Invalid("indices of shape " + indices.ToString() + " and updates of shape " + updates.ToString() +
                    " for " + x.ToString());
    };
    const auto dense = DenseStrides(x.dims.data(), x.rank);
    Dims dims;
    Strides strides;
    auto launch = c.Start(*scatter_);
    launch.Add(indices).Add(updates).Add(y).Value(Count(updates.elements()));
    if (nd_) {
      const int64_t depth = indices.rank > 0 ? indices.back() : 0;
      if (depth < 1 || depth > x.rank) wrong();
      const int64_t inner = x.elements(static_cast<int>(depth), x.rank);
      if (inner == 0 || indices.elements() / depth * inner != updates.elements()) wrong();
      dims.rank = static_cast<int32_t>(depth);
      for (size_t i = 0; i < static_cast<size_t>(depth); ++i) {
        dims.d[i] = Count(x.dims[i]);
        strides.s[i] = dense[i];
      }
      launch.Value(Count(inner)).Int(depth);
    } else {
      if (updates.rank != x.rank || indices.rank != x.rank) wrong();
      const int axis = Axis(axis_, x.rank);
      dims.rank = x.rank;
      for (size_t i = 0; i < dense.size(); ++i) {
        if (updates.dims[i] != indices.dims[i] ||
            (static_cast<int>(i) != axis && updates.dims[i] > x.dims[i]))
          wrong();
        dims.d[i] = Count(updates.dims[i]);
        strides.s[i] = dense[i];
      }
      launch.Int(axis).Long(x[axis]);
    }
    launch.Value(dims).Value(strides).RunOver(updates.elements());
  }

 private:
  bool nd_;
  int64_t axis_ = 0;
  KernelRef *copy_, *scatter_;
};

}  // namespace

void AddScatter(std::vector<OpEntry>& ops) {
  for (const char* name : {"ScatterND", "ScatterElements"}) {
    OpEntry e;
    e.op = name;
    e.since = 11;
    e.types = {kAnyType, kIndices, kAnyType};
    e.make = Make<Scatter>;
    e.may_alias = {{0, 0}};
    ops.push_back(e);
  }
}

}  // namespace ullage_opencl
