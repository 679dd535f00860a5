/// What one Run has of a device.
#pragma once

#include <memory>

#include "core/error.h"
#include "session/device_memory.h"

namespace ullage::session {

/// Memory for its values and the queues that its steps go into. Used by one Run at a time.
struct DeviceQueue {
  DeviceQueue(DeviceMemory& memory, const memory::TagBytes& bytes)
      : device(&memory.device()), arena(memory.Reserve(providers::Space::kDevice, bytes)) {
    compute = device->CreateStream();
    copy = device->CreateStream();
  }

  providers::OpenDevice* device;
  DeviceMemory::Block arena;
  std::unique_ptr<providers::Stream> compute, copy;

  providers::Stream& stream(int32_t number) { return number % 2 != 0 ? *compute : *copy; }
  /// Of both; throws what failed first, when neither is at work any more.
  void Finish() {
    try {
      compute->Finish();
    } catch (...) {
      try {
        copy->Finish();
      } catch (const Error&) {  // the first error counts
      }
      throw;
    }
    copy->Finish();
  }
};

}  // namespace ullage::session
