/// How much of each device a session may use, as its options say.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "placement/designator.h"

namespace ullage::placement {

/// The budget that somebody set for one device.
struct BudgetSetting {
  Designator device;
  /// Bytes; nothing: what the device has free when the session is made, less the reserve.
  std::optional<int64_t> limit_bytes;
  /// Path of a node statistics file, as written; empty: none.
  std::string stats_file;
};

/// `session.resource_cuda_partitioning_settings`: `LIMIT,FILE`, exactly two fields, either may be empty. The
/// limit is in KiB. Empty text: no setting. Throws kUsage naming option and fault.
std::optional<BudgetSetting> ParseCudaSetting(std::string_view text);

/// `session.resource_partitioning_settings`: `DEVICE:SIZE[,FILE]; DEVICE:auto; …`. SIZE as in "6GiB"; `auto`
/// or nothing: what is free. Throws kUsage naming option, position (from 0) and fault.
std::vector<BudgetSetting> ParseBudgetSettings(std::string_view text);

/// The path of a statistics file: absolute ones as they are, others relative to the model's folder (empty:
/// the current one).
std::string StatsPath(const std::string& file, const std::string& model_folder);

/// Bytes to plan with when a device's free memory is the limit: `free` less `reserve`, at most `percent` of
/// it; never below 0.
int64_t BudgetOfFree(int64_t free, int64_t reserve, int64_t percent);

/// One budget per device, by index; nothing where no setting names the device.
struct DeviceBudget {
  std::optional<int64_t> limit_bytes;
  bool detected = false;  ///< from free memory
  bool by_sums = false;   ///< a limit on what nodes add up to, as measured or estimated one by one
  std::string stats_file;
};

/// Resolves settings to devices; of two for one device the smaller limit holds. Throws kUnsupported for a
/// device that is not there, except for the CUDA setting, which means nothing without a CUDA device.
std::vector<DeviceBudget> ResolveBudgets(const std::optional<BudgetSetting>& cuda,
                                         const std::vector<BudgetSetting>& settings,
                                         std::span<const providers::DeviceInfo> devices, int64_t reserve,
                                         int64_t percent);

}  // namespace ullage::placement
