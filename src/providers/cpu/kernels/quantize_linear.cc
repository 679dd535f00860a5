/// QuantizeLinear, DequantizeLinear (ai.onnx 10 and later, com.microsoft) and DynamicQuantizeLinear.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"
#include "providers/cpu/kernels/small_types.h"
#include "providers/cpu/kernels/types.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

float FloatAt(const TensorView& v, int64_t i) {
  switch (v.dtype) {
    case DType::kFloat:
      return v.as<float>()[i];
    case DType::kFloat16:
      return HalfToFloat(v.as<uint16_t>()[i]);
    case DType::kBFloat16:
      return BFloat16ToFloat(v.as<uint16_t>()[i]);
    case DType::kDouble:
      return static_cast<float>(v.as<double>()[i]);
    case DType::kInt32:
      return static_cast<float>(v.as<int32_t>()[i]);
    default:
      return SmallAt(v.data, v.dtype, i);
  }
}

int64_t IntegerAt(const TensorView& v, int64_t i) {
  switch (v.dtype) {
    case DType::kInt8:
      return v.as<int8_t>()[i];
    case DType::kUInt8:
      return v.as<uint8_t>()[i];
    case DType::kInt16:
      return v.as<int16_t>()[i];
    case DType::kUInt16:
      return v.as<uint16_t>()[i];
    case DType::kInt32:
      return v.as<int32_t>()[i];
    default:
      return PackedAt(v.data, v.dtype, i);
  }
}

/// Which scale holds for which run of elements: x is [outer, axis, inner], and the scales are one number,
/// [axis] or [outer, ceil(axis / block), inner].
struct Grid {
  int64_t outer = 1, axis = 1, inner = 1, block = 1;
  bool single = false, blocked = false;

  Grid(const Shape& x, const Shape& scale, int64_t axis_attr, int64_t block_size) {
    if (scale.elements() == 1 && block_size == 0) {
      single = true;
      inner = x.elements();
      return;
    }
    const int rank = x.rank();
    int64_t a = axis_attr < 0 ? axis_attr + rank : axis_attr;
    if (rank == 1 && axis_attr == 1) a = 0;
    if (a < 0 || a >= rank) Throw(Code::kInvalidModel, "axis ", axis_attr, " of a tensor of rank ", rank);
    const int d = static_cast<int>(a);
    outer = x.elements(0, d);
    axis = x[d];
    inner = x.elements(d + 1, rank);
    Shape want = {axis};
    if (block_size > 0) {
      blocked = true;
      block = block_size;
      want = x;
      want[d] = CeilDiv(axis, block);
    }
    if (!(scale == want))
      Throw(Code::kInvalidModel, "scales of shape ", scale.ToString(), ", expected ", want.ToString());
  }
  int64_t rows() const { return outer * axis; }
  /// Index of the scale of element j of row r; with blocks it depends on j.
  int64_t scale_of(int64_t r, int64_t j) const {
    if (single) return 0;
    if (!blocked) return r % axis;
    return (r / axis * CeilDiv(axis, block) + r % axis / block) * inner + j;
  }
};

template <class Fn>
void EachRow(ThreadTeam& team, const Grid& grid, bool shared_bytes, const Fn& fn) {
  const int64_t rows = grid.rows();
  if (shared_bytes || rows * grid.inner < 32768) {
    for (int64_t r = 0; r < rows; ++r) fn(r, int64_t{0}, grid.inner);
    return;
  }
  // Rows are cut, too: a single scale has one row only.
  constexpr int64_t kPerTask = 16384;
  if (grid.inner >= kPerTask) {
    const int64_t parts = CeilDiv(grid.inner, kPerTask);
    team.Run(rows * parts, [&](int64_t t, int) {
      const int64_t first = t % parts * kPerTask;
      fn(t / parts, first, std::min(grid.inner, first + kPerTask));
    });
    return;
  }
  const int64_t per = CeilDiv(kPerTask, std::max<int64_t>(grid.inner, 1));
  team.Run(CeilDiv(rows, per), [&](int64_t t, int) {
    for (int64_t r = t * per; r < std::min(rows, (t + 1) * per); ++r) fn(r, int64_t{0}, grid.inner);
  });
}

void CheckZeroPoint(const TensorView* zp, const TensorView& scale) {
  if (zp && zp->elements() != scale.elements())
    Throw(Code::kInvalidModel, "zero points of shape ", zp->shape.ToString(), " for scales of shape ",
          scale.shape.ToString());
}

class DequantizeKernel final : public Kernel {
 public:
  explicit DequantizeKernel(const KernelInfo& info)
      : axis_(info.node.Int("axis", 1)), block_(info.node.Int("block_size", 0)) {}

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    const TensorView& scale = *context.input(1);
    const TensorView* zp = context.input(2);
    TensorView& y = *context.output(0);
    if (x.elements() == 0) return;
    CheckZeroPoint(zp, scale);
    const Grid grid(x.shape, scale.shape, axis_, block_);
    ForFloat(y.dtype, [&](auto out) {
      using T = decltype(out);
      if (IsSmallFloat(x.dtype)) {
        Rows<T>(context.threads(), grid, x, scale, nullptr, y,
                [&](int64_t i) { return SmallAt(x.data, x.dtype, i); });
      } else if (IsPackedInteger(x.dtype)) {
        Rows<T>(context.threads(), grid, x, scale, zp, y,
                [&](int64_t i) { return int32_t{PackedAt(x.data, x.dtype, i)}; });
      } else {
        ForNumber(x.dtype, [&](auto in) {
          using S = decltype(in);
          if constexpr (std::is_integral_v<S> && sizeof(S) <= 4 && !std::is_same_v<S, uint32_t>) {
            const S* from = x.as<S>();
            using Wide = std::conditional_t<sizeof(S) == 4, int64_t, int32_t>;
            Rows<T>(context.threads(), grid, x, scale, zp, y,
                    [from](int64_t i) { return static_cast<Wide>(from[i]); });
          } else {
            Throw(Code::kUnsupported, "quantised elements of type ", NameOf(x.dtype));
          }
        });
      }
    });
  }

 private:
  template <class Fn>
  static void ForFloat(DType dtype, const Fn& fn) {
    switch (dtype) {
      case DType::kFloat:
        return fn(float{});
      case DType::kFloat16:
        return fn(Half{});
      case DType::kBFloat16:
        return fn(BFloat16{});
      default:
        Throw(Code::kUnsupported, "results of type ", NameOf(dtype));
    }
  }
  template <class T, class At>
  static void Rows(ThreadTeam& team, const Grid& grid, const TensorView&, const TensorView& scale,
                   const TensorView* zp, TensorView& y, const At& at) {
    T* out = y.as<T>();
    EachRow(team, grid, false, [&](int64_t r, int64_t first, int64_t last) {
      const int64_t base = r * grid.inner;
      if (!grid.blocked) {
        const int64_t k = grid.scale_of(r, 0);
        const float s = FloatAt(scale, k);
        const auto z = static_cast<decltype(at(0))>(zp ? IntegerAt(*zp, k) : 0);
        for (int64_t j = first; j < last; ++j)
          out[base + j] = Store<T>(static_cast<float>(at(base + j) - z) * s);
        return;
      }
      for (int64_t j = first; j < last; ++j) {
        const int64_t k = grid.scale_of(r, j);
        const auto z = static_cast<decltype(at(0))>(zp ? IntegerAt(*zp, k) : 0);
        out[base + j] = Store<T>(static_cast<float>(at(base + j) - z) * FloatAt(scale, k));
      }
    });
  }
  int64_t axis_, block_;
};

struct IntegerRange {
  int64_t lowest, highest;
};
IntegerRange RangeOf(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return {-128, 127};
    case DType::kUInt8:
      return {0, 255};
    case DType::kInt16:
      return {-32768, 32767};
    case DType::kUInt16:
      return {0, 65535};
    case DType::kInt4:
      return {-8, 7};
    case DType::kUInt4:
      return {0, 15};
    case DType::kInt2:
      return {-2, 1};
    case DType::kUInt2:
      return {0, 3};
    default:
      Throw(Code::kUnsupported, "quantised elements of type ", NameOf(dtype));
  }
}

class QuantizeKernel final : public Kernel {
 public:
  explicit QuantizeKernel(const KernelInfo& info)
      : axis_(info.node.Int("axis", 1)),
        block_(info.node.Int("block_size", 0)),
        saturate_(info.node.Int("saturate", 1) != 0),
        precision_(DTypeFromOnnx(static_cast<int32_t>(info.node.Int("precision", 0)))) {}

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    const TensorView& scale = *context.input(1);
    const TensorView* zp = context.input(2);
    TensorView& y = *context.output(0);
    if (x.elements() == 0) return;
    CheckZeroPoint(zp, scale);
    const Grid grid(x.shape, scale.shape, axis_, block_);
    const DType dtype = y.dtype;
    // The quotient is rounded to the type that the division is done in.
    const DType precision = precision_ != DType::kUndefined ? precision_ : scale.dtype;
    const auto quotient = [&](int64_t i, int64_t k) {
      const float q = FloatAt(x, i) / FloatAt(scale, k);
      if (precision == DType::kFloat16) return HalfToFloat(FloatToHalf(q));
      if (precision == DType::kBFloat16) return BFloat16ToFloat(FloatToBFloat16(q));
      return q;
    };
    const bool packed = BitsOf(dtype) < 8;
    EachRow(context.threads(), grid, packed, [&](int64_t r, int64_t first, int64_t last) {
      for (int64_t j = first; j < last; ++j) {
        const int64_t i = r * grid.inner + j, k = grid.scale_of(r, j);
        const float q = quotient(i, k);
        if (IsSmallFloat(dtype)) {
          const float z = zp ? SmallAt(zp->data, zp->dtype, k) : 0;
          const uint8_t code = EncodeSmallFloat(dtype, q + z, saturate_);
          if (packed)
            SetPacked(y.data, dtype, i, code);
          else
            y.as<uint8_t>()[i] = code;
          continue;
        }
        const IntegerRange range = RangeOf(dtype);
        const double rounded =
            std::nearbyint(static_cast<double>(q)) + static_cast<double>(zp ? IntegerAt(*zp, k) : 0);
        const int64_t n = std::isnan(rounded)                             ? 0
                          : rounded <= static_cast<double>(range.lowest)  ? range.lowest
                          : rounded >= static_cast<double>(range.highest) ? range.highest
                                                                          : static_cast<int64_t>(rounded);
        if (packed)
          SetPacked(y.data, dtype, i, static_cast<int>(n));
        else if (BitsOf(dtype) == 8)
          y.as<uint8_t>()[i] = static_cast<uint8_t>(n);
        else
          y.as<uint16_t>()[i] = static_cast<uint16_t>(n);
      }
    });
  }

 private:
  int64_t axis_, block_;
  bool saturate_;
  DType precision_;
};

/// uint8 with one scale for all; the range always holds 0.
class DynamicQuantizeKernel final : public Kernel {
 public:
  explicit DynamicQuantizeKernel(const KernelInfo&) {}
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    const auto* in = x.as<float>();
    const int64_t n = x.elements();
    float low = 0, high = 0;
    for (int64_t i = 0; i < n; ++i) {
      low = std::min(low, in[i]);
      high = std::max(high, in[i]);
    }
    const float scale = high == low ? 1 : (high - low) / 255;
    const float zero = std::nearbyint(std::clamp(0 - low / scale, 0.0f, 255.0f));
    auto* out = context.output(0)->as<uint8_t>();
    const auto store = [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const float q = std::nearbyint(in[i] / scale) + zero;
        out[i] = static_cast<uint8_t>(q > 0 ? (q < 255 ? q : 255.0f) : 0.0f);  // NaN: 0
      }
    };
    constexpr int64_t kPerTask = 16384;
    context.threads().Run(CeilDiv(n, kPerTask),
                          [&](int64_t t, int) { store(t * kPerTask, std::min(n, (t + 1) * kPerTask)); });
    if (TensorView* v = context.output(1)) *v->as<float>() = scale;
    if (TensorView* v = context.output(2)) *v->as<uint8_t>() = static_cast<uint8_t>(zero);
  }
};

}  // namespace

void RegisterQuantizeLinear(kernels::Registry& registry) {
  const kernels::TypeSet small = {DType::kInt4,       DType::kUInt4,          DType::kInt2,
                                  DType::kUInt2,      DType::kFloat8E4M3FN,   DType::kFloat8E4M3FNUZ,
                                  DType::kFloat8E5M2, DType::kFloat8E5M2FNUZ, DType::kFloat4E2M1};
  const kernels::TypeSet codes =
      small | kernels::TypeSet{DType::kInt8, DType::kUInt8, DType::kInt16, DType::kUInt16, DType::kInt32};
  const kernels::TypeSet scales = kernels::kFloats | kernels::TypeSet{DType::kFloat8E8M0};
  for (std::string_view domain : {std::string_view(), graph::kMsDomain}) {
    registry.Add(Define<DequantizeKernel>(domain, "DequantizeLinear", {codes, scales, codes}));
    registry.Add(Define<QuantizeKernel>(domain, "QuantizeLinear",
                                        {kernels::kFloats | kernels::TypeSet{DType::kInt32},
                                         scales | kernels::TypeSet{DType::kInt32}, codes}));
  }
  registry.Add(Define<DynamicQuantizeKernel>("", "DynamicQuantizeLinear", {kernels::kFloat32}));
}

}  // namespace ullage::cpu
