/// Binary arithmetic with spreading: Add, Sub, Mul, Div, Mod, Pow, Min, Max, Sum, Mean.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/checked.h"
#include "providers/cpu/dense/elementwise.h"
#include "providers/cpu/kernels/broadcast.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"
#include "providers/cpu/kernels/types.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

enum class Op { kAdd, kSub, kMul, kDiv, kMod, kFmod, kPow, kMin, kMax };

template <Op op, class A>
A Apply(A a, A b) {
  constexpr bool is_float = std::is_floating_point_v<A>;
  using U = std::conditional_t<is_float, std::type_identity<A>, std::make_unsigned<A>>;
  using Wrap = typename U::type;
  const auto wrap = [](A v) { return static_cast<Wrap>(v); };
  if constexpr (op == Op::kAdd) return static_cast<A>(wrap(a) + wrap(b));
  if constexpr (op == Op::kSub) return static_cast<A>(wrap(a) - wrap(b));
  if constexpr (op == Op::kMul) {
    // Promotion of small unsigned types to int would overflow; 64 bits hold any product of 16-bit factors.
    if constexpr (!is_float && sizeof(A) < 4)
      return static_cast<A>(static_cast<uint64_t>(wrap(a)) * wrap(b));
    else
      return static_cast<A>(wrap(a) * wrap(b));
  }
  if constexpr (op == Op::kDiv) {
    if constexpr (is_float) {
      return a / b;
    } else {
      if (b == 0) throw Error(Code::kInvalidInput, "integer division by zero");
      if constexpr (std::is_signed_v<A>)
        if (b == -1) return static_cast<A>(Wrap{0} - wrap(a));
      return static_cast<A>(a / b);
    }
  }
  if constexpr (op == Op::kMod || op == Op::kFmod) {
    if constexpr (is_float) {
      const A r = std::fmod(a, b);
      return op == Op::kMod && r != 0 && (r < 0) != (b < 0) ? r + b : r;
    } else {
      if (b == 0) throw Error(Code::kInvalidInput, "integer division by zero");
      if constexpr (std::is_signed_v<A>)
        if (b == -1) return 0;
      const A r = static_cast<A>(a % b);
      if constexpr (op == Op::kMod && std::is_signed_v<A>)
        if (r != 0 && (r < 0) != (b < 0)) return static_cast<A>(r + b);
      return r;
    }
  }
  if constexpr (op == Op::kMin) return is_float && b != b ? b : (b < a ? b : a);
  if constexpr (op == Op::kMax) return is_float && b != b ? b : (a < b ? b : a);
  return a;
}

template <class T>
T Power(T base, double exponent) {
  using A = typename Arithmetic<T>::Type;
  const auto x = Load(base);
  if constexpr (std::is_floating_point_v<A>) {
    if (exponent == 2) return Store<T>(x * x);
    if (exponent == 3) return Store<T>(x * x * x);
    if (exponent == 0.5) return Store<T>(std::sqrt(x));
    return Store<T>(static_cast<A>(std::pow(x, static_cast<A>(exponent))));
  } else {
    if (exponent >= 0 && exponent <= 64 && exponent == std::floor(exponent)) {
      uint64_t r = 1;
      for (int i = 0; i < static_cast<int>(exponent); ++i) r *= static_cast<uint64_t>(x);
      return static_cast<T>(r);
    }
    return static_cast<T>(std::pow(static_cast<double>(x), exponent));
  }
}

double NumberAt(const TensorView& v, int64_t i) {
  double d = 0;
  ForNumber(v.dtype, [&](auto t) { d = static_cast<double>(Load(v.as<decltype(t)>()[i])); });
  return d;
}

constexpr int64_t kRowsPerTask = 4096;  // elements, about

/// Calls row(r) for all rows of the loop, on the team when there is much to do.
template <class Fn>
void EachRow(ThreadTeam& team, const Broadcast& loop, const Fn& row) {
  const int64_t rows = loop.rows(), length = std::max<int64_t>(loop.row_length(), 1);
  if (rows * length < 16384) {
    for (int64_t r = 0; r < rows; ++r) row(r, int64_t{0}, length);
    return;
  }
  if (rows == 1) {
    team.Run(CeilDiv(length, kRowsPerTask), [&](int64_t t, int) {
      row(int64_t{0}, t * kRowsPerTask, std::min(length, (t + 1) * kRowsPerTask));
    });
    return;
  }
  const int64_t per = std::max<int64_t>(1, kRowsPerTask / length);
  team.Run(CeilDiv(rows, per), [&](int64_t t, int) {
    for (int64_t r = t * per; r < std::min(rows, (t + 1) * per); ++r) row(r, int64_t{0}, length);
  });
}

template <Op op>
void Compute(ThreadTeam& team, const TensorView& a, const TensorView& b, TensorView& out) {
  if (out.shape.elements() == 0) return;
  const Broadcast loop(out.shape, &a.shape, &b.shape);
  ForNumber(out.dtype, [&](auto t) {
    using T = decltype(t);
    const T* pa = a.as<T>();
    const T* pb = b.as<T>();
    T* po = out.as<T>();
    const int64_t sa = loop.step(0), sb = loop.step(1), length = loop.row_length();
    EachRow(team, loop, [&](int64_t r, int64_t first, int64_t last) {
      const T* x = pa + loop.offset(0, r);
      const T* y = pb + loop.offset(1, r);
      T* z = po + r * length;
      if (sa == 1 && sb == 1) {
        for (int64_t i = first; i < last; ++i) z[i] = Store<T>(Apply<op>(Load(x[i]), Load(y[i])));
      } else {
        for (int64_t i = first; i < last; ++i) z[i] = Store<T>(Apply<op>(Load(x[i * sa]), Load(y[i * sb])));
      }
    });
  });
}

void Dispatch(Op op, ThreadTeam& team, const TensorView& a, const TensorView& b, TensorView& out) {
  switch (op) {
    case Op::kAdd:
      return Compute<Op::kAdd>(team, a, b, out);
    case Op::kSub:
      return Compute<Op::kSub>(team, a, b, out);
    case Op::kMul:
      return Compute<Op::kMul>(team, a, b, out);
    case Op::kDiv:
      return Compute<Op::kDiv>(team, a, b, out);
    case Op::kMod:
      return Compute<Op::kMod>(team, a, b, out);
    case Op::kFmod:
      return Compute<Op::kFmod>(team, a, b, out);
    case Op::kMin:
      return Compute<Op::kMin>(team, a, b, out);
    case Op::kMax:
      return Compute<Op::kMax>(team, a, b, out);
    case Op::kPow:
      break;
  }
  // The exponent may have a type of its own.
  if (out.shape.elements() == 0) return;
  const Broadcast loop(out.shape, &a.shape, &b.shape);
  ForNumber(out.dtype, [&](auto t) {
    using T = decltype(t);
    const bool one = b.shape.elements() == 1;
    const double exponent = one ? NumberAt(b, 0) : 0;
    EachRow(team, loop, [&](int64_t r, int64_t first, int64_t last) {
      const T* x = a.as<T>() + loop.offset(0, r);
      const int64_t at = loop.offset(1, r);
      T* z = out.as<T>() + r * loop.row_length();
      for (int64_t i = first; i < last; ++i)
        z[i] = Power<T>(x[i * loop.step(0)], one ? exponent : NumberAt(b, at + i * loop.step(1)));
    });
  });
}

class ArithmeticKernel final : public Kernel {
 public:
  explicit ArithmeticKernel(const KernelInfo& info) {
    const std::string& n = info.node.op;
    op_ = n == "Add" || n == "Sum" || n == "Mean" ? Op::kAdd
          : n == "Sub"                            ? Op::kSub
          : n == "Mul"                            ? Op::kMul
          : n == "Div"                            ? Op::kDiv
          : n == "Mod"                            ? (info.node.Int("fmod", 0) ? Op::kFmod : Op::kMod)
          : n == "Pow"                            ? Op::kPow
          : n == "Min"                            ? Op::kMin
                                                  : Op::kMax;
    mean_ = n == "Mean";
    count_ = static_cast<int>(info.node.inputs.size());
  }
  void Compute(KernelContext& context) const override {
    TensorView& out = *context.output(0);
    ThreadTeam& team = context.threads();
    if (count_ == 1) {
      if (out.bytes() > 0 && out.data != context.input(0)->data)
        std::memcpy(out.data, context.input(0)->data, out.bytes());
      return;
    }
    if (!FastPath(team, *context.input(0), *context.input(1), out))
      Dispatch(op_, team, *context.input(0), *context.input(1), out);
    for (int i = 2; i < count_; ++i) Dispatch(op_, team, out, *context.input(i), out);
    if (mean_)
      ForNumber(out.dtype, [&](auto t) {
        using T = decltype(t);
        using A = typename Arithmetic<T>::Type;
        for (int64_t i = 0; i < out.elements(); ++i)
          out.as<T>()[i] = Store<T>(static_cast<A>(Load(out.as<T>()[i]) / static_cast<A>(count_)));
      });
  }

 private:
  /// Floats with a plain spread go to the vectorised loops.
  bool FastPath(ThreadTeam& team, const TensorView& a, const TensorView& b, TensorView& out) const {
    if (op_ > Op::kDiv ||
        (out.dtype != DType::kFloat && out.dtype != DType::kFloat16 && out.dtype != DType::kBFloat16))
      return false;
    const int64_t n = out.elements();
    if (n == 0) return true;
    dense::BinaryOp op = op_ == Op::kAdd   ? dense::BinaryOp::kAdd
                         : op_ == Op::kSub ? dense::BinaryOp::kSub
                         : op_ == Op::kMul ? dense::BinaryOp::kMul
                                           : dense::BinaryOp::kDiv;
    const int64_t cols = out.shape.rank() ? out.shape.at(-1) : 1;
    const auto spread = [&](const TensorView& v, dense::Spread* s) {
      const int64_t m = v.elements();
      if (m == n)
        *s = dense::Spread::kFull;
      else if (m == 1)
        *s = dense::Spread::kScalar;
      else if (m == cols && v.shape.rank() > 0 && v.shape.at(-1) == cols)
        *s = dense::Spread::kRow;
      else
        return false;
      return true;
    };
    dense::Spread sa, sb;
    if (!spread(a, &sa) || !spread(b, &sb)) return false;
    dense::Binary(team, op, {a.data, a.dtype}, sa, {b.data, b.dtype}, sb, n / cols, cols,
                  {out.data, out.dtype});
    return true;
  }

  Op op_ = Op::kAdd;
  bool mean_ = false;
  int count_ = 2;
};

}  // namespace

void RegisterArithmetic(kernels::Registry& registry) {
  for (std::string_view op : {"Add", "Sub", "Mul", "Div", "Mod", "Pow", "Min", "Max", "Sum", "Mean"}) {
    kernels::KernelDef def;
    def.op = op;
    def.types = {kernels::kNumbers, kernels::kNumbers};
    def.create = Make<ArithmeticKernel>;
    registry.Add(std::move(def));
  }
}

}  // namespace ullage::cpu
