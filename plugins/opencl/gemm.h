/// Launches of gemm.cl.
#pragma once

#include "op.h"

namespace ullage_opencl {

/// As gemm.cl declares it.
struct GemmArgs {
  int32_t m = 0, n = 0, k = 0, batch = 1;
  int64_t a_row = 0, a_column = 1, w_row = 0, y_row = 0;
  int64_t a_batch[2] = {}, w_batch[2] = {}, y_batch[2] = {}, c_batch[2] = {};
  int64_t c_row = 0, c_column = 0;
  float alpha = 1, beta = 0;
  int32_t padded_k = 0, spans = 0;
  uint64_t high_at = 0, scale_at = 0, zero_at = 0, d_at = 0, dmin_at = 0;
};

/// Forms of the second factor, as FORM of gemm.cl.
enum WeightForm { kRowsN = 0, kRowsK = 1, kQuantised = 2 };

/// The two kernels of a product.
struct GemmKernels {
  KernelRef* vector = nullptr;
  KernelRef* tiles = nullptr;
};

/// Few rows go one by one, many in tiles. `batches`: all of them; args.batch: the inner of two dimensions.
template <class W>
void RunGemm(const Context& context, const GemmKernels& kernels, WeightForm form, const Tensor& a, const W& w,
             const Tensor* c, const Tensor& y, const GemmArgs& args, int64_t batches = 1) {
  constexpr int kFewRows = 8;
  const bool tiles = args.m >= kFewRows;
  auto launch = context.Start(tiles ? *kernels.tiles : *kernels.vector);
  launch.Add(a).Add(w).Add(c).Add(y).Value(args);
  if (tiles)
    launch.Run((args.n + 63) / 64, (args.m + 31) / 32, batches, 16, 8);
  else if (form == kRowsK)
    launch.Run((args.n + 31) / 32, args.m, batches, 32, 4);
  else
    launch.Run((args.n + 3) / 4, args.m, batches, 64);
}

int32_t Int32(int64_t value, const char* what);

}  // namespace ullage_opencl
