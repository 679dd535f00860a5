/// Small graphs and devices for tests of placement.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/patch.h"
#include "placement/layering_index.h"
#include "providers/provider.h"

namespace ullage::placement::test {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::ValueId;
using providers::DeviceInfo;
using providers::DeviceType;

inline DeviceInfo Device(std::string provider, DeviceType type = DeviceType::kUnknown, int ordinal = 0,
                         std::string vendor = "", uint32_t vendor_id = 0) {
  DeviceInfo d;
  d.provider = std::move(provider);
  d.name = d.provider + (d.provider == "cpu" ? "" : ":" + std::to_string(ordinal));
  d.type = type;
  d.ordinal = ordinal;
  d.vendor = std::move(vendor);
  d.vendor_id = vendor_id;
  return d;
}

/// A chain of nodes: each reads the result of the one before.
struct ChainGraph {
  std::shared_ptr<Graph> g = std::make_shared<Graph>();
  ValueId last = kNone;

  ChainGraph() {
    g->opsets = {{"", 21}, {"com.microsoft", 1}, {"ullage", 1}};
    last = g->AddInput("x", DType::kFloat, graph::DeclaredShape{{4, ""}, {4, ""}});
  }
  Node& Add(const std::string& name, const std::string& annotation = "", const std::string& op = "Relu",
            std::vector<ValueId> more = {}) {
    std::vector<ValueId> in = {last};
    in.insert(in.end(), more.begin(), more.end());
    const ValueId out = g->AddValue(name + "_out", DType::kFloat);
    Node& node = g->AddNode("", op, name, std::move(in), {out});
    node.annotation = annotation;
    last = out;
    return node;
  }
  ValueId Weight(const std::string& name, const Shape& shape) {
    return g->AddConstant(name, graph::MakeConstant(DType::kFloat, shape).constant);
  }
  /// An If whose two branches hold one node each.
  Node& AddIf(const std::string& name, const std::string& annotation, const std::string& body_annotation) {
    const ValueId condition = g->AddInput(name + "_condition", DType::kBool, graph::DeclaredShape{});
    const ValueId out = g->AddValue(name + "_out", DType::kFloat);
    Node& node = g->AddNode("", "If", name, {condition}, {out});
    for (const char* branch : {"then_branch", "else_branch"}) {
      auto body = std::make_shared<Graph>();
      body->opsets = g->opsets;
      const ValueId w = body->AddConstant("w", graph::MakeConstant(DType::kFloat, {4, 4}).constant);
      const ValueId y = body->AddValue("y", DType::kFloat);
      body->AddNode("", "Relu", std::string(branch) + "/body", {w}, {y}).annotation = body_annotation;
      body->outputs = {y};
      node.attributes[branch] = std::move(body);
    }
    node.annotation = annotation;
    last = out;
    return node;
  }
  Graph& Finish() {
    g->outputs = {last};
    graph::Verify(*g);
    return *g;
  }
};

inline std::vector<std::optional<size_t>> DevicesOf(const RuleSet& rules,
                                                    const std::vector<DeviceInfo>& devices) {
  std::vector<std::optional<size_t>> all;
  for (const Rule& rule : rules.rules) all.push_back(FindDevice(rule.device, devices));
  return all;
}

inline LayeringIndex Index(RuleMode mode, const std::string& text, const std::vector<DeviceInfo>& devices,
                           const Graph& g) {
  RuleSet rules = ParseRules(mode, text);
  auto of = DevicesOf(rules, devices);
  LayeringIndex index(std::move(rules), std::move(of));
  index.Build(g);
  return index;
}

inline NodeId Named(const Graph& g, const std::string& name) {
  for (NodeId id : g.Order())
    if (g.node(id).name == name) return id;
  return kNone;
}

}  // namespace ullage::placement::test
