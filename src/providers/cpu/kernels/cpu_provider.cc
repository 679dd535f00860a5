/// The host as a provider.
#include <sys/sysinfo.h>
#include <unistd.h>

#include "providers/cpu/kernels/all_families.h"
#include "providers/plugin_host/plugins.h"
#include "providers/provider.h"

namespace ullage::providers {
namespace {

class Cpu final : public Provider {
 public:
  Cpu() { cpu::RegisterAll(registry_); }
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
