/// From messages to the text that a model was trained on: finds a model's chat template and special tokens,
/// and renders. Source of the rules: Hugging Face transformers (apply_chat_template) and onnxruntime-genai.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "llm/template/chat_template.h"

namespace ullage::llm {

/// What a model's files say about chats. Immutable once read; share it freely between threads.
struct ChatSource {
  struct Named {
    std::string name;    ///< "default", "tool_use", "rag"...
    std::string origin;  ///< the file it came from, for messages
    std::string source;
  };
  std::string model;  ///< for messages
  std::vector<Named> templates;
  /// bos_token, eos_token, pad_token, unk_token... as the variables of a template: strings (a list for
  /// additional_special_tokens). Tokens that the model lacks are not here.
  nlohmann::ordered_json special_tokens = nlohmann::ordered_json::object();

  /// The template for a chat: "tool_use" when tools are given and there is one, else "default", else the only
  /// one. Null if there is none.
  const Named* Choose(bool with_tools) const;
};

/// Reads chat_template.jinja (with additional_chat_templates/*.jinja), else chat_template.json, else the
/// chat_template of tokenizer_config.json (text, or a list of names and templates), and the special tokens of
/// tokenizer_config.json and special_tokens_map.json. Files that are not there are passed over; throws
/// kInvalidModel for those that are broken.
ChatSource ReadChatSource(const std::string& folder);
/// A source with one template, for instance from a file's metadata or from --template.
ChatSource MakeChatSource(std::string origin, std::string template_text,
                          nlohmann::ordered_json special_tokens = nlohmann::ordered_json::object());

struct ChatRequest {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools;      ///< null: none
  nlohmann::ordered_json documents;  ///< null: none
  bool add_generation_prompt = true;
  /// More variables (enable_thinking, reasoning_effort...); they win over everything above and the special
  /// tokens.
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  std::optional<LocalTime> now;  ///< default: the clock
  /// Fit the messages to the template: wrap text content into parts, or join text parts, when the template
  /// can only print the other form; merge a system message that the template refuses into the first user
  /// message. Off, messages are rendered as they are.
  bool adapt = true;
};

/// Renders the chat. Throws kInvalidInput when the model has no template (the message says what to do then),
/// and what Template::Parse and Template::Render throw.
std::string ApplyChatTemplate(const ChatSource& source, const ChatRequest& request,
                              const RenderOptions& limits = {});

/// The variables that ApplyChatTemplate renders with, messages not adapted.
nlohmann::ordered_json ChatVariables(const ChatSource& source, const ChatRequest& request);

}  // namespace ullage::llm
