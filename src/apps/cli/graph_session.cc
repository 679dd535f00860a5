#include "apps/cli/graph_session.h"

#include <algorithm>

#include "apps/cli/host_values.h"
#include "core/error.h"
#include "shapes/input_bounds.h"

namespace ullage::cli {

using graph::ValueId;

namespace {

/// Whether sizes agree with the labels that the graph gives them.
bool KeepLabels(const graph::Graph& graph, std::span<const shapes::InputLimit> limits,
                std::span<const ops::ValueFacts> actual) {
  ops::SymbolTable table;
  const auto facts = shapes::BoundedInputFacts(graph, limits, actual, true, table);
  try {
    shapes::InputRelations(graph, facts, table).Check([&](size_t i, int d) {
      return actual[i].shape[d].upper;
    });
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<session::Session> PlanGraph(const llm::ModelSource& source, const ModelOptions& options,
                                            const std::vector<std::string>& shape_flags) {
  const auto limits = shapes::CollectLimits(shape_flags, options.options.Str("session.max_shape_override"));
  const auto graph = llm::LoadGraph(source, true, options.context);
  shapes::CheckLimits(*graph, limits);
  session::SessionSpec spec;
  spec.model_name = source.name;
  spec.model_folder = source.folder;
  spec.graph = graph;
  spec.options = options.options;
  spec.threads = options.threads;
  spec.cpu_limit = options.cpu_limit;
  spec.plan_only = true;
  spec.profiles.push_back({"main", [limits](const graph::Graph& g, ops::SymbolTable& table) {
                             return shapes::BoundedInputFacts(g, limits, {}, /*labels=*/true, table);
                           }});
  return session::Session::Create(std::move(spec));
}

namespace {

/// A session for values, and its inputs.
struct Prepared {
  std::vector<InputValue> values;
  std::vector<TensorView> views;  ///< of the values
  std::unique_ptr<session::Session> session;
};

Prepared Prepare(const std::shared_ptr<graph::Graph>& graph, const std::string& name,
                 const ModelOptions& options, std::vector<onnx::HostValue>& inputs,
                 const GraphRequest& request, bool plan_only, bool stats) {
  const auto limits =
      shapes::CollectLimits(request.shapes, options.options.Str("session.max_shape_override"));
  shapes::CheckLimits(*graph, limits);
  for (const auto& wanted : request.fetch) {
    const ValueId v = graph->FindValue(wanted);
    if (v == graph::kNone) Throw(Code::kUsage, "--fetch: the graph has no value ", wanted);
    if (!graph->IsOutput(v)) graph->outputs.push_back(v);
  }
  Prepared prepared;
  std::vector<InputValue>& values = prepared.values;
  std::vector<TensorView>& views = prepared.views;
  std::vector<ops::ValueFacts> actual;
  for (size_t i = 0; i < graph->inputs.size(); ++i) {
    const graph::Value& value = graph->value(graph->inputs[i]);
    const auto it = std::find_if(inputs.begin(), inputs.end(),
                                 [&](const onnx::HostValue& v) { return v.name == value.name; });
    if (it == inputs.end()) Throw(Code::kInvalidInput, "no value for input ", value.name);
    if (value.kind == graph::TypeKind::kMap)
      Throw(Code::kUnsupported, "input ", value.name, ": maps and sequences of sequences");
    values.emplace_back(*it, value.kind, value.dtype, value.name);
    views.push_back(values.back().view());
    actual.push_back(values.back().facts());
    if (!value.declared) continue;
    const auto& declared = *value.declared;
    if (declared.empty() && views[i].elements() == 1) {  // [1] for a scalar, as ONNX Runtime takes it
      views[i].shape = {};
      actual[i].shape = ops::BoundedShape::Scalar();
    }
    bool fits = static_cast<int>(declared.size()) == views[i].shape.rank();
    for (size_t d = 0; fits && d < declared.size(); ++d)
      fits = declared[d].value < 0 || declared[d].value == views[i].shape[static_cast<int>(d)];
    if (!fits) {
      std::string text;
      for (const auto& d : declared)
        text += (text.empty() ? "" : ",") + (d.value >= 0      ? std::to_string(d.value)
                                             : d.label.empty() ? "?"
                                                               : d.label);
      Throw(Code::kInvalidInput, "input ", value.name, ": shape ", views[i].shape.ToString(),
            ", the graph declares [", text, "]");
    }
  }
  session::SessionSpec spec;
  spec.model_name = name;
  spec.graph = graph;
  spec.options = options.options;
  spec.threads = options.threads;
  spec.cpu_limit = options.cpu_limit;
  spec.plan_only = plan_only;
  spec.collect_node_stats = stats;
  spec.profiles.push_back({"run", [limits, actual](const graph::Graph& g, ops::SymbolTable& table) {
                             return shapes::BoundedInputFacts(g, limits, actual,
                                                              KeepLabels(g, limits, actual), table);
                           }});
  prepared.session = session::Session::Create(std::move(spec));
  return prepared;
}

}  // namespace

void RequireFit(const std::shared_ptr<graph::Graph>& graph, const std::string& name,
                const ModelOptions& options, std::vector<onnx::HostValue>& inputs,
                const GraphRequest& request) {
  const Prepared prepared = Prepare(graph, name, options, inputs, request, true, false);
  const auto& plan = prepared.session->device_plan();
  if (plan.limit_bytes && plan.tags.Sum() > *plan.limit_bytes)
    session::ThrowDoesNotFit(*prepared.session, {});
}

std::vector<onnx::HostValue> RunGraph(const std::shared_ptr<graph::Graph>& graph, const std::string& name,
                                      const ModelOptions& options, std::vector<onnx::HostValue>& inputs,
                                      const GraphRequest& request, std::string* memory_json,
                                      memory::NodeStatsTable* stats) {
  const Prepared prepared = Prepare(graph, name, options, inputs, request, false, stats != nullptr);
  const auto& session = prepared.session;
  PrintWarnings(*session);
  const session::Execution run = session->Run(0, prepared.views, &g_interrupted);
  if (stats)
    for (const auto& [key, row] : session->node_stats()) (*stats)[key].RaiseTo(row);
  std::vector<onnx::HostValue> outputs;
  for (size_t o = 0; o < session->output_names().size(); ++o) {
    // A loop may carry an optional sequence and give a sequence.
    const graph::TypeKind declared = graph->value(graph->outputs[o]).kind;
    graph::TypeKind kind = session->output_kind(o);
    if (kind == graph::TypeKind::kOptionalSequence && declared == graph::TypeKind::kSequence) kind = declared;
    outputs.push_back(ToHostValue(session->output_names()[o], kind, run.output(o)));
  }
  *memory_json = session::MemoryJson(*session);
  return outputs;
}

}  // namespace ullage::cli
