/// Cuts normalized text into the pieces that the model sees.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "llm/tokenizer/regex.h"

namespace ullage::llm {

/// Pieces of a text, in order and not empty. A stage may also rewrite the text.
struct Pieces {
  struct Span {
    uint32_t begin, end;
  };
  std::string text;
  std::vector<Span> spans;
  bool from_start = false;  ///< the text comes from the beginning of the whole input
  /// Bytes that the text may grow to, at most 2^32 - 1; growing further throws Error(kInvalidInput).
  size_t limit = 0;

  std::string_view Text(const Span& span) const {
    return std::string_view(text).substr(span.begin, span.end - span.begin);
  }
  /// Appends a text and a piece that is that text.
  void AddText(std::string_view piece);
};

/// Immutable and thread-safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// `spare` is a buffer of the caller; what it holds does not matter.
  virtual void Apply(Pieces& pieces, Pieces& spare) const = 0;
};

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// Split by a regular expression; `invert`: matches and gaps change places.
std::unique_ptr<const PreTokenizer> MakeRegexSplit(Regex regex, SplitBehavior behavior, bool invert);
/// The byte alphabet, after GPT-2's expression if `use_regex`.
std::unique_ptr<const PreTokenizer> MakeByteLevel(bool add_prefix_space, bool use_regex);
std::unique_ptr<const PreTokenizer> MakeSequence(std::vector<std::unique_ptr<const PreTokenizer>> parts);

/// From the `pre_tokenizer` member of a tokenizer.json: Sequence, Split, ByteLevel, Metaspace, Whitespace,
/// WhitespaceSplit, BertPreTokenizer, Digits, Punctuation, CharDelimiterSplit, FixedLength. Null for JSON
/// null. Throws Error(kUnsupported) for another type, Error(kInvalidModel) for wrong parameters.
std::unique_ptr<const PreTokenizer> BuildPreTokenizer(const nlohmann::json& config);

/// GPT-2's expression.
extern const char kGpt2Pattern[];

}  // namespace ullage::llm
