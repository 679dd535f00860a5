/// Matrix products with float accumulation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/thread_team.h"
#include "providers/cpu/dense/array.h"
#include "ullage/tensor.h"

namespace ullage::dense {

/// Constant right-hand sides are packed once, in their own element type, into panels of kPanel columns:
///
///   panel p: [k][kPanel] elements, column p*kPanel+j of row kk at kk*kPanel+j; the last panel is filled with
///   zeros.
///
/// Panels follow each other, so that a consumer may stream or fill any range of them on its own.
inline constexpr int64_t kPanel = 32;

/// Number of panels of a matrix of n columns.
int64_t PackedBPanels(int64_t n);
/// Bytes of one panel: a multiple of 64.
size_t PackedBPanelBytes(int64_t k, DType dtype);
/// Bytes of the packed form of a [k, n] matrix (what a plan reserves as prepacked weight); throws
/// kInvalidModel on overflow.
size_t PackedBBytes(int64_t n, int64_t k, DType dtype);

/// Packs panels [first_panel, last_panel) into `packed`, which points at the start of the whole packed
/// matrix. `src` is [k, n] with row pitch ld (elements), or with `transposed` [n, k] with row pitch ld.
void PackB(ConstArray src, bool transposed, int64_t ld, int64_t n, int64_t k, int64_t first_panel,
           int64_t last_panel, void* packed);
/// Rows [first_row, last_row) of a [k, n] source into all panels, by the team. Rows of the panels that fill
/// up the last one become zeros.
void PackBRows(ThreadTeam& team, ConstArray src, int64_t ld, int64_t n, int64_t k, int64_t first_row,
               int64_t last_row, void* packed);
/// All panels, by the team.
void PackB(ThreadTeam& team, ConstArray src, bool transposed, int64_t ld, int64_t n, int64_t k, void* packed);

/// C[m,n] = alpha * op(A)[m,k] * op(B)[k,n] + beta * Bias, for every batch.
///
/// Every element of C is alpha times one chain of fused multiply-adds over k from 0 up, so its bits depend
/// neither on m, n, the batch, the threads nor on whether B is packed. A, B, C and Bias may have different
/// element types. C must not overlap A or B; Bias may be C itself (same type and strides).
struct GemmArgs {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;

  ConstArray a;     ///< [m, k], or [k, m] with trans_a
  int64_t lda = 0;  ///< row pitch in elements
  bool trans_a = false;
  ConstArray b;          ///< [k, n], or [n, k] with trans_b; or the packed form
  int64_t ldb = 0;       ///< row pitch in elements; unused when packed
  bool trans_b = false;  ///< unused when packed
  bool b_packed = false;
  Array c;  ///< [m, n]
  int64_t ldc = 0;

  float alpha = 1;
  float beta = 1;               ///< used only with a bias
  ConstArray bias;              ///< data may be null; element (i, j) at i*bias_row_stride + j*bias_col_stride
  int64_t bias_row_stride = 0;  ///< 0: one row for all
  int64_t bias_col_stride = 1;  ///< 0 or 1

  /// Leading dimensions of a product of rank > 2, with strides in elements (0: broadcast). A packed B counts
  /// its strides in whole packed matrices. The bias is the same for every batch.
  int batch_rank = 0;
  int64_t batch_dims[kMaxRank] = {};
  int64_t a_batch_strides[kMaxRank] = {};
  int64_t b_batch_strides[kMaxRank] = {};
  int64_t c_batch_strides[kMaxRank] = {};
};

/// Scratch of Gemm() on a team of `threads`. It depends on m, n, k, the types and flags, never on pointers,
/// and does not shrink when m grows.
size_t GemmScratchBytes(const GemmArgs& args, int threads);

void Gemm(ThreadTeam& team, const GemmArgs& args, void* scratch);

}  // namespace ullage::dense
