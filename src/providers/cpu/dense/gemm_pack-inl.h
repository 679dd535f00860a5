// Packing of rows for the kernels of gemm_kernel-inl.h; compiled once per instruction set.

#if defined(ULLAGE_DENSE_GEMM_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ULLAGE_DENSE_GEMM_PACK_INL_H_
#undef ULLAGE_DENSE_GEMM_PACK_INL_H_
#else
#define ULLAGE_DENSE_GEMM_PACK_INL_H_
#endif

#include <algorithm>

#include "providers/cpu/dense/gemm_kernel-inl.h"
#include "providers/cpu/dense/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ullage::dense {
namespace HWY_NAMESPACE {

/// Rows of A that one kernel call takes when `left` rows are left.
HWY_INLINE int64_t KernelRows(int64_t left) {
  if (left >= kMaxRows) return kMaxRows;
  return left <= 2 ? left : std::min(kMaxRows, (left + 3) & ~int64_t{3});
}

/// out[k][rows] from rows of pitch lda, `valid` <= rows of them; the others become 0.
template <class E>
HWY_NOINLINE void PackRows(const typename E::T* a, int64_t lda, int64_t valid, int64_t rows, int64_t depth,
                           float* out) {
  if (rows == 1) {
    int64_t k = 0;
    for (; k + kLanes <= depth; k += kLanes) hn::StoreU(Load<E>(a + k), DF(), out + k);
    for (; k < depth; ++k) out[k] = E::Get(a[k]);
    return;
  }
  int64_t i = 0;
  for (; i + 4 <= valid; i += 4) {
    const auto* r = a + i * lda;
    int64_t k = 0;
    for (; k + 4 <= depth; k += 4) {
      Transpose4<E>(r + k, r + lda + k, r + 2 * lda + k, r + 3 * lda + k, out + k * rows + i, rows);
    }
    for (; k < depth; ++k)
      for (int64_t j = 0; j < 4; ++j) out[k * rows + i + j] = E::Get(r[j * lda + k]);
  }
  for (; i < valid; ++i)
    for (int64_t k = 0; k < depth; ++k) out[k * rows + i] = E::Get(a[i * lda + k]);
  for (; i < rows; ++i)
    for (int64_t k = 0; k < depth; ++k) out[k * rows + i] = 0;
}

/// The same from A stored [k, m].
template <class E>
HWY_NOINLINE void PackColumns(const typename E::T* a, int64_t lda, int64_t valid, int64_t rows, int64_t depth,
                              float* out) {
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t i = 0; i < valid; ++i) out[k * rows + i] = E::Get(a[k * lda + i]);
    for (int64_t i = valid; i < rows; ++i) out[k * rows + i] = 0;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ullage::dense
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
