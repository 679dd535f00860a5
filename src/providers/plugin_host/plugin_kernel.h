/// Kernels of plugins: their registrations, and the adapters that a session runs.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/registry.h"
#include "providers/plugin_host/plugin_device.h"
#include "providers/plugin_host/views.h"

namespace ullage::plugin_host {

/// One registration, copied. Immutable, thread-safe; keeps the provider instance alive.
struct KernelEntry {
  /// Throws kUnsupported when the registration is wrong.
  KernelEntry(const ullage_kernel_entry& entry, std::shared_ptr<const Instance> instance,
              std::shared_ptr<const ullage_options> options);

  /// What look-up works with; holds on to `self`, which is this object.
  static kernels::KernelDef Define(const std::shared_ptr<const KernelEntry>& self);
  /// Level 1 by the plugin's own function; nothing when it has none.
  std::optional<kernels::NodeEstimate> Estimate(const kernels::KernelInfo& info) const;
  std::string Subject(const graph::Node& node) const;  ///< "node n (Op) on opencl"

  std::string domain, op;
  ullage_kernel_entry api;  ///< its lists are those below
  std::vector<kernels::TypeSet> types;
  std::vector<ullage_space_kind> input_spaces, output_spaces;
  std::vector<ullage_pair> aliases, may_alias, caches;
  std::shared_ptr<const Instance> instance;
  std::shared_ptr<const ullage_options> options;

 private:
  std::optional<std::string> Refuse(const kernels::KernelInfo& info) const;
  static std::unique_ptr<kernels::Kernel> Create(const std::shared_ptr<const KernelEntry>& self,
                                                 const kernels::KernelInfo& info);
};

/// The ABI's form of a level-1 estimate; throws kRuntime naming `subject` on amounts that cannot be.
kernels::NodeEstimate ReadEstimate(const ullage_estimate& from, const std::string& subject);

/// What a kernel adapter is made of. `entry` is null for the kernel of a fused group.
struct KernelParts {
  std::shared_ptr<const KernelEntry> entry;
  std::shared_ptr<const Instance> instance;  ///< outlives the kernel
  /// What it was made for: a node, or a group.
  std::shared_ptr<const KernelNode> node;
  std::shared_ptr<const ullage_graph> group;
  std::shared_ptr<DeviceHandle> device;
  ullage_kernel* kernel = nullptr;
  std::string subject;
  std::vector<bool> input_on_host, output_on_host;
  size_t outputs = SIZE_MAX;
  bool late = false;
};
/// Takes over the kernel. Throws kUnsupported when its table lacks what it must have, kRuntime when it plans
/// nonsense.
std::unique_ptr<kernels::Kernel> AdaptKernel(const KernelParts& parts);
/// Throws when the kernel was made without an open device, for an estimate.
DeviceHandle& RequireDevice(const KernelParts& parts);
/// Null when it is no plugin's.
std::shared_ptr<DeviceHandle> DeviceOf(providers::OpenDevice* device);
/// Null when there is none, or the device has no queues.
ullage_stream* QueueOf(providers::Stream* stream);

/// Adds the operator to the host's catalogue where that lacks it, with the registration's bound rule. Throws
/// kUnsupported when it has none.
void OfferOperator(const std::shared_ptr<const KernelEntry>& entry);

}  // namespace ullage::plugin_host

/// One call of compute.
struct ullage_context {
  ullage::kernels::KernelContext& context;
  const ullage::plugin_host::KernelParts& parts;
  bool may_scratch;
};

/// One call of a bound rule.
struct ullage_shapes {
  explicit ullage_shapes(ullage::ops::ShapeContext& c) : context(c) {}
  ullage::ops::ShapeContext& context;
  /// Where ends are handed out: of that many inputs without further memory.
  std::array<ullage::plugin_host::Ends, 8> few;
  std::vector<std::unique_ptr<ullage::plugin_host::Ends>> more;
};

namespace ullage::plugin_host {

/// What a rule knows of input i in this call, and what it states of output i; throws kRuntime when that is no
/// shape.
void DescribeInput(ullage_shapes& shapes, size_t i, ullage_value_info* out);
void SetOutput(ullage_shapes& shapes, size_t i, int32_t dtype, size_t rank, const int64_t* lower,
               const int64_t* upper);

}  // namespace ullage::plugin_host
