/// Products outside of the vectorised float GEMM: MatMul and Gemm of doubles and integers, MatMulInteger.
#include <algorithm>
#include <vector>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"
#include "providers/cpu/kernels/types.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

/// Shapes of numpy.matmul; a vector on the left is a row, on the right a column.
struct Stack {
  int64_t m = 1, k = 1, n = 1, count = 1;
  int64_t a_row = 0, a_col = 1, b_row = 0, b_col = 1;
  int rank = 0;
  int64_t dims[kMaxRank] = {}, a_stride[kMaxRank] = {}, b_stride[kMaxRank] = {};

  Stack(const Shape& a, const Shape& b, bool trans_a, bool trans_b) {
    const auto wrong = [&] {
      Throw(Code::kInvalidModel, "cannot multiply shapes ", a.ToString(), " and ", b.ToString());
    };
    const int ra = a.rank(), rb = b.rank();
    if (ra < 1 || rb < 1) wrong();
    const int64_t rows_a = ra > 1 ? a.at(-2) : 1, cols_a = a.at(-1);
    const int64_t rows_b = rb > 1 ? b.at(-2) : b.at(-1), cols_b = rb > 1 ? b.at(-1) : 1;
    m = trans_a ? cols_a : rows_a;
    k = trans_a ? rows_a : cols_a;
    n = trans_b ? rows_b : cols_b;
    if (k != (trans_b ? cols_b : rows_b)) wrong();
    a_row = trans_a ? 1 : cols_a;
    a_col = trans_a ? cols_a : 1;
    b_row = trans_b ? 1 : cols_b;
    b_col = trans_b ? cols_b : 1;
    rank = std::max({ra - 2, rb - 2, 0});
    int64_t sa = rows_a * cols_a, sb = rows_b * cols_b;
    for (int i = 0; i < rank; ++i) {
      const int d = rank - 1 - i;
      const int64_t da = ra - 3 - i >= 0 ? a[ra - 3 - i] : 1, db = rb - 3 - i >= 0 ? b[rb - 3 - i] : 1;
      if (da != db && da != 1 && db != 1) wrong();
      dims[d] = da == 1 ? db : da;
      a_stride[d] = da == 1 ? 0 : sa;
      b_stride[d] = db == 1 ? 0 : sb;
      sa *= da;
      sb *= db;
      count *= dims[d];
    }
  }
  void Offsets(int64_t index, int64_t* a, int64_t* b) const {
    *a = *b = 0;
    for (int d = rank - 1; d >= 0; --d) {
      *a += index % dims[d] * a_stride[d];
      *b += index % dims[d] * b_stride[d];
      index /= dims[d];
    }
  }
};

/// fn(a, b, row, out) computes one row of one product: `a` and `b` are offsets of the matrices, `row` the row
/// of the product, `out` the offset of the result's row.
template <class Fn>
void EachRow(ThreadTeam& team, const Stack& s, const Fn& fn) {
  const int64_t rows = s.count * s.m;
  if (rows == 0 || s.n == 0) return;
  const int64_t per = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, s.k * s.n));
  team.Run(CeilDiv(rows, per), [&](int64_t task, int) {
    for (int64_t r = task * per; r < std::min(rows, (task + 1) * per); ++r) {
      int64_t a, b;
      s.Offsets(r / s.m, &a, &b);
      fn(a, b, r % s.m, r * s.n);
    }
  });
}

/// Integers wrap around.
template <class T>
T MulAdd(T a, T b, T c) {
  if constexpr (std::is_floating_point_v<T>) {
    return a * b + c;
  } else {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b) + static_cast<U>(c));
  }
}

class ExactMatMul final : public Kernel {
 public:
  explicit ExactMatMul(const KernelInfo& info)
      : gemm_(info.node.op == "Gemm"),
        trans_a_(info.node.Int("transA", 0) != 0),
        trans_b_(info.node.Int("transB", 0) != 0),
        alpha_(info.node.Float("alpha", 1)),
        beta_(info.node.Float("beta", 1)) {
    if (!gemm_ && info.node.domain == graph::kMsDomain) info.Unsupported("this element type");
  }

  void Compute(KernelContext& context) const override {
    const TensorView& a = *context.input(0);
    const TensorView& b = *context.input(1);
    const TensorView* c = gemm_ ? context.input(2) : nullptr;
    TensorView& y = *context.output(0);
    const Stack s(a.shape, b.shape, gemm_ && trans_a_, gemm_ && trans_b_);
    int64_t c_row = 0, c_col = 0;
    if (c && c->elements() > 0) {
      const int64_t cols = c->shape.rank() > 0 ? c->shape.at(-1) : 1;
      const int64_t rows = c->shape.rank() > 1 ? c->shape.at(-2) : 1;
      if (c->shape.rank() > 2 || (cols != 1 && cols != s.n) || (rows != 1 && rows != s.m))
        Throw(Code::kInvalidModel, "C of shape ", c->shape.ToString(), " does not spread over [", s.m, ",",
              s.n, "]");
      c_col = cols == 1 ? 0 : 1;
      c_row = rows == 1 ? 0 : cols;
    } else {
      c = nullptr;
    }
    const auto run = [&](auto type) {
      using T = decltype(type);
      EachRow(context.threads(), s, [&](int64_t a_at, int64_t b_at, int64_t row, int64_t out) {
        T* to = y.as<T>() + out;
        std::fill_n(to, s.n, T{});
        const T* from = a.as<T>() + a_at + row * s.a_row;
        for (int64_t k = 0; k < s.k; ++k) {
          const T x = from[k * s.a_col];
          const T* w = b.as<T>() + b_at + k * s.b_row;
          for (int64_t j = 0; j < s.n; ++j) to[j] = MulAdd(x, w[j * s.b_col], to[j]);
        }
        if (!gemm_) return;
        for (int64_t j = 0; j < s.n; ++j) {
          if (alpha_ != 1) to[j] = static_cast<T>(static_cast<double>(to[j]) * static_cast<double>(alpha_));
          if (!c) continue;
          const T bias = c->as<T>()[row * c_row + j * c_col];
          to[j] = MulAdd(
              T{1}, to[j],
              beta_ == 1 ? bias : static_cast<T>(static_cast<double>(bias) * static_cast<double>(beta_)));
        }
      });
    };
    switch (y.dtype) {
      case DType::kDouble:
        return run(double{});
      case DType::kInt32:
        return run(int32_t{});
      case DType::kUInt32:
        return run(uint32_t{});
      case DType::kInt64:
        return run(int64_t{});
      case DType::kUInt64:
        return run(uint64_t{});
      default:
        Throw(Code::kUnsupported, "products of type ", NameOf(y.dtype));
    }
  }

 private:
  bool gemm_, trans_a_, trans_b_;
  float alpha_, beta_;
};

/// int32 = (A - a_zero_point) (B - b_zero_point) of 8-bit integers. Zero points: one number, or one per row
/// of A resp. column of B.
class MatMulInteger final : public Kernel {
 public:
  explicit MatMulInteger(const KernelInfo&) {}
  void Compute(KernelContext& context) const override {
    const TensorView& a = *context.input(0);
    const TensorView& b = *context.input(1);
    TensorView& y = *context.output(0);
    const Stack s(a.shape, b.shape, false, false);
    const auto zeros = [](const TensorView* zp, int64_t wanted, const char* name) {
      if (zp && zp->elements() != 1 && zp->elements() != wanted)
        Throw(Code::kInvalidModel, name, " has shape ", zp->shape.ToString(), ", expected 1 or ", wanted,
              " elements");
    };
    const TensorView* za = context.input(2);
    const TensorView* zb = context.input(3);
    const int64_t a_matrices = a.shape.rank() > 2 ? a.shape.elements(0, a.shape.rank() - 2) : 1;
    const int64_t b_matrices = b.shape.rank() > 2 ? b.shape.elements(0, b.shape.rank() - 2) : 1;
    const bool a_each = za && za->elements() == a_matrices * s.m && a_matrices > 1;
    const bool b_each = zb && zb->elements() == b_matrices * s.n && b_matrices > 1;
    zeros(za, a_each ? a_matrices * s.m : s.m, "a_zero_point");
    zeros(zb, b_each ? b_matrices * s.n : s.n, "b_zero_point");
    const auto run = [&](auto ta, auto tb) {
      using A = decltype(ta);
      using B = decltype(tb);
      EachRow(context.threads(), s, [&](int64_t a_at, int64_t b_at, int64_t row, int64_t out) {
        auto* to = y.as<int32_t>() + out;
        std::fill_n(to, s.n, 0);
        const int64_t a_zero_at = a_each ? a_at / std::max<int64_t>(s.k, 1) + row : row;
        const int32_t x0 = !za ? 0 : za->as<A>()[za->elements() == 1 ? 0 : a_zero_at];
        const A* from = a.as<A>() + a_at + row * s.a_row;
        int32_t sum = 0;
        for (int64_t k = 0; k < s.k; ++k) {
          const int32_t x = from[k] - x0;
          sum += x;
          const B* w = b.as<B>() + b_at + k * s.b_row;
          for (int64_t j = 0; j < s.n; ++j) to[j] += x * w[j];
        }
        if (!zb) return;
        const int64_t b_zero_at = b_each ? b_at / std::max<int64_t>(s.k, 1) : 0;
        for (int64_t j = 0; j < s.n; ++j) to[j] -= sum * zb->as<B>()[zb->elements() == 1 ? 0 : b_zero_at + j];
      });
    };
    if (a.dtype == DType::kUInt8)
      b.dtype == DType::kUInt8 ? run(uint8_t{}, uint8_t{}) : run(uint8_t{}, int8_t{});
    else
      b.dtype == DType::kUInt8 ? run(int8_t{}, uint8_t{}) : run(int8_t{}, int8_t{});
  }
};

}  // namespace

void RegisterExactMatMul(kernels::Registry& registry) {
  const kernels::TypeSet numbers = {DType::kDouble, DType::kInt32, DType::kUInt32, DType::kInt64,
                                    DType::kUInt64};
  const kernels::TypeSet bytes = {DType::kInt8, DType::kUInt8};
  for (std::string_view op : {"MatMul", "Gemm"})
    registry.Add(Define<ExactMatMul>("", op, {numbers, numbers, numbers}));
  registry.Add(Define<MatMulInteger>("", "MatMulInteger", {bytes, bytes, bytes, bytes}));
}

}  // namespace ullage::cpu
