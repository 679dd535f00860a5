/// Comparisons, logic, Where.
#include <cstring>

#include "providers/cpu/kernels/broadcast.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"
#include "providers/cpu/kernels/types.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

enum class Op {
  kEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kAnd,
  kOr,
  kXor,
  kBitAnd,
  kBitOr,
  kBitXor
};

struct Name {
  std::string_view name;
  Op op;
};
constexpr Name kNames[] = {
    {"Equal", Op::kEqual},
    {"Less", Op::kLess},
    {"LessOrEqual", Op::kLessOrEqual},
    {"Greater", Op::kGreater},
    {"GreaterOrEqual", Op::kGreaterOrEqual},
    {"And", Op::kAnd},
    {"Or", Op::kOr},
    {"Xor", Op::kXor},
    {"BitwiseAnd", Op::kBitAnd},
    {"BitwiseOr", Op::kBitOr},
    {"BitwiseXor", Op::kBitXor},
};

template <class A>
bool Compare(Op op, A a, A b) {
  switch (op) {
    case Op::kEqual:
      return a == b;
    case Op::kLess:
      return a < b;
    case Op::kLessOrEqual:
      return a <= b;
    case Op::kGreater:
      return a > b;
    default:
      return a >= b;
  }
}

template <class In, class Out, class Fn>
void Loop(const Broadcast& loop, const TensorView& a, const TensorView& b, TensorView& out, const Fn& fn) {
  const int64_t rows = loop.rows(), length = loop.row_length(), sa = loop.step(0), sb = loop.step(1);
  for (int64_t r = 0; r < rows; ++r) {
    const In* x = a.as<In>() + loop.offset(0, r);
    const In* y = b.as<In>() + loop.offset(1, r);
    Out* z = out.as<Out>() + r * length;
    for (int64_t i = 0; i < length; ++i) z[i] = fn(x[i * sa], y[i * sb]);
  }
}

class CompareKernel final : public Kernel {
 public:
  explicit CompareKernel(const KernelInfo& info) {
    for (const auto& [name, op] : kNames)
      if (name == info.node.op) op_ = op;
  }
  void Compute(KernelContext& context) const override {
    const TensorView& a = *context.input(0);
    const TensorView& b = *context.input(1);
    TensorView& out = *context.output(0);
    if (out.elements() == 0) return;
    const Broadcast loop(out.shape, &a.shape, &b.shape);
    if (op_ >= Op::kBitAnd) {
      ForBytes(a.dtype, [&](auto t) {
        using T = decltype(t);
        Loop<T, T>(loop, a, b, out, [&](T x, T y) {
          return static_cast<T>(op_ == Op::kBitAnd ? x & y : op_ == Op::kBitOr ? x | y : x ^ y);
        });
      });
    } else if (op_ >= Op::kAnd) {
      Loop<uint8_t, uint8_t>(loop, a, b, out, [&](uint8_t x, uint8_t y) {
        const bool p = x != 0, q = y != 0;
        return static_cast<uint8_t>(op_ == Op::kAnd ? p && q : op_ == Op::kOr ? p || q : p != q);
      });
    } else {
      ForNumberOrBool(a.dtype, [&](auto t) {
        using T = decltype(t);
        Loop<T, uint8_t>(loop, a, b, out,
                         [&](T x, T y) { return static_cast<uint8_t>(Compare(op_, Load(x), Load(y))); });
      });
    }
  }

 private:
  Op op_ = Op::kEqual;
};

class WhereKernel final : public Kernel {
 public:
  explicit WhereKernel(const KernelInfo&) {}
  void Compute(KernelContext& context) const override {
    const TensorView& c = *context.input(0);
    const TensorView& a = *context.input(1);
    const TensorView& b = *context.input(2);
    TensorView& out = *context.output(0);
    if (out.elements() == 0) return;
    const Broadcast loop(out.shape, &a.shape, &b.shape, &c.shape);
    ForBytes(out.dtype, [&](auto t) {
      using T = decltype(t);
      const int64_t rows = loop.rows(), length = loop.row_length(), sa = loop.step(0), sb = loop.step(1),
                    sc = loop.step(2);
      for (int64_t r = 0; r < rows; ++r) {
        const T* x = a.as<T>() + loop.offset(0, r);
        const T* y = b.as<T>() + loop.offset(1, r);
        const uint8_t* k = c.as<uint8_t>() + loop.offset(2, r);
        T* z = out.as<T>() + r * length;
        for (int64_t i = 0; i < length; ++i) z[i] = k[i * sc] ? x[i * sa] : y[i * sb];
      }
    });
  }
};

}  // namespace

void RegisterCompare(kernels::Registry& registry) {
  for (const auto& [name, op] : kNames)
    registry.Add(Define<CompareKernel>("", name,
                                       {op >= Op::kBitAnd ? kernels::kInts
                                        : op >= Op::kAnd  ? kernels::TypeSet{DType::kBool}
                                                          : kernels::kNumbersAndBool}));
  registry.Add(Define<WhereKernel>("", "Where", {kernels::TypeSet{DType::kBool}, kernels::kNumbersAndBool}));
}

}  // namespace ullage::cpu
