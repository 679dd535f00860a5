/// Models that know whole words or their greedy parts, and the unigram language model.
#pragma once

#include "llm/tokenizer/bpe.h"
#include "llm/tokenizer/model.h"
#include "llm/tokenizer/token_trie.h"

namespace ullage::llm {

/// Longest known part first, the parts after the first with a prefix. A word with an unknown part, or longer
/// than `max_characters`, is the unknown token.
class WordPieceModel final : public Model {
 public:
  WordPieceModel(TokenTable tokens, std::string unknown, std::string prefix, size_t max_characters)
      : Model(std::move(tokens)),
        unknown_(std::move(unknown)),
        prefix_(std::move(prefix)),
        max_characters_(max_characters) {}
  void Encode(std::string_view piece, ModelScratch& scratch, std::vector<TokenId>& out) const override;

 private:
  std::string unknown_, prefix_;
  size_t max_characters_;
};

/// A piece is a token or the unknown token.
class WordLevelModel final : public Model {
 public:
  WordLevelModel(TokenTable tokens, std::string unknown)
      : Model(std::move(tokens)), unknown_(std::move(unknown)) {}
  void Encode(std::string_view piece, ModelScratch& scratch, std::vector<TokenId>& out) const override;

 private:
  std::string unknown_;
};

/// The most probable way to cut a piece into tokens (Viterbi). Unknown characters score 10 less than the
/// worst token; those in a row are one unknown token, or the `<0xHH>` tokens of their bytes.
class UnigramModel final : public Model {
 public:
  struct Options {
    TokenId unknown = kNoToken;
    bool byte_fallback = false;
  };
  /// `scores` by id. `used[id]` false: a token that no text becomes; empty means all are used.
  UnigramModel(TokenTable tokens, std::vector<double> scores, const std::vector<bool>& used, Options options);
  void Encode(std::string_view piece, ModelScratch& scratch, std::vector<TokenId>& out) const override;
  size_t memory_bytes() const override {
    return Model::memory_bytes() + scores_.capacity() * sizeof(double) + trie_.memory_bytes();
  }

 private:
  Options options_;
  std::vector<double> scores_;
  double unknown_score_;
  TokenTrie trie_;
  std::array<TokenId, 256> byte_tokens_;
};

}  // namespace ullage::llm
