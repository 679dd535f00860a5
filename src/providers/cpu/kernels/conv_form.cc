#include "providers/cpu/kernels/conv_form.h"

#include <algorithm>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/kernels/attention_common.h"
#include "providers/cpu/kernels/block_weight.h"

namespace ullage::cpu {

std::optional<FilterShape> FilterShape::OfUpper(const ops::BoundedShape& s) {
  Shape upper;
  for (int i = 0; i < s.rank; ++i) {
    if (!s[i].bounded()) return std::nullopt;
    upper.push_back(s[i].upper);
  }
  return Of(upper);
}

FilterShape FilterShape::Of(const Shape& s) {
  FilterShape f{s[0], s[1], {1, 1, 1}};
  for (int i = 2; i < s.rank(); ++i) f.taps[static_cast<size_t>(i - 2)] = s[i];
  return f;
}

ConvForm::ConvForm(const kernels::KernelInfo& info, int x, int w, int zero)
    : windows_(Windows::Read(info, RankOf(info, static_cast<size_t>(x)))),
      groups_(info.node.Int("group", 1)),
      x_(x),
      w_(w),
      zero_(zero) {
  weight_ = info.constant(static_cast<size_t>(w));
  if (zero >= 0 && info.node.has_input(static_cast<size_t>(zero))) {
    zero_point_ = info.constant(static_cast<size_t>(zero));
    if (!zero_point_) weight_ = nullptr;
  }
  if (weight_) filter_ = FilterShape::Of(weight_->shape);
}

std::vector<kernels::PrepackRequirement> ConvForm::PlanPrepack() const {
  if (!weight_) return {};
  kernels::PrepackRequirement need;
  need.bytes = PackedBytes(filter_);
  need.replaces = {w_};
  if (!zero_point_) need.share_key = StrCat("conv filters ", groups_);
  return {need};
}

void ConvForm::Prepack(std::byte* out, ThreadTeam& team) const {
  TensorView zero;
  if (zero_point_)
    zero = {const_cast<std::byte*>(zero_point_->data().data()), zero_point_->dtype, zero_point_->shape, 0};
  dense::PackFilters(team,
                     Source(filter_, {weight_->data().data(), weight_->dtype}, zero_point_ ? &zero : nullptr),
                     reinterpret_cast<float*>(out));
  ReleasePages(*weight_);
}

void ConvForm::Declare(const kernels::WorkspaceShapes& shapes,
                       std::vector<memory::WorkspaceRequirement>& needs) const {
  const auto &x = shapes.inputs[static_cast<size_t>(x_)].shape,
             &w = shapes.inputs[static_cast<size_t>(w_)].shape, &y = shapes.outputs[0].shape;
  if (x.rank != windows_.spatial + 2 || w.rank != x.rank || y.rank != x.rank) return;
  FilterShape filter = filter_;
  if (!weight_) {
    const std::optional<FilterShape> upper = FilterShape::OfUpper(w);
    if (!upper) return;
    filter = *upper;
    needs.push_back({PackedBytes(filter), kPackSlot, 64});
  }
  int64_t in[kMaxSpatial], out[kMaxSpatial];
  for (int i = 0; i < windows_.spatial; ++i) {
    in[i] = x[i + 2].upper;
    out[i] = y[i + 2].upper;
  }
  dense::ConvArgs args = Sizes(filter, in, out);
  args.x.dtype = shapes.inputs[static_cast<size_t>(x_)].dtype;
  needs.push_back({dense::ConvScratchBytes(args, shapes.threads), kScratchSlot, 64});
}

dense::ConvArgs ConvForm::Args(kernels::KernelContext& context) const {
  const TensorView &x = *context.input(x_), &w = *context.input(w_);
  TensorView& y = *context.output(0);
  const FilterShape filter = weight_ ? filter_ : FilterShape::Of(w.shape);
  dense::ConvArgs args = Sizes(filter, x.shape.begin() + 2, y.shape.begin() + 2);
  args.batch = x.shape[0];
  args.x = {x.data, x.dtype};
  args.y = {y.data, y.dtype};
  if (weight_) {
    args.packed = reinterpret_cast<const float*>(context.prepacked(0));
  } else {
    auto* packed = static_cast<float*>(Workspace(context, kPackSlot, PackedBytes(filter)));
    dense::PackFilters(context.threads(),
                       Source(filter, {w.data, w.dtype}, zero_ >= 0 ? context.input(zero_) : nullptr),
                       packed);
    args.packed = packed;
  }
  return args;
}

void ConvForm::Run(kernels::KernelContext& context, const dense::ConvArgs& args) const {
  ThreadTeam& team = context.threads();
  dense::Conv(team, args, Workspace(context, kScratchSlot, dense::ConvScratchBytes(args, team.size())));
}

size_t ConvForm::PackedBytes(const FilterShape& f) const {
  return CheckedMul(
      static_cast<size_t>(dense::PackedFilterFloats(groups_, f.filters / groups_, f.depth(), zero_ >= 0)),
      sizeof(float), "filters");
}

dense::FilterSource ConvForm::Source(const FilterShape& f, dense::ConstArray data,
                                     const TensorView* zero) const {
  dense::FilterSource s;
  s.data = data;
  s.groups = groups_;
  s.filters = f.filters / groups_;
  s.channels = f.channels;
  s.filter_stride = f.depth();
  s.group_stride = s.filters * s.filter_stride;
  s.channel_stride = f.size();
  int64_t stride = 1;
  for (int i = windows_.spatial - 1; i >= 0; --i) {
    auto& axis = s.axes[i + kMaxSpatial - windows_.spatial];
    axis.taps = f.taps[static_cast<size_t>(i)];
    axis.stride = stride;
    stride *= axis.taps;
  }
  if (zero) {
    const int64_t n = zero->elements();
    if (n != 1 && n != f.filters) Throw(Code::kInvalidModel, n, " zero points for ", f.filters, " filters");
    s.zero = {zero->data, zero->dtype};
    s.zero_stride = n == 1 ? 0 : 1;
  }
  return s;
}

dense::ConvArgs ConvForm::Sizes(const FilterShape& f, const int64_t* in, const int64_t* out) const {
  dense::ConvArgs args;
  args.groups = groups_;
  args.channels = f.channels;
  args.filters = f.filters / groups_;
  bool pointwise = true;
  for (int i = 0; i < windows_.spatial; ++i) {
    const auto at = static_cast<size_t>(i);
    Windows w = windows_;
    w.kernel[at] = f.taps[at];
    dense::ConvAxis& axis = args.axes[i + kMaxSpatial - windows_.spatial];
    axis.in = in[i];
    axis.out = axis.out_size = out[i];
    axis.stride = w.stride[at];
    axis.taps = f.taps[at];
    axis.tap_step = w.dilation[at];
    axis.tap0 = -w.PadBefore(i, in[i], out[i]);
    pointwise = pointwise && axis.taps == 1 && axis.stride == 1 && axis.tap0 == 0 && axis.in == axis.out;
  }
  if (pointwise) {  // one long row
    dense::ConvAxis& width = args.axes[2];
    for (int i = 0; i < 2; ++i) {
      if (__builtin_mul_overflow(width.out, args.axes[i].out, &width.out)) width.out = INT64_MAX;
      args.axes[i] = {};
    }
    width.in = width.out_size = width.out;
  }
  return args;
}

}  // namespace ullage::cpu
