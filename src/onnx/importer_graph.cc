#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include "core/mapped_file.h"
#include "onnx/importer.h"

namespace ullage::onnx {

using graph::kNone;
using graph::ValueId;

namespace {

constexpr size_t kMaxCaptures = 500'000;

bool IsConstantNode(const NodePb& n) {
  return n.op == "Constant" && n.domain.empty();
}

void Declare(graph::Value& value, const TypePb& type) {
  value.kind = type.kind;
  if (value.dtype == DType::kUndefined) value.dtype = type.dtype;
  if (!value.declared && type.kind == graph::TypeKind::kTensor) value.declared = type.shape;
}

}  // namespace

std::shared_ptr<graph::Graph> Importer::Run() {
  model_ = ParseModel(Message(source_, "ModelProto"));
  if (!model_.opsets.count("")) model_.opsets.emplace("", 1);
  IndexFunctions();
  const GraphPb pb = ParseGraph(*model_.graph);
  Level level;
  level.graph = std::make_shared<graph::Graph>();
  level->opsets = model_.opsets;
  level->metadata = model_.metadata;
  Scope scope;
  scope.level = &level;
  scope.opsets = &model_.opsets;
  Build(pb, scope, true);
  for (size_t i = 0; i < level->node_slots(); ++i) {
    graph::Node& node = level->node(static_cast<graph::NodeId>(i));
    if (!node.captures.empty()) level->SyncCaptures(node);
  }
  try {
    graph::Verify(*level);
  } catch (const Error& e) {
    throw Error(e.code(), source_.name + ": " + e.message());
  }
  return level.graph;
}

void Importer::Build(const GraphPb& pb, Scope& scope, bool top) {
  Level& level = *scope.level;
  level->name = pb.name;
  level->metadata.insert(pb.metadata.begin(), pb.metadata.end());
  AddInputs(pb, scope, top);
  AddInitializers(pb, scope, top);
  Define(pb.nodes, scope);
  ApplyHints(pb, scope);
  AddNodes(pb.nodes, scope);
  for (const auto& info : pb.outputs) {
    const auto [id, found] = Lookup(info.name, scope, level);
    if (!found || id == kNone)
      pb.message.Fail("graph ", pb.name, ": output \"", info.name, "\" is produced by nothing");
    level->outputs.push_back(id);
  }
}

void Importer::AddInputs(const GraphPb& pb, Scope& scope, bool top) {
  Level& level = *scope.level;
  std::unordered_set<std::string_view> defaults;
  if (top && !options_.keep_default_inputs) {
    for (const Message& m : pb.initializers) defaults.insert(ParseTensor(m).name);
    for (Message m : pb.sparse_initializers)
      while (m.Next()) {
        if (m.field() == 1)
          defaults.insert(ParseTensor(m.Sub("values", "TensorProto")).name);
        else
          m.Skip();
      }
  }
  for (const auto& info : pb.inputs) {
    if (info.name.empty()) pb.message.Fail("graph ", pb.name, ": an input has no name");
    if (defaults.count(info.name)) continue;
    if (scope.names.count(info.name))
      pb.message.Fail("graph ", pb.name, ": input ", info.name, " is listed twice");
    const TypePb type = info.type ? ParseType(*info.type) : TypePb();
    const ValueId id = level->AddInput(info.name, type.dtype, std::nullopt);
    Declare(level->value(id), type);
    scope.names.emplace(info.name, id);
  }
}

void Importer::AddInitializers(const GraphPb& pb, Scope& scope, bool top) {
  Level& level = *scope.level;
  const auto add = [&](std::string_view name, graph::ConstantPtr constant) {
    if (name.empty()) pb.message.Fail("graph ", pb.name, ": an initializer has no name");
    if (const auto it = scope.names.find(name); it != scope.names.end()) {
      graph::Value& value = level->value(it->second);
      if (!value.is_input || value.constant)
        pb.message.Fail("graph ", pb.name, ": initializer ", name, " is given twice");
      if (top || value.dtype == DType::kUndefined) value.dtype = constant->dtype;
      value.constant = std::move(constant);
      return;
    }
    scope.names.emplace(name, level->AddConstant(name, std::move(constant)));
  };
  for (const Message& m : pb.initializers) {
    const TensorPb tensor = ParseTensor(m);
    add(tensor.name, MakeTensor(tensor, tensor.name, tensors()));
  }
  for (const Message& m : pb.sparse_initializers) {
    auto sparse = MakeSparseTensor(m, tensors());
    add(sparse.name, std::move(sparse.constant));
  }
}

void Importer::ApplyHints(const GraphPb& pb, Scope& scope) {
  const auto apply = [&](const ValueInfoPb& info) {
    const auto it = scope.names.find(info.name);
    if (it == scope.names.end() || !info.type) return;
    graph::Value& value = scope.level->graph->value(it->second);
    if (value.constant || value.is_input) return;
    try {
      Declare(value, ParseType(*info.type));
    } catch (const Error&) {  // hints are not worth a failure
    }
  };
  for (const auto& info : pb.outputs) apply(info);
  for (const auto& info : pb.value_infos) apply(info);
}

void Importer::Define(const std::vector<NodePb>& nodes, Scope& scope) {
  graph::Graph& g = **scope.level;
  std::unordered_set<std::string_view> produced;
  for (const auto& node : nodes) {
    for (const std::string_view output : node.outputs) {
      if (output.empty()) continue;
      if (!produced.insert(output).second)
        Throw(source_.code, node.Where(), ": value ", output, " is produced twice");
      ValueId id = kNone;
      // A formal output of a function stands for the value that the call produces.
      if (const auto it = scope.names.find(output); it != scope.names.end()) {
        id = it->second;
        if (id == kNone || g.value(id).is_input || g.value(id).constant || g.value(id).producer != kNone)
          Throw(source_.code, node.Where(), ": value ", output, " is an input or initializer already");
      } else {
        id = g.AddValue(scope.call ? scope.call->prefix + "/" + std::string(output) : std::string(output));
        scope.names.emplace(output, id);
      }
      if (IsConstantNode(node)) DefineConstant(node, id, scope);
    }
  }
}

void Importer::DefineConstant(const NodePb& pb, ValueId id, Scope& scope) {
  graph::Value& value = scope.level->graph->value(id);
  if (pb.outputs.size() != 1 || !pb.inputs.empty())
    Throw(source_.code, pb.Where(), ": a Constant has no inputs and one output");
  graph::ConstantPtr constant;
  for (const auto& a : pb.attributes) {
    auto imported = ImportAttribute(a, scope, *scope.level, value.name, nullptr);
    if (!imported) continue;
    if (const auto* tensor = std::get_if<graph::ConstantPtr>(&*imported)) {
      if (a.name == "value" || a.name == "sparse_value") constant = *tensor;
    } else if (const auto* i = std::get_if<int64_t>(&*imported)) {
      if (a.name == "value_int") constant = graph::MakeInts({}, {i, 1});
    } else if (const auto* f = std::get_if<float>(&*imported)) {
      if (a.name == "value_float") constant = graph::MakeFloats({}, {f, 1});
    } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&*imported)) {
      if (a.name == "value_ints") constant = graph::MakeInts({static_cast<int64_t>(ints->size())}, *ints);
    } else if (const auto* floats = std::get_if<std::vector<float>>(&*imported)) {
      if (a.name == "value_floats")
        constant = graph::MakeFloats({static_cast<int64_t>(floats->size())}, *floats);
    } else if (auto* s = std::get_if<std::string>(&*imported)) {
      if (a.name == "value_string") constant = MakeStrings({}, {std::move(*s)});
    } else if (auto* strings = std::get_if<std::vector<std::string>>(&*imported)) {
      if (a.name == "value_strings") {
        const Shape shape{static_cast<int64_t>(strings->size())};
        constant = MakeStrings(shape, std::move(*strings));
      }
    }
  }
  if (!constant) Throw(source_.code, pb.Where(), ": the Constant has no value");
  value.dtype = constant->dtype;
  value.constant = std::move(constant);
}

void Importer::AddNodes(const std::vector<NodePb>& nodes, Scope& scope) {
  for (const auto& node : nodes)
    if (!IsConstantNode(node)) AddNode(node, scope);
}

void Importer::AddNode(const NodePb& pb, Scope& scope) {
  Level& level = *scope.level;
  std::vector<ValueId> inputs, outputs;
  for (const std::string_view name : pb.inputs) {
    if (name.empty()) {
      inputs.push_back(kNone);
      continue;
    }
    const auto [id, found] = Lookup(name, scope, level);
    if (!found) Throw(source_.code, pb.Where(), ": input ", name, " is produced by nothing");
    inputs.push_back(id);
  }
  for (const std::string_view name : pb.outputs)
    outputs.push_back(name.empty() ? kNone : scope.names.find(name)->second);
  if (const FunctionPb* function = FunctionOf(pb, scope)) {
    Inline(pb, *function, std::move(inputs), std::move(outputs), scope);
    return;
  }
  std::string name(pb.name);
  if (scope.call) {
    if (name.empty()) {
      const auto first =
          std::find_if(pb.outputs.begin(), pb.outputs.end(), [](auto o) { return !o.empty(); });
      name = first == pb.outputs.end() ? pb.op : *first;
    }
    name = scope.call->prefix + "/" + name;
  }
  SubLevels subs;
  std::map<std::string, graph::Attribute, std::less<>> attributes;
  for (const auto& a : pb.attributes)
    if (auto imported = ImportAttribute(a, scope, level, "", &subs))
      attributes.emplace(std::string(a.name), std::move(*imported));

  graph::Node& node = level->AddNode(pb.domain, pb.op, name, std::move(inputs), std::move(outputs));
  node.opset = OpsetOf(scope, pb.domain);
  node.attributes = std::move(attributes);
  node.metadata = pb.metadata;
  if (const auto it = node.metadata.find("layer_ann"); it != node.metadata.end())
    node.annotation = it->second;
  if (scope.call) {
    node.metadata.insert(scope.call->metadata.begin(), scope.call->metadata.end());
    if (node.annotation.empty()) node.annotation = scope.call->annotation;
  }
  if (!subs.empty()) FinishCaptures(node, level, subs);
}

int Importer::OpsetOf(const Scope& scope, std::string_view domain) const {
  if (const auto it = scope.opsets->find(domain); it != scope.opsets->end()) return it->second;
  const auto it = model_.opsets.find(domain);
  return it == model_.opsets.end() ? 1 : it->second;
}

Importer::FoundName Importer::Lookup(std::string_view name, const Scope& scope, Level& level) {
  for (const Scope* s = &scope; s; s = s->parent)
    if (const auto it = s->names.find(name); it != s->names.end())
      return {Bring(level, *s->level, it->second), true};
  return {kNone, false};
}

ValueId Importer::Bring(Level& to, Level& from, ValueId id) {
  if (id == kNone || &to == &from) return id;
  return Capture(to, Bring(*to.outer, from, id));
}

ValueId Importer::Capture(Level& level, ValueId outer_id) {
  if (const auto it = level.captured.find(outer_id); it != level.captured.end()) return it->second;
  const std::string& name = level.outer->graph->value(outer_id).name;
  if (++captures_ > kMaxCaptures)
    Throw(source_.code, source_.name, ": sub-graphs read more than ", kMaxCaptures, " outer values");
  Charge(0, name.size(), *model_.graph);
  const ValueId id = level->AddValue(name);
  level->value(id).is_input = true;
  level.captured.emplace(outer_id, id);
  level.capture_order.push_back(outer_id);
  return id;
}

void Importer::FinishCaptures(graph::Node& node, Level& level, SubLevels& subs) {
  std::vector<ValueId> captures;
  std::unordered_set<ValueId> known;
  for (const auto& sub : subs)
    for (const ValueId v : sub->capture_order)
      if (known.insert(v).second) captures.push_back(v);
  for (const auto& sub : subs) {
    for (const ValueId v : captures) {
      (*sub)->capture_values.push_back(Capture(*sub, v));
      (*sub)->capture_names.push_back(level->value(v).name);
    }
  }
  level->SetCaptures(node, std::move(captures));
}

std::shared_ptr<graph::Graph> ImportOnnxBytes(std::span<const std::byte> bytes,
                                              std::shared_ptr<const void> owner, const std::string& name,
                                              const std::string& folder, const ImportOptions& options) {
  const Source source{name, bytes, std::move(owner), Code::kInvalidModel};
  return Importer(source, folder, options).Run();
}

std::shared_ptr<graph::Graph> ImportOnnx(const std::string& path, const ImportOptions& options) {
  const auto file = MappedFile::Open(path);
  return ImportOnnxBytes(file->bytes(), file, path, std::filesystem::path(path).parent_path().string(),
                         options);
}

}  // namespace ullage::onnx
