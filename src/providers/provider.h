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
  /// Takes part only when the user names it (simulated devices, processors behind a GPU's interface).
  bool only_when_named = false;
};

class OpenDevice;

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
  /// Makes one of devices() ready for use; null: it is the host. Throws when it cannot be used.
  virtual std::unique_ptr<OpenDevice> Open(const DeviceInfo& device) const;
};

/// The host. One instance for the process.
const Provider& CpuProvider();

/// Everybody there is, made for these options; the host last.
std::vector<std::shared_ptr<const Provider>> AllProviders(const OptionBag& options);

/// A device and who drives it.
struct Device {
  std::shared_ptr<const Provider> provider;
  DeviceInfo info;
  std::shared_ptr<OpenDevice> open;  ///< null: the host, or not in use yet
};

}  // namespace ullage::providers
