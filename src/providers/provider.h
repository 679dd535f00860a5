/// A provider: somebody who owns devices and has kernels for them.
#pragma once

#include <memory>
#include <optional>
#include <span>
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
  int64_t copy_bandwidth = 0;  ///< from the host, bytes per second; 0: unknown
  /// Takes part only when the user names it (simulated devices, processors behind a GPU's interface).
  bool only_when_named = false;
};

class OpenDevice;

/// Nodes that a provider would run together.
struct Proposal {
  std::vector<size_t> nodes;  ///< indices in the list that was offered, ascending
  bool fused = false;         ///< compiled into one kernel; else each runs with a kernel of its own
  kernels::NodeEstimate estimate;
  uint64_t id = 0;  ///< the provider's
};
struct Proposals {
  std::vector<Proposal> groups;
  bool rest = false;  ///< nodes of no group are to be offered one by one, to whoever has a kernel
};
enum class Verdict { kAccepted, kRefusedBudget, kRefusedGroup, kRefusedTaken };

/// A group of nodes that runs as one, and the values that pass its borders.
struct Group {
  std::vector<graph::NodeId> nodes;     ///< in an order in which they could run
  std::vector<graph::ValueId> inputs;   ///< that it reads and does not make, in order of first use
  std::vector<bool> input_on_host;      ///< those whose contents decide a shape
  std::vector<graph::ValueId> outputs;  ///< that others read, in the order of the nodes
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
  /// Makes one of devices() ready for use; null: it is the host. Throws when it cannot be used.
  virtual std::unique_ptr<OpenDevice> Open(const DeviceInfo& device) const;

  /// Whether Propose() is to be asked; else nodes are offered one by one, to whoever has a kernel.
  virtual bool proposes() const { return false; }
  /// Groups of `nodes` (in topological order) for the device; `budget`: bytes that it would still be granted,
  /// nothing: no limit. Each proposal gets one verdict.
  virtual Proposals Propose(OpenDevice& device, std::span<const kernels::KernelInfo> nodes,
                            std::optional<int64_t> budget) const;
  virtual void Tell(uint64_t proposal, Verdict verdict) const;
  /// The kernel of an accepted fused group, whose inputs and outputs are the group's. `nodes`: what the
  /// kernels of its nodes would know, in their order.
  virtual std::unique_ptr<kernels::Kernel> Compile(OpenDevice& device, uint64_t proposal, const Group& group,
                                                   std::span<const kernels::KernelInfo> nodes) const;
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
