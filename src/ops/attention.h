/// Shape rules that standard and own attention operators share. Internal to ops.
#pragma once

#include "ops/rule_util.h"

namespace ullage::ops {

/// Which input is which; -1: the operator does not have it.
struct AttentionInputs {
  int mask = -1;
  int past_key = -1;
  int past_value = -1;
  int nonpad = -1;
};

/// Attention as of ai.onnx-23 and later: inputs 0 to 2 are Q, K, V with 4 dimensions [B, N, S, H] or with 3
/// [B, S, N*H] and head counts in attributes; outputs Y, present_key?, present_value?, scores?.
void StandardAttention(ShapeContext& c, const AttentionInputs& in);

}  // namespace ullage::ops
