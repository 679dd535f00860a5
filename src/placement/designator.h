/// How a rule or a limit names a device, and which device that is.
///
///     cpu | gpu | npu | fpga | accelerator     a kind of device
///     gpu:1                                    the second GPU that programs may use (never a PCI id)
///     gpu:nvidia                               the first GPU of that vendor
///     opencl, opencl:0                         a provider by name, its first device or the one with that
///     number
///
/// Kinds are written in any case; provider names are compared exactly. A specifier that could not choose
/// anything (`npu:intel`, `gpu:`) is refused rather than ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "providers/provider.h"

namespace ullage::placement {

struct Designator {
  enum class Kind { kCpu, kGpu, kNpu, kFpga, kAccelerator, kProvider };
  std::string text;  ///< as written
  Kind kind = Kind::kProvider;
  std::string provider;  ///< kProvider: its name
  std::optional<int> ordinal;
  std::string vendor;  ///< lower case; empty: any
};

/// What ParseDesignator found wrong, and where in the text (from 0).
struct DesignatorFault {
  size_t position = 0;
  std::string message;
};

/// False, with `fault` set, when the text names no device.
bool ParseDesignator(std::string_view text, Designator* designator, DesignatorFault* fault);
/// The same; throws kUsage quoting the text.
Designator ParseDesignator(std::string_view text);

/// The device meant does not depend on which others exist.
bool Matches(const Designator& designator, const providers::DeviceInfo& device);

/// Index of the first device in preference order that matches. `cpu` prefers the host's own provider to other
/// providers of CPU devices. A designator without a number means the first of several devices.
std::optional<size_t> FindDevice(const Designator& designator,
                                 std::span<const providers::DeviceInfo> devices);
/// The same; throws kUnsupported naming the devices that there are.
size_t RequireDevice(const Designator& designator, std::span<const providers::DeviceInfo> devices);

}  // namespace ullage::placement
