/// A convolution, a tensor of the same shape that is added to it, and an activation become
/// com.microsoft:FusedConv. Activations: Relu, Clip, LeakyRelu, Sigmoid, Tanh, HardSigmoid, HardSwish, Gelu,
/// x * Sigmoid(x), x * HardSigmoid(x), x * Clip(x + 3, 0, 6) / 6 in any order.
#include <cmath>

#include "transforms/passes.h"
#include "transforms/rewrite.h"

namespace ullage::transforms {
namespace {

struct Activation {
  std::string name;
  std::vector<float> parameters;
  std::vector<NodeId> nodes;
  ValueId output = kNone;
};

class ConvActivationPass {
 public:
  explicit ConvActivationPass(PassContext& context) : graph_(context.graph()), lens_(context) {}

  int Run() {
    int count = 0;
    for (NodeId id : graph_.Order())
      if (graph_.node(id).alive) count += Match(id);
    return count;
  }

 private:
  bool Match(NodeId id) {
    const Node& conv = graph_.node(id);
    if (!conv.Is("", "Conv") || !conv.has_output(0)) return false;
    const DType type = lens_.dtype(conv.input(0));
    if (!IsFloating(type) || type == DType::kDouble) return false;
    ValueId y = conv.output(0);
    std::vector<NodeId> matched = {id};
    ValueId addend = kNone;
    if (lens_.OneUse(y)) {
      const Node& add = graph_.node(graph_.value(y).consumers.front());
      if (add.Is("", "Add") && add.input(0) != add.input(1) && add.has_output(0)) {
        const ValueId other = add.input(add.input(0) == y ? 1 : 0);
        // The last of two convolutions takes the other as addend.
        if (lens_.SameShape(y, other) && !lens_.constant(other)) {
          addend = other;
          matched.push_back(add.id);
          y = add.output(0);
        }
      }
    }
    if (auto activation = Follow(y)) {
      matched.insert(matched.end(), activation->nodes.begin(), activation->nodes.end());
      Replace(conv, matched, addend, *activation);
      return true;
    }
    if (addend == kNone) return false;
    Replace(conv, matched, addend, {"", {}, {}, y});
    return true;
  }

  void Replace(const Node& conv, const std::vector<NodeId>& matched, ValueId addend,
               const Activation& activation) {
    std::vector<ValueId> inputs = conv.inputs;
    inputs.resize(3, kNone);
    if (addend != kNone) inputs.push_back(addend);
    auto attributes = conv.attributes;
    if (!activation.name.empty()) attributes["activation"] = activation.name;
    if (!activation.parameters.empty()) attributes["activation_params"] = activation.parameters;
    graph::Patch patch(graph_, "conv-activation");
    Node& fused = Fuse(patch, kMsDomain, "FusedConv", "", std::move(inputs), {activation.output}, matched);
    fused.attributes = std::move(attributes);
  }

  static bool Near(double a, double b) { return std::abs(a - b) <= 1e-3 * std::abs(b); }

  /// Bounds of a Clip; nothing when they are not known.
  std::optional<std::pair<float, float>> Bounds(const Node& clip) const {
    if (clip.opset > 0 && clip.opset < 11)
      return std::pair{clip.Float("min", -INFINITY), clip.Float("max", INFINITY)};
    double low = -INFINITY, high = INFINITY;
    for (size_t i = 1; i < 3; ++i) {
      if (!clip.has_input(i)) continue;
      const auto v = lens_.Scalar(clip.input(i));
      if (!v) return {};
      (i == 1 ? low : high) = *v;
    }
    return std::pair{static_cast<float>(low), static_cast<float>(high)};
  }

  /// The activation that is all that happens to y.
  std::optional<Activation> Follow(ValueId y) const {
    if (graph_.IsOutput(y) || graph_.value(y).consumers.empty()) return {};
    if (!lens_.OneUse(y)) return Gated(y);
    const Node& n = graph_.node(graph_.value(y).consumers.front());
    if (n.input(0) != y || !n.has_output(0)) return {};
    const auto made = [&](std::string name, std::vector<float> parameters = {}) {
      return Activation{std::move(name), std::move(parameters), {n.id}, n.output(0)};
    };
    if (n.domain == kMsDomain && n.op == "Gelu") return made("Gelu");
    if (!n.domain.empty()) return {};
    if (n.op == "Relu" || n.op == "Sigmoid" || n.op == "Tanh") return made(n.op);
    if (n.op == "HardSwish") return made(n.op);
    if (n.op == "Gelu" && n.Str("approximate", "none") == "none") return made(n.op);
    if (n.op == "LeakyRelu") return made(n.op, {n.Float("alpha", 0.01f)});
    if (n.op == "Swish") return made("Silu", {n.Float("alpha", 1)});
    if (n.op == "HardSigmoid") return made(n.op, {n.Float("alpha", 0.2f), n.Float("beta", 0.5f)});
    if (n.op == "Clip")
      if (const auto bounds = Bounds(n)) return made("Clip", {bounds->first, bounds->second});
    return {};
  }

  /// y times a function of y.
  std::optional<Activation> Gated(ValueId y) const {
    const auto& users = graph_.value(y).consumers;
    if (users.size() != 2) return {};
    for (int i = 0; i < 2; ++i) {
      const Node &gate = graph_.node(users[static_cast<size_t>(i)]),
                 &product = graph_.node(users[static_cast<size_t>(1 - i)]);
      if (!product.Is("", "Mul") || !product.has_output(0) || gate.id == product.id) continue;
      const ValueId factor = product.input(product.input(0) == y ? 1 : 0);
      const Node* last = graph_.ProducerOf(factor);
      if (!last || !lens_.OneUse(factor)) continue;
      const auto made = [&](std::string name, std::vector<NodeId> nodes, ValueId output) {
        return Activation{std::move(name), {}, std::move(nodes), output};
      };
      if (last->id == gate.id && gate.Is("", "Sigmoid"))
        return made("Silu", {gate.id, product.id}, product.output(0));
      if (last->id == gate.id && gate.Is("", "HardSigmoid") && Near(gate.Float("alpha", 0.2f), 1.0 / 6) &&
          Near(gate.Float("beta", 0.5f), 0.5))
        return made("HardSwish", {gate.id, product.id}, product.output(0));
      // y * Clip(y + 3, 0, 6), then / 6 or * 1/6, or the quotient inside.
      std::vector<NodeId> nodes = {product.id};
      bool sixth = IsSixth(*last);
      if (sixth) {
        nodes.push_back(last->id);
        last = lens_.Inner(last->input(0), "Clip");
      }
      if (!last || !last->Is("", "Clip") || !lens_.OneUse(last->output(0))) continue;
      const auto bounds = Bounds(*last);
      const Node* add = lens_.Inner(last->input(0), "Add");
      if (!bounds || bounds->first != 0 || bounds->second != 6 || !add || add->id != gate.id) continue;
      if (lens_.Scalar(add->input(add->input(0) == y ? 1 : 0)) != 3.0) continue;
      nodes.insert(nodes.end(), {last->id, add->id});
      ValueId output = product.output(0);
      if (!sixth) {
        if (!lens_.OneUse(output)) continue;
        const Node& rest = graph_.node(graph_.value(output).consumers.front());
        if (rest.input(0) != output || !IsSixth(rest)) continue;
        nodes.push_back(rest.id);
        output = rest.output(0);
      }
      return made("HardSwish", std::move(nodes), output);
    }
    return {};
  }
  bool IsSixth(const Node& n) const {
    if (!n.has_output(0)) return false;
    if (n.Is("", "Div")) return lens_.IsNear(n.input(1), 6);
    return n.Is("", "Mul") && lens_.IsNear(n.input(1), 1.0 / 6);
  }

  graph::Graph& graph_;
  Lens lens_;
};

}  // namespace

int FuseConvActivation(PassContext& context) {
  return ConvActivationPass(context).Run();
}

}  // namespace ullage::transforms
