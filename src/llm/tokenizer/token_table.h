/// Tokens by text and by id.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/tokenizer.h"

namespace ullage::llm {

inline constexpr TokenId kNoToken = -1;

/// Fast non-cryptographic hash of short byte strings, for tables in memory only.
uint64_t HashBytes(std::string_view bytes);

/// A one-to-one map of texts and ids. Filled once, frozen, then immutable and thread-safe.
///
/// Frozen it takes the text, 8 bytes per id and 4 / kLoad bytes per text: a slot of the hash table is the id
/// and, in the bits that ids leave, a part of the hash, so that hardly any other text is ever looked at.
class TokenTable {
 public:
  /// Makes room for this many tokens and bytes of text in all.
  void Reserve(size_t tokens, size_t bytes);
  /// What Add does with a text or an id that is taken already.
  enum class Duplicate { kThrow, kKeepFirst };
  /// Throws Error(kInvalidModel) naming token and id for an id outside [0, 2^31 - 1), a duplicate, or text of
  /// 4 GiB.
  void Add(std::string_view text, int64_t id, Duplicate duplicate = Duplicate::kThrow);
  /// To be called after the last Add. Throws Error(kInvalidModel) when the ids are spread so thinly (highest
  /// id above 8 * tokens + 2^20) that a table by id cannot be justified.
  void Freeze();

  /// kNoToken if there is none; frozen tables only.
  TokenId Find(std::string_view text) const { return FindHashed(text, HashBytes(text)); }
  TokenId FindHashed(std::string_view text, uint64_t hash) const;
  std::optional<std::string_view> TextOf(TokenId id) const;
  size_t size() const { return size_; }
  /// One more than the highest id; 0 if empty.
  size_t id_limit() const { return places_.size(); }
  /// Bytes of the longest token.
  size_t max_bytes() const { return max_bytes_; }
  /// What the frozen table holds.
  size_t memory_bytes() const;

 private:
  static constexpr uint32_t kHole = 0xFFFFFFFF;
  struct Place {
    uint32_t offset = 0, length = kHole;
  };
  /// While it is filled.
  struct Entry {
    uint32_t offset, length;
    TokenId id;
  };
  struct WideSlot {
    uint32_t hash = 0;
    int32_t entry = -1;
  };
  template <class T>
  std::string_view Text(const T& at) const {
    return {text_.data() + at.offset, at.length};
  }
  void Grow(size_t slots);

  std::vector<Entry> entries_;
  std::vector<WideSlot> wide_;  // open addressing, size a power of two

  std::string text_;
  std::vector<Place> places_;    // by id
  std::vector<uint32_t> slots_;  // open addressing; 0 where there is none, else part of the hash and id + 1
  int id_bits_ = 0;
  size_t size_ = 0;
  size_t max_bytes_ = 0;
};

}  // namespace ullage::llm
