/// The host as a provider; the page that lists its kernel families.
#include <sys/sysinfo.h>
#include <unistd.h>

#include "providers/cpu/kernels/families.h"
#include "providers/cpu/kernels/tensor_families.h"
#include "providers/cpu/kernels/value_families.h"
#include "providers/plugin_host/plugins.h"
#include "providers/provider.h"

namespace ullage::providers {
namespace {

class Cpu final : public Provider {
 public:
  Cpu() {
    cpu::RegisterLinear(registry_);
    cpu::RegisterMatMul(registry_);
    cpu::RegisterNorm(registry_);
    cpu::RegisterBlockLookup(registry_);
    cpu::RegisterGatedActivation(registry_);
    cpu::RegisterGroupQueryAttention(registry_);
    cpu::RegisterMultiHeadAttention(registry_);
    cpu::RegisterStandardAttention(registry_);
    cpu::RegisterRotary(registry_);
    cpu::RegisterApplyRotary(registry_);
    cpu::RegisterArithmetic(registry_);
    cpu::RegisterUnary(registry_);
    cpu::RegisterCompare(registry_);
    cpu::RegisterLayout(registry_);
    cpu::RegisterSharedLookup(registry_);  // before Gather, which takes every table
    cpu::RegisterGather(registry_);
    cpu::RegisterReduce(registry_);
    cpu::RegisterRareMath(registry_);
    cpu::RegisterPackedAttention(registry_);
    cpu::RegisterGatherBlocks(registry_);
    cpu::RegisterPad(registry_);
    cpu::RegisterEinsum(registry_);
    cpu::RegisterSelection(registry_);
    cpu::RegisterClip(registry_);
    cpu::RegisterExactMatMul(registry_);
    cpu::RegisterQuantizeLinear(registry_);
    cpu::RegisterConv(registry_);
    cpu::RegisterConvTranspose(registry_);
    cpu::RegisterRecurrent(registry_);
    cpu::RegisterEmbedNorm(registry_);
    cpu::RegisterPool(registry_);
    cpu::RegisterChannelNorm(registry_);
    cpu::RegisterResize(registry_);
    cpu::RegisterImages(registry_);
    cpu::RegisterDetection(registry_);
    cpu::RegisterSignals(registry_);
    cpu::RegisterRearrange(registry_);
    cpu::RegisterLosses(registry_);
    cpu::RegisterTrees(registry_);
    cpu::RegisterFeatures(registry_);
    cpu::RegisterStates(registry_);
    cpu::RegisterSequences(registry_);
    cpu::RegisterStrings(registry_);
    cpu::RegisterEncoders(registry_);
  }
  std::string_view name() const override { return "cpu"; }
  std::vector<DeviceInfo> devices() const override {
    DeviceInfo d;
    d.name = "cpu";
    d.provider = "cpu";
    d.description = "host";
    struct sysinfo info = {};
    if (sysinfo(&info) == 0) d.capacity_bytes = static_cast<int64_t>(info.totalram) * info.mem_unit;
    d.free_bytes = memory::AvailableHostBytes();
    return {d};
  }
  const kernels::Registry& registry() const override { return registry_; }

 private:
  kernels::Registry registry_;
};

}  // namespace

const Provider& CpuProvider() {
  static const Cpu cpu;
  return cpu;
}

std::vector<std::shared_ptr<const Provider>> AllProviders(const OptionBag& options) {
  auto all = plugin_host::CreateProviders(options);
  all.push_back(std::shared_ptr<const Provider>(std::shared_ptr<void>(), &CpuProvider()));
  return all;
}

}  // namespace ullage::providers
