/// Every kernel of the host, for its own provider and for plugins that are built from the same source.
#pragma once

#include "kernels/registry.h"

namespace ullage::cpu {

void RegisterAll(kernels::Registry& registry);

}  // namespace ullage::cpu
