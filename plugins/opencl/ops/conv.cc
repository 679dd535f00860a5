// Conv and com.microsoft:FusedConv.
#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/window.h"

namespace ullage_opencl {
namespace {

/// As conv.cl declares it.
struct ConvArgs {
  int32_t batch = 0, groups = 1, channels = 0, filters = 0;
  int32_t in[3], out[3], taps[3], stride[3], dilation[3], before[3];
  int32_t biased = 0, added = 0;
  float alpha = 0, beta = 0;
};

class Conv final : public Op {
 public:
  explicit Conv(const ullage_kernel_info& info) : Op(info), window_(node_) {
    const Facts facts = node_.facts();
    groups_ = node_.Int("group", 1);
    if (groups_ < 1) node_.Invalid("group " + std::to_string(groups_));
    const int32_t type = facts.in(0).dtype;
    for (size_t i : {1u, 2u, 3u})
      if (facts.in(i).present && facts.in(i).dtype != type) node_.Unsupported("operands of different types");
    std::string act = node_.Str("activation", "");
    const auto params = node_.Floats("activation_params");
    const auto param = [&](size_t i, float otherwise) { return i < params.size() ? params[i] : otherwise; };
    if (act.empty()) act = "None";
    constexpr const char* kActs[] = {"None", "Relu",        "Clip",      "LeakyRelu", "Sigmoid",
                                     "Tanh", "HardSigmoid", "HardSwish", "Silu",      "Gelu"};
    if (std::find(std::begin(kActs), std::end(kActs), act) == std::end(kActs))
      node_.Unsupported("activation " + act);
    using Limits = std::numeric_limits<float>;
    alpha_ = param(0, act == "Clip"          ? Limits::lowest()
                      : act == "LeakyRelu"   ? 0.01f
                      : act == "HardSigmoid" ? 0.2f
                                             : 1);
    beta_ = param(1, act == "Clip" ? Limits::max() : 0.5f);
    const std::string options = Define("T", TypeCode(type)) + "-DACT=act_" + act;
    direct_ = &Use("conv.cl", options, "direct");
    tiles_ = &Use("conv.cl", options, "tiles");
  }

  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &w = *c.in(1), &y = *c.out(0);
    if (y.elements() == 0) return;
    if (w.rank != x.rank || w[1] * groups_ != x[1] || w[0] % groups_ != 0 ||
        (c.in(2) && c.in(2)->elements() != w[0]))
      node_.Invalid("filters of shape " + w.ToString() + " for " + x.ToString());
    if (c.in(3) && c.in(3)->elements() != y.elements())
      node_.Invalid("an addend of shape " + c.in(3)->ToString());
    const Window window = window_.For(node_, x.rank - 2, &x.dims[2], &y.dims[2], &w.dims[2]);
    ConvArgs args;
    args.batch = Int32(x[0], "images");
    args.groups = Int32(groups_, "groups");
    args.channels = Int32(w[1], "channels");
    args.filters = Int32(w[0] / groups_, "filters");
    std::memcpy(args.in, window.in, sizeof args.in);
    std::memcpy(args.out, window.out, sizeof args.out);
    std::memcpy(args.taps, window.taps, sizeof args.taps);
    std::memcpy(args.stride, window.stride, sizeof args.stride);
    std::memcpy(args.dilation, window.dilation, sizeof args.dilation);
    std::memcpy(args.before, window.before, sizeof args.before);
    args.biased = c.in(2) ? 1 : 0;
    args.added = c.in(3) ? 1 : 0;
    args.alpha = alpha_;
    args.beta = beta_;
    const int64_t pixels = y.elements(2, y.rank), depth = w.elements(1, w.rank);
    const bool tiles = args.filters >= 8 && depth >= 8;
    auto launch = c.Start(tiles ? *tiles_ : *direct_);
    launch.Add(x).Add(w).Add(c.in(2)).Add(c.in(3)).Add(y).Value(args);
    if (tiles)
      launch.Run((pixels + 63) / 64, groups_ * ((args.filters + 31) / 32), x[0], 16, 8);
    else
      launch.Run((pixels + 63) / 64, w[0], x[0], 64);
  }

 private:
  WindowAttributes window_;
  int64_t groups_ = 1;
  float alpha_ = 0, beta_ = 0;
  KernelRef *direct_, *tiles_;
};

}  // namespace

void AddConv(std::vector<OpEntry>& ops) {
  OpEntry e;
  e.op = "Conv";
  e.types = {kFloats, kFloats, kFloats, kFloats};
  e.make = Make<Conv>;
  ops.push_back(e);
  e.domain = kMicrosoft;
  e.op = "FusedConv";
  e.may_alias = {{3, 0}};
  ops.push_back(e);
}

}  // namespace ullage_opencl
