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
    for (ValueId v : n.captures)
      if (v == kNone) fail("node ", n.name, " captures no value");
    const auto verify_sub = [&](const std::string& key, const Graph* sub) {
      if (!sub) fail("node ", n.name, ": attribute ", key, " is an empty sub-graph");
      if (sub->capture_names.size() != n.captures.size() || sub->capture_values.size() != n.captures.size())
        fail("node ", n.name, ": sub-graph ", key, " lists ", sub->capture_names.size(),
             " captures; the node has ", n.captures.size());
      for (size_t c = 0; c < n.captures.size(); ++c) {
        if (sub->capture_names[c] != graph.value(n.captures[c]).name)
          fail("node ", n.name, ": sub-graph ", key, " reads ", sub->capture_names[c],
               ", which is not captured in that place");
        const ValueId inner = sub->capture_values[c];
        if (inner < 0 || static_cast<size_t>(inner) >= sub->value_count() || !sub->value(inner).is_input)
          fail("node ", n.name, ": sub-graph ", key, " has no value for the capture ", sub->capture_names[c]);
      }
      Verify(*sub);
    };
    for (const auto& [key, attribute] : n.attributes) {
      if (const auto* one = std::get_if<std::shared_ptr<Graph>>(&attribute)) verify_sub(key, one->get());
      if (const auto* many = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute))
        for (const auto& sub : *many) verify_sub(key, sub.get());
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
  for (ValueId v : graph.inputs) {
    if (!in_range(v)) fail("an input does not exist");
    if (!graph.value(v).is_input) fail("input ", graph.value(v).name, " is not marked as one");
  }
  for (ValueId v : graph.outputs) {
    if (!in_range(v)) fail("an output does not exist");
    const Value& value = graph.value(v);
    if (value.producer == kNone && !value.is_input && !value.constant)
      fail("output ", value.name, " is produced by nothing");
  }
  graph.Order();
}

}  // namespace ullage::graph
