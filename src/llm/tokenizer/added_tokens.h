/// Tokens that are cut out of the text before everything else.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "llm/tokenizer/token_table.h"
#include "llm/tokenizer/token_trie.h"

namespace ullage::llm {

struct AddedToken {
  std::string content;
  TokenId id = kNoToken;
  bool single_word = false;  ///< only where no word character stands before or after
  bool lstrip = false;       ///< takes the white space before it, too
  bool rstrip = false;       ///< takes the white space after it, too
  bool normalized = true;    ///< looked for in the normalized text
  bool special = false;      ///< a control token: not part of what a person reads
  bool parsed = true;        ///< false: known by id and name only, never looked for in text
};

/// What the tokens hold.
size_t MemoryBytes(const std::vector<AddedToken>& tokens);

/// A part of a text: an added token (id >= 0), or text between them.
struct TextSection {
  TokenId id;
  size_t begin, end;
};

/// Finds the tokens of one kind (normalized or not): leftmost first, then longest. Immutable and thread-safe.
class AddedTokenFinder {
 public:
  AddedTokenFinder() = default;
  /// `patterns[i]` is what to look for on behalf of `tokens[i]`.
  AddedTokenFinder(std::vector<AddedToken> tokens, const std::vector<std::string>& patterns);

  /// Appends the sections of the text in order; special tokens are left alone unless `parse_special`. Where
  /// rstrip takes white space that belongs to the next token, that token follows nevertheless.
  void Split(std::string_view text, bool parse_special, std::vector<TextSection>& out) const;
  size_t memory_bytes() const;

 private:
  std::vector<AddedToken> tokens_;
  TokenTrie trie_;
};

}  // namespace ullage::llm
