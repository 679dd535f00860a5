/// Kernel scratch: what kernels ask for when they are created, and where each slot lies in the plan. The key
/// is (node, slot): the node is the framework's, the slot a constant chosen by the kernel's author.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "memory/packing.h"

namespace ullage::memory {

inline constexpr size_t kDefaultWorkspaceAlignment = 256;

enum class WorkspaceStatus : uint8_t {
  kKnown,    ///< `size_bytes` is enough for every Run within the bounds
  kZero,     ///< proven: the slot needs nothing
  kUnknown,  ///< the kernel cannot say; it will ask at run time
};

enum class WorkspaceLifetime : uint8_t {
  kStep,     ///< alive during the node's step only; contents are lost between steps
  kSession,  ///< alive in every step (a cache or counters the kernel keeps between Runs)
};

/// One slot of one kernel, as DeclareWorkspaceRequirements returns it.
struct WorkspaceRequirement {
  size_t size_bytes = 0;
  int slot_id = 0;       ///< unique within the kernel, >= 0
  size_t alignment = 0;  ///< power of two; 0 means kDefaultWorkspaceAlignment
  WorkspaceStatus status = WorkspaceStatus::kKnown;
  WorkspaceLifetime lifetime = WorkspaceLifetime::kStep;
  bool on_host = false;  ///< of a device's kernel: in host memory
};

/// What one node's kernel declared, and the step of the schedule at which the node runs.
struct NodeWorkspace {
  int64_t node = 0;
  int64_t step = 0;
  std::vector<WorkspaceRequirement> requirements;
};

/// The checked sum of a kernel's known slots, each rounded up to its alignment: what the budget test charges
/// when it has no schedule. Throws kRuntime on overflow or a bad alignment.
size_t WorkspaceTotal(std::span<const WorkspaceRequirement> requirements);

/// Offsets of workspace slots. Built in two moves, so that workspaces share the space of dead activations:
///
///     std::vector<Buffer> buffers = activations;
///     WorkspacePattern pattern = WorkspacePattern::Append(nodes, steps, &buffers);
///     Packing packing = Pack(buffers);
///     pattern.Resolve(packing);
///
/// With an empty `buffers` the pattern describes a separate workspace buffer. Immutable after Resolve;
/// concurrent readers need no lock.
class WorkspacePattern {
 public:
  struct Slot {
    int64_t offset = 0;
    size_t size = 0;  ///< as declared
  };

  WorkspacePattern() = default;

  /// Appends one buffer for every known slot that is not empty, with id = -1 - index in `buffers`. `steps` is
  /// the length of the schedule; slots with session lifetime live in [0, steps). Throws kRuntime, naming node
  /// and slot, on a slot declared twice, a negative slot, a bad alignment, a step outside the schedule or a
  /// size beyond 2^62.
  static WorkspacePattern Append(std::span<const NodeWorkspace> nodes, int64_t steps,
                                 std::vector<Buffer>* buffers);

  /// Takes the offsets from the packing of the buffers that Append extended.
  void Resolve(const Packing& packing);

  /// Where the slot lies; nothing when it is unknown, empty or was never declared.
  std::optional<Slot> GetOffset(int64_t node, int slot_id) const;
  /// The same, and nothing when the caller needs more than was declared.
  std::optional<Slot> GetOffset(int64_t node, int slot_id, size_t requested_bytes) const;

  /// Max over steps of the workspace alive in that step, each slot rounded up to its alignment: the size of a
  /// workspace buffer if it were separate.
  int64_t live_peak() const { return live_peak_; }
  /// Number of planned slots.
  size_t size() const { return slots_.size(); }
  /// (node, slot) of every slot whose size the kernel could not say, in order.
  const std::vector<std::pair<int64_t, int>>& unknown() const { return unknown_; }

 private:
  struct Entry {
    size_t buffer = 0;
    Slot slot;
  };
  std::map<std::pair<int64_t, int>, Entry> slots_;
  std::vector<std::pair<int64_t, int>> unknown_;
  int64_t live_peak_ = 0;
  bool resolved_ = false;
};

}  // namespace ullage::memory
