#include "providers/cpu/kernels/window.h"

#include <algorithm>

namespace ullage::cpu {

Windows Windows::Read(const kernels::KernelInfo& info, int rank) {
  Windows w;
  w.spatial = rank - 2;
  if (w.spatial < 1 || w.spatial > kMaxSpatial) info.Unsupported(w.spatial, " spatial axes, at most 3");
  const graph::Node& n = info.node;
  const auto fill = [&](std::string_view name, std::array<int64_t, kMaxSpatial>& to) {
    const auto list = n.IntsView(name);
    std::copy_n(list.begin(), std::min<size_t>(list.size(), static_cast<size_t>(w.spatial)), to.begin());
  };
  fill("kernel_shape", w.kernel);
  fill("strides", w.stride);
  fill("dilations", w.dilation);
  const auto pads = n.IntsView("pads");
  const std::string_view mode = n.StrView("auto_pad", "NOTSET");
  w.pad = mode == "SAME_UPPER"   ? Pad::kUpper
          : mode == "SAME_LOWER" ? Pad::kLower
          : mode == "VALID"      ? Pad::kValid
                                 : Pad::kExplicit;
  if (w.pad == Pad::kExplicit && pads.size() == 2 * static_cast<size_t>(w.spatial)) {
    std::copy_n(pads.begin(), w.spatial, w.before.begin());
    std::copy_n(pads.begin() + w.spatial, w.spatial, w.after.begin());
  }
  return w;
}

int64_t Windows::PadBefore(int axis, int64_t in, int64_t out) const {
  const auto i = static_cast<size_t>(axis);
  if (pad == Pad::kExplicit || pad == Pad::kValid) return before[i];
  const int64_t total = std::max<int64_t>((out - 1) * stride[i] + extent(axis) - in, 0);
  return pad == Pad::kUpper ? total / 2 : total - total / 2;
}

int RankOf(const kernels::KernelInfo& info, size_t input) {
  const int rank = input < info.inputs.size() ? info.inputs[input].shape.rank : -1;
  if (rank < 0) info.Unsupported("the rank of input ", input, " is not known");
  return rank;
}

}  // namespace ullage::cpu
