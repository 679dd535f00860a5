/// The table of functions that plugins call.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "providers/plugin_host/views.h"
#include "providers/provider.h"
#include "ullage/plugin/abi.h"

namespace ullage::plugin_host {

/// Lives as long as the process. Its functions may be called from any thread and throw nothing.
const ullage_host_api& HostApi();

}  // namespace ullage::plugin_host

/// Where a plugin's registrations go.
struct ullage_registry {
  std::function<void(const ullage_kernel_entry&)> add;
};

/// Where a plugin's proposals go.
struct ullage_sink {
  size_t nodes = 0;  ///< that were offered
  std::optional<int64_t> budget;
  ullage::providers::Proposals proposals;
};
