#include "providers/plugin_host/plugin_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>

#include "core/checked.h"
#include "providers/plugin_host/status.h"
#include "providers/plugin_host/structs.h"

namespace ullage::plugin_host {

using providers::Space;

namespace {

constexpr int64_t kMostAlignment = 1 << 21;

/// Addresses that nobody may use, for memory that has none.
std::byte* ReserveAddresses(int64_t bytes, const std::string& subject) {
  void* at = mmap(nullptr, static_cast<size_t>(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                  -1, 0);
  if (at == MAP_FAILED) Throw(Code::kDoesNotFit, subject, ": no addresses for ", bytes, " bytes are left");
  return static_cast<std::byte*>(at);
}

class PluginRegion final : public providers::Region {
 public:
  PluginRegion(std::shared_ptr<DeviceHandle> device, ullage_space_kind space, int64_t bytes,
               int64_t alignment)
      : device_(std::move(device)), bytes_(bytes) {
    const auto& api = device_->api();
    Check(api.reserve(device_->get(), space, static_cast<uint64_t>(bytes), static_cast<uint32_t>(alignment),
                      &buffer_),
          device_->subject());
    if (!buffer_)
      Throw(Code::kRuntime, device_->subject(), ": reserved ", bytes, " bytes and gave no buffer");
    try {
      const bool hidden = device_->offsets() && space != ULLAGE_SPACE_PINNED;
      void* pointer = hidden || !api.pointer ? nullptr : api.pointer(buffer_);
      if (!pointer && !device_->offsets())
        Throw(Code::kRuntime, device_->subject(), ": gave a buffer without an address");
      if (reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(alignment) != 0)
        Throw(Code::kRuntime, device_->subject(), ": gave a buffer that is not aligned to ", alignment,
              " bytes");
      data_ = pointer ? static_cast<std::byte*>(pointer) : ReserveAddresses(bytes, device_->subject());
      addresses_only_ = !pointer;
      device_->Add(data_, bytes, buffer_, pointer != nullptr, space);
    } catch (...) {
      Release();
      throw;
    }
  }
  ~PluginRegion() override {
    device_->Remove(data_);
    Release();
  }
  std::byte* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  void Release() {
    device_->api().free(device_->get(), buffer_, nullptr);
    if (addresses_only_) munmap(data_, static_cast<size_t>(bytes_));
  }

  std::shared_ptr<DeviceHandle> device_;
  int64_t bytes_;
  ullage_buffer* buffer_ = nullptr;
  std::byte* data_ = nullptr;
  bool addresses_only_ = false;
};

class EmptyRegion final : public providers::Region {
 public:
  std::byte* data() const override { return nullptr; }
  int64_t bytes() const override { return 0; }
};

class PluginEvent final : public providers::Event {
 public:
  explicit PluginEvent(std::shared_ptr<DeviceHandle> device) : device_(std::move(device)) {
    const auto& api = device_->api();
    if (!api.create_event) return;
    Check(api.create_event(device_->get(), &handle_), device_->subject());
    if (!handle_) Throw(Code::kRuntime, device_->subject(), ": gave no event");
  }
  ~PluginEvent() override {
    if (handle_ && device_->api().release_event) device_->api().release_event(handle_);
  }
  void Record(providers::Stream& stream) override {
    auto* queue = static_cast<PluginStream&>(stream).handle();
    if (!handle_ || !queue) return;
    Check(device_->api().record(handle_, queue), device_->subject());
    recorded_ = true;
  }
  void Wait() override {
    if (recorded_) Check(device_->api().host_wait(handle_), device_->subject());
  }
  ullage_event* recorded() const { return recorded_ ? handle_ : nullptr; }

 private:
  std::shared_ptr<DeviceHandle> device_;
  ullage_event* handle_ = nullptr;
  bool recorded_ = false;
};

ullage_space_kind KindOf(Space space) {
  switch (space) {
    case Space::kHost:
      return ULLAGE_SPACE_HOST;
    case Space::kDevice:
      return ULLAGE_SPACE_DEVICE;
    case Space::kPinned:
      return ULLAGE_SPACE_PINNED;
    case Space::kWeights:
      return ULLAGE_SPACE_WEIGHTS;
  }
  return ULLAGE_SPACE_DEVICE;
}

int64_t Bytes(uint64_t n) {
  return n > static_cast<uint64_t>(INT64_MAX) ? INT64_MAX : static_cast<int64_t>(n);
}

}  // namespace

Instance::Instance(const ullage_provider_api& api, std::string name, const ullage_options* options)
    : api_(api), name_(std::move(name)) {
  Check(api_.create(options, &handle_), "provider " + name_);
  if (!handle_) Throw(Code::kRuntime, "provider ", name_, ": was created as nothing");
}

Instance::~Instance() {
  api_.release(handle_);
}

void Instance::Opened(const DeviceHandle* device) const {
  const std::lock_guard lock(mutex_);
  open_.push_back(device);
}

void Instance::Closed(const DeviceHandle* device) const {
  const std::lock_guard lock(mutex_);
  std::erase(open_, device);
}

ullage_space_kind Instance::FindElsewhere(const DeviceHandle& asking, const void* address, int64_t bytes,
                                          ullage_region* region) const {
  const std::lock_guard lock(mutex_);
  for (const DeviceHandle* device : open_) {
    if (device == &asking) continue;
    const auto space = device->Find(address, bytes, region);
    if (space != ULLAGE_SPACE_HOST) return space;
  }
  return ULLAGE_SPACE_HOST;
}

DeviceHandle::DeviceHandle(std::shared_ptr<const Instance> instance, int ordinal, std::string name,
                           uint32_t flags)
    : instance_(std::move(instance)), subject_("device " + name), flags_(flags) {
  Check(api().open_device(instance_->handle(), ordinal, &device_), subject_);
  if (!device_) Throw(Code::kRuntime, subject_, ": was opened as nothing");
  instance_->Opened(this);
}

DeviceHandle::~DeviceHandle() {
  if (device_) instance_->Closed(this);
  api().close_device(device_);
}

void DeviceHandle::Add(std::byte* address, int64_t bytes, ullage_buffer* buffer, bool has_pointer,
                       ullage_space_kind space) {
  const std::unique_lock lock(mutex_);
  const auto next = regions_.lower_bound(address);
  const bool clash =
      (next != regions_.end() && next->first < address + bytes) ||
      (next != regions_.begin() && std::prev(next)->first + std::prev(next)->second.bytes > address);
  if (clash) Throw(Code::kRuntime, subject_, ": gave out memory at addresses that are in use");
  regions_.emplace(address, Record{bytes, buffer, has_pointer, space});
}

void DeviceHandle::Remove(std::byte* address) {
  const std::unique_lock lock(mutex_);
  regions_.erase(address);
}

ullage_space_kind DeviceHandle::Find(const void* address, int64_t bytes, ullage_region* region) const {
  const auto* at = static_cast<const std::byte*>(address);
  *region = {};
  region->size = sizeof(*region);
  region->bytes = static_cast<uint64_t>(bytes);
  region->pointer = const_cast<void*>(address);
  const std::shared_lock lock(mutex_);
  auto it = regions_.upper_bound(at);
  if (it == regions_.begin()) return ULLAGE_SPACE_HOST;
  --it;
  const Record& record = it->second;
  const int64_t offset = at - it->first;
  if (offset >= record.bytes) return ULLAGE_SPACE_HOST;
  if (bytes > record.bytes - offset)
    Throw(Code::kRuntime, subject_, ": ", bytes, " bytes at offset ", offset, " reach beyond a region of ",
          record.bytes);
  region->buffer = record.buffer;
  region->offset = static_cast<uint64_t>(offset);
  if (!record.has_pointer) region->pointer = nullptr;
  return record.space;
}

PluginStream::PluginStream(std::shared_ptr<DeviceHandle> device) : device_(std::move(device)) {
  const auto& api = device_->api();
  if (!api.create_stream) return;
  Check(api.create_stream(device_->get(), &handle_), device_->subject());
  if (!handle_) Throw(Code::kRuntime, device_->subject(), ": gave no stream");
}

PluginStream::~PluginStream() {
  if (handle_) device_->api().release_stream(handle_);
}

void PluginStream::Flush() {
  if (handle_ && device_->api().flush) Check(device_->api().flush(handle_), device_->subject());
}

void PluginStream::Finish() {
  if (handle_) Check(device_->api().finish(handle_), device_->subject());
}

void PluginStream::Wait(const providers::Event& event) {
  auto* point = static_cast<const PluginEvent&>(event).recorded();
  if (handle_ && point) Check(device_->api().stream_wait(handle_, point), device_->subject());
}

PluginDevice::PluginDevice(providers::DeviceInfo info, std::shared_ptr<DeviceHandle> handle,
                           int64_t alignment)
    : info_(std::move(info)), handle_(std::move(handle)), alignment_(alignment) {
  const auto& api = handle_->api();
  spaces_[static_cast<size_t>(Space::kDevice)].there = true;
  if (api.spaces) {
    std::array<ullage_space_info, 16> list;
    list.fill(Empty<ullage_space_info>());
    size_t needed = 0;
    Check(api.spaces(handle_->get(), list.data(), list.size(), &needed), handle_->subject());
    for (size_t i = 0; i < std::min(needed, list.size()); ++i) {
      const auto& from = list[i];
      if (from.kind < ULLAGE_SPACE_DEVICE || from.kind > ULLAGE_SPACE_WEIGHTS) continue;
      SpaceInfo& to = spaces_[static_cast<size_t>(from.kind)];
      to.there = true;
      to.largest = from.max_allocation == 0 ? INT64_MAX : Bytes(from.max_allocation);
      if (std::has_single_bit(from.alignment) && from.alignment <= kMostAlignment)
        to.alignment = from.alignment;
    }
  }
  const auto copies = [&](ullage_space_kind from, ullage_space_kind to) {
    return !api.can_copy || api.can_copy(handle_->get(), from, to) != 0;
  };
  if (!copies(ULLAGE_SPACE_HOST, ULLAGE_SPACE_DEVICE) || !copies(ULLAGE_SPACE_DEVICE, ULLAGE_SPACE_HOST))
    Throw(Code::kUnsupported, handle_->subject(), ": cannot copy from and to host memory");
}

const PluginDevice::SpaceInfo& PluginDevice::Of(Space space) const {
  const SpaceInfo& info = spaces_[static_cast<size_t>(space)];
  return space == Space::kWeights && !info.there ? spaces_[static_cast<size_t>(Space::kDevice)] : info;
}

int64_t PluginDevice::max_region(Space space) const {
  const SpaceInfo& info = Of(space);
  return info.there ? info.largest : 0;
}

std::unique_ptr<providers::Region> PluginDevice::Reserve(Space space, int64_t bytes) {
  if (bytes <= 0) return std::make_unique<EmptyRegion>();
  const SpaceInfo& info = Of(space);
  if (!info.there) Throw(Code::kUnsupported, handle_->subject(), ": has no memory of that kind");
  if (bytes > info.largest)
    Throw(Code::kDoesNotFit, handle_->subject(), ": ", bytes, " bytes in one piece, the most are ",
          info.largest);
  const auto kind = spaces_[static_cast<size_t>(space)].there ? KindOf(space) : ULLAGE_SPACE_DEVICE;
  return std::make_unique<PluginRegion>(handle_, kind, bytes, std::max(alignment_, info.alignment));
}

providers::MemoryInfo PluginDevice::memory() const {
  auto info = Empty<ullage_memory_info>();
  const auto& api = handle_->api();
  if (!api.memory) return {info_.capacity_bytes, info_.capacity_bytes, 0};
  Check(api.memory(handle_->get(), &info), handle_->subject());
  return {Bytes(info.free_bytes), Bytes(info.total_bytes), Bytes(info.reserve_bytes)};
}

std::unique_ptr<providers::Stream> PluginDevice::CreateStream() {
  return std::make_unique<PluginStream>(handle_);
}

std::unique_ptr<providers::Event> PluginDevice::CreateEvent() {
  return std::make_unique<PluginEvent>(handle_);
}

bool PluginDevice::CopiesFrom(const providers::OpenDevice& other) const {
  const auto* source = dynamic_cast<const PluginDevice*>(&other);
  if (!source || &source->handle_->instance() != &handle_->instance()) return false;
  const auto& api = handle_->api();
  return api.can_copy_between && api.can_copy_between(source->handle_->get(), handle_->get()) != 0;
}

void PluginDevice::Run(std::span<const providers::Copy> copies, providers::Stream* stream) {
  ullage_stream* queue = stream ? static_cast<PluginStream*>(stream)->handle() : nullptr;
  std::array<ullage_copy, 16> batch;
  size_t n = 0;
  const auto send = [&] {
    if (n > 0) Check(handle_->api().copy(handle_->get(), batch.data(), n, queue), handle_->subject());
    n = 0;
  };
  for (const auto& copy : copies) {
    if (copy.bytes <= 0) continue;
    ullage_copy& c = batch[n];
    c.size = sizeof(c);
    auto from = handle_->Find(copy.source, copy.bytes, &c.source);
    if (from == ULLAGE_SPACE_HOST && handle_->api().can_copy_between)
      from = handle_->instance().FindElsewhere(*handle_, copy.source, copy.bytes, &c.source);
    const auto to = handle_->Find(copy.target, copy.bytes, &c.target);
    if (from == ULLAGE_SPACE_HOST && to == ULLAGE_SPACE_HOST)
      Throw(Code::kRuntime, handle_->subject(), ": asked for a copy within host memory");
    if (++n == batch.size()) send();
  }
  send();
}

void PluginDevice::BeginRun() {
  if (handle_->api().run_begin) handle_->api().run_begin(handle_->get());
}

void PluginDevice::EndRun() {
  if (handle_->api().run_end) handle_->api().run_end(handle_->get());
}

}  // namespace ullage::plugin_host
