// Resize and Upsample.
#include <algorithm>

#include "gemm.h"
#include "spread.h"

namespace ullage_opencl {
namespace {

/// As resize.cl declares it.
struct ResizeArgs {
  uint32_t count = 0;
  int32_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1};
  float scale[3] = {1, 1, 1};
  float cubic = 0;
  int32_t exclude = 0;
};

template <size_t kCount>
int64_t NumberOf(const char* const (&names)[kCount], const std::string& name) {
  return std::find(std::begin(names), std::end(names), name) - std::begin(names);
}

/// Over at most three axes, which with those between them are neighbours.
class Resize final : public Op {
 public:
  explicit Resize(const ullage_kernel_info& info) : Op(info) {
    const Facts facts = node_.facts();
    const bool upsample = node_.op() == "Upsample", old = upsample || node_.opset() < 11;
    scales_in_ = !old ? 2 : 1;
    sizes_in_ = old ? SIZE_MAX : 3;
    given_ = node_.Floats("scales");
    const std::string mode = node_.Str("mode", "nearest");
    const int64_t number = mode == "nearest"                        ? 0
                           : mode == "linear" || mode == "bilinear" ? 1
                           : mode == "cubic"                        ? 2
                                                                    : -1;
    if (number < 0) node_.Unsupported("mode " + mode);
    constexpr const char* kPositions[] = {"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                          "align_corners", "asymmetric",           "tf_half_pixel_for_nn"};
    constexpr const char* kRounds[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    const std::string position =
        node_.Str("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel");
    const std::string nearest = node_.Str("nearest_mode", old ? "floor" : "round_prefer_floor");
    if (NumberOf(kPositions, position) == 6) node_.Unsupported("coordinate_transformation_mode " + position);
    if (NumberOf(kRounds, nearest) == 4) node_.Unsupported("nearest_mode " + nearest);
    if (node_.Int("antialias", 0) != 0 && number != 0) node_.Unsupported("antialiasing");
    const std::string policy = node_.Str("keep_aspect_ratio_policy", "stretch");
    if (policy != "stretch") node_.Unsupported("keep_aspect_ratio_policy " + policy);
    axes_ = node_.Ints("axes");
    cubic_ = node_.Float("cubic_coeff_a", -0.75f);
    exclude_ = node_.Int("exclude_outside", 0) != 0;
    const int32_t type = facts.in(0).dtype;
    if (number != 0 && !(kFloats & Bit(type))) node_.Unsupported("integers that are blended");
    const ValueFacts &x = facts.in(0), &y = facts.out(0);
    if (x.rank() < 1 || y.rank() != x.rank()) node_.Unsupported("a tensor of unknown rank");
    std::vector<bool> same(static_cast<size_t>(x.rank()));
    for (size_t i = 0; i < same.size(); ++i) same[i] = x.Fixed(i) >= 0 && x.Fixed(i) == y.Fixed(i);
    // Nobody resizes a batch of unknown size.
    if (x.Fixed(0) < 0 || y.Fixed(0) < 0) same[0] = same[0] || x.rank() > 3;
    Span(same);
    kernel_ = &Use("resize.cl",
                   Define("T", TypeCode(type)) + Define("MODE", number) +
                       Define("POSITION", NumberOf(kPositions, position)) +
                       Define("ROUND", NumberOf(kRounds, nearest)),
                   "resize");
  }

  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &y = *c.out(0);
    if (y.elements() == 0) return;
    if (x.elements() == 0) node_.Invalid("nothing to interpolate in shape " + x.ToString());
    std::vector<float> scales(static_cast<size_t>(x.rank), 1.0f);
    const size_t count = axes_.empty() ? scales.size() : axes_.size();
    const Tensor* sizes = Given(c, sizes_in_);
    const auto numbers = sizes ? std::vector<float>() : Scales(c);
    if (!sizes && numbers.size() != count) node_.Invalid("a number of scales");
    for (size_t i = 0; i < count; ++i) {
      const int axis = Axis(axes_.empty() ? static_cast<int64_t>(i) : axes_[i], x.rank);
      if (axis >= x.rank) node_.Invalid("an axis");
      scales[static_cast<size_t>(axis)] =
          sizes ? static_cast<float>(y[axis]) / static_cast<float>(x[axis]) : numbers[i];
    }
    std::vector<bool> same(scales.size());
    for (size_t i = 0; i < scales.size(); ++i) same[i] = x.dims[i] == y.dims[i] && scales[i] == 1;
    const auto [first, last] = Span(same);
    ResizeArgs args;
    args.count = Count(y.elements());
    // What lies behind the resized axes goes with the last of the three, or is one.
    const int64_t inner = x.elements(last, x.rank);
    const int used = last - first + (inner > 1 ? 1 : 0);
    for (int i = first; i < last; ++i) {
      const int to = 3 - used + i - first;
      args.in[to] = Int32(x[i], "elements of an axis");
      args.out[to] = Int32(y[i], "elements of an axis");
      args.scale[to] = scales[static_cast<size_t>(i)];
    }
    if (inner > 1) args.in[2] = args.out[2] = Int32(inner, "elements");
    args.cubic = cubic_;
    args.exclude = exclude_ ? 1 : 0;
    c.Start(*kernel_).Add(x).Add(y).Value(args).RunOver(y.elements());
  }

 private:
  /// First resized axis and the one behind the last; refuses more than the program has room for.
  std::pair<int, int> Span(const std::vector<bool>& same) const {
    int first = 0, last = static_cast<int>(same.size());
    while (first < last && same[static_cast<size_t>(first)]) ++first;
    while (last > first && same[static_cast<size_t>(last - 1)]) --last;
    const int behind = last < static_cast<int>(same.size()) ? 1 : 0;
    if (last - first + behind > 3) node_.Unsupported("more than three axes");
    return {first, last};
  }

  static const Tensor* Given(const Context& c, size_t i) {
    const Tensor* t = c.in(i);
    return t && t->elements() > 0 ? t : nullptr;
  }
  std::vector<float> Scales(const Context& c) const {
    const Tensor* t = Given(c, scales_in_);
    if (!t) return given_;
    if (!t->pointer || t->dtype != kFloat) node_.Invalid("scales that are not floats in host memory");
    const auto* p = static_cast<const float*>(t->pointer);
    return {p, p + t->elements()};
  }

  size_t scales_in_ = 2, sizes_in_ = 3;
  std::vector<float> given_;
  std::vector<int64_t> axes_;
  float cubic_ = -0.75f;
  bool exclude_ = false;
  KernelRef* kernel_;
};

}  // namespace

void AddResize(std::vector<OpEntry>& ops) {
  for (const char* name : {"Resize", "Upsample"}) {
    OpEntry e;
    e.op = name;
    e.types = {kFloats | Bit(kUInt8) | Bit(kInt8) | Bit(kInt32) | Bit(kInt64)};
    e.make = Make<Resize>;
    e.input_spaces.assign(4, ULLAGE_SPACE_HOST);
    e.input_spaces[0] = ULLAGE_SPACE_DEVICE;
    ops.push_back(e);
  }
}

}  // namespace ullage_opencl
