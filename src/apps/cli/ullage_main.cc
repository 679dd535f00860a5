#include <algorithm>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "apps/cli/common.h"
#include "core/error.h"
#include "core/options.h"

namespace {

using Command = int (*)(const std::vector<std::string>&);
struct Entry {
  std::string_view name;
  Command run;
  std::string_view doc;
};

constexpr Entry kCommands[] = {
    {"run", ullage::cli::RunCommand, "run MODEL            chat, or one answer with --prompt"},
    {"plan", ullage::cli::PlanCommand,
     "plan MODEL           where everything goes and how many bytes, before loading"},
    {"infer", ullage::cli::InferCommand, "infer MODEL --inputs DIR --outputs DIR   run a graph once"},
    {"bench", ullage::cli::BenchCommand, "bench MODEL          tokens per second, load time, bytes"},
    {"perplexity", ullage::cli::PerplexityCommand, "perplexity MODEL --file TEXT"},
    {"inspect", ullage::cli::InspectCommand, "inspect MODEL        dump a stage, operators, names, tensors"},
    {"tokenize", ullage::cli::TokenizeCommand, "tokenize MODEL --text T"},
    {"detokenize", ullage::cli::DetokenizeCommand, "detokenize MODEL --ids 1,2"},
    {"template", ullage::cli::TemplateCommand, "template MODEL --messages FILE"},
    {"devices", ullage::cli::DevicesCommand, "devices              what may take part"},
    {"options", ullage::cli::OptionsCommand,
     "options              every option key with type, default and meaning"},
    {"pack", ullage::cli::PackCommand, "pack FILE.csv        the offset packer by itself"},
    {"version", ullage::cli::VersionCommand, "version"},
};

void Help(std::ostream& out) {
  out << "usage: ullage COMMAND …\n\n";
  for (const auto& c : kCommands) out << "  ullage " << c.doc << "\n";
  out << "\nMODEL is a folder (onnxruntime-genai or Hugging Face layout), an .onnx or .gguf file, or a name "
         "in the model "
         "store.\n";
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> all(argv + 1, argv + argc);
  if (all.empty() || all[0] == "--help" || all[0] == "-h" || all[0] == "help") {
    Help(all.empty() ? std::cerr : std::cout);
    return all.empty() ? 2 : 0;
  }
  const bool json = std::find(all.begin(), all.end(), "--json") != all.end();
  const std::string name = all[0] == "--version" ? "version" : all[0];
  try {
    for (const auto& c : kCommands)
      if (c.name == name) return c.run({all.begin() + 1, all.end()});
    std::vector<std::string_view> names;
    for (const auto& c : kCommands) names.push_back(c.name);
    ullage::Throw(ullage::Code::kUsage, "unknown command ", name, "; the nearest is ",
                  ullage::Nearest(name, names));
  } catch (const ullage::Error& error) {
    return ullage::cli::PrintError(error, json);
  } catch (const std::bad_alloc&) {
    return ullage::cli::PrintError({ullage::Code::kDoesNotFit, "the machine has no memory left"}, json);
  } catch (const std::exception& error) {
    return ullage::cli::PrintError({ullage::Code::kRuntime, error.what()}, json);
  }
}
