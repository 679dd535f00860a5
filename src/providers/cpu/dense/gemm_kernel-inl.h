// The innermost loops of the matrix products; compiled once per instruction set.
//
// A kernel adds rows x kPanel products over `depth` steps to a tile of floats. a[k][rows] is packed,
// b[k][kPanel] has any row pitch. Per element this is one chain of multiply-adds in the order of k, whatever
// the kernel.

#if defined(ULLAGE_DENSE_GEMM_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ULLAGE_DENSE_GEMM_KERNEL_INL_H_
#undef ULLAGE_DENSE_GEMM_KERNEL_INL_H_
#else
#define ULLAGE_DENSE_GEMM_KERNEL_INL_H_
#endif

#include "providers/cpu/dense/gemm_tile.h"
#include "providers/cpu/dense/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ullage::dense {
namespace HWY_NAMESPACE {

// Registers: rows * vectors accumulators, the vectors of b and one of a.
#if HWY_TARGET <= HWY_AVX3
inline constexpr int64_t kMaxRows = 12;
inline constexpr int kVectors = 2;
#elif HWY_TARGET == HWY_AVX2
inline constexpr int64_t kMaxRows = 6;
inline constexpr int kVectors = 2;
#else
inline constexpr int64_t kMaxRows = 6;
inline constexpr int kVectors = 4;
#endif
/// Panels that a product with one row takes at a time: enough independent chains to hide the latency.
inline constexpr int64_t kWidePanels = 4;

#define ULLAGE_UNROLL _Pragma("GCC unroll 16")

template <class E, int kRows, bool kRowMajorA>
HWY_INLINE void Kernel(const float* HWY_RESTRICT a, int64_t a_step, const typename E::T* HWY_RESTRICT b,
                       int64_t ldb, int64_t depth, float* HWY_RESTRICT c, int64_t pitch, bool first) {
  for (int64_t j = 0; j < kPanel; j += kVectors * kLanes) {
    VF acc[kRows][kVectors];
    ULLAGE_UNROLL for (int i = 0; i < kRows; ++i) {
      ULLAGE_UNROLL for (int v = 0; v < kVectors; ++v) {
        acc[i][v] = first ? Zero() : hn::LoadU(DF(), c + i * pitch + j + v * kLanes);
      }
    }
    const float* ap = a;
    const typename E::T* bp = b + j;
    for (int64_t k = 0; k < depth; ++k, ap += kRowMajorA ? 1 : a_step, bp += ldb) {
      VF bv[kVectors];
      ULLAGE_UNROLL for (int v = 0; v < kVectors; ++v) bv[v] = Load<E>(bp + v * kLanes);
      ULLAGE_UNROLL for (int i = 0; i < kRows; ++i) {
        const VF av = Set(ap[kRowMajorA ? i * a_step : i]);
        ULLAGE_UNROLL for (int v = 0; v < kVectors; ++v) acc[i][v] = hn::MulAdd(av, bv[v], acc[i][v]);
      }
    }
    ULLAGE_UNROLL for (int i = 0; i < kRows; ++i) {
      ULLAGE_UNROLL for (int v = 0; v < kVectors; ++v) {
        hn::StoreU(acc[i][v], DF(), c + i * pitch + j + v * kLanes);
      }
    }
  }
}

/// One row against kWidePanels panels, `panel_step` elements apart.
template <class E>
void RunWideRow(const float* HWY_RESTRICT a, const typename E::T* HWY_RESTRICT b, int64_t panel_step,
                int64_t ldb, int64_t depth, float* HWY_RESTRICT c, bool first) {
  constexpr int kWidth =
      static_cast<int>(kPanel / kLanes < 4 ? kPanel / kLanes : 4);  // vectors per pass and panel
  constexpr int kPanels = kWidth >= 4 ? 2 : static_cast<int>(kWidePanels);
  for (int64_t p = 0; p < kWidePanels; p += kPanels) {
    for (int64_t j = 0; j < kPanel; j += kWidth * kLanes) {
      VF acc[kPanels][kWidth];
      ULLAGE_UNROLL for (int i = 0; i < kPanels; ++i) {
        ULLAGE_UNROLL for (int v = 0; v < kWidth; ++v) {
          acc[i][v] = first ? Zero() : hn::LoadU(DF(), c + (p + i) * kPanel + j + v * kLanes);
        }
      }
      const typename E::T* bp = b + p * panel_step + j;
      for (int64_t k = 0; k < depth; ++k, bp += ldb) {
        const VF av = Set(a[k]);
        ULLAGE_UNROLL for (int i = 0; i < kPanels; ++i) {
          ULLAGE_UNROLL for (int v = 0; v < kWidth; ++v) {
            acc[i][v] = hn::MulAdd(av, Load<E>(bp + i * panel_step + v * kLanes), acc[i][v]);
          }
        }
      }
      ULLAGE_UNROLL for (int i = 0; i < kPanels; ++i) {
        ULLAGE_UNROLL for (int v = 0; v < kWidth; ++v) {
          hn::StoreU(acc[i][v], DF(), c + (p + i) * kPanel + j + v * kLanes);
        }
      }
    }
  }
}

template <class E, bool kRowMajorA = false>
HWY_NOINLINE void RunKernel(int64_t rows, const float* a, int64_t a_step, const typename E::T* b, int64_t ldb,
                            int64_t depth, float* c, int64_t pitch, bool first) {
  switch (rows) {
    case 1:
      return Kernel<E, 1, kRowMajorA>(a, a_step, b, ldb, depth, c, pitch, first);
    case 2:
      return Kernel<E, 2, kRowMajorA>(a, a_step, b, ldb, depth, c, pitch, first);
    case 4:
      return Kernel<E, 4, kRowMajorA>(a, a_step, b, ldb, depth, c, pitch, first);
    case 6:
      return Kernel<E, 6, kRowMajorA>(a, a_step, b, ldb, depth, c, pitch, first);
#if HWY_TARGET <= HWY_AVX3
    case 8:
      return Kernel<E, 8, kRowMajorA>(a, a_step, b, ldb, depth, c, pitch, first);
    default:
      return Kernel<E, 12, kRowMajorA>(a, a_step, b, ldb, depth, c, pitch, first);
#else
    default:
      return;
#endif
  }
}

/// Rows for the next call when `left` are left and no row beyond them may be touched.
HWY_INLINE int64_t ExactRows(int64_t left) {
#if HWY_TARGET <= HWY_AVX3
  if (left >= 12 && left != 16) return 12;  // 16: twice 8
  if (left >= 8) return 8;
#else
  if (left >= 6 && left != 8) return 6;
#endif
  return left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

}  // namespace HWY_NAMESPACE
}  // namespace ullage::dense
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
