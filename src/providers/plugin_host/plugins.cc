#include "providers/plugin_host/plugins.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

#include "core/error.h"
#include "providers/plugin_host/host_api.h"
#include "providers/plugin_host/plugin_provider.h"
#include "providers/plugin_host/status.h"
#include "providers/plugin_host/structs.h"

namespace ullage::plugin_host {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "libullage_plugin_", kSuffix = ".so";

/// Options by which a user names devices.
constexpr std::string_view kNaming[] = {
    "session.devices",
    "session.layer_assignment_settings",
    "session.name_based_layer_assignment",
    "session.resource_partitioning_settings",
};

// `opencl:0`, `gpu` in these options' texts are words of such characters.
bool InName(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
}

/// The name stands somewhere as a word: more than needed is found, nothing is missed.
bool Named(const OptionBag& options, std::string_view name) {
  for (const std::string_view key : kNaming) {
    const std::string text = options.Str(key);
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
      const size_t end = at + name.size();
      if ((at == 0 || !InName(text[at - 1])) && (end == text.size() || !InName(text[end]))) return true;
    }
  }
  return false;
}

std::string StemOf(const std::string& file) {
  std::string stem = fs::path(file).filename().string();
  if (stem.starts_with(kPrefix)) stem.erase(0, kPrefix.size());
  if (stem.ends_with(kSuffix)) stem.resize(stem.size() - kSuffix.size());
  return stem;
}

/// A shared library of which a part is missing would end the process when it is mapped.
void RequireWhole(const std::string& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) Throw(Code::kUnsupported, file, " cannot be read");
  const auto size = static_cast<uint64_t>(in.tellg());
  const auto read = [&](uint64_t offset, void* to, size_t bytes) {
    if (bytes > size || offset > size - bytes) return false;
    in.seekg(static_cast<std::streamoff>(offset));
    return static_cast<bool>(in.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes)));
  };
  ElfW(Ehdr) header;
  if (!read(0, &header, sizeof(header)) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_phentsize != sizeof(ElfW(Phdr)))
    Throw(Code::kUnsupported, file, " is no shared library");
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) part;
    if (!read(header.e_phoff + uint64_t{i} * sizeof(part), &part, sizeof(part)) || part.p_filesz > size ||
        part.p_offset > size - part.p_filesz)
      Throw(Code::kUnsupported, file, " is incomplete: it ends after ", size, " bytes");
  }
}

std::vector<std::string> FilesAt(const std::string& place) {
  std::error_code error;
  if (!fs::is_directory(place, error)) return {place};
  std::vector<std::string> files;
  for (fs::directory_iterator it(place, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with(kPrefix) && name.ends_with(kSuffix)) files.push_back(it->path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> PlacesOfProcess() {
  std::vector<std::string> places;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    const fs::path beside = program.parent_path().parent_path() / "lib";
    if (fs::is_directory(beside, error)) places.push_back(beside.string());
  }
  const char* more = std::getenv("ULLAGE_PLUGIN_PATH");
  for (std::string_view rest = more ? more : ""; !rest.empty();) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    if (colon > 0) places.emplace_back(rest.substr(0, colon));
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return places;
}

OptionType TypeOf(ullage_option_type type) {
  switch (type) {
    case ULLAGE_OPTION_BOOL:
      return OptionType::kBool;
    case ULLAGE_OPTION_INT:
      return OptionType::kInt;
    case ULLAGE_OPTION_SIZE:
      return OptionType::kSize;
    default:
      return OptionType::kString;
  }
}

void RegisterOptions(const std::string& provider, const ullage_provider_api& api) {
  if (api.option_count > 1000 || (api.option_count > 0 && !api.options))
    Throw(Code::kUnsupported, "provider ", provider, " states ", api.option_count, " options");
  const std::string prefix = "ep." + provider + ".";
  for (size_t i = 0; i < api.option_count; ++i) {
    const auto from = Known(ULLAGE_AT(const ullage_option_info, api.options, i), "ullage_option_info");
    const std::string key = PluginText(from.key);
    if (!key.starts_with(prefix))
      Throw(Code::kUnsupported, "option \"", key, "\" of provider ", provider, " does not begin with ",
            prefix);
    const std::string value = PluginText(from.default_value, 4000), doc = PluginText(from.doc, 4000);
    RegisterOption({key, TypeOf(from.type), value, doc});
  }
}

// Unknown keys may be those of plugins.
const bool kOffersOptions = (SetOptionSource([] { Plugins::OfProcess(); }), true);

}  // namespace

Plugins::Plugins(const std::vector<std::string>& places) {
  std::set<std::string> seen;
  for (const auto& place : places)
    for (const auto& file : FilesAt(place)) {
      std::error_code error;
      const fs::path real = fs::canonical(file, error);
      if (!seen.insert(error ? file : real.string()).second) continue;
      try {
        Load(error ? file : real.string());
      } catch (const std::exception& e) {
        failures_.push_back({StemOf(file), file, e.what()});
      }
    }
  std::stable_sort(providers_.begin(), providers_.end(),
                   [](const auto& a, const auto& b) { return a.name < b.name; });
}

const Plugins& Plugins::OfProcess() {
  static const Plugins& plugins = *new Plugins(PlacesOfProcess());
  return plugins;
}

void Plugins::Load(const std::string& file) {
  RequireWhole(file);
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) Throw(Code::kUnsupported, PluginText(dlerror()));
  const auto entry = reinterpret_cast<ullage_plugin_entry_fn>(dlsym(library, ULLAGE_PLUGIN_ENTRY));
  if (!entry) Throw(Code::kUnsupported, file, " has no ", ULLAGE_PLUGIN_ENTRY);
  const ullage_plugin_api* made = nullptr;
  Check(entry(&HostApi(), &made), file);
  const auto plugin = Known(made, "ullage_plugin_api");
  if (plugin.abi_version == 0 || plugin.provider_count > 64 ||
      (plugin.provider_count > 0 && !plugin.providers))
    Throw(Code::kUnsupported, file, ": states version ", plugin.abi_version, " and ", plugin.provider_count,
          " providers");
  for (uint32_t i = 0; i < plugin.provider_count; ++i) AddProvider(file, plugin.providers[i]);
}

void Plugins::AddProvider(const std::string& file, const ullage_provider_api* made) {
  const auto api = Known(made, "ullage_provider_api");
  const std::string name = PluginText(api.name, 64);
  const bool valid = !name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) &&
                     std::all_of(name.begin(), name.end(), [](char c) { return InName(c); });
  constexpr std::string_view kTaken[] = {"cpu", "gpu", "npu", "fpga", "accelerator"};
  if (!valid || std::find(std::begin(kTaken), std::end(kTaken), name) != std::end(kTaken))
    Throw(Code::kUnsupported, file, ": \"", name, "\" cannot be the name of a provider");
  if (!api.create || !api.release || !api.devices || !api.open_device || !api.close_device || !api.reserve ||
      !api.free || !api.copy || !api.register_kernels)
    Throw(Code::kUnsupported, file, ": provider ", name, " lacks functions that it must have");
  const bool queues = api.create_stream != nullptr, events = api.create_event != nullptr;
  if ((queues && (!api.release_stream || !api.finish)) ||
      (events && (!queues || !api.release_event || !api.record || !api.stream_wait || !api.host_wait)))
    Throw(Code::kUnsupported, file, ": provider ", name, " has streams or events by half");
  for (const auto& known : providers_)
    if (known.name == name)
      Throw(Code::kUnsupported, "provider ", name, " is there already, from ", known.file);
  RegisterOptions(name, api);
  providers_.push_back({name, file, api});
}

std::vector<std::shared_ptr<const providers::Provider>> Plugins::Create(const OptionBag& options) const {
  static std::atomic<bool> warned{false};
  const bool first = !warned.exchange(true);
  for (const auto& failure : failures_) {
    const std::string text = StrCat("plugin ", failure.file, " cannot be used: ", failure.reason);
    if (Named(options, failure.name)) throw Error(Code::kUnsupported, text);
    if (first) Warn(text);
  }
  std::vector<std::shared_ptr<const providers::Provider>> all;
  std::shared_ptr<const ullage_options> bag;
  for (const auto& plugin : providers_) {
    const bool named = Named(options, plugin.name);
    if (!named && plugin.api.probe && plugin.api.probe() == 0) continue;
    if (!bag) bag = std::make_shared<ullage_options>(options);
    try {
      all.push_back(std::make_shared<PluginProvider>(plugin, bag));
    } catch (const Error& error) {
      if (named) throw;
      if (first) Warn(error.message());
    }
  }
  return all;
}

std::vector<std::shared_ptr<const providers::Provider>> CreateProviders(const OptionBag& options) {
  struct Last {
    std::mutex mutex;
    bool made = false;
    std::map<std::string, std::string, std::less<>> values;
    std::vector<std::shared_ptr<const providers::Provider>> providers;
  };
  static Last& last = *new Last;
  const Plugins& plugins = Plugins::OfProcess();
  const std::lock_guard lock(last.mutex);
  if (!last.made || last.values != options.values()) {
    last.providers = plugins.Create(options);
    last.values = options.values();
    last.made = true;
  }
  return last.providers;
}

}  // namespace ullage::plugin_host
