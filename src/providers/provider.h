/// A provider: somebody who owns devices and has kernels for them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/registry.h"
#include "memory/allocator.h"

namespace ullage::providers {

enum class DeviceType { kCpu, kGpu, kNpu, kAccelerator };

struct DeviceInfo {
  std::string name;  ///< "cpu", "opencl:0"
  std::string provider;
  std::string vendor;
  std::string description;
  DeviceType type = DeviceType::kCpu;
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
