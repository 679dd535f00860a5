/// A plugin's device behind the host's interface: regions with addresses, queues, copies.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "providers/device.h"
#include "ullage/plugin/abi.h"

namespace ullage::plugin_host {

class DeviceHandle;

/// A provider instance of a plugin, with the table of functions as far as both sides know it; released with
/// the last of whatever it made.
class Instance {
 public:
  /// Throws what the plugin reports.
  Instance(const ullage_provider_api& api, std::string name, const ullage_options* options);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const ullage_provider_api& api() const { return api_; }
  ullage_provider* handle() const { return handle_; }
  const std::string& name() const { return name_; }

  /// Its open devices. Thread-safe.
  void Opened(const DeviceHandle* device) const;
  void Closed(const DeviceHandle* device) const;
  /// DeviceHandle::Find() in another one than `asking`.
  ullage_space_kind FindElsewhere(const DeviceHandle& asking, const void* address, int64_t bytes,
                                  ullage_region* region) const;

 private:
  mutable std::mutex mutex_;
  mutable std::vector<const DeviceHandle*> open_;
  ullage_provider_api api_;
  std::string name_;
  ullage_provider* handle_ = nullptr;
};

/// An open device of a plugin: what its regions, queues and kernels hold on to. Thread-safe.
class DeviceHandle {
 public:
  DeviceHandle(std::shared_ptr<const Instance> instance, int ordinal, std::string name, uint32_t flags);
  ~DeviceHandle();
  DeviceHandle(const DeviceHandle&) = delete;
  DeviceHandle& operator=(const DeviceHandle&) = delete;

  const ullage_provider_api& api() const { return instance_->api(); }
  const Instance& instance() const { return *instance_; }
  ullage_device* get() const { return device_; }
  const std::string& subject() const { return subject_; }  ///< "device opencl:0"
  bool offsets() const { return flags_ & ULLAGE_DEVICE_BUFFER_OFFSETS; }
  bool concurrent() const { return flags_ & ULLAGE_DEVICE_CONCURRENT; }

  /// Where regions lie, by their addresses.
  void Add(std::byte* address, int64_t bytes, ullage_buffer* buffer, bool has_pointer,
           ullage_space_kind space);
  void Remove(std::byte* address);
  /// The region and the offset in it that an address means; `region` is host memory when it lies in none,
  /// with `space` HOST. Throws kRuntime when the bytes reach beyond the region. Allocates nothing.
  ullage_space_kind Find(const void* address, int64_t bytes, ullage_region* region) const;

 private:
  struct Record {
    int64_t bytes;
    ullage_buffer* buffer;
    bool has_pointer;
    ullage_space_kind space;
  };
  std::shared_ptr<const Instance> instance_;
  std::string subject_;
  uint32_t flags_;
  ullage_device* device_ = nullptr;
  mutable std::shared_mutex mutex_;
  std::map<const std::byte*, Record, std::less<>> regions_;
};

class PluginStream final : public providers::Stream {
 public:
  explicit PluginStream(std::shared_ptr<DeviceHandle> device);
  ~PluginStream() override;
  void Flush() override;
  void Finish() override;
  void Wait(const providers::Event& event) override;
  /// Null where the device has no queues: everything is done on return.
  ullage_stream* handle() const { return handle_; }

 private:
  std::shared_ptr<DeviceHandle> device_;
  ullage_stream* handle_ = nullptr;
};

class PluginDevice final : public providers::OpenDevice {
 public:
  PluginDevice(providers::DeviceInfo info, std::shared_ptr<DeviceHandle> handle, int64_t alignment);

  const providers::DeviceInfo& info() const override { return info_; }
  int64_t alignment() const override { return alignment_; }
  int64_t max_region(providers::Space space) const override;
  std::unique_ptr<providers::Region> Reserve(providers::Space space, int64_t bytes) override;
  providers::MemoryInfo memory() const override;
  std::unique_ptr<providers::Stream> CreateStream() override;
  std::unique_ptr<providers::Event> CreateEvent() override;
  bool CopiesFrom(const providers::OpenDevice& other) const override;
  void Run(std::span<const providers::Copy> copies, providers::Stream* stream) override;
  void BeginRun() override;
  void EndRun() override;

  const std::shared_ptr<DeviceHandle>& handle() const { return handle_; }

 private:
  struct SpaceInfo {
    bool there = false;
    int64_t largest = INT64_MAX;
    int64_t alignment = 1;
  };
  const SpaceInfo& Of(providers::Space space) const;

  providers::DeviceInfo info_;
  std::shared_ptr<DeviceHandle> handle_;
  int64_t alignment_;
  SpaceInfo spaces_[4];
};

}  // namespace ullage::plugin_host
