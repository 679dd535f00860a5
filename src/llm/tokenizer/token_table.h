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

/// A one-to-one map of texts and ids. Filled once, then immutable and thread-safe.
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

  /// kNoToken if there is none.
  TokenId Find(std::string_view text) const { return FindHashed(text, HashBytes(text)); }
  TokenId FindHashed(std::string_view text, uint64_t hash) const;
  std::optional<std::string_view> TextOf(TokenId id) const;
  size_t size() const { return entries_.size(); }
  /// One more than the highest id; 0 if empty.
  size_t id_limit() const { return id_limit_; }
  /// Bytes of the longest token.
  size_t max_bytes() const { return max_bytes_; }

 private:
  struct Entry {
    uint32_t offset, length;
    TokenId id;
  };
  struct Slot {
    uint32_t hash = 0;
    int32_t entry = -1;
  };
  std::string_view Text(const Entry& e) const { return {arena_.data() + e.offset, e.length}; }
  void Grow(size_t slots);

  std::string arena_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;     // open addressing, size a power of two
  std::vector<int32_t> by_id_;  // entry per id, -1 where there is none
  size_t id_limit_ = 0;
  size_t max_bytes_ = 0;
};

}  // namespace ullage::llm
