#include "reference/kernel.h"

#include <algorithm>

namespace ullage::reference {

SharedKernel::SharedKernel(plugin::SharedEntry& entry, const ullage_kernel_info& info)
    : threads_(entry.threads()),
      late_(entry.late()),
      node_(std::make_unique<plugin::SharedNode>(plugin::Node(info.node))),
      device_(reinterpret_cast<Device*>(info.device)),
      inputs_(plugin::Node(info.node).inputs()),
      outputs_(plugin::Node(info.node).outputs()),
      kernel_(entry.def().create(node_->Info(entry.threads(), &entry.options()))),
      blocks_(kernel_->PlanPrepack()),
      places_(blocks_.size()) {}

SharedKernel::SharedKernel(std::unique_ptr<kernels::Kernel> kernel, Device& device, size_t inputs,
                           size_t outputs)
    : threads_(1),
      late_(false),
      device_(&device),
      inputs_(inputs),
      outputs_(outputs),
      kernel_(std::move(kernel)),
      blocks_(kernel_->PlanPrepack()),
      places_(blocks_.size()) {}

std::vector<ullage_slot> SharedKernel::Declare(Infos in, Infos out) {
  const auto inputs = plugin::FactsOf(in), outputs = plugin::FactsOf(out);
  std::vector<memory::WorkspaceRequirement> needs;
  kernel_->DeclareWorkspaceRequirements({inputs, outputs, threads_}, needs);
  std::vector<ullage_slot> slots;
  const std::lock_guard lock(mutex_);
  for (const auto& need : needs) {
    auto& slot = slots.emplace_back(plugin::Sized<ullage_slot>());
    slot.id = static_cast<uint32_t>(need.slot_id);
    slot.bytes = need.size_bytes;
    slot.alignment = static_cast<uint32_t>(need.alignment);
    slot.space = ULLAGE_SPACE_DEVICE;
    slot.flags = ULLAGE_SLOT_PLANNED | ULLAGE_SLOT_ACROSS_SYNC;
    if (need.lifetime == memory::WorkspaceLifetime::kSession) slot.flags |= ULLAGE_SLOT_OF_SESSION;
    slot.state = need.status == memory::WorkspaceStatus::kUnknown ? ULLAGE_SLOT_UNKNOWN
                 : need.status == memory::WorkspaceStatus::kZero  ? ULLAGE_SLOT_ZERO
                                                                  : ULLAGE_SLOT_KNOWN;
    if (std::find(slots_.begin(), slots_.end(), need.slot_id) == slots_.end()) slots_.push_back(need.slot_id);
  }
  return slots;
}

std::vector<ullage_prepack_block> SharedKernel::PlanPrepack() {
  std::vector<ullage_prepack_block> all;
  for (const auto& from : blocks_) {
    auto& block = all.emplace_back(plugin::Sized<ullage_prepack_block>());
    block.bytes = from.bytes;
    block.alignment = static_cast<uint32_t>(from.alignment);
    for (int i : from.replaces)
      if (i >= 0 && i < 64) block.replaced_inputs |= uint64_t{1} << i;
    block.share_key = from.share_key.c_str();
  }
  return all;
}

void SharedKernel::Prepack(size_t index, const ullage_region& target, ullage_stream*) {
  if (device_) device_->faults().Call("prepack");
  ThreadTeam team(1);
  kernel_->Prepack(static_cast<int>(index), Bytes(target), team);
}

void SharedKernel::SetPrepacked(size_t index, const ullage_region& region) {
  places_.at(index) = Bytes(region);
}

void SharedKernel::Prepare(ullage_stream*) {
  kernel_->Prepare(places_, nullptr);
}

void SharedKernel::Compute(const plugin::Context& context) {
  bool waits = late_;
  for (size_t o = 0; o < outputs_ && !waits; ++o) {
    const ullage_tensor tensor = context.output(o);
    waits = tensor.dtype != 0 && tensor.space == ULLAGE_SPACE_HOST;
  }
  const auto fill = [&](Call& call, bool lasts) {
    const std::lock_guard lock(mutex_);
    call.Take(context, inputs_, outputs_, slots_, lasts);
    call.blocks = places_;
  };
  if (auto* stream = reinterpret_cast<Stream*>(context.stream())) {
    stream->Compute(
        *kernel_, [&](Call& call) { fill(call, waits); }, waits);
    return;
  }
  if (device_) device_->faults().Call("compute");
  ThreadTeam team(1);
  Call call(team);
  fill(call, true);
  kernel_->Compute(call);
}

}  // namespace ullage::reference
