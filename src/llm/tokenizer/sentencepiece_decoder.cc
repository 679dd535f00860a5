#include <algorithm>

#include "llm/tokenizer/decoder.h"
#include "llm/tokenizer/unicode.h"

namespace ullage::llm {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

class SentencePieceStage final : public DecodeStage {
 public:
  SentencePieceStage(TokenSink& next, const SentencePieceDecoderOptions& options)
      : DecodeStage(next), options_(options) {}

  void Text(std::string_view part) override { token_ += part; }

  void EndToken() override {
    const int byte = ByteOfToken(token_);
    if (byte >= 0) {
      bytes_ += static_cast<char>(byte);
      EmitBytes(false);
    } else {
      EmitBytes(true);
      Piece();
    }
    token_.clear();
  }

  void Finish() override {
    EmitBytes(true);
    next_.EndToken();
    next_.Finish();
  }

 private:
  void Emit(std::string_view text) {
    if (text.empty()) return;
    any_text_ = true;
    next_.Text(text);
  }

  /// Characters as soon as they are complete, and one U+FFFD for each byte of what cannot become one.
  void EmitBytes(bool end) {
    std::string_view rest = bytes_;
    std::string out;
    while (!rest.empty()) {
      const Utf8Step step = CheckUtf8(rest);
      if (step.status == Utf8Status::kComplete) {
        out += rest.substr(0, step.length);
        rest.remove_prefix(step.length);
      } else if (step.status == Utf8Status::kIncomplete && !end) {
        break;
      } else {
        out += kReplacement;
        rest.remove_prefix(1);
      }
    }
    bytes_ = std::string(rest);
    Emit(out);
  }

  void Piece() {
    if (mark_seen_ || any_text_) at_start_ = false;
    mark_seen_ = false;
    if (std::find(options_.control.begin(), options_.control.end(), token_) != options_.control.end()) return;
    if (!options_.unknown_piece.empty() && token_ == options_.unknown_piece) {
      Emit(options_.unknown_surface);
      return;
    }
    std::string_view text = token_;
    if (at_start_ && (options_.strip_first || options_.strip_all) && text.starts_with(kSpaceMark)) {
      text.remove_prefix(kSpaceMark.size());
      mark_seen_ = !options_.strip_all;
    }
    std::string out;
    while (!text.empty()) {
      const size_t at = std::min(text.find(kSpaceMark), text.size());
      out += text.substr(0, at);
      text.remove_prefix(at);
      if (text.empty()) break;
      out += ' ';
      text.remove_prefix(kSpaceMark.size());
    }
    Emit(out);
  }

  SentencePieceDecoderOptions options_;
  std::string token_, bytes_;
  bool at_start_ = true, mark_seen_ = false, any_text_ = false;
};

class SentencePieceStep final : public DecodeStep {
 public:
  explicit SentencePieceStep(SentencePieceDecoderOptions options) : options_(std::move(options)) {}
  std::unique_ptr<DecodeStage> NewStage(TokenSink& next) const override {
    return std::make_unique<SentencePieceStage>(next, options_);
  }

 private:
  SentencePieceDecoderOptions options_;
};

}  // namespace

std::unique_ptr<const DecodeStep> MakeSentencePieceDecoder(SentencePieceDecoderOptions options) {
  return std::make_unique<SentencePieceStep>(std::move(options));
}

}  // namespace ullage::llm
