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
  kLife,         ///< a step uses a buffer outside its life
  kUnordered,    ///< two steps on different streams touch the same bytes and no event orders them
};

std::string_view FaultName(FaultKind kind);

/// One fault. `a` and `b` are indices of the culprits; kNoBuffer where there is only one, or none.
struct Fault {
  FaultKind kind = FaultKind::kBadInput;
  int32_t a = kNoBuffer;
  int32_t b = kNoBuffer;
  std::string message;  ///< names both culprits with id, life, offset and size
};

/// A step reads or writes a buffer.
struct Use {
  int32_t buffer = kNoBuffer;
  int64_t step = 0;
  bool writes = false;
};

/// What runs when. Steps are numbered in the order in which the host issues them. Those of one stream run one
/// after the other; those of different streams run at the same time unless an event orders them.
struct StepOrder {
  std::vector<int32_t> streams;  ///< per step: its stream, >= 0
  struct Event {
    int64_t signal = 0;  ///< the step after which the event is recorded
    int64_t wait = 0;    ///< the step that waits for it; > signal
  };
  std::vector<Event> events;
  std::vector<Use> uses;  ///< in any order; views count for their owners
};

struct CheckOptions {
  std::optional<int64_t> capacity;  ///< the region the plan will lie in
  size_t max_faults = 1000;         ///< stop after this many, so that a hopeless plan costs no quadratic time
  /// Who uses what on which stream: lives are then compared with the uses, and every reuse of bytes must be
  /// ordered. Without it lives are taken as given and steps as running one after the other.
  const StepOrder* order = nullptr;
};

/// All faults, in a stable order; empty when the plan is sound. O(n log n) for a sound plan, and with an
/// order O((n log n + steps) * streams). Never throws on bad input: bad input is a fault.
std::vector<Fault> CheckPacking(std::span<const Buffer> buffers, const Packing& packing,
                                const CheckOptions& options = {});

/// Throws Error(kRuntime) with the first faults and their number when CheckPacking finds any.
void RequireSound(std::span<const Buffer> buffers, const Packing& packing, const CheckOptions& options = {});

}  // namespace ullage::memory
