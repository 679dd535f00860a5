#include "placement/designator.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/error.h"

namespace ullage::placement {
namespace {

using providers::DeviceInfo;
using providers::DeviceType;

std::string Lower(std::string_view s) {
  std::string out(s);
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return out;
}

std::string_view Trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

/// PCI vendor ids of the vendors that have a name in rules.
struct Vendor {
  std::string_view name;
  uint32_t id;
};
constexpr std::array kVendors = {Vendor{"nvidia", 0x10DE}, Vendor{"amd", 0x1002}, Vendor{"intel", 0x8086}};

/// Names that ONNX Runtime's users write for providers.
struct Alias {
  std::string_view alias, name;
};
constexpr std::array kAliases = {Alias{"CPUExecutionProvider", "cpu"}, Alias{"CUDAExecutionProvider", "cuda"},
                                 Alias{"DmlExecutionProvider", "dml"}};

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool IsCuda(std::string_view provider) {
  return IsOneOf(provider, {"cuda", "CUDAExecutionProvider"});
}

bool IsGpu(const DeviceInfo& d) {
  return d.type == DeviceType::kGpu || IsCuda(d.provider) ||
         IsOneOf(d.provider, {"dml", "DmlExecutionProvider"});
}

bool IsHost(const DeviceInfo& d) {
  return IsOneOf(d.provider, {"cpu", "CPUExecutionProvider"});
}

bool HasVendor(const DeviceInfo& d, std::string_view vendor) {
  if (Lower(d.vendor) == vendor) return true;
  for (const Vendor& v : kVendors)
    if (v.name == vendor && d.vendor_id == v.id) return true;
  return vendor == "nvidia" && d.vendor.empty() && d.vendor_id == 0 && IsCuda(d.provider);
}

}  // namespace

bool ParseDesignator(std::string_view raw, Designator* designator, DesignatorFault* fault) {
  const std::string_view text = Trim(raw);
  const auto fail = [&](size_t position, std::string message) {
    *fault = {position, std::move(message)};
    return false;
  };
  const auto at = [&](std::string_view part) { return static_cast<size_t>(part.data() - raw.data()); };
  if (text.empty()) return fail(0, "no device is named");
  Designator d;
  d.text = text;
  const size_t colon = text.find(':');
  const std::string_view head = Trim(text.substr(0, colon));
  const std::string word = Lower(head);
  if (word == "cpu") {
    d.kind = Designator::Kind::kCpu;
  } else if (word == "gpu") {
    d.kind = Designator::Kind::kGpu;
  } else if (word == "npu") {
    d.kind = Designator::Kind::kNpu;
  } else if (word == "fpga") {
    d.kind = Designator::Kind::kFpga;
  } else if (word == "accelerator") {
    d.kind = Designator::Kind::kAccelerator;
  } else {
    d.provider = head;
    for (const Alias& a : kAliases)
      if (a.alias == head) d.provider = a.name;
    if (head.empty()) return fail(at(text), "no device is named before ':'");
    const bool plain = std::all_of(head.begin(), head.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
             c == '-' || c == '.';
    });
    if (!plain) return fail(at(head), StrCat("\"", head, "\" is no name of a device"));
  }
  if (colon != std::string_view::npos) {
    const std::string_view specifier = Trim(text.substr(colon + 1));
    const size_t place = at(text) + colon + 1;
    if (specifier.empty()) return fail(place, StrCat("nothing follows \"", head, ":\""));
    int number = 0;
    const auto [end, error] = std::from_chars(specifier.data(), specifier.data() + specifier.size(), number);
    if (error == std::errc() && end == specifier.data() + specifier.size() && number >= 0) {
      d.ordinal = number;
    } else if (d.kind == Designator::Kind::kGpu && specifier[0] >= '0' && specifier[0] <= '9') {
      return fail(place, StrCat("\"", specifier, "\" is no number of a device"));
    } else if (d.kind == Designator::Kind::kGpu) {
      d.vendor = Lower(specifier);
    } else {
      return fail(place,
                  StrCat("a specifier of ", head, " is the number of a device, found \"", specifier, "\""));
    }
  }
  *designator = std::move(d);
  return true;
}

Designator ParseDesignator(std::string_view text) {
  Designator d;
  DesignatorFault fault;
  if (!ParseDesignator(text, &d, &fault))
    Throw(Code::kUsage, "device \"", text, "\", position ", fault.position, ": ", fault.message);
  return d;
}

bool Matches(const Designator& d, const DeviceInfo& device) {
  const auto ordinal = [&] { return !d.ordinal || (device.ordinal >= 0 && device.ordinal == *d.ordinal); };
  switch (d.kind) {
    case Designator::Kind::kCpu:
      return (IsHost(device) || device.type == DeviceType::kCpu) && ordinal();
    case Designator::Kind::kGpu:
      return IsGpu(device) && ordinal() && (d.vendor.empty() || HasVendor(device, d.vendor));
    case Designator::Kind::kNpu:
      return (device.type == DeviceType::kNpu ||
              IsOneOf(device.provider,
                      {"qnn", "QNNExecutionProvider", "vitisai", "VitisAIExecutionProvider"})) &&
             ordinal();
    case Designator::Kind::kFpga:
      return device.type == DeviceType::kFpga && ordinal();
    case Designator::Kind::kAccelerator:
      return !IsHost(device) && device.type != DeviceType::kCpu && ordinal();
    case Designator::Kind::kProvider:
      if (d.provider == device.provider || d.text == device.provider) return ordinal();
      return d.text == device.name;
  }
  return false;
}

std::optional<size_t> FindDevice(const Designator& d, std::span<const DeviceInfo> devices) {
  if (d.kind == Designator::Kind::kCpu)
    for (size_t i = 0; i < devices.size(); ++i)
      if (IsHost(devices[i]) && Matches(d, devices[i])) return i;
  // Numbers count within a provider: `gpu:1` over several providers is the second GPU in preference order.
  if (d.kind != Designator::Kind::kProvider && d.kind != Designator::Kind::kCpu && d.ordinal) {
    Designator any = d;
    any.ordinal.reset();
    std::vector<size_t> all;
    bool several = false;
    for (size_t i = 0; i < devices.size(); ++i) {
      if (!Matches(any, devices[i])) continue;
      several = several || (!all.empty() && devices[all.front()].provider != devices[i].provider);
      all.push_back(i);
    }
    if (several) {
      const auto n = static_cast<size_t>(*d.ordinal);
      return n < all.size() ? std::optional<size_t>(all[n]) : std::nullopt;
    }
  }
  for (size_t i = 0; i < devices.size(); ++i)
    if (Matches(d, devices[i])) return i;
  return std::nullopt;
}

size_t RequireDevice(const Designator& d, std::span<const DeviceInfo> devices) {
  if (const auto found = FindDevice(d, devices)) return *found;
  std::string names;
  for (const auto& device : devices) names += (names.empty() ? "" : ", ") + device.name;
  Throw(Code::kUnsupported, "there is no device ", d.text, "; ",
        names.empty() ? "none takes part" : "there is ", names);
}

}  // namespace ullage::placement
