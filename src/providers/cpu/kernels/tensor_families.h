/// More kernel families, as families.h: convolutions, images, recurrent networks, signals and what models
/// around them use.
#pragma once

#include "kernels/registry.h"

namespace ullage::cpu {

void RegisterConv(kernels::Registry& registry);
void RegisterDoubleConv(kernels::Registry& registry);
void RegisterConvTranspose(kernels::Registry& registry);
void RegisterPool(kernels::Registry& registry);
void RegisterChannelNorm(kernels::Registry& registry);
void RegisterResize(kernels::Registry& registry);
void RegisterImages(kernels::Registry& registry);
void RegisterDetection(kernels::Registry& registry);
void RegisterRecurrent(kernels::Registry& registry);
void RegisterEmbedNorm(kernels::Registry& registry);
void RegisterSignals(kernels::Registry& registry);
void RegisterRearrange(kernels::Registry& registry);
void RegisterLosses(kernels::Registry& registry);
void RegisterTrees(kernels::Registry& registry);
void RegisterFeatures(kernels::Registry& registry);
void RegisterStates(kernels::Registry& registry);
void RegisterRandom(kernels::Registry& registry);
void RegisterMeanVariance(kernels::Registry& registry);

}  // namespace ullage::cpu
