/// ullage plan: where everything goes, before anything is loaded.
#include <fstream>
#include <iostream>

#include "apps/cli/common.h"
#include "apps/cli/graph_session.h"
#include "core/error.h"
#include "llm/fit.h"

namespace ullage::cli {

int PlanCommand(const std::vector<std::string>& arguments) {
  const Args args(arguments, ModelFlags({"--shape", "--html"}), ModelSwitches({"--nodes"}));
  const ModelOptions options = ReadModelOptions(args);
  const llm::ModelSource source = llm::FindModel(args.Model(), options.variant, true);
  session::PlanReportOptions report;
  report.nodes = args.Has("--nodes");
  std::unique_ptr<llm::Decoder> decoder;
  std::unique_ptr<session::Session> plain;
  std::vector<session::Remedy> remedies;
  const session::Session* planned = nullptr;
  if (!args.Has("--shape")) {
    try {
      const llm::DecoderOptions d = DecoderOptionsOf(options, TokenizerIfAny(source).get());
      decoder = llm::PlanFitting(source, d, &remedies);
      planned = &decoder->session();
      report.context = decoder->context();
      report.chunk = decoder->chunk();
    } catch (const Error& error) {
      // Not a decoder: planned as a plain graph, if its sizes are bounded.
      if (error.code() != Code::kUnsupported || error.message().rfind("strict mode", 0) == 0) throw;
    }
  }
  if (!planned) {
    plain = PlanGraph(source, options, args.Values("--shape"), &remedies);
    planned = plain.get();
  }
  PrintWarnings(*planned);
  if (const auto file = args.Value("--html")) {
    const auto changes = decoder ? llm::OtherBounds(*decoder) : std::vector<session::Remedy>();
    std::ofstream out(*file, std::ios::binary);
    out << session::PlanHtml(*planned, remedies, changes, report);
    out.close();
    if (!out) Throw(Code::kRuntime, "cannot write ", *file);
  }
  std::cout << (options.json ? session::PlanJson(*planned, remedies, report) + "\n"
                             : session::PlanText(*planned, remedies, report));
  return planned->fits() ? 0 : ExitStatus(Code::kDoesNotFit);
}

}  // namespace ullage::cli
