/// Plugins: shared libraries `libullage_plugin_*.so` with providers for devices.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/options.h"
#include "providers/provider.h"
#include "ullage/plugin/abi.h"

namespace ullage::plugin_host {

/// A provider that a plugin has; instances of it are made for a session's options.
struct ProviderPlugin {
  std::string name;
  std::string file;
  ullage_provider_api api;  ///< as far as both sides know it
};

/// A file that is no plugin which this host can work with.
struct FailedPlugin {
  std::string name;  ///< "opencl" of libullage_plugin_opencl.so
  std::string file;
  std::string reason;
};

/// Plugins that were loaded; they stay so until the process ends. Immutable, thread-safe.
class Plugins {
 public:
  /// Looks into places: folders, files. Adds the plugins' options to the registry.
  explicit Plugins(const std::vector<std::string>& places);
  /// Those beside the program (`../lib`) and of $ULLAGE_PLUGIN_PATH (colon separated); loaded when first
  /// asked for.
  static const Plugins& OfProcess();

  /// By name; of several of one name the first one found.
  const std::vector<ProviderPlugin>& providers() const { return providers_; }
  const std::vector<FailedPlugin>& failures() const { return failures_; }

  /// An instance for each provider that might take part with these options: it says that there are devices,
  /// or is named. In the order of names. A plugin that failed is a warning, once; kUnsupported when it is
  /// named.
  std::vector<std::shared_ptr<const providers::Provider>> Create(const OptionBag& options) const;

 private:
  void Load(const std::string& file);
  void AddProvider(const std::string& file, const ullage_provider_api* api);

  std::vector<ProviderPlugin> providers_;
  std::vector<FailedPlugin> failures_;
};

/// Plugins::OfProcess().Create(). Instances of the last options asked for are kept, so that asking again
/// costs nothing.
std::vector<std::shared_ptr<const providers::Provider>> CreateProviders(const OptionBag& options);

}  // namespace ullage::plugin_host
