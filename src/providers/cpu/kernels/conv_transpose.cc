/// ConvTranspose: one convolution of stride 1 for each phase of the output.
///
/// Output o = q * stride + phase takes the taps k with o + pad - k * dilation divisible by the stride: every
/// (stride / gcd)-th tap from a first one on, reading the input backwards. Taps are packed by that first one.
#include <algorithm>
#include <numeric>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/dense/conv.h"
#include "providers/cpu/kernels/attention_common.h"
#include "providers/cpu/kernels/block_weight.h"
#include "providers/cpu/kernels/conv_form.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/tensor_families.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

class ConvTransposeKernel final : public Kernel {
 public:
  explicit ConvTransposeKernel(const KernelInfo& info)
      : windows_(Windows::Read(info, RankOf(info, 0))), groups_(info.node.Int("group", 1)) {
    for (int i = 0; i < windows_.spatial; ++i) {
      const auto at = static_cast<size_t>(i);
      const auto extra = info.node.IntsView("output_padding");
      if (!extra.empty()) output_padding_[at] = extra[at];
      common_[at] = std::gcd(windows_.stride[at], windows_.dilation[at]);
      classes_[at] = windows_.stride[at] / common_[at];
    }
    sized_ = !info.node.IntsView("output_shape").empty();
    weight_ = info.constant(1);
    if (weight_) filter_ = FilterShape::Of(weight_->shape);
  }

  std::vector<kernels::PrepackRequirement> PlanPrepack() const override {
    if (!weight_) return {};
    kernels::PrepackRequirement need;
    need.bytes = PackedBytes(filter_);
    need.replaces = {1};
    need.share_key =
        StrCat("transposed filters ", groups_, " ", classes_[0], " ", classes_[1], " ", classes_[2]);
    return {need};
  }

  void Prepack(int, std::byte* out, ThreadTeam& team) override {
    Pack(filter_, {weight_->data().data(), weight_->dtype}, reinterpret_cast<float*>(out), team);
    ReleasePages(*weight_);
  }

  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    const auto &x = shapes.inputs[0].shape, &w = shapes.inputs[1].shape, &y = shapes.outputs[0].shape;
    if (x.rank != windows_.spatial + 2 || w.rank != x.rank || y.rank != x.rank) return;
    FilterShape filter = filter_;
    if (!weight_) {
      const std::optional<FilterShape> upper = FilterShape::OfUpper(w);
      if (!upper) return;
      filter = *upper;
      needs.push_back({PackedBytes(filter), 1, 64});
    }
    int64_t in[kMaxSpatial], out[kMaxSpatial];
    for (int i = 0; i < windows_.spatial; ++i) {
      in[i] = x[i + 2].upper;
      out[i] = y[i + 2].upper;
    }
    const dense::ConvArgs args = Largest(filter, in, out, shapes.inputs[0].dtype);
    needs.push_back({dense::ConvScratchBytes(args, shapes.threads), 0, 64});
  }

  void Compute(KernelContext& context) const override {
    const TensorView &x = *context.input(0), &w = *context.input(1);
    TensorView& y = *context.output(0);
    if (y.elements() == 0) return;
    ThreadTeam& team = context.threads();
    const FilterShape filter = weight_ ? filter_ : FilterShape::Of(w.shape);
    const int64_t *in = x.shape.begin() + 2, *out = y.shape.begin() + 2;
    const float* packed = nullptr;
    if (weight_) {
      packed = reinterpret_cast<const float*>(context.prepacked(0));
    } else {
      auto* block = static_cast<float*>(Workspace(context, 1, PackedBytes(filter)));
      Pack(filter, {w.data, w.dtype}, block, team);
      packed = block;
    }
    dense::ConvArgs args = Largest(filter, in, out, x.dtype);
    void* scratch = Workspace(context, 0, dense::ConvScratchBytes(args, team.size()));
    args.batch = x.shape[0];
    args.x = {x.data, x.dtype};
    args.y = {y.data, y.dtype};
    args.bias = ArrayOf(context.input(2));
    if (args.bias.data && context.input(2)->elements() != groups_ * filter.channels)
      Throw(Code::kInvalidModel, "a bias of shape ", context.input(2)->shape.ToString(), " for ",
            groups_ * filter.channels, " channels");
    int64_t phase[kMaxSpatial] = {};
    do {
      int64_t first[kMaxSpatial] = {};
      bool any = true;
      for (int i = 0; i < windows_.spatial; ++i) {
        dense::ConvAxis& axis = args.axes[i + kMaxSpatial - windows_.spatial];
        axis.out0 = phase[i];
        axis.out = CeilDiv(std::max<int64_t>(out[i] - phase[i], 0), axis.out_step);
        any = any && axis.out > 0;
        first[i] = SetTaps(filter, i, phase[i] + PadBefore(i, filter, in[i], out[i]), &axis);
      }
      args.packed = packed + ClassOffset(filter, first);
      if (any) dense::Conv(team, args, scratch);
    } while (Next(windows_.stride.data(), phase));
  }

 private:
  /// Counts up; false at the end.
  bool Next(const int64_t* limits, int64_t* at) const {
    for (int i = windows_.spatial - 1; i >= 0; --i) {
      if (++at[i] < limits[i]) return true;
      at[i] = 0;
    }
    return false;
  }

  int64_t PadBefore(int i, const FilterShape& f, int64_t in, int64_t out) const {
    const auto at = static_cast<size_t>(i);
    if (!sized_ && (windows_.pad == Windows::Pad::kExplicit || windows_.pad == Windows::Pad::kValid))
      return windows_.before[at];
    const int64_t extent = (f.taps[at] - 1) * windows_.dilation[at] + 1;
    const int64_t total =
        std::max<int64_t>((in - 1) * windows_.stride[at] + output_padding_[at] + extent - out, 0);
    return windows_.pad == Windows::Pad::kUpper ? total / 2 : total - total / 2;
  }

  /// Taps of an axis that belong to the class of first tap `first`.
  int64_t TapsOf(const FilterShape& f, int i, int64_t first) const {
    const auto at = static_cast<size_t>(i);
    return first >= f.taps[at] ? 0 : CeilDiv(f.taps[at] - first, classes_[at]);
  }

  /// The taps for outputs at q * stride + `reach` - pad; returns the class.
  int64_t SetTaps(const FilterShape& f, int i, int64_t reach, dense::ConvAxis* axis) const {
    const auto at = static_cast<size_t>(i);
    const int64_t stride = windows_.stride[at], dilation = windows_.dilation[at];
    for (int64_t first = 0; first < classes_[at]; ++first) {
      if ((reach - first * dilation) % stride != 0) continue;
      axis->taps = TapsOf(f, i, first);
      axis->tap0 = (reach - first * dilation) / stride;
      axis->tap_step = -dilation / common_[at];
      return first;
    }
    axis->taps = 0;
    return 0;
  }

  int64_t ClassFloats(const FilterShape& f, const int64_t* first) const {
    int64_t taps = 1;
    for (int i = 0; i < windows_.spatial; ++i) taps *= TapsOf(f, i, first[i]);
    return dense::PackedFilterFloats(groups_, f.channels, f.filters / groups_ * taps, false);
  }
  int64_t ClassOffset(const FilterShape& f, const int64_t* first) const {
    int64_t offset = 0, at[kMaxSpatial] = {};
    do {
      if (std::equal(at, at + windows_.spatial, first)) return offset;
      offset += ClassFloats(f, at);
    } while (Next(classes_.data(), at));
    return offset;
  }
  size_t PackedBytes(const FilterShape& f) const {
    // The classes share the taps among them.
    return CheckedMul(static_cast<size_t>(dense::PackedFilterFloats(
                          groups_, f.channels, CheckedMul(f.filters / groups_, f.size(), "filters"), false)),
                      sizeof(float), "filters");
  }

  /// W is [channels of x, filters per group, taps..].
  void Pack(const FilterShape& f, dense::ConstArray data, float* out, ThreadTeam& team) const {
    dense::FilterSource s;
    s.data = data;
    s.groups = groups_;
    s.filters = f.channels;
    s.channels = f.filters / groups_;
    s.filter_stride = f.size();
    s.channel_stride = f.channels * s.filter_stride;
    s.group_stride = s.channels * s.channel_stride;
    int64_t first[kMaxSpatial] = {};
    do {
      int64_t stride = 1;
      for (int i = windows_.spatial - 1; i >= 0; --i) {
        auto& axis = s.axes[i + kMaxSpatial - windows_.spatial];
        axis = {first[i], classes_[static_cast<size_t>(i)], TapsOf(f, i, first[i]), stride};
        stride *= f.taps[static_cast<size_t>(i)];
      }
      dense::PackFilters(team, s, out);
      out += ClassFloats(f, first);
    } while (Next(classes_.data(), first));
  }

  /// The phase with the most outputs and taps.
  dense::ConvArgs Largest(const FilterShape& f, const int64_t* in, const int64_t* out, DType dtype) const {
    dense::ConvArgs args;
    args.x.dtype = dtype;
    args.groups = groups_;
    args.channels = f.filters / groups_;
    args.filters = f.channels;
    for (int i = 0; i < windows_.spatial; ++i) {
      const auto at = static_cast<size_t>(i);
      dense::ConvAxis& axis = args.axes[i + kMaxSpatial - windows_.spatial];
      axis.in = in[i];
      axis.out_size = out[i];
      axis.out_step = windows_.stride[at];
      axis.out = out[i] == ops::kUnbounded ? out[i] : CeilDiv(out[i], axis.out_step);
      axis.taps = TapsOf(f, i, 0);
      axis.tap_step = -windows_.dilation[at] / common_[at];
    }
    return args;
  }

  Windows windows_;
  int64_t groups_;
  std::array<int64_t, kMaxSpatial> output_padding_ = {}, common_ = {1, 1, 1}, classes_ = {1, 1, 1};
  bool sized_ = false;
  graph::ConstantPtr weight_;
  FilterShape filter_;  ///< filters: channels of x; channels: filters per group
};

}  // namespace

void RegisterConvTranspose(kernels::Registry& registry) {
  kernels::KernelDef def;
  def.op = "ConvTranspose";
  def.types = {kernels::kFloats, kernels::kFloats, kernels::kFloats};
  def.create = Make<ConvTransposeKernel>;
  registry.Add(std::move(def));
}

}  // namespace ullage::cpu
