#include "placement/layer_map.h"

#include <algorithm>
#include <array>
#include <map>

#include "placement/layer_names.h"

namespace ullage::placement {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

namespace {

constexpr std::array<std::string_view, 9> kAttention = {
    "Attention",       "MultiHeadAttention", "GroupQueryAttention", "DecoderMaskedMultiHeadAttention",
    "PagedAttention",  "CachedAttention",    "PackedAttention",     "SparseAttention",
    "LinearAttention",
};

bool IsAttention(const Node& node) {
  return std::find(kAttention.begin(), kAttention.end(), node.op) != kAttention.end();
}

/// A layer of a network has weights that are matrices, or attends; a norm has vectors only.
bool DoesWork(const Graph& graph, const Node& node) {
  if (IsAttention(node)) return true;
  return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
    const auto* c = graph.ConstantOf(v);
    if (!c) return false;
    const auto dims = c->shape.dims();
    return !c->block_type.empty() ||
           std::count_if(dims.begin(), dims.end(), [](int64_t d) { return d > 1; }) >= 2;
  });
}

bool IsNorm(const Node& node) {
  return node.op.find("Norm") != std::string::npos || node.op == "Pow" || node.op == "ReduceMean";
}

/// The number in the name of a cache: "past_key_values.3.key", "present.3.value", "past_key_self_3".
int64_t CacheLayer(std::string_view name) {
  if (name.rfind("past", 0) != 0 && name.rfind("present", 0) != 0) return -1;
  for (size_t i = 0; i < name.size(); ++i)
    if (name[i] >= '0' && name[i] <= '9') {
      int64_t n = 0;
      for (; i < name.size() && name[i] >= '0' && name[i] <= '9' && n < 1'000'000; ++i)
        n = n * 10 + (name[i] - '0');
      return n;
    }
  return -1;
}

constexpr int64_t kNoLayer = -1;
constexpr int64_t kMany = INT64_MAX;  // "no layer" where the lowest counts

/// A sum of two computed values, alone or fused with the norm behind it.
bool JoinsResidual(const Graph& graph, const Node& node) {
  if (node.op.rfind("Skip", 0) == 0) return true;
  const auto computed = [&](size_t i) { return node.has_input(i) && !graph.ConstantOf(node.input(i)); };
  return node.op == "Add" && computed(0) && computed(1);
}

/// Anchors what lies between attention operators whose layers are known. The residual stream leaves layer k
/// at the last node whose results feed both the attention of layer k+1 and what comes after it; everything
/// from there to that attention is layer k+1. The last layer ends with the last sum behind its attention.
void CutAtResiduals(const Graph& graph, const std::vector<NodeId>& order, std::vector<int64_t>* anchor,
                    const std::vector<int64_t>& above, const std::vector<int64_t>& below) {
  std::map<int64_t, NodeId> cut;
  int64_t last = kNoLayer;
  NodeId last_sum = kNone;
  for (NodeId id : order) {
    const auto i = static_cast<size_t>(id);
    const int64_t layer = std::max(above[i], (*anchor)[i]);
    if (layer > last) last = layer, last_sum = kNone;
    if (layer == last && layer >= 0 && JoinsResidual(graph, graph.node(id))) last_sum = id;
    bool inward = false, around = false;
    for (ValueId v : graph.node(id).outputs)
      if (v != kNone)
        for (NodeId consumer : graph.value(v).consumers) {
          const auto c = static_cast<size_t>(consumer);
          inward = inward || below[c] == layer + 1 || (*anchor)[c] == layer + 1;
          around = around || above[c] > layer;
        }
    if (inward && around) cut[layer] = id;
  }
  const std::vector<int64_t> known = *anchor;
  for (NodeId id : order) {
    const auto i = static_cast<size_t>(id);
    const auto it = cut.find(above[i]);
    if (known[i] >= 0 || it == cut.end() || below[i] != above[i] + 1 || id == it->second) continue;
    for (ValueId v : graph.node(id).inputs)
      if (const Node* producer = v == kNone ? nullptr : graph.ProducerOf(v))
        if (producer->id == it->second || (*anchor)[static_cast<size_t>(producer->id)] == below[i])
          (*anchor)[i] = below[i];
  }
  // What the last sum depends on, back to the attention of the last layer. A sum fused with the final norm
  // belongs to the output.
  if (last_sum == kNone) return;
  std::vector<bool> needed(anchor->size(), false);
  needed[static_cast<size_t>(last_sum)] = true;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const auto i = static_cast<size_t>(*it);
    if (!needed[i] || above[i] != last) continue;
    for (ValueId v : graph.node(*it).inputs)
      if (const Node* producer = v == kNone ? nullptr : graph.ProducerOf(v))
        needed[static_cast<size_t>(producer->id)] = true;
    if ((*anchor)[i] < 0 && (*it != last_sum || graph.node(*it).op == "Add")) (*anchor)[i] = last;
  }
}

}  // namespace

LayerMap::LayerMap(const Graph& graph) : nodes_(graph.node_slots()) {
  const std::vector<NodeId> order = graph.Order();
  FromTexts(graph, order);
  FindFinalNorms(graph, order);
  FromStructure(graph, order);
  for (const NodeLayer& n : nodes_) layers_ = std::max(layers_, n.layer + 1);
}

void LayerMap::FromTexts(const Graph& graph, const std::vector<NodeId>& order) {
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    NodeLayer& n = nodes_[static_cast<size_t>(id)];
    const auto take = [&](std::string_view text) {
      const auto found = FindLayer(text);
      if (!found) return false;
      n.layer = found->number;
      n.stack = found->stack(text);
      return true;
    };
    n.scopes = ScopesOfMetadata(node);
    bool found = take(node.name);
    n.scopeless = IsScopeless(node.name);
    for (const auto& name : node.provenance) {
      found = found || take(name);
      n.scopeless = n.scopeless && IsScopeless(name);
    }
    for (const auto& scope : n.scopes) found = found || take(scope);
    if (found || !n.scopeless || !n.scopes.empty()) continue;
    for (ValueId v : node.outputs) {
      if (found || v == kNone || !take(graph.value(v).name)) continue;
      n.scopes = {graph.value(v).name};
      found = true;
    }
    for (ValueId v : node.inputs) {
      if (found || v == kNone || !graph.ConstantOf(v) || !take(graph.value(v).name)) continue;
      const std::string& name = graph.value(v).name;
      n.scopes = {IsScopeless(name) || name[0] == '/' ? name : PathOfModule(name), name};
      take(n.scopes.front());
      found = true;
    }
  }
}

void LayerMap::FindFinalNorms(const Graph& graph, const std::vector<NodeId>& order) {
  struct Stack {
    std::map<int64_t, std::pair<bool, bool>> layers;  // number -> does work, has a norm
  };
  std::map<std::string, Stack> stacks;
  for (NodeId id : order) {
    const NodeLayer& n = nodes_[static_cast<size_t>(id)];
    if (n.layer < 0) continue;
    auto& [work, norm] = stacks[n.stack].layers[n.layer];
    work = work || DoesWork(graph, graph.node(id));
    norm = norm || IsNorm(graph.node(id));
  }
  for (NodeId id : order) {
    NodeLayer& n = nodes_[static_cast<size_t>(id)];
    if (n.layer <= 0) continue;
    const auto& layers = stacks[n.stack].layers;
    const auto last = std::prev(layers.end());
    const bool others_work = std::any_of(layers.begin(), last, [](const auto& l) { return l.second.first; });
    if (last->first != n.layer || last->second.first || !last->second.second || !others_work) continue;
    n.final_norm = true;
  }
  for (NodeLayer& n : nodes_)
    if (n.final_norm) n.layer = -1;
}

void LayerMap::FromStructure(const Graph& graph, const std::vector<NodeId>& order) {
  std::vector<int64_t> anchor(nodes_.size(), kNoLayer);
  std::map<int64_t, std::string> stack_of;  // layer -> the words that name it
  bool named = false, unknown = false;
  for (NodeId id : order) {
    const NodeLayer& n = nodes_[static_cast<size_t>(id)];
    anchor[static_cast<size_t>(id)] = n.layer;
    named = named || n.layer >= 0;
    unknown = unknown || (n.layer < 0 && n.scopeless && n.scopes.empty());
    if (n.layer >= 0) stack_of.emplace(n.layer, n.stack);
  }
  if (!unknown) return;
  if (!named) {  // caches, else attention operators, count the layers
    int64_t attentions = 0;
    bool caches = false;
    for (NodeId id : order) {
      const Node& node = graph.node(id);
      int64_t layer = kNoLayer;
      for (ValueId v : node.inputs)
        if (v != kNone && graph.value(v).is_input) layer = std::max(layer, CacheLayer(graph.value(v).name));
      for (ValueId v : node.outputs)
        if (v != kNone && graph.IsOutput(v)) layer = std::max(layer, CacheLayer(graph.value(v).name));
      if (layer >= 0 && (IsAttention(node) || node.op == "Concat")) {
        anchor[static_cast<size_t>(id)] = layer;
        caches = true;
      }
      attentions += IsAttention(node);
    }
    if (!caches) {
      if (attentions < 2) return;
      int64_t next = 0;
      for (NodeId id : order)
        if (IsAttention(graph.node(id))) anchor[static_cast<size_t>(id)] = next++;
    }
  }
  // Highest layer among the nodes that a node depends on, lowest among those that depend on it.
  std::vector<int64_t> above(nodes_.size(), kNoLayer), below(nodes_.size(), kMany);
  for (NodeId id : order) {
    auto& a = above[static_cast<size_t>(id)];
    for (ValueId v : graph.node(id).inputs)
      if (const Node* producer = v == kNone ? nullptr : graph.ProducerOf(v))
        a = std::max(
            {a, anchor[static_cast<size_t>(producer->id)], above[static_cast<size_t>(producer->id)]});
  }
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    auto& b = below[static_cast<size_t>(*it)];
    for (ValueId v : graph.node(*it).outputs)
      if (v != kNone)
        for (NodeId consumer : graph.value(v).consumers) {
          const auto c = static_cast<size_t>(consumer);
          if (anchor[c] >= 0) b = std::min(b, anchor[c]);
          b = std::min(b, below[c]);
        }
  }
  if (!named) CutAtResiduals(graph, order, &anchor, above, below);
  for (NodeId id : order) {
    const auto i = static_cast<size_t>(id);
    NodeLayer& n = nodes_[i];
    if (n.layer >= 0 || n.final_norm || !n.scopeless || !n.scopes.empty()) continue;
    int64_t layer = anchor[i];
    if (layer < 0 && below[i] != kMany && below[i] >= above[i]) layer = above[i];
    if (layer < 0) continue;
    n.layer = layer;
    const auto stack = stack_of.find(layer);
    n.stack = stack != stack_of.end() ? stack->second : "/model/layers.";
    n.scopes = {n.stack + std::to_string(layer) + "/"};
  }
}

}  // namespace ullage::placement
