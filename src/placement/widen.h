/// Nodes of float16 or bfloat16 on devices that compute in float32 only.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "placement/accountant.h"

namespace ullage::placement {

/// Constants as float32 (graph/widened.h), each once.
class WideWeights {
 public:
  explicit WideWeights(bool reserve) : reserve_(reserve) {}
  const graph::ConstantPtr& Of(const graph::ConstantPtr& source);
  /// All so far: what they are made of, by what they are.
  const std::map<graph::ConstantPtr, graph::ConstantPtr>& sources() const { return sources_; }

 private:
  bool reserve_;
  std::map<std::string, graph::ConstantPtr> wide_;
  std::map<graph::ConstantPtr, graph::ConstantPtr> sources_;
};

/// A node as such a device would run it, alone in a graph of its own: constants are there by type and shape
/// only.
struct WideNode {
  graph::Graph graph;
  shapes::GraphFacts facts;
  NodeRef ref() const { return {&graph, 0}; }
};

/// The node with float32 in place of half types, in inputs and results; results have the bounds that `facts`
/// know. Null where it has none of those, runs sub-graphs, takes the type of a result from an attribute, only
/// looks up rows of a large table, or does not make the same of the other type.
std::unique_ptr<WideNode> Widen(const NodeRef& node, const shapes::GraphFacts& facts, WideWeights* weights);

/// A Cast of such a value, alone in a graph, too.
std::unique_ptr<WideNode> CastOf(const graph::Graph& graph, const ops::ValueFacts& facts, DType to);

}  // namespace ullage::placement
