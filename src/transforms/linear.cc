/// Products with constant weights become ullage:Linear, whatever form the weight has, and take in their bias.
#include <algorithm>

#include "transforms/passes.h"
#include "transforms/rewrite.h"

namespace ullage::transforms {
namespace {

/// A weight W [N, K] as a node reads it: parts in the order of Linear's inputs, attributes, and the nodes
/// that prepare it.
struct Weight {
  ValueId data = kNone, scales = kNone, zero_points = kNone, g_idx = kNone;
  std::string format;
  int64_t n = 0, k = 0, bits = 0, block_size = 0;
  std::vector<NodeId> nodes;
};

bool IsDense(DType t) {
  return t == DType::kFloat || t == DType::kFloat16 || t == DType::kBFloat16;
}

class LinearPass {
 public:
  explicit LinearPass(PassContext& context) : graph_(context.graph()), lens_(context) {}

  int Run() {
    int count = 0;
    for (NodeId id : graph_.Order()) count += Convert(id);
    for (NodeId id : graph_.Order()) count += TakeBias(id);
    return count;
  }

 private:
  bool Convert(NodeId id) {
    const Node& node = graph_.node(id);
    if (!node.has_input(0) || !node.has_input(1) || !node.has_output(0)) return false;
    if (node.Is(kMsDomain, "MatMulNBits")) return FromNBits(node);
    const DType type = lens_.dtype(node.input(0));
    if (!IsDense(type)) return false;
    bool transposed = false;
    ValueId bias = kNone;
    if (node.Is("", "Gemm")) {
      if (node.Float("alpha", 1) != 1 || node.Float("beta", 1) != 1 || node.Int("transA", 0) != 0)
        return false;
      transposed = node.Int("transB", 0) != 0;
      bias = node.input(2);
    } else if (node.Is(kMsDomain, "FusedMatMul")) {
      if (node.Float("alpha", 1) != 1 || node.Int("transA", 0) != 0 || node.Int("transBatchA", 0) != 0 ||
          node.Int("transBatchB", 0) != 0)
        return false;
      transposed = node.Int("transB", 0) != 0;
    } else if (!node.Is("", "MatMul")) {
      return false;
    }
    auto weight = Read(node.input(1), transposed, type);
    if (!weight) return false;
    if (bias != kNone) {
      const auto c = lens_.constant(bias);
      bias = c ? BiasOf(bias, *c, weight->n, type, 2) : kNone;
      if (bias == kNone) return false;
    }
    const ValueId a = node.input(0), y = node.output(0);
    graph::Patch patch(graph_, "linear");
    weight->nodes.push_back(id);
    // The product names the node, not the preparation of its weight.
    patch.Remove(id);
    std::rotate(weight->nodes.begin(), weight->nodes.end() - 1, weight->nodes.end());
    Build(patch, *weight, a, bias, y, 0);
    // From the product up, so that each is unused when its turn comes.
    for (auto n = weight->nodes.rbegin(); n != weight->nodes.rend(); ++n)
      if (graph_.node(*n).alive && lens_.Unused(graph_.node(*n).output(0))) patch.Remove(*n);
    return true;
  }

  Node& Build(graph::Patch& patch, const Weight& w, ValueId a, ValueId bias, ValueId y, int64_t accuracy) {
    std::vector<ValueId> inputs = {a, w.data, w.scales, w.zero_points, w.g_idx, bias};
    while (inputs.back() == kNone) inputs.pop_back();
    graph_.opsets.emplace(kUllageDomain, 1);
    Node& linear = patch.Add(kUllageDomain, "Linear", "Linear", std::move(inputs), {y}, w.nodes);
    linear.attributes["K"] = w.k;
    linear.attributes["N"] = w.n;
    linear.attributes["format"] = w.format;
    if (w.bits > 0) {
      linear.attributes["bits"] = w.bits;
      linear.attributes["block_size"] = w.block_size;
    }
    if (accuracy != 0) linear.attributes["accuracy_level"] = accuracy;
    return linear;
  }

  bool FromNBits(const Node& node) {
    Weight w;
    w.format = "nbits";
    w.k = node.RequiredInt("K");
    w.n = node.RequiredInt("N");
    w.bits = node.Int("bits", 4);
    w.block_size = node.RequiredInt("block_size");
    w.data = node.input(1);
    w.scales = node.input(2);
    w.zero_points = node.input(3);
    w.g_idx = node.input(4);
    w.nodes = {node.id};
    if (w.k < 1 || w.n < 1 || (w.bits != 2 && w.bits != 4 && w.bits != 8) ||
        node.Int("weight_prepacked", 0) != 0)
      return false;
    if (!lens_.constant(w.data) || !lens_.constant(w.scales)) return false;
    for (ValueId v : {w.zero_points, w.g_idx})
      if (v != kNone && !lens_.constant(v)) return false;
    const ValueId a = node.input(0), bias = node.input(5), y = node.output(0);
    const int64_t accuracy = node.Int("accuracy_level", 0);
    graph::Patch patch(graph_, "linear");
    patch.Remove(node.id);
    Build(patch, w, a, bias, y, accuracy);
    return true;
  }

  /// The weight that product input `v` holds; `transposed`: as [N, K].
  std::optional<Weight> Read(ValueId v, bool transposed, DType type) {
    if (const auto c = lens_.constant(v)) {
      if (c->shape.rank() != 2 || c->dtype != type || !c->block_type.empty()) return {};
      Weight w;
      w.data = v;
      w.format = transposed ? "dense_nk" : "dense_kn";
      w.n = c->shape[transposed ? 0 : 1];
      w.k = c->shape[transposed ? 1 : 0];
      if (w.n < 1 || w.k < 1) return {};
      return w;
    }
    const Node* from = graph_.ProducerOf(v);
    if (!from) return {};
    std::optional<Weight> w;
    if (from->Is("", "Transpose")) {
      const auto perm = from->Ints("perm");
      if (!perm.empty() && perm != std::vector<int64_t>{1, 0}) return {};
      w = Read(from->input(0), !transposed, type);
    } else if (from->op == "DequantizeLinear" && (from->domain.empty() || from->domain == kMsDomain)) {
      w = Dequantized(*from, transposed, type);
    }
    if (w) w->nodes.push_back(from->id);
    return w;
  }

  std::optional<Weight> Dequantized(const Node& node, bool transposed, DType type) {
    const auto data = lens_.constant(node.input(0)), scales = lens_.constant(node.input(1));
    const auto zero = lens_.constant(node.input(2));
    if (!data || !scales || data->shape.rank() != 2 || (node.has_input(2) && !zero)) return {};
    const int bits = BitsOf(data->dtype);
    const bool codes = data->dtype == DType::kInt8 || data->dtype == DType::kUInt8 ||
                       data->dtype == DType::kInt4 || data->dtype == DType::kUInt4 ||
                       data->dtype == DType::kInt2 || data->dtype == DType::kUInt2;
    if (!codes || scales->dtype != type ||
        (zero && (zero->dtype != data->dtype || zero->shape != scales->shape)))
      return {};
    if (const int64_t out = node.Int("output_dtype", 0); out != 0 && out != static_cast<int64_t>(type))
      return {};
    Weight w;
    w.data = node.input(0);
    w.scales = node.input(1);
    w.zero_points = node.input(2);
    w.format = transposed ? "qdq_nk" : "qdq_kn";
    w.bits = bits;
    const int n_axis = transposed ? 0 : 1, k_axis = 1 - n_axis;
    w.n = data->shape[n_axis];
    w.k = data->shape[k_axis];
    if (w.n < 1 || w.k < 1) return {};
    const int64_t block = node.Int("block_size", 0);
    const bool has_axis = node.has_attr("axis") || node.domain.empty();
    const int64_t axis = AxisOf(node.Int("axis", 1), 2);
    if (scales->shape.rank() == 2) {
      // Blocks along K.
      if (block < 1 || axis != k_axis || scales->shape[n_axis] != w.n ||
          scales->shape[k_axis] != (w.k + block - 1) / block)
        return {};
      w.block_size = block;
      return w;
    }
    if (block != 0 || scales->shape.rank() > 1) return {};
    if (scales->elements() == 1 && (scales->shape.rank() == 0 || w.n == 1 || node.domain == kMsDomain))
      return w;
    if (scales->shape.rank() != 1 || !has_axis || axis != n_axis || scales->elements() != w.n) return {};
    return w;
  }

  /// A constant that adds the same N numbers to each row of a result of rank `rank` (-1: unknown), as [N];
  /// kNone for any other.
  ValueId BiasOf(ValueId v, const graph::Constant& c, int64_t n, DType type, int rank) {
    if (c.dtype != type || c.shape.rank() < 1 || c.elements() != n || c.shape.at(-1) != n ||
        !c.block_type.empty() || (rank < 0 ? c.shape.rank() > 1 : c.shape.rank() > rank))
      return kNone;
    if (c.shape.rank() == 1) return v;
    return graph_.AddConstant(graph_.value(v).name + "/row", graph::WithShape(lens_.constant(v), Shape({n})));
  }

  bool TakeBias(NodeId id) {
    Node& linear = graph_.node(id);
    if (!linear.Is(kUllageDomain, "Linear") || linear.has_input(5) || !lens_.OneUse(linear.output(0)))
      return false;
    const ValueId product = linear.output(0);
    const Node& add = graph_.node(graph_.value(product).consumers.front());
    if (!add.Is("", "Add") || !add.captures.empty()) return false;
    const ValueId other = add.input(0) == product ? add.input(1) : add.input(0);
    const auto c = lens_.constant(other);
    if (!c) return false;
    const DType type = lens_.dtype(linear.input(0));
    // The product has the rank of its first input.
    const ValueId bias = BiasOf(other, *c, linear.Int("N", 0), type, lens_.facts(linear.input(0)).shape.rank);
    if (bias == kNone) return false;
    std::vector<ValueId> inputs = linear.inputs;
    inputs.resize(6, kNone);
    inputs[5] = bias;
    const ValueId y = add.output(0);
    graph::Patch patch(graph_, "linear");
    patch.Remove(add.id);
    patch.Remove(id);
    Node& merged = patch.Add(kUllageDomain, "Linear", "bias", std::move(inputs), {y}, {id, add.id});
    merged.attributes = linear.attributes;
    return true;
  }

  graph::Graph& graph_;
  Lens lens_;
};

}  // namespace

int MakeLinear(PassContext& context) {
  return LinearPass(context).Run();
}

}  // namespace ullage::transforms
