/// The kernel interface: what code that computes one node knows, declares and gets.
///
/// A kernel is created once per node, after placement. It states the bytes of its prepacked weights and, per
/// profile, its workspace; both are planned and reserved by the session. Compute() is const and allocates
/// nothing: kernels are shared by concurrent runs.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/options.h"
#include "core/thread_team.h"
#include "graph/graph.h"
#include "memory/workspace.h"
#include "ops/shape_context.h"

namespace ullage::providers {
class OpenDevice;
class Stream;
}  // namespace ullage::providers

namespace ullage::kernels {

/// What a kernel knows when it is created.
struct KernelInfo {
  const graph::Node& node;
  const graph::Graph& graph;
  /// Facts per input (union over the profiles); dtype kUndefined where an input is left out.
  std::span<const ops::ValueFacts> inputs;
  std::span<const ops::ValueFacts> outputs;
  /// Threads of the team that will run it.
  int threads = 1;
  /// The session's options; null: defaults.
  const OptionBag* options = nullptr;
  /// Where it will run; null: the host.
  providers::OpenDevice* device = nullptr;

  DType input_dtype(size_t i) const { return i < inputs.size() ? inputs[i].dtype : DType::kUndefined; }
  /// The constant behind input i, or null.
  graph::ConstantPtr constant(size_t i) const;
  /// As constant(), but the data must be there to be read now: throws when absent. For small tensors (axes,
  /// shapes).
  const graph::Constant& available(size_t i) const;
  template <class... Parts>
  [[noreturn]] void Unsupported(const Parts&... parts) const {
    Throw(Code::kUnsupported, "node ", node.name, " (", node.OpName(), "): ", parts...);
  }
};

/// One block of prepacked weights that a kernel wants.
struct PrepackRequirement {
  size_t bytes = 0;
  size_t alignment = 64;
  /// Inputs whose source bytes are not read again after Prepack().
  std::vector<int> replaces;
  /// Kernels with equal keys and the same constants share one block (tied embeddings, branches); empty: not
  /// shared.
  std::string share_key;
};

/// Upper bounds of the shapes of one profile, to declare workspace for.
struct WorkspaceShapes {
  std::span<const ops::ValueFacts> inputs;
  std::span<const ops::ValueFacts> outputs;
  int threads = 1;
};

/// One call of Compute(). On a device, memory is given by addresses that only the device may use, but for the
/// inputs and outputs that the kernel's definition keeps on the host.
class KernelContext {
 public:
  virtual ~KernelContext() = default;
  /// Null when the input is left out.
  virtual const TensorView* input(int i) const = 0;
  /// Null when the output is not wanted. Shape and type are set; data has room for the shape.
  virtual TensorView* output(int i) = 0;
  /// For outputs whose size depends on the data (NonZero): a shape within the planned bound.
  virtual void SetOutputShape(int i, const Shape& shape) = 0;
  /// The block planned for (this node, slot); null when the slot was not declared. `bytes` gets its size.
  virtual void* GetPreallocatedWorkspace(int slot, size_t* bytes = nullptr) = 0;
  /// Scratch that was not declared; lives until Compute() returns. Refused (kRuntime, naming the node) when
  /// the session preallocates its execution buffers. Every call is recorded in the node's statistics.
  virtual void* GetScratchBuffer(size_t bytes, size_t alignment = 64) = 0;
  /// Block `index` of PlanPrepack().
  virtual const std::byte* prepacked(int index) const = 0;
  virtual ThreadTeam& threads() = 0;
  /// The queue that the kernel puts its work into, and may return before it is done; null: the host's.
  virtual providers::Stream* stream() { return nullptr; }
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Blocks of prepacked weights, from headers and shapes alone: no weight byte is read.
  virtual std::vector<PrepackRequirement> PlanPrepack() const { return {}; }
  /// Fills block `index`; reads each source byte once, front to back as far as possible.
  virtual void Prepack(int index, std::byte* out, ThreadTeam& threads);
  /// Once, when the session loads, after all blocks are filled: what the first Compute() would otherwise do
  /// for the first time. `blocks` are where the blocks of PlanPrepack() lie for good, `stream` is one of the
  /// device (null: the host). Not called when a session is only planned.
  virtual void Prepare(std::span<const std::byte* const> blocks, providers::Stream* stream);
  /// Level 2: appends the workspace needed for any shapes within the bounds. The same formula as the
  /// estimate.
  virtual void DeclareWorkspaceRequirements(const WorkspaceShapes& shapes,
                                            std::vector<memory::WorkspaceRequirement>& requirements) const;
  virtual void Compute(KernelContext& context) const = 0;
};

}  // namespace ullage::kernels
