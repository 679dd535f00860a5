/// Nodes that the host keeps, whatever devices there are.
#pragma once

#include <set>

#include "graph/graph.h"
#include "shapes/propagate.h"

namespace ullage::placement {

/// The node reads the shape of its input, never the contents: any memory will do.
bool ReadsOnlyShape(const graph::Node& node);

/// Nodes of the graph (not of its sub-graphs) that work on shapes, or on a few integers that the host has
/// anyway: a device would only send them back, because shapes are decided on the host.
std::set<graph::NodeId> HostNodes(const graph::Graph& graph, const shapes::GraphFacts& facts);

/// A few rows of a large constant table are read: its bytes are worth more elsewhere than on a device that
/// has not room for all.
bool IsTableLookup(const graph::Graph& graph, const graph::Node& node);

}  // namespace ullage::placement
