/// Windows of convolutions and pools over the spatial axes of [N, C, spatial..] tensors.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/kernel.h"

namespace ullage::cpu {

inline constexpr int kMaxSpatial = 3;

/// Attributes kernel_shape, strides, dilations, pads, auto_pad, ceil_mode, for one to three spatial axes; the
/// last is the width. The bound rule has checked their lengths and signs.
struct Windows {
  enum class Pad { kExplicit, kUpper, kLower, kValid };
  int spatial = 0;
  std::array<int64_t, kMaxSpatial> kernel = {1, 1, 1}, stride = {1, 1, 1}, dilation = {1, 1, 1};
  std::array<int64_t, kMaxSpatial> before = {}, after = {};  ///< explicit padding
  Pad pad = Pad::kExplicit;

  /// `rank` is that of the tensor; throws kUnsupported beyond three spatial axes.
  static Windows Read(const kernels::KernelInfo& info, int rank);
  /// Padding in front of an axis of `in` elements that gives `out` windows.
  int64_t PadBefore(int axis, int64_t in, int64_t out) const;
  /// Elements from the first to the last of a window.
  int64_t extent(int axis) const {
    const auto i = static_cast<size_t>(axis);
    return (kernel[i] - 1) * dilation[i] + 1;
  }
};

/// Rank of an input as far as it is known when a kernel is created; throws kUnsupported where it is not.
int RankOf(const kernels::KernelInfo& info, size_t input);

}  // namespace ullage::cpu
