/// The first device of a plugin, for tests of single nodes on it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "providers/cpu/kernels/node_runner.h"
#include "providers/plugin_host/plugins.h"

namespace ullage::cpu {

class PluginDevice {
 public:
  /// Opened; null where the plugin finds none. `library`: the plugin's file. Throws where it cannot be
  /// loaded.
  static std::unique_ptr<PluginDevice> Open(const std::string& library, const std::string& name) {
    auto d = std::make_unique<PluginDevice>();
    d->plugins_ = std::make_unique<plugin_host::Plugins>(std::vector<std::string>{library});
    OptionBag options;
    options.Set("session.devices", name);
    for (auto& provider : d->plugins_->Create(options)) {
      if (provider->name() != name || provider->devices().empty()) continue;
      d->provider_ = provider;
      d->device_ = provider->Open(provider->devices()[0]);
      d->queue_ = d->device_->CreateStream();
      return d;
    }
    return nullptr;
  }

  /// The node's results; expects that all memory was planned, and that no more of it was written.
  std::vector<TestTensor> Run(NodeRunner& run) {
    auto results = run.On(*provider_, *device_, *queue_).Run();
    EXPECT_EQ(run.scratch_calls(), 0);
    EXPECT_FALSE(run.overrun());
    return results;
  }

 private:
  std::unique_ptr<plugin_host::Plugins> plugins_;
  std::shared_ptr<const providers::Provider> provider_;
  std::unique_ptr<providers::OpenDevice> device_;
  std::unique_ptr<providers::Stream> queue_;
};

}  // namespace ullage::cpu
