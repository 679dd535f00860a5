/// Byte pair encoding: by a list of ranked merges, and by the scores of a SentencePiece vocabulary.
#pragma once

#include <optional>

#include "llm/tokenizer/model.h"
#include "llm/tokenizer/token_trie.h"

namespace ullage::llm {

/// Merges of adjacent tokens.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank;
    TokenId merged;
  };

  void Reserve(size_t merges);
  /// A pair that is present already gets the new rank.
  void Add(TokenId left, TokenId right, Merge merge);
  /// rank is kNoRank if the two do not merge.
  Merge Find(TokenId left, TokenId right) const {
    if (slots_.empty()) return {kNoRank, kNoToken};
    const uint64_t key = Key(left, right);
    for (size_t at = PlaceOf(key);; at = Next(at)) {
      const Slot& s = slots_[at];
      if (s.key == key) return {s.rank, s.merged};
      if (s.key == kEmpty) return {kNoRank, kNoToken};
    }
  }
  size_t size() const { return size_; }
  size_t memory_bytes() const { return slots_.capacity() * sizeof(Slot); }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  struct Slot {
    uint64_t key = kEmpty;
    uint32_t rank = kNoRank;
    TokenId merged = kNoToken;
  };
  static uint64_t Key(TokenId left, TokenId right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
  }
  size_t PlaceOf(uint64_t key) const {
    key *= 0x9E3779B97F4A7C15u;
    key = (key ^ key >> 32) * 0xD6E8FEB86659FD93u;
    return static_cast<size_t>((key >> 32) * slots_.size() >> 32);
  }
  size_t Next(size_t at) const { return at + 1 == slots_.size() ? 0 : at + 1; }
  void Grow(size_t slots);

  std::vector<Slot> slots_;  // open addressing
  size_t size_ = 0;
};

struct BpeOptions {
  std::optional<std::string> unknown;  ///< text of the unknown token; without one unknown characters vanish
  std::optional<std::string> subword_prefix;  ///< before every character but the first of a piece
  std::optional<std::string> word_suffix;     ///< after the last character of a piece
  bool fuse_unknown = false;                  ///< one unknown token for adjacent unknown characters
  bool byte_fallback = false;  ///< unknown characters become `<0xHH>` tokens if all of theirs exist
  bool ignore_merges = false;  ///< a piece that is a token is that token
};

class BpeModel final : public Model {
 public:
  /// Collects merges by text, in order of rank.
  class Builder {
   public:
    Builder(TokenTable tokens, BpeOptions options)
        : tokens_(std::move(tokens)), options_(std::move(options)) {}
    void Reserve(size_t merges) { merges_.Reserve(merges); }
    /// Adds the merge with the next rank. Throws Error(kInvalidModel) if a token is missing from the
    /// vocabulary, or passes over the merge if `lenient`.
    void AddMerge(std::string_view left, std::string_view right, bool lenient = false);
    /// "left right"; throws Error(kInvalidModel) if there is not exactly one space.
    void AddMergeLine(std::string_view line, bool lenient = false);
    std::unique_ptr<Model> Build();

   private:
    TokenTable tokens_;
    BpeOptions options_;
    MergeTable merges_;
    uint32_t rank_ = 0;
    TokenId guess_ = 0;
    std::string joined_;
  };

  void Encode(std::string_view piece, ModelScratch& scratch, std::vector<TokenId>& out) const override;
  size_t memory_bytes() const override;

 private:
  BpeModel(TokenTable tokens, BpeOptions options, MergeTable merges);
  void InitialSymbols(std::string_view piece, ModelScratch& scratch) const;
  TokenId CharacterToken(std::string_view character) const;
  TokenId UnknownToken() const;

  BpeOptions options_;
  MergeTable merges_;
  std::array<TokenId, 256> byte_tokens_;
  std::vector<TokenId> character_tokens_;  // of the code points below 0x800
};

/// Merges `symbols` (id set, prev/next not) until no merge applies: lowest rank first, then leftmost. Leaves
/// the tokens in `ids`. O(n log n).
void MergeSymbols(const MergeTable& merges, ModelScratch& scratch, std::vector<TokenId>& ids);

enum class PieceType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

/// SentencePiece BPE: any two neighbours whose joint text is a piece may merge, the highest score first.
class ScoreBpeModel final : public Model {
 public:
  struct Options {
    TokenId unknown = kNoToken;
    bool byte_fallback = false;
    bool fuse_unknown = true;
    bool keep_user_defined_whole = false;  ///< user defined pieces are cut out of the text first
  };
  /// `scores` and `types` by token id; sizes as tokens.id_limit().
  ScoreBpeModel(TokenTable tokens, const std::vector<float>& scores, std::vector<PieceType> types,
                Options options);

  void Encode(std::string_view piece, ModelScratch& scratch, std::vector<TokenId>& out) const override;
  size_t memory_bytes() const override;

 private:
  void RatePair(std::string_view piece, ModelScratch& scratch, int32_t left) const;
  void Emit(std::string_view piece, uint32_t begin, uint32_t end, ModelScratch& scratch,
            std::vector<TokenId>& out, bool& unknown_before) const;

  Options options_;
  std::vector<PieceType> types_;
  std::vector<uint32_t>
      order_;  // per id: place among the scores, 0 is the highest; kNoRank for pieces never merged to
  std::array<TokenId, 256> byte_tokens_;
  TokenTrie whole_;
};

}  // namespace ullage::llm
