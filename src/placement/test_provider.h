/// A provider for tests: devices without memory, kernels that compute nothing but can say what they need.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/estimate.h"
#include "placement/place.h"
#include "placement/test_graph.h"
#include "providers/device.h"
#include "ullage/error.h"

namespace ullage::placement::test {

/// Wants "workspace" bytes as the node's attribute says (-1: cannot say) and "prepack" bytes. With "unsure"
/// only the estimate cannot say.
class TestKernel final : public kernels::Kernel {
 public:
  explicit TestKernel(const kernels::KernelInfo& info)
      : workspace_(info.node.Int("workspace", 0)), prepack_(info.node.Int("prepack", 0)) {}
  std::vector<kernels::PrepackRequirement> PlanPrepack() const override {
    if (prepack_ == 0) return {};
    return {{static_cast<size_t>(prepack_), 64, {}, ""}};
  }
  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes&,
                                    std::vector<memory::WorkspaceRequirement>& slots) const override {
    memory::WorkspaceRequirement slot;
    slot.alignment = 1;
    slot.size_bytes = static_cast<size_t>(std::max<int64_t>(workspace_, 0));
    if (workspace_ < 0) slot.status = memory::WorkspaceStatus::kUnknown;
    slots.push_back(slot);
  }
  void Compute(kernels::KernelContext&) const override {}

 private:
  int64_t workspace_, prepack_;
};

/// Stands for an open device where nothing runs.
class NoDevice final : public providers::OpenDevice {
 public:
  explicit NoDevice(DeviceInfo info) : info_(std::move(info)) {}
  const DeviceInfo& info() const override { return info_; }
  int64_t alignment() const override { return 1; }
  int64_t max_region(providers::Space) const override { return 0; }
  std::unique_ptr<providers::Region> Reserve(providers::Space, int64_t) override { return nullptr; }
  providers::MemoryInfo memory() const override { return {}; }
  std::unique_ptr<providers::Stream> CreateStream() override { return nullptr; }
  std::unique_ptr<providers::Event> CreateEvent() override { return nullptr; }
  void Run(std::span<const providers::Copy>, providers::Stream*) override {}

 private:
  DeviceInfo info_;
};

class TestProvider final : public providers::Provider {
 public:
  /// `ops`: what it has kernels for, of those types; `devices`: how many.
  TestProvider(std::string name, DeviceType type, int devices, const std::vector<std::string>& ops,
               kernels::TypeSet types = kernels::kFloat32)
      : name_(std::move(name)), type_(type), count_(devices) {
    names_.reserve(ops.size());
    for (const auto& op : ops) {
      kernels::KernelDef def;
      def.op = names_.emplace_back(op);
      def.types = {types};
      def.create = [](const kernels::KernelInfo& info) -> std::unique_ptr<kernels::Kernel> {
        return std::make_unique<TestKernel>(info);
      };
      const kernels::KernelDef plain = def;
      def.estimate = [plain](const kernels::KernelInfo& info) -> kernels::WorkspaceEstimate {
        if (info.node.Int("unsure", 0)) return {};
        return kernels::EstimateWorkspace(plain, info);
      };
      def.refuse = [](const kernels::KernelInfo& info) -> std::optional<std::string> {
        if (info.node.Int("odd", 0)) return "an odd shape";
        return std::nullopt;
      };
      registry_.Add(std::move(def));
    }
  }
  std::string_view name() const override { return name_; }
  std::vector<DeviceInfo> devices() const override {
    std::vector<DeviceInfo> all;
    for (int i = 0; i < count_; ++i) {
      all.push_back(Device(name_, type_, i));
      all.back().free_bytes = free_bytes;
    }
    return all;
  }
  const kernels::Registry& registry() const override { return registry_; }
  bool proposes() const override { return propose != nullptr; }
  providers::Proposals Propose(providers::OpenDevice&, std::span<const kernels::KernelInfo> nodes,
                               std::optional<int64_t> budget) const override {
    return propose(nodes, budget);
  }
  void Tell(uint64_t proposal, providers::Verdict verdict) const override { verdicts[proposal] = verdict; }

  int64_t free_bytes = 0;
  std::function<providers::Proposals(std::span<const kernels::KernelInfo>, std::optional<int64_t>)> propose;
  mutable std::map<uint64_t, providers::Verdict> verdicts;

 private:
  std::string name_;
  DeviceType type_;
  int count_;
  std::vector<std::string> names_;
  kernels::Registry registry_;
};

/// Everything that Place() needs, kept alive.
struct Placing {
  std::vector<std::shared_ptr<TestProvider>> providers;
  OptionBag options;
  std::unique_ptr<ops::SymbolTable> table = std::make_unique<ops::SymbolTable>();
  shapes::GraphFacts facts;
  std::string model_folder;
  std::set<ValueId> states;

  TestProvider& Add(std::string name, DeviceType type, int devices, std::vector<std::string> ops,
                    kernels::TypeSet types = kernels::kFloat32) {
    providers.push_back(std::make_shared<TestProvider>(std::move(name), type, devices, ops, types));
    return *providers.back();
  }
  /// The host, and a GPU provider of that many devices that lacks kernels for Softmax.
  static Placing GpuAndHost(int gpus = 1) {
    Placing p;
    if (gpus > 0) p.Add("gpux", DeviceType::kGpu, gpus, {"Relu", "Add", "MatMul", "Mul"});
    p.Add("cpu", DeviceType::kCpu, 1, {"Relu", "Add", "MatMul", "Mul", "Softmax"});
    return p;
  }
  std::unique_ptr<PlacedGraph> Place(const Graph& g) {
    facts = shapes::Propagate(g, shapes::DeclaredInputFacts(g, *table), {}, *table);
    PlaceRequest request;
    request.graph = &g;
    request.facts = &facts;
    request.devices = ReadDevices(options, {providers.begin(), providers.end()});
    for (auto& device : request.devices)
      if (device.provider->proposes()) device.open = std::make_shared<NoDevice>(device.info);
    request.options = &options;
    request.model_folder = model_folder;
    request.states = states;
    return placement::Place(request);
  }
};

/// "gpux:0 rule" of a node.
inline std::string Where(const PlacedGraph& p, const std::string& name) {
  for (const NodeRef& ref : p.nodes())
    if (ref->name == name) {
      const PlacedNode& n = p.of(ref);
      return p.devices()[n.device].device.info.name + " " + std::string(ReasonName(n.reason));
    }
  return "not there";
}

inline Code CodeOf(Placing& placing, const Graph& g, std::string* message = nullptr) {
  try {
    placing.Place(g);
  } catch (const Error& e) {
    if (message) *message = e.message();
    return e.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return Code::kRuntime;
}

}  // namespace ullage::placement::test
