#include "providers/cpu/dense/gemm_tile.h"

#include <algorithm>

#include "providers/cpu/dense/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/dense/gemm_tile.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "providers/cpu/dense/gemm_kernel-inl.h"
#include "providers/cpu/dense/gemm_pack-inl.h"
#include "providers/cpu/dense/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ullage::dense {
namespace HWY_NAMESPACE {
namespace {

/// out[k][kPanel] = B[k0 + k, n0 + j] from B stored [k, n], zeros from column `cols` on.
template <class E>
void CopyPanel(const typename E::T* b, int64_t ldb, int64_t cols, int64_t depth, float* out) {
  for (int64_t k = 0; k < depth; ++k, b += ldb, out += kPanel) {
    int64_t j = 0;
    for (; j + kLanes <= cols; j += kLanes) hn::StoreU(Load<E>(b + j), DF(), out + j);
    for (; j < cols; ++j) out[j] = E::Get(b[j]);
    for (; j < kPanel; ++j) out[j] = 0;
  }
}

template <class E>
void Epilogue(const TileTask& t, int64_t pitch) {
  const GemmArgs& g = *t.args;
  const VF alpha = Set(g.alpha), beta = Set(g.beta);
  auto* c = static_cast<typename E::T*>(t.c);
  WithType(g.bias.dtype, [&](auto bias_type) HWY_ATTR {
    using B = decltype(bias_type);
    for (int64_t i = t.m0; i < t.m1; ++i) {
      const float* tile = t.scratch.c + (i - t.m0) * pitch;
      auto* row = c + i * g.ldc;
      const auto* bias = static_cast<const typename B::T*>(t.bias);
      if (bias != nullptr) bias += i * g.bias_row_stride;
      int64_t j = t.n0;
      for (; j + kLanes <= t.n1; j += kLanes) {
        VF v = hn::Mul(alpha, hn::LoadU(DF(), tile + (j - t.n0)));
        if (bias != nullptr) {
          const VF add = g.bias_col_stride == 0 ? Set(B::Get(bias[0])) : Load<B>(bias + j);
          v = hn::MulAdd(beta, add, v);
        }
        Store<E>(v, row + j);
      }
      if (j < t.n1) {
        const int64_t n = t.n1 - j;
        VF v = hn::Mul(alpha, LoadFirst<F32>(tile + (j - t.n0), n));
        if (bias != nullptr) {
          const VF add = g.bias_col_stride == 0 ? Set(B::Get(bias[0])) : LoadFirst<B>(bias + j, n);
          v = hn::MulAdd(beta, add, v);
        }
        StoreFirst<E>(v, row + j, n);
      }
    }
  });
}

template <class EA>
void PackA(const TileTask& t, int64_t row, int64_t valid, int64_t rows, int64_t k0, int64_t depth,
           float* out) {
  const auto* a = static_cast<const typename EA::T*>(t.a);
  const int64_t lda = t.args->lda;
  if (t.args->trans_a) {
    PackColumns<EA>(a + k0 * lda + row, lda, valid, rows, depth, out);
  } else {
    PackRows<EA>(a + row * lda + k0, lda, valid, rows, depth, out);
  }
}

/// All row blocks against `depth` rows of one panel: b[k][kPanel] with row pitch ldb.
template <class EB>
void MultiplyPanel(const float* a, int64_t m, const typename EB::T* b, int64_t ldb, int64_t depth, float* c,
                   int64_t pitch, bool first) {
  for (int64_t i = 0; i < m;) {
    const int64_t rows = KernelRows(m - i);
    RunKernel<EB>(rows, a + i * depth, rows, b, ldb, depth, c + i * pitch, pitch, first);
    i += rows;
  }
}

template <class EB>
void MultiplyTile(const TileTask& t, const float* a, int64_t k0, int64_t depth, int64_t pitch) {
  const GemmArgs& g = *t.args;
  const auto* b = static_cast<const typename EB::T*>(t.b);
  const int64_t m = t.m1 - t.m0;
  const bool first = k0 == 0;
  const bool direct = !g.trans_b || g.b_packed;
  const int64_t row_pitch = g.b_packed ? kPanel : g.ldb;
  const int64_t panel_step = g.b_packed ? kPanel * g.k : kPanel;
  const bool reuse = m > kMaxRows;  // worth a copy in float of what several kernels read
  int64_t n = t.n0;
  if (m == 1 && direct) {
    for (; n + kWidePanels * kPanel <= (g.b_packed ? (t.n1 + kPanel - 1) / kPanel * kPanel : t.n1);
         n += kWidePanels * kPanel) {
      RunWideRow<EB>(a, b + n / kPanel * panel_step + k0 * row_pitch, panel_step, row_pitch, depth,
                     t.scratch.c + (n - t.n0), first);
    }
  }
  for (; n < t.n1; n += kPanel) {
    const int64_t cols = g.b_packed ? kPanel : std::min(kPanel, t.n1 - n);
    float* c = t.scratch.c + (n - t.n0);
    const auto* panel = b + n / kPanel * panel_step;  // only used when direct
    if (direct && cols == kPanel && (!reuse || (EB::kDType == DType::kFloat && g.b_packed))) {
      MultiplyPanel<EB>(a, m, panel + k0 * row_pitch, row_pitch, depth, c, pitch, first);
      continue;
    }
    // A is packed [row block][depth][rows]: pieces of the depth only when there is one row block
    for (int64_t k = 0; k < depth; k += kBlockK) {
      const int64_t part = std::min(kBlockK, depth - k);
      if (direct) {
        CopyPanel<EB>(panel + (k0 + k) * row_pitch, row_pitch, cols, part, t.scratch.b);
      } else {
        PackRows<EB>(b + n * g.ldb + k0 + k, g.ldb, cols, kPanel, part, t.scratch.b);
      }
      const int64_t rows = depth > kBlockK ? KernelRows(m) : 0;
      MultiplyPanel<F32>(a + k * rows, m, t.scratch.b, kPanel, part, c, pitch, first && k == 0);
    }
  }
}

}  // namespace

void GemmTile(const TileTask& t) {
  const GemmArgs& g = *t.args;
  const int64_t m = t.m1 - t.m0;
  const int64_t cols = (t.n1 - t.n0 + kPanel - 1) / kPanel * kPanel;
  const int64_t block = m > kMaxRows ? kBlockK : kDeepK;
  if (g.k == 0) std::fill_n(t.scratch.c, m * cols, 0.0f);
  for (int64_t k0 = 0; k0 < g.k; k0 += block) {
    const int64_t depth = std::min(block, g.k - k0);
    const float* a = t.scratch.a;
    if (m == 1 && g.a.dtype == DType::kFloat && !g.trans_a) {
      a = static_cast<const float*>(t.a) + t.m0 * g.lda + k0;
    } else {
      for (int64_t i = 0; i < m;) {
        const int64_t rows = KernelRows(m - i), valid = std::min(rows, m - i);
        WithType(g.a.dtype, [&](auto type) HWY_ATTR {
          PackA<decltype(type)>(t, t.m0 + i, valid, rows, k0, depth, t.scratch.a + i * depth);
        });
        i += rows;
      }
    }
    WithType(g.b.dtype, [&](auto type) HWY_ATTR { MultiplyTile<decltype(type)>(t, a, k0, depth, cols); });
  }
  WithType(g.c.dtype, [&](auto type) HWY_ATTR { Epilogue<decltype(type)>(t, cols); });
}

}  // namespace HWY_NAMESPACE
}  // namespace ullage::dense
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ullage::dense {

HWY_EXPORT(GemmTile);
void RunGemmTile(const TileTask& task) {
  HWY_DYNAMIC_DISPATCH(GemmTile)(task);
}

}  // namespace ullage::dense
#endif
