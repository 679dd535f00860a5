#include "ullage/session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "api/graph_session.h"
#include "core/error.h"
#include "llm/model_source.h"
#include "session/report.h"

namespace ullage {

namespace {

ValueInfo InfoOf(const graph::Value& value, const std::string& name, const ops::ValueFacts& facts) {
  ValueInfo info;
  info.name = name;
  info.is_tensor = value.kind == graph::TypeKind::kTensor;
  info.dtype = facts.dtype != DType::kUndefined ? facts.dtype : value.dtype;
  info.rank_known = facts.shape.known_rank();
  for (int d = 0; d < facts.shape.rank; ++d) {
    DimInfo dim{facts.shape[d].lower, facts.shape[d].upper, ""};
    if (value.declared && value.declared->size() == static_cast<size_t>(facts.shape.rank))
      dim.label = (*value.declared)[static_cast<size_t>(d)].label;
    info.dims.push_back(std::move(dim));
  }
  return info;
}

std::optional<int64_t> CpuLimit(const std::map<std::string, int64_t>& limits) {
  std::optional<int64_t> limit;
  for (const auto& [device, bytes] : limits) {
    if (device != "cpu") Throw(Code::kUnsupported, "a limit for ", device, ": there is no such device");
    if (bytes < 0) Throw(Code::kUsage, "a limit of ", bytes, " bytes for ", device);
    limit = bytes;
  }
  return limit;
}

}  // namespace

struct Session::Impl {
  std::unique_ptr<session::Session> session;
  std::vector<ValueInfo> inputs, outputs;
  std::map<std::string, size_t, std::less<>> input_index, output_index;

  /// Throws unless it is a tensor.
  void RequireTensor(size_t output) const {
    if (session->output_kind(output) != graph::TypeKind::kTensor)
      Throw(Code::kUnsupported, "output ", outputs[output].name,
            " is a sequence or an optional; sessions return tensors only");
  }

  size_t Output(std::string_view name) const {
    const auto it = output_index.find(name);
    return it != output_index.end() ? it->second : session->OutputIndex(name);
  }

  session::Execution Execute(std::span<const InputTensor> given, const RunOptions& options) const {
    session::Execution execution = session->Acquire();
    const std::span<TensorView> views = execution.inputs();
    for (TensorView& view : views) view = {};
    for (const InputTensor& in : given) {
      const auto it = input_index.find(in.name);
      const size_t index = it != input_index.end() ? it->second : session->InputIndex(in.name);
      if (views[index].dtype != DType::kUndefined)
        Throw(Code::kInvalidInput, "input ", in.name, " is given twice");
      const int bits = BitsOf(in.dtype);
      if (bits == 0 && in.dtype != DType::kString)
        Throw(Code::kInvalidInput, "input ", in.name, ": values of type ", NameOf(in.dtype),
              " cannot be given");
      const bool empty = std::any_of(in.shape.begin(), in.shape.end(), [](int64_t d) { return d == 0; });
      if (!in.data && !empty) Throw(Code::kInvalidInput, "input ", in.name, " has no data");
      const size_t alignment =
          in.dtype == DType::kString ? alignof(std::string) : static_cast<size_t>(std::clamp(bits / 8, 1, 8));
      if (reinterpret_cast<uintptr_t>(in.data) % alignment != 0)
        Throw(Code::kInvalidInput, "input ", in.name, ": data are not aligned to ", alignment, " bytes");
      views[index] = {const_cast<void*>(in.data), in.dtype, in.shape, 0};
    }
    for (size_t i = 0; i < views.size(); ++i)
      if (views[i].dtype == DType::kUndefined)
        Throw(Code::kInvalidInput, "input ", inputs[i].name, " is missing");
    execution.Run(0, options.stop);
    return execution;
  }
};

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

Session WrapSession(std::unique_ptr<session::Session> session) {
  auto impl = std::make_unique<Session::Impl>();
  const graph::Graph& graph = session->graph();
  const shapes::GraphFacts& facts = session->facts(0);
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const graph::Value& value = graph.value(graph.inputs[i]);
    impl->inputs.push_back(InfoOf(value, value.name, facts.of(graph.inputs[i])));
    impl->input_index.emplace(value.name, i);
  }
  for (size_t o = 0; o < graph.outputs.size(); ++o) {
    const std::string& name = session->output_names()[o];
    impl->outputs.push_back(InfoOf(graph.value(graph.outputs[o]), name, facts.of(graph.outputs[o])));
    impl->output_index.emplace(name, o);
  }
  impl->session = std::move(session);
  return Session(std::move(impl));
}

Session Session::Load(const std::string& model, const SessionOptions& options) {
  api::GraphOptions graph_options;
  for (const auto& [key, value] : options.values) graph_options.options.Set(key, value);
  graph_options.cpu_limit = CpuLimit(options.limits);
  for (const auto& [input, shape] : options.max_shapes)
    graph_options.limits.push_back({input, {shape.begin(), shape.end()}, "max_shapes"});
  graph_options.more_outputs = options.more_outputs;
  const llm::ModelSource source = llm::FindModel(model, options.variant, options.plan_only);
  graph_options.model_folder = source.folder;
  // The first graph that is needed shows what it takes.
  const bool planned_first = options.plan_only || graph_options.cpu_limit;
  auto graph = llm::LoadGraph(source, planned_first, options.max_positions);
  for (graph::ValueId v : graph->inputs)
    if (graph->value(v).kind != graph::TypeKind::kTensor)
      Throw(Code::kUnsupported, "input ", graph->value(v).name,
            " is a sequence or an optional; sessions take tensors only");
  graph_options.actual = api::ExactFacts(*graph, options.exact_shapes);
  const api::GraphLoader load = [&](bool plan_only) {
    if (plan_only == planned_first && graph) return std::exchange(graph, nullptr);
    return llm::LoadGraph(source, plan_only, options.max_positions);
  };
  return WrapSession(options.plan_only ? api::PlanGraphSession(load, source.name, graph_options, nullptr)
                                       : api::CreateGraphSession(load, source.name, graph_options));
}

const std::vector<ValueInfo>& Session::inputs() const {
  return impl_->inputs;
}

const std::vector<ValueInfo>& Session::outputs() const {
  return impl_->outputs;
}

std::vector<NamedTensor> Session::Run(std::span<const InputTensor> inputs, const RunOptions& options) const {
  std::vector<size_t> wanted;
  for (std::string_view name : options.outputs) wanted.push_back(impl_->Output(name));
  if (options.outputs.empty())
    for (size_t o = 0; o < impl_->outputs.size(); ++o) wanted.push_back(o);
  for (size_t o : wanted) impl_->RequireTensor(o);
  const session::Execution execution = impl_->Execute(inputs, options);
  std::vector<NamedTensor> results;
  results.reserve(wanted.size());
  for (size_t o : wanted) {
    const TensorView& view = execution.output(o);
    Tensor tensor =
        view.dtype == DType::kString
            ? Tensor::OfStrings(view.shape, {view.as<std::string>(), static_cast<size_t>(view.elements())})
            : Tensor::FromBytes(view.dtype, view.shape, view.data, view.bytes());
    results.push_back({impl_->outputs[o].name, std::move(tensor)});
  }
  return results;
}

void Session::Run(std::span<const InputTensor> inputs, std::span<OutputTensor> outputs,
                  const RunOptions& options) const {
  for (const OutputTensor& out : outputs) {
    const size_t o = impl_->Output(out.name);
    impl_->RequireTensor(o);
    if (impl_->outputs[o].dtype == DType::kString)
      Throw(Code::kUnsupported, "output ", out.name, ": strings are not written into memory of the caller");
  }
  const session::Execution execution = impl_->Execute(inputs, options);
  for (OutputTensor& out : outputs) {
    const TensorView& view = execution.output(impl_->Output(out.name));
    const size_t bytes = view.bytes();
    if (bytes > out.capacity_bytes)
      Throw(Code::kInvalidInput, "output ", out.name, " of shape ", view.shape.ToString(), " takes ", bytes,
            " bytes, the memory given has ", out.capacity_bytes);
    out.dtype = view.dtype;
    out.shape = view.shape;
    if (bytes > 0) std::memcpy(out.data, view.data, bytes);
  }
}

std::vector<DeviceMemory> Session::memory() const {
  std::vector<DeviceMemory> all;
  const auto& plans = impl_->session->device_plans();
  for (size_t d = 0; d < plans.size(); ++d) {
    DeviceMemory m;
    m.device = plans[d].name;
    m.limit_bytes = plans[d].limit_bytes;
    m.planned_bytes = plans[d].tags.Sum();
    m.lower_bound_bytes = plans[d].lower_bound_bytes;
    for (memory::Tag tag : memory::kAllTags) m.tags.emplace_back(memory::TagName(tag), plans[d].tags[tag]);
    m.peak_bytes = impl_->session->peak_bytes(d);
    m.allocations_during_run = impl_->session->allocations_during_run(d);
    all.push_back(std::move(m));
  }
  return all;
}

std::string Session::PlanJson(bool nodes) const {
  return session::PlanJson(*impl_->session, {}, {.nodes = nodes});
}

void Session::Trim() const {
  impl_->session->Trim();
}

}  // namespace ullage
