/// Copies of graphs that may be changed while others use the original.
#pragma once

#include <map>
#include <memory>

#include "graph/graph.h"

namespace ullage::graph {

/// A copy with the same numbers of nodes and values, sub-graphs copied, too; constants are shared. `copies`
/// gets the copy of every graph.
std::shared_ptr<Graph> Clone(const Graph& graph, std::map<const Graph*, const Graph*>* copies);

}  // namespace ullage::graph
