#include "kernels/kernel.h"

namespace ullage::kernels {

graph::ConstantPtr KernelInfo::constant(size_t i) const {
  const graph::ValueId v = node.input(i);
  return v == graph::kNone ? nullptr : graph.value(v).constant;
}

const graph::Constant& KernelInfo::available(size_t i) const {
  const auto c = constant(i);
  if (!c) Unsupported("input ", i, " must be a constant");
  c->data();
  return *c;
}

void Kernel::Prepack(int, std::byte*, ThreadTeam&) {}

void Kernel::Prepare(std::span<const std::byte* const>, providers::Stream*) {}

void Kernel::DeclareWorkspaceRequirements(const WorkspaceShapes&,
                                          std::vector<memory::WorkspaceRequirement>&) const {}

}  // namespace ullage::kernels
