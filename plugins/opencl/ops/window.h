/// Windows of convolutions and pools: one to three spatial axes, seen as three.
#pragma once

#include <vector>

#include "gemm.h"
#include "op.h"

namespace ullage_opencl {

struct Window {
  int32_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, taps[3] = {1, 1, 1}, stride[3] = {1, 1, 1},
          dilation[3] = {1, 1, 1}, before[3] = {}, after[3] = {};
};

/// Attributes kernel_shape, strides, dilations, pads and auto_pad.
class WindowAttributes {
 public:
  explicit WindowAttributes(const Node& node)
      : kernel_(node.Ints("kernel_shape")),
        strides_(node.Ints("strides")),
        dilations_(node.Ints("dilations")),
        pads_(node.Ints("pads")),
        auto_(node.Str("auto_pad", "NOTSET")) {}

  const std::vector<int64_t>& kernel() const { return kernel_; }
  /// For spatial sizes of input and output, and the taps; `spatial` of each.
  Window For(const Node& node, int spatial, const int64_t* in, const int64_t* out,
             const int64_t* taps) const {
    if (spatial < 1 || spatial > 3) node.Unsupported(std::to_string(spatial) + " spatial axes");
    Window w;
    for (int i = 0; i < spatial; ++i) {
      const int a = 3 - spatial + i;
      const auto at = static_cast<size_t>(i);
      w.in[a] = Int32(in[i], "elements of an axis");
      w.out[a] = Int32(out[i], "elements of an axis");
      w.taps[a] = Int32(taps[i], "taps");
      w.stride[a] = at < strides_.size() ? Int32(strides_[at], "stride") : 1;
      w.dilation[a] = at < dilations_.size() ? Int32(dilations_[at], "dilation") : 1;
      if (auto_ == "SAME_UPPER" || auto_ == "SAME_LOWER") {
        const int64_t all = (out[i] - 1) * w.stride[a] + (taps[i] - 1) * w.dilation[a] + 1 - in[i];
        const int32_t total = all > 0 ? Int32(all, "padding") : 0;
        w.before[a] = auto_ == "SAME_UPPER" ? total / 2 : total - total / 2;
        w.after[a] = total - w.before[a];
      } else if (auto_ != "VALID" && pads_.size() == 2 * static_cast<size_t>(spatial)) {
        w.before[a] = static_cast<int32_t>(pads_[at]);
        w.after[a] = static_cast<int32_t>(pads_[at + static_cast<size_t>(spatial)]);
      }
    }
    return w;
  }

 private:
  std::vector<int64_t> kernel_, strides_, dilations_, pads_;
  std::string auto_;
};

}  // namespace ullage_opencl
