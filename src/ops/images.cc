#include <cmath>

#include "ops/families.h"

namespace ullage::ops {
namespace {

// An output size from a floating-point scale, as the operators define it: floor(size * scale).
Bound Scaled(const ShapeContext& c, const Bound& size, double scale) {
  if (!(scale > 0) || scale > 1e9) c.Fail("a scale of ", scale);
  if (scale == std::floor(scale)) return c.math().Mul(size, Bound::Exactly(static_cast<int64_t>(scale)));
  const auto at = [&](int64_t n) {
    const double r = std::floor(static_cast<double>(static_cast<float>(n) * static_cast<float>(scale)));
    return r < 9e18 ? static_cast<int64_t>(r) : kUnbounded;
  };
  const double inverse = 1 / scale;
  if (inverse == std::floor(inverse) &&
      (static_cast<int64_t>(inverse) & (static_cast<int64_t>(inverse) - 1)) == 0 && size.bounded() &&
      size.upper < (1 << 24))
    return c.math().FloorDiv(size, static_cast<int64_t>(inverse));
  return Bound::Between(at(size.lower), size.bounded() ? at(size.upper) : kUnbounded);
}

// How a kept aspect ratio scales all resized axes: the ends of the common scale.
struct CommonScale {
  double lower = 0, upper = INFINITY;
};

void Resize(ShapeContext& c, int scales_at, int sizes_at) {
  const BoundedShape& x = c.shape(0);
  if (!x.known_rank()) {
    c.Set(0, c.dtype(0), BoundedShape::Unknown());
    return;
  }
  Axes axes = SinceOpset(c, 18) ? AxesFromAttr(c, "axes", x.rank) : Axes();
  if (axes.kind == Axes::kAbsent) {
    axes.count = x.rank;
    for (int i = 0; i < x.rank; ++i) axes.order[static_cast<size_t>(i)] = i;
  }
  BoundedShape out = x;
  out.max_elements = kUnbounded;
  const auto axis = [&](int i) { return axes.order[static_cast<size_t>(i)]; };
  const auto present = [&](int i) {
    return i >= 0 && c.has(i) && !(c.shape(i).exact() && c.shape(i).rank == 1 && c.shape(i)[0].lower == 0);
  };
  std::array<double, kMaxRank> scales;
  if (present(sizes_at)) {
    const BoundedValues* v = c.values(sizes_at);
    if (v == nullptr) {
      for (int i = 0; i < axes.count; ++i) out[axis(i)] = Bound();
    } else {
      if (v->count != axes.count) c.Fail(v->count, " sizes for ", axes.count, " axes");
      const std::string_view policy = SinceOpset(c, 18)
                                          ? c.node().StrView("keep_aspect_ratio_policy", "stretch")
                                          : std::string_view("stretch");
      if (policy == "stretch") {
        for (int i = 0; i < axes.count; ++i) out[axis(i)] = CheckedDim(c, (*v)[i]);
      } else {
        const bool larger = policy == "not_smaller";
        if (!larger && policy != "not_larger") c.Fail("attribute keep_aspect_ratio_policy is ", policy);
        CommonScale common{larger ? 0 : INFINITY, larger ? 0 : INFINITY};
        for (int i = 0; i < axes.count; ++i) {
          const Bound &to = (*v)[i], &from = x[axis(i)];
          const double least =
              static_cast<double>(std::max<int64_t>(to.lower, 0)) /
              (from.bounded() ? static_cast<double>(std::max<int64_t>(from.upper, 1)) : INFINITY);
          const double most = to.bounded() ? static_cast<double>(to.upper) /
                                                 static_cast<double>(std::max<int64_t>(from.lower, 1))
                                           : INFINITY;
          common.lower = larger ? std::max(common.lower, least) : std::min(common.lower, least);
          common.upper = larger ? std::max(common.upper, most) : std::min(common.upper, most);
        }
        for (int i = 0; i < axes.count; ++i) {
          const Bound from = x[axis(i)];
          const double least = std::floor(common.lower * static_cast<double>(from.lower) + 0.5);
          const double most =
              from.bounded() ? std::floor(common.upper * static_cast<double>(from.upper) + 0.5) : INFINITY;
          // Rounding may fall to either side where the ends are not one number.
          const int64_t slack = x.exact() && v->exact() ? 0 : 1;
          out[axis(i)] =
              Bound::Between(std::max<int64_t>(static_cast<int64_t>(std::min(least, 9e18)) - slack, 0),
                             most < 9e18 ? static_cast<int64_t>(most) + slack : kUnbounded);
        }
      }
    }
  } else if (present(scales_at)) {
    const int n = c.doubles(scales_at, scales);
    if (n < 0) {
      for (int i = 0; i < axes.count; ++i) out[axis(i)] = Bound();
    } else {
      if (n != axes.count) c.Fail(n, " scales for ", axes.count, " axes");
      for (int i = 0; i < n; ++i) out[axis(i)] = Scaled(c, x[axis(i)], scales[static_cast<size_t>(i)]);
    }
  } else {
    c.Fail("neither scales nor sizes are given");
  }
  c.Set(0, c.dtype(0), out);
}

void Resize10(ShapeContext& c) {
  Resize(c, 1, -1);
}

void Resize11(ShapeContext& c) {
  Resize(c, 2, 3);
}

void Upsample7(ShapeContext& c) {
  const BoundedShape& x = c.shape(0);
  const auto scales = c.node().FloatsView("scales");
  if (x.known_rank() && static_cast<int>(scales.size()) != x.rank)
    c.Fail(scales.size(), " scales for rank ", x.rank);
  BoundedShape out = x;
  out.max_elements = kUnbounded;
  for (int i = 0; i < out.rank; ++i) out[i] = Scaled(c, x[i], scales[static_cast<size_t>(i)]);
  c.Set(0, c.dtype(0), out);
}

// X [N, C, spatial..], grid [N, out spatial.., k]
void GridSample(ShapeContext& c) {
  const BoundedShape &x = c.shape(0), &grid = c.shape(1);
  if (!x.known_rank() || !grid.known_rank()) {
    c.Set(0, c.dtype(0), x.known_rank() ? AnyDims(x.rank) : BoundedShape::Unknown());
    return;
  }
  CheckRankAtLeast(c, 0, 3);
  CheckRank(c, 1, x.rank);
  CheckEqual(c, grid.at(-1), Bound::Exactly(x.rank - 2), "the grid's last dimension and the spatial axes");
  BoundedShape out = AnyDims(x.rank);
  out[0] = Equated(c, x[0], grid[0], "batch sizes");
  out[1] = x[1];
  for (int i = 2; i < x.rank; ++i) out[i] = grid[i - 1];
  c.Set(0, c.dtype(0), out);
}

int64_t BlockSize(const ShapeContext& c) {
  const int64_t b = c.node().RequiredInt("blocksize");
  if (b < 1 || b > INT16_MAX) c.Fail("attribute blocksize is ", b);
  return b;
}

void DepthToSpace(ShapeContext& c) {
  CheckRank(c, 0, 4);
  const Bound b = Bound::Exactly(BlockSize(c));
  BoundedShape out = AnyDims(4);
  if (c.shape(0).known_rank()) {
    const BoundedShape& x = c.shape(0);
    if (x[1].exact() && x[1].lower % (b.lower * b.lower) != 0)
      c.Fail(x[1].lower, " channels for blocks of ", b.lower);
    out = BoundedShape::OfDims(
        {x[0], c.math().DivExact(x[1], c.math().Mul(b, b)), c.math().Mul(x[2], b), c.math().Mul(x[3], b)});
    out.max_elements = x.max_elements;
  }
  c.Set(0, c.dtype(0), out);
}

void SpaceToDepth(ShapeContext& c) {
  CheckRank(c, 0, 4);
  const Bound b = Bound::Exactly(BlockSize(c));
  BoundedShape out = AnyDims(4);
  if (c.shape(0).known_rank()) {
    const BoundedShape& x = c.shape(0);
    for (int i = 2; i < 4; ++i)
      if (x[i].exact() && x[i].lower % b.lower != 0)
        c.Fail("a size of ", x[i].lower, " for blocks of ", b.lower);
    out = BoundedShape::OfDims({x[0], c.math().Mul(x[1], c.math().Mul(b, b)), c.math().DivExact(x[2], b),
                                c.math().DivExact(x[3], b)});
    out.max_elements = x.max_elements;
  }
  c.Set(0, c.dtype(0), out);
}

// X [N, C, H, W], rois [R, 4], batch_indices [R]
void RoiAlign(ShapeContext& c) {
  CheckRank(c, 0, 4);
  CheckRank(c, 1, 2);
  BoundedShape out = AnyDims(4);
  if (c.shape(1).known_rank()) out[0] = c.shape(1)[0];
  if (c.shape(0).known_rank()) out[1] = c.shape(0)[1];
  out[2] = CheckedDim(c, Bound::Exactly(c.node().Int("output_height", 1)));
  out[3] = CheckedDim(c, Bound::Exactly(c.node().Int("output_width", 1)));
  c.Set(0, c.dtype(0), out);
}

// theta [N, 2, 3] or [N, 3, 4], size [4] or [5] (N, C, spatial..) -> [N, spatial.., 2 or 3]
void AffineGrid(ShapeContext& c) {
  CheckRank(c, 0, 3);
  const BoundedValues* size = c.values(1);
  BoundedShape out;
  if (size != nullptr) {
    if (size->count != 4 && size->count != 5) c.Fail("a size of ", size->count, " numbers");
    out.rank = 0;
    out.push_back(CheckedDim(c, (*size)[0]));
    for (int i = 2; i < size->count; ++i) out.push_back(CheckedDim(c, (*size)[i]));
    out.push_back(Bound::Exactly(size->count - 2));
  }
  c.Set(0, c.dtype(0), out);
}

}  // namespace

void RegisterImages(Registry& ops) {
  ops.push_back({.name = "Resize",
                 .since = 10,
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .rule = Resize10,
                 .reads_values = Bits(1)});
  ops.push_back({.name = "Resize",
                 .since = 11,
                 .min_inputs = 1,
                 .max_inputs = 4,
                 .rule = Resize11,
                 .reads_values = Bits(2, 3)});
  ops.push_back({.name = "Upsample", .since = 7, .rule = Upsample7});
  ops.push_back({.name = "Upsample",
                 .since = 9,
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .rule = Resize10,
                 .reads_values = Bits(1)});
  ops.push_back({.name = "GridSample", .since = 16, .min_inputs = 2, .max_inputs = 2, .rule = GridSample});
  ops.push_back({.name = "AffineGrid",
                 .since = 20,
                 .min_inputs = 2,
                 .max_inputs = 2,
                 .rule = AffineGrid,
                 .reads_values = Bits(1)});
  ops.push_back({.name = "RoiAlign", .since = 10, .min_inputs = 3, .max_inputs = 3, .rule = RoiAlign});
  ops.push_back({.name = "DepthToSpace", .since = 1, .rule = DepthToSpace});
  ops.push_back({.name = "SpaceToDepth", .since = 1, .rule = SpaceToDepth});
}

}  // namespace ullage::ops
