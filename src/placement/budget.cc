#include "placement/budget.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "core/error.h"
#include "core/options.h"

namespace ullage::placement {
namespace {

constexpr std::string_view kCudaOption = "session.resource_cuda_partitioning_settings";
constexpr std::string_view kOption = "session.resource_partitioning_settings";

std::string_view Trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

}  // namespace

std::optional<BudgetSetting> ParseCudaSetting(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const auto fail = [&](const auto&... parts) {
    Throw(Code::kUsage, "option ", kCudaOption, " \"", text, "\": ", parts...);
  };
  if (std::count(text.begin(), text.end(), ',') != 1) fail("expected two fields, LIMIT_KB,STATS_FILE");
  const size_t comma = text.find(',');
  const std::string_view limit = Trim(text.substr(0, comma));
  BudgetSetting setting;
  setting.device = ParseDesignator("cuda");
  setting.stats_file = Trim(text.substr(comma + 1));
  if (!limit.empty()) {
    uint64_t kb = 0;
    const auto [end, error] = std::from_chars(limit.data(), limit.data() + limit.size(), kb);
    if (error == std::errc::result_out_of_range || kb > static_cast<uint64_t>(INT64_MAX) / 1024)
      fail("the limit of ", limit, " KiB is too large");
    if (error != std::errc() || end != limit.data() + limit.size())
      fail("expected a limit in KiB, found \"", limit, "\"");
    setting.limit_bytes = static_cast<int64_t>(kb * 1024);
  }
  return setting;
}

std::vector<BudgetSetting> ParseBudgetSettings(std::string_view text) {
  std::vector<BudgetSetting> all;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(';', at), text.size());
    const std::string_view entry = text.substr(at, end - at);
    const size_t position =
        at + (entry.find_first_not_of(" \t") == std::string_view::npos ? 0 : entry.find_first_not_of(" \t"));
    at = end + 1;
    const std::string_view trimmed = Trim(entry);
    if (trimmed.empty()) continue;
    const auto fail = [&, position = position](size_t offset, const auto&... parts) {
      throw Error(Code::kUsage,
                  StrCat("option ", kOption, ", position ", position + offset, ", entry \"", trimmed,
                         "\": ", parts...),
                  StrCat("{\"position\":", position + offset, "}"));
    };
    const size_t comma = std::min(trimmed.find(','), trimmed.size());
    const std::string_view head = trimmed.substr(0, comma);
    const size_t colon = head.rfind(':');
    if (colon == std::string_view::npos) fail(0, "expected DEVICE:SIZE");
    BudgetSetting setting;
    DesignatorFault fault;
    if (!ParseDesignator(head.substr(0, colon), &setting.device, &fault)) fail(fault.position, fault.message);
    const std::string_view size = Trim(head.substr(colon + 1));
    if (!size.empty() && size != "auto") {
      try {
        setting.limit_bytes = ParseSize(size);
      } catch (const Error& e) {
        fail(colon + 1, e.message());
      }
    }
    if (comma < trimmed.size()) setting.stats_file = Trim(trimmed.substr(comma + 1));
    if (setting.stats_file.find(',') != std::string::npos) fail(comma, "unexpected ',' in the file's name");
    all.push_back(std::move(setting));
  }
  return all;
}

std::string StatsPath(const std::string& file, const std::string& model_folder) {
  const std::filesystem::path path(file);
  if (file.empty() || path.is_absolute() || model_folder.empty()) return file;
  return (std::filesystem::path(model_folder) / path).string();
}

int64_t BudgetOfFree(int64_t free, int64_t reserve, int64_t percent) {
  const int64_t left = std::max<int64_t>(0, free - std::max<int64_t>(0, reserve));
  const int64_t p = std::clamp<int64_t>(percent, 0, 100);
  return left / 100 * p + left % 100 * p / 100;
}

std::vector<DeviceBudget> ResolveBudgets(const std::optional<BudgetSetting>& cuda,
                                         const std::vector<BudgetSetting>& settings,
                                         std::span<const providers::DeviceInfo> devices, int64_t reserve,
                                         int64_t percent) {
  std::vector<DeviceBudget> budgets(devices.size());
  const auto apply = [&](size_t device, const BudgetSetting& setting) {
    DeviceBudget& b = budgets[device];
    const int64_t limit = setting.limit_bytes ? *setting.limit_bytes
                                              : BudgetOfFree(devices[device].free_bytes, reserve, percent);
    if (!b.limit_bytes || limit < *b.limit_bytes) {
      b.limit_bytes = limit;
      b.detected = !setting.limit_bytes;
    }
    if (!setting.stats_file.empty()) b.stats_file = setting.stats_file;
    b.by_sums = b.by_sums || !setting.stats_file.empty();
  };
  if (cuda)
    if (const auto device = FindDevice(cuda->device, devices)) {
      apply(*device, *cuda);
      budgets[*device].by_sums = true;
    }
  for (const auto& setting : settings) apply(RequireDevice(setting.device, devices), setting);
  return budgets;
}

}  // namespace ullage::placement
