#include "llm/tokenizer/decoder.h"

#include <charconv>
#include <optional>

#include "llm/tokenizer/byte_alphabet.h"
#include "llm/tokenizer/decode_text.h"
#include "llm/tokenizer/json_fields.h"
#include "llm/tokenizer/regex.h"
#include "llm/tokenizer/unicode.h"

namespace ullage::llm {
namespace {

constexpr std::string_view kWhere = "tokenizer.json: decoder";
/// Byte tokens in a row that are held back until it is known whether all of them together are UTF-8.
constexpr size_t kLongestByteRun = 1024;

template <class Stage, class Options>
class Step final : public DecodeStep {
 public:
  explicit Step(Options options) : options_(std::move(options)) {}
  std::unique_ptr<DecodeStage> NewStage(TokenSink& next) const override {
    return std::make_unique<Stage>(next, options_);
  }

 private:
  Options options_;
};

/// A stage that needs whole tokens.
class WholeTokenStage : public DecodeStage {
 public:
  using DecodeStage::DecodeStage;
  void Text(std::string_view part) final { token_ += part; }
  void EndToken() final {
    Token(token_, count_++);
    token_.clear();
  }
  void Finish() override { next_.Finish(); }

 protected:
  virtual void Token(std::string& token, size_t index) = 0;
  void Emit(std::string_view text) {
    next_.Text(text);
    next_.EndToken();
  }

 private:
  std::string token_;
  size_t count_ = 0;
};

struct NoOptions {};

class JoinStage final : public DecodeStage {
 public:
  JoinStage(TokenSink& next, const NoOptions&) : DecodeStage(next) {}
  void Text(std::string_view part) override {
    Separate();
    next_.Text(part);
  }
  void EndToken() override {
    Separate();
    begun_ = false;
  }
  void Finish() override {
    next_.EndToken();
    next_.Finish();
  }

 private:
  void Separate() {
    if (begun_) return;
    if (!first_) next_.Text(" ");
    first_ = false;
    begun_ = true;
  }
  bool first_ = true, begun_ = false;
};

class FuseStage final : public DecodeStage {
 public:
  FuseStage(TokenSink& next, const NoOptions&) : DecodeStage(next) {}
  void Text(std::string_view part) override { next_.Text(part); }
  void EndToken() override {}
  void Finish() override {
    next_.EndToken();
    next_.Finish();
  }
};

class ByteLevelStage final : public WholeTokenStage {
 public:
  ByteLevelStage(TokenSink& next, const NoOptions&) : WholeTokenStage(next) {}
  void Finish() override {
    out_.clear();
    utf8_.Finish(out_);
    next_.Text(out_);
    next_.EndToken();
    next_.Finish();
  }

 private:
  void Token(std::string& token, size_t) override {
    bytes_.clear();
    for (size_t pos = 0; pos < token.size();) {
      const int byte = ByteOfCharacter(NextCodePoint(token, pos));
      if (byte < 0) {  // a token of plain text
        bytes_ = token;
        break;
      }
      bytes_ += static_cast<char>(byte);
    }
    out_.clear();
    utf8_.Push(bytes_, out_);
    next_.Text(out_);
  }
  Utf8Stream utf8_;
  std::string bytes_, out_;
};

class ByteFallbackStage final : public WholeTokenStage {
 public:
  ByteFallbackStage(TokenSink& next, const NoOptions&) : WholeTokenStage(next) {}
  void Finish() override {
    EndRun();
    next_.Finish();
  }

 private:
  void Token(std::string& token, size_t) override {
    const int byte = ByteOfToken(token);
    if (byte < 0) {
      EndRun();
      Emit(token);
      return;
    }
    if (invalid_) {
      EmitReplacement();
      return;
    }
    run_ += static_cast<char>(byte);
    const size_t good = ValidUtf8Prefix(run_);
    if (good < run_.size() && CheckUtf8(std::string_view(run_).substr(good)).status == Utf8Status::kInvalid) {
      GiveUp();
    } else if (good > kLongestByteRun) {
      Emit(std::string_view(run_).substr(0, good));
      run_.erase(0, good);
    }
  }
  void EmitReplacement() { Emit("\xEF\xBF\xBD"); }
  void GiveUp() {
    for (size_t i = 0; i < run_.size(); ++i) EmitReplacement();
    run_.clear();
    invalid_ = true;
  }
  void EndRun() {
    if (!IsValidUtf8(run_)) {
      GiveUp();
    } else if (!run_.empty()) {
      Emit(run_);
      run_.clear();
    }
    invalid_ = false;
  }
  std::string run_;
  bool invalid_ = false;  // the run cannot be UTF-8 any more
};

struct MetaspaceOptions {
  std::string replacement;
  bool prepended;
};

class MetaspaceStage final : public DecodeStage {
 public:
  MetaspaceStage(TokenSink& next, const MetaspaceOptions& options) : DecodeStage(next), options_(options) {}
  void Text(std::string_view part) override {
    out_.clear();
    const std::string_view mark = options_.replacement;
    for (size_t pos = 0; pos < part.size();) {
      if (part.substr(pos).starts_with(mark)) {
        if (!first_ || !options_.prepended) out_ += ' ';
        pos += mark.size();
      } else {
        out_ += part[pos++];
      }
    }
    next_.Text(out_);
  }
  void EndToken() override {
    first_ = false;
    next_.EndToken();
  }
  void Finish() override { next_.Finish(); }

 private:
  MetaspaceOptions options_;
  bool first_ = true;
  std::string out_;
};

struct StripOptions {
  std::string content;
  size_t start, stop;
};

class StripStage final : public DecodeStage {
 public:
  StripStage(TokenSink& next, const StripOptions& options)
      : DecodeStage(next), options_(options), left_(options.start) {}
  void Text(std::string_view part) override {
    while (left_ > 0 && !part.empty()) {
      if (!part.starts_with(options_.content)) {
        left_ = 0;
        break;
      }
      part.remove_prefix(options_.content.size());
      --left_;
    }
    // The last `stop` characters are held back as long as they are all the content character.
    for (size_t pos = 0; options_.stop > 0 && pos < part.size();) {
      const std::string_view character = part.substr(pos, Utf8Length(part[pos]));
      pos += character.size();
      if (character == options_.content) {
        ++held_;
        if (held_ > options_.stop) {
          next_.Text(options_.content);
          --held_;
        }
      } else {
        for (; held_ > 0; --held_) next_.Text(options_.content);
        next_.Text(character);
      }
    }
    if (options_.stop == 0 && !part.empty()) next_.Text(part);
  }
  void EndToken() override {
    held_ = 0;
    left_ = options_.start;
    next_.EndToken();
  }
  void Finish() override { next_.Finish(); }

 private:
  StripOptions options_;
  size_t left_;
  size_t held_ = 0;
};

struct ReplaceOptions {
  std::string literal;
  std::optional<Regex> regex;
  std::string content;
};

class ReplaceLiteralStage final : public DecodeStage {
 public:
  ReplaceLiteralStage(TokenSink& next, const ReplaceOptions& options)
      : DecodeStage(next), replacer_(options.literal, options.content) {}
  void Text(std::string_view part) override {
    out_.clear();
    replacer_.Push(part, out_);
    if (!out_.empty()) next_.Text(out_);
  }
  void EndToken() override {
    out_.clear();
    replacer_.Finish(out_);
    if (!out_.empty()) next_.Text(out_);
    next_.EndToken();
  }
  void Finish() override { next_.Finish(); }

 private:
  LiteralReplacer replacer_;
  std::string out_;
};

class ReplaceRegexStage final : public WholeTokenStage {
 public:
  ReplaceRegexStage(TokenSink& next, const ReplaceOptions& options)
      : WholeTokenStage(next), options_(options) {}

 private:
  void Token(std::string& token, size_t) override {
    std::string out;
    size_t done = 0, begin, end;
    for (Regex::Matcher matcher(*options_.regex, token); !token.empty() && matcher.Next(begin, end);
         done = end) {
      out.append(token, done, begin - done).append(options_.content);
      CheckDecodedSize(out.size());
    }
    out.append(token, done);
    Emit(out);
  }
  ReplaceOptions options_;
};

struct WordPieceOptions {
  std::string prefix;
  bool cleanup;
};

class WordPieceStage final : public WholeTokenStage {
 public:
  WordPieceStage(TokenSink& next, const WordPieceOptions& options)
      : WholeTokenStage(next), options_(options) {}

 private:
  void Token(std::string& token, size_t index) override {
    if (index > 0) {
      if (token.starts_with(options_.prefix)) {
        token.erase(0, options_.prefix.size());
      } else {
        token = std::string(" ").append(token);
      }
    }
    if (options_.cleanup) CleanUpSpaces(token);
    Emit(token);
  }
  WordPieceOptions options_;
};

class BpeDecoderStage final : public WholeTokenStage {
 public:
  BpeDecoderStage(TokenSink& next, const std::string& suffix) : WholeTokenStage(next), suffix_(suffix) {}
  void Finish() override {
    if (waiting_) Flush("");
    next_.Finish();
  }

 private:
  void Token(std::string& token, size_t) override {
    if (waiting_) Flush(" ");
    std::swap(last_, token);
    waiting_ = true;
  }
  void Flush(std::string_view replacement) {
    ReplaceAll(last_, suffix_, replacement);
    Emit(last_);
  }
  std::string suffix_, last_;
  bool waiting_ = false;  // the suffix of the last token of all is not a space
};

struct CtcOptions {
  std::string pad, delimiter;
  bool cleanup;
};

class CtcStage final : public WholeTokenStage {
 public:
  CtcStage(TokenSink& next, const CtcOptions& options) : WholeTokenStage(next), options_(options) {}

 private:
  void Token(std::string& token, size_t index) override {
    if (index > 0 && token == last_) return;
    last_ = token;
    ReplaceAll(token, options_.pad, "");
    if (options_.cleanup) {
      CleanUpSpaces(token);
      ReplaceAll(token, options_.delimiter, " ");
    }
    if (!token.empty()) Emit(token);
  }
  CtcOptions options_;
  std::string last_;
};

template <class Stage, class Options>
std::unique_ptr<const DecodeStep> MakeStep(Options options) {
  return std::make_unique<Step<Stage, Options>>(std::move(options));
}

void AddDecoder(const nlohmann::json& config, DecodeSteps& steps) {
  const std::string type = StringField(config, "type", kWhere);
  if (type == "Sequence") {
    for (const nlohmann::json& part : ArrayField(config, "decoders", kWhere)) AddDecoder(part, steps);
  } else if (type == "ByteLevel") {
    steps.push_back(MakeByteLevelDecoder());
  } else if (type == "ByteFallback") {
    steps.push_back(MakeStep<ByteFallbackStage>(NoOptions()));
  } else if (type == "Fuse") {
    steps.push_back(MakeStep<FuseStage>(NoOptions()));
  } else if (type == "Metaspace") {
    MetaspaceOptions options{StringField(config, "replacement", kWhere), true};
    const bool never = OptionalString(config, "prepend_scheme", kWhere) == "never";
    options.prepended = !never && BoolField(config, "add_prefix_space", true, kWhere);
    if (CountCodePoints(options.replacement) != 1) {
      Throw(Code::kInvalidModel, kWhere, ": 'replacement' must be one character");
    }
    steps.push_back(MakeStep<MetaspaceStage>(std::move(options)));
  } else if (type == "Replace") {
    const nlohmann::json& pattern = RequireField(config, "pattern", kWhere);
    ReplaceOptions options{"", std::nullopt, StringField(config, "content", kWhere)};
    if (auto regex = OptionalString(pattern, "Regex", kWhere)) {
      options.regex = Regex::Compile(*regex);
      steps.push_back(MakeStep<ReplaceRegexStage>(std::move(options)));
    } else {
      options.literal = StringField(pattern, "String", kWhere);
      steps.push_back(MakeStep<ReplaceLiteralStage>(std::move(options)));
    }
  } else if (type == "Strip") {
    StripOptions options{StringField(config, "content", kWhere),
                         static_cast<size_t>(IntegerField(config, "start", 0, INT32_MAX, kWhere)),
                         static_cast<size_t>(IntegerField(config, "stop", 0, INT32_MAX, kWhere))};
    if (CountCodePoints(options.content) != 1) {
      Throw(Code::kInvalidModel, kWhere, ": 'content' must be one character");
    }
    steps.push_back(MakeStep<StripStage>(std::move(options)));
  } else if (type == "WordPiece") {
    steps.push_back(
        MakeStep<WordPieceStage>(WordPieceOptions{OptionalString(config, "prefix", kWhere).value_or("##"),
                                                  BoolField(config, "cleanup", true, kWhere)}));
  } else if (type == "BPEDecoder") {
    steps.push_back(MakeStep<BpeDecoderStage>(OptionalString(config, "suffix", kWhere).value_or("</w>")));
  } else if (type == "CTC") {
    steps.push_back(
        MakeStep<CtcStage>(CtcOptions{OptionalString(config, "pad_token", kWhere).value_or("<pad>"),
                                      OptionalString(config, "word_delimiter_token", kWhere).value_or("|"),
                                      BoolField(config, "cleanup", true, kWhere)}));
  } else {
    Throw(Code::kUnsupported, kWhere, " of type '", type, "' is not supported");
  }
  if (steps.size() > 64) Throw(Code::kInvalidModel, kWhere, ": more than 64 steps");
}

}  // namespace

int ByteOfToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  std::string_view digits = token.substr(3, 2);
  if (digits[0] == '+') digits.remove_prefix(1);  // Rust's number parser takes a sign
  unsigned value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return error == std::errc() && end == digits.data() + digits.size() ? static_cast<int>(value) : -1;
}

std::unique_ptr<const DecodeStep> MakeByteLevelDecoder() {
  return MakeStep<ByteLevelStage>(NoOptions());
}

DecodeSteps BuildDecoder(const nlohmann::json& config) {
  DecodeSteps steps;
  if (config.is_null()) {
    steps.push_back(MakeStep<JoinStage>(NoOptions()));
  } else {
    AddDecoder(config, steps);
  }
  return steps;
}

}  // namespace ullage::llm
