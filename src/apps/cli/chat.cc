#include "apps/cli/chat.h"

#include <editline/readline.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/cli/common.h"
#include "core/error.h"

namespace ullage::cli {

using Json = nlohmann::ordered_json;

ChatPrompter::ChatPrompter(const llm::ModelSource& source, std::shared_ptr<const llm::Tokenizer> tokenizer)
    : chat_(llm::LoadChatSource(source)), tokenizer_(std::move(tokenizer)) {}

std::string ChatPrompter::Render(const Json& messages) const {
  llm::ChatRequest request;
  request.messages = messages;
  return llm::ApplyChatTemplate(chat_, request);
}

std::vector<int32_t> ChatPrompter::Encode(const Json& messages) const {
  return tokenizer_->Encode(Render(messages), false);
}

namespace {

constexpr const char* kHelp =
    "/help            this list\n"
    "/system TEXT     sets the system message and starts over\n"
    "/clear           forgets the conversation\n"
    "/context         tokens in the caches and in all\n"
    "/plan            where the memory went\n"
    "/bye             leaves; so does the end of input\n"
    "Ctrl-C stops an answer and keeps the chat.\n";

/// Messages that fit: the oldest turns go first, the system message and the last question stay.
std::vector<int32_t> FitPrompt(const ChatPrompter& prompter, Json* messages, int64_t context,
                               int64_t* dropped) {
  *dropped = 0;
  for (;;) {
    std::vector<int32_t> prompt = prompter.Encode(*messages);
    // Room for an answer: a quarter of the context, at most 512 tokens.
    const int64_t wanted = std::min<int64_t>(512, context / 4);
    if (static_cast<int64_t>(prompt.size()) + wanted <= context) return prompt;
    const size_t first = !messages->empty() && (*messages)[0]["role"] == "system" ? 1 : 0;
    if (messages->size() < first + 3) return prompt;
    messages->erase(messages->begin() + static_cast<int64_t>(first),
                    messages->begin() + static_cast<int64_t>(first) + 2);
    *dropped += 2;
  }
}

std::string HistoryFile() {
  const char* home = std::getenv("HOME");
  return std::string(home ? home : ".") + "/.ullage/history";
}

}  // namespace

int Chat(const Args& args, const llm::ModelSource& source, const ChatPrompter& prompter,
         llm::Decoder& decoder, llm::Generator& generator, llm::GenerateOptions options) {
  Json messages = Json::array();
  std::string system = args.Value("--system").value_or("");
  const auto reset = [&] {
    messages = Json::array();
    if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  };
  reset();
  {
    Json probe = messages;
    probe.push_back({{"role", "user"}, {"content", "hello"}});
    prompter.Render(probe);  // a model without a template is refused before the first question
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(HistoryFile()).parent_path(), error);
  using_history();
  read_history(HistoryFile().c_str());
  std::cerr << source.name << ", context " << decoder.context() << " tokens, ";
  for (const auto& plan : decoder.session().device_plans())
    if (plan.tags.Sum() > 0) std::cerr << FormatSize(plan.tags.Sum()) << " on " << plan.name << ", ";
  std::cerr << "reserved. /help lists the commands.\n";
  for (;;) {
    g_interrupted.store(false);
    char* raw = readline(">>> ");
    if (!raw) {
      if (g_interrupted.load()) {
        std::cout << "\n";
        continue;
      }
      break;
    }
    std::string line(raw);
    std::free(raw);
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t')) line.pop_back();
    if (line.empty()) continue;
    add_history(line.c_str());
    if (line[0] == '/') {
      const std::string command = line.substr(0, line.find(' '));
      const std::string rest = line.size() > command.size() ? line.substr(command.size() + 1) : "";
      if (command == "/help")
        std::cout << kHelp;
      else if (command == "/bye" || command == "/exit" || command == "/quit")
        break;
      else if (command == "/clear")
        reset();
      else if (command == "/system") {
        system = rest;
        reset();
      } else if (command == "/context") {
        std::cout << decoder.tokens().size() << " of " << decoder.context() << " tokens\n";
      } else if (command == "/plan") {
        std::cout << session::PlanText(decoder.session(), {}, {});
      } else {
        std::cout << "unknown command " << command << "; /help lists the commands\n";
      }
      continue;
    }
    messages.push_back({{"role", "user"}, {"content", line}});
    try {
      int64_t dropped = 0;
      const auto prompt = FitPrompt(prompter, &messages, decoder.context(), &dropped);
      if (dropped > 0)
        std::cerr << "(the context is full: the " << dropped << " oldest messages were dropped)\n";
      const auto g = generator.Generate(
          prompt, options, [](std::string_view piece) { std::cout << piece << std::flush; }, &g_interrupted);
      std::cout << "\n";
      if (g.finish_reason == "length") std::cerr << "(stopped at the limit of tokens)\n";
      messages.push_back({{"role", "assistant"}, {"content", g.text}});
    } catch (const Error& e) {
      messages.erase(messages.end() - 1);
      std::cerr << "ullage: " << e.message() << "\n";
    }
  }
  write_history(HistoryFile().c_str());
  if (isatty(STDOUT_FILENO)) std::cout << "\n";
  return 0;
}

}  // namespace ullage::cli
