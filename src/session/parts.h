/// Split and Slice without copies: results whose bytes lie together inside the input.
#pragma once

#include <cstddef>

#include "graph/graph.h"
#include "shapes/propagate.h"

namespace ullage::session {

inline constexpr size_t kMaxParts = 32;  ///< outputs of a Split that is not copied

/// True for a Split along, or a Slice with step 1 of, the outermost axis that is longer than 1 (ai.onnx
/// Split, Slice): each output is then a run of the input's bytes, in every run within the bounds. False, too,
/// for a slice that would keep a much larger input alive.
bool IsParts(const graph::Node& node, const graph::Graph& graph, const shapes::GraphFacts& facts);

/// The axis of a node for which IsParts holds.
int PartsAxis(const graph::Node& node, const graph::Graph& graph, int rank);

}  // namespace ullage::session
