#include "apps/cli/graph_session.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>

#include "core/error.h"

namespace ullage::cli {

using graph::ValueId;

namespace {

std::map<std::string, std::vector<int64_t>> ParseShapes(const std::vector<std::string>& texts) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& text : texts) {
    const auto eq = text.rfind('=');
    if (eq == std::string::npos || eq == 0)
      Throw(Code::kUsage, "--shape: expected NAME=1x3x640x640, found \"", text, "\"");
    std::vector<int64_t> dims;
    const char* p = text.data() + eq + 1;
    const char* const end = text.data() + text.size();
    while (p < end) {
      int64_t n = 0;
      const auto [next, error] = std::from_chars(p, end, n);
      if (error != std::errc() || n < 0 || (next < end && *next != 'x'))
        Throw(Code::kUsage, "--shape: expected NAME=1x3x640x640, found \"", text, "\"");
      dims.push_back(n);
      p = next < end ? next + 1 : next;
    }
    shapes[text.substr(0, eq)] = std::move(dims);
  }
  return shapes;
}

}  // namespace

std::unique_ptr<session::Session> PlanGraph(const llm::ModelSource& source, const ModelOptions& options,
                                            const std::vector<std::string>& shape_texts) {
  const auto shapes = ParseShapes(shape_texts);
  const auto graph = llm::LoadGraph(source, true, options.context, std::nullopt);
  for (const auto& [name, dims] : shapes) {
    const ValueId v = graph->FindValue(name);
    if (v == graph::kNone || !graph->value(v).is_input) {
      std::string names;
      for (ValueId in : graph->inputs) names += (names.empty() ? "" : ", ") + graph->value(in).name;
      Throw(Code::kUsage, "--shape: the graph has no input ", name, "; it has ", names);
    }
    const auto& declared = graph->value(v).declared;
    if (declared && declared->size() != dims.size())
      Throw(Code::kUsage, "--shape ", name, ": ", dims.size(), " dimensions, the graph declares ",
            declared->size());
    if (declared)
      for (size_t i = 0; i < dims.size(); ++i)
        if ((*declared)[i].value >= 0 && (*declared)[i].value != dims[i])
          Throw(Code::kUsage, "--shape ", name, ": dimension ", i, " is ", dims[i],
                ", the graph fixes it at ", (*declared)[i].value);
  }
  session::SessionSpec spec;
  spec.model_name = source.name;
  spec.graph = graph;
  spec.options = options.options;
  spec.threads = options.threads;
  spec.cpu_limit = options.cpu_limit;
  spec.plan_only = true;
  spec.profiles.push_back(
      {"main", [shapes](const graph::Graph& g, ops::SymbolTable& table) {
         auto facts = shapes::DeclaredInputFacts(g, table);
         for (size_t i = 0; i < facts.size(); ++i) {
           const auto it = shapes.find(g.value(g.inputs[i]).name);
           if (it == shapes.end()) continue;
           ops::BoundedShape s;
           s.rank = 0;
           for (size_t d = 0; d < it->second.size(); ++d) {
             const int64_t n = it->second[d];
             const bool fixed =
                 facts[i].shape.rank > static_cast<int>(d) && facts[i].shape[static_cast<int>(d)].exact();
             s.push_back(fixed ? ops::Bound::Exactly(n)
                               : table.Symbol(StrCat(it->first, ".", d), std::min<int64_t>(n, 1), n));
           }
           facts[i].shape = s;
         }
         return facts;
       }});
  return session::Session::Create(std::move(spec));
}

std::vector<onnx::HostValue> RunGraph(const std::shared_ptr<graph::Graph>& graph, const std::string& name,
                                      const ModelOptions& options, std::vector<onnx::HostValue>& inputs,
                                      const std::vector<std::string>& fetch, memory::NodeStatsTable* stats) {
  for (const auto& wanted : fetch) {
    const ValueId v = graph->FindValue(wanted);
    if (v == graph::kNone) Throw(Code::kUsage, "--fetch: the graph has no value ", wanted);
    if (!graph->IsOutput(v)) graph->outputs.push_back(v);
  }
  std::vector<TensorView> views(graph->inputs.size());
  std::vector<Shape> shapes;
  for (size_t i = 0; i < graph->inputs.size(); ++i) {
    const graph::Value& value = graph->value(graph->inputs[i]);
    const auto it = std::find_if(inputs.begin(), inputs.end(),
                                 [&](const onnx::HostValue& v) { return v.name == value.name; });
    if (it == inputs.end()) Throw(Code::kInvalidInput, "no value for input ", value.name);
    if (value.kind != graph::TypeKind::kTensor || it->kind != graph::TypeKind::kTensor)
      Throw(Code::kUnsupported, "input ", value.name, ": sequences and optionals are not supported");
    views[i] = it->tensors.at(0).view();
    if (views[i].dtype != value.dtype)
      Throw(Code::kInvalidInput, "input ", value.name, ": expected type ", NameOf(value.dtype), ", found ",
            NameOf(views[i].dtype));
    if (views[i].dtype == DType::kString)
      Throw(Code::kUnsupported, "input ", value.name, ": strings are not supported");
    shapes.push_back(views[i].shape);
    if (!value.declared) continue;
    const auto& declared = *value.declared;
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
  spec.collect_node_stats = stats != nullptr;
  spec.profiles.push_back(session::ExactProfile("run", shapes));
  const auto session = session::Session::Create(std::move(spec));
  const session::Execution run = session->Run(0, views, &g_interrupted);
  if (stats)
    for (const auto& [key, row] : session->node_stats()) (*stats)[key].RaiseTo(row);
  std::vector<onnx::HostValue> outputs;
  for (size_t o = 0; o < session->output_names().size(); ++o) {
    const TensorView& view = run.output(o);
    onnx::HostTensor tensor;
    tensor.name = session->output_names()[o];
    tensor.dtype = view.dtype;
    tensor.shape = view.shape;
    tensor.bytes.resize(view.bytes());
    if (!tensor.bytes.empty()) std::memcpy(tensor.bytes.data(), view.data, tensor.bytes.size());
    onnx::HostValue value;
    value.name = tensor.name;
    value.tensors.push_back(std::move(tensor));
    outputs.push_back(std::move(value));
  }
  return outputs;
}

}  // namespace ullage::cli
