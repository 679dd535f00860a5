#include "reference/device.h"

#include <sys/mman.h>

#include <chrono>
#include <cstring>

#include "sdk/shared_source.h"

namespace ullage::reference {

using plugin::Failure;

namespace {

constexpr uint64_t kPage = 4096;

uint64_t Rounded(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::byte* Map(uint64_t bytes, int protection) {
  void* at = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    throw Failure(ULLAGE_OUT_OF_MEMORY,
                  "the system has no " + std::to_string(bytes) + " bytes for the device");
  return static_cast<std::byte*>(at);
}

}  // namespace

void Faults::Call(const char* what) {
  const int64_t n = ++calls_;
  if (n == fail_at_)
    throw Failure(ULLAGE_FAILED,
                  std::string(what) + " fails, as ep.reference.fail_at=" + std::to_string(n) + " asks");
}

Buffer::Buffer(Device& device, ullage_space_kind space, uint64_t bytes)
    : device_(device), size_(Rounded(bytes)), counted_(space != ULLAGE_SPACE_PINNED) {
  if (counted_) device_.Take(size_);
  try {
    bytes_ = Map(size_, PROT_READ | PROT_WRITE);
    address_ = counted_ ? Map(size_, PROT_NONE) : bytes_;
  } catch (...) {
    if (bytes_) munmap(bytes_, size_);
    if (counted_) device_.GiveBack(size_);
    throw;
  }
}

Buffer::~Buffer() {
  if (address_ != bytes_) munmap(address_, size_);
  munmap(bytes_, size_);
  if (counted_) device_.GiveBack(size_);
}

std::byte* Bytes(const ullage_region& region) {
  return region.buffer ? reinterpret_cast<const Buffer*>(region.buffer)->bytes() + region.offset
                       : static_cast<std::byte*>(region.pointer);
}

std::vector<ullage_space_info> Device::spaces() const {
  std::vector<ullage_space_info> all;
  for (auto kind : {ULLAGE_SPACE_DEVICE, ULLAGE_SPACE_WEIGHTS, ULLAGE_SPACE_PINNED}) {
    auto& info = all.emplace_back(plugin::Sized<ullage_space_info>());
    info.kind = kind;
    info.host_accessible = kind == ULLAGE_SPACE_PINNED;
    info.alignment = kAlignment;
  }
  return all;
}

std::unique_ptr<Buffer> Device::Reserve(ullage_space_kind space, uint64_t bytes, uint32_t alignment) {
  faults().Call("reserve");
  if (alignment > kPage) throw Failure(ULLAGE_UNSUPPORTED, "buffers are aligned to pages at most");
  return std::make_unique<Buffer>(*this, space, bytes);
}

ullage_memory_info Device::memory() const {
  auto info = plugin::Sized<ullage_memory_info>();
  const std::lock_guard lock(mutex_);
  info.total_bytes = settings_.capacity;
  info.free_bytes = settings_.capacity - used_;
  return info;
}

void Device::Take(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const uint64_t left = settings_.capacity - used_;
  if (bytes > left)
    throw Failure(ULLAGE_OUT_OF_MEMORY, std::to_string(bytes) + " bytes wanted, " + std::to_string(left) +
                                            " of " + std::to_string(settings_.capacity) + " are left");
  used_ += bytes;
}

void Device::GiveBack(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  used_ -= bytes;
}

void Device::Transfer(std::byte* target, const std::byte* source, uint64_t bytes) const {
  std::memmove(target, source, bytes);
  Link(bytes);
}

void Device::Link(uint64_t bytes) const {
  if (settings_.bandwidth > 0)
    std::this_thread::sleep_for(
        std::chrono::duration<double>(static_cast<double>(bytes) / static_cast<double>(settings_.bandwidth)));
}

void Device::Copy(const ullage_copy* copies, size_t count, Stream* stream) {
  faults().Call("copy");
  if (stream) return stream->Copy(copies, count);
  for (size_t i = 0; i < count; ++i) {
    const ullage_copy* copy = ULLAGE_AT(const ullage_copy, copies, i);
    Transfer(Bytes(copy->target), Bytes(copy->source), copy->source.bytes);
  }
}

std::unique_ptr<Stream> Device::CreateStream() {
  faults().Call("create_stream");
  return std::make_unique<Stream>(*this);
}

std::unique_ptr<Event> Device::CreateEvent() {
  faults().Call("create_event");
  return std::make_unique<Event>(*this);
}

}  // namespace ullage::reference
