/// ullage inspect: stages as stable text, operators, names, tensors.
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/cli/common.h"
#include "apps/cli/graph_session.h"
#include "core/error.h"
#include "session/placing.h"

namespace ullage::cli {

using Json = nlohmann::ordered_json;

namespace {

void CountOps(const graph::Graph& g, std::map<std::string, int>* counts) {
  for (graph::NodeId id : g.Order()) {
    const graph::Node& n = g.node(id);
    ++(*counts)[n.OpName()];
    for (const auto& [key, a] : n.attributes)
      if (const auto* body = std::get_if<std::shared_ptr<graph::Graph>>(&a)) CountOps(**body, counts);
  }
}

void DumpProgram(const session::Session& s) {
  const auto device = [&](int number) { return s.device_plans()[s.plan_of(number)].name; };
  const bool devices = s.program().uses_devices();
  s.program().ForEachStep([&](const session::Program& p, const session::Step& step) {
    const std::string where = devices ? device(step.device) + "  " : "";
    std::cout << session::KindName(step.kind) << "  " << where;
    if (step.kind == session::Step::Kind::kCopy) {
      std::cout << p.name(step.inputs[0]) << " to " << device(p.device(step.outputs[0])) << "\n";
      return;
    }
    const auto& node = p.graph().node(step.node);
    std::cout << node.OpName() << "  " << node.name << "\n";
  });
}

void DumpPlan(const session::Session& s) {
  for (const auto& p : s.profile_plans())
    for (size_t d = 0; d < p.plan->arenas.size(); ++d) {
      const auto& arena = p.plan->arenas[d];
      if (d > 0 && arena.bytes == 0) continue;
      std::cout << "profile " << p.name << ": ";
      if (s.program().uses_devices())
        std::cout << s.device_plans()[s.plan_of(static_cast<int>(d))].name << ": ";
      std::cout << arena.bytes << " bytes, at least " << arena.lower_bound << "\n";
      for (const auto& item : p.plan->items)
        if (item.device == static_cast<int>(d))
          std::cout << "  [" << item.offset << ", " << item.offset + item.bytes << ")  steps [" << item.first
                    << ", " << item.last << ")  " << item.tag << "  " << item.name << "\n";
    }
}

}  // namespace

int InspectCommand(const std::vector<std::string>& arguments) {
  const Args args(arguments, ModelFlags({"--stage", "--shape"}),
                  ModelSwitches({"--ops", "--names", "--tensors"}));
  const ModelOptions options = ReadModelOptions(args);
  const llm::ModelSource source = llm::FindModel(args.Model(), options.variant, true);
  const std::string stage = args.Value("--stage").value_or("import");
  const auto graph = llm::LoadGraph(source, true, options.context);
  if (args.Has("--ops")) {
    std::map<std::string, int> counts;
    CountOps(*graph, &counts);
    if (options.json) {
      std::cout << Line(Json(counts)) << "\n";
    } else {
      for (const auto& [op, n] : counts) std::cout << n << "  " << op << "\n";
    }
    return 0;
  }
  if (args.Has("--names")) {
    for (graph::NodeId id : graph->Order()) std::cout << graph->node(id).name << "\n";
    return 0;
  }
  if (args.Has("--tensors")) {
    for (size_t v = 0; v < graph->value_count(); ++v) {
      const auto* c = graph->ConstantOf(static_cast<graph::ValueId>(v));
      if (!c) continue;
      std::cout << graph->value(static_cast<graph::ValueId>(v)).name << "  "
                << (c->block_type.empty() ? std::string(NameOf(c->dtype)) : c->block_type)
                << c->shape.ToString() << "  " << c->size_bytes << "\n";
    }
    return 0;
  }
  if (stage == "import") {
    std::cout << graph::Dump(*graph);
    return 0;
  }
  if (stage != "level1" && stage != "placed" && stage != "program" && stage != "plan")
    Throw(Code::kUsage, "--stage: expected import, level1, placed, program or plan, found ", stage);
  std::unique_ptr<llm::Decoder> decoder;
  std::unique_ptr<session::Session> plain;
  const session::Session* s = nullptr;
  if (!args.Has("--shape")) {
    try {
      llm::DecoderOptions d = DecoderOptionsOf(options, TokenizerIfAny(source).get());
      d.plan_only = true;
      decoder = llm::Decoder::Create(source, d);
      s = &decoder->session();
    } catch (const Error& error) {
      if (error.code() != Code::kUnsupported) throw;
    }
  }
  if (!s) {
    plain = PlanGraph(source, options, args.Values("--shape"));
    s = plain.get();
  }
  if (stage == "placed")
    std::cout << session::DumpPlacement(s->placed());
  else if (stage == "program")
    DumpProgram(*s);
  else if (stage == "plan")
    DumpPlan(*s);
  else
    std::cout << graph::Dump(s->graph());
  return 0;
}

}  // namespace ullage::cli
