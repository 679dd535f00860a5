#include "graph/clone.h"

namespace ullage::graph {

std::shared_ptr<Graph> Clone(const Graph& graph, std::map<const Graph*, const Graph*>* copies) {
  auto copy = std::make_shared<Graph>();
  copy->opsets = graph.opsets;
  // First the names, so that what is added later avoids them; then everything as it is.
  for (size_t i = 0; i < graph.value_count(); ++i) copy->AddValue(graph.value(static_cast<ValueId>(i)).name);
  for (size_t i = 0; i < graph.node_slots(); ++i) {
    const Node& node = graph.node(static_cast<NodeId>(i));
    copy->AddNode(node.domain, node.op, node.name, {}, {});
  }
  for (size_t i = 0; i < graph.value_count(); ++i)
    copy->value(static_cast<ValueId>(i)) = graph.value(static_cast<ValueId>(i));
  for (size_t i = 0; i < graph.node_slots(); ++i) {
    Node& node = copy->node(static_cast<NodeId>(i));
    node = graph.node(static_cast<NodeId>(i));
    if (!node.alive) continue;
    for (auto& [key, attribute] : node.attributes) {
      if (auto* one = std::get_if<std::shared_ptr<Graph>>(&attribute)) {
        if (*one) *one = Clone(**one, copies);
      } else if (auto* many = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute)) {
        for (auto& g : *many)
          if (g) g = Clone(*g, copies);
      }
    }
  }
  copy->name = graph.name;
  copy->inputs = graph.inputs;
  copy->outputs = graph.outputs;
  copy->capture_values = graph.capture_values;
  copy->capture_names = graph.capture_names;
  copy->metadata = graph.metadata;
  copy->log = graph.log;
  (*copies)[&graph] = copy.get();
  return copy;
}

}  // namespace ullage::graph
