/// A plugin's provider behind the host's interface.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "providers/plugin_host/plugin_kernel.h"
#include "providers/plugin_host/plugins.h"
#include "providers/provider.h"

namespace ullage::plugin_host {

class PluginProvider final : public providers::Provider {
 public:
  /// Makes an instance and takes its registrations. Throws what the plugin reports.
  PluginProvider(const ProviderPlugin& plugin, std::shared_ptr<const ullage_options> options);

  std::string_view name() const override { return instance_->name(); }
  std::vector<providers::DeviceInfo> devices() const override;
  const kernels::Registry& registry() const override { return registry_; }
  kernels::NodeEstimate Estimate(const providers::DeviceInfo& device, const kernels::KernelDef& def,
                                 const kernels::KernelInfo& info) const override;
  std::unique_ptr<providers::OpenDevice> Open(const providers::DeviceInfo& device) const override;
  bool proposes() const override { return instance_->api().propose != nullptr; }
  providers::Proposals Propose(providers::OpenDevice& device, std::span<const kernels::KernelInfo> nodes,
                               std::optional<int64_t> budget) const override;
  void Tell(uint64_t proposal, providers::Verdict verdict) const override;
  std::unique_ptr<kernels::Kernel> Compile(providers::OpenDevice& device, uint64_t proposal,
                                           const providers::Group& group,
                                           std::span<const kernels::KernelInfo> nodes) const override;

 private:
  std::vector<ullage_device_info> ListDevices() const;
  std::string subject() const { return "provider " + instance_->name(); }

  std::shared_ptr<const ullage_options> options_;
  std::shared_ptr<const Instance> instance_;
  kernels::Registry registry_;
  std::vector<std::shared_ptr<const KernelEntry>> entries_;  // parallel to the registry's definitions
};

}  // namespace ullage::plugin_host
