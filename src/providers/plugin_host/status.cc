#include "providers/plugin_host/status.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <set>

struct ullage_status {
  ullage::Error error;
  bool of_host;
};

namespace ullage::plugin_host {
namespace {

/// Statuses alive, so that a pointer which is none is recognised. Never destroyed: plugins may outlive it.
struct Alive {
  std::mutex mutex;
  std::set<const ullage_status*> statuses;

  static Alive& Get() {
    static Alive& alive = *new Alive;
    return alive;
  }
};

ullage_status* Keep(Error error, bool of_host) noexcept {
  try {
    auto* status = new ullage_status{std::move(error), of_host};
    const std::lock_guard lock(Alive::Get().mutex);
    Alive::Get().statuses.insert(status);
    return status;
  } catch (...) {  // no memory for the message: the failure itself must not get lost
    static ullage_status& starved =
        *new ullage_status{Error(Code::kDoesNotFit, "the host has no memory left"), true};
    return &starved;
  }
}

Code CodeOf(ullage_code code) {
  switch (code) {
    case ULLAGE_INVALID_ARGUMENT:
      return Code::kUsage;
    case ULLAGE_OUT_OF_MEMORY:
      return Code::kDoesNotFit;
    case ULLAGE_UNSUPPORTED:
      return Code::kUnsupported;
    case ULLAGE_INTERRUPTED:
      return Code::kInterrupted;
    default:
      return Code::kRuntime;
  }
}

}  // namespace

std::string PluginText(const char* text, size_t most) {
  std::string out(text ? std::string_view(text, strnlen(text, most)) : std::string_view());
  for (char& c : out)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return out;
}

ullage_status* MakeStatus(ullage_code code, const char* message) noexcept {
  try {
    std::string text = PluginText(message, 4000);
    if (code == ULLAGE_DEVICE_LOST) text += " (the device is lost)";
    return Keep(Error(CodeOf(code), std::move(text)), false);
  } catch (...) {
    return CaughtStatus();
  }
}

void ReleaseStatus(ullage_status* status) noexcept {
  Alive& alive = Alive::Get();
  const std::lock_guard lock(alive.mutex);
  if (alive.statuses.erase(status)) delete status;
}

ullage_status* CaughtStatus() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return Keep(error, true);
  } catch (const std::bad_alloc&) {
    return Keep(Error(Code::kDoesNotFit, "the host has no memory left"), true);
  } catch (const std::exception& error) {
    return Keep(Error(Code::kRuntime, error.what()), true);
  } catch (...) {
    return Keep(Error(Code::kRuntime, "unknown failure"), true);
  }
}

void Check(ullage_status* status, const std::string& subject) {
  if (!status) return;
  Alive& alive = Alive::Get();
  {
    const std::lock_guard lock(alive.mutex);
    if (!alive.statuses.erase(status))
      Throw(Code::kRuntime, subject, ": failed with a status that is none of the host's");
  }
  const std::unique_ptr<ullage_status> owned(status);
  if (owned->of_host) throw owned->error;
  throw Error(owned->error.code(), subject + ": " + owned->error.message(), owned->error.details_json());
}

void Warn(const std::string& message) {
  std::fprintf(stderr, "ullage: warning: %s\n", message.c_str());
}

}  // namespace ullage::plugin_host
