/// The only way in which a pass changes a graph.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace ullage::graph {

/// One rewrite: nodes go, nodes come. Changes take effect at once; Commit() writes the mutation log entry. A
/// node that is added carries the provenance names, annotation and metadata of all nodes it stands for, and a
/// name that contains the name of the first of them, so that placement rules on names keep matching.
class Patch {
 public:
  /// `pass` is the name under which the log knows the change.
  Patch(Graph& graph, std::string_view pass) : graph_(graph), pass_(pass) {}
  /// Commits what was not committed.
  ~Patch();
  Patch(const Patch&) = delete;
  Patch& operator=(const Patch&) = delete;

  /// A node of `domain`:`op` in place of `from` (at least one node; dead or alive). Its name is the first
  /// one's name, plus "/" and `suffix` unless that is empty. The opset is the graph's for the domain. Outputs
  /// must have no producer (release it with Remove or Detach first).
  Node& Add(std::string_view domain, std::string_view op, std::string_view suffix,
            std::vector<ValueId> inputs, std::vector<ValueId> outputs, const std::vector<NodeId>& from);
  ValueId NewValue(std::string_view name, DType dtype);
  ValueId NewConstant(std::string_view name, ConstantPtr constant);
  /// Removes the node; its outputs lose their producer.
  void Remove(NodeId node);
  void ReplaceUses(ValueId from, ValueId to) { graph_.ReplaceUses(from, to); }
  void SetInput(Node& node, size_t index, ValueId value) { graph_.SetInput(node, index, value); }
  void Commit();

  Graph& graph() { return graph_; }

 private:
  Graph& graph_;
  std::string pass_;
  Mutation mutation_;
};

/// Removes nodes without side effects whose outputs nobody uses, repeatedly. Returns how many went.
size_t RemoveDeadNodes(Graph& graph);

}  // namespace ullage::graph
