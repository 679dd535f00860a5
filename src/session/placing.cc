#include "session/placing.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "placement/host_values.h"
#include "session/session.h"

namespace ullage::session {

using placement::NodeRef;
using placement::PlacedGraph;

std::vector<providers::Device> OpenDevices(const SessionSpec& spec) {
  auto devices = placement::ReadDevices(spec.options, spec.providers);
  for (auto& device : devices)
    if (!device.open) device.open = device.provider->Open(device.info);
  return devices;
}

std::unique_ptr<PlacedGraph> PlaceGraph(const SessionSpec& spec, const shapes::GraphFacts& facts, int threads,
                                        const std::vector<providers::Device>& devices,
                                        const std::vector<std::optional<int64_t>>& allowances,
                                        const std::vector<std::string>& output_names) {
  placement::PlaceRequest request;
  request.graph = spec.graph.get();
  request.facts = &facts;
  request.devices = devices;
  request.allowances = allowances;
  request.options = &spec.options;
  request.threads = threads;
  request.model_folder = spec.model_folder;
  const graph::Graph& graph = *spec.graph;
  for (const StateSpec& state : spec.states) {
    request.states.insert(graph.FindValue(state.input));
    for (size_t i = 0; i < graph.outputs.size(); ++i)
      if (output_names[i] == state.output) request.states.insert(graph.outputs[i]);
  }
  return placement::Place(request);
}

Residence FindResidence(const PlacedGraph& placed,
                        std::span<const std::pair<graph::ValueId, graph::ValueId>> states) {
  Residence residence;
  const graph::Graph& graph = placed.graph();
  const size_t host = placed.devices().size() - 1;
  const auto device_of = [&](graph::NodeId id) { return placed.of({&graph, id}).device; };
  for (const auto& [input, output] : states) {
    const graph::Node* writer = graph.ProducerOf(output);
    if (!writer || graph.IsOutput(input) || device_of(writer->id) == host) continue;
    const size_t device = device_of(writer->id);
    const auto& readers = graph.value(input).consumers;
    if (!std::all_of(readers.begin(), readers.end(), [&](graph::NodeId id) {
          const graph::Node& node = graph.node(id);
          return device_of(id) == device || placement::ReadsOnlyShape(node);
        }))
      continue;
    residence.inputs[input] = static_cast<int>(device) + 1;
    residence.outputs.insert(output);
  }
  return residence;
}

std::map<NodeRef, std::optional<int64_t>> DeclaredWorkspaces(const Program& program,
                                                             const shapes::GraphFacts& facts, int threads) {
  std::map<NodeRef, std::optional<int64_t>> declared;
  for (const Step& step : program.steps()) {
    for (const auto& [key, body] : step.bodies)
      if (const auto it = facts.bodies.find({step.node, key}); it != facts.bodies.end())
        declared.merge(DeclaredWorkspaces(*body, *it->second, threads));
    if (!step.kernel) continue;
    for (const auto& member : step.members) declared[{&program.graph(), member.node}] = 0;
    std::vector<ops::ValueFacts> in, out;
    for (graph::ValueId v : step.inputs)
      in.push_back(v == graph::kNone ? ops::ValueFacts{} : facts.of(program.source(v)));
    for (graph::ValueId v : step.outputs) out.push_back(v == graph::kNone ? ops::ValueFacts{} : facts.of(v));
    std::vector<memory::WorkspaceRequirement> slots;
    step.kernel->DeclareWorkspaceRequirements({in, out, threads}, slots);
    bool known = true;
    for (const auto& slot : slots) known = known && slot.status != memory::WorkspaceStatus::kUnknown;
    auto& bytes = declared[{&program.graph(), step.node}];
    if (known) bytes = static_cast<int64_t>(memory::WorkspaceTotal(slots));
  }
  return declared;
}

void VerifyWorkspaces(const Program& program, const shapes::GraphFacts& facts, int threads,
                      const OptionBag& options, PlacedGraph* placed) {
  if (placed->ledger().size() == 0) return;
  const auto v = placed->ledger().Verify(DeclaredWorkspaces(program, facts, threads));
  const bool strict = options.Bool("session.strict_workspace_verification") || options.Bool("session.strict");
  if (!v.larger.empty()) {
    const auto& first = v.larger.front();
    const std::string text =
        StrCat(v.larger.size(), v.larger.size() == 1 ? " kernel declares" : " kernels declare",
               " more workspace than was reserved: ", first.nodes, " ", first.declared, " bytes, reserved ",
               first.reserved, v.larger.size() == 1 ? "" : ", and others");
    if (strict) throw Error(Code::kDoesNotFit, text);
    placed->Warn(text);
  }
  if (v.orphans > 0 && v.orphaned_bytes > 0) {
    const std::string text =
        StrCat(v.orphans, " reservations of ", v.orphaned_bytes, " bytes have lost their nodes");
    if (strict) throw Error(Code::kRuntime, text);
    placed->Warn(text);
  }
}

void AddPlacement(const PlacedGraph& placed, bool nodes, nlohmann::ordered_json* out) {
  using Json = nlohmann::ordered_json;
  const auto& devices = placed.devices();
  const auto name = [&](size_t device) { return devices[device].device.info.name; };
  Json& rules = (*out)["rules"] = Json::array();
  for (const auto& c : placed.coverage()) {
    const auto& rule = placed.rules().rules[c.rule];
    rules.push_back({{"index", c.rule},
                     {"device", rule.device.text},
                     {"pattern", (rule.exact ? "=" : "") + rule.pattern},
                     {"nodes", c.nodes},
                     {"bytes", c.bytes},
                     {"first_nodes", c.first_names}});
  }
  (*out)["unmatched_nodes"] = placed.unmatched_nodes();
  Json& fallbacks = (*out)["fallbacks"] = Json::array();
  for (const auto& f : placed.fallbacks())
    fallbacks.push_back({{"node", f.node->name},
                         {"device", name(f.from)},
                         {"reason", placement::FallbackName(f.kind)},
                         {"message", f.text}});
  (*out)["warnings"] = placed.warnings();
  if (!nodes) return;
  Json& list = (*out)["placement"] = Json::array();
  for (const NodeRef& ref : placed.nodes()) {
    const auto& p = placed.of(ref);
    Json n = {{"node", ref->name},
              {"op", ref->OpName()},
              {"device", name(p.device)},
              {"reason", placement::ReasonName(p.reason)}};
    n["layer"] = p.layer >= 0 ? Json(p.layer) : Json(nullptr);
    if (p.group) n["group"] = *p.group;
    if (p.wide) n["computes_in"] = "float32";
    list.push_back(n);
  }
}

std::string PlacementText(const PlacedGraph& placed, bool nodes) {
  std::string text;
  for (const auto& c : placed.coverage())
    text += StrCat("rule     ", placed.rules().rules[c.rule].ToString(), ": ", c.nodes, " nodes, ",
                   FormatSize(c.bytes), " of weights\n");
  if (!placed.coverage().empty())
    text +=
        StrCat("no rule  ", placed.unmatched_nodes(), placed.unmatched_nodes() == 1 ? " node\n" : " nodes\n");
  for (const auto& warning : placed.warnings()) text += "warning  " + warning + "\n";
  if (nodes) text += "\n" + DumpPlacement(placed);
  return text;
}

std::string DumpPlacement(const PlacedGraph& placed) {
  std::string text;
  for (const NodeRef& ref : placed.nodes()) {
    const auto& p = placed.of(ref);
    text +=
        StrCat("  ", placed.devices()[p.device].device.info.name, "  ", placement::ReasonName(p.reason), "  ",
               ref->OpName(), "  ", ref->name, p.group ? StrCat("  (group ", *p.group, ")") : std::string(),
               p.wide ? "  in float32\n" : "\n");
  }
  return text;
}

}  // namespace ullage::session
