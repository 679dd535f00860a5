/// Launches of norm.cl.
#pragma once

#include <string>

#include "op.h"

namespace ullage_opencl {

/// Macros of norm.cl: types of the rows, of scale and shift; `rounded`: to that type before it is scaled.
std::string NormOptions(int32_t type, int32_t scale_type, bool rms, bool rounded);

/// Null: left out.
struct NormTensors {
  const Tensor* skip = nullptr;  ///< rows that are added, again and again
  const Tensor* skip_bias = nullptr;
  const Tensor* scale = nullptr;
  const Tensor* shift = nullptr;
  const Tensor* sum = nullptr;
  const Tensor* mean = nullptr;
  const Tensor* deviation = nullptr;
};
/// y may be x.
void RunNorm(const Context& c, const KernelRef& kernel, const Tensor& x, const Tensor& y,
             const NormTensors& tensors, int64_t rows, int64_t columns, float epsilon);

void AddEmbedNorm(std::vector<OpEntry>& ops);

}  // namespace ullage_opencl
