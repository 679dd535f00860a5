/// Activations in the forms that products with packed weights read.
///
/// For each block b of 32 elements along K and each token t one record, at (b * m + t) * record size, so that
/// all tokens of a block lie together:
///  - kInt8: one ActivationBlock. q = round(a / scale), halves to even, scale = max|a| / 127;
///  - kInt16: two ActivationBlocks: a = scale * (256 q0 + q1), scale = max|a| / 32639;
///  - kInt24: three ActivationBlocks, most significant digit first: a = scale * (65536 q0 + 256 q1 + q2),
///  digits in
///    [-128, 127], scale = max|a| / 8355711;
///  - kFloat: 32 floats.
/// Elements beyond K are zeros. A block whose largest magnitude is below 2^-100 counts as zeros. A block with
/// an infinity or a NaN gets a NaN as scale, so that every result of that token becomes NaN. The record of a
/// row of A depends on that row only: not on m, the threads or the instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/thread_team.h"
#include "providers/cpu/quant/packed_weight.h"

namespace ullage::quant {

struct alignas(64) ActivationBlock {
  int8_t q[32];
  float scale;            ///< of the whole value
  float value_sum;        ///< scale * sum of the 32 codes (all digits)
  float half_sum[2];      ///< the same for elements 0…15 and 16…31
  int32_t minus_sum;      ///< minus the sum of q (this digit): what a constant zero point is multiplied with
  int32_t minus_half[2];  ///< the same for elements 0…15 and 16…31
  int32_t reserved;
};
static_assert(sizeof(ActivationBlock) == 64);

/// Digits of a form: 1 for kInt8, 2 for kInt16, 3 for kInt24 (0 for kFloat).
constexpr int DigitsOf(Activations form) {
  return form == Activations::kInt8    ? 1
         : form == Activations::kInt16 ? 2
         : form == Activations::kInt24 ? 3
                                       : 0;
}
/// Bytes of one record.
constexpr size_t RecordBytes(Activations form) {
  return form == Activations::kFloat ? 128 : 64 * static_cast<size_t>(DigitsOf(form));
}

/// Bytes of the activations of m tokens with k elements; throws kInvalidModel on overflow. A multiple of 64.
size_t ActivationBytes(Activations form, int64_t m, int64_t k);

/// Fills `out` (ActivationBytes, aligned to 64) from A [m, k] with row pitch lda in elements. `out` must not
/// overlap A. Allocates nothing.
void QuantizeActivations(Activations form, const float* a, int64_t lda, int64_t m, int64_t k, void* out,
                         ThreadTeam& team);
/// The same for rows [first, last) of the m, on the calling thread.
void QuantizeActivationRows(Activations form, const float* a, int64_t lda, int64_t m, int64_t k,
                            int64_t first, int64_t last, void* out);

}  // namespace ullage::quant
