/// Which kernels a provider has, and how one is found for a node.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel.h"

namespace ullage::kernels {

/// A set of element types.
class TypeSet {
 public:
  constexpr TypeSet() = default;
  constexpr TypeSet(std::initializer_list<DType> types) {
    for (DType t : types) bits_ |= 1ull << static_cast<int>(t);
  }
  /// Bit t: element type t.
  static constexpr TypeSet FromBits(uint64_t bits) {
    TypeSet set;
    set.bits_ = bits;
    return set;
  }
  constexpr bool contains(DType t) const { return bits_ >> static_cast<int>(t) & 1; }
  constexpr TypeSet operator|(TypeSet o) const {
    TypeSet r;
    r.bits_ = bits_ | o.bits_;
    return r;
  }

 private:
  uint64_t bits_ = 0;
};

inline constexpr TypeSet kFloat32 = {DType::kFloat};
inline constexpr TypeSet kFloats = {DType::kFloat, DType::kFloat16, DType::kBFloat16};
inline constexpr TypeSet kAllFloats = {DType::kFloat, DType::kFloat16, DType::kBFloat16, DType::kDouble};
inline constexpr TypeSet kInts = {DType::kInt8,  DType::kUInt8,  DType::kInt16, DType::kUInt16,
                                  DType::kInt32, DType::kUInt32, DType::kInt64, DType::kUInt64};
inline constexpr TypeSet kNumbers = kAllFloats | kInts;
inline constexpr TypeSet kNumbersAndBool = kNumbers | TypeSet{DType::kBool};

/// Result of a level-1 estimate of a node's workspace, made before any kernel exists.
struct WorkspaceEstimate {
  enum class Status { kExact, kBound, kUnavailable };
  Status status = Status::kUnavailable;
  size_t workspace_bytes = 0;
  size_t prepack_bytes = 0;
};

struct KernelDef {
  std::string_view domain;
  std::string_view op;
  int since = 1;          ///< first opset of the domain that this kernel implements
  int until = INT32_MAX;  ///< last one
  /// Types allowed per input; inputs beyond the list, and those left out, are not checked.
  std::vector<TypeSet> types;
  std::function<std::unique_ptr<Kernel>(const KernelInfo&)> create;
  /// May be null: unavailable. Shares its formula with Kernel::DeclareWorkspaceRequirements.
  std::function<WorkspaceEstimate(const KernelInfo&)> estimate;
  /// Bit i: input i may be a cache view with capacity (TensorView::capacity), and output o listed in
  /// `cache_outputs` then is the same memory, appended in place.
  uint32_t cache_inputs = 0;
  /// (input, output) pairs: past -> present.
  std::vector<std::pair<int, int>> cache_pairs;
  /// Finer test than types; null: none. Returns the reason for a refusal, or nothing.
  std::function<std::optional<std::string>(const KernelInfo&)> refuse;
  /// Of a device's kernel, bit i: input (output) i lies in host memory. Inputs whose contents decide shapes
  /// lie there for every kernel (ops::OpInfo::reads_values).
  uint32_t host_inputs = 0;
  uint32_t host_outputs = 0;
};

/// The kernels of one provider. Filled once at start-up; then immutable and thread-safe.
class Registry {
 public:
  void Add(KernelDef def);
  /// The first definition that fits the node; null with the reason ("no kernel", "type float64 of input 1")
  /// otherwise.
  const KernelDef* Find(const KernelInfo& info, std::string* reason) const;
  const std::vector<KernelDef>& all() const { return defs_; }

 private:
  std::vector<KernelDef> defs_;
};

}  // namespace ullage::kernels
