/// Operators on 8-bit tensors become what they mean: the operator on dequantised inputs, quantised again.
///   QLinearMatMul, com.microsoft: QGemm, QLinearAdd, QLinearMul, QLinearWhere, QLinearConcat,
///   QLinearSoftmax, QLinearSigmoid, QLinearLeakyRelu, QLinearReduceMean, QLinearAveragePool,
///   QLinearGlobalAveragePool, MatMulIntegerToFloat, DynamicQuantizeMatMul
#include "transforms/passes.h"
#include "transforms/rewrite.h"

namespace ullage::transforms {
namespace {

class QLinearPass {
 public:
  explicit QLinearPass(PassContext& context) : graph_(context.graph()), lens_(context) {}

  int Run() {
    int count = 0;
    for (NodeId id : graph_.Order()) count += Rewrite(graph_.node(id));
    return count;
  }

 private:
  /// The rewrite of one node.
  struct Step {
    graph::Patch patch;
    Node node;  ///< the removed one
    Step(graph::Graph& graph, const Node& n) : patch(graph, "qlinear"), node(n) { patch.Remove(n.id); }
    ValueId in(size_t i) const { return node.input(i); }
    ValueId value(std::string_view suffix, DType dtype = DType::kUndefined) {
      return patch.NewValue(node.name + "/" + std::string(suffix), dtype);
    }
    Node& Add(std::string_view op, std::string_view suffix, std::vector<ValueId> inputs, ValueId output) {
      return patch.Add("", op, suffix, std::move(inputs), {output}, {node.id});
    }
  };

  DType FloatOf(ValueId scale) const {
    const DType t = lens_.dtype(scale);
    return t == DType::kUndefined ? DType::kFloat : t;
  }

  /// `axis` counts for scales of more than one element.
  ValueId Dequantised(Step& s, ValueId x, ValueId scale, ValueId zero, std::string_view name,
                      int64_t axis = 0) {
    const ValueId y = s.value(name, FloatOf(scale));
    std::vector<ValueId> inputs = {x, scale};
    if (zero != kNone) inputs.push_back(zero);
    s.Add("DequantizeLinear", name, std::move(inputs), y).attributes["axis"] = axis;
    return y;
  }

  /// Quantises what `op` is told to compute into the returned value.
  ValueId Result(Step& s, ValueId scale, ValueId zero, DType type) {
    const ValueId y = s.value("float", FloatOf(scale));
    std::vector<ValueId> inputs = {y, scale};
    if (zero != kNone) inputs.push_back(zero);
    Node& n = s.Add("QuantizeLinear", "quantized", std::move(inputs), s.node.output(0));
    if (zero == kNone && type != DType::kUndefined) n.attributes["output_dtype"] = static_cast<int64_t>(type);
    n.attributes["axis"] = int64_t{0};
    return y;
  }

  int RankOf(ValueId v) const { return lens_.facts(v).shape.rank; }
  bool IsOne(ValueId scale) const {
    const auto& s = lens_.facts(scale).shape;
    return s.exact() && s.ElementsUpper() == 1;
  }
  /// The axis that a scale of a matrix stands along; -1: not known.
  int64_t MatrixAxis(ValueId scale, ValueId matrix, int from_end) const {
    if (IsOne(scale)) return 0;
    const int rank = RankOf(matrix);
    return RankOf(scale) == 1 && rank >= 2 ? rank - from_end : -1;
  }

  bool Rewrite(const Node& n) {
    if (!n.has_output(0)) return false;
    if (n.Is("", "QLinearMatMul")) return MatMul(n);
    if (n.domain != kMsDomain) return false;
    if (n.op == "QGemm") return Gemm(n);
    if (n.op == "MatMulIntegerToFloat") return IntegerToFloat(n);
    if (n.op == "DynamicQuantizeMatMul") return DynamicMatMul(n);
    if (n.op == "QLinearAdd" || n.op == "QLinearMul") return Binary(n);
    if (n.op == "QLinearWhere") return Where(n);
    if (n.op == "QLinearConcat") return Concat(n);
    return One(n);
  }

  bool MatMul(const Node& n) {
    const int64_t a_axis = MatrixAxis(n.input(1), n.input(0), 2),
                  b_axis = MatrixAxis(n.input(4), n.input(3), 1);
    if (a_axis < 0 || b_axis < 0 || !IsOne(n.input(6))) return false;
    Step s(graph_, n);
    const ValueId a = Dequantised(s, s.in(0), s.in(1), s.in(2), "A", a_axis);
    const ValueId b = Dequantised(s, s.in(3), s.in(4), s.in(5), "B", b_axis);
    s.Add("MatMul", "MatMul", {a, b}, Result(s, s.in(6), s.in(7), DType::kUndefined));
    return true;
  }

  /// A, a_scale, a_zero, B, b_scale, b_zero, C?, y_scale?, y_zero?; C counts in units of both scales.
  bool Gemm(const Node& n) {
    const int64_t trans_b = n.Int("transB", 0);
    const int64_t b_axis = MatrixAxis(n.input(4), n.input(3), trans_b != 0 ? 2 : 1);
    if (!IsOne(n.input(1)) || b_axis < 0) return false;
    Step s(graph_, n);
    const ValueId a = Dequantised(s, s.in(0), s.in(1), s.in(2), "A");
    const ValueId b = Dequantised(s, s.in(3), s.in(4), s.in(5), "B", b_axis);
    std::vector<ValueId> inputs = {a, b};
    if (s.in(6) != kNone) {
      const ValueId units = s.value("units", DType::kFloat), numbers = s.value("C", DType::kFloat),
                    bias = s.value("bias", DType::kFloat);
      s.Add("Mul", "units", {s.in(1), s.in(4)}, units);
      s.Add("Cast", "C", {s.in(6)}, numbers).attributes["to"] = static_cast<int64_t>(DType::kFloat);
      s.Add("Mul", "bias", {numbers, units}, bias);
      inputs.push_back(bias);
    }
    const ValueId y = s.in(7) == kNone ? s.node.output(0) : Result(s, s.in(7), s.in(8), lens_.dtype(s.in(0)));
    Node& gemm = s.Add("Gemm", "Gemm", std::move(inputs), y);
    gemm.attributes["alpha"] = gemm.attributes["beta"] = s.node.Float("alpha", 1);
    gemm.attributes["transA"] = s.node.Int("transA", 0);
    gemm.attributes["transB"] = trans_b;
    return true;
  }

  void MatMulAndBias(Step& s, ValueId a, ValueId b, ValueId bias) {
    const ValueId y = bias == kNone ? s.node.output(0) : s.value("product", DType::kFloat);
    s.Add("MatMul", "MatMul", {a, b}, y);
    if (bias != kNone) s.Add("Add", "Add", {y, bias}, s.node.output(0));
  }

  /// A, B, a_scale, b_scale, a_zero?, b_zero?, bias?
  bool IntegerToFloat(const Node& n) {
    const int64_t b_axis = MatrixAxis(n.input(3), n.input(1), 1);
    if (!IsOne(n.input(2)) || b_axis < 0) return false;
    Step s(graph_, n);
    const ValueId a = Dequantised(s, s.in(0), s.in(2), s.in(4), "A");
    const ValueId b = Dequantised(s, s.in(1), s.in(3), s.in(5), "B", b_axis);
    MatMulAndBias(s, a, b, s.in(6));
    return true;
  }

  /// A, B, b_scale, b_zero?, bias?
  bool DynamicMatMul(const Node& n) {
    const int64_t b_axis = MatrixAxis(n.input(2), n.input(1), 1);
    if (b_axis < 0) return false;
    Step s(graph_, n);
    const ValueId q = s.value("A_quantized", DType::kUInt8), scale = s.value("A_scale", DType::kFloat),
                  zero = s.value("A_zero", DType::kUInt8);
    s.patch.Add("", "DynamicQuantizeLinear", "quantized", {s.in(0)}, {q, scale, zero}, {s.node.id});
    const ValueId a = Dequantised(s, q, scale, zero, "A");
    const ValueId b = Dequantised(s, s.in(1), s.in(2), s.in(3), "B", b_axis);
    MatMulAndBias(s, a, b, s.in(4));
    return true;
  }

  bool Binary(const Node& n) {
    for (size_t i : {1, 4, 6})
      if (!IsOne(n.input(i))) return false;
    Step s(graph_, n);
    const ValueId a = Dequantised(s, s.in(0), s.in(1), s.in(2), "A");
    const ValueId b = Dequantised(s, s.in(3), s.in(4), s.in(5), "B");
    const std::string_view op = s.node.op == "QLinearAdd" ? "Add" : "Mul";
    s.Add(op, op, {a, b}, Result(s, s.in(6), s.in(7), lens_.dtype(s.in(0))));
    return true;
  }

  /// condition, X, x_scale, x_zero, Y, y_scale, y_zero, z_scale, z_zero
  bool Where(const Node& n) {
    for (size_t i : {2, 5, 7})
      if (!IsOne(n.input(i))) return false;
    Step s(graph_, n);
    const ValueId x = Dequantised(s, s.in(1), s.in(2), s.in(3), "X");
    const ValueId y = Dequantised(s, s.in(4), s.in(5), s.in(6), "Y");
    s.Add("Where", "Where", {s.in(0), x, y}, Result(s, s.in(7), s.in(8), lens_.dtype(s.in(1))));
    return true;
  }

  /// y_scale, y_zero, then tensor, scale, zero of each
  bool Concat(const Node& n) {
    for (size_t i = 0; i < n.inputs.size(); i += 3)
      if (!IsOne(n.input(i))) return false;
    if (n.inputs.size() % 3 != 2 || n.inputs.size() < 5) return false;
    Step s(graph_, n);
    std::vector<ValueId> parts;
    for (size_t i = 2; i + 2 < s.node.inputs.size(); i += 3)
      parts.push_back(Dequantised(s, s.in(i), s.in(i + 1), s.in(i + 2), "part"));
    s.Add("Concat", "Concat", std::move(parts), Result(s, s.in(0), s.in(1), DType::kUndefined))
        .attributes["axis"] = s.node.RequiredInt("axis");
    return true;
  }

  /// X, x_scale, x_zero, y_scale, y_zero
  bool One(const Node& n) {
    const bool mean = n.op == "QLinearReduceMean", global = n.op == "QLinearGlobalAveragePool",
               pool = n.op == "QLinearAveragePool", softmax = n.op == "QLinearSoftmax",
               sigmoid = n.op == "QLinearSigmoid", leaky = n.op == "QLinearLeakyRelu";
    if (!(mean || global || pool || softmax || sigmoid || leaky)) return false;
    if (!IsOne(n.input(1)) || !IsOne(n.input(3))) return false;
    const bool last = n.Int("channels_last", 0) != 0;
    const int rank = RankOf(n.input(0));
    if ((pool && last) || (global && last && rank < 3)) return false;
    Step s(graph_, n);
    const ValueId x = Dequantised(s, s.in(0), s.in(1), s.in(2), "X");
    const ValueId y = Result(s, s.in(3), s.in(4), lens_.dtype(s.in(0)));
    const std::string_view op = mean || (global && last) ? "ReduceMean"
                                : global                 ? "GlobalAveragePool"
                                : pool                   ? "AveragePool"
                                : softmax                ? "Softmax"
                                : sigmoid                ? "Sigmoid"
                                                         : "LeakyRelu";
    Node& made = s.Add(op, op, {x}, y);
    for (const auto& [key, value] : s.node.attributes)
      if (key != "channels_last" && key != "opset") made.attributes[key] = value;
    if (op == "ReduceMean") made.opset = 13;  // axes are an attribute
    if (softmax && s.node.has_attr("opset")) made.opset = static_cast<int>(s.node.Int("opset", 13));
    if (global && last) {
      std::vector<int64_t> axes;
      for (int i = 1; i + 1 < rank; ++i) axes.push_back(i);
      made.attributes["axes"] = axes;
    }
    return true;
  }

  graph::Graph& graph_;
  Lens lens_;
};

}  // namespace

int ExpandQLinear(PassContext& context) {
  return QLinearPass(context).Run();
}

}  // namespace ullage::transforms
