/// Casts around nodes that a device runs in float32 in place of a half type.
///
/// A value has one cast, on the device of its reader where that has the kernel, else on the host before it is
/// copied. What such a node makes is cast back where somebody wants the model's type, and handed on as it is
/// to others like it. Constants are converted when a session loads. Nodes keep their numbers, names and
/// reservations; casts carry the names, rule and layer of the node that they serve.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "placement/place.h"

namespace ullage::placement {

struct Casts {
  /// A copy of the placed graph, with casts. Its values are those of the original, and more behind them.
  std::shared_ptr<graph::Graph> graph;
  struct Weight {
    graph::ConstantPtr wide, source;
  };
  std::vector<Weight> weights;  ///< each source once; see graph/widened.h
  int64_t casts = 0;
};

/// Nothing when no node of the placed graph needs it. Otherwise `placed` is one of the copy from now on, and
/// each of `facts`, which are of the original, knows the new values, too. `reserve`: weights have addresses.
std::optional<Casts> InsertCasts(const OptionBag& options, int threads, bool reserve,
                                 std::span<shapes::GraphFacts* const> facts, PlacedGraph* placed);

/// Makes facts those of the original graph again.
void ForgetCasts(const graph::Graph& original, shapes::GraphFacts* facts);

}  // namespace ullage::placement
