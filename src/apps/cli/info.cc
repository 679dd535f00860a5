/// ullage options, devices, version, pack.
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/cli/common.h"
#include "core/cpu_features.h"
#include "core/error.h"
#include "core/thread_team.h"
#include "memory/minimalloc_csv.h"
#include "placement/place.h"

namespace ullage::cli {

using Json = nlohmann::ordered_json;

namespace {
const char* TypeName(OptionType type) {
  switch (type) {
    case OptionType::kBool:
      return "bool";
    case OptionType::kInt:
      return "int";
    case OptionType::kSize:
      return "size";
    case OptionType::kString:
      return "string";
  }
  return "";
}
}  // namespace

int OptionsCommand(const std::vector<std::string>& arguments) {
  const Args args(arguments, {}, {"--json"});
  Json list = Json::array();
  for (const auto& o : AllOptions()) {
    if (args.Has("--json"))
      list.push_back(
          {{"key", o.key}, {"type", TypeName(o.type)}, {"default", o.default_value}, {"doc", o.doc}});
    else
      std::cout << o.key << " (" << TypeName(o.type) << ", default \"" << o.default_value << "\")\n    "
                << o.doc << "\n";
  }
  if (args.Has("--json")) std::cout << Line({{"options", list}}) << "\n";
  return 0;
}

int DevicesCommand(const std::vector<std::string>& arguments) {
  const Args args(arguments, {"--device"}, {"--json"});
  Json list = Json::array();
  OptionBag options;
  if (const auto named = args.Value("--device")) options.Set("session.devices", *named);
  for (const auto& device : placement::ReadDevices(options, providers::AllProviders(options))) {
    const auto& d = device.info;
    if (args.Has("--json"))
      list.push_back(
          {{"name", d.name},
           {"provider", d.provider},
           {"type", providers::DeviceTypeName(d.type)},
           {"vendor", d.vendor},
           {"capacity_bytes", d.capacity_bytes},
           {"free_bytes", d.free_bytes},
           {"copy_bandwidth_bytes_per_s", d.copy_bandwidth > 0 ? Json(d.copy_bandwidth) : Json(nullptr)},
           {"threads", UsableCores()}});
    else
      std::cout << d.name << "  " << FormatSize(d.capacity_bytes) << ", " << FormatSize(d.free_bytes)
                << " free, " << UsableCores() << " cores\n";
  }
  if (args.Has("--json")) std::cout << Line({{"devices", list}}) << "\n";
  return 0;
}

int VersionCommand(const std::vector<std::string>& arguments) {
  const Args args(arguments, {}, {"--json"});
  if (args.Has("--json"))
    std::cout << Line({{"version", ULLAGE_VERSION}}) << "\n";
  else
    std::cout << "ullage " << ULLAGE_VERSION << "\n";
  return 0;
}

int PackCommand(const std::vector<std::string>& arguments) {
  const Args args(arguments, {"--time-limit", "--capacity"}, {"--json"});
  if (args.positional().size() != 1) throw Error(Code::kUsage, "pack needs one FILE.csv");
  std::optional<int64_t> capacity;
  if (const auto text = args.Value("--capacity")) capacity = ParseSize(*text);
  std::cout
      << memory::PackCsv(ReadFile(args.positional()[0]), args.Number("--time-limit", 10), capacity).ToJson()
      << "\n";
  return 0;
}

}  // namespace ullage::cli
