#include "sdk/shared_kernel.h"

#include <algorithm>

namespace ullage::plugin {
namespace {

constexpr uint64_t kAlignment = 256;  // of copies of host memory

uint64_t Rounded(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

void SharedCall::Take(const Context& context, size_t input_count, size_t output_count,
                      const std::vector<int>& slots, bool waits) {
  host_ = waits ? context.get() : nullptr;
  scratches_ = 0;
  input_views_.resize(input_count);
  output_views_.resize(output_count);
  inputs.assign(input_count, nullptr);
  outputs.assign(output_count, nullptr);
  workspaces.clear();
  const auto copied = [&](const ullage_tensor& tensor) {
    return tensor.dtype != 0 && !tensor.region.buffer && tensor.region.pointer && tensor.region.bytes > 0 &&
           !waits;
  };
  uint64_t room = 0, at = 0;  // first the sizes of what is copied: the copies must not move
  for (size_t i = 0; i < input_count; ++i) {
    const ullage_tensor tensor = context.input(i);
    if (copied(tensor)) room += Rounded(tensor.region.bytes);
  }
  if (host_bytes_.size() < room) host_bytes_.resize(room);
  for (size_t i = 0; i < input_count; ++i) {
    const ullage_tensor tensor = context.input(i);
    if (tensor.dtype == 0) continue;
    std::byte* data = address_(tensor.region);
    if (copied(tensor)) {
      std::memcpy(host_bytes_.data() + at, data, tensor.region.bytes);
      data = host_bytes_.data() + at;
      at += Rounded(tensor.region.bytes);
    }
    input_views_[i] = ViewOf(tensor, data);
    inputs[i] = &input_views_[i];
  }
  for (size_t o = 0; o < output_count; ++o) {
    const ullage_tensor tensor = context.output(o);
    if (tensor.dtype == 0) continue;
    output_views_[o] = ViewOf(tensor, address_(tensor.region));
    outputs[o] = &output_views_[o];
  }
  for (int slot : slots) {
    const ullage_region region = context.Workspace(static_cast<uint32_t>(slot), 0);
    if (region.bytes > 0) workspaces.push_back({slot, region.bytes, address_(region)});
  }
}

void SharedCall::SetOutputShape(int i, const Shape& shape) {
  const auto at = static_cast<size_t>(i);
  if (at >= outputs.size() || !outputs[at]) return;
  if (!host_) throw Failure(ULLAGE_FAILED, "a shape is stated after compute has returned");
  const Context context(host_);
  context.SetOutputShape(at, shape.dims());
  const ullage_tensor tensor = context.output(at);
  output_views_[at] = ViewOf(tensor, address_(tensor.region));
}

void* SharedCall::GetScratchBuffer(size_t bytes, size_t alignment) {
  if (!host_) throw Failure(ULLAGE_FAILED, "scratch of " + std::to_string(bytes) + " bytes was not planned");
  constexpr uint32_t kFirst = 1000;  // beyond the slots of any kernel
  return address_(Context(host_).Scratch(kFirst + scratches_++, bytes, static_cast<uint32_t>(alignment)));
}

SharedKernel::SharedKernel(SharedEntry& entry, const ullage_kernel_info& info, AddressFn address)
    : address_(address),
      threads_(entry.threads()),
      late_(entry.late()),
      node_(std::make_unique<SharedNode>(Node(info.node))),
      inputs_(Node(info.node).inputs()),
      outputs_(Node(info.node).outputs()),
      kernel_(entry.def().create(node_->Info(entry.threads(), &entry.options()))),
      blocks_(kernel_->PlanPrepack()),
      places_(blocks_.size()) {}

SharedKernel::SharedKernel(std::unique_ptr<kernels::Kernel> kernel, size_t inputs, size_t outputs,
                           AddressFn address)
    : address_(address),
      threads_(1),
      late_(false),
      inputs_(inputs),
      outputs_(outputs),
      kernel_(std::move(kernel)),
      blocks_(kernel_->PlanPrepack()),
      places_(blocks_.size()) {}

std::vector<ullage_slot> SharedKernel::Declare(Infos in, Infos out) {
  const auto inputs = FactsOf(in), outputs = FactsOf(out);
  std::vector<memory::WorkspaceRequirement> needs;
  kernel_->DeclareWorkspaceRequirements({inputs, outputs, threads_}, needs);
  std::vector<ullage_slot> slots;
  const std::lock_guard lock(mutex_);
  for (const auto& need : needs) {
    auto& slot = slots.emplace_back(Sized<ullage_slot>());
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
    auto& block = all.emplace_back(Sized<ullage_prepack_block>());
    block.bytes = from.bytes;
    block.alignment = static_cast<uint32_t>(from.alignment);
    for (int i : from.replaces)
      if (i >= 0 && i < 64) block.replaced_inputs |= uint64_t{1} << i;
    block.share_key = from.share_key.c_str();
  }
  return all;
}

void SharedKernel::Prepack(size_t index, const ullage_region& target, ullage_stream*) {
  ThreadTeam alone(1);
  kernel_->Prepack(static_cast<int>(index), address_(target), alone);
}

void SharedKernel::SetPrepacked(size_t index, const ullage_region& region) {
  places_.at(index) = address_(region);
}

void SharedKernel::Prepare(ullage_stream*) {
  kernel_->Prepare(places_, nullptr);
}

bool SharedKernel::MustWait(const Context& context) const {
  if (late_) return true;
  for (size_t o = 0; o < outputs_; ++o) {
    const ullage_tensor tensor = context.output(o);
    if (tensor.dtype != 0 && tensor.space == ULLAGE_SPACE_HOST) return true;
  }
  return false;
}

void SharedKernel::Fill(const Context& context, bool waits, SharedCall* call) {
  const std::lock_guard lock(mutex_);
  call->Take(context, inputs_, outputs_, slots_, waits);
  call->blocks = places_;
}

void SharedKernel::Compute(const Context& context) {
  ThreadTeam alone(1);
  SharedCall call(alone, address_);
  Fill(context, true, &call);
  kernel_->Compute(call);
}

}  // namespace ullage::plugin
