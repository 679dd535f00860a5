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

namespace ullage::shapes {

/// What is known of every value of a graph, by ValueId, and of the values of its nodes' sub-graphs.
struct GraphFacts {
  std::vector<ops::ValueFacts> values;
  std::map<std::pair<graph::NodeId, std::string>, std::unique_ptr<GraphFacts>> bodies;

  const ops::ValueFacts& of(graph::ValueId v) const { return values[static_cast<size_t>(v)]; }
};

/// Facts for the graph's inputs from its declarations: numbers are exact, labels, "?" and 0 become symbols
/// "<input>.<axis>" with [0, unbounded): equal labels do not prove equal sizes.
std::vector<ops::ValueFacts> DeclaredInputFacts(const graph::Graph& graph, ops::SymbolTable& table);

/// The same, but equal labels are one symbol of that name: for callers that refuse a run in which two such
/// sizes differ. Without it, sizes that the model means to be equal (batch) may each take their own upper
/// end, and graphs that reshape by one of them have bounds that grow from layer to layer. Unlabelled
/// dimensions are as above.
std::vector<ops::ValueFacts> LabelledInputFacts(const graph::Graph& graph, ops::SymbolTable& table);

/// Runs every rule in topological order. `inputs` are facts in the order of graph.inputs, `captures` in the
/// order of graph.capture_values (sub-graphs only). Constants get their exact shape, and their contents when
/// they are small integers whose data are there. The facts of an If's results are the union over its
/// branches; a branch whose condition is known not to hold is left out. Loop and Scan bodies run to a fixed
/// point, or their results become unbounded. Throws what rules throw.
GraphFacts Propagate(const graph::Graph& graph, const std::vector<ops::ValueFacts>& inputs,
                     const std::vector<ops::ValueFacts>& captures, ops::SymbolTable& table);

}  // namespace ullage::shapes
