/// A provider for tests: the host's kernels on devices of test_device.h.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/call_context.h"
#include "kernels/lookup.h"
#include "kernels/queued_prepack.h"
#include "ops/catalogue.h"
#include "session/test_device.h"

namespace ullage::session::test {

/// A kernel of the host that runs in the queue, on the open side of the memory.
class TestKernel final : public kernels::Kernel, public kernels::QueuedPrepack {
 public:
  TestKernel(std::unique_ptr<kernels::Kernel> inner, TestDevice& device, uint32_t host_inputs)
      : inner_(std::move(inner)), device_(device), host_inputs_(host_inputs) {}
  std::vector<kernels::PrepackRequirement> PlanPrepack() const override { return inner_->PlanPrepack(); }
  void Prepack(int index, std::byte* out, ThreadTeam& threads) override {
    inner_->Prepack(index, device_.addresses().Open(out), threads);
  }
  void PrepackIn(providers::Stream& stream, int index, std::byte* out) override {
    static_cast<TestStream&>(stream).Put([this, index, out] {
      ThreadTeam alone(1);
      Prepack(index, out, alone);
    });
  }
  void Prepare(std::span<const std::byte* const>, providers::Stream*) override { prepared_ = true; }
  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& slots) const override {
    inner_->DeclareWorkspaceRequirements({shapes.inputs, shapes.outputs, 1}, slots);
  }
  void Compute(kernels::KernelContext& context) const override;

 private:
  struct Call;
  std::unique_ptr<kernels::Kernel> inner_;
  TestDevice& device_;
  uint32_t host_inputs_;
  bool prepared_ = false;
};

struct TestKernel::Call final : kernels::CallContext {
  using CallContext::CallContext;
  void* GetScratchBuffer(size_t, size_t) override { throw Error(Code::kRuntime, "undeclared scratch"); }
  std::deque<TensorView> views;
};

inline void TestKernel::Compute(kernels::KernelContext& context) const {
  if (!prepared_) throw Error(Code::kRuntime, "a kernel that was not prepared");
  static thread_local ThreadTeam alone(1);
  auto call = std::make_shared<Call>(alone);
  const auto add = [&](const TensorView* view, bool host) -> TensorView* {
    if (!view) return nullptr;
    TensorView& mine = call->views.emplace_back(*view);
    if (!host && view->data && view->elements() > 0 && !device_.addresses().Has(view->data))
      throw Error(Code::kRuntime, "a kernel of the device was given memory of somebody else");
    mine.data = device_.addresses().Open(view->data);
    return &mine;
  };
  constexpr int kMost = 32;
  for (int i = 0; i < kMost; ++i) call->inputs.push_back(add(context.input(i), host_inputs_ >> i & 1));
  for (int i = 0; i < kMost; ++i) call->outputs.push_back(add(context.output(i), false));
  for (int slot = 0; slot < kMost; ++slot) {
    size_t bytes = 0;
    if (void* const data = context.GetPreallocatedWorkspace(slot, &bytes))
      call->workspaces.push_back({slot, bytes, device_.addresses().Open(data)});
  }
  const size_t blocks = inner_->PlanPrepack().size();
  for (size_t b = 0; b < blocks; ++b)
    call->blocks.push_back(device_.addresses().Open(context.prepacked(static_cast<int>(b))));
  // What lies on the host is read now.
  static_cast<TestStream*>(context.stream())->Put([this, call] { inner_->Compute(*call); });
}

/// `count` devices that run the operators of `ops`; all but a few that the host decides about when empty.
class TestGpu final : public providers::Provider {
 public:
  TestGpu(std::string name, int count, std::set<std::string> ops = {})
      : name_(std::move(name)), count_(count) {
    for (const auto& def : providers::CpuProvider().registry().all()) {
      if (!ops.empty() && !ops.count(std::string(def.op))) continue;
      kernels::KernelDef mine = def;
      mine.create = [&def](const kernels::KernelInfo& info) -> std::unique_ptr<kernels::Kernel> {
        kernels::KernelInfo host = info;
        host.threads = 1;
        const auto* op = ops::FindOp(info.node.domain, info.node.op, info.node.opset);
        return std::make_unique<TestKernel>(def.create(host), static_cast<TestDevice&>(*info.device),
                                            op->reads_values);
      };
      registry_.Add(std::move(mine));
    }
  }
  std::string_view name() const override { return name_; }
  std::vector<providers::DeviceInfo> devices() const override {
    std::vector<providers::DeviceInfo> all;
    for (int i = 0; i < count_; ++i) {
      providers::DeviceInfo info;
      info.name = name_ + ":" + std::to_string(i);
      info.provider = name_;
      info.type = providers::DeviceType::kGpu;
      info.ordinal = i;
      all.push_back(info);
    }
    return all;
  }
  const kernels::Registry& registry() const override { return registry_; }
  std::unique_ptr<providers::OpenDevice> Open(const providers::DeviceInfo& device) const override {
    auto opened = std::make_unique<TestDevice>(device, peers ? peers_ : nullptr);
    opened->max_region_bytes = max_region_bytes;
    return opened;
  }
  int64_t max_region_bytes = INT64_MAX;
  bool peers = false;  ///< copies between its devices skip the host

 private:
  std::shared_ptr<TestPeers> peers_ = std::make_shared<TestPeers>();
  std::string name_;
  int count_;
  kernels::Registry registry_;
};

}  // namespace ullage::session::test
