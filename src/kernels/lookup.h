/// Kernel look-up that says why there is none.
#pragma once

#include <set>
#include <string>

#include "kernels/registry.h"

namespace ullage::kernels {

struct Refusal {
  enum class Kind { kOperator, kOpset, kType, kShape };
  Kind kind = Kind::kOperator;
  std::string
      text;  ///< of the definition that came closest: "no kernel for Add with type float64 of input 1"
};

/// The first definition that fits the node; null, with `refusal` set unless it is null, otherwise.
const KernelDef* FindKernel(const Registry& registry, const KernelInfo& info, Refusal* refusal);

/// Throws kUnsupported with these reasons, as far as some lines hold them.
[[noreturn]] void ThrowMissing(const std::set<std::string>& reasons);

}  // namespace ullage::kernels
