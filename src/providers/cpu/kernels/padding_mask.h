/// The masks of com.microsoft:MultiHeadAttention and Attention as one tensor that is added to the scores.
#pragma once

#include <cstdint>

#include "ops/shape_context.h"
#include "providers/cpu/kernels/attention_common.h"

namespace ullage::cpu {

/// `padding` (int32, may be null) is one of
///   [B]           keys from here on are padding
///   [3 B + 2]     the same in the first B elements
///   [2 B]         ends, then beginnings, of what is no padding   (Attention)
///   [B, T]        0: padding
///   [B, S, T]     0: hidden from this query
///   [B, 1, M, M]  the rows [P, P + S) and columns [0, T) of a larger square (Attention)
/// Padding keys get `filter` added to their scores; so they are not hidden, and a row of nothing but padding
/// is as without a mask. `bias` is added as well.
struct MaskArgs {
  const TensorView* padding = nullptr;
  const TensorView* bias = nullptr;
  float filter = -10000;
  int64_t past = 0;  ///< P
};

/// Bytes of the sum for shapes within the bounds (0: no buffer needed); ops::kUnbounded when nothing bounds
/// them. `padding` and `bias` may be null.
int64_t MaskBytes(const ops::ValueFacts* padding, const ops::ValueFacts* bias, int64_t batch, int64_t heads,
                  int64_t seq, int64_t keys);

/// Sets the bias of `args`, whose sizes are set; the sum is made in the workspace of `slot`.
void SetMask(kernels::KernelContext& context, const MaskArgs& mask, int slot, dense::AttentionArgs* args);

}  // namespace ullage::cpu
