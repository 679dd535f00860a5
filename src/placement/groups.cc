#include "placement/groups.h"

#include <algorithm>
#include <map>
#include <queue>

#include "core/error.h"
#include "ops/catalogue.h"
#include "placement/host_values.h"

namespace ullage::placement {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

namespace {

/// Of every node: the group it is in, or -1.
std::vector<int32_t> GroupOfNodes(const Graph& graph, std::span<const NodeGroup> groups) {
  std::vector<int32_t> of(graph.node_slots(), -1);
  for (size_t g = 0; g < groups.size(); ++g)
    if (groups[g].graph == &graph)
      for (NodeId id : groups[g].group.nodes) of[static_cast<size_t>(id)] = static_cast<int32_t>(g);
  return of;
}

template <class Fn>
void ForEachReader(const Graph& graph, const Node& node, const Fn& fn) {
  for (ValueId v : node.outputs)
    if (v != kNone)
      for (NodeId reader : graph.value(v).consumers) fn(v, graph.node(reader));
}

/// A node outside that reads, through others, what the group makes, and that the group reads: null: none.
const Node* Between(const Graph& graph, std::span<const NodeGroup> groups, const std::vector<NodeId>& members,
                    const std::vector<uint8_t>& inside) {
  const std::vector<int32_t> group_of = GroupOfNodes(graph, groups);
  std::vector<uint8_t> seen(graph.node_slots(), 0);
  std::vector<NodeId> open;
  const auto add = [&](const Node& node) {
    if (inside[static_cast<size_t>(node.id)] || seen[static_cast<size_t>(node.id)]) return;
    const auto visit = [&](NodeId id) {
      seen[static_cast<size_t>(id)] = 1;
      open.push_back(id);
    };
    const int32_t g = group_of[static_cast<size_t>(node.id)];
    if (g < 0) return visit(node.id);
    for (NodeId id : groups[static_cast<size_t>(g)].group.nodes) visit(id);
  };
  for (NodeId id : members)
    ForEachReader(graph, graph.node(id), [&](ValueId, const Node& reader) { add(reader); });
  while (!open.empty()) {
    const Node& node = graph.node(open.back());
    open.pop_back();
    const Node* found = nullptr;
    ForEachReader(graph, node, [&](ValueId, const Node& reader) {
      if (inside[static_cast<size_t>(reader.id)])
        found = &node;
      else
        add(reader);
    });
    if (found) return found;
  }
  return nullptr;
}

}  // namespace

std::optional<std::string> FindBorders(const Graph& graph, std::span<const NodeGroup> groups,
                                       providers::Group* group) {
  std::vector<uint8_t> inside(graph.node_slots(), 0);
  for (NodeId id : group->nodes) inside[static_cast<size_t>(id)] = 1;
  const auto made_inside = [&](ValueId v) {
    const Node* producer = graph.ProducerOf(v);
    return producer && inside[static_cast<size_t>(producer->id)];
  };
  group->inputs.clear();
  group->input_on_host.clear();
  group->outputs.clear();
  for (NodeId id : group->nodes) {
    const Node& node = graph.node(id);
    const auto* op = ops::FindOp(node.domain, node.op, node.opset);
    if (!op) return StrCat("nobody knows the shapes of node ", node.name, " (", node.OpName(), ")");
    if (op->stateful || !node.captures.empty())
      return StrCat("node ", node.name, " (", node.OpName(), ") does not run in groups");
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      if (v == kNone) continue;
      const bool decides = i < 32 && (op->reads_values >> i & 1);
      if (made_inside(v)) {
        if (decides)
          return StrCat("value ", graph.value(v).name, " of the group decides the shape of node ", node.name);
        continue;
      }
      const auto at = std::find(group->inputs.begin(), group->inputs.end(), v);
      const auto place = static_cast<size_t>(at - group->inputs.begin());
      if (at == group->inputs.end()) {
        group->inputs.push_back(v);
        group->input_on_host.push_back(false);
      }
      if (decides) group->input_on_host[place] = true;
    }
    for (ValueId v : node.outputs) {
      if (v == kNone) continue;
      const auto& readers = graph.value(v).consumers;
      const bool leaves =
          graph.IsOutput(v) || std::any_of(readers.begin(), readers.end(), [&](NodeId reader) {
            return !inside[static_cast<size_t>(reader)] && !ReadsOnlyShape(graph.node(reader));
          });
      if (leaves) group->outputs.push_back(v);
    }
  }
  if (group->outputs.empty()) return "nobody reads what the group makes";
  if (const Node* node = Between(graph, groups, group->nodes, inside))
    return StrCat("node ", node->name, " stands between the nodes of the group");
  return std::nullopt;
}

std::vector<NodeId> GroupedOrder(const Graph& graph, std::span<const NodeGroup> groups) {
  std::vector<NodeId> order = graph.Order();
  const std::vector<int32_t> group_of = GroupOfNodes(graph, groups);
  if (std::all_of(group_of.begin(), group_of.end(), [](int32_t g) { return g < 0; })) return order;
  // Units: nodes alone, and groups, by the place of their last node.
  std::vector<size_t> unit_of(graph.node_slots(), 0);
  std::vector<std::vector<NodeId>> units;
  std::map<int32_t, size_t> unit_of_group;
  for (NodeId id : order) {
    const int32_t g = group_of[static_cast<size_t>(id)];
    size_t unit = units.size();
    if (g >= 0) unit = unit_of_group.emplace(g, unit).first->second;
    if (unit == units.size()) units.emplace_back();
    units[unit].push_back(id);
    unit_of[static_cast<size_t>(id)] = unit;
  }
  std::vector<size_t> place(units.size(), 0), missing(units.size(), 0);
  for (size_t at = 0; at < order.size(); ++at) place[unit_of[static_cast<size_t>(order[at])]] = at;
  const auto for_each_use = [&](size_t unit, const auto& fn) {
    for (NodeId id : units[unit])
      ForEachReader(graph, graph.node(id), [&](ValueId, const Node& reader) {
        if (const size_t other = unit_of[static_cast<size_t>(reader.id)]; other != unit) fn(other);
      });
  };
  for (size_t u = 0; u < units.size(); ++u) for_each_use(u, [&](size_t other) { ++missing[other]; });
  using Ready = std::pair<size_t, size_t>;  // place, unit
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  for (size_t u = 0; u < units.size(); ++u)
    if (missing[u] == 0) ready.push({place[u], u});
  const size_t count = order.size();
  order.clear();
  while (!ready.empty()) {
    const size_t u = ready.top().second;
    ready.pop();
    order.insert(order.end(), units[u].begin(), units[u].end());
    for_each_use(u, [&](size_t other) {
      if (--missing[other] == 0) ready.push({place[other], other});
    });
  }
  if (order.size() != count) throw Error(Code::kRuntime, "groups of nodes need each other's results");
  return order;
}

}  // namespace ullage::placement
