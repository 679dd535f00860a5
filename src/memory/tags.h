/// What a byte is for. Every byte that is planned or allocated carries one tag, so that the parts of a
/// reservation add up to the whole and a report can say who takes how much.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ullage::memory {

enum class Tag : uint8_t {
  kWeights,      ///< initializers, as the model stores them
  kPrepacked,    ///< weights in the layout a kernel wants
  kKv,           ///< key/value caches and other state that outlives a Run
  kActivations,  ///< values between nodes
  kWorkspace,    ///< scratch of one kernel
  kStaging,      ///< copies in flight between devices, slots of streamed weights
  kOverhead,     ///< what the device's own libraries take
};

inline constexpr size_t kTagCount = 7;
inline constexpr std::array<Tag, kTagCount> kAllTags = {Tag::kWeights,     Tag::kPrepacked, Tag::kKv,
                                                        Tag::kActivations, Tag::kWorkspace, Tag::kStaging,
                                                        Tag::kOverhead};

/// "weights", "prepacked", "kv", "activations", "workspace", "staging", "overhead".
std::string_view TagName(Tag tag);

/// The tag with that name, or nothing.
std::optional<Tag> TagFromName(std::string_view name);

/// Bytes per tag. A value type; not synchronised.
struct TagBytes {
  std::array<int64_t, kTagCount> bytes{};

  int64_t& operator[](Tag tag) { return bytes[static_cast<size_t>(tag)]; }
  int64_t operator[](Tag tag) const { return bytes[static_cast<size_t>(tag)]; }

  /// Adds to one tag. Throws when the tag's total does not fit in 64 bits.
  void Add(Tag tag, int64_t count);
  /// Adds tag by tag. Throws like Add.
  TagBytes& operator+=(const TagBytes& other);
  /// Takes the larger of both, tag by tag.
  void RaiseTo(const TagBytes& other);
  /// The sum over all tags. Throws when it does not fit in 64 bits.
  int64_t Sum() const;
  /// The tags that are not zero, largest first, then the sum: "weights 1024, kv 512, total 1536".
  std::string ToString() const;

  bool operator==(const TagBytes&) const = default;
};

}  // namespace ullage::memory
