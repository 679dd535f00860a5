/// The kernel families of the host; each adds its definitions to the registry. all_families.cc is the page
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
void RegisterMultiHeadAttention(kernels::Registry& registry);
void RegisterStandardAttention(kernels::Registry& registry);
void RegisterRotary(kernels::Registry& registry);
void RegisterApplyRotary(kernels::Registry& registry);
void RegisterArithmetic(kernels::Registry& registry);
void RegisterUnary(kernels::Registry& registry);
void RegisterCompare(kernels::Registry& registry);
void RegisterLayout(kernels::Registry& registry);
void RegisterSharedLookup(kernels::Registry& registry);
void RegisterGather(kernels::Registry& registry);
void RegisterReduce(kernels::Registry& registry);
void RegisterRareMath(kernels::Registry& registry);
void RegisterPackedAttention(kernels::Registry& registry);
void RegisterGatherBlocks(kernels::Registry& registry);
void RegisterPad(kernels::Registry& registry);
void RegisterEinsum(kernels::Registry& registry);
void RegisterSelection(kernels::Registry& registry);
void RegisterClip(kernels::Registry& registry);
void RegisterExactMatMul(kernels::Registry& registry);
void RegisterQuantizeLinear(kernels::Registry& registry);

}  // namespace ullage::cpu
