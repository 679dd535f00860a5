/// Level-1 estimates: what a node will need, before it is decided where it runs.
#pragma once

#include <cstdint>

#include "kernels/registry.h"

namespace ullage::kernels {

/// A level-1 estimate with the rest of what a node takes.
struct NodeEstimate : WorkspaceEstimate {
  size_t transient_bytes = 0;          ///< scratch that ends before the node does its work
  size_t temporary_prepack_bytes = 0;  ///< while weights are packed
  uint32_t replaced_inputs = 0;        ///< bit i: the source of input i is not read again once packed
};

/// By the definition's own estimate function or, where it has none, from a kernel that is made for the
/// purpose: kernels are made from headers and declare by the formula that they will use, so that the levels
/// agree. Unavailable where the kernel cannot say, where nothing bounds a shape that it depends on, and where
/// making it fails.
NodeEstimate EstimateWorkspace(const KernelDef& def, const KernelInfo& info);

/// False where the kernel will ask for scratch that it cannot state within the node's bounds. True where
/// making it fails: whoever makes it to run it is told.
bool StatesWorkspace(const KernelDef& def, const KernelInfo& info);

}  // namespace ullage::kernels
