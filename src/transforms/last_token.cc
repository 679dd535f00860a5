/// Where only the last token's logits are wanted, the head is computed for that token only.
#include <algorithm>

#include "transforms/passes.h"
#include "transforms/rewrite.h"

namespace ullage::transforms {
namespace {

using graph::Graph;

/// The data inputs of a node that works on each token by itself: [B, S, ..] in, [B, S, ..] out. Empty for any
/// other node.
std::vector<size_t> TokenInputs(const Lens& lens, const Node& n) {
  const auto other_is_row = [&](size_t data) {
    // Constants that spread over the tokens: their second dimension from the left is absent or 1.
    const auto c = lens.constant(n.input(1 - data));
    return c && (c->shape.rank() < 2 || c->shape.at(-2) == 1) && c->shape.rank() <= 3 &&
           (c->shape.rank() < 3 || c->shape[0] == 1);
  };
  if (n.Is(kUllageDomain, "Linear") || n.Is(kMsDomain, "MatMulNBits") || n.Is(kMsDomain, "MatMulBnb4"))
    return {0};
  if (n.Is("", "MatMul")) {
    const auto w = lens.constant(n.input(1));
    if (w && w->shape.rank() == 2) return {0};
    return {};
  }
  if (n.domain.empty() && (n.op == "Add" || n.op == "Mul" || n.op == "Div" || n.op == "Sub")) {
    if (other_is_row(0)) return {0};
    if (other_is_row(1)) return {1};
    if (lens.SameShape(n.input(0), n.input(1))) return {0, 1};
    return {};
  }
  if (n.domain.empty() && (n.op == "Tanh" || n.op == "Cast" || n.op == "Gelu" || n.op == "Sigmoid" ||
                           n.op == "Relu" || n.op == "Neg"))
    return {0};
  if (n.Is(kMsDomain, "Gelu") || n.Is(kMsDomain, "QuickGelu")) return {0};
  if (n.Is(kMsDomain, "FastGelu") && !n.has_input(1)) return {0};
  if (n.Is(kUllageDomain, "SwiGLU"))
    return n.has_input(1) ? std::vector<size_t>{0, 1} : std::vector<size_t>{0};
  if (n.op == "SimplifiedLayerNormalization" || n.Is("", "RMSNormalization") ||
      n.Is("", "LayerNormalization")) {
    const int64_t axis = n.Int("axis", -1);
    return axis == -1 || axis == 2 ? std::vector<size_t>{0} : std::vector<size_t>{};
  }
  if (n.Is(kMsDomain, "SkipSimplifiedLayerNormalization") || n.Is(kMsDomain, "SkipLayerNormalization"))
    return lens.SameShape(n.input(0), n.input(1)) ? std::vector<size_t>{0, 1} : std::vector<size_t>{};
  return {};
}

class LastToken {
 public:
  LastToken(PassContext& context, ValueId output)
      : graph_(context.graph()), lens_(context), output_(output) {}

  int Run() {
    const auto& shape = lens_.facts(output_).shape;
    if (shape.rank != 3 || (shape[1].exact() && shape[1].lower == 1)) return 0;
    std::vector<NodeId> path;
    ValueId at = output_;
    for (;;) {
      const Node* n = graph_.ProducerOf(at);
      const bool single = at == output_ ? graph_.value(at).consumers.empty() : lens_.OneUse(at);
      if (!n || !single || n->output(0) != at || !OnlyFirstOutput(*n)) break;
      const auto inputs = TokenInputs(lens_, *n);
      if (inputs.empty() ||
          !std::all_of(inputs.begin(), inputs.end(), [&](size_t i) { return IsTokens(n->input(i)); }))
        break;
      path.push_back(n->id);
      if (inputs.size() > 1) break;
      at = n->input(inputs.front());
    }
    // A norm that stays whole as long as somebody reads its sum is passed only where it is the last step.
    return path.empty() ? AtOutput() : Insert(path.back());
  }

 private:
  bool IsTokens(ValueId v) const {
    const auto& s = lens_.facts(v).shape;
    return s.rank == 3 && ops::Same(s[1], lens_.facts(output_).shape[1]);
  }
  bool OnlyFirstOutput(const Node& n) const {
    for (size_t o = 1; o < n.outputs.size(); ++o)
      if (n.has_output(o) && !lens_.Unused(n.output(o))) return false;
    return true;
  }

  int Insert(NodeId id) {
    graph::Patch patch(graph_, "last-token");
    graph_.opsets.emplace(kUllageDomain, 1);
    Node& n = graph_.node(id);
    // Outputs that nobody reads would keep the old number of rows.
    for (size_t i : TokenInputs(lens_, n)) {
      const ValueId v = n.input(i);
      const ValueId last = patch.NewValue(graph_.value(v).name + "/last", lens_.dtype(v));
      patch.Add(kUllageDomain, "LastToken", "LastToken", {v}, {last}, {id});
      patch.SetInput(n, i, last);
    }
    return 1;
  }

  /// The output itself is cut: its producer makes another value first.
  int AtOutput() {
    const Node* n = graph_.ProducerOf(output_);
    if (!n) return 0;
    const NodeId id = n->id;
    const graph::Node copy = *n;
    graph::Patch patch(graph_, "last-token");
    graph_.opsets.emplace(kUllageDomain, 1);
    std::vector<ValueId> outputs = copy.outputs;
    const ValueId all = patch.NewValue(graph_.value(output_).name + "/all", lens_.dtype(output_));
    for (ValueId& v : outputs)
      if (v == output_) v = all;
    if (!copy.captures.empty()) return 0;
    patch.Remove(id);
    Node& same = patch.Add(copy.domain, copy.op, "all", copy.inputs, outputs, {id});
    same.attributes = copy.attributes;
    same.opset = copy.opset;
    for (NodeId user : std::vector<NodeId>(graph_.value(output_).consumers)) {
      Node& reader = graph_.node(user);
      for (size_t i = 0; i < reader.inputs.size(); ++i)
        if (reader.inputs[i] == output_) patch.SetInput(reader, i, all);
    }
    patch.Add(kUllageDomain, "LastToken", "LastToken", {all}, {output_}, {id});
    return 1;
  }

  Graph& graph_;
  Lens lens_;
  const ValueId output_;
};

}  // namespace

int KeepLastToken(PassContext& context) {
  const std::string& name = context.options().last_token_output;
  if (name.empty() || context.is_body()) return 0;
  const ValueId output = context.graph().FindValue(name);
  if (output == kNone || !context.graph().IsOutput(output)) return 0;
  return LastToken(context, output).Run();
}

}  // namespace ullage::transforms
