/// com.microsoft:GatherBlockQuantized in every layout: any axes, tables that are no constants, rows that no
/// block divides.
#include <algorithm>
#include <vector>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/kernels/attention_common.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"
#include "providers/cpu/kernels/small_types.h"
#include "providers/cpu/kernels/types.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

/// Code i of an array of `bits` wide codes, low bits first.
int64_t CodeAt(const TensorView& v, int64_t bits, int64_t i) {
  if (v.dtype == DType::kInt8) return v.as<int8_t>()[i];
  if (v.dtype != DType::kUInt8) return PackedAt(v.data, v.dtype, i);
  if (bits == 8) return v.as<uint8_t>()[i];
  const int64_t per_byte = 8 / bits;
  return v.as<uint8_t>()[i / per_byte] >> (bits * (i % per_byte)) & ((1 << bits) - 1);
}

class GatherBlocksKernel final : public Kernel {
 public:
  explicit GatherBlocksKernel(const KernelInfo& info)
      : bits_(info.node.Int("bits", 4)),
        block_(info.node.Int("block_size", 128)),
        gather_(info.node.Int("gather_axis", 0)),
        axis_(info.node.Int("quantize_axis", 1)) {
    if (bits_ != 2 && bits_ != 4 && bits_ != 8) info.Unsupported("bits ", bits_);
    if (block_ < 1) info.Unsupported("block_size ", block_);
  }

  void Compute(KernelContext& context) const override {
    const TensorView& data = *context.input(0);
    const TensorView& indices = *context.input(1);
    const TensorView& scales = *context.input(2);
    const TensorView* zeros = context.input(3);
    TensorView& y = *context.output(0);
    const int rank = data.shape.rank();
    const int gather = static_cast<int>(gather_ < 0 ? gather_ + rank : gather_);
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + rank : axis_);
    const bool bytes = data.dtype == DType::kUInt8;
    Shape logical = data.shape, grid;
    if (bytes) logical[rank - 1] *= 8 / bits_;
    if (bytes && bits_ < 8 && axis != rank - 1)
      Throw(Code::kUnsupported, "packed bytes with quantize_axis ", axis, " of rank ", rank);
    grid = logical;
    grid[axis] = CeilDiv(logical[axis], block_);
    if (!(scales.shape == grid))
      Throw(Code::kInvalidModel, "scales have shape ", scales.shape.ToString(), ", expected ",
            grid.ToString());
    // Zero points of bytes are packed along the last axis, each row padded to a byte.
    const int64_t per_byte = bytes ? 8 / bits_ : 1;
    if (zeros) {
      Shape want = grid;
      want[rank - 1] = CeilDiv(grid[rank - 1], per_byte);
      if (zeros->dtype != data.dtype || !(zeros->shape == want))
        Throw(Code::kInvalidModel, "zero points have shape ", zeros->shape.ToString(), ", expected ",
              want.ToString());
    }
    const int64_t middle = bytes ? int64_t{1} << (bits_ - 1) : 0;
    const int64_t outer = logical.elements(0, gather), dim = logical[gather];
    const int64_t inner = logical.elements(gather + 1, rank), count = indices.elements();
    // Elements that follow each other along `inner`, in runs of the last axis.
    const int64_t width = gather == rank - 1 ? 1 : logical.at(-1);
    const int64_t zero_width = CeilDiv(grid.at(-1), per_byte) * per_byte;
    ForNumber(y.dtype, [&](auto type) {
      using T = decltype(type);
      using A = typename Arithmetic<T>::Type;
      if constexpr (std::is_same_v<A, float>) {
        const auto scale_at = [&](int64_t i) {
          switch (scales.dtype) {
            case DType::kFloat:
              return scales.as<float>()[i];
            case DType::kFloat16:
              return HalfToFloat(scales.as<uint16_t>()[i]);
            default:
              return BFloat16ToFloat(scales.as<uint16_t>()[i]);
          }
        };
        context.threads().Run(outer * count, [&](int64_t task, int) {
          T* out = y.as<T>() + task * inner;
          int64_t index = IndexOf(indices, task % count);
          if (index < 0) index += dim;
          if (index < 0 || index >= dim) {
            std::fill_n(out, inner, T{});
            return;
          }
          const int64_t first = (task / count * dim + index) * inner;
          for (int64_t run = 0; run < inner; run += width) {
            // Coordinates of the run's beginning, as an offset into the scales.
            int64_t rest = first + run, at = 0, stride = 1, zero_at = 0, zero_stride = 1, last = 0;
            for (int d = rank - 1; d >= 0; --d) {
              int64_t i = rest % logical[d];
              rest /= logical[d];
              if (d == rank - 1) last = i;
              if (d == axis) i /= block_;
              at += i * stride;
              stride *= grid[d];
              zero_at += i * zero_stride;
              zero_stride *= d == rank - 1 ? zero_width : grid[d];
            }
            for (int64_t j = 0; j < width; ++j) {
              const int64_t step = axis == rank - 1 ? (last + j) / block_ - last / block_ : j;
              const int64_t zero = zeros ? CodeAt(*zeros, bits_, zero_at + step) : middle;
              const auto code = static_cast<float>(CodeAt(data, bits_, first + run + j) - zero);
              out[run + j] = Store<T>(code * scale_at(at + step));
            }
          }
        });
      } else {
        Throw(Code::kUnsupported, "results of type ", NameOf(y.dtype));
      }
    });
  }

 private:
  int64_t bits_, block_, gather_, axis_;
};

}  // namespace

void RegisterGatherBlocks(kernels::Registry& registry) {
  kernels::KernelDef def;
  def.domain = graph::kMsDomain;
  def.op = "GatherBlockQuantized";
  const kernels::TypeSet codes = {DType::kUInt8, DType::kUInt4, DType::kInt4};
  def.types = {codes, kernels::TypeSet{DType::kInt32, DType::kInt64}, kernels::kFloats, codes};
  def.create = Make<GatherBlocksKernel>;
  registry.Add(std::move(def));
}

}  // namespace ullage::cpu
