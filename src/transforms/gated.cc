/// Gated activations: act(gate) * up with act SiLU or GELU becomes ullage:SwiGLU; what is left of
/// x * sigmoid(a x) becomes com.microsoft:QuickGelu.
#include <algorithm>

#include "transforms/passes.h"
#include "transforms/rewrite.h"

namespace ullage::transforms {
namespace {

class GatedPass {
 public:
  explicit GatedPass(PassContext& context) : graph_(context.graph()), lens_(context) {}

  int Run() {
    int count = 0;
    auto order = graph_.Order();
    // Outer products first: they take the inner ones in.
    std::reverse(order.begin(), order.end());
    for (NodeId id : order)
      if (graph_.node(id).alive && graph_.node(id).Is("", "Mul")) count += MatchGate(id);
    for (NodeId id : order)
      if (graph_.node(id).alive && graph_.node(id).Is("", "Mul")) count += MatchSigmoid(id);
    return count;
  }

 private:
  static bool Fits(DType t) { return IsFloating(t) && t != DType::kDouble; }

  /// An activation that is one node already, applied to its result's only reader; empty when it is none.
  std::string_view Activation(ValueId v, ValueId* gate) {
    const Node* n = graph_.ProducerOf(v);
    if (!n || !lens_.OneUse(v)) return {};
    std::string_view act;
    if (n->Is("", "Gelu"))
      act = n->Str("approximate", "none") == "tanh" ? "gelu_tanh" : "gelu";
    else if (n->Is(kMsDomain, "Gelu"))
      act = "gelu";
    else if (n->Is(kMsDomain, "FastGelu") && !n->has_input(1))
      act = "gelu_tanh";
    else if (n->Is(kMsDomain, "QuickGelu") && n->Float("alpha", 1.702f) == 1)
      act = "silu";
    else if (n->Is("", "Swish") && n->Float("alpha", 1) == 1)
      act = "silu";
    if (act.empty()) return act;
    *gate = n->input(0);
    taken_.push_back(n->id);
    return act;
  }

  /// The argument of a Sigmoid that only the pattern reads.
  ValueId SigmoidOf(ValueId v) {
    const Node* n = lens_.Inner(v, "Sigmoid");
    if (!n) return kNone;
    taken_.push_back(n->id);
    return n->input(0);
  }

  bool MatchGate(NodeId id) {
    const Node& root = graph_.node(id);
    if (!root.has_output(0)) return false;
    for (size_t side = 0; side < 2; ++side) {
      taken_ = {id};
      ValueId gate = kNone;
      const ValueId whole = root.input(side), other = root.input(1 - side);
      if (const auto act = Activation(whole, &gate); !act.empty()) {
        if (Gate(root, gate, other, act)) return true;
        continue;
      }
      const Node* inner = lens_.Inner(whole, "Mul");
      if (!inner) continue;
      // {a, b} * other with a sigmoid of one of the three among the others.
      const ValueId three[] = {inner->input(0), inner->input(1), other};
      for (size_t s = 0; s < 3; ++s) {
        taken_ = {id, inner->id};
        gate = SigmoidOf(three[s]);
        if (gate == kNone) continue;
        const ValueId x = three[(s + 1) % 3], y = three[(s + 2) % 3];
        if (x != y && x == gate && Gate(root, gate, y, "silu")) return true;
        if (x != y && y == gate && Gate(root, gate, x, "silu")) return true;
      }
    }
    return false;
  }

  bool Gate(const Node& root, ValueId gate, ValueId up, std::string_view act) {
    if (gate == up || !Fits(lens_.dtype(gate)) || lens_.dtype(up) != lens_.dtype(gate) ||
        !lens_.SameShape(gate, up))
      return false;
    std::vector<ValueId> inputs = {gate, up};
    const Node* split = lens_.From(gate, "Split");
    if (split && lens_.From(up, "Split") == split && split->outputs.size() == 2 && split->output(0) == gate &&
        OnlyTaken(gate) && OnlyTaken(up)) {
      const auto& packed = lens_.facts(split->input(0)).shape;
      if (packed.rank > 0 && AxisOf(split->Int("axis", 0), packed.rank) == packed.rank - 1 &&
          lens_.LastDim(gate) > 0 && lens_.LastDim(split->input(0)) == 2 * lens_.LastDim(gate)) {
        inputs = {split->input(0)};
        taken_.push_back(split->id);
      }
    }
    graph::Patch patch(graph_, "swiglu");
    Fuse(patch, kUllageDomain, "SwiGLU", "SwiGLU", std::move(inputs), {root.output(0)}, taken_)
        .attributes["activation"] = std::string(act);
    return true;
  }

  /// Nobody but the nodes of the match reads it.
  bool OnlyTaken(ValueId v) const {
    const auto& users = graph_.value(v).consumers;
    return !graph_.IsOutput(v) && std::all_of(users.begin(), users.end(), [&](NodeId n) {
      return std::find(taken_.begin(), taken_.end(), n) != taken_.end();
    });
  }

  bool MatchSigmoid(NodeId id) {
    const Node& root = graph_.node(id);
    if (!root.has_output(0)) return false;
    for (size_t side = 0; side < 2; ++side) {
      taken_ = {id};
      const ValueId x = root.input(1 - side);
      const ValueId argument = SigmoidOf(root.input(side));
      if (argument == kNone || !Fits(lens_.dtype(x))) continue;
      double alpha = 1;
      if (argument != x) {
        const Node* scaled = lens_.Inner(argument, "Mul");
        if (!scaled) continue;
        const size_t data = scaled->input(0) == x ? 0 : 1;
        const auto s = lens_.Scalar(scaled->input(1 - data));
        if (scaled->input(data) != x || !s) continue;
        alpha = *s;
        taken_.push_back(scaled->id);
      }
      graph::Patch patch(graph_, "swiglu");
      Fuse(patch, kMsDomain, "QuickGelu", "SiLU", {x}, {root.output(0)}, taken_).attributes["alpha"] =
          static_cast<float>(alpha);
      return true;
    }
    return false;
  }

  graph::Graph& graph_;
  Lens lens_;
  std::vector<NodeId> taken_;
};

}  // namespace

int FuseGated(PassContext& context) {
  return GatedPass(context).Run();
}

}  // namespace ullage::transforms
