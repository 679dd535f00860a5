/// Kernel families of values that are no plain numbers; cpu_provider.cc lists them.
#pragma once

#include "kernels/registry.h"

namespace ullage::cpu {

void RegisterSequences(kernels::Registry& registry);
void RegisterStrings(kernels::Registry& registry);
void RegisterEncoders(kernels::Registry& registry);

}  // namespace ullage::cpu
