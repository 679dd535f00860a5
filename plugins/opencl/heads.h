/// Launches of rotary.cl: heads on their way to where attention reads them.
#pragma once

#include "op.h"

namespace ullage_opencl {

/// As rotary.cl declares it.
struct HeadsArgs {
  int32_t size = 0, rotary = 0, seq = 0, heads = 0;
  int64_t x_batch = 0, x_row = 0, x_head = 0, y_batch = 0, y_row = 0, y_head = 0;
  int32_t table_rows = 0, table_pitch = 0;
  int64_t ids_batch = 0, offset = 0, row0 = 0;
  int32_t rows = INT32_MAX, ids = 0, lengths = 0, first = 0, biased = 0, normed = 0;
  float epsilon = 0;
  int32_t start = 0, head_scales = 0, room = 0;
};

struct HeadLayout {
  int64_t batch = 0, row = 0, head = 0;
};
/// [B, S, heads * size] within rows of `row` elements.
inline HeadLayout Packed(int64_t seq, int64_t row, int64_t size) {
  return {seq * row, row, size};
}
/// [B, heads, rows, size].
inline HeadLayout HeadsFirst(int64_t heads, int64_t rows, int64_t size) {
  return {heads * rows * size, size, rows * size};
}

/// How a row of a cache is stored. kind: 0 floats; 1 codes of int8, then one half per `block` elements; 2
/// int8 and 3 two codes (plus 8, low bits first) in a byte, with scales that are given.
struct RowCodec {
  int kind = 0;
  int64_t block = 8;
  /// Elements of the tensor (bytes, but for floats) of a row of `size`.
  int64_t Width(int64_t size) const {
    return kind == 1 ? size + 2 * ((size + block - 1) / block) : kind == 3 ? (size + 1) / 2 : size;
  }
  bool given() const { return kind >= 2; }
};

/// What a heads kernel is specialised for; types by number. Rows of integers: `size` elements, of which there
/// are at most 1024.
std::string HeadsOptions(int32_t x, int32_t y, int32_t weight, int32_t table, int32_t ids, int32_t lengths,
                         int rotate, bool norm, bool full_table = false, const RowCodec& codec = {},
                         int64_t size = 0);

struct HeadsTensors {
  const Tensor* weight = nullptr;
  const Tensor* bias = nullptr;
  const Tensor* cosines = nullptr;
  const Tensor* sines = nullptr;
  const Tensor* ids = nullptr;
  const Tensor* lengths = nullptr;
  const Tensor* scales = nullptr;  ///< of codes
};
/// `y`: a tensor or a region.
template <class Target>
void RunHeads(const Context& context, const KernelRef& kernel, const Tensor& x, const Target& y,
              const HeadsTensors& t, const HeadsArgs& args, int64_t batch) {
  if (batch == 0 || args.seq == 0) return;
  auto launch = context.Start(kernel);
  launch.Add(x).Add(y).Add(t.weight).Add(t.bias).Add(t.cosines).Add(t.sines).Add(t.ids).Add(t.lengths);
  launch.Add(t.scales).Value(args);
  launch.Run(args.seq, args.heads, batch, 32);
}

}  // namespace ullage_opencl
