#include "graph/patch.h"

#include <algorithm>

#include "core/error.h"

namespace ullage::graph {

Patch::~Patch() {
  Commit();
}

Node& Patch::Add(std::string_view domain, std::string_view op, std::string_view suffix,
                 std::vector<ValueId> inputs, std::vector<ValueId> outputs, const std::vector<NodeId>& from) {
  if (from.empty()) Throw(Code::kRuntime, "pass ", pass_, " adds a ", op, " node that stands for no node");
  std::string name = graph_.node(from.front()).name;
  if (!suffix.empty()) name += "/" + std::string(suffix);
  Node& added = graph_.AddNode(domain, op, name, std::move(inputs), std::move(outputs));
  added.provenance.clear();
  for (NodeId id : from) {
    const Node& source = graph_.node(id);
    for (const auto& p : source.provenance)
      if (std::find(added.provenance.begin(), added.provenance.end(), p) == added.provenance.end())
        added.provenance.push_back(p);
    if (added.annotation.empty()) added.annotation = source.annotation;
    added.metadata.insert(source.metadata.begin(), source.metadata.end());
  }
  mutation_.added.push_back(added.id);
  return added;
}

ValueId Patch::NewValue(std::string_view name, DType dtype) {
  return graph_.AddValue(name, dtype);
}

ValueId Patch::NewConstant(std::string_view name, ConstantPtr constant) {
  return graph_.AddConstant(name, std::move(constant));
}

void Patch::Remove(NodeId node) {
  graph_.RemoveNode(node);
  mutation_.removed.push_back(node);
}

void Patch::Commit() {
  if (mutation_.added.empty() && mutation_.removed.empty()) return;
  mutation_.pass = pass_;
  graph_.log.push_back(std::move(mutation_));
  mutation_ = {};
}

size_t RemoveDeadNodes(Graph& graph) {
  size_t removed = 0;
  Patch patch(graph, "dead-nodes");
  auto order = graph.Order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Node& n = graph.node(*it);
    const bool used = std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) {
      return v != kNone && (!graph.value(v).consumers.empty() || graph.IsOutput(v));
    });
    if (!used) {
      patch.Remove(*it);
      ++removed;
    }
  }
  return removed;
}

}  // namespace ullage::graph
