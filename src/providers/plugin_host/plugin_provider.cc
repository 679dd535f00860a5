#include "providers/plugin_host/plugin_provider.h"

#include <algorithm>
#include <bit>

#include "core/error.h"
#include "providers/plugin_host/host_api.h"
#include "providers/plugin_host/status.h"
#include "providers/plugin_host/structs.h"

namespace ullage::plugin_host {

using providers::DeviceInfo;
using providers::DeviceType;

namespace {

constexpr size_t kMostDevices = 256;

DeviceType TypeOf(ullage_device_type type) {
  switch (type) {
    case ULLAGE_DEVICE_CPU:
      return DeviceType::kCpu;
    case ULLAGE_DEVICE_GPU:
      return DeviceType::kGpu;
    case ULLAGE_DEVICE_NPU:
      return DeviceType::kNpu;
    case ULLAGE_DEVICE_FPGA:
      return DeviceType::kFpga;
    case ULLAGE_DEVICE_ACCELERATOR:
      return DeviceType::kAccelerator;
    default:
      return DeviceType::kUnknown;
  }
}

int64_t Bytes(uint64_t n) {
  return static_cast<int64_t>(std::min<uint64_t>(n, INT64_MAX));
}

}  // namespace

PluginProvider::PluginProvider(const ProviderPlugin& plugin, std::shared_ptr<const ullage_options> options)
    : options_(std::move(options)),
      instance_(std::make_shared<Instance>(plugin.api, plugin.name, options_.get())) {
  ullage_registry registry{[&](const ullage_kernel_entry& from) {
    auto entry = std::make_shared<KernelEntry>(from, instance_, options_);
    OfferOperator(entry);
    registry_.Add(KernelEntry::Define(entry));
    entries_.push_back(std::move(entry));
  }};
  Check(instance_->api().register_kernels(instance_->handle(), &registry), subject());
}

std::vector<ullage_device_info> PluginProvider::ListDevices() const {
  for (size_t capacity = 8;; capacity = kMostDevices) {
    std::vector<ullage_device_info> list(capacity, Empty<ullage_device_info>());
    size_t needed = 0;
    Check(instance_->api().devices(instance_->handle(), list.data(), capacity, &needed), subject());
    if (needed > kMostDevices) Throw(Code::kRuntime, subject(), ": states ", needed, " devices");
    if (needed > capacity) continue;
    list.resize(needed);
    return list;
  }
}

std::vector<DeviceInfo> PluginProvider::devices() const {
  std::vector<DeviceInfo> all;
  for (const auto& from : ListDevices()) {
    if (from.ordinal < 0) Throw(Code::kRuntime, subject(), ": a device has the number ", from.ordinal);
    DeviceInfo d;
    d.name = StrCat(instance_->name(), ":", from.ordinal);
    d.provider = instance_->name();
    d.vendor = PluginText(from.vendor);
    d.vendor_id = from.vendor_id;
    d.description = PluginText(from.name);
    d.type = TypeOf(from.type);
    d.ordinal = from.ordinal;
    d.capacity_bytes = Bytes(from.total_bytes);
    d.free_bytes = from.free_bytes ? Bytes(from.free_bytes) : d.capacity_bytes;
    d.copy_bandwidth = Bytes(from.copy_bandwidth);
    d.only_when_named = from.flags & ULLAGE_DEVICE_ONLY_WHEN_NAMED;
    all.push_back(std::move(d));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.ordinal < b.ordinal; });
  for (size_t i = 1; i < all.size(); ++i)
    if (all[i].ordinal == all[i - 1].ordinal)
      Throw(Code::kRuntime, subject(), ": two devices have the number ", all[i].ordinal);
  return all;
}

kernels::NodeEstimate PluginProvider::Estimate(const DeviceInfo& device, const kernels::KernelDef& def,
                                               const kernels::KernelInfo& info) const {
  const auto& all = registry_.all();
  if (!all.empty() && &def >= all.data() && &def < all.data() + all.size())
    if (auto estimate = entries_[static_cast<size_t>(&def - all.data())]->Estimate(info)) return *estimate;
  return Provider::Estimate(device, def, info);
}

std::unique_ptr<providers::OpenDevice> PluginProvider::Open(const DeviceInfo& device) const {
  for (const auto& from : ListDevices()) {
    if (from.ordinal != device.ordinal) continue;
    if (!std::has_single_bit(from.alignment) || from.alignment > 1 << 21)
      Throw(Code::kUnsupported, "device ", device.name, ": an alignment of ", from.alignment, " bytes");
    if (!(from.flags & ULLAGE_DEVICE_BUFFER_OFFSETS) && !instance_->api().pointer)
      Throw(Code::kUnsupported, "device ", device.name, ": has neither offsets nor pointers");
    auto handle = std::make_shared<DeviceHandle>(instance_, from.ordinal, device.name, from.flags);
    return std::make_unique<PluginDevice>(device, std::move(handle), static_cast<int64_t>(from.alignment));
  }
  Throw(Code::kUnsupported, subject(), ": there is no device ", device.ordinal, " any more");
}

providers::Proposals PluginProvider::Propose(providers::OpenDevice& device,
                                             std::span<const kernels::KernelInfo> nodes,
                                             std::optional<int64_t> budget) const {
  if (!proposes()) return {};
  const auto handle = DeviceOf(&device);
  if (!handle) Throw(Code::kRuntime, subject(), ": the device is another's");
  const ullage_graph graph(nodes);
  ullage_sink sink;
  sink.nodes = nodes.size();
  sink.budget = budget;
  Check(instance_->api().propose(instance_->handle(), handle->get(), &graph, &sink), handle->subject());
  if (!instance_->api().compile)
    for (const auto& p : sink.proposals.groups)
      if (p.fused) Throw(Code::kUnsupported, handle->subject(), ": proposes to fuse nodes but compiles none");
  return std::move(sink.proposals);
}

void PluginProvider::Tell(uint64_t proposal, providers::Verdict verdict) const {
  if (instance_->api().verdict)
    instance_->api().verdict(instance_->handle(), proposal, static_cast<ullage_verdict>(verdict));
}

std::unique_ptr<kernels::Kernel> PluginProvider::Compile(providers::OpenDevice& device, uint64_t proposal,
                                                         const providers::Group& group,
                                                         std::span<const kernels::KernelInfo> nodes) const {
  const auto& api = instance_->api();
  KernelParts parts;
  parts.device = DeviceOf(&device);
  if (!api.compile || !parts.device) return Provider::Compile(device, proposal, group, nodes);
  parts.group = std::make_shared<ullage_graph>(nodes, group);
  parts.instance = instance_;
  parts.input_on_host = group.input_on_host;
  parts.output_on_host.assign(group.outputs.size(), false);
  parts.outputs = group.outputs.size();
  parts.subject = StrCat("group of ", nodes.size(), " nodes from ", nodes.empty() ? "" : nodes[0].node.name,
                         " on ", device.info().name);
  Check(api.compile(instance_->handle(), parts.device->get(), proposal, parts.group.get(), options_.get(),
                    &parts.kernel),
        parts.subject);
  return AdaptKernel(parts);
}

}  // namespace ullage::plugin_host
