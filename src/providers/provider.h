/// A provider: somebody who owns devices and has kernels for them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/estimate.h"
#include "memory/allocator.h"

namespace ullage::providers {

enum class DeviceType { kUnknown, kCpu, kGpu, kNpu, kFpga, kAccelerator };
/// "cpu", "gpu", …, "unknown".
std::string_view DeviceTypeName(DeviceType type);

struct DeviceInfo {
  std::string name;  ///< "cpu", "opencl:0"
  std::string provider;
  std::string vendor;
  uint32_t vendor_id = 0;  ///< PCI vendor, 0: unknown
  std::string description;
  DeviceType type = DeviceType::kCpu;
  /// Number among the devices of the provider that programs may use (never a PCI id); -1: unknown.
  int ordinal = 0;
  int64_t capacity_bytes = 0;
  int64_t free_bytes = 0;
};

/// What the host knows about is behind this interface, the CPU included. Immutable after construction,
/// thread-safe.
class Provider {
 public:
  virtual ~Provider() = default;
  virtual std::string_view name() const = 0;
  /// In the order of their ordinals; free memory as it is now.
  virtual std::vector<DeviceInfo> devices() const = 0;
  /// The kernels for all of them.
  virtual const kernels::Registry& registry() const = 0;
  /// Level 1 for a node that `def` would run on a device. Needs no device work.
  virtual kernels::NodeEstimate Estimate(const DeviceInfo& device, const kernels::KernelDef& def,
                                         const kernels::KernelInfo& info) const;
  /// Takes part only when it is named (simulated devices).
  virtual bool only_when_named() const { return false; }
};

/// The host. One instance for the process.
const Provider& CpuProvider();
/// Every provider there is; the host last.
std::vector<const Provider*> AllProviders();

/// A device and who drives it.
struct Device {
  const Provider* provider = nullptr;
  DeviceInfo info;
};

}  // namespace ullage::providers
