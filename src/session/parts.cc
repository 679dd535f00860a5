#include "session/parts.h"

#include <algorithm>

namespace ullage::session {

using graph::kNone;
using graph::ValueId;

namespace {

/// The single integer of a constant, or an attribute with one integer; `found` is false for anything else.
int64_t OneInt(const graph::Node& node, const graph::Graph& graph, size_t input, const char* attribute,
               int64_t absent, bool* found) {
  *found = true;
  if (node.has_attr(attribute)) {
    const auto list = node.IntsView(attribute);
    *found = list.size() == 1;
    return *found ? list[0] : 0;
  }
  if (!node.has_input(input)) return absent;
  const auto* c = graph.ConstantOf(node.inputs[input]);
  *found = c && c->available() && c->elements() == 1;
  return *found ? c->AsInts()[0] : 0;
}

bool IsSlice(const graph::Node& node, const graph::Graph& graph, const shapes::GraphFacts& facts) {
  bool axis_known = false, step_known = false;
  OneInt(node, graph, 3, "axes", 0, &axis_known);
  const int64_t step = OneInt(node, graph, 4, "steps", 1, &step_known);
  if (!axis_known || !step_known || step != 1) return false;
  if (!node.has_input(1)) return node.IntsView("starts").size() == 1;
  // Without axes, as many axes as there are starts.
  return facts.of(node.inputs[1]).shape.ElementsUpper() == 1;
}

// A small slice would keep the whole input alive: it must be large, or the input needed for longer anyway.
bool KeepsLittle(const graph::Node& node, const graph::Graph& graph, const shapes::GraphFacts& facts) {
  const auto& source = graph.value(node.inputs[0]);
  if (source.is_input || source.constant) return true;
  const ValueId out = node.output(0);
  const int64_t whole = facts.of(node.inputs[0]).shape.ElementsUpper();
  const int64_t part = facts.of(out).shape.ElementsUpper();
  if (whole == ops::kUnbounded || part == ops::kUnbounded) return false;
  if (part >= whole / 2) return true;
  const auto last = [](const std::vector<graph::NodeId>& ids) {
    return ids.empty() ? kNone : *std::max_element(ids.begin(), ids.end());
  };
  return last(source.consumers) > last(graph.value(out).consumers) && !graph.IsOutput(out);
}

}  // namespace

int PartsAxis(const graph::Node& node, const graph::Graph& graph, int rank) {
  bool found = true;
  const int64_t axis = node.op == "Split" ? node.Int("axis", 0) : OneInt(node, graph, 3, "axes", 0, &found);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

bool IsParts(const graph::Node& node, const graph::Graph& graph, const shapes::GraphFacts& facts) {
  if (!node.domain.empty() || !node.has_input(0)) return false;
  const bool split = node.op == "Split";
  if (!split && (node.op != "Slice" || !IsSlice(node, graph, facts))) return false;
  if (node.outputs.empty() || node.outputs.size() > kMaxParts) return false;
  if (std::find(node.outputs.begin(), node.outputs.end(), kNone) != node.outputs.end()) return false;
  const auto& whole = facts.of(node.inputs[0]);
  if (!whole.shape.known_rank() || BitsOf(whole.dtype) == 0 || BitsOf(whole.dtype) % 8 != 0) return false;
  const int axis = PartsAxis(node, graph, whole.shape.rank);
  if (axis < 0 || axis >= whole.shape.rank) return false;
  for (int d = 0; d < axis; ++d)
    if (!whole.shape[d].bounded() || whole.shape[d].upper > 1) return false;
  return split || KeepsLittle(node, graph, facts);
}

}  // namespace ullage::session
