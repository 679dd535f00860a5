/// A kernel class of the host as a plugin's kernel: all functions of the ABI from those of kernels::Kernel.
///
/// As it is, it computes while it is called. A device with queues derives from it, overrides Compute(), and
/// puts a SharedCall in its queue.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "kernels/call_context.h"
#include "sdk/shared_source.h"

namespace ullage::plugin {

/// Where the bytes of a region are for the code that computes.
using AddressFn = std::byte* (*)(const ullage_region& region);
/// For devices whose memory the process can reach through pointers.
inline std::byte* PointerOf(const ullage_region& region) {
  return static_cast<std::byte*>(region.pointer);
}

/// One call of a kernel: views of device memory, copies of host memory.
class SharedCall final : public kernels::CallContext {
 public:
  SharedCall(ThreadTeam& team, AddressFn address) : CallContext(team), address_(address) {}
  /// Takes what the host has for this call. `waits`: the host's call lasts until the kernel is done, which
  /// may then state shapes and ask for scratch, and nothing is copied.
  void Take(const Context& context, size_t input_count, size_t output_count, const std::vector<int>& slots,
            bool waits);
  void SetOutputShape(int i, const Shape& shape) override;
  void* GetScratchBuffer(size_t bytes, size_t alignment) override;

 private:
  const AddressFn address_;
  ullage_context* host_ = nullptr;  // null: its call has returned
  std::vector<TensorView> input_views_, output_views_;
  std::vector<std::byte> host_bytes_;
  uint32_t scratches_ = 0;
};

class SharedKernel : public Kernel {
 public:
  SharedKernel(SharedEntry& entry, const ullage_kernel_info& info, AddressFn address = PointerOf);
  /// Of a group that `kernel` computes with one thread.
  SharedKernel(std::unique_ptr<kernels::Kernel> kernel, size_t inputs, size_t outputs, AddressFn address);

  std::vector<ullage_slot> Declare(Infos in, Infos out) override;
  std::vector<ullage_prepack_block> PlanPrepack() override;
  void Prepack(size_t index, const ullage_region& target, ullage_stream*) override;
  void SetPrepacked(size_t index, const ullage_region& region) override;
  void Prepare(ullage_stream*) override;
  void Compute(const Context& context) override;

 protected:
  kernels::Kernel& kernel() const { return *kernel_; }
  /// Whether compute must not return before the kernel is done: it states shapes, or writes host memory.
  bool MustWait(const Context& context) const;
  /// Makes `call` the host's call. Thread-safe.
  void Fill(const Context& context, bool waits, SharedCall* call);

 private:
  const AddressFn address_;
  const int threads_;
  const bool late_;
  std::unique_ptr<SharedNode> node_;
  const size_t inputs_, outputs_;
  std::unique_ptr<kernels::Kernel> kernel_;
  const std::vector<kernels::PrepackRequirement> blocks_;
  std::vector<const std::byte*> places_;
  std::mutex mutex_;
  std::vector<int> slots_;  // that it ever declared
};

}  // namespace ullage::plugin
