/// Errors on their way through the device ABI, in both directions.
#pragma once

#include <string>

#include "core/error.h"
#include "ullage/plugin/abi.h"

namespace ullage::plugin_host {

/// Text that a plugin gave, for messages: cut at `most` bytes, without control characters. Null is "".
std::string PluginText(const char* text, size_t most = 500);

ullage_status* MakeStatus(ullage_code code, const char* message) noexcept;
void ReleaseStatus(ullage_status* status) noexcept;
/// The exception that is being handled. An ullage::Error comes back from Check() as it is.
ullage_status* CaughtStatus() noexcept;

/// A body of a host function: runs `fn`, turns what it throws into a status.
template <class Fn>
ullage_status* Guard(const Fn& fn) noexcept {
  try {
    fn();
    return nullptr;
  } catch (...) {
    return CaughtStatus();
  }
}

/// Throws what a plugin reports, `subject` ("device opencl:0") in front unless the host itself had reported
/// it, and releases the status. Of a status that the host has not made only that is said.
void Check(ullage_status* status, const std::string& subject);

/// Warns on stderr.
void Warn(const std::string& message);

}  // namespace ullage::plugin_host
