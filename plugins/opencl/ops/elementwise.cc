// Unary and binary operators, Clip, Where, Cast, gated and biased activations.
#include <algorithm>

#include "op.h"
#include "ops/elementwise.h"
#include "spread.h"

namespace ullage_opencl {
namespace {

constexpr uint64_t kInts = Bit(kInt64) | Bit(kInt32) | Bit(kUInt8) | Bit(kInt8) | Bit(kUInt32) |
                           Bit(kUInt64) | Bit(kInt16) | Bit(kUInt16);
constexpr uint64_t kNumbers = kFloats | kInts;
constexpr uint64_t kAll = kNumbers | Bit(kBool);

std::string Types(int32_t in, int32_t out) {
  return Define("T", TypeCode(in)) + Define("R", TypeCode(out));
}

/// Arithmetic on a few integers serves shapes, which the host decides about.
std::string ShapeArithmetic(const Node& node) {
  const Facts facts = node.facts();
  bool small = true;
  for (const auto* list : {&facts.inputs, &facts.outputs})
    for (const ValueFacts& f : *list) {
      if (!f.present) continue;
      const int64_t n = f.UpperElements();
      small = small && !(kFloats & Bit(f.dtype)) && f.rank() >= 0 && f.rank() <= 1 && n >= 0 && n <= 64;
    }
  return small ? "arithmetic on shapes stays on the host" : "";
}

// Operators by number, as elementwise.cl knows them.
constexpr const char* kUnary[] = {
    "Relu",      "Sigmoid", "Tanh",  "Exp",        "Log",       "Sqrt",     "Erf", "Sin",       "Cos",
    "Floor",     "Ceil",    "Round", "Reciprocal", "Softplus",  "Softsign", "Elu", "LeakyRelu", "HardSigmoid",
    "HardSwish", "Mish",    "Gelu",  "GeluTanh",   "QuickGelu", "Abs",      "Neg", "Sign"};
constexpr const char* kConversions[] = {"Cast", "IsNaN", "IsInf", "Not"};
constexpr const char* kArithmetic[] = {"Add", "Sub", "Mul",  "Div", "Max",
                                       "Min", "Pow", "FMod", "Mod", "PRelu"};
constexpr const char* kComparisons[] = {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"};
constexpr const char* kLogic[] = {"And", "Or", "Xor", "Equal"};

template <size_t kCount>
int NumberOf(const char* const (&names)[kCount], const std::string& name) {
  for (size_t i = 0; i < kCount; ++i)
    if (name == names[i]) return static_cast<int>(i);
  return -1;
}

int ArithmeticOf(const Node& node) {
  return NumberOf(kArithmetic, node.op() == "Mod" && node.Int("fmod", 0) != 0 ? "FMod" : node.op());
}

class Unary final : public Op {
 public:
  explicit Unary(const ullage_kernel_info& info) : Op(info), form_(UnaryOf(node_)) {
    const Facts facts = node_.facts();
    const std::string op = node_.op();
    if (op == "IsInf" && (node_.Int("detect_positive", 1) == 0 || node_.Int("detect_negative", 1) == 0))
      node_.Unsupported("one sign only");
    if (form_.number < 0)
      form_.number = op == "Cast" ? (facts.out(0).dtype == kBool ? 0 : -1) : NumberOf(kConversions, op);
    kernel_ = &Use("elementwise.cl", "-DUNARY " + Types(facts.in(0).dtype, facts.out(0).dtype), "unary");
  }
  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &y = *c.out(0);
    c.Start(*kernel_)
        .Add(x)
        .Add(y)
        .Value(Count(y.elements()))
        .Int(form_.number)
        .Float(form_.alpha)
        .Float(form_.beta)
        .RunOver(y.elements());
  }

 private:
  KernelRef* kernel_;
  UnaryForm form_;
};

class Clip final : public Op {
 public:
  explicit Clip(const ullage_kernel_info& info) : Op(info) {
    kernel_ = &Use("elementwise.cl", "-DCLIP " + Define("T", TypeCode(node_.facts().in(0).dtype)), "clip");
  }
  void Compute(const Context& c) const override {
    const Tensor& y = *c.out(0);
    c.Start(*kernel_)
        .Add(c.in(0))
        .Add(y)
        .Add(c.in(1))
        .Add(c.in(2))
        .Value(Count(y.elements()))
        .Int((c.in(1) ? 1 : 0) + (c.in(2) ? 2 : 0))
        .RunOver(y.elements());
  }

 private:
  KernelRef* kernel_;
};

class Binary final : public Op {
 public:
  explicit Binary(const ullage_kernel_info& info) : Op(info) {
    const Facts facts = node_.facts();
    const std::string op = node_.op();
    const int32_t type = facts.in(0).dtype, result = facts.out(0).dtype;
    const int32_t other = facts.in(1).dtype;
    if (other != type && op != "Pow") node_.Unsupported("operands of different types");
    if (facts.inputs.size() > 2) node_.Unsupported("more than two operands");
    number_ = type == kBool     ? NumberOf(kLogic, op)
              : result == kBool ? NumberOf(kComparisons, op)
                                : ArithmeticOf(node_);
    if (number_ < 0) node_.Unsupported("operands of that type");
    std::string options = "-DBINARY " + Types(type, result);
    if (other != type) options += Define("TB", TypeCode(other));
    alike_ = &Use("elementwise.cl", options, "binary");
    spread_ = &Use("elementwise.cl", options, "binary_spread");
  }
  void Compute(const Context& c) const override {
    const Tensor &a = *c.in(0), &b = *c.in(1), &y = *c.out(0);
    const int64_t count = y.elements();
    if (count == 0) return;
    const auto steps = [&](const Tensor& t) { return t.elements() == count || t.elements() == 1; };
    if (steps(a) && steps(b)) {
      c.Start(*alike_)
          .Add(a)
          .Add(b)
          .Add(y)
          .Value(Count(count))
          .Int(number_)
          .Value<uint32_t>(a.elements() == count)
          .Value<uint32_t>(b.elements() == count)
          .RunOver(count);
      return;
    }
    const auto shape = ShapeOf(y);
    const Walk walk(shape, {SpreadStrides(a, shape), SpreadStrides(b, shape)});
    c.Start(*spread_)
        .Add(a)
        .Add(b)
        .Add(y)
        .Value(Count(count))
        .Int(number_)
        .Value(walk.dims)
        .Value(walk.strides[0])
        .Value(walk.strides[1])
        .RunOver(count);
  }

 private:
  KernelRef *alike_, *spread_;
  int number_ = 0;
};

class Where final : public Op {
 public:
  explicit Where(const ullage_kernel_info& info) : Op(info) {
    kernel_ = &Use("elementwise.cl", "-DWHERE " + Define("T", TypeCode(node_.facts().in(1).dtype)), "where");
  }
  void Compute(const Context& c) const override {
    const Tensor& y = *c.out(0);
    const auto shape = ShapeOf(y);
    const Walk walk(shape, {SpreadStrides(*c.in(0), shape), SpreadStrides(*c.in(1), shape),
                            SpreadStrides(*c.in(2), shape)});
    auto launch = c.Start(*kernel_);
    launch.Add(c.in(0)).Add(c.in(1)).Add(c.in(2)).Add(y).Value(Count(y.elements())).Value(walk.dims);
    for (const Strides& s : walk.strides) launch.Value(s);
    launch.RunOver(y.elements());
  }

 private:
  KernelRef* kernel_;
};

/// ullage:SwiGLU and ai.onnx:SwiGLU: of two tensors, or of the halves of one.
class Gated final : public Op {
 public:
  explicit Gated(const ullage_kernel_info& info) : Op(info) {
    const std::string act = node_.Str("activation", "silu");
    constexpr const char* kActivations[] = {"silu", "gelu", "gelu_tanh", "relu", "sigmoid"};
    act_ = NumberOf(kActivations, act);
    if (act_ < 0) node_.Unsupported("activation " + act);
    if (node_.Float("alpha", 1) != 1) node_.Unsupported("alpha");
    kernel_ = &Use("elementwise.cl", "-DGATED " + Define("T", TypeCode(node_.facts().in(0).dtype)), "gated");
  }
  void Compute(const Context& c) const override {
    const Tensor &gate = *c.in(0), &y = *c.out(0);
    const Tensor* up = c.in(1);
    const int64_t columns = y.rank ? y.back() : 1;
    c.Start(*kernel_)
        .Add(gate)
        .Add(up ? *up : gate)
        .Add(y)
        .Value(Count(y.elements()))
        .Value(Count(columns))
        .Value(Count(up ? columns : 2 * columns))
        .Value(Count(up ? 0 : columns))
        .Int(act_)
        .RunOver(y.elements());
  }

 private:
  int act_ = 0;
  KernelRef* kernel_;
};

/// com.microsoft:FastGelu with a bias, com.microsoft:BiasGelu.
class Biased final : public Op {
 public:
  explicit Biased(const ullage_kernel_info& info) : Op(info) {
    const std::string act = node_.op() == "FastGelu" ? "act_gelu_tanh" : "act_gelu";
    kernel_ =
        &Use("elementwise.cl",
             "-DBIASED -DACT=" + act + " " + Define("T", TypeCode(node_.facts().in(0).dtype)), "biased");
  }
  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &bias = *c.in(1), &y = *c.out(0);
    c.Start(*kernel_)
        .Add(x)
        .Add(bias)
        .Add(y)
        .Value(Count(y.elements()))
        .Value(Count(std::max<int64_t>(bias.elements(), 1)))
        .RunOver(y.elements());
  }

 private:
  KernelRef* kernel_;
};

std::unique_ptr<Op> MakeFastGelu(const ullage_kernel_info& info) {
  if (Node(info.node).has_input(1)) return Make<Biased>(info);
  return Make<Unary>(info);
}

}  // namespace

UnaryForm UnaryOf(const Node& node) {
  std::string op = node.op();
  UnaryForm form;
  form.alpha = node.Float("alpha", op == "LeakyRelu"     ? 0.01f
                                   : op == "HardSigmoid" ? 0.2f
                                   : op == "QuickGelu"   ? 1.702f
                                                         : 1.0f);
  form.beta = node.Float("beta", 0.5f);
  if (op == "Gelu" && node.Str("approximate", "none") == "tanh") op = "GeluTanh";
  if (op == "FastGelu") op = "GeluTanh";
  if (op == "Swish") op = "QuickGelu";
  form.number = NumberOf(kUnary, op);
  return form;
}

int BinaryOf(const Node& node) {
  return ArithmeticOf(node);
}

void AddElementwise(std::vector<OpEntry>& ops) {
  const auto add = [&](const char* domain, std::vector<const char*> names, std::vector<uint64_t> types,
                       MakeOp make, std::vector<ullage_pair> may_alias,
                       std::string (*refuse)(const Node&) = nullptr) {
    for (const char* name : names) {
      OpEntry e;
      e.domain = domain;
      e.op = name;
      e.types = types;
      e.make = make;
      e.may_alias = may_alias;
      e.refuse = refuse;
      ops.push_back(e);
    }
  };
  const std::vector<ullage_pair> first = {{0, 0}}, either = {{0, 0}, {1, 0}};
  add("", {"Relu",      "Sigmoid",     "Tanh",      "Exp",   "Log",        "Sqrt",     "Erf",      "Sin",
           "Cos",       "Floor",       "Ceil",      "Round", "Reciprocal", "Softplus", "Softsign", "Elu",
           "LeakyRelu", "HardSigmoid", "HardSwish", "Mish",  "Gelu",       "Swish"},
      {kFloats}, Make<Unary>, first);
  add("", {"IsNaN", "IsInf"}, {kFloats}, Make<Unary>, {});
  add("", {"Abs", "Neg", "Sign"}, {kNumbers}, Make<Unary>, first, ShapeArithmetic);
  add("", {"Not"}, {Bit(kBool)}, Make<Unary>, first, ShapeArithmetic);
  add("", {"Cast"}, {kAll}, Make<Unary>, {}, ShapeArithmetic);
  add(kMicrosoft, {"Gelu", "QuickGelu"}, {kFloats}, Make<Unary>, first);
  add(kMicrosoft, {"FastGelu"}, {kFloats, kFloats}, MakeFastGelu, first);
  add(kMicrosoft, {"BiasGelu"}, {kFloats, kFloats}, Make<Biased>, first);
  OpEntry clip;
  clip.op = "Clip";
  clip.since = 11;
  clip.types = {kNumbers, kNumbers, kNumbers};
  clip.make = Make<Clip>;
  clip.may_alias = first;
  clip.refuse = ShapeArithmetic;
  ops.push_back(clip);

  add("", {"Add", "Sub", "Mul", "Div", "Min", "Max", "Mod"}, {kNumbers, kNumbers}, Make<Binary>, either,
      ShapeArithmetic);
  add("", {"Pow"}, {kFloats, kNumbers}, Make<Binary>, first);
  add("", {"PRelu"}, {kFloats, kFloats}, Make<Binary>, first);
  add("", {"Equal"}, {kAll, kAll}, Make<Binary>, {}, ShapeArithmetic);
  add("", {"Less", "LessOrEqual", "Greater", "GreaterOrEqual"}, {kNumbers, kNumbers}, Make<Binary>, {},
      ShapeArithmetic);
  add("", {"And", "Or", "Xor"}, {Bit(kBool), Bit(kBool)}, Make<Binary>, either, ShapeArithmetic);
  add("", {"Where"}, {Bit(kBool), kAll, kAll}, Make<Where>, {{1, 0}, {2, 0}}, ShapeArithmetic);
  add(kUllage, {"SwiGLU"}, {kFloats, kFloats}, Make<Gated>, either);
  add("", {"SwiGLU"}, {kFloats, kFloats}, Make<Gated>, either);
}

}  // namespace ullage_opencl
