/// What happens to text before it is cut into pieces.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ullage::llm {

/// Valid UTF-8 on its way through the normalizers.
struct NormalText {
  std::string text;
  bool from_start;  ///< the first character comes from the beginning of the whole input
  /// Bytes that it may grow to. Growing further throws Error(kInvalidInput): a chain of replacements could
  /// double the text each time.
  size_t limit;
  void CheckSize(size_t bytes) const;
};

/// Immutable and thread-safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void Apply(NormalText& text) const = 0;
};

/// From the `normalizer` member of a tokenizer.json: Sequence, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents,
/// Strip, Replace, Prepend, BertNormalizer, ByteLevel, Nmt, Precompiled. Null for JSON null. Throws
/// Error(kUnsupported) for another type, Error(kInvalidModel) for wrong parameters.
std::unique_ptr<const Normalizer> BuildNormalizer(const nlohmann::json& config);

/// SentencePiece's character map: a 32-bit little-endian size, a double-array trie of that size, and the
/// replacements, each ended by a zero byte. Whole grapheme clusters of up to five bytes are replaced by what
/// their shortest prefix in the map says, other characters one by one, as `tokenizers` does.
class CharacterMap {
 public:
  /// Throws Error(kInvalidModel) when the parts do not fit together.
  explicit CharacterMap(std::string bytes);

  struct Match {
    size_t length = 0;  ///< bytes of the key; 0 if there is none
    std::string_view replacement;
  };
  Match Shortest(std::string_view text) const { return Find(text, false); }
  Match Longest(std::string_view text) const { return Find(text, true); }
  void Apply(const NormalText& text, std::string& out) const;

 private:
  Match Find(std::string_view text, bool longest) const;
  uint32_t Unit(size_t i) const;

  std::string bytes_;
  size_t units_ = 0;
};

/// Decodes base64 with padding; throws Error(kInvalidModel) naming `where`.
std::string DecodeBase64(std::string_view text, std::string_view where);

}  // namespace ullage::llm
