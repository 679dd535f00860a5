// Products of two tensors: MatMul, com.microsoft:FusedMatMul, Gemm.
#include <algorithm>

#include "gemm.h"
#include "spread.h"

namespace ullage_opencl {
namespace {

class MatMul final : public Op {
 public:
  explicit MatMul(const ullage_kernel_info& info) : Op(info) {
    const Facts facts = node_.facts();
    gemm_ = node_.op() == "Gemm";
    trans_a_ = node_.Int("transA", 0) != 0;
    trans_b_ = node_.Int("transB", 0) != 0;
    alpha_ = node_.Float("alpha", 1);
    beta_ = node_.Float("beta", 1);
    if (node_.Int("transBatchA", 0) != 0 || node_.Int("transBatchB", 0) != 0)
      node_.Unsupported("transposed batches");
    if (facts.in(1).dtype != facts.in(0).dtype) node_.Unsupported("operands of different types");
    const std::string options =
        Define("T", TypeCode(facts.in(0).dtype)) + Define("FORM", trans_b_ ? kRowsN : kRowsK);
    // A matrix on the right takes the rows of all batches together.
    const ValueFacts &a = facts.in(0), &b = facts.in(1);
    RowBounds rows;
    if (a.rank() >= 2 && b.rank() >= 1 && !trans_a_)
      rows = RowsOf(a, b.rank() <= 2 ? 0 : static_cast<size_t>(a.rank()) - 2);
    kernels_ = GemmKernels::Of(rows, options, [&](const std::string& all, const char* kernel) -> KernelRef& {
      return Use("gemm.cl", all, kernel);
    });
  }

  void Compute(const Context& c) const override {
    Tensor a = *c.in(0), b = *c.in(1);
    const Tensor& y = *c.out(0);
    const Tensor* bias = gemm_ ? c.in(2) : nullptr;
    if (y.elements() == 0) return;
    if (a.rank == 1) a = Matrix(a, 1, a[0]);
    if (b.rank == 1) b = trans_b_ ? Matrix(b, 1, b[0]) : Matrix(b, b[0], 1);
    if (a.rank == 0 || b.rank == 0) node_.Invalid("a scalar factor");
    GemmArgs args;
    args.alpha = alpha_;
    args.m = Int32(trans_a_ ? a.back(1) : a.back(2), "rows of a product");
    args.k = Int32(trans_a_ ? a.back(2) : a.back(1), "K of a product");
    args.n = Int32(trans_b_ ? b.back(2) : b.back(1), "columns of a product");
    if ((trans_b_ ? b.back(1) : b.back(2)) != args.k)
      node_.Invalid("factors of shapes " + a.ToString() + " and " + b.ToString());
    args.a_row = trans_a_ ? 1 : args.k;
    args.a_column = trans_a_ ? args.m : 1;
    args.w_row = trans_b_ ? args.k : args.n;
    args.y_row = args.n;
    if (bias && beta_ != 0) {
      args.beta = beta_;
      args.c_column = bias->rank > 0 && bias->back() > 1 ? 1 : 0;
      args.c_row = bias->rank > 1 && bias->back(2) > 1 ? bias->back() : 0;
    }
    Batches(c, a, b, bias, y, args);
  }

 private:
  static Tensor Matrix(const Tensor& t, int64_t rows, int64_t columns) {
    Tensor m = t;
    m.rank = 2;
    m.dims[0] = rows;
    m.dims[1] = columns;
    return m;
  }

  /// Batch dimensions are joined; two are the kernel's, further ones a launch each.
  void Batches(const Context& c, const Tensor& a, const Tensor& b, const Tensor* bias, const Tensor& y,
               GemmArgs args) const {
    const size_t rank = static_cast<size_t>(std::max(a.rank, b.rank)) - 2;
    std::vector<int64_t> shape(rank, 1);
    for (const Tensor* t : {&a, &b})
      for (int i = 0; i < t->rank - 2; ++i) {
        int64_t& d = shape[rank - static_cast<size_t>(t->rank - 2) + static_cast<size_t>(i)];
        if (d == 1) d = (*t)[i];
      }
    // A right factor for all batches, and rows that follow each other: one product.
    if (b.rank == 2 && !trans_a_ && !bias) {
      args.m = Int32(a.elements(0, a.rank - 1), "rows of a product");
      RunGemm(c, kernels_, Form(), a, b, bias, y, args);
      return;
    }
    const int64_t y_size = int64_t{args.m} * args.n;
    const auto strides = [&](const Tensor& t) {
      Tensor lead = t;
      lead.rank = t.rank - 2;
      auto s = SpreadStrides(lead, shape);
      const int64_t size = t.back(1) * t.back(2);
      for (int64_t& v : s) v *= size;
      return s;
    };
    auto dense = DenseStrides(shape.data(), static_cast<int>(rank));
    for (int64_t& v : dense) v *= y_size;
    const Walk walk(shape, {strides(a), strides(b), dense});
    const int inner = std::min<int>(walk.dims.rank, 2);
    int64_t batches = 1;
    for (int i = 0; i < inner; ++i) {
      const int from = walk.dims.rank - 1 - i;
      args.a_batch[i] = walk.strides[0].s[from];
      args.w_batch[i] = walk.strides[1].s[from];
      args.y_batch[i] = walk.strides[2].s[from];
      batches *= walk.dims.d[from];
    }
    args.batch = static_cast<int32_t>(walk.dims.d[walk.dims.rank - 1]);
    int64_t outer = 1;
    for (int i = 0; i + inner < walk.dims.rank; ++i) outer *= walk.dims.d[i];
    const auto size = static_cast<uint64_t>(SizeOf(y.dtype));
    for (int64_t o = 0; o < outer; ++o) {
      Tensor ta = a, tb = b, ty = y;
      int64_t rest = o;
      for (int i = walk.dims.rank - inner - 1; i >= 0; --i) {
        const auto at = static_cast<uint64_t>(rest % walk.dims.d[i]);
        rest /= walk.dims.d[i];
        ta.offset += at * static_cast<uint64_t>(walk.strides[0].s[i]) * size;
        tb.offset += at * static_cast<uint64_t>(walk.strides[1].s[i]) * size;
        ty.offset += at * static_cast<uint64_t>(walk.strides[2].s[i]) * size;
      }
      RunGemm(c, kernels_, Form(), ta, tb, bias, ty, args, batches);
    }
  }

  WeightForm Form() const { return trans_b_ ? kRowsN : kRowsK; }

  bool gemm_ = false, trans_a_ = false, trans_b_ = false;
  float alpha_ = 1, beta_ = 1;
  GemmKernels kernels_;
};

}  // namespace

void AddMatMul(std::vector<OpEntry>& ops) {
  for (const auto& [domain, name] : {std::pair{"", "MatMul"}, {kMicrosoft, "FusedMatMul"}, {"", "Gemm"}}) {
    OpEntry e;
    e.domain = domain;
    e.op = name;
    e.types = {kFloats, kFloats, kFloats};
    e.make = Make<MatMul>;
    ops.push_back(e);
  }
}

}  // namespace ullage_opencl
