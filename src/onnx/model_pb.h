/// The messages of a model file as light structures of views: nothing is decoded that is not needed to find
/// one's way. Attributes, tensors and types stay messages until they are imported.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "onnx/wire.h"

namespace ullage::onnx {

using StringMap = std::map<std::string, std::string, std::less<>>;
using Opsets = std::map<std::string, int, std::less<>>;

/// "ai.onnx" is the default domain by another name.
inline std::string_view NormalDomain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}

/// The key of a StringStringEntryProto is added to `map`; a key that is there stays.
void ReadEntry(Message entry, StringMap& map);

struct TypePb {
  graph::TypeKind kind = graph::TypeKind::kTensor;
  DType dtype = DType::kUndefined;
  std::optional<graph::DeclaredShape> shape;
  std::string text;  ///< as ONNX writes it: "seq(tensor(float))"
};
/// Throws for unknown element types, ranks above kMaxRank and deep nesting; a negative dimension is unknown.
TypePb ParseType(Message message);

struct ValueInfoPb {
  std::string_view name;
  std::optional<Message> type;
};
ValueInfoPb ParseValueInfo(Message message);

/// AttributeProto.AttributeType
enum class AttributeType {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kTypeProto = 13,
  kTypeProtos = 14,
};

struct AttributePb {
  std::string_view name;
  std::string_view ref;                            ///< ref_attr_name
  AttributeType type = AttributeType::kUndefined;  ///< found from the fields where the file does not say
  Message message;
};
AttributePb ParseAttribute(Message message);

struct NodePb {
  std::string_view name, op, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<AttributePb> attributes;  ///< names are unique
  StringMap metadata;
  Message message;

  std::string Where() const;  ///< "model.onnx: node /layers.0/Add (Add)"
};
NodePb ParseNode(Message message);

struct GraphPb {
  std::string_view name;
  std::vector<NodePb> nodes;
  std::vector<Message> initializers, sparse_initializers;
  std::vector<ValueInfoPb> inputs, outputs, value_infos;
  StringMap metadata;
  Message message;
};
GraphPb ParseGraph(Message message);

struct FunctionPb {
  std::string_view name, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<AttributePb> defaults;  ///< attribute_proto
  std::vector<NodePb> nodes;
  Opsets opsets;
  size_t size_bytes = 0;  ///< of the message
};

struct ModelPb {
  int64_t ir_version = 0;
  Opsets opsets;
  StringMap metadata;
  std::optional<Message> graph;
  std::vector<FunctionPb> functions;
};
ModelPb ParseModel(Message message);

}  // namespace ullage::onnx
