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

/// Rows that a product may have; most -1: no bound.
struct RowBounds {
  int64_t least = 0, most = -1;
};

/// Of all dimensions from `first` on but the last.
RowBounds RowsOf(const ValueFacts& a, size_t first);

/// The kernels of a product: by row, in tiles of few and of many rows; those that the bounds call for. The
/// sums of both tiles are made in the same order.
struct GemmKernels {
  static constexpr int64_t kFewRows = 8, kManyRows = 33, kFewHeight = 16, kManyHeight = 64;

  KernelRef *vector = nullptr, *few = nullptr, *many = nullptr;

  /// `use(options, kernel)` gives a kernel of gemm.cl.
  template <class Use>
  static GemmKernels Of(const RowBounds& rows, const std::string& options, const Use& use) {
    const auto within = [&](int64_t first, int64_t last) {
      return rows.least <= last && (rows.most < 0 || rows.most >= first);
    };
    GemmKernels kernels;
    if (within(kFewRows, kManyRows - 1)) kernels.few = &use(options + Define("BM", kFewHeight), "tiles");
    if (within(kManyRows, INT64_MAX)) kernels.many = &use(options + Define("BM", kManyHeight), "tiles");
    if (within(0, kFewRows - 1) || !(kernels.few || kernels.many)) kernels.vector = &use(options, "vector");
    return kernels;
  }
};

/// `batches`: all of them; args.batch: the inner of two dimensions.
template <class W>
void RunGemm(const Context& context, const GemmKernels& kernels, WeightForm form, const Tensor& a, const W& w,
             const Tensor* c, const Tensor& y, const GemmArgs& args, int64_t batches = 1) {
  using K = GemmKernels;
  const bool tiles = !kernels.vector || (args.m >= K::kFewRows && (kernels.few || kernels.many));
  const bool many = kernels.many && (args.m >= K::kManyRows || !kernels.few);
  auto launch = context.Start(!tiles ? *kernels.vector : many ? *kernels.many : *kernels.few);
  launch.Add(a).Add(w).Add(c).Add(y).Value(args);
  const int64_t height = many ? K::kManyHeight : K::kFewHeight;
  if (tiles)
    launch.Run((args.n + 63) / 64, (args.m + height - 1) / height, batches, 8,
               static_cast<size_t>(height / 4));
  else if (form == kRowsK)
    launch.Run((args.n + 31) / 32, args.m, batches, 32, 4);
  else
    launch.Run((args.n + 3) / 4, args.m, batches, 64);
}

int32_t Int32(int64_t value, const char* what);

}  // namespace ullage_opencl
