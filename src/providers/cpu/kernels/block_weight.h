/// Weights of nodes, whatever their form: float matrices and block-quantised ones.
#pragma once

#include <optional>
#include <string>

#include "core/block_format.h"
#include "kernels/kernel.h"
#include "providers/cpu/quant/packed_weight.h"

namespace ullage::cpu {

/// What the attributes and inputs of a node say about one weight W [N, K].
///
/// Forms (`format` of ullage:Linear): "dense_nk" and "dense_kn" (float, float16, bfloat16), "ggml" (GGUF
/// blocks), "nbits" (com.microsoft:MatMulNBits), "qdq_nk" and "qdq_kn" (DequantizeLinear over [N,K] or
/// [K,N]).
struct WeightSpec {
  std::string format;
  int64_t n = 0;
  int64_t k = 0;
  int64_t bits = 4;
  int64_t block_size = 0;  ///< qdq: 0 means one scale per row
  graph::ConstantPtr data, scales, zero_points, g_idx;

  bool dense() const { return format == "dense_nk" || format == "dense_kn"; }
  /// Format of a block-quantised weight; throws kUnsupported or kInvalidModel, saying what is wrong, when the
  /// sizes of the parts disagree with it.
  BlockFormat block_format() const;
  /// The data; they must be there.
  BlockWeightView view() const;
};

/// Gives the pages of a constant that lies in a mapped file back to the system; or those that lie wholly
/// within the bytes [first, last) of it.
void ReleasePages(const graph::Constant& constant);
void ReleasePages(const graph::Constant& constant, int64_t first, int64_t last);
/// Tells the system that the constant will be read soon, if it lies in a mapped file.
void WillNeedPages(const graph::Constant& constant);

}  // namespace ullage::cpu
