/// What the commands share: flags of the model, loading, errors, output.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "apps/cli/args.h"
#include "core/read_file.h"
#include "llm/decoder.h"
#include "llm/model_text.h"
#include "session/report.h"

namespace ullage::cli {

/// Flags with a value, and switches, that every command with a model takes.
std::set<std::string> ModelFlags(std::set<std::string> more = {});
std::set<std::string> ModelSwitches(std::set<std::string> more = {});

/// Those flags, checked.
struct ModelOptions {
  OptionBag options;
  int threads = 0;
  std::optional<int64_t> cpu_limit;
  int64_t context = 0;  ///< 0: default; llm::kLargestContext: "auto"
  int64_t chunk = 0;
  std::string variant;
  bool json = false;
};
ModelOptions ReadModelOptions(const Args& args);
/// `tokenizer`, when there is one, is planned and counted with the decoder.
llm::DecoderOptions DecoderOptionsOf(const ModelOptions& options, const llm::Tokenizer* tokenizer);
/// The model's tokenizer; null when it has none, or none that can be used. What loading it took is given
/// back: it is loaded before the model, so that the peak is what stays.
std::shared_ptr<const llm::Tokenizer> TokenizerIfAny(const llm::ModelSource& source);

/// What placement has to say, on stderr.
void PrintWarnings(const session::Session& session);

/// {"error":{…}} on stdout with --json, a line on stderr otherwise. Returns the exit status.
int PrintError(const Error& error, bool json);

/// Text with invalid UTF-8 replaced, as one line of JSON.
std::string Line(const nlohmann::ordered_json& json);

/// Set by SIGINT while a command listens.
extern std::atomic<bool> g_interrupted;
/// SIGINT sets g_interrupted instead of ending the process.
void ListenForInterrupt();

/// Seconds since the process started.
double SecondsSinceStart();

// The commands. Each returns the exit status and throws Error.
int RunCommand(const std::vector<std::string>& arguments);
int PlanCommand(const std::vector<std::string>& arguments);
int InferCommand(const std::vector<std::string>& arguments);
int BenchCommand(const std::vector<std::string>& arguments);
int PerplexityCommand(const std::vector<std::string>& arguments);
int InspectCommand(const std::vector<std::string>& arguments);
int TokenizeCommand(const std::vector<std::string>& arguments);
int DetokenizeCommand(const std::vector<std::string>& arguments);
int TemplateCommand(const std::vector<std::string>& arguments);
int OptionsCommand(const std::vector<std::string>& arguments);
int DevicesCommand(const std::vector<std::string>& arguments);
int VersionCommand(const std::vector<std::string>& arguments);
int PackCommand(const std::vector<std::string>& arguments);

}  // namespace ullage::cli
