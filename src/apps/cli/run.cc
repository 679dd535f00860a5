/// ullage run: one answer, or a chat (chat.cc).
#include <unistd.h>

#include <chrono>
#include <future>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "apps/cli/chat.h"
#include "apps/cli/common.h"
#include "core/error.h"
#include "llm/fit.h"
#include "llm/generator.h"

namespace ullage::cli {

using Json = nlohmann::ordered_json;

namespace {

llm::GenerateOptions ReadGenerateOptions(const Args& args, const llm::GenerationDefaults& d) {
  llm::GenerateOptions o;
  const bool asks =
      args.Has("--temperature") || args.Has("--top-k") || args.Has("--top-p") || args.Has("--min-p");
  o.sampling.temperature =
      static_cast<float>(args.Number("--temperature", d.do_sample || asks ? d.temperature : 0));
  if (o.sampling.temperature < 0) Throw(Code::kUsage, "--temperature must not be negative");
  o.sampling.top_k = args.Int("--top-k", d.top_k, 0);
  o.sampling.top_p = static_cast<float>(args.Number("--top-p", d.top_p));
  o.sampling.min_p = static_cast<float>(args.Number("--min-p", d.min_p));
  if (o.sampling.top_p < 0 || o.sampling.top_p > 1) Throw(Code::kUsage, "--top-p must lie in [0, 1]");
  if (o.sampling.min_p < 0 || o.sampling.min_p > 1) Throw(Code::kUsage, "--min-p must lie in [0, 1]");
  o.sampling.repetition_penalty = static_cast<float>(args.Number("--repeat-penalty", d.repetition_penalty));
  if (o.sampling.repetition_penalty <= 0) Throw(Code::kUsage, "--repeat-penalty must be positive");
  o.sampling.seed = args.Has("--seed")
                        ? static_cast<uint64_t>(args.Int("--seed", 0))
                        : static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  o.max_tokens = args.Int("--max-tokens", -1, 0);
  o.stop_texts = args.Values("--stop");
  return o;
}

}  // namespace

int RunCommand(const std::vector<std::string>& arguments) {
  const Args args(arguments,
                  ModelFlags({"--prompt", "--file", "--system", "--max-tokens", "--temperature", "--top-k",
                              "--top-p", "--min-p", "--repeat-penalty", "--seed", "--stop", "--prompt-ids"}),
                  ModelSwitches({"--raw"}));
  const ModelOptions options = ReadModelOptions(args);
  const llm::ModelSource source = llm::FindModel(args.Model(), options.variant, false);
  const llm::GenerateOptions generate = ReadGenerateOptions(args, source.defaults);

  const auto load_start = SecondsSinceStart();
  const bool by_ids = args.Has("--prompt-ids");
  const auto tokenizer = TokenizerIfAny(source);
  if (!tokenizer && !by_ids) {
    llm::LoadTokenizer(source);  // says what is wrong
    Throw(Code::kUnsupported, source.name, " has no tokenizer; give the prompt with --prompt-ids");
  }
  // The decoder loads while the prompt is read.
  auto loading = std::async(std::launch::async, [&] {
    return llm::CreateFitting(source, DecoderOptionsOf(options, tokenizer.get()));
  });
  std::vector<int32_t> prompt;
  std::string text;
  bool chat = false;
  if (by_ids) {
    prompt = ParseIds(*args.Value("--prompt-ids"), "--prompt-ids");
  } else {
    if (const auto p = args.Value("--prompt"))
      text = *p;
    else if (const auto f = args.Value("--file"))
      text = ReadFile(*f);
    else if (!isatty(STDIN_FILENO))
      text = std::string(std::istreambuf_iterator<char>(std::cin), {});
    else
      chat = true;
  }
  std::optional<ChatPrompter> prompter;
  if (chat || (!by_ids && !args.Has("--raw"))) prompter.emplace(source, tokenizer);
  if (!by_ids && !chat) {
    if (!prompter) {
      prompt = tokenizer->Encode(text, true);
    } else {
      Json messages = Json::array();
      if (const auto system = args.Value("--system"))
        messages.push_back({{"role", "system"}, {"content", *system}});
      messages.push_back({{"role", "user"}, {"content", text}});
      prompt = prompter->Encode(messages);
    }
  }
  const auto decoder = loading.get();
  PrintWarnings(decoder->session());
  llm::Generator generator(*decoder, tokenizer, source.stop_ids);
  const double load_s = SecondsSinceStart() - load_start;
  ListenForInterrupt();
  if (chat) return Chat(args, source, *prompter, *decoder, generator, generate);

  const double before = SecondsSinceStart();
  const auto print = [&](std::string_view piece) {
    if (!options.json) std::cout << piece << std::flush;
  };
  const llm::Generation g = generator.Generate(prompt, generate, print, &g_interrupted);
  if (options.json) {
    const auto decoded = static_cast<double>(g.token_ids.size()) - 1;
    Json out;
    out["text"] = g.text;
    out["token_ids"] = g.token_ids;
    out["prompt_ids"] = prompt;
    out["finish_reason"] = g.finish_reason;
    out["prompt_tokens"] = g.prompt_tokens;
    out["generated_tokens"] = g.token_ids.size();
    out["timings"] = {{"load_s", load_s},
                      {"prefill_s", g.prefill_s},
                      {"first_token_s", before + g.first_token_s},
                      {"decode_s", g.decode_s},
                      {"prefill_tokens_per_s",
                       g.prefill_s > 0 ? static_cast<double>(g.prefilled_tokens) / g.prefill_s : 0.0},
                      {"decode_tokens_per_s", g.decode_s > 0 && decoded > 0 ? decoded / g.decode_s : 0.0}};
    out["memory"] = Json::parse(session::MemoryJson(decoder->session()));
    std::cout << Line(out) << "\n";
  } else {
    std::cout << "\n";
  }
  return g.finish_reason == "interrupted" ? ExitStatus(Code::kInterrupted) : 0;
}

}  // namespace ullage::cli
