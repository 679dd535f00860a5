/// Kernel families of values that are no plain numbers; all_families.cc lists them.
#pragma once

#include "kernels/registry.h"

namespace ullage::cpu {

void RegisterSequences(kernels::Registry& registry);
void RegisterStrings(kernels::Registry& registry);
void RegisterEncoders(kernels::Registry& registry);

}  // namespace ullage::cpu
