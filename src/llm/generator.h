/// Answers: prompt tokens in, text out, token by token.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llm/decoder.h"
#include "llm/sampler.h"
#include "llm/tokenizer/tokenizer.h"

namespace ullage::llm {

struct GenerateOptions {
  SamplingOptions sampling;
  int64_t max_tokens = -1;  ///< -1: until the context is full
  std::vector<std::string> stop_texts;
};

struct Generation {
  std::string text;                ///< without the stop token and what follows a stop text
  std::vector<int32_t> token_ids;  ///< the stop token included
  std::string finish_reason;       ///< "stop", "length", "interrupted"
  int64_t prompt_tokens = 0;       ///< of the prompt
  int64_t prefilled_tokens = 0;    ///< of those, not found in the caches
  double prefill_s = 0;            ///< prompt to first logits
  double first_token_s = 0;        ///< prompt to first token
  double decode_s = 0;             ///< first token to last
};

/// Generates with one decoder. Not thread-safe. Between the first and the last token nothing is allocated,
/// provided that `on_text` does not.
class Generator {
 public:
  /// `tokenizer` may be null: then there is no text. Ids in `stop_ids` end an answer.
  Generator(Decoder& decoder, std::shared_ptr<const Tokenizer> tokenizer, std::vector<int32_t> stop_ids);

  /// `on_text` gets text as soon as it is certain; never half a code point, never part of a stop text. `stop`
  /// set by another thread or a signal ends the answer ("interrupted"). A prompt that begins like what the
  /// caches hold is only computed from where it differs. Throws kInvalidInput for an empty prompt or one
  /// longer than the context.
  Generation Generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                      const std::function<void(std::string_view)>& on_text = {},
                      const std::atomic<bool>* stop = nullptr);

 private:
  Decoder& decoder_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<int32_t> stop_ids_;
  std::vector<int32_t> history_;
};

}  // namespace ullage::llm
