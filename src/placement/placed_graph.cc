#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "core/error.h"
#include "placement/layer_map.h"
#include "placement/place.h"

namespace ullage::placement {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

std::string_view ReasonName(Reason reason) {
  switch (reason) {
    case Reason::kRule:
      return "rule";
    case Reason::kBudget:
      return "budget";
    case Reason::kNoKernel:
      return "no_kernel";
    case Reason::kAutomatic:
      return "automatic";
    case Reason::kDefault:
      return "default";
  }
  return "default";
}

std::string_view FallbackName(Fallback::Kind kind) {
  switch (kind) {
    case Fallback::Kind::kNoKernel:
      return "no_kernel";
    case Fallback::Kind::kType:
      return "type";
    case Fallback::Kind::kShape:
      return "shape";
    case Fallback::Kind::kBudget:
      return "budget";
  }
  return "no_kernel";
}

const PlacedNode& PlacedGraph::of(const NodeRef& node) const {
  const auto it = placed_.find(node);
  if (it == placed_.end()) Throw(Code::kRuntime, "node ", node->name, " was not placed");
  return it->second;
}

const kernels::Registry& PlacedGraph::registry(const NodeRef& node) const {
  return devices_[of(node).device].device.provider->registry();
}

void PlacedGraph::Sync() {
  bool changed = false;
  for (auto& [g, read] : log_read_) {
    for (; read < g->log.size(); ++read) {
      changed = true;
      const graph::Mutation& m = g->log[read];
      const PlacedNode* source = nullptr;
      for (NodeId id : m.removed)
        if (const auto it = placed_.find({g, id}); it != placed_.end() && !source) source = &it->second;
      for (NodeId id : m.added) {
        const Node& node = g->node(id);
        PlacedNode placed;
        placed.device = devices_.size() - 1;
        if (source) {
          placed = *source;
        } else {
          for (ValueId v : node.inputs)
            if (const Node* producer = v == kNone ? nullptr : g->ProducerOf(v))
              if (const auto it = placed_.find({g, producer->id}); it != placed_.end()) {
                placed = it->second;
                break;
              }
        }
        placed_[{g, id}] = placed;
      }
    }
  }
  if (!changed) return;
  ledger_.Sync();
  std::erase_if(placed_, [](const auto& entry) { return !entry.first->alive; });
  nodes_.clear();
  const std::function<void(const Graph&)> walk = [&](const Graph& g) {
    for (NodeId id : g.Order()) {
      for (const auto& [key, body] : SubgraphsOf(g.node(id))) walk(*body);
      if (placed_.count({&g, id})) nodes_.push_back({&g, id});
    }
  };
  walk(*graph_);
  for (PlacedDevice& d : devices_) d.nodes = 0;
  for (const NodeRef& ref : nodes_) ++devices_[of(ref).device].nodes;
}

void PlacedGraph::Move(const std::map<const Graph*, const Graph*>& copies) {
  const auto move = [&](const NodeRef& ref) { return NodeRef{copies.at(ref.graph), ref.node}; };
  graph_ = copies.at(graph_);
  for (NodeRef& ref : nodes_) ref = move(ref);
  std::map<NodeRef, PlacedNode> placed;
  for (const auto& [ref, node] : placed_) placed.emplace(move(ref), node);
  placed_ = std::move(placed);
  std::map<const Graph*, size_t> read;
  for (const auto& [graph, at] : log_read_) read[copies.at(graph)] = at;
  log_read_ = std::move(read);
  for (Fallback& f : fallbacks_) f.node = move(f.node);
  for (NodeGroup& g : groups_) g.graph = copies.at(g.graph);
  ledger_.Move(copies);
}

std::string PlacedGraph::LayerRange(size_t device) const {
  std::set<int64_t> layers;
  for (const NodeRef& ref : nodes_)
    if (const PlacedNode& p = of(ref); p.device == device && p.layer >= 0) layers.insert(p.layer);
  std::string text;
  for (auto it = layers.begin(); it != layers.end();) {
    const int64_t first = *it;
    int64_t last = first;
    while (++it != layers.end() && *it == last + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(first);
    if (last > first) text += "-" + std::to_string(last);
  }
  return text;
}

}  // namespace ullage::placement
