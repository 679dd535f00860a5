/// What follows a convolution and only scales or shifts its channels goes into its filters and bias:
/// BatchNormalization, and Add, Sub, Mul, Div with one number or one per channel.
#include <cmath>
#include <cstring>

#include "transforms/passes.h"
#include "transforms/rewrite.h"

namespace ullage::transforms {
namespace {

/// y * scale[c] + shift[c]
struct PerChannel {
  std::vector<double> scale, shift;
};

class ConvScalePass {
 public:
  explicit ConvScalePass(PassContext& context) : context_(context), graph_(context.graph()), lens_(context) {}

  int Run() {
    int count = 0;
    for (NodeId id : graph_.Order()) {
      // The merged node takes the place of the convolution; look at what follows it next.
      for (NodeId at = id; at != kNone && graph_.node(at).alive;) {
        at = Merge(at);
        count += at != kNone;
      }
    }
    return count;
  }

 private:
  bool Available(ValueId v, const graph::ConstantPtr& c) const {
    return c && c->available() && c->dtype == DType::kFloat && lens_.dtype(v) == DType::kFloat;
  }

  /// The merged node, or kNone.
  NodeId Merge(NodeId id) {
    const Node& conv = graph_.node(id);
    const bool transposed = conv.Is("", "ConvTranspose");
    if (!transposed && !conv.Is("", "Conv")) return kNone;
    const auto weight = lens_.constant(conv.input(1)), bias = lens_.constant(conv.input(2));
    if (!Available(conv.input(1), weight) || weight->size_bytes > context_.options().max_folded_bytes)
      return kNone;
    if (conv.has_input(2) && !Available(conv.input(2), bias)) return kNone;
    const ValueId y = conv.output(0);
    if (y == kNone || !lens_.OneUse(y) || weight->shape.rank() < 3) return kNone;
    const int64_t groups = conv.Int("group", 1);
    const int64_t channels = transposed ? weight->shape[1] * groups : weight->shape[0];
    if (groups < 1 || (bias && bias->elements() != channels)) return kNone;
    const NodeId next = graph_.value(y).consumers.front();
    const auto factors = Read(graph_.node(next), y, channels, weight->shape.rank());
    if (!factors) return kNone;

    const auto* old_bias = bias ? reinterpret_cast<const float*>(bias->data().data()) : nullptr;
    std::vector<float> shift(static_cast<size_t>(channels));
    bool scaled = false;
    for (size_t c = 0; c < shift.size(); ++c) {
      shift[c] = static_cast<float>((old_bias ? old_bias[c] : 0.0) * factors->scale[c] + factors->shift[c]);
      scaled = scaled || factors->scale[c] != 1;
      if (!std::isfinite(factors->scale[c]) || !std::isfinite(shift[c])) return kNone;
    }
    graph::Patch patch(graph_, "conv-scale");
    std::vector<ValueId> inputs = conv.inputs;
    inputs.resize(3, kNone);
    if (scaled)
      inputs[1] = patch.NewConstant(graph_.value(inputs[1]).name + "/scaled",
                                    Scaled(*weight, factors->scale, transposed, groups));
    inputs[2] = patch.NewConstant(conv.name + "/bias", graph::MakeFloats({channels}, shift));
    const ValueId out = graph_.node(next).output(0);
    const std::string op = conv.op;
    const auto attributes = conv.attributes;
    patch.Remove(next);
    patch.Remove(id);
    Node& merged = patch.Add("", op, "", std::move(inputs), {out}, {id, next});
    merged.attributes = attributes;
    return merged.id;
  }

  graph::ConstantPtr Scaled(const graph::Constant& w, const std::vector<double>& scale, bool transposed,
                            int64_t groups) const {
    graph::NewConstant scaled = graph::MakeConstant(DType::kFloat, w.shape);
    const auto* from = reinterpret_cast<const float*>(w.data().data());
    auto* to = reinterpret_cast<float*>(scaled.data);
    const int64_t taps = w.shape.elements(2, w.shape.rank()), rows = w.shape[0], columns = w.shape[1];
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        // Transposed: [channels of x, filters per group]; else [filters, channels per group].
        const int64_t filter = transposed ? r / (rows / groups) * columns + c : r;
        const auto factor = static_cast<float>(scale[static_cast<size_t>(filter)]);
        const int64_t at = (r * columns + c) * taps;
        for (int64_t i = at; i < at + taps; ++i) to[i] = from[i] * factor;
      }
    }
    return scaled.constant;
  }

  /// The numbers of a constant that is one number or one per channel of a tensor of that rank.
  std::vector<double> ChannelNumbers(ValueId v, int64_t channels, int rank) const {
    const auto c = lens_.constant(v);
    if (!Available(v, c)) return {};
    const Shape& s = c->shape;
    if (s.rank() > rank) return {};
    const int axis = s.rank() - (rank - 1);  // of the channels, counted in the constant
    for (int i = 0; i < s.rank(); ++i)
      if (s[i] != 1 && (i != axis || s[i] != channels)) return {};
    std::vector<double> numbers = c->AsDoubles();
    if (numbers.size() == 1) numbers.resize(static_cast<size_t>(channels), numbers[0]);
    return numbers;
  }

  std::optional<PerChannel> Read(const Node& n, ValueId y, int64_t channels, int rank) const {
    const auto size = static_cast<size_t>(channels);
    PerChannel p{std::vector<double>(size, 1.0), std::vector<double>(size, 0.0)};
    if (n.Is("", "BatchNormalization")) {
      if (n.input(0) != y || n.Int("training_mode", 0) != 0 || !n.has_output(0)) return {};
      if (n.opset < 9 && n.Int("spatial", 1) == 0) return {};
      for (size_t o = 1; o < n.outputs.size(); ++o)
        if (!lens_.Unused(n.output(o))) return {};
      std::vector<double> parameters[4];
      for (size_t i = 0; i < 4; ++i) {
        const auto c = lens_.constant(n.input(i + 1));
        if (!Available(n.input(i + 1), c) || c->elements() != channels) return {};
        parameters[i] = c->AsDoubles();
      }
      const double epsilon = static_cast<double>(n.Float("epsilon", 1e-5f));
      for (size_t c = 0; c < size; ++c) {
        p.scale[c] = parameters[0][c] / std::sqrt(parameters[3][c] + epsilon);
        p.shift[c] = parameters[1][c] - parameters[2][c] * p.scale[c];
      }
      return p;
    }
    if (!n.domain.empty() || n.inputs.size() != 2 || n.input(0) == n.input(1) || !n.has_output(0)) return {};
    const size_t other = n.input(0) == y ? 1 : 0;
    if (n.op != "Add" && n.op != "Sub" && n.op != "Mul" && n.op != "Div") return {};
    const std::vector<double> numbers = ChannelNumbers(n.input(other), channels, rank);
    if (numbers.size() != size || (n.op == "Div" && other == 0)) return {};
    for (size_t c = 0; c < size; ++c) {
      if (n.op == "Add") p.shift[c] = numbers[c];
      if (n.op == "Sub") {
        p.scale[c] = other == 1 ? 1 : -1;
        p.shift[c] = other == 1 ? -numbers[c] : numbers[c];
      }
      if (n.op == "Mul") p.scale[c] = numbers[c];
      if (n.op == "Div") p.scale[c] = 1 / numbers[c];
    }
    return p;
  }

  PassContext& context_;
  graph::Graph& graph_;
  Lens lens_;
};

}  // namespace

int FoldConvScale(PassContext& context) {
  return ConvScalePass(context).Run();
}

}  // namespace ullage::transforms
