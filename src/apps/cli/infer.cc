/// ullage infer: a graph once, or a batch of them.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/cli/common.h"
#include "apps/cli/graph_session.h"
#include "core/error.h"

namespace ullage::cli {

using Json = nlohmann::ordered_json;

namespace {

/// Returns what `run` prints under "memory".
std::string InferOnce(const std::string& model, const std::string& inputs_dir, const std::string& outputs_dir,
                      const ModelOptions& options, const GraphRequest& request,
                      memory::NodeStatsTable* stats) {
  const llm::ModelSource source = llm::FindModel(model, options.variant, false);
  std::string memory;
  onnx::FileForm form = onnx::FileForm::kProtobuf;
  const auto read = [&](const graph::Graph& graph) {
    auto inputs = onnx::ReadInputsFolder(inputs_dir, graph);
    form = inputs.form;
    return std::move(inputs.values);
  };
  const auto outputs = RunGraph(source, options, read, request, &memory, stats);
  onnx::WriteOutputsFolder(outputs_dir, form, outputs);
  return memory;
}

std::string OneLine(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return text;
}

int Batch(const std::string& file, const ModelOptions& options, const GraphRequest& request,
          memory::NodeStatsTable* stats) {
  std::istringstream lines(ReadFile(file));
  std::string line;
  int64_t number = 0;
  while (std::getline(lines, line)) {
    if (line.empty()) continue;
    std::vector<std::string> parts;
    std::istringstream fields(line);
    for (std::string part; std::getline(fields, part, '\t');) parts.push_back(part);
    if (parts.size() != 3)
      Throw(Code::kUsage, file, ": line ", number + 1, ": expected MODEL, INPUTS and OUTPUTS between tabs");
    std::string status = "ok", message;
    Json code = nullptr;
    const auto failed = [&](Code c, const std::string& text) {
      status = c == Code::kUnsupported ? "unsupported" : "error";
      code = CodeName(c);
      message = OneLine(text);
    };
    try {
      InferOnce(parts[0], parts[1], parts[2], options, request, stats);
    } catch (const Error& error) {
      failed(error.code(), error.message());
    } catch (const std::bad_alloc&) {
      failed(Code::kDoesNotFit, "the machine has no memory left");
    } catch (const std::exception& error) {
      failed(Code::kRuntime, error.what());
    }
    std::error_code ignored;
    std::filesystem::create_directories(parts[2], ignored);
    std::ofstream(std::filesystem::path(parts[2]) / "status")
        << status << (message.empty() ? "" : " ") << message << "\n";
    std::cout << Line({{"case", number}, {"status", status}, {"code", code}, {"message", message}})
              << std::endl;
    ++number;
  }
  return 0;
}

}  // namespace

int InferCommand(const std::vector<std::string>& arguments) {
  const Args args(arguments,
                  ModelFlags({"--inputs", "--outputs", "--batch", "--fetch", "--shape", "--profile-csv"}),
                  ModelSwitches());
  const ModelOptions options = ReadModelOptions(args);
  const auto profile = args.Value("--profile-csv");
  memory::NodeStatsTable table;
  memory::NodeStatsTable* const stats = profile ? &table : nullptr;
  const auto save = [&] {
    if (profile)
      memory::WriteNodeStats(*profile, table,
                             options.options.Bool("session.collect_node_memory_stats_live_peak"));
  };
  const GraphRequest request{args.Values("--shape"), args.Values("--fetch")};
  if (const auto batch = args.Value("--batch")) {
    const int status = Batch(*batch, options, request, stats);
    save();
    return status;
  }
  const auto inputs = args.Value("--inputs"), outputs = args.Value("--outputs");
  if (!inputs || !outputs) throw Error(Code::kUsage, "infer needs --inputs DIR and --outputs DIR");
  const std::string memory = InferOnce(args.Model(), *inputs, *outputs, options, request, stats);
  save();
  if (options.json) std::cout << Line({{"status", "ok"}, {"memory", Json::parse(memory)}}) << "\n";
  return 0;
}

}  // namespace ullage::cli
