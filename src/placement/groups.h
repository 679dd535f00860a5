/// Groups of nodes that a provider runs as one: whether they can, and in which order the graph then runs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "providers/provider.h"

namespace ullage::placement {

/// An accepted group.
struct NodeGroup {
  const graph::Graph* graph = nullptr;
  size_t device = 0;
  uint64_t proposal = 0;
  providers::Group group;
};

/// Finds the borders of a group from its nodes, which are in topological order. What is read for its shape
/// alone does not leave the group. Returns why the nodes cannot run as one beside the groups there are: their
/// shapes must follow from what comes in, and no node outside may stand between them.
std::optional<std::string> FindBorders(const graph::Graph& graph, std::span<const NodeGroup> groups,
                                       providers::Group* group);

/// Living nodes in an order in which every producer precedes its consumers and the nodes of each group follow
/// one another; the graph's own order where there are no groups.
std::vector<graph::NodeId> GroupedOrder(const graph::Graph& graph, std::span<const NodeGroup> groups);

}  // namespace ullage::placement
