/// Kernels whose results are only known in size when they are computed.
#pragma once

#include "kernels/kernel.h"

namespace ullage::kernels {

/// Compute() calls SetOutputShape() for each result before it writes it. Where nothing bounds the size, the
/// result has no memory until then; such a kernel runs only in sessions that may allocate.
class LateKernel : public Kernel {};

}  // namespace ullage::kernels
