#include "kernels/estimate.h"

#include <algorithm>

#include "core/checked.h"

namespace ullage::kernels {
namespace {

bool Bounded(std::span<const ops::ValueFacts> all) {
  return std::all_of(all.begin(), all.end(), [](const ops::ValueFacts& f) {
    return f.dtype == DType::kUndefined || f.shape.ElementsUpper() != ops::kUnbounded;
  });
}

bool Exact(std::span<const ops::ValueFacts> all) {
  return std::all_of(all.begin(), all.end(), [](const ops::ValueFacts& f) {
    return f.dtype == DType::kUndefined || (f.shape.known_rank() && f.shape.exact());
  });
}

}  // namespace

NodeEstimate EstimateWorkspace(const KernelDef& def, const KernelInfo& info) {
  NodeEstimate estimate;
  if (def.estimate) {
    static_cast<WorkspaceEstimate&>(estimate) = def.estimate(info);
    return estimate;
  }
  if (!Bounded(info.inputs) || !Bounded(info.outputs)) return estimate;
  try {
    const auto kernel = def.create(info);
    std::vector<memory::WorkspaceRequirement> slots;
    kernel->DeclareWorkspaceRequirements({info.inputs, info.outputs, info.threads}, slots);
    for (const auto& slot : slots)
      if (slot.status == memory::WorkspaceStatus::kUnknown) return estimate;
    estimate.workspace_bytes = memory::WorkspaceTotal(slots);
    for (const auto& block : kernel->PlanPrepack()) {
      estimate.prepack_bytes = CheckedAdd(estimate.prepack_bytes, block.bytes, "prepacked size");
      for (int input : block.replaces)
        if (input >= 0 && input < 32) estimate.replaced_inputs |= 1u << input;
    }
    estimate.status = Exact(info.inputs) && Exact(info.outputs) ? WorkspaceEstimate::Status::kExact
                                                                : WorkspaceEstimate::Status::kBound;
  } catch (const Error&) {
    return {};
  }
  return estimate;
}

bool StatesWorkspace(const KernelDef& def, const KernelInfo& info) {
  try {
    std::vector<memory::WorkspaceRequirement> slots;
    def.create(info)->DeclareWorkspaceRequirements({info.inputs, info.outputs, info.threads}, slots);
    return std::none_of(slots.begin(), slots.end(), [](const memory::WorkspaceRequirement& slot) {
      return slot.status == memory::WorkspaceStatus::kUnknown;
    });
  } catch (const Error&) {
    return true;
  }
}

}  // namespace ullage::kernels
