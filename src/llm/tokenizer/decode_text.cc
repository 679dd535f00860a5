#include "llm/tokenizer/decode_text.h"

#include "core/error.h"
#include "llm/tokenizer/unicode.h"

namespace ullage::llm {

void CheckDecodedSize(size_t bytes) {
  if (bytes > (size_t{16} << 20))
    Throw(Code::kInvalidInput, "the decoder makes more than 16 MiB out of one token");
}

void Utf8Stream::Push(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!pending_.empty()) {
    joined = std::move(pending_);
    joined += bytes;
    bytes = joined;
    pending_.clear();
  }
  while (!bytes.empty()) {
    const size_t good = ValidUtf8Prefix(bytes);
    out += bytes.substr(0, good);
    bytes.remove_prefix(good);
    if (bytes.empty()) return;
    const Utf8Step step = CheckUtf8(bytes);
    if (step.status == Utf8Status::kIncomplete) {
      pending_ = bytes;
      return;
    }
    AppendUtf8(out, kReplacementCharacter);
    bytes.remove_prefix(step.length);
  }
}

void Utf8Stream::Finish(std::string& out) {
  if (!pending_.empty()) AppendUtf8(out, kReplacementCharacter);
  pending_.clear();
}

LiteralReplacer::LiteralReplacer(std::string literal, std::string replacement)
    : literal_(std::move(literal)), replacement_(std::move(replacement)), failure_(literal_.size(), 0) {
  for (size_t i = 1, k = 0; i < literal_.size(); ++i) {
    while (k > 0 && literal_[i] != literal_[k]) k = failure_[k - 1];
    if (literal_[i] == literal_[k]) ++k;
    failure_[i] = k;
  }
}

void LiteralReplacer::Push(std::string_view text, std::string& out) {
  if (literal_.empty()) {
    out += text;
    return;
  }
  for (char c : text) {
    while (matched_ > 0 && c != literal_[matched_]) {
      const size_t shorter = failure_[matched_ - 1];
      out.append(literal_, 0, matched_ - shorter);
      matched_ = shorter;
    }
    if (c != literal_[matched_]) {
      out += c;
    } else if (++matched_ == literal_.size()) {
      out += replacement_;
      CheckDecodedSize(out.size());
      matched_ = 0;
    }
  }
}

void LiteralReplacer::Finish(std::string& out) {
  out.append(literal_, 0, matched_);
  matched_ = 0;
}

void ReplaceAll(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty() || text.find(from) == std::string::npos) return;
  std::string out;
  size_t done = 0;
  for (size_t at; (at = text.find(from, done)) != std::string::npos; done = at + from.size()) {
    out.append(text, done, at - done).append(to);
    CheckDecodedSize(out.size());
  }
  out.append(text, done);
  text = std::move(out);
}

void CleanUpSpaces(std::string& text) {
  static constexpr std::string_view kRules[][2] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& rule : kRules) ReplaceAll(text, rule[0], rule[1]);
}

}  // namespace ullage::llm
