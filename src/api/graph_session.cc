#include "api/graph_session.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "shapes/input_bounds.h"

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

std::vector<ops::ValueFacts> ExactFacts(const graph::Graph& graph, const GraphOptions& options) {
  std::vector<ops::ValueFacts> facts(graph.inputs.size());
  for (size_t i = 0; i < facts.size(); ++i) {
    const graph::Value& value = graph.value(graph.inputs[i]);
    const auto exact = options.exact_shapes.find(value.name);
    if (exact == options.exact_shapes.end()) continue;
    facts[i].dtype = value.dtype;
    facts[i].shape = ops::BoundedShape::Of(exact->second);
  }
  return facts;
}

}  // namespace

std::unique_ptr<session::Session> CreateGraphSession(std::shared_ptr<graph::Graph> graph,
                                                     const std::string& name, const GraphOptions& options) {
  std::vector<shapes::InputLimit> limits;
  for (const auto& [input, shape] : options.max_shapes)
    limits.push_back({input, {shape.begin(), shape.end()}, "max_shapes"});
  limits = shapes::JoinLimits(std::move(limits), options.options.Str("session.max_shape_override"));
  shapes::CheckLimits(*graph, limits);
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
  spec.profiles.push_back({"main", [options, limits](const graph::Graph& g, ops::SymbolTable& table) {
                             // Where nothing is bounded, nothing is taken from labels either.
                             return shapes::BoundedInputFacts(g, limits, ExactFacts(g, options),
                                                              !limits.empty(), table);
                           }});
  return session::Session::Create(std::move(spec));
}

}  // namespace ullage::api
