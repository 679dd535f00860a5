#include "core/checked.h"
#include "ops/families.h"

namespace ullage::ops {
namespace {

// Windows over the spatial axes of a convolution or pool. Attributes count from the first spatial axis.
struct Windows {
  std::span<const int64_t> kernel, strides, dilations, pads;
  std::string_view auto_pad;
  bool ceil_mode = false;

  int64_t stride(int i) const { return strides.empty() ? 1 : strides[static_cast<size_t>(i)]; }
  int64_t dilation(int i) const { return dilations.empty() ? 1 : dilations[static_cast<size_t>(i)]; }
};

Windows ReadWindows(const ShapeContext& c, int spatial) {
  const graph::Node& n = c.node();
  Windows w;
  w.kernel = n.IntsView("kernel_shape");
  w.strides = n.IntsView("strides");
  w.dilations = n.IntsView("dilations");
  w.pads = n.IntsView("pads");
  w.auto_pad = n.StrView("auto_pad", "NOTSET");
  w.ceil_mode = n.Int("ceil_mode", 0) != 0;
  const auto check = [&](std::span<const int64_t> list, int count, std::string_view name, int64_t least) {
    if (list.empty()) return;
    if (static_cast<int>(list.size()) != count)
      c.Fail("attribute ", name, " has ", list.size(), " numbers, expected ", count);
    for (int64_t v : list)
      if (v < least || v > INT32_MAX) c.Fail("attribute ", name, " has ", v);
  };
  check(w.kernel, spatial, "kernel_shape", 1);
  check(w.strides, spatial, "strides", 1);
  check(w.dilations, spatial, "dilations", 1);
  check(w.pads, 2 * spatial, "pads", INT32_MIN);
  if (w.auto_pad != "NOTSET" && w.auto_pad != "VALID" && w.auto_pad != "SAME_UPPER" &&
      w.auto_pad != "SAME_LOWER")
    c.Fail("attribute auto_pad is ", w.auto_pad);
  return w;
}

// Windows that fit along an axis of `size` elements; `kernel` is the size of a window without dilation.
Bound Steps(const ShapeContext& c, const Windows& w, int i, int spatial, const Bound& size,
            const Bound& kernel) {
  const BoundMath& math = c.math();
  const int64_t stride = w.stride(i);
  if (w.auto_pad == "SAME_UPPER" || w.auto_pad == "SAME_LOWER") return math.CeilDiv(size, stride);
  const Bound one = Bound::Exactly(1);
  const Bound extent = math.Add(math.Mul(math.Sub(kernel, one), Bound::Exactly(w.dilation(i))), one);
  int64_t before = 0, after = 0;
  if (w.auto_pad == "NOTSET" && !w.pads.empty()) {
    before = w.pads[static_cast<size_t>(i)];
    after = w.pads[static_cast<size_t>(i + spatial)];
  }
  const Bound room = math.Sub(math.Add(size, Bound::Exactly(before + after)), extent);
  if (room.upper < 0 && size.exact() && kernel.exact())
    c.Fail("a window of ", extent.lower, " does not fit ", size.lower, " elements with padding ", before,
           " and ", after);
  Bound steps = math.Add(w.ceil_mode ? math.CeilDiv(room, stride) : math.FloorDiv(room, stride), one);
  if (w.ceil_mode && stride > 1) {
    // A window that would start in the padding after the data is left out.
    const Bound start = math.Mul(math.Sub(steps, one), Bound::Exactly(stride));
    const Bound data_end = math.Add(size, Bound::Exactly(before));
    if (start.lower >= data_end.upper && data_end.bounded()) {
      steps = math.Sub(steps, one);
    } else if (!(start.upper < data_end.lower) && !(math.Sub(data_end, start).lower > 0)) {
      steps = Bound::Between(std::max<int64_t>(steps.lower - 1, 0), steps.upper);
    }
  }
  return CheckedDim(c, steps);
}

void CheckBatch(const ShapeContext& c, int input) {
  CheckRankAtLeast(c, input, 3);
  if (c.shape(input).rank > kMaxRank - 1) c.Fail("input ", input, " has rank ", c.shape(input).rank);
}

// X [N, C, spatial..], W [M, C/group, kernel..] at the given inputs.
BoundedShape ConvShape(ShapeContext& c, int xi, int wi) {
  CheckBatch(c, xi);
  const BoundedShape &x = c.shape(xi), &weight = c.shape(wi);
  if (!x.known_rank()) {
    return weight.known_rank() ? AnyDims(weight.rank) : BoundedShape::Unknown();
  }
  CheckRank(c, wi, x.rank);
  const int spatial = x.rank - 2;
  const int64_t group = c.node().Int("group", 1);
  if (group < 1 || group > INT32_MAX) c.Fail("attribute group is ", group);
  const Windows w = ReadWindows(c, spatial);
  BoundedShape out = AnyDims(x.rank);
  out[0] = x[0];
  if (weight.known_rank()) {
    out[1] = weight[0];
    CheckEqual(c, x[1], c.math().Mul(weight[1], Bound::Exactly(group)), "channels of input and weight");
    if (weight[0].exact() && weight[0].lower % group != 0)
      c.Fail(weight[0].lower, " output channels for ", group, " groups");
  }
  for (int i = 0; i < spatial; ++i) {
    Bound kernel = Bound::Between(1, kUnbounded);
    if (!w.kernel.empty()) kernel = Bound::Exactly(w.kernel[static_cast<size_t>(i)]);
    if (weight.known_rank()) kernel = Equated(c, kernel, weight[i + 2], "kernel_shape and the weight");
    out[i + 2] = Steps(c, w, i, spatial, x[i + 2], kernel);
  }
  return out;
}

void Conv(ShapeContext& c) {
  CheckSameType(c, 0, 1);
  const BoundedShape out = ConvShape(c, 0, 1);
  if (c.has(2) && c.shape(2).rank >= 0) {
    CheckRank(c, 2, 1);
    if (c.shape(1).known_rank()) CheckEqual(c, c.shape(2)[0], c.shape(1)[0], "bias and output channels");
  }
  c.Set(0, c.dtype(0), out);
}

void ConvInteger(ShapeContext& c) {
  c.Set(0, DType::kInt32, ConvShape(c, 0, 1));
}

// x, x_scale, x_zp, w, w_scale, w_zp, y_scale, y_zp, bias?
void QLinearConv(ShapeContext& c) {
  c.Set(0, c.dtype(7), ConvShape(c, 0, 3));
}

// X [N, C, spatial..], W [C, M/group, kernel..]
void ConvTranspose(ShapeContext& c) {
  CheckSameType(c, 0, 1);
  CheckBatch(c, 0);
  const BoundedShape &x = c.shape(0), &weight = c.shape(1);
  if (!x.known_rank()) {
    c.Set(0, c.dtype(0), BoundedShape::Unknown());
    return;
  }
  CheckRank(c, 1, x.rank);
  const int spatial = x.rank - 2;
  const int64_t group = c.node().Int("group", 1);
  if (group < 1 || group > INT32_MAX) c.Fail("attribute group is ", group);
  const Windows w = ReadWindows(c, spatial);
  const auto extra = c.node().IntsView("output_padding"), sizes = c.node().IntsView("output_shape");
  if (!extra.empty() && static_cast<int>(extra.size()) != spatial)
    c.Fail("output_padding has ", extra.size(), " numbers");
  if (!sizes.empty() && static_cast<int>(sizes.size()) != spatial)
    c.Fail("output_shape has ", sizes.size(), " numbers");
  const BoundMath& math = c.math();
  const Bound one = Bound::Exactly(1);
  BoundedShape out = AnyDims(x.rank);
  out[0] = x[0];
  if (weight.known_rank()) {
    CheckEqual(c, x[1], weight[0], "channels of input and weight");
    out[1] = math.Mul(weight[1], Bound::Exactly(group));
  }
  for (int i = 0; i < spatial; ++i) {
    if (!sizes.empty()) {
      out[i + 2] = CheckedDim(c, Bound::Exactly(sizes[static_cast<size_t>(i)]));
      continue;
    }
    const Bound stride = Bound::Exactly(w.stride(i));
    Bound kernel = Bound::Between(1, kUnbounded);
    if (!w.kernel.empty()) kernel = Bound::Exactly(w.kernel[static_cast<size_t>(i)]);
    if (weight.known_rank()) kernel = Equated(c, kernel, weight[i + 2], "kernel_shape and the weight");
    const Bound extent = math.Add(math.Mul(math.Sub(kernel, one), Bound::Exactly(w.dilation(i))), one);
    const Bound before_last = math.Mul(math.Sub(x[i + 2], one), stride);
    if (w.auto_pad == "SAME_UPPER" || w.auto_pad == "SAME_LOWER") {
      // Padding makes the result `stride` times as large, where the last window reaches that far.
      const int64_t more = extra.empty() ? 0 : extra[static_cast<size_t>(i)];
      out[i + 2] =
          CheckedDim(c, math.Add(before_last, math.Min(stride, math.Add(extent, Bound::Exactly(more)))));
      continue;
    }
    int64_t trim = 0;
    if (w.auto_pad == "NOTSET" && !w.pads.empty())
      trim = w.pads[static_cast<size_t>(i)] + w.pads[static_cast<size_t>(i + spatial)];
    if (!extra.empty()) trim -= extra[static_cast<size_t>(i)];
    out[i + 2] = CheckedDim(c, math.Add(before_last, math.Sub(extent, Bound::Exactly(trim))));
  }
  c.Set(0, c.dtype(0), out);
}

BoundedShape PoolShape(ShapeContext& c, bool channels_last = false) {
  CheckBatch(c, 0);
  const BoundedShape& x = c.shape(0);
  if (!x.known_rank()) return BoundedShape::Unknown();
  const int spatial = x.rank - 2;
  const Windows w = ReadWindows(c, spatial);
  if (w.kernel.empty()) c.Fail("attribute kernel_shape is missing");
  BoundedShape out = x;
  out.max_elements = kUnbounded;
  for (int i = 0; i < spatial; ++i) {
    const int axis = channels_last ? i + 1 : i + 2;
    out[axis] = Steps(c, w, i, spatial, x[axis], Bound::Exactly(w.kernel[static_cast<size_t>(i)]));
  }
  return out;
}

void Pool(ShapeContext& c) {
  const BoundedShape out = PoolShape(c);
  c.Set(0, c.dtype(0), out);
  if (c.wants(1)) c.Set(1, DType::kInt64, out);
}

void NhwcMaxPool(ShapeContext& c) {
  c.Set(0, c.dtype(0), PoolShape(c, true));
}

// X, x_scale, x_zp?, y_scale, y_zp?
void QLinearAveragePool(ShapeContext& c) {
  c.Set(0, c.dtype(0), PoolShape(c, c.node().Int("channels_last", 0) != 0));
}

void GlobalPool(ShapeContext& c) {
  CheckRankAtLeast(c, 0, 2);
  BoundedShape out = c.shape(0);
  out.max_elements = kUnbounded;
  for (int i = 2; i < out.rank; ++i) out[i] = Bound::Exactly(1);
  c.Set(0, c.dtype(0), out);
}

// X, indices, output_shape?
void MaxUnpool(ShapeContext& c) {
  CheckBatch(c, 0);
  const BoundedShape& x = c.shape(0);
  if (!x.known_rank()) {
    c.Set(0, c.dtype(0), BoundedShape::Unknown());
    return;
  }
  BoundedShape out = AnyDims(x.rank);
  if (c.has(2)) {
    if (const BoundedValues* v = c.values(2)) {
      if (v->count != x.rank) c.Fail("an output_shape of ", v->count, " numbers for rank ", x.rank);
      for (int i = 0; i < x.rank; ++i) out[i] = CheckedDim(c, (*v)[i]);
    }
    c.Set(0, c.dtype(0), out);
    return;
  }
  const int spatial = x.rank - 2;
  const Windows w = ReadWindows(c, spatial);
  if (w.kernel.empty()) c.Fail("attribute kernel_shape is missing");
  out[0] = x[0];
  out[1] = x[1];
  const BoundMath& math = c.math();
  for (int i = 0; i < spatial; ++i) {
    int64_t extra = w.kernel[static_cast<size_t>(i)];
    if (!w.pads.empty()) extra -= w.pads[static_cast<size_t>(i)] + w.pads[static_cast<size_t>(i + spatial)];
    out[i + 2] =
        CheckedDim(c, math.Add(math.Mul(math.Sub(x[i + 2], Bound::Exactly(1)), Bound::Exactly(w.stride(i))),
                               Bound::Exactly(extra)));
  }
  c.Set(0, c.dtype(0), out);
}

// X [N, C * block, L], image_shape, block_shape -> [N, C, image..]
void Col2Im(ShapeContext& c) {
  CheckRank(c, 0, 3);
  CheckRank(c, 1, 1);
  CheckRank(c, 2, 1);
  const BoundedValues *image = c.values(1), *block = c.values(2);
  int spatial = image ? image->count : block ? block->count : -1;
  for (int i = 1; i < 3 && spatial < 0; ++i)
    if (c.shape(i).rank == 1 && c.shape(i)[0].exact() && c.shape(i)[0].lower <= kMaxRank)
      spatial = static_cast<int>(c.shape(i)[0].lower);
  if (spatial < 0) {
    c.Set(0, c.dtype(0), BoundedShape::Unknown());
    return;
  }
  if ((image && image->count != spatial) || (block && block->count != spatial))
    c.Fail("image_shape and block_shape have different lengths");
  BoundedShape out = BoundedShape::Scalar();
  Bound channels, size = Bound::Exactly(1);
  for (int i = 0; block && i < spatial; ++i) size = c.math().Mul(size, (*block)[i]);
  if (block && c.shape(0).known_rank()) channels = CheckedDim(c, c.math().DivExact(c.shape(0)[1], size));
  out.push_back(c.shape(0).known_rank() ? c.shape(0)[0] : Bound());
  out.push_back(channels);
  for (int i = 0; i < spatial; ++i) out.push_back(image ? CheckedDim(c, (*image)[i]) : Bound());
  c.Set(0, c.dtype(0), out);
}

// X, W, offset, B?, mask?
void DeformConv(ShapeContext& c) {
  c.Set(0, c.dtype(0), ConvShape(c, 0, 1));
}

// X [N, C, H, W], rois [R, 5] -> [R, C, pooled..]
void MaxRoiPool(ShapeContext& c) {
  CheckRank(c, 0, 4);
  CheckRank(c, 1, 2);
  const auto pooled = c.node().IntsView("pooled_shape");
  if (pooled.size() != 2) c.Fail("pooled_shape has ", pooled.size(), " numbers, expected 2");
  BoundedShape out = AnyDims(4);
  if (c.shape(1).known_rank()) out[0] = c.shape(1)[0];
  if (c.shape(0).known_rank()) out[1] = c.shape(0)[1];
  for (int i = 0; i < 2; ++i) out[i + 2] = CheckedDim(c, Bound::Exactly(pooled[static_cast<size_t>(i)]));
  c.Set(0, c.dtype(0), out);
}

}  // namespace

void RegisterConvolutions(Registry& ops) {
  const std::string_view ms = graph::kMsDomain;
  ops.push_back({.name = "Conv", .since = 1, .min_inputs = 2, .max_inputs = 3, .rule = Conv});
  ops.push_back({.name = "ConvInteger", .since = 10, .min_inputs = 2, .max_inputs = 4, .rule = ConvInteger});
  ops.push_back({.name = "QLinearConv", .since = 10, .min_inputs = 8, .max_inputs = 9, .rule = QLinearConv});
  ops.push_back(
      {.name = "ConvTranspose", .since = 1, .min_inputs = 2, .max_inputs = 3, .rule = ConvTranspose});
  ops.push_back({.name = "MaxPool", .since = 1, .max_outputs = 2, .rule = Pool});
  ops.push_back({.name = "AveragePool", .since = 1, .rule = Pool});
  ops.push_back({.name = "LpPool", .since = 1, .rule = Pool});
  for (std::string_view name : {"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"})
    ops.push_back({.name = name, .since = 1, .rule = GlobalPool});
  ops.push_back({.name = "MaxUnpool",
                 .since = 9,
                 .min_inputs = 2,
                 .max_inputs = 3,
                 .rule = MaxUnpool,
                 .reads_values = Bits(2)});
  ops.push_back({.name = "Col2Im",
                 .since = 18,
                 .min_inputs = 3,
                 .max_inputs = 3,
                 .rule = Col2Im,
                 .reads_values = Bits(1, 2)});
  ops.push_back({.name = "DeformConv", .since = 19, .min_inputs = 3, .max_inputs = 5, .rule = DeformConv});
  ops.push_back({.name = "MaxRoiPool", .since = 1, .min_inputs = 2, .max_inputs = 2, .rule = MaxRoiPool});
  ops.push_back({.domain = ms,
                 .name = "FusedConv",
                 .min_inputs = 2,
                 .max_inputs = 4,
                 .rule = Conv,
                 .in_place = Bits(3)});
  ops.push_back({.domain = ms, .name = "NhwcMaxPool", .rule = NhwcMaxPool});
  ops.push_back({.domain = ms,
                 .name = "QLinearAveragePool",
                 .min_inputs = 4,
                 .max_inputs = 5,
                 .rule = QLinearAveragePool});
}

}  // namespace ullage::ops
