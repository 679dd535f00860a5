/// Constant folding: nodes whose inputs are all constant are computed once, views of constants for free.
#include <algorithm>

#include "core/error.h"
#include "transforms/passes.h"
#include "transforms/rewrite.h"

namespace ullage::transforms {
namespace {

bool HasBody(const Node& node) {
  return std::any_of(node.attributes.begin(), node.attributes.end(), [](const auto& a) {
    return std::holds_alternative<std::shared_ptr<graph::Graph>>(a.second) ||
           std::holds_alternative<std::vector<std::shared_ptr<graph::Graph>>>(a.second);
  });
}

/// True when the node only prepares the weight of products: MakeLinear reads such a weight in place.
bool PreparesWeight(const graph::Graph& g, const Node& node) {
  constexpr int64_t kSmall = 1024;
  const bool transposes = node.Is("", "Transpose");
  if (!transposes && node.op != "DequantizeLinear") return false;
  const auto* data = g.ConstantOf(node.input(0));
  if (data && data->elements() <= kSmall) return false;
  const ValueId v = node.output(0);
  if (v == kNone || g.IsOutput(v) || g.value(v).consumers.empty()) return false;
  return std::all_of(g.value(v).consumers.begin(), g.value(v).consumers.end(), [&](NodeId id) {
    const Node& user = g.node(id);
    if (!transposes && user.Is("", "Transpose")) return PreparesWeight(g, user);
    if (transposes && user.Is("", "Gather")) return user.input(0) == v;  // a tied embedding
    return (user.Is("", "MatMul") || user.Is("", "Gemm")) && user.input(1) == v && user.input(0) != v;
  });
}

/// What is known of the size of a node's results: bytes, or more than `limit`.
int64_t ResultBytes(const Lens& lens, const Node& node, size_t limit) {
  const auto most = static_cast<int64_t>(limit);
  int64_t bytes = 0;
  for (ValueId v : node.outputs) {
    if (v == kNone) continue;
    const auto& f = lens.facts(v);
    const int64_t bits = BitsOf(f.dtype), elements = f.shape.ElementsUpper();
    if (bits == 0 || elements > most) return most + 1;
    bytes += (elements * bits + 7) / 8;
    if (bytes > most) return most + 1;
  }
  return bytes;
}

class Folder {
 public:
  Folder(PassContext& context, bool spare_weights)
      : context_(context), graph_(context.graph()), lens_(context), spare_(spare_weights) {}

  int Run() {
    int folded = 0;
    for (NodeId id : graph_.Order()) folded += Fold(id);
    return folded;
  }

 private:
  bool Fold(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.outputs.empty() || HasBody(node)) return false;
    std::vector<graph::ConstantPtr> inputs;
    for (ValueId v : node.inputs) {
      inputs.push_back(lens_.constant(v));
      if (v == kNone) continue;
      if (!inputs.back()) return false;
      if (!inputs.back()->available() && !context_.options().evaluate_absent) return false;
    }
    const ops::OpInfo* op = ops::FindOp(node.domain, node.op, node.opset);
    if (!op || op->stateful || (spare_ && PreparesWeight(graph_, node))) return false;
    std::vector<graph::ConstantPtr> results;
    if (op->view_of >= 0) {
      results = View(node, inputs[static_cast<size_t>(op->view_of)]);
    } else if (context_.options().evaluate && ResultBytes(lens_, node, context_.options().max_folded_bytes) <=
                                                  static_cast<int64_t>(context_.options().max_folded_bytes)) {
      try {
        results = context_.options().evaluate(node, graph_, inputs);
      } catch (const Error&) {
        return false;  // the node says so itself if it ever runs
      }
    }
    if (results.size() != node.outputs.size()) return false;
    for (size_t o = 0; o < results.size(); ++o)
      if (node.outputs[o] != kNone && !results[o]) return false;
    const std::vector<ValueId> outputs = node.outputs;
    graph::Patch patch(graph_, "constant-folding");
    patch.Remove(id);
    for (size_t o = 0; o < outputs.size(); ++o)
      if (outputs[o] != kNone) BecomeConstant(graph_, outputs[o], results[o]);
    return true;
  }

  /// The same bytes under the shape that the facts prove.
  std::vector<graph::ConstantPtr> View(const Node& node, const graph::ConstantPtr& source) {
    const auto& f = lens_.facts(node.output(0));
    if (!source || node.outputs.size() != 1 || !f.shape.exact() || f.dtype != source->dtype) return {};
    const Shape shape = f.shape.ToShape();
    if (shape.elements() != source->elements() || !source->block_type.empty()) return {};
    return {graph::WithShape(source, shape)};
  }

  PassContext& context_;
  graph::Graph& graph_;
  Lens lens_;
  const bool spare_;
};

}  // namespace

int FoldConstants(PassContext& context) {
  return Folder(context, context.enabled("linear")).Run();
}

int FoldRemaining(PassContext& context) {
  return Folder(context, false).Run();
}

}  // namespace ullage::transforms
