/// From tokens back to text, one token at a time.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ullage::llm {

/// A list of tokens that arrives bit by bit: the text of a token in one or more parts, its end, the end of
/// the list. Parts are valid UTF-8.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  virtual void Text(std::string_view part) = 0;
  virtual void EndToken() = 0;
  virtual void Finish() = 0;
};

/// One step of decoding: receives a list of tokens and passes another list on as early as it can.
class DecodeStage : public TokenSink {
 public:
  explicit DecodeStage(TokenSink& next) : next_(next) {}

 protected:
  TokenSink& next_;
};

/// A kind of step. Immutable and thread-safe; the stages it makes belong to one list of tokens each.
class DecodeStep {
 public:
  virtual ~DecodeStep() = default;
  virtual std::unique_ptr<DecodeStage> NewStage(TokenSink& next) const = 0;
};
using DecodeSteps = std::vector<std::unique_ptr<const DecodeStep>>;

/// From the `decoder` member of a tokenizer.json: ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip,
/// WordPiece, BPEDecoder, CTC, Sequence. JSON null: tokens with a space between them. Throws
/// Error(kUnsupported) for another type, Error(kInvalidModel) for wrong parameters.
DecodeSteps BuildDecoder(const nlohmann::json& config);

std::unique_ptr<const DecodeStep> MakeByteLevelDecoder();
/// What the SentencePiece library does: U+2581 is a space, the one at the beginning of the text is left out
/// (`strip_first`: one, `strip_all`: as many tokens as begin with one), byte tokens are joined, control
/// tokens are dropped and unknown tokens shown as `unknown`. Tokens of type control and unknown come in as
/// their plain text, so the texts must be named here.
struct SentencePieceDecoderOptions {
  bool strip_first = true, strip_all = false;
  std::vector<std::string> control;
  std::string unknown_piece, unknown_surface;
};
std::unique_ptr<const DecodeStep> MakeSentencePieceDecoder(SentencePieceDecoderOptions options);

/// The byte that a token of the form <0xHH> stands for; -1 for every other token.
int ByteOfToken(std::string_view token);

}  // namespace ullage::llm
