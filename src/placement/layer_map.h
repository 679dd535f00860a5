/// Which layer of the network a node belongs to, and in which words the model says so.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace ullage::placement {

/// Layers of the nodes of one graph, by NodeId. Built from a graph as it stands; immutable, thread-safe.
///
/// Sources, in this order: the names of the node and of the nodes it came from; the exporter's metadata; and
/// for names without a path (ONNX Runtime's optimizer numbers its nodes, torch.export too), the names of its
/// results and weights, then the structure: what lies between nodes of one layer belongs to it. Where no name
/// states any layer, caches (`past_key_values.3.key`) and attention operators count them.
class LayerMap {
 public:
  explicit LayerMap(const graph::Graph& graph);

  /// -1: none (embeddings, masks, the output).
  int64_t layer(graph::NodeId id) const { return nodes_[static_cast<size_t>(id)].layer; }
  /// Number of layers, counting from 0 to the highest.
  int64_t layers() const { return layers_; }
  /// The norm behind the last layer that some exporters number like one more layer: it belongs to the output.
  bool is_final_norm(graph::NodeId id) const { return nodes_[static_cast<size_t>(id)].final_norm; }
  /// Words under which rules find a node whose own names say nothing; in the order in which they are tried.
  const std::vector<std::string>& scopes(graph::NodeId id) const {
    return nodes_[static_cast<size_t>(id)].scopes;
  }

 private:
  struct NodeLayer {
    int64_t layer = -1;
    bool final_norm = false;
    bool scopeless = false;
    std::string stack;  ///< "/model/layers."
    std::vector<std::string> scopes;
  };
  void FromTexts(const graph::Graph& graph, const std::vector<graph::NodeId>& order);
  void FindFinalNorms(const graph::Graph& graph, const std::vector<graph::NodeId>& order);
  void FromStructure(const graph::Graph& graph, const std::vector<graph::NodeId>& order);

  std::vector<NodeLayer> nodes_;
  int64_t layers_ = 0;
};

}  // namespace ullage::placement
