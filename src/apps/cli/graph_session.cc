#include "apps/cli/graph_session.h"

#include <algorithm>
#include <utility>

#include "apps/cli/host_values.h"
#include "core/error.h"

namespace ullage::cli {

api::GraphOptions GraphOptionsOf(const llm::ModelSource& source, const ModelOptions& options,
                                 const std::vector<std::string>& shapes) {
  api::GraphOptions o;
  o.options = options.options;
  o.threads = options.threads;
  o.cpu_limit = options.cpu_limit;
  for (const auto& flag : shapes) o.limits.push_back(shapes::ParseShapeFlag(flag));
  o.model_folder = source.folder;
  return o;
}

namespace {

/// The values as inputs of a session, and what is known of them.
struct Inputs {
  std::vector<InputValue> values;
  std::vector<TensorView> views;  ///< of the values
  std::vector<ops::ValueFacts> facts;
};

Inputs TakeInputs(const graph::Graph& graph, std::vector<onnx::HostValue>& given) {
  Inputs in;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const graph::Value& value = graph.value(graph.inputs[i]);
    const auto it = std::find_if(given.begin(), given.end(),
                                 [&](const onnx::HostValue& v) { return v.name == value.name; });
    if (it == given.end()) Throw(Code::kInvalidInput, "no value for input ", value.name);
    if (value.kind == graph::TypeKind::kMap)
      Throw(Code::kUnsupported, "input ", value.name, ": maps and sequences of sequences");
    in.values.emplace_back(*it, value.kind, value.dtype, value.name);
    in.views.push_back(in.values.back().view());
    in.facts.push_back(in.values.back().facts());
    if (!value.declared) continue;
    const auto& declared = *value.declared;
    if (declared.empty() && in.views[i].elements() == 1) {  // [1] for a scalar, as ONNX Runtime takes it
      in.views[i].shape = {};
      in.facts[i].shape = ops::BoundedShape::Scalar();
    }
    bool fits = static_cast<int>(declared.size()) == in.views[i].shape.rank();
    for (size_t d = 0; fits && d < declared.size(); ++d)
      fits = declared[d].value < 0 || declared[d].value == in.views[i].shape[static_cast<int>(d)];
    if (!fits)
      Throw(Code::kInvalidInput, "input ", value.name, ": shape ", in.views[i].shape.ToString(),
            ", the graph declares ", api::DeclaredText(declared));
  }
  return in;
}

}  // namespace

api::GraphLoader LoaderOf(const llm::ModelSource& source, const ModelOptions& options) {
  return [&source, context = options.context](bool plan_only) {
    return llm::LoadGraph(source, plan_only, context);
  };
}

std::unique_ptr<session::Session> PlanGraph(const llm::ModelSource& source, const ModelOptions& options,
                                            const std::vector<std::string>& shape_flags,
                                            std::vector<session::Remedy>* remedies) {
  return api::PlanGraphSession(LoaderOf(source, options), source.name,
                               GraphOptionsOf(source, options, shape_flags), remedies);
}

std::vector<onnx::HostValue> RunGraph(const llm::ModelSource& source, const ModelOptions& options,
                                      const InputReader& read, const GraphRequest& request,
                                      std::string* memory_json, memory::NodeStatsTable* stats) {
  // With a limit it is planned first, so that nothing large is there when it does not fit.
  const bool planned_first = options.cpu_limit.has_value();
  const api::GraphLoader from_file = LoaderOf(source, options);
  auto graph = from_file(planned_first);
  std::vector<onnx::HostValue> given = read(*graph);
  const Inputs in = TakeInputs(*graph, given);
  api::GraphOptions o = GraphOptionsOf(source, options, request.shapes);
  o.actual = in.facts;
  o.one_run = true;
  o.more_outputs = request.fetch;
  o.collect_node_stats = stats != nullptr;
  const auto session = api::CreateGraphSession(
      [&](bool plan_only) {
        return plan_only == planned_first && graph ? std::exchange(graph, nullptr) : from_file(plan_only);
      },
      source.name, o);
  PrintWarnings(*session);
  const session::Execution run = session->Run(0, in.views, &g_interrupted);
  if (stats)
    for (const auto& [key, row] : session->node_stats()) (*stats)[key].RaiseTo(row);
  std::vector<onnx::HostValue> outputs;
  for (size_t i = 0; i < session->output_names().size(); ++i) {
    // A loop may carry an optional sequence and give a sequence.
    const graph::TypeKind declared = session->graph().value(session->graph().outputs[i]).kind;
    graph::TypeKind kind = session->output_kind(i);
    if (kind == graph::TypeKind::kOptionalSequence && declared == graph::TypeKind::kSequence) kind = declared;
    outputs.push_back(ToHostValue(session->output_names()[i], kind, run.output(i)));
  }
  *memory_json = session::MemoryJson(*session);
  return outputs;
}

}  // namespace ullage::cli
