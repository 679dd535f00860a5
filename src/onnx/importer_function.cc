#include <algorithm>

#include "onnx/importer.h"

namespace ullage::onnx {

using graph::kNone;
using graph::ValueId;

namespace {

constexpr int kMaxCallDepth = 100;
// Bytes that inlining may copy: a constant plus so many times the file.
constexpr size_t kChargeFloor = size_t{32} << 20;
constexpr size_t kChargeFactor = 16;

}  // namespace

void Importer::IndexFunctions() {
  for (const auto& f : model_.functions)
    if (!functions_.emplace(std::make_tuple(f.domain, f.name, f.overload), &f).second)
      Throw(source_.code, source_.name, ": function ", f.domain, ":", f.name, " is defined twice");
}

void Importer::Charge(size_t nodes, size_t bytes, const Message& at) {
  inlined_nodes_ += nodes;
  charged_bytes_ += bytes;
  if (inlined_nodes_ > options_.max_inlined_nodes)
    at.Fail("inlining functions makes more than ", options_.max_inlined_nodes, " nodes");
  if (charged_bytes_ > kChargeFloor && (charged_bytes_ - kChargeFloor) / kChargeFactor > source_.bytes.size())
    at.Fail("inlining functions makes the model more than ", kChargeFactor, " times as large");
}

const FunctionPb* Importer::FunctionOf(const NodePb& pb, const Scope& scope) const {
  if (functions_.empty()) return nullptr;
  const auto it = functions_.find({pb.domain, pb.op, pb.overload});
  if (it == functions_.end()) return nullptr;
  if (options_.is_known && options_.is_known(pb.domain, pb.op, OpsetOf(scope, pb.domain))) return nullptr;
  return it->second;
}

void Importer::Inline(const NodePb& pb, const FunctionPb& f, std::vector<ValueId> inputs,
                      std::vector<ValueId> outputs, Scope& scope) {
  const auto fail = [&](const auto&... parts) {
    Throw(source_.code, pb.Where(), ": function ", f.domain.empty() ? "" : f.domain, ":", f.name, " ",
          parts...);
  };
  for (const Call* c = scope.call; c; c = c->outer)
    if (c->function == &f) fail("calls itself");
  graph::Graph& g = **scope.level;

  Call call;
  call.function = &f;
  call.outer = scope.call;
  call.depth = scope.call ? scope.call->depth + 1 : 1;
  if (call.depth > kMaxCallDepth) fail("is called more than ", kMaxCallDepth, " deep");
  std::string name(pb.name);
  if (name.empty()) {
    const auto first = std::find_if(pb.outputs.begin(), pb.outputs.end(), [](auto o) { return !o.empty(); });
    name = first == pb.outputs.end() ? pb.op : *first;
  }
  if (scope.call) name = scope.call->prefix + "/" + name;
  Charge(f.nodes.size() + 1, f.size_bytes + (f.nodes.size() + 1) * 3 * name.size(), pb.message);
  call.prefix = g.UniqueNodeName(name);
  call.metadata = pb.metadata;
  if (const auto it = call.metadata.find("layer_ann"); it != call.metadata.end())
    call.annotation = it->second;
  if (scope.call) {
    call.metadata.insert(scope.call->metadata.begin(), scope.call->metadata.end());
    if (call.annotation.empty()) call.annotation = scope.call->annotation;
  }
  for (const auto& a : pb.attributes) call.arguments.emplace(a.name, Call::Argument{&a, &scope});
  for (const auto& a : f.defaults) call.arguments.emplace(a.name, Call::Argument{&a, nullptr});

  Scope body;
  body.level = scope.level;
  body.call = &call;
  body.opsets = &f.opsets;
  if (inputs.size() > f.inputs.size()) fail("takes ", f.inputs.size(), " inputs, not ", inputs.size());
  if (outputs.size() > f.outputs.size()) fail("has ", f.outputs.size(), " outputs, not ", outputs.size());
  for (size_t i = 0; i < f.inputs.size(); ++i)
    if (!body.names.emplace(f.inputs[i], i < inputs.size() ? inputs[i] : kNone).second)
      fail("lists input ", f.inputs[i], " twice");

  // Where a node of the body makes an output, its value is the caller's. Outputs that are inputs, or are
  // listed before, take an Identity.
  std::vector<size_t> copies;
  {
    std::unordered_map<std::string_view, bool> made;
    for (const auto& node : f.nodes)
      for (const std::string_view o : node.outputs) made.emplace(o, false);
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] == kNone) continue;
      const auto it = made.find(f.outputs[i]);
      if (it != made.end() && !it->second && body.names.emplace(f.outputs[i], outputs[i]).second)
        it->second = true;
      else
        copies.push_back(i);
    }
  }
  Define(f.nodes, body);
  AddNodes(f.nodes, body);
  for (const size_t i : copies) {
    const auto it = body.names.find(f.outputs[i]);
    if (it == body.names.end() || it->second == kNone) fail("does not produce its output ", f.outputs[i]);
    graph::Node& copy =
        g.AddNode("", "Identity", call.prefix + "/" + std::string(f.outputs[i]), {it->second}, {outputs[i]});
    copy.opset = OpsetOf(scope, "");
    copy.annotation = call.annotation;
    copy.metadata = call.metadata;
  }
}

}  // namespace ullage::onnx
