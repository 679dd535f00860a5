/// The judge of a packing. It shares no code with the packer and takes nothing on trust: it works from the
/// buffers as the caller described them and from the offsets alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memory/packing.h"

namespace ullage::memory {

enum class FaultKind {
  kBadInput,  ///< the problem itself is broken (negative size, bad index, number of offsets, ...)
  kOverlap,   ///< two buffers share bytes while both are alive
  kInPlace,  ///< a buffer lies on its in-place partner, but not at its first byte, or the partner is not dead
             ///< yet
  kMisaligned,   ///< an offset is no multiple of the alignment
  kOutOfBounds,  ///< an offset is negative, or a buffer ends beyond the peak or the capacity
  kMoved,        ///< a buffer with a fixed offset lies elsewhere
  kAlias,        ///< a view does not lie where its owner says, or leaves it
  kPeak,         ///< the claimed peak is not the end of the highest buffer
  kBound,        ///< the claimed lower bound is above the peak, or optimality is claimed without equality
};

std::string_view FaultName(FaultKind kind);

/// One fault. `a` and `b` are indices of the culprits; kNoBuffer where there is only one, or none.
struct Fault {
  FaultKind kind = FaultKind::kBadInput;
  int32_t a = kNoBuffer;
  int32_t b = kNoBuffer;
  std::string message;  ///< names both culprits with id, life, offset and size
};

struct CheckOptions {
  std::optional<int64_t> capacity;  ///< the region the plan will lie in
  size_t max_faults = 1000;         ///< stop after this many, so that a hopeless plan costs no quadratic time
};

/// All faults, in a stable order; empty when the plan is sound. O(n log n) for a sound plan. Never throws on
/// bad input: bad input is a fault.
std::vector<Fault> CheckPacking(std::span<const Buffer> buffers, const Packing& packing,
                                const CheckOptions& options = {});

/// Throws Error(kRuntime) with the first faults and their number when CheckPacking finds any.
void RequireSound(std::span<const Buffer> buffers, const Packing& packing, const CheckOptions& options = {});

}  // namespace ullage::memory
