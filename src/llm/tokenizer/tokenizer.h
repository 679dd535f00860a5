/// Text to token ids and back, for tokenizer.json files, vocab.json + merges.txt, SentencePiece models and
/// the vocabularies inside of GGUF files. Results are those of the `tokenizers` library (0.23) for the first
/// two, of the sentencepiece library for the third.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ullage::llm {

using TokenId = int32_t;

struct TokenizerParts;

/// Token ids with the segment of each: 0 for the first text, what the post-processor says for the second.
struct PairEncoding {
  std::vector<TokenId> ids;
  std::vector<int32_t> type_ids;
};

/// Immutable and thread-safe. Text that is not UTF-8 is read with U+FFFD for every maximal invalid part;
/// decoded text is always valid UTF-8. A text may have at most 512 MiB.
class Tokenizer {
 public:
  explicit Tokenizer(TokenizerParts parts);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// `add_special`: with the tokens that the post-processor puts around (BOS, CLS...). `parse_special`:
  /// special tokens written out in the text become their ids; false treats them as plain text. Throws
  /// Error(kInvalidInput) when a pattern of the tokenizer needs too much work on this text or the text grows
  /// without measure.
  std::vector<TokenId> Encode(std::string_view text, bool add_special = true,
                              bool parse_special = true) const;
  /// Two texts in one input.
  PairEncoding EncodePair(std::string_view text, std::string_view pair, bool add_special = true) const;
  /// Ids that no token has are passed over; `skip_special` leaves out special tokens.
  std::string Decode(std::span<const TokenId> ids, bool skip_special = false) const;

  std::optional<TokenId> IdOf(std::string_view token) const;
  /// The token as the vocabulary writes it, for example "Ġthe".
  std::optional<std::string_view> TokenOf(TokenId id) const;
  /// One more than the highest id.
  size_t vocab_size() const;
  /// False for ids without a token.
  bool is_special(TokenId id) const;
  /// Host memory that it holds: vocabulary, merges, added tokens, and what one encoder keeps between texts.
  /// Not counted: patterns, a few hundred KiB, and what Encode() takes in proportion to its text.
  size_t memory_bytes() const;

 private:
  friend class StreamDecoder;
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

/// Decodes ids one at a time. What Push and Finish return, put together, is Decode of all ids; a part never
/// ends inside of a code point. Work and memory per token do not depend on how many came before. Not
/// thread-safe.
///
/// Byte tokens (<0xHH>) in a row are either all UTF-8 or all U+FFFD; up to 1024 bytes of them are held back
/// until that is known.
class StreamDecoder {
 public:
  explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special = false);
  ~StreamDecoder();
  StreamDecoder(StreamDecoder&&) noexcept;
  StreamDecoder& operator=(StreamDecoder&&) noexcept;

  /// The text that is certain now and was not before.
  std::string Push(TokenId id);
  /// The rest. Nothing may be pushed afterwards.
  std::string Finish();

 private:
  struct State;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<State> state_;
};

/// From the bytes of a tokenizer.json; `config` holds those of the tokenizer_config.json beside it, or
/// nothing: tokens of its added_tokens_decoder that are missing are added. `name` stands in messages. Throws
/// Error(kInvalidModel) for malformed files, Error(kUnsupported) for components that are not built.
std::shared_ptr<const Tokenizer> ParseTokenizerJson(std::string_view bytes,
                                                    std::string_view name = "tokenizer.json",
                                                    std::string_view config = {});
/// From the bytes of a SentencePiece model (BPE or unigram), `config` as above. BOS is put before each text
/// when the model has one and `add_bos_token` of the config does not say no; EOS behind it when
/// `add_eos_token` says so.
std::shared_ptr<const Tokenizer> ParseSentencePiece(std::string_view bytes,
                                                    std::string_view name = "tokenizer.model",
                                                    std::string_view config = {});

/// A tokenizer.json or a SentencePiece model, told apart by their first bytes, with the tokenizer_config.json
/// beside it.
std::shared_ptr<const Tokenizer> LoadTokenizerFile(const std::string& path);
/// tokenizer.json, or vocab.json with merges.txt, or tokenizer.model / spiece.model /
/// sentencepiece.bpe.model, whichever comes first. Throws Error(kInvalidModel) naming the folder if there is
/// none.
std::shared_ptr<const Tokenizer> LoadTokenizerFolder(const std::string& folder);

/// What a GGUF file says under tokenizer.ggml.*; texts must outlive the call only.
struct GgufTokenizerData {
  std::string model;         ///< tokenizer.ggml.model: gpt2, llama
  std::string pre;           ///< tokenizer.ggml.pre; empty means default
  std::string architecture;  ///< general.architecture; phi3 decides about white space behind special tokens
  std::vector<std::string_view> tokens;
  std::vector<float> scores;  ///< of each token; for llama
  std::vector<int32_t>
      token_types;  ///< of each token: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte
  std::vector<std::string_view> merges;
  std::optional<TokenId> bos, eos, unknown, pad;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
};

/// Throws Error(kUnsupported) naming an unknown model or pre-tokenizer, Error(kInvalidModel) for data that do
/// not fit together.
std::shared_ptr<const Tokenizer> LoadGgufTokenizer(const GgufTokenizerData& data);

}  // namespace ullage::llm
