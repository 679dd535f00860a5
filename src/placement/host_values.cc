#include "placement/host_values.h"

#include "ops/catalogue.h"

namespace ullage::placement {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

namespace {

constexpr int64_t kFew = 64;            // elements of a result
constexpr int64_t kReadable = 1 << 16;  // elements that are read for it: a mask, a row of token ids

bool OnHostAnyway(const Node& node, const shapes::GraphFacts& facts) {
  const auto tensors = [&](const std::vector<ValueId>& values) {
    for (ValueId v : values)
      if (v != kNone && (facts.of(v).kind != graph::TypeKind::kTensor || facts.of(v).dtype == DType::kString))
        return false;
    return true;
  };
  return !tensors(node.inputs) || !tensors(node.outputs);
}

}  // namespace

bool ReadsOnlyShape(const Node& node) {
  return node.domain.empty() && (node.op == "Shape" || node.op == "Size");
}

std::set<NodeId> HostNodes(const Graph& graph, const shapes::GraphFacts& facts) {
  std::set<NodeId> host;
  std::set<ValueId> values;  // that the host has
  for (ValueId v : graph.inputs) values.insert(v);
  for (NodeId id : graph.Order()) {
    const Node& node = graph.node(id);
    bool keep = ReadsOnlyShape(node);
    if (!keep && OnHostAnyway(node, facts)) keep = true;
    if (!keep) {
      bool any = false, all = !node.inputs.empty();
      for (ValueId v : node.inputs) {
        if (v == kNone) continue;
        const int64_t elements = facts.of(v).shape.ElementsUpper();
        const bool readable = elements != ops::kUnbounded && elements <= kReadable;
        all = all && readable && (graph.ConstantOf(v) || values.count(v));
        any = any || !graph.ConstantOf(v);
      }
      for (ValueId v : node.outputs) {
        if (v == kNone) continue;
        const auto& f = facts.of(v);
        const int64_t elements = f.shape.ElementsUpper();
        all = all && elements != ops::kUnbounded && elements <= kFew &&
              (IsInteger(f.dtype) || f.dtype == DType::kBool || (f.values && f.shape.rank <= 1));
      }
      keep = all && any;
    }
    if (!keep) continue;
    host.insert(id);
    for (ValueId v : node.outputs)
      if (v != kNone) values.insert(v);
  }
  return host;
}

bool IsTableLookup(const Graph& graph, const Node& node) {
  constexpr size_t kLarge = size_t{1} << 20;
  if (node.op != "Gather" && node.op != "GatherBlockQuantized" && node.op != "BlockGather") return false;
  const auto* table = graph.ConstantOf(node.input(0));
  return table && table->size_bytes >= kLarge;
}

}  // namespace ullage::placement
