/// The page that lists the host's kernel families.
#include "providers/cpu/kernels/all_families.h"

#include "providers/cpu/kernels/families.h"
#include "providers/cpu/kernels/tensor_families.h"
#include "providers/cpu/kernels/value_families.h"

namespace ullage::cpu {

void RegisterAll(kernels::Registry& registry) {
  RegisterLinear(registry);
  RegisterMatMul(registry);
  RegisterNorm(registry);
  RegisterBlockLookup(registry);
  RegisterGatedActivation(registry);
  RegisterGroupQueryAttention(registry);
  RegisterMultiHeadAttention(registry);
  RegisterStandardAttention(registry);
  RegisterRotary(registry);
  RegisterApplyRotary(registry);
  RegisterArithmetic(registry);
  RegisterUnary(registry);
  RegisterCompare(registry);
  RegisterLayout(registry);
  RegisterSharedLookup(registry);  // before Gather, which takes every table
  RegisterGather(registry);
  RegisterReduce(registry);
  RegisterRareMath(registry);
  RegisterPackedAttention(registry);
  RegisterGatherBlocks(registry);
  RegisterPad(registry);
  RegisterEinsum(registry);
  RegisterSelection(registry);
  RegisterClip(registry);
  RegisterExactMatMul(registry);
  RegisterQuantizeLinear(registry);
  RegisterConv(registry);
  RegisterDoubleConv(registry);
  RegisterConvTranspose(registry);
  RegisterRecurrent(registry);
  RegisterEmbedNorm(registry);
  RegisterPool(registry);
  RegisterChannelNorm(registry);
  RegisterResize(registry);
  RegisterImages(registry);
  RegisterDetection(registry);
  RegisterSignals(registry);
  RegisterRearrange(registry);
  RegisterLosses(registry);
  RegisterTrees(registry);
  RegisterFeatures(registry);
  RegisterStates(registry);
  RegisterRandom(registry);
  RegisterMeanVariance(registry);
  RegisterSequences(registry);
  RegisterStrings(registry);
  RegisterEncoders(registry);
}

}  // namespace ullage::cpu
