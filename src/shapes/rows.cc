#include "shapes/rows.h"

#include <algorithm>
#include <string_view>

namespace ullage::shapes {

namespace {

using graph::kMsDomain;
using graph::kNone;
using graph::kUllageDomain;
using graph::Node;
using graph::ValueId;

constexpr std::string_view kUnary[] = {
    "Abs",         "Cast",      "Ceil",      "Celu",     "Elu",      "Erf",  "Exp",        "Floor", "Gelu",
    "HardSigmoid", "HardSwish", "LeakyRelu", "Log",      "Mish",     "Neg",  "Reciprocal", "Relu",  "Round",
    "Selu",        "Sigmoid",   "Sign",      "Softplus", "Softsign", "Sqrt", "Swish",      "Tanh"};
constexpr std::string_view kBinary[] = {"Add", "Div", "Max", "Min", "Mul", "Pow", "Sub"};

bool In(std::string_view name, auto&& list) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

class Reader {
 public:
  Reader(const graph::Graph& graph, const Node& node,
         const std::function<const ops::ValueFacts&(ValueId)>& facts)
      : graph_(graph), node_(node), facts_(facts) {}

  std::vector<size_t> Read() const {
    std::vector<size_t> rows = ByOperator();
    for (size_t i = 0; i < node_.inputs.size(); ++i)
      if (node_.has_input(i) && std::find(rows.begin(), rows.end(), i) == rows.end() && !Constant(i))
        return {};
    return node_.captures.empty() ? rows : std::vector<size_t>{};
  }

 private:
  const graph::Constant* Constant(size_t i) const {
    if (!node_.has_input(i)) return nullptr;
    const ValueId v = node_.inputs[i];
    const graph::Value& value = graph_.value(v);
    if (value.is_input && std::find(graph_.inputs.begin(), graph_.inputs.end(), v) != graph_.inputs.end())
      return nullptr;
    return value.constant.get();
  }
  const ops::BoundedShape& ShapeOf(size_t i) const { return facts_(node_.inputs[i]).shape; }

  /// A constant that is the same for every row.
  bool ForEveryRow(size_t i) const {
    const auto* c = Constant(i);
    if (!c) return false;
    for (int d = 0; d + 1 < c->shape.rank(); ++d)
      if (c->shape[d] != 1) return false;
    return true;
  }
  bool SameRows(size_t a, size_t b) const {
    if (!node_.has_input(a) || !node_.has_input(b)) return false;
    const auto &x = ShapeOf(a), &y = ShapeOf(b);
    if (!x.known_rank() || x.rank != y.rank || x.rank < 1) return false;
    for (int d = 0; d + 1 < x.rank; ++d)
      if (!ops::Same(x[d], y[d])) return false;
    return true;
  }
  bool LastAxis(int64_t axis, size_t i) const {
    const auto& shape = ShapeOf(i);
    return axis == -1 || (shape.known_rank() && axis == shape.rank - 1);
  }
  bool Wide(size_t constant, size_t data) const {  // a constant of more dimensions would add rows
    const auto* c = Constant(constant);
    const auto& shape = ShapeOf(data);
    return c && shape.known_rank() && c->shape.rank() > shape.rank;
  }

  std::vector<size_t> ByOperator() const {
    const Node& n = node_;
    if (!n.has_input(0)) return {};
    if (n.Is(kUllageDomain, "Linear") || n.Is(kUllageDomain, "MultiLinear") ||
        n.Is(kMsDomain, "MatMulNBits") || n.Is(kMsDomain, "MatMulBnb4"))
      return {0};
    if (n.Is(kUllageDomain, "SwiGLU") || n.Is("", "SwiGLU")) return Pair();
    if (n.op == "SimplifiedLayerNormalization" || n.Is("", "RMSNormalization") ||
        n.Is("", "LayerNormalization"))
      return LastAxis(n.Int("axis", -1), 0) ? One() : None();
    if (n.Is(kMsDomain, "SkipSimplifiedLayerNormalization") || n.Is(kMsDomain, "SkipLayerNormalization"))
      return SameRows(0, 1) ? Both() : None();
    if (n.Is(kMsDomain, "Gelu") || n.Is(kMsDomain, "QuickGelu") || n.Is(kMsDomain, "FastGelu") ||
        n.Is(kMsDomain, "BiasGelu"))
      return One();
    if (!n.domain.empty()) return {};
    if (n.op == "MatMul") {
      const auto* w = Constant(1);
      return w && w->shape.rank() == 2 ? One() : None();
    }
    if (n.op == "Gemm")
      return n.Int("transA", 0) == 0 && Constant(1) && (!n.has_input(2) || ForEveryRow(2)) ? One() : None();
    if (n.op == "Softmax" || n.op == "LogSoftmax")
      return LastAxis(n.Int("axis", n.opset >= 13 || n.opset == 0 ? -1 : 1), 0) ? One() : None();
    if (n.op == "Clip" || In(n.op, kUnary)) return One();
    if (In(n.op, kBinary) && n.inputs.size() == 2) {
      if (ForEveryRow(1) && !Wide(1, 0)) return One();
      if (ForEveryRow(0) && !Wide(0, 1)) return {1};
      return SameRows(0, 1) ? Both() : None();
    }
    return {};
  }

  static std::vector<size_t> None() { return {}; }
  static std::vector<size_t> One() { return {0}; }
  static std::vector<size_t> Both() { return {0, 1}; }
  std::vector<size_t> Pair() const {
    if (!node_.has_input(1)) return One();
    return SameRows(0, 1) ? Both() : None();
  }

  const graph::Graph& graph_;
  const Node& node_;
  const std::function<const ops::ValueFacts&(ValueId)>& facts_;
};

}  // namespace

std::vector<size_t> RowInputs(const graph::Graph& graph, const Node& node,
                              const std::function<const ops::ValueFacts&(ValueId)>& facts) {
  return Reader(graph, node, facts).Read();
}

}  // namespace ullage::shapes
