/// What turns one piece of pre-tokenized text into tokens.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "llm/tokenizer/token_table.h"

namespace ullage::llm {

/// Tokens of short pieces that were seen lately: one slot per hash, a newer piece replaces the older one.
class PieceCache {
 public:
  /// The cached tokens, or null.
  struct Entry {
    uint64_t hash = 0;
    uint8_t key_length = 0, count = 0;
    std::array<char, 30> key;
    std::array<TokenId, 6> ids;
  };
  const Entry* Find(std::string_view piece, uint64_t hash) const;
  void Store(std::string_view piece, uint64_t hash, const TokenId* ids, size_t count);
  static constexpr size_t MemoryBytes() { return kSlots * sizeof(Entry); }

 private:
  static constexpr size_t kSlots = size_t{1} << 14;
  std::vector<Entry> slots_;
};

/// Rank of pairs that do not merge.
inline constexpr uint32_t kNoRank = 0xFFFFFFFF;

/// Buffers that Encode reuses; one per thread at a time. They keep the size of the longest piece seen.
struct ModelScratch {
  struct Symbol {
    TokenId id;
    int32_t prev, next;
    uint32_t rank;        // of the merge with `next`
    TokenId merged;       // what that merge gives
    uint32_t begin, end;  // bytes in the piece, where the model needs them
  };
  std::vector<Symbol> symbols;
  std::vector<uint64_t> heap;
  PieceCache cache;
  std::string text;
  std::vector<TokenId> ids;
  std::unordered_map<TokenId, uint32_t> halves;
  struct Node {
    double score;
    uint32_t from;
    TokenId id;
  };
  std::vector<Node> nodes;
};

/// Immutable and thread-safe.
class Model {
 public:
  virtual ~Model() = default;
  /// Appends the tokens of a non-empty piece of valid UTF-8.
  virtual void Encode(std::string_view piece, ModelScratch& scratch, std::vector<TokenId>& out) const = 0;
  const TokenTable& tokens() const { return tokens_; }
  /// What its tables hold, with what one encoder keeps between texts.
  virtual size_t memory_bytes() const { return tokens_.memory_bytes(); }

 protected:
  explicit Model(TokenTable tokens) : tokens_(std::move(tokens)) {}
  TokenTable tokens_;
};

/// The token `<0xHH>` of every byte; kNoToken where there is none.
std::array<TokenId, 256> ByteTokens(const TokenTable& tokens);

}  // namespace ullage::llm
