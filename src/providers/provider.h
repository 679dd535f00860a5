/// A provider: somebody who owns devices and has kernels for them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/registry.h"
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

/// Immutable after construction, thread-safe.
class Provider {
 public:
  virtual ~Provider() = default;
  virtual std::string_view name() const = 0;
  virtual std::vector<DeviceInfo> devices() const = 0;
  virtual const kernels::Registry& registry() const = 0;
};

/// The host. One instance for the process.
const Provider& CpuProvider();

}  // namespace ullage::providers
