#include "onnx/model_pb.h"

#include <set>

namespace ullage::onnx {
namespace {

constexpr int kMaxTypeDepth = 16;

DType ElementType(const Message& m, int64_t number) {
  if (number == 0) return DType::kUndefined;
  const DType dtype =
      number > 0 && number <= INT32_MAX ? DTypeFromOnnx(static_cast<int32_t>(number)) : DType::kUndefined;
  if (dtype == DType::kUndefined) m.Fail("unknown element type ", number);
  return dtype;
}

graph::DeclaredShape ParseShape(Message m) {
  graph::DeclaredShape shape;
  while (m.Next()) {
    if (m.field() != 1) {
      m.Skip();
      continue;
    }
    Message d = m.Sub("dim", "Dimension");
    graph::DeclaredDim dim;
    while (d.Next()) {
      if (d.field() == 1) {
        dim.value = d.Int("dim_value");
        if (dim.value < 0) dim.value = -1;
      } else if (d.field() == 2) {
        dim.label = d.String("dim_param");
      } else {
        d.Skip();
      }
    }
    if (shape.size() == static_cast<size_t>(kMaxRank)) m.Fail("shape of rank above ", kMaxRank);
    shape.push_back(std::move(dim));
  }
  return shape;
}

std::string TypeText(DType dtype) {
  if (dtype == DType::kFloat) return "float";
  if (dtype == DType::kDouble) return "double";
  return std::string(NameOf(dtype));
}

void ReadTensorType(Message m, TypePb& type) {
  while (m.Next()) {
    if (m.field() == 1)
      type.dtype = ElementType(m, m.Int("elem_type"));
    else if (m.field() == 2)
      type.shape = ParseShape(m.Sub("shape", "TensorShapeProto"));
    else
      m.Skip();
  }
}

TypePb ParseTypeAt(Message m, int depth) {
  if (depth > kMaxTypeDepth) m.Fail("types nested more than ", kMaxTypeDepth, " deep");
  const auto inner_of = [&](Message outer, uint32_t field) {
    TypePb inner;
    while (outer.Next()) {
      if (outer.field() == field)
        inner = ParseTypeAt(outer.Sub("elem_type", "TypeProto"), depth + 1);
      else
        outer.Skip();
    }
    return inner;
  };
  TypePb type;
  while (m.Next()) {
    switch (m.field()) {
      case 1:
      case 8: {
        const bool sparse = m.field() == 8;
        type = {};
        ReadTensorType(m.Sub("tensor_type", "TypeProto.Tensor"), type);
        type.text = (sparse ? "sparse_tensor(" : "tensor(") + TypeText(type.dtype) + ")";
        break;
      }
      case 4:
        type = inner_of(m.Sub("sequence_type", "TypeProto.Sequence"), 1);
        type.kind =
            type.kind == graph::TypeKind::kTensor ? graph::TypeKind::kSequence : graph::TypeKind::kMap;
        type.text = "seq(" + type.text + ")";
        break;
      case 9:
        type = inner_of(m.Sub("optional_type", "TypeProto.Optional"), 1);
        type.kind = type.kind == graph::TypeKind::kTensor     ? graph::TypeKind::kOptional
                    : type.kind == graph::TypeKind::kSequence ? graph::TypeKind::kOptionalSequence
                                                              : graph::TypeKind::kMap;
        type.text = "optional(" + type.text + ")";
        break;
      case 5: {
        Message map = m.Sub("map_type", "TypeProto.Map");
        DType key = DType::kUndefined;
        TypePb value;
        while (map.Next()) {
          if (map.field() == 1)
            key = ElementType(map, map.Int("key_type"));
          else if (map.field() == 2)
            value = ParseTypeAt(map.Sub("value_type", "TypeProto"), depth + 1);
          else
            map.Skip();
        }
        type = {};
        type.kind = graph::TypeKind::kMap;
        type.dtype = value.dtype;
        type.text = "map(" + TypeText(key) + "," + value.text + ")";
        break;
      }
      default:
        m.Skip();
    }
  }
  return type;
}

void ReadOpset(Message m, Opsets& opsets) {
  std::string_view domain;
  int64_t version = 0;
  while (m.Next()) {
    if (m.field() == 1)
      domain = m.Bytes("domain");
    else if (m.field() == 2)
      version = m.Int("version");
    else
      m.Skip();
  }
  if (version < 0 || version > INT32_MAX) m.Fail("opset version ", version, " of domain \"", domain, "\"");
  int& known = opsets[std::string(NormalDomain(domain))];
  known = std::max(known, static_cast<int>(version));
}

FunctionPb ParseFunction(Message m) {
  FunctionPb f;
  f.size_bytes = m.rest().size();
  while (m.Next()) {
    switch (m.field()) {
      case 1:
        f.name = m.Bytes("name");
        break;
      case 4:
        f.inputs.push_back(m.Bytes("input"));
        break;
      case 5:
        f.outputs.push_back(m.Bytes("output"));
        break;
      case 7:
        f.nodes.push_back(ParseNode(m.Sub("node", "NodeProto")));
        break;
      case 9:
        ReadOpset(m.Sub("opset_import", "OperatorSetIdProto"), f.opsets);
        break;
      case 10:
        f.domain = NormalDomain(m.Bytes("domain"));
        break;
      case 11:
        f.defaults.push_back(ParseAttribute(m.Sub("attribute_proto", "AttributeProto")));
        if (!f.defaults.back().ref.empty())
          m.Fail("default of attribute ", f.defaults.back().name, " refers to another attribute");
        break;
      case 13:
        f.overload = m.Bytes("overload");
        break;
      default:
        m.Skip();
    }
  }
  if (f.name.empty()) m.Fail("function without a name");
  return f;
}

}  // namespace

void ReadEntry(Message entry, StringMap& map) {
  std::string key, value;
  while (entry.Next()) {
    if (entry.field() == 1)
      key = entry.String("key");
    else if (entry.field() == 2)
      value = entry.String("value");
    else
      entry.Skip();
  }
  map.emplace(std::move(key), std::move(value));
}

TypePb ParseType(Message message) {
  return ParseTypeAt(message, 0);
}

ValueInfoPb ParseValueInfo(Message m) {
  ValueInfoPb info;
  while (m.Next()) {
    if (m.field() == 1)
      info.name = m.Bytes("name");
    else if (m.field() == 2)
      info.type = m.Sub("type", "TypeProto");
    else
      m.Skip();
  }
  return info;
}

AttributePb ParseAttribute(Message m) {
  AttributePb a;
  a.message = m;
  int64_t type = 0;
  AttributeType found = AttributeType::kUndefined;
  while (m.Next()) {
    switch (m.field()) {
      case 1:
        a.name = m.Bytes("name");
        continue;
      case 20:
        type = m.Int("type");
        continue;
      case 21:
        a.ref = m.Bytes("ref_attr_name");
        continue;
      case 2:
        found = AttributeType::kFloat;
        break;
      case 3:
        found = AttributeType::kInt;
        break;
      case 4:
        found = AttributeType::kString;
        break;
      case 5:
        found = AttributeType::kTensor;
        break;
      case 6:
        found = AttributeType::kGraph;
        break;
      case 7:
        found = AttributeType::kFloats;
        break;
      case 8:
        found = AttributeType::kInts;
        break;
      case 9:
        found = AttributeType::kStrings;
        break;
      case 10:
        found = AttributeType::kTensors;
        break;
      case 11:
        found = AttributeType::kGraphs;
        break;
      case 14:
        found = AttributeType::kTypeProto;
        break;
      case 15:
        found = AttributeType::kTypeProtos;
        break;
      case 22:
        found = AttributeType::kSparseTensor;
        break;
      case 23:
        found = AttributeType::kSparseTensors;
        break;
      default:
        break;
    }
    m.Skip();
  }
  if (a.name.empty()) a.message.Fail("attribute without a name");
  if (type < 0 || type > static_cast<int64_t>(AttributeType::kTypeProtos))
    a.message.Fail("attribute ", a.name, " has unknown type ", type);
  a.type = type == 0 ? found : static_cast<AttributeType>(type);
  if (a.type == AttributeType::kUndefined && a.ref.empty())
    a.message.Fail("attribute ", a.name, " has neither type nor value");
  return a;
}

std::string NodePb::Where() const {
  std::string where = message.source().name + ": node ";
  if (!name.empty())
    where += name;
  else
    where += StrCat("at byte ", message.offset());
  where += " (";
  if (!domain.empty()) where += std::string(domain) + ":";
  return where + std::string(op) + ")";
}

NodePb ParseNode(Message m) {
  NodePb n;
  n.message = m;
  while (m.Next()) {
    switch (m.field()) {
      case 1:
        n.inputs.push_back(m.Bytes("input"));
        break;
      case 2:
        n.outputs.push_back(m.Bytes("output"));
        break;
      case 3:
        n.name = m.Bytes("name");
        break;
      case 4:
        n.op = m.Bytes("op_type");
        break;
      case 5:
        n.attributes.push_back(ParseAttribute(m.Sub("attribute", "AttributeProto")));
        break;
      case 7:
        n.domain = NormalDomain(m.Bytes("domain"));
        break;
      case 8:
        n.overload = m.Bytes("overload");
        break;
      case 9:
        ReadEntry(m.Sub("metadata_props", "StringStringEntryProto"), n.metadata);
        break;
      default:
        m.Skip();
    }
  }
  if (n.op.empty()) n.message.Fail("node \"", n.name, "\" has no op_type");
  std::set<std::string_view> names;
  for (const auto& a : n.attributes)
    if (!names.insert(a.name).second)
      Throw(m.source().code, n.Where(), ": attribute ", a.name, " is given twice");
  return n;
}

GraphPb ParseGraph(Message m) {
  GraphPb g;
  g.message = m;
  while (m.Next()) {
    switch (m.field()) {
      case 1:
        g.nodes.push_back(ParseNode(m.Sub("node", "NodeProto")));
        break;
      case 2:
        g.name = m.Bytes("name");
        break;
      case 5:
        g.initializers.push_back(m.Sub("initializer", "TensorProto"));
        break;
      case 11:
        g.inputs.push_back(ParseValueInfo(m.Sub("input", "ValueInfoProto")));
        break;
      case 12:
        g.outputs.push_back(ParseValueInfo(m.Sub("output", "ValueInfoProto")));
        break;
      case 13:
        g.value_infos.push_back(ParseValueInfo(m.Sub("value_info", "ValueInfoProto")));
        break;
      case 15:
        g.sparse_initializers.push_back(m.Sub("sparse_initializer", "SparseTensorProto"));
        break;
      case 16:
        ReadEntry(m.Sub("metadata_props", "StringStringEntryProto"), g.metadata);
        break;
      default:
        m.Skip();
    }
  }
  return g;
}

ModelPb ParseModel(Message m) {
  ModelPb model;
  while (m.Next()) {
    switch (m.field()) {
      case 1:
        model.ir_version = m.Int("ir_version");
        break;
      case 7:
        if (model.graph) m.Fail("a second graph");
        model.graph = m.Sub("graph", "GraphProto");
        break;
      case 8:
        ReadOpset(m.Sub("opset_import", "OperatorSetIdProto"), model.opsets);
        break;
      case 14:
        ReadEntry(m.Sub("metadata_props", "StringStringEntryProto"), model.metadata);
        break;
      case 25:
        model.functions.push_back(ParseFunction(m.Sub("functions", "FunctionProto")));
        break;
      default:
        m.Skip();
    }
  }
  if (!model.graph) Throw(m.source().code, m.source().name, ": no graph: not an ONNX model, or cut off");
  return model;
}

}  // namespace ullage::onnx
