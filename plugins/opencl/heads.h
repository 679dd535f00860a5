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
  int32_t start = 0;
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

/// What a heads kernel is specialised for; types by number.
std::string HeadsOptions(int32_t x, int32_t y, int32_t weight, int32_t table, int32_t ids, int32_t lengths,
                         int rotate, bool norm, bool full_table = false);

struct HeadsTensors {
  const Tensor* weight = nullptr;
  const Tensor* bias = nullptr;
  const Tensor* cosines = nullptr;
  const Tensor* sines = nullptr;
  const Tensor* ids = nullptr;
  const Tensor* lengths = nullptr;
};
/// `y`: a tensor or a region.
template <class Target>
void RunHeads(const Context& context, const KernelRef& kernel, const Tensor& x, const Target& y,
              const HeadsTensors& t, const HeadsArgs& args, int64_t batch) {
  if (batch == 0 || args.seq == 0) return;
  auto launch = context.Start(kernel);
  launch.Add(x).Add(y).Add(t.weight).Add(t.bias).Add(t.cosines).Add(t.sines).Add(t.ids).Add(t.lengths).Value(
      args);
  launch.Run(args.seq, args.heads, batch, 32);
}

}  // namespace ullage_opencl
