/// Selections and reductions over the logits of one token.
/// NaN counts as -inf. Equal values are ordered by index, the lower one first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/thread_team.h"
#include "providers/cpu/dense/array.h"

namespace ullage::dense {

/// Index of the largest of n > 0 values.
int64_t ArgMax(ConstArray logits, int64_t n);

/// Scratch of TopK().
size_t TopKScratchBytes(int64_t n, int64_t k);
/// The k largest of n values, largest first, without sorting all of them; returns how many: min(k, n).
/// `indices` and `values` have room for k.
int64_t TopK(ConstArray logits, int64_t n, int64_t k, int64_t* indices, float* values, void* scratch);

/// log(sum(exp(logits / temperature))); -inf when all are -inf or n is 0. Sums are kept in double.
double LogSumExp(ConstArray logits, int64_t n, double temperature = 1);

/// Natural logarithm of the softmax of entry `index`.
double LogSoftmaxAt(ConstArray logits, int64_t n, int64_t index);

}  // namespace ullage::dense
