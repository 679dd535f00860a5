/// Products that read the same activations become one node: the activations are quantised once, and one
/// parallel region serves all parts.
#include <algorithm>
#include <map>

#include "transforms/passes.h"
#include "transforms/rewrite.h"

namespace ullage::transforms {
namespace {

/// The numbers in a path, without its last component: "/model/layers.3/attn/q_proj/MatMul_1" -> "3,".
std::string Numbers(std::string_view path, char separator) {
  const size_t end = path.rfind(separator);
  std::string numbers;
  if (end == std::string_view::npos) return numbers;
  for (size_t i = 0; i < end; ++i) {
    if (path[i] < '0' || path[i] > '9') continue;
    numbers += path[i];
    if (i + 1 == end || path[i + 1] < '0' || path[i + 1] > '9') numbers += ',';
  }
  return numbers;
}

/// What must agree for nodes to be merged, so that no node spans two layers (the keys of a cross-attention
/// read the same encoder state in every layer).
std::string Scope(const Node& node) {
  const std::string& name = node.provenance.empty() ? node.name : node.provenance.front();
  std::string scope = node.annotation + "|" + Numbers(name, name.find('/') != std::string::npos ? '/' : '.');
  for (const char* key : {"namespace", "pkg.torch.onnx.name_scopes"})
    if (const auto it = node.metadata.find(key); it != node.metadata.end())
      scope += "|" + Numbers(it->second, it->second.find('/') != std::string::npos ? '/' : ',');
  return scope;
}

void Merge(graph::Graph& g, const std::vector<NodeId>& parts) {
  constexpr size_t kParts = 5;  // weight, scales, zero points, group index, bias
  const Node& first = g.node(parts.front());
  std::vector<ValueId> inputs = {first.input(0)}, outputs;
  std::vector<int64_t> n, bits, blocks;
  std::vector<std::string> formats;
  const int64_t k = first.Int("K", 0), level = first.Int("accuracy_level", 0);
  for (NodeId id : parts) {
    const Node& part = g.node(id);
    for (size_t i = 1; i <= kParts; ++i) inputs.push_back(part.input(i));
    outputs.push_back(part.output(0));
    n.push_back(part.Int("N", 0));
    bits.push_back(part.Int("bits", 4));
    blocks.push_back(part.Int("block_size", 0));
    formats.push_back(part.Str("format", ""));
  }
  graph::Patch patch(g, "multi-linear");
  for (NodeId id : parts) patch.Remove(id);
  Node& merged =
      patch.Add(kUllageDomain, "MultiLinear", "MultiLinear", std::move(inputs), std::move(outputs), parts);
  merged.attributes["K"] = k;
  merged.attributes["N"] = std::move(n);
  merged.attributes["bits"] = std::move(bits);
  merged.attributes["block_size"] = std::move(blocks);
  merged.attributes["format"] = std::move(formats);
  if (level != 0) merged.attributes["accuracy_level"] = level;
}

}  // namespace

int MergeLinears(PassContext& context) {
  graph::Graph& g = context.graph();
  Lens lens(context);
  std::vector<std::vector<NodeId>> groups;
  std::map<std::string, size_t> group_of;
  for (NodeId id : g.Order()) {
    const Node& node = g.node(id);
    if (!node.Is(kUllageDomain, "Linear") || !node.has_output(0)) continue;
    bool constant = true;
    for (size_t i = 1; i < node.inputs.size(); ++i)
      constant = constant && (node.inputs[i] == kNone || lens.constant(node.inputs[i]));
    if (!constant) continue;
    const std::string key = std::to_string(node.input(0)) + "|" + std::to_string(node.Int("K", 0)) + "|" +
                            std::to_string(node.Int("accuracy_level", 0)) + "|" + Scope(node);
    const auto [it, fresh] = group_of.emplace(key, groups.size());
    if (fresh) groups.emplace_back();
    groups[it->second].push_back(id);
  }
  int count = 0;
  for (const auto& group : groups) {
    if (group.size() < 2) continue;
    Merge(g, group);
    ++count;
  }
  return count;
}

}  // namespace ullage::transforms
