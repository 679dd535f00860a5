#include <functional>

#include "onnx/importer.h"

namespace ullage::onnx {

using graph::Attribute;

namespace {

// ONNX operators have two sub-graphs at most; protobuf parsers stop at 100 nested messages, which is 33
// graphs.
constexpr size_t kMaxSubgraphsOfNode = 16;
constexpr int kMaxSubgraphDepth = 48;

/// Calls fn(message) at every field of that number.
template <class Fn>
void ForEachField(Message m, uint32_t field, Fn&& fn) {
  while (m.Next()) {
    if (m.field() == field)
      fn(m);
    else
      m.Skip();
  }
}

/// Fields that a writer leaves out are zero (some write proto3).
template <class T, class Fn>
T Last(const Message& m, uint32_t field, Fn&& read) {
  T value{};
  ForEachField(m, field, [&](Message& at) { value = read(at); });
  return value;
}

}  // namespace

std::optional<Attribute> Importer::ImportAttribute(const AttributePb& pb, Scope& scope, Level& level,
                                                   std::string_view value_name, SubLevels* subs) {
  if (!pb.ref.empty()) {
    if (!scope.call) pb.message.Fail("attribute ", pb.name, " refers to ", pb.ref, " outside of a function");
    const auto it = scope.call->arguments.find(pb.ref);
    if (it == scope.call->arguments.end()) return std::nullopt;
    const Call::Argument& argument = it->second;
    Charge(0, argument.attribute->message.rest().size(), pb.message);
    return ImportAttribute(*argument.attribute, argument.scope ? *argument.scope : scope, level, value_name,
                           subs);
  }
  const Message& m = pb.message;
  switch (pb.type) {
    case AttributeType::kUndefined:
      break;
    case AttributeType::kFloat:
      return Last<float>(m, 2, [](Message& at) { return at.Float("f"); });
    case AttributeType::kInt:
      return Last<int64_t>(m, 3, [](Message& at) { return at.Int("i"); });
    case AttributeType::kString:
      return Last<std::string>(m, 4, [](Message& at) { return at.String("s"); });
    case AttributeType::kTensor: {
      graph::ConstantPtr tensor;
      ForEachField(m, 5, [&](Message& at) {
        const TensorPb t = ParseTensor(at.Sub("t", "TensorProto"));
        tensor = MakeTensor(t, value_name.empty() ? t.name : value_name, tensors());
      });
      if (!tensor) m.Fail("attribute ", pb.name, " holds no tensor");
      return tensor;
    }
    case AttributeType::kSparseTensor: {
      graph::ConstantPtr tensor;
      ForEachField(m, 22, [&](Message& at) {
        tensor = MakeSparseTensor(at.Sub("sparse_tensor", "SparseTensorProto"), tensors()).constant;
      });
      if (!tensor) m.Fail("attribute ", pb.name, " holds no sparse tensor");
      return tensor;
    }
    case AttributeType::kGraph: {
      std::shared_ptr<graph::Graph> sub;
      ForEachField(m, 6, [&](Message& at) {
        if (sub) m.Fail("attribute ", pb.name, " holds two graphs");
        sub = ImportSubgraph(at.Sub("g", "GraphProto"), scope, level, subs);
      });
      if (!sub) m.Fail("attribute ", pb.name, " holds no graph");
      return sub;
    }
    case AttributeType::kFloats: {
      std::vector<float> list;
      ForEachField(m, 7, [&](Message& at) {
        const auto bytes = at.Fixed("floats", sizeof(float));
        const size_t old = list.size();
        list.resize(old + bytes.size() / sizeof(float));
        if (!bytes.empty()) std::memcpy(list.data() + old, bytes.data(), bytes.size());
      });
      return list;
    }
    case AttributeType::kInts: {
      std::vector<int64_t> list;
      ForEachField(m, 8, [&](Message& at) {
        at.Varints("ints", [&](uint64_t v) { list.push_back(static_cast<int64_t>(v)); });
      });
      return list;
    }
    case AttributeType::kStrings: {
      std::vector<std::string> list;
      ForEachField(m, 9, [&](Message& at) { list.push_back(at.String("strings")); });
      return list;
    }
    case AttributeType::kTensors: {
      std::vector<graph::ConstantPtr> list;
      ForEachField(m, 10, [&](Message& at) {
        const TensorPb t = ParseTensor(at.Sub("tensors", "TensorProto"));
        list.push_back(MakeTensor(t, t.name, tensors()));
      });
      return list;
    }
    case AttributeType::kSparseTensors: {
      std::vector<graph::ConstantPtr> list;
      ForEachField(m, 23, [&](Message& at) {
        list.push_back(MakeSparseTensor(at.Sub("sparse_tensors", "SparseTensorProto"), tensors()).constant);
      });
      return list;
    }
    case AttributeType::kGraphs: {
      std::vector<std::shared_ptr<graph::Graph>> list;
      ForEachField(m, 11, [&](Message& at) {
        list.push_back(ImportSubgraph(at.Sub("graphs", "GraphProto"), scope, level, subs));
      });
      return list;
    }
    case AttributeType::kTypeProto:
      return Last<std::string>(m, 14, [](Message& at) { return ParseType(at.Sub("tp", "TypeProto")).text; });
    case AttributeType::kTypeProtos: {
      std::vector<std::string> list;
      ForEachField(m, 15,
                   [&](Message& at) { list.push_back(ParseType(at.Sub("type_protos", "TypeProto")).text); });
      return list;
    }
  }
  m.Fail("attribute ", pb.name, " has no value");
}

std::shared_ptr<graph::Graph> Importer::ImportSubgraph(Message message, Scope& scope, Level& level,
                                                       SubLevels* subs) {
  if (!subs) message.Fail("a graph where a constant is expected");
  if (subs->size() == kMaxSubgraphsOfNode)
    message.Fail("a node with more than ", kMaxSubgraphsOfNode, " sub-graphs");
  if (level.depth == kMaxSubgraphDepth)
    message.Fail("sub-graphs nested more than ", kMaxSubgraphDepth, " deep");
  const GraphPb pb = ParseGraph(message);
  if (scope.call) Charge(pb.nodes.size(), 0, message);
  subs->push_back(std::make_unique<Level>());
  Level& sub = *subs->back();
  sub.graph = std::make_shared<graph::Graph>();
  sub->opsets = *scope.opsets;
  sub.outer = &level;
  sub.depth = level.depth + 1;
  Scope inner;
  inner.level = &sub;
  inner.parent = &scope;
  inner.call = scope.call;
  inner.opsets = scope.opsets;
  Build(pb, inner, false);
  return sub.graph;
}

}  // namespace ullage::onnx
