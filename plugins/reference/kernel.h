/// One of the host's kernels on a simulated device.
#pragma once

#include <memory>

#include "reference/device.h"

namespace ullage::reference {

/// Puts its calls in the device's queue.
class QueuedKernel final : public plugin::SharedKernel {
 public:
  QueuedKernel(plugin::SharedEntry& entry, const ullage_kernel_info& info);
  /// Of a group that `kernel` computes.
  QueuedKernel(std::unique_ptr<kernels::Kernel> kernel, Device& device, size_t inputs, size_t outputs);

  void Prepack(size_t index, const ullage_region& target, ullage_stream* stream) override;
  void Compute(const plugin::Context& context) override;

 private:
  Device* device_;  // null: made for an estimate
};

}  // namespace ullage::reference
