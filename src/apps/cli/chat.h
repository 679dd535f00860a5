/// The conversation in the terminal.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/cli/args.h"
#include "llm/generator.h"
#include "llm/model_text.h"

namespace ullage::cli {

/// Turns messages into prompt tokens with the model's chat template, which is read once.
class ChatPrompter {
 public:
  ChatPrompter(const llm::ModelSource& source, std::shared_ptr<const llm::Tokenizer> tokenizer);
  /// Text of the prompt for the answer to these messages. Throws kUnsupported when the model has no template.
  std::string Render(const nlohmann::ordered_json& messages) const;
  std::vector<int32_t> Encode(const nlohmann::ordered_json& messages) const;

 private:
  llm::ChatSource chat_;
  std::shared_ptr<const llm::Tokenizer> tokenizer_;
};

/// Reads turns until the end of input. Returns the exit status.
int Chat(const Args& args, const llm::ModelSource& source, const ChatPrompter& prompter,
         llm::Decoder& decoder, llm::Generator& generator, llm::GenerateOptions options);

}  // namespace ullage::cli
