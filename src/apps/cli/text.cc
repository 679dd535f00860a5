/// ullage tokenize, detokenize, template.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/cli/common.h"
#include "core/error.h"
#include "llm/template/template_service.h"
#include "llm/tokenizer/tokenize_service.h"

namespace ullage::cli {

using Json = nlohmann::ordered_json;

namespace {

/// MODEL may be a tokenizer file, a folder, a .gguf or .onnx file, or a name in the store.
std::shared_ptr<const llm::Tokenizer> OpenAny(const std::string& model) {
  namespace fs = std::filesystem;
  std::error_code error;
  const std::string ending = fs::path(model).extension().string();
  const bool model_file = ending == ".gguf" || ending == ".onnx";
  if (fs::is_regular_file(model, error) && !model_file) return llm::OpenTokenizer(model);
  if (fs::is_directory(model, error) && (fs::exists(fs::path(model) / "tokenizer.json", error) ||
                                         fs::exists(fs::path(model) / "tokenizer.model", error) ||
                                         fs::exists(fs::path(model) / "vocab.json", error) ||
                                         fs::exists(fs::path(model) / "vocab.txt", error) ||
                                         fs::exists(fs::path(model) / "spiece.model", error)))
    return llm::OpenTokenizer(model);
  const llm::ModelSource source = llm::FindModel(model, "", true);
  auto tokenizer = llm::LoadTokenizer(source);
  if (!tokenizer) Throw(Code::kInvalidModel, model, " has no tokenizer");
  return tokenizer;
}

void Print(const std::string& answer, bool json, const char* key) {
  if (json) {
    std::cout << answer << "\n";
    return;
  }
  const Json parsed = Json::parse(answer);
  if (parsed.contains(key) && parsed[key].is_string())
    std::cout << parsed[key].get<std::string>() << "\n";
  else
    std::cout << parsed[key].dump() << "\n";
}

/// An answer of a service that is an error becomes one of ours.
std::string Checked(const std::string& answer) {
  const Json parsed = Json::parse(answer);
  if (!parsed.contains("error")) return answer;
  const std::string name = parsed["error"].value("code", "runtime");
  for (Code code : {Code::kUsage, Code::kInvalidModel, Code::kInvalidInput, Code::kUnsupported})
    if (CodeName(code) == name) throw Error(code, parsed["error"].value("message", ""));
  throw Error(Code::kRuntime, parsed["error"].value("message", ""));
}

std::ifstream OpenBatch(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) Throw(Code::kInvalidInput, "cannot read ", path);
  return in;
}

}  // namespace

int TokenizeCommand(const std::vector<std::string>& arguments) {
  const Args args(arguments, {"--text", "--pair", "--batch"}, {"--json", "--no-special"});
  const auto tokenizer = OpenAny(args.Model());
  if (const auto batch = args.Value("--batch")) {
    auto in = OpenBatch(*batch);
    llm::AnswerLines(in, std::cout,
                     [&](std::string_view request) { return llm::AnswerTokenize(*tokenizer, request); });
    return 0;
  }
  const auto text = args.Value("--text");
  if (!text) throw Error(Code::kUsage, "tokenize needs --text or --batch");
  Json request = {{"text", *text}, {"special", !args.Has("--no-special")}};
  if (const auto pair = args.Value("--pair")) request["pair"] = *pair;
  Print(Checked(llm::AnswerTokenize(*tokenizer, Line(request))), args.Has("--json"), "ids");
  return 0;
}

int DetokenizeCommand(const std::vector<std::string>& arguments) {
  const Args args(arguments, {"--ids", "--batch"}, {"--json", "--skip-special"});
  const auto tokenizer = OpenAny(args.Model());
  if (const auto batch = args.Value("--batch")) {
    auto in = OpenBatch(*batch);
    llm::AnswerLines(in, std::cout,
                     [&](std::string_view request) { return llm::AnswerDetokenize(*tokenizer, request); });
    return 0;
  }
  const auto ids = args.Value("--ids");
  if (!ids) throw Error(Code::kUsage, "detokenize needs --ids or --batch");
  const Json request = {{"ids", ParseIds(*ids, "--ids")}, {"skip_special", args.Has("--skip-special")}};
  Print(Checked(llm::AnswerDetokenize(*tokenizer, Line(request))), args.Has("--json"), "text");
  return 0;
}

int TemplateCommand(const std::vector<std::string>& arguments) {
  const Args args(arguments, {"--messages", "--template", "--batch"}, {"--json"});
  llm::ChatSource source;
  if (!args.positional().empty()) source = llm::LoadChatSource(llm::FindModel(args.Model(), "", true));
  if (const auto file = args.Value("--template"))
    source = llm::MakeChatSource(*file, ReadFile(*file), source.special_tokens);
  if (const auto batch = args.Value("--batch")) {
    auto in = OpenBatch(*batch);
    llm::AnswerTemplateLines(source, in, std::cout);
    return 0;
  }
  const auto messages = args.Value("--messages");
  if (!messages) throw Error(Code::kUsage, "template needs --messages FILE or --batch FILE");
  const std::string text = llm::RenderTemplateRequest(source, ReadFile(*messages));
  if (args.Has("--json"))
    std::cout << Line({{"text", text}}) << "\n";
  else
    std::cout << text << "\n";
  return 0;
}

}  // namespace ullage::cli
