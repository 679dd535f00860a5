/// Products of activations with packed weights: out[m, n] = A[m, k] * W[n, k]^T (+ bias) (+ residual).
///
/// Per output element one chain of float operations over the blocks of K from 0 up:
///
///   acc = fma(I, s * scale, acc)        I = the exact integer sum of u*q - o*q over the span (its digits
///   joined in float) acc = fma(m, value_sum, acc)        only for weights with minima out = acc * row factor
///   + bias + residual, each only where present, rounded one after the other
///
/// so the bits depend neither on m, on how tokens are split over calls, on the threads, nor on the
/// instruction set. (Indexed weights: one fma chain over the elements of K.) No function here allocates.
/// Stack use stays below 96 KiB.
#pragma once

#include <cstdint>
#include <span>

#include "core/thread_team.h"
#include "providers/cpu/quant/activations.h"
#include "providers/cpu/quant/packed_weight.h"

namespace ullage::quant {

struct MatMulArgs {
  const PackedLayout* layout = nullptr;
  const void* packed = nullptr;       ///< layout->bytes, aligned to 64
  const void* activations = nullptr;  ///< made with layout->activations for m tokens and layout->k
  int64_t m = 0;
  float* out = nullptr;  ///< [m, n], row pitch ldo
  int64_t ldo = 0;
  const float* bias = nullptr;      ///< [n] or null
  const float* residual = nullptr;  ///< [m, n] with row pitch ldr, or null; may be `out` itself
  int64_t ldr = 0;
};

/// Runs the product on the team.
void MatMul(const MatMulArgs& args, ThreadTeam& team);
/// Several products that do not depend on each other (query, key and value, say) with one hand-out of work.
/// At most kMaxBatch of them at once are handed out together.
void MatMul(std::span<const MatMulArgs> batch, ThreadTeam& team);
inline constexpr int kMaxBatch = 16;

/// For callers that build their own loops: a product consists of MatMulTasks(args) independent tasks, a
/// number that depends on sizes only.
int64_t MatMulTasks(const MatMulArgs& args);
void MatMulTask(const MatMulArgs& args, int64_t task);

}  // namespace ullage::quant
