/// Element-wise nodes that a simulated device runs as one kernel: the host's kernels, one after the other,
/// with what they hand on in memory that is planned as the kernel's workspace.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "kernels/registry.h"
#include "sdk/shared_source.h"

namespace ullage::reference {

/// The kernel for a node; null: none.
using FindFn = std::function<const kernels::KernelDef*(const kernels::KernelInfo&)>;

/// Groups of at most `most` nodes, each of which reads what another of its group makes; none below 2.
std::vector<std::vector<size_t>> FindChains(const plugin::Graph& graph, size_t most, const FindFn& find);
/// What the kernel of such a group will declare for the bounds of the view.
ullage_estimate EstimateGroup(const plugin::Graph& graph, const std::vector<size_t>& nodes);

class GroupKernel final : public kernels::Kernel {
 public:
  GroupKernel(const plugin::Graph& group, const FindFn& find);
  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& requirements) const override;
  void Compute(kernels::KernelContext& context) const override;

 private:
  /// What a node reads: an input of the group, or the result of an earlier node.
  struct Source {
    bool inside = false;
    size_t index = 0;
  };
  struct Member {
    std::unique_ptr<plugin::SharedNode> node;
    std::unique_ptr<kernels::Kernel> kernel;
    std::vector<Source> inputs;
    size_t output = SIZE_MAX;  ///< of the group; SIZE_MAX: it stays within
    DType dtype = DType::kUndefined;
  };
  std::vector<Member> members_;
};

}  // namespace ullage::reference
