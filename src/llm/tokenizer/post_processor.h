/// Puts special tokens around and between the sequences of one input.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "llm/tokenizer/token_table.h"

namespace ullage::llm {

/// Tokens with one type id (segment id) for all of them.
struct TokenRun {
  std::vector<TokenId> ids;
  int32_t type_id = 0;
};

/// Immutable and thread-safe.
class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  /// `runs` holds one or two sequences; they are numbered by their type ids and in order. The result may hold
  /// more.
  virtual void Apply(std::vector<TokenRun>& runs, bool add_special) const = 0;
};

/// From the `post_processor` member of a tokenizer.json: TemplateProcessing, BertProcessing,
/// RobertaProcessing, ByteLevel (changes offsets only), Sequence. Null for JSON null. Throws
/// Error(kUnsupported) for another type, Error(kInvalidModel) for wrong parameters.
std::unique_ptr<const PostProcessor> BuildPostProcessor(const nlohmann::json& config);

/// `before` and `after` each sequence.
std::unique_ptr<const PostProcessor> MakeSurroundProcessor(std::vector<TokenId> before,
                                                           std::vector<TokenId> after);

}  // namespace ullage::llm
