// ConvTranspose.
#include <algorithm>
#include <cstring>

#include "ops/window.h"

namespace ullage_opencl {
namespace {

/// As conv_transpose.cl declares it.
struct TransposedArgs {
  int32_t batch = 0, groups = 1, channels = 0, filters = 0;
  int32_t in[3], out[3], taps[3], stride[3], dilation[3], before[3];
  int32_t biased = 0, room = 0;
};

class ConvTranspose final : public Op {
 public:
  explicit ConvTranspose(const ullage_kernel_info& info) : Op(info), window_(node_) {
    const Facts facts = node_.facts();
    groups_ = node_.Int("group", 1);
    if (groups_ < 1) node_.Invalid("group " + std::to_string(groups_));
    extra_ = node_.Ints("output_padding");
    automatic_ = node_.Str("auto_pad", "NOTSET");
    sized_ = !node_.Ints("output_shape").empty();
    const int32_t type = facts.in(0).dtype;
    for (size_t i : {1u, 2u})
      if (facts.in(i).present && facts.in(i).dtype != type) node_.Unsupported("operands of different types");
    kernel_ = &Use("conv_transpose.cl", Define("T", TypeCode(type)), "transposed");
  }

  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &w = *c.in(1), &y = *c.out(0);
    if (y.elements() == 0) return;
    if (w.rank != x.rank || w[0] != x[1] || x[1] % groups_ != 0 || y[1] != w[1] * groups_ ||
        (c.in(2) && c.in(2)->elements() != y[1]))
      node_.Invalid("filters of shape " + w.ToString() + " for " + x.ToString());
    const int spatial = x.rank - 2;
    const Window window = window_.For(node_, spatial, &x.dims[2], &y.dims[2], &w.dims[2]);
    TransposedArgs args;
    args.batch = Int32(x[0], "images");
    args.groups = Int32(groups_, "groups");
    args.channels = Int32(x[1] / groups_, "channels");
    args.filters = Int32(w[1], "filters");
    std::memcpy(args.in, window.in, sizeof args.in);
    std::memcpy(args.out, window.out, sizeof args.out);
    std::memcpy(args.taps, window.taps, sizeof args.taps);
    std::memcpy(args.stride, window.stride, sizeof args.stride);
    std::memcpy(args.dilation, window.dilation, sizeof args.dilation);
    const bool given = !sized_ && (automatic_ == "NOTSET" || automatic_ == "VALID");
    for (int i = 0; i < 3; ++i) {
      args.before[i] = window.before[i];
      if (given || i < 3 - spatial) continue;
      const auto at = static_cast<size_t>(i - (3 - spatial));
      const int64_t extent = int64_t{args.taps[i] - 1} * args.dilation[i] + 1;
      const int64_t total =
          std::max<int64_t>(int64_t{args.in[i] - 1} * args.stride[i] + (at < extra_.size() ? extra_[at] : 0) +
                                extent - args.out[i],
                            0);
      args.before[i] = Int32(automatic_ == "SAME_UPPER" ? total / 2 : total - total / 2, "padding");
    }
    args.biased = c.in(2) ? 1 : 0;
    c.Start(*kernel_).Add(x).Add(w).Add(c.in(2)).Add(y).Value(args).Run((y.elements(2, y.rank) + 63) / 64,
                                                                        y[1], x[0], 64);
  }

 private:
  WindowAttributes window_;
  int64_t groups_ = 1;
  std::vector<int64_t> extra_;
  std::string automatic_;
  bool sized_ = false;
  KernelRef* kernel_;
};

}  // namespace

void AddConvTranspose(std::vector<OpEntry>& ops) {
  OpEntry e;
  e.op = "ConvTranspose";
  e.types = {kFloats, kFloats, kFloats};
  e.make = Make<ConvTranspose>;
  ops.push_back(e);
}

}  // namespace ullage_opencl
