/// Placement within the life of a session: from options to a placed graph, and what is verified later.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "placement/place.h"
#include "session/program.h"

namespace ullage::session {

struct SessionSpec;

/// The devices that take part by the spec's options, ready for use.
std::vector<providers::Device> OpenDevices(const SessionSpec& spec);

/// Places the spec's graph on the devices by its options, within the allowances (by device; empty: the
/// limits). `facts`: the union over the profiles; `output_names`: of the graph's outputs, as the spec calls
/// them. Throws what placement::Place throws.
std::unique_ptr<placement::PlacedGraph> PlaceGraph(const SessionSpec& spec, const shapes::GraphFacts& facts,
                                                   int threads, const std::vector<providers::Device>& devices,
                                                   const std::vector<std::optional<int64_t>>& allowances,
                                                   const std::vector<std::string>& output_names);

/// States (graph input, graph output) that stay on the device that makes them, because nobody else reads
/// them.
Residence FindResidence(const placement::PlacedGraph& placed,
                        std::span<const std::pair<graph::ValueId, graph::ValueId>> states);

/// What every kernel declares, for the largest shapes within the facts; nothing where it cannot say.
std::map<placement::NodeRef, std::optional<int64_t>> DeclaredWorkspaces(const Program& program,
                                                                        const shapes::GraphFacts& facts,
                                                                        int threads);

/// Level 2: compares the declarations with what was reserved when nodes were placed. An excess is a warning
/// and, with `session.strict_workspace_verification` or `session.strict`, throws kDoesNotFit naming the
/// nodes. Does nothing where no costs were counted.
void VerifyWorkspaces(const Program& program, const shapes::GraphFacts& facts, int threads,
                      const OptionBag& options, placement::PlacedGraph* placed);

/// "rules", "unmatched_nodes", "fallbacks" and "warnings" of the plan's JSON, with `nodes` "placement", too.
void AddPlacement(const placement::PlacedGraph& placed, bool nodes, nlohmann::ordered_json* out);
/// The same as text: a line per rule, per warning and, with `nodes`, per node.
std::string PlacementText(const placement::PlacedGraph& placed, bool nodes);
/// Stable text, one line per node: device, reason, operator, name (`inspect --stage=placed`).
std::string DumpPlacement(const placement::PlacedGraph& placed);

}  // namespace ullage::session
