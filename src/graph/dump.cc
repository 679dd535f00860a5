#include <sstream>

#include "graph/graph.h"

namespace ullage::graph {
namespace {

void Write(const Graph& g, std::ostringstream& out, const std::string& indent);

struct AttributeWriter {
  std::ostringstream& out;
  const std::string& indent;
  void operator()(int64_t v) const { out << v; }
  void operator()(float v) const { out << v; }
  void operator()(const std::string& v) const { out << '"' << v << '"'; }
  template <class T>
  void operator()(const std::vector<T>& list) const {
    out << '[';
    for (size_t i = 0; i < list.size(); ++i) {
      if (i) out << ',';
      (*this)(list[i]);
    }
    out << ']';
  }
  void operator()(const ConstantPtr& c) const { out << NameOf(c->dtype) << c->shape.ToString(); }
  void operator()(const std::shared_ptr<Graph>& g) const {
    out << "{\n";
    Write(*g, out, indent + "    ");
    out << indent << "  }";
  }
};

std::string Typed(const Value& v) {
  std::string s = "%" + v.name + ":" + std::string(NameOf(v.dtype));
  if (!v.declared) return s;
  s += "[";
  for (size_t i = 0; i < v.declared->size(); ++i) {
    const auto& d = (*v.declared)[i];
    s += (i ? "," : "") + (d.value >= 0 ? std::to_string(d.value) : d.label.empty() ? "?" : d.label);
  }
  return s + "]";
}

void Write(const Graph& g, std::ostringstream& out, const std::string& indent) {
  for (ValueId v : g.inputs) out << indent << "input  " << Typed(g.value(v)) << "\n";
  for (ValueId v : g.capture_values) out << indent << "capture " << Typed(g.value(v)) << "\n";
  for (NodeId id : g.Order()) {
    const Node& n = g.node(id);
    out << indent;
    for (size_t i = 0; i < n.outputs.size(); ++i)
      out << (i ? ", " : "") << (n.outputs[i] == kNone ? "_" : "%" + g.value(n.outputs[i]).name);
    out << " = " << n.OpName() << "(";
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (i) out << ", ";
      if (n.inputs[i] == kNone) {
        out << "_";
        continue;
      }
      const Value& v = g.value(n.inputs[i]);
      out << "%" << v.name;
      if (v.constant) {
        out << "=" << NameOf(v.constant->dtype) << v.constant->shape.ToString();
        if (!v.constant->block_type.empty()) out << ":" << v.constant->block_type;
      }
    }
    out << ")";
    for (const auto& [key, value] : n.attributes) {
      out << " " << key << "=";
      std::visit(AttributeWriter{out, indent}, value);
    }
    out << "  # " << n.name;
    if (!n.annotation.empty()) out << " @" << n.annotation;
    out << "\n";
  }
  for (ValueId v : g.outputs) out << indent << "output %" << g.value(v).name << "\n";
}

}  // namespace

std::string Dump(const Graph& graph) {
  std::ostringstream out;
  Write(graph, out, "");
  return std::move(out).str();
}

}  // namespace ullage::graph
