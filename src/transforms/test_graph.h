/// Small graphs for tests of passes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "shapes/input_bounds.h"
#include "transforms/pass.h"
#include "transforms/passes.h"

namespace ullage::transforms::test {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

/// A graph under construction; values are named after the operator that makes them.
struct TestGraph {
  Graph g;

  TestGraph() { g.opsets = {{"", 21}}; }

  /// Negative dimensions are symbols.
  ValueId Input(const std::string& name, const std::vector<int64_t>& dims, DType dtype = DType::kFloat) {
    graph::DeclaredShape shape;
    for (int64_t d : dims) shape.push_back({d, d < 0 ? "?" : ""});
    return g.AddInput(name, dtype, shape);
  }
  ValueId Floats(const std::vector<float>& v, const Shape& shape = {}) {
    return g.AddConstant("c", graph::MakeFloats(shape, v));
  }
  ValueId Scalar(float v) { return Floats({v}); }
  ValueId Ints(const std::vector<int64_t>& v) {
    return g.AddConstant("i", graph::MakeInts({static_cast<int64_t>(v.size())}, v));
  }
  ValueId Index(int64_t v) { return g.AddConstant("i", graph::MakeInts({}, std::vector<int64_t>{v})); }
  /// Zeros of any type.
  ValueId Zeros(const Shape& shape, DType dtype = DType::kFloat) {
    return g.AddConstant("w", graph::MakeConstant(dtype, shape).constant);
  }
  Node& Add(const std::string& op, std::vector<ValueId> in, int outputs = 1) {
    std::string domain, name = op;
    if (const size_t colon = op.find(':'); colon != std::string::npos) {
      domain = op.substr(0, colon);
      name = op.substr(colon + 1);
      g.opsets.emplace(domain, 1);
    }
    std::vector<ValueId> out;
    for (int i = 0; i < outputs; ++i) out.push_back(g.AddValue(name));
    return g.AddNode(domain, name, "n/" + name, std::move(in), std::move(out));
  }
  ValueId Op(const std::string& op, std::vector<ValueId> in) { return Add(op, std::move(in)).outputs[0]; }
  void Output(ValueId v) { g.outputs.push_back(v); }

  /// Runs one pass and checks that the graph still holds together; gives the number of rewrites.
  int Run(PassFn pass, const PassOptions& options = {}) {
    graph::Verify(g);
    PassContext context(g, options);
    const int n = pass(context);
    graph::Verify(g);
    ops::SymbolTable table;
    shapes::Propagate(g, shapes::DeclaredInputFacts(g, table), {}, table);
    return n;
  }

  /// The only living node of that operator, or null (none, or several).
  const Node* Only(const std::string& op) const {
    const Node* found = nullptr;
    for (NodeId id : g.Order()) {
      if (g.node(id).OpName() != op) continue;
      if (found) return nullptr;
      found = &g.node(id);
    }
    return found;
  }
  int Count(const std::string& op) const {
    int n = 0;
    for (NodeId id : g.Order()) n += g.node(id).OpName() == op;
    return n;
  }
  size_t Nodes() const { return g.LiveNodes(); }
};

inline bool StandsFor(const Node& node, const std::vector<std::string>& names) {
  return std::all_of(names.begin(), names.end(), [&](const std::string& n) {
    return std::find(node.provenance.begin(), node.provenance.end(), n) != node.provenance.end();
  });
}

}  // namespace ullage::transforms::test
