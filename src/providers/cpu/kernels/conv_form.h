/// What the convolution kernels share: sizes, the packing of their filters, and their workspace.
#pragma once

#include <optional>
#include <vector>

#include "kernels/kernel.h"
#include "providers/cpu/dense/conv.h"
#include "providers/cpu/kernels/window.h"

namespace ullage::cpu {

/// Filters [filters, channels per group, taps..].
struct FilterShape {
  int64_t filters = 0, channels = 0;
  std::array<int64_t, kMaxSpatial> taps = {1, 1, 1};

  int64_t size() const { return taps[0] * taps[1] * taps[2]; }
  int64_t depth() const { return channels * size(); }
  static FilterShape Of(const Shape& s);
  /// Of the upper ends; nothing where there is none.
  static std::optional<FilterShape> OfUpper(const ops::BoundedShape& s);
};

/// A convolution of x (input `x`) with filters (input `w`), packed at load where they are constant. Slots 0
/// and 1 of the workspace are its own. `zero` >= 0 is the input with the zero points of integer filters.
class ConvForm {
 public:
  static constexpr int kScratchSlot = 0, kPackSlot = 1;

  ConvForm(const kernels::KernelInfo& info, int x, int w, int zero = -1);

  std::vector<kernels::PrepackRequirement> PlanPrepack() const;
  void Prepack(std::byte* out, ThreadTeam& team) const;
  void Declare(const kernels::WorkspaceShapes& shapes,
               std::vector<memory::WorkspaceRequirement>& needs) const;
  /// Sizes, x, y and the packed filters for this run.
  dense::ConvArgs Args(kernels::KernelContext& context) const;
  void Run(kernels::KernelContext& context, const dense::ConvArgs& args) const;

 private:
  size_t PackedBytes(const FilterShape& f) const;
  dense::FilterSource Source(const FilterShape& f, dense::ConstArray data, const TensorView* zero) const;
  dense::ConvArgs Sizes(const FilterShape& f, const int64_t* in, const int64_t* out) const;

  Windows windows_;
  int64_t groups_;
  int x_, w_, zero_;
  graph::ConstantPtr weight_, zero_point_;  ///< of constant filters
  FilterShape filter_;
};

}  // namespace ullage::cpu
