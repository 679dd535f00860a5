#include "providers/provider.h"

#include "providers/device.h"

namespace ullage::providers {

std::string_view DeviceTypeName(DeviceType type) {
  switch (type) {
    case DeviceType::kUnknown:
      return "unknown";
    case DeviceType::kCpu:
      return "cpu";
    case DeviceType::kGpu:
      return "gpu";
    case DeviceType::kNpu:
      return "npu";
    case DeviceType::kFpga:
      return "fpga";
    case DeviceType::kAccelerator:
      return "accelerator";
  }
  return "unknown";
}

kernels::NodeEstimate Provider::Estimate(const DeviceInfo&, const kernels::KernelDef& def,
                                         const kernels::KernelInfo& info) const {
  return kernels::EstimateWorkspace(def, info);
}

std::unique_ptr<OpenDevice> Provider::Open(const DeviceInfo&) const {
  return nullptr;
}

Proposals Provider::Propose(OpenDevice&, std::span<const kernels::KernelInfo>, std::optional<int64_t>) const {
  return {};
}

void Provider::Tell(uint64_t, Verdict) const {}

std::unique_ptr<kernels::Kernel> Provider::Compile(OpenDevice&, uint64_t, const Group&,
                                                   std::span<const kernels::KernelInfo>) const {
  Throw(Code::kUnsupported, name(), " compiles no groups of nodes");
}

}  // namespace ullage::providers
