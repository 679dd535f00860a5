/// Nodes that work on each row by itself: a row is all that lies along the last dimension.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "graph/graph.h"
#include "ops/shape_context.h"

namespace ullage::shapes {

/// The inputs that a node reads row by row: row r of every output depends on row r of these, which all have
/// the same rows as the outputs, and on the whole of the other inputs, which are constants. Empty for any
/// other node. Sources: ONNX operator specification; com.microsoft contrib operators. `facts` may answer less
/// than is known.
std::vector<size_t> RowInputs(const graph::Graph& graph, const graph::Node& node,
                              const std::function<const ops::ValueFacts&(graph::ValueId)>& facts);

}  // namespace ullage::shapes
