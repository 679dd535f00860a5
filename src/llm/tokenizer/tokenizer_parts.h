/// What the loaders put together.
#pragma once

#include <memory>
#include <vector>

#include "llm/tokenizer/added_tokens.h"
#include "llm/tokenizer/decoder.h"
#include "llm/tokenizer/model.h"
#include "llm/tokenizer/normalizer.h"
#include "llm/tokenizer/post_processor.h"
#include "llm/tokenizer/pre_tokenizer.h"
#include "llm/tokenizer/tokenizer.h"

namespace ullage::llm {

/// Only the model is required.
struct TokenizerParts {
  std::vector<AddedToken> added;
  std::unique_ptr<const Normalizer> normalizer;
  std::unique_ptr<const PreTokenizer> pre_tokenizer;
  std::unique_ptr<const Model> model;
  std::unique_ptr<const PostProcessor> post_processor;
  DecodeSteps decoder;
};

/// What matters of a tokenizer_config.json; nullopt where it says nothing.
struct TokenizerConfig {
  std::vector<AddedToken> added;  ///< added_tokens_decoder
  std::optional<bool> add_bos, add_eos, add_prefix_space;
  std::optional<std::string> bos, eos, unknown, cls, sep;
  std::string tokenizer_class;

  /// `bytes` may be empty. Throws Error(kInvalidModel).
  static TokenizerConfig Parse(std::string_view bytes);
  /// Adds the tokens of `added` whose content `parts` lacks.
  void AddMissing(TokenizerParts& parts) const;
};

}  // namespace ullage::llm
