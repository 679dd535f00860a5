/// Propagates the bound rules over a graph.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "ops/catalogue.h"
#include "ops/shape_context.h"
#include "shapes/input_bounds.h"

namespace ullage::shapes {

/// What is known of every value of a graph, by ValueId, and of the values of its nodes' sub-graphs.
struct GraphFacts {
  std::vector<ops::ValueFacts> values;
  std::map<std::pair<graph::NodeId, std::string>, std::unique_ptr<GraphFacts>> bodies;
  /// Branches of Ifs that no valid run takes, although the condition is not known, and why; they have no
  /// facts.
  std::map<std::pair<graph::NodeId, std::string>, std::string> refused;

  const ops::ValueFacts& of(graph::ValueId v) const { return values[static_cast<size_t>(v)]; }
};

/// Runs every rule in topological order. `inputs` are facts in the order of graph.inputs, `captures` in the
/// order of graph.capture_values (sub-graphs only). Constants get their exact shape, and their contents when
/// they are small integers whose data are there. The facts of an If's results are the union over its
/// branches; a branch whose condition is known not to hold is left out, and so is one that cannot be valid
/// for the shapes, or whose results have another rank than the other's and make what follows invalid: a run
/// that takes it has to be refused. Loop and Scan bodies run to a fixed point, or their results become
/// unbounded. Throws what rules throw.
GraphFacts Propagate(const graph::Graph& graph, const std::vector<ops::ValueFacts>& inputs,
                     const std::vector<ops::ValueFacts>& captures, ops::SymbolTable& table);

}  // namespace ullage::shapes
