/// Functions of one element, and Cast.
#include <cmath>
#include <cstring>

#include "core/checked.h"
#include "providers/cpu/dense/elementwise.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"
#include "providers/cpu/kernels/small_types.h"
#include "providers/cpu/kernels/types.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

constexpr int64_t kPerTask = 8192;

template <class Fn>
void EachChunk(ThreadTeam& team, int64_t n, const Fn& fn) {
  if (n <= 2 * kPerTask) return fn(int64_t{0}, n);
  team.Run(CeilDiv(n, kPerTask), [&](int64_t t, int) { fn(t * kPerTask, std::min(n, (t + 1) * kPerTask)); });
}

/// Floats through the vectorised functions.
class VectorUnary final : public Kernel {
 public:
  explicit VectorUnary(const KernelInfo& info) {
    const graph::Node& n = info.node;
    const std::string& o = n.op;
    using dense::UnaryOp;
    if (o == "Sigmoid")
      op_ = UnaryOp::kSigmoid;
    else if (o == "QuickGelu")
      op_ = UnaryOp::kSilu, alpha_ = n.Float("alpha", 1.702f);
    else if (o == "Swish")
      op_ = UnaryOp::kSilu, alpha_ = n.Float("alpha", 1);
    else if (o == "Gelu")
      op_ = n.Str("approximate", "none") == "tanh" ? UnaryOp::kGeluTanh : UnaryOp::kGeluErf;
    else if (o == "FastGelu")
      op_ = UnaryOp::kGeluTanh;
    else if (o == "BiasGelu")
      op_ = UnaryOp::kGeluErf;
    else if (o == "Tanh")
      op_ = UnaryOp::kTanh;
    else if (o == "Exp")
      op_ = UnaryOp::kExp;
    else if (o == "Erf")
      op_ = UnaryOp::kErf;
    else if (o == "Softplus")
      op_ = UnaryOp::kSoftplus;
    else if (o == "Softcap")
      op_ = UnaryOp::kSoftcap, alpha_ = n.Float("cap", 1);
    else
      info.Unsupported("no such function");
    bias_ = n.has_input(1);
  }
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    dense::ConstArray in{x.data, x.dtype};
    if (bias_) {
      const TensorView& b = *context.input(1);
      const int64_t cols = x.shape.rank() ? x.shape.at(-1) : 1;
      if (b.elements() != cols)
        Throw(Code::kInvalidModel, "bias of shape ", b.shape.ToString(), " for ", x.shape.ToString());
      if (cols > 0)
        dense::Binary(context.threads(), dense::BinaryOp::kAdd, in, dense::Spread::kFull, {b.data, b.dtype},
                      dense::Spread::kRow, x.elements() / cols, cols, {y.data, y.dtype});
      in = {y.data, y.dtype};
    }
    dense::Unary(context.threads(), op_, in, x.elements(), {y.data, y.dtype}, alpha_);
  }

 private:
  dense::UnaryOp op_ = dense::UnaryOp::kIdentity;
  float alpha_ = 1;
  bool bias_ = false;
};

using FloatFn = double (*)(double, double, double);

struct NamedFn {
  std::string_view op;
  FloatFn fn;
  float alpha = 0, beta = 0;  ///< defaults of the attributes
  std::string_view alpha_name = "alpha", beta_name = "beta";
};

constexpr NamedFn kFunctions[] = {
    {"Sqrt", [](double x, double, double) { return std::sqrt(x); }},
    {"Reciprocal", [](double x, double, double) { return 1 / x; }},
    {"Log", [](double x, double, double) { return std::log(x); }},
    {"Sin", [](double x, double, double) { return std::sin(x); }},
    {"Cos", [](double x, double, double) { return std::cos(x); }},
    {"Tan", [](double x, double, double) { return std::tan(x); }},
    {"Asin", [](double x, double, double) { return std::asin(x); }},
    {"Acos", [](double x, double, double) { return std::acos(x); }},
    {"Atan", [](double x, double, double) { return std::atan(x); }},
    {"Sinh", [](double x, double, double) { return std::sinh(x); }},
    {"Cosh", [](double x, double, double) { return std::cosh(x); }},
    {"Asinh", [](double x, double, double) { return std::asinh(x); }},
    {"Acosh", [](double x, double, double) { return std::acosh(x); }},
    {"Atanh", [](double x, double, double) { return std::atanh(x); }},
    {"Floor", [](double x, double, double) { return std::floor(x); }},
    {"Ceil", [](double x, double, double) { return std::ceil(x); }},
    {"Round", [](double x, double, double) { return std::nearbyint(x); }},
    {"Softsign", [](double x, double, double) { return x / (1 + std::abs(x)); }},
    {"Mish", [](double x, double, double) { return x * std::tanh(x > 30 ? x : std::log1p(std::exp(x))); }},
    {"Elu", [](double x, double a, double) { return x < 0 ? a * std::expm1(x) : x; }, 1},
    {"Celu",
     [](double x, double a, double) { return std::max(x, 0.0) + std::min(0.0, a * std::expm1(x / a)); }, 1},
    {"Selu", [](double x, double a, double g) { return x > 0 ? g * x : g * a * std::expm1(x); },
     1.67326319217681884765625f, 1.05070102214813232421875f, "alpha", "gamma"},
    {"LeakyRelu", [](double x, double a, double) { return x < 0 ? a * x : x; }, 0.01f},
    {"ThresholdedRelu", [](double x, double a, double) { return x > a ? x : 0; }, 1},
    {"HardSigmoid", [](double x, double a, double b) { return std::max(0.0, std::min(1.0, a * x + b)); },
     0.2f, 0.5f},
    {"HardSwish", [](double x, double, double) { return x * std::max(0.0, std::min(1.0, x / 6 + 0.5)); }},
    {"Shrink",
     [](double x, double bias, double lambd) { return x < -lambd  ? x + bias
                                                      : x > lambd ? x - bias
                                                                  : 0; }, 0,
     0.5f, "bias", "lambd"},
};

double Sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

/// Functions of doubles whose floats are vectorised.
constexpr NamedFn kDoubleFunctions[] = {
    {"Sigmoid", [](double x, double, double) { return Sigmoid(x); }},
    {"Swish", [](double x, double a, double) { return x * Sigmoid(a * x); }, 1},
    {"Tanh", [](double x, double, double) { return std::tanh(x); }},
    {"Exp", [](double x, double, double) { return std::exp(x); }},
    {"Erf", [](double x, double, double) { return std::erf(x); }},
    {"Softplus",
     [](double x, double, double) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }},
    {"Gelu", [](double x, double, double) { return 0.5 * x * (1 + std::erf(x * M_SQRT1_2)); }},
};

/// Functions that are rarely hot: computed in double, one element at a time.
class ScalarUnary final : public Kernel {
 public:
  explicit ScalarUnary(const KernelInfo& info) {
    const auto look = [&](const NamedFn& f) {
      if (f.op != info.node.op) return;
      fn_ = f.fn;
      alpha_ = info.node.Float(f.alpha_name, f.alpha);
      beta_ = info.node.Float(f.beta_name, f.beta);
    };
    for (const NamedFn& f : kFunctions) look(f);
    for (const NamedFn& f : kDoubleFunctions) look(f);
    if (info.node.op == "Gelu" && info.node.Str("approximate", "none") == "tanh")
      fn_ = [](double x, double, double) {
        return 0.5 * x * (1 + std::tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x)));
      };
  }
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      using A = typename Arithmetic<T>::Type;
      if constexpr (std::is_floating_point_v<A>) {
        EachChunk(context.threads(), x.elements(), [&](int64_t first, int64_t last) {
          for (int64_t i = first; i < last; ++i)
            y.as<T>()[i] =
                Store<T>(static_cast<A>(fn_(static_cast<double>(Load(x.as<T>()[i])), alpha_, beta_)));
        });
      }
    });
  }

 private:
  FloatFn fn_ = nullptr;
  double alpha_ = 0, beta_ = 0;
};

/// Abs, Neg, Sign, Relu for all numbers; Not, IsNaN, IsInf, BitwiseNot.
class SimpleUnary final : public Kernel {
 public:
  explicit SimpleUnary(const KernelInfo& info) : op_(info.node.op) {
    positive_ = info.node.Int("detect_positive", 1) != 0;
    negative_ = info.node.Int("detect_negative", 1) != 0;
  }
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    ThreadTeam& team = context.threads();
    if (op_ == "Not")
      return Map<uint8_t, uint8_t>(team, x, y, [](uint8_t v) { return static_cast<uint8_t>(v == 0); });
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      using A = typename Arithmetic<T>::Type;
      if (op_ == "IsNaN")
        Map<T, uint8_t>(team, x, y, [](T v) { return static_cast<uint8_t>(Load(v) != Load(v)); });
      else if (op_ == "IsInf")
        Map<T, uint8_t>(team, x, y, [&](T v) {
          if constexpr (std::is_floating_point_v<A>)
            return static_cast<uint8_t>(std::isinf(Load(v)) && (Load(v) > 0 ? positive_ : negative_));
          else
            return uint8_t{0};
        });
      else if (op_ == "Abs")
        Map<T, T>(team, x, y, [](T v) {
          if constexpr (std::is_unsigned_v<A>)
            return v;
          else if constexpr (std::is_floating_point_v<A>)
            return Store<T>(std::abs(Load(v)));
          else
            return v < 0
                       ? static_cast<T>(std::make_unsigned_t<A>{0} - static_cast<std::make_unsigned_t<A>>(v))
                       : v;
        });
      else if (op_ == "Neg")
        Map<T, T>(team, x, y, [](T v) {
          if constexpr (std::is_floating_point_v<A>)
            return Store<T>(-Load(v));
          else
            return static_cast<T>(std::make_unsigned_t<A>{0} - static_cast<std::make_unsigned_t<A>>(v));
        });
      else if (op_ == "Sign")
        Map<T, T>(team, x, y, [](T v) {
          const auto a = Load(v);
          return Store<T>(a > A{0} ? A{1} : a < A{0} ? static_cast<A>(-1) : a);
        });
      else if (op_ == "Relu")
        Map<T, T>(team, x, y, [](T v) { return Load(v) < A{0} ? Store<T>(A{0}) : v; });
      else if (op_ == "BitwiseNot")
        Map<T, T>(team, x, y, [](T v) {
          if constexpr (std::is_integral_v<T>)
            return static_cast<T>(~v);
          else
            return v;
        });
    });
  }

 private:
  template <class In, class Out, class Fn>
  static void Map(ThreadTeam& team, const TensorView& x, TensorView& y, const Fn& fn) {
    const In* in = x.as<In>();
    Out* out = y.as<Out>();
    EachChunk(team, x.elements(), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) out[i] = fn(in[i]);
    });
  }
  std::string op_;
  bool positive_ = true, negative_ = true;
};

template <class To, class From>
To Convert(From v) {
  if constexpr (std::is_same_v<To, bool>) {
    return v != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // Outside of the type's range C++ leaves the result open; saturate, NaN to 0.
    if (v != v) return 0;
    const double d = std::trunc(static_cast<double>(v));
    if (d <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (d >= static_cast<double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(d);
  } else {
    return static_cast<To>(v);
  }
}

class CastKernel final : public Kernel {
 public:
  explicit CastKernel(const KernelInfo& info) : saturate_(info.node.Int("saturate", 1) != 0) {
    const std::string rounding = info.node.Str("round_mode", "up");
    rounding_ = rounding == "nearest" ? SmallRounding::kNearest
                : rounding == "down"  ? SmallRounding::kDown
                                      : SmallRounding::kUp;
  }
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const int64_t n = x.elements();
    if (n == 0) return;
    if (x.dtype == y.dtype) {
      if (x.data != y.data) std::memcpy(y.data, x.data, y.bytes());
      return;
    }
    const auto vectorised = [](DType d) {
      return d == DType::kFloat || d == DType::kFloat16 || d == DType::kBFloat16;
    };
    if (vectorised(x.dtype) && vectorised(y.dtype))
      return dense::Cast(context.threads(), {x.data, x.dtype}, n, {y.data, y.dtype});
    if (IsSmall(x.dtype)) {
      ToElements(context.threads(), y, n, [&](int64_t i) { return SmallAt(x.data, x.dtype, i); });
    } else {
      ForNumberOrBool(x.dtype, [&](auto from) {
        using F = decltype(from);
        const F* in = x.as<F>();
        ToElements(context.threads(), y, n, [in](int64_t i) { return Load(in[i]); });
      });
    }
  }

 private:
  static bool IsSmall(DType d) { return IsSmallFloat(d) || IsPackedInteger(d); }
  template <class At>
  void ToElements(ThreadTeam& team, TensorView& y, int64_t n, const At& at) const {
    if (IsSmall(y.dtype)) {
      // Chunks begin at whole bytes.
      EachChunk(team, n, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) SetSmall(y, i, at(i));
      });
      return;
    }
    ForNumberOrBool(y.dtype, [&](auto to) {
      using T = decltype(to);
      using A = typename Arithmetic<T>::Type;
      EachChunk(team, n, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) y.as<T>()[i] = Store<T>(Convert<A>(at(i)));
      });
    });
  }
  template <class V>
  void SetSmall(TensorView& y, int64_t i, V v) const {
    if (!IsSmallFloat(y.dtype)) return SetPacked(y.data, y.dtype, i, static_cast<int>(Convert<int64_t>(v)));
    const uint8_t code = EncodeSmallFloat(y.dtype, static_cast<float>(v), saturate_, rounding_);
    if (y.dtype == DType::kFloat4E2M1)
      SetPacked(y.data, y.dtype, i, code);
    else
      y.as<uint8_t>()[i] = code;
  }

  bool saturate_;
  SmallRounding rounding_ = SmallRounding::kUp;
};

}  // namespace

void RegisterUnary(kernels::Registry& registry) {
  for (std::string_view op : {"Sigmoid", "Swish", "Gelu", "Tanh", "Exp", "Erf", "Softplus"})
    registry.Add(Define<VectorUnary>("", op, {kernels::kFloats}));
  for (std::string_view op : {"QuickGelu", "FastGelu", "BiasGelu", "Gelu"})
    registry.Add(Define<VectorUnary>(graph::kMsDomain, op, {kernels::kFloats}));
  registry.Add(Define<VectorUnary>(graph::kUllageDomain, "Softcap", {kernels::kFloats}));
  for (const NamedFn& f : kFunctions) registry.Add(Define<ScalarUnary>("", f.op, {kernels::kAllFloats}));
  for (const NamedFn& f : kDoubleFunctions)
    registry.Add(Define<ScalarUnary>("", f.op, {kernels::TypeSet{DType::kDouble}}));
  for (std::string_view op : {"Abs", "Neg", "Sign", "Relu"})
    registry.Add(Define<SimpleUnary>("", op, {kernels::kNumbers}));
  registry.Add(Define<SimpleUnary>("", "BitwiseNot", {kernels::kInts}));
  registry.Add(Define<SimpleUnary>("", "Not", {kernels::TypeSet{DType::kBool}}));
  registry.Add(Define<SimpleUnary>("", "IsNaN", {kernels::kAllFloats}));
  registry.Add(Define<SimpleUnary>("", "IsInf", {kernels::kAllFloats}));
  const kernels::TypeSet castable =
      kernels::kNumbersAndBool | kernels::TypeSet{DType::kInt4,         DType::kUInt4,
                                                  DType::kInt2,         DType::kUInt2,
                                                  DType::kFloat8E4M3FN, DType::kFloat8E4M3FNUZ,
                                                  DType::kFloat8E5M2,   DType::kFloat8E5M2FNUZ,
                                                  DType::kFloat8E8M0,   DType::kFloat4E2M1};
  registry.Add(Define<CastKernel>("", "Cast", {castable}));
  registry.Add(Define<CastKernel>("", "CastLike", {castable}));
}

}  // namespace ullage::cpu
