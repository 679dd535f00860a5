// A plugin with one device and one operator, from the source that in_tree.cc runs on the host. The device is
// host memory under another name and works while it is called, so there are no queues.
#include <cstdlib>

#include "centered_product.h"
#include "sdk/shared_kernel.h"

namespace {

using namespace ullage;

constexpr uint64_t kCapacity = uint64_t{1} << 30;

class Buffer {
 public:
  Buffer(uint64_t& used, uint64_t bytes, uint32_t alignment) : used_(used), bytes_(bytes) {
    if (bytes <= kCapacity - used)
      data_ = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (!data_) throw plugin::Failure(ULLAGE_OUT_OF_MEMORY, "the device is full");
    used_ += bytes_;
  }
  ~Buffer() {
    std::free(data_);
    used_ -= bytes_;
  }
  void* pointer() const { return data_; }

 private:
  uint64_t& used_;
  uint64_t bytes_;
  void* data_ = nullptr;
};

class Device {
 public:
  std::unique_ptr<Buffer> Reserve(ullage_space_kind, uint64_t bytes, uint32_t alignment) {
    return std::make_unique<Buffer>(used_, bytes, alignment);
  }
  void Copy(const ullage_copy* copies, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const auto* copy = ULLAGE_AT(const ullage_copy, copies, i);
      std::memmove(copy->target.pointer, copy->source.pointer, copy->source.bytes);
    }
  }

 private:
  uint64_t used_ = 0;
};

class Provider {
 public:
  explicit Provider(const plugin::Options& options) : bag_(plugin::BagOf(options)) {
    example::RegisterCenteredProduct(registry_);
    for (const auto& def : registry_.all()) {
      auto& entry = entries_.emplace_back(std::make_unique<plugin::SharedEntry>(
          def, bag_, 1, false, plugin::CreateKernel<plugin::SharedKernel, plugin::SharedEntry>));
      entry->BringOperator(example::kCenteredProduct);  // the host does not know it
    }
  }
  std::vector<ullage_device_info> devices() const {
    auto info = plugin::Sized<ullage_device_info>();
    info.type = ULLAGE_DEVICE_ACCELERATOR;
    info.name = "centered";
    info.vendor = "example";
    info.flags = ULLAGE_DEVICE_CONCURRENT | ULLAGE_DEVICE_ONLY_WHEN_NAMED;
    info.total_bytes = kCapacity;
    info.alignment = 256;
    return {info};
  }
  std::unique_ptr<Device> Open(int32_t) { return std::make_unique<Device>(); }
  void Register(ullage_registry* registry) {
    for (auto& entry : entries_) entry->Register(registry);
  }

 private:
  OptionBag bag_;
  kernels::Registry registry_;
  std::vector<std::unique_ptr<plugin::SharedEntry>> entries_;
};

const ullage_plugin_api& Plugin() {
  static const ullage_provider_api provider = [] {
    auto table = plugin::ProviderTable<Provider, Device, Buffer>();
    table.name = "centered";
    table.vendor = "example";
    table.version = "1";
    plugin::g_code_of = plugin::CodeOf;
    return table;
  }();
  static const ullage_provider_api* const providers[] = {&provider};
  static const ullage_plugin_api api{sizeof(ullage_plugin_api), ULLAGE_ABI_VERSION, 1, providers, [] {}};
  return api;
}

}  // namespace

ULLAGE_PLUGIN(Plugin())
