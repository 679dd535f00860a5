#include <algorithm>
#include <map>

#include "core/error.h"
#include "graph/graph.h"

namespace ullage::graph {

void Verify(const Graph& graph) {
  auto fail = [&](const auto&... parts) { Throw(Code::kInvalidModel, "graph ", graph.name, ": ", parts...); };
  const auto in_range = [&](ValueId v) { return v >= 0 && static_cast<size_t>(v) < graph.value_count(); };
  std::map<std::pair<ValueId, NodeId>, int> uses;
  std::vector<NodeId> producer(graph.value_count(), kNone);
  for (size_t i = 0; i < graph.node_slots(); ++i) {
    const Node& n = graph.node(static_cast<NodeId>(i));
    if (!n.alive) continue;
    for (const auto* list : {&n.inputs, &n.captures}) {
      for (ValueId v : *list) {
        if (v == kNone) continue;
        if (!in_range(v)) fail("node ", n.name, " reads a value that does not exist");
        const Value& value = graph.value(v);
        if (value.producer == kNone && !value.is_input && !value.constant)
          fail("node ", n.name, " reads ", value.name, ", which nothing produces");
        ++uses[{v, n.id}];
      }
    }
    for (ValueId v : n.outputs) {
      if (v == kNone) continue;
      if (!in_range(v)) fail("node ", n.name, " writes a value that does not exist");
      if (producer[static_cast<size_t>(v)] != kNone)
        fail("value ", graph.value(v).name, " has two producers");
      producer[static_cast<size_t>(v)] = n.id;
    }
    for (const auto& [key, attribute] : n.attributes) {
      const auto* sub = std::get_if<std::shared_ptr<Graph>>(&attribute);
      if (!sub) continue;
      for (const auto& captured : (*sub)->capture_names)
        if (std::none_of(n.captures.begin(), n.captures.end(),
                         [&](ValueId v) { return graph.value(v).name == captured; }))
          fail("node ", n.name, ": sub-graph ", key, " reads ", captured, ", which is not captured");
      Verify(**sub);
    }
  }
  for (size_t i = 0; i < graph.value_count(); ++i) {
    const auto id = static_cast<ValueId>(i);
    const Value& v = graph.value(id);
    if (v.producer != producer[i]) fail("value ", v.name, " names the wrong producer");
    if (v.producer != kNone && (v.constant || v.is_input))
      fail("value ", v.name, " is both produced and given");
    std::map<NodeId, int> listed;
    for (NodeId n : v.consumers) ++listed[n];
    for (const auto& [node, count] : listed) {
      const auto it = uses.find({id, node});
      if (it == uses.end() || it->second != count)
        fail("value ", v.name, " lists a consumer that does not use it");
      uses.erase(it);
    }
  }
  if (!uses.empty())
    fail("value ", graph.value(uses.begin()->first.first).name, " does not list all its consumers");
  for (ValueId v : graph.outputs) {
    if (!in_range(v)) fail("an output does not exist");
    const Value& value = graph.value(v);
    if (value.producer == kNone && !value.is_input && !value.constant)
      fail("output ", value.name, " is produced by nothing");
  }
  graph.Order();
}

}  // namespace ullage::graph
