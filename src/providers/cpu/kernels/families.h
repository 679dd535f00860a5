/// The kernel families of the host; each adds its definitions to the registry. cpu_provider.cc is the page
/// that lists them.
#pragma once

#include "kernels/registry.h"

namespace ullage::cpu {

void RegisterLinear(kernels::Registry& registry);
void RegisterMatMul(kernels::Registry& registry);
void RegisterNorm(kernels::Registry& registry);
void RegisterBlockLookup(kernels::Registry& registry);
void RegisterGatedActivation(kernels::Registry& registry);
void RegisterGroupQueryAttention(kernels::Registry& registry);
void RegisterArithmetic(kernels::Registry& registry);
void RegisterUnary(kernels::Registry& registry);
void RegisterCompare(kernels::Registry& registry);
void RegisterLayout(kernels::Registry& registry);
void RegisterGather(kernels::Registry& registry);
void RegisterReduce(kernels::Registry& registry);

}  // namespace ullage::cpu
