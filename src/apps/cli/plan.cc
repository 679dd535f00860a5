/// ullage plan: where everything goes, before anything is loaded.
#include <iostream>

#include "apps/cli/common.h"
#include "apps/cli/graph_session.h"
#include "core/error.h"

namespace ullage::cli {

int PlanCommand(const std::vector<std::string>& arguments) {
  const Args args(arguments, ModelFlags({"--shape", "--html"}), ModelSwitches({"--nodes"}));
  const ModelOptions options = ReadModelOptions(args);
  if (args.Has("--html")) throw Error(Code::kUnsupported, "--html is not built");
  const llm::ModelSource source = llm::FindModel(args.Model(), options.variant, true);
  const session::PlanReportOptions report{args.Has("--nodes")};
  std::unique_ptr<llm::Decoder> decoder;
  std::unique_ptr<session::Session> plain;
  std::vector<session::Remedy> remedies;
  const session::Session* planned = nullptr;
  if (!args.Has("--shape")) {
    llm::DecoderOptions d = DecoderOptionsOf(options);
    d.plan_only = true;
    try {
      decoder = llm::Decoder::Create(source, d);
      planned = &decoder->session();
      const auto& plan = planned->device_plan();
      if (plan.limit_bytes && plan.tags.Sum() > *plan.limit_bytes) remedies = FindRemedies(source, d);
    } catch (const Error& error) {
      // Not a decoder: planned as a plain graph, if its sizes are bounded.
      if (error.code() != Code::kUnsupported) throw;
    }
  }
  if (!planned) {
    plain = PlanGraph(source, options, args.Values("--shape"));
    planned = plain.get();
  }
  std::cout << (options.json ? session::PlanJson(*planned, remedies, report) + "\n"
                             : session::PlanText(*planned, remedies, report));
  const auto& plan = planned->device_plan();
  return plan.limit_bytes && plan.tags.Sum() > *plan.limit_bytes ? ExitStatus(Code::kDoesNotFit) : 0;
}

}  // namespace ullage::cli
