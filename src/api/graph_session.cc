#include "api/graph_session.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "shapes/propagate.h"

namespace ullage::api {

using graph::ValueId;

namespace {

/// Throws unless the shapes agree with the model.
void CheckShapes(const graph::Graph& graph, const std::map<std::string, Shape>& shapes) {
  for (const auto& [name, shape] : shapes) {
    const ValueId v = graph.FindValue(name);
    if (v == graph::kNone || std::find(graph.inputs.begin(), graph.inputs.end(), v) == graph.inputs.end()) {
      std::string names;
      for (ValueId in : graph.inputs) names += (names.empty() ? "" : ", ") + graph.value(in).name;
      Throw(Code::kUsage, "shape of ", name, ": the graph has no such input; it has ", names);
    }
    const auto& declared = graph.value(v).declared;
    bool fits = !declared || static_cast<int>(declared->size()) == shape.rank();
    for (int i = 0; fits && i < shape.rank(); ++i) {
      const int64_t fixed = declared ? (*declared)[static_cast<size_t>(i)].value : -1;
      fits = shape[i] >= 0 && (fixed < 0 || fixed == shape[i]);
    }
    if (fits) continue;
    std::string text;
    if (declared)
      for (const auto& d : *declared)
        text += (text.empty() ? "" : ",") + (d.value >= 0      ? std::to_string(d.value)
                                             : d.label.empty() ? "?"
                                                               : d.label);
    Throw(Code::kUsage, "input ", name, ": shape ", shape.ToString(), ", the graph declares [", text, "]");
  }
}

std::vector<ops::ValueFacts> InputFacts(const graph::Graph& graph, const GraphOptions& options,
                                        ops::SymbolTable& table) {
  auto facts = shapes::DeclaredInputFacts(graph, table);
  for (size_t i = 0; i < facts.size(); ++i) {
    const std::string& name = graph.value(graph.inputs[i]).name;
    if (const auto exact = options.exact_shapes.find(name); exact != options.exact_shapes.end()) {
      facts[i].shape = ops::BoundedShape::Of(exact->second);
    } else if (const auto most = options.max_shapes.find(name); most != options.max_shapes.end()) {
      ops::BoundedShape shape = ops::BoundedShape::Scalar();
      for (int d = 0; d < most->second.rank(); ++d) {
        const int64_t n = most->second[d];
        const bool fixed = facts[i].shape.rank > d && facts[i].shape[d].exact();
        shape.push_back(fixed ? ops::Bound::Exactly(n)
                              : table.Symbol(StrCat(name, ".", d), std::min<int64_t>(n, 1), n));
      }
      facts[i].shape = shape;
    }
  }
  return facts;
}

}  // namespace

std::unique_ptr<session::Session> CreateGraphSession(std::shared_ptr<graph::Graph> graph,
                                                     const std::string& name, const GraphOptions& options) {
  CheckShapes(*graph, options.max_shapes);
  CheckShapes(*graph, options.exact_shapes);
  for (const std::string& wanted : options.more_outputs) {
    const ValueId v = graph->FindValue(wanted);
    if (v == graph::kNone) Throw(Code::kUsage, "the graph has no value ", wanted);
    if (!graph->IsOutput(v)) graph->outputs.push_back(v);
  }
  session::SessionSpec spec;
  spec.model_name = name;
  spec.model_folder = options.model_folder;
  spec.collect_node_stats = options.collect_node_stats;
  spec.graph = std::move(graph);
  spec.options = options.options;
  spec.threads = options.threads;
  spec.cpu_limit = options.cpu_limit;
  spec.plan_only = options.plan_only;
  spec.profiles.push_back({"main", [options](const graph::Graph& g, ops::SymbolTable& table) {
                             return InputFacts(g, options, table);
                           }});
  return session::Session::Create(std::move(spec));
}

}  // namespace ullage::api
