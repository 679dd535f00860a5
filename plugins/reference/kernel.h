/// One of the host's kernels on a simulated device.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "reference/device.h"
#include "sdk/shared_source.h"

namespace ullage::reference {

class SharedKernel final : public plugin::Kernel {
 public:
  SharedKernel(plugin::SharedEntry& entry, const ullage_kernel_info& info);
  /// Of a group that `kernel` computes.
  SharedKernel(std::unique_ptr<kernels::Kernel> kernel, Device& device, size_t inputs, size_t outputs);

  std::vector<ullage_slot> Declare(Infos in, Infos out) override;
  std::vector<ullage_prepack_block> PlanPrepack() override;
  void Prepack(size_t index, const ullage_region& target, ullage_stream*) override;
  void SetPrepacked(size_t index, const ullage_region& region) override;
  void Prepare(ullage_stream*) override;
  void Compute(const plugin::Context& context) override;

 private:
  const int threads_;
  const bool late_;
  std::unique_ptr<plugin::SharedNode> node_;
  Device* device_;  // null: made for an estimate
  size_t inputs_, outputs_;
  std::unique_ptr<kernels::Kernel> kernel_;
  const std::vector<kernels::PrepackRequirement> blocks_;
  std::vector<const std::byte*> places_;
  std::mutex mutex_;
  std::vector<int> slots_;  // that it ever declared
};

}  // namespace ullage::reference
