/// General float products: MatMul, com.microsoft:FusedMatMul, Gemm. A constant right-hand side is packed
/// once.
#include <algorithm>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/dense/gemm.h"
#include "providers/cpu/kernels/block_weight.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

/// Sizes and strides of numpy.matmul over stacks of matrices.
struct Stack {
  dense::GemmArgs args;
  void Fill(const Shape& a, const Shape& b, bool trans_a, bool trans_b, int64_t b_matrix) {
    const int ra = a.rank(), rb = b.rank();
    const int64_t a_rows = ra > 1 ? a.at(-2) : 1, a_cols = a.at(-1);
    const int64_t b_rows = rb > 1 ? b.at(-2) : b.at(-1), b_cols = rb > 1 ? b.at(-1) : 1;
    args.m = trans_a ? a_cols : a_rows;
    args.k = trans_a ? a_rows : a_cols;
    args.n = trans_b ? b_rows : b_cols;
    const int64_t k_b = trans_b ? b_cols : b_rows;
    if (args.k != k_b)
      Throw(Code::kInvalidModel, "cannot multiply shapes ", a.ToString(), " and ", b.ToString());
    args.lda = a_cols;
    args.ldb = rb > 1 ? b_cols : 1;
    args.ldc = args.n;
    args.trans_a = trans_a;
    args.trans_b = trans_b;
    const int batch = std::max({ra - 2, rb - 2, 0});
    args.batch_rank = batch;
    int64_t sa = a_rows * a_cols, sb = b_matrix, sc = args.m * args.n;
    for (int i = 0; i < batch; ++i) {
      const int d = batch - 1 - i;
      const int64_t da = ra - 3 - i >= 0 ? a[ra - 3 - i] : 1;
      const int64_t db = rb - 3 - i >= 0 ? b[rb - 3 - i] : 1;
      if (da != db && da != 1 && db != 1)
        Throw(Code::kInvalidModel, "cannot multiply stacks of shapes ", a.ToString(), " and ", b.ToString());
      const int64_t dc = da == 1 ? db : da;
      args.batch_dims[d] = dc;
      args.a_batch_strides[d] = da == 1 ? 0 : sa;
      args.b_batch_strides[d] = db == 1 ? 0 : sb;
      args.c_batch_strides[d] = sc;
      sa *= da;
      sb *= db;
      sc *= dc;
    }
    // A stack of A over one B is one tall product.
    if (!trans_a && batch > 0 &&
        std::all_of(args.b_batch_strides, args.b_batch_strides + batch, [](int64_t s) { return s == 0; }) &&
        a.elements() == args.m * args.k * Product(args)) {
      args.m *= Product(args);
      args.batch_rank = 0;
    }
  }
  static int64_t Product(const dense::GemmArgs& args) {
    int64_t n = 1;
    for (int d = 0; d < args.batch_rank; ++d) n *= args.batch_dims[d];
    return n;
  }
};

class MatMulKernel final : public Kernel {
 public:
  explicit MatMulKernel(const KernelInfo& info) {
    const graph::Node& n = info.node;
    gemm_ = n.op == "Gemm";
    trans_a_ = n.Int("transA", 0) != 0;
    trans_b_ = n.Int("transB", 0) != 0;
    if (n.Int("transBatchA", 0) != 0 || n.Int("transBatchB", 0) != 0)
      info.Unsupported("transBatchA and transBatchB");
    alpha_ = n.Float("alpha", 1);
    beta_ = gemm_ ? n.Float("beta", 1) : 1;
    b_ = info.constant(1);
    if (b_ && (b_->shape.rank() != 2 || b_->elements() == 0 || BitsOf(b_->dtype) > 32)) b_ = nullptr;
    if (b_) {
      n_ = b_->shape[trans_b_ ? 0 : 1];
      k_ = b_->shape[trans_b_ ? 1 : 0];
    }
  }

  std::vector<kernels::PrepackRequirement> PlanPrepack() const override {
    if (!b_) return {};
    kernels::PrepackRequirement need;
    need.bytes = dense::PackedBBytes(n_, k_, b_->dtype);
    need.replaces = {1};
    need.share_key = StrCat(trans_b_ ? "dense_nk " : "dense_kn ", n_, "x", k_);
    return {need};
  }

  void Prepack(int, std::byte* out, ThreadTeam& team) override {
    dense::PackB(team, {b_->data().data(), b_->dtype}, trans_b_, trans_b_ ? k_ : n_, n_, k_, out);
    ReleasePages(*b_);
  }

  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    // The largest product within the bounds; the scratch does not shrink when a size grows.
    const auto& a = shapes.inputs[0];
    const auto& b = shapes.inputs[1];
    if (a.shape.rank < 1 || b.shape.rank < 1) return;
    dense::GemmArgs args;
    args.a.dtype = a.dtype;
    args.b.dtype = b.dtype;
    args.c.dtype = shapes.outputs[0].dtype;
    args.trans_a = trans_a_;
    args.trans_b = trans_b_;
    args.b_packed = b_ != nullptr;
    const auto dim = [](const ops::BoundedShape& s, int i) { return -i <= s.rank ? s.at(i).upper : 1; };
    args.n = shapes.outputs[0].shape.rank > 0 ? dim(b.shape, trans_b_ ? -2 : -1) : 1;
    args.k = dim(a.shape, trans_a_ ? -2 : -1);
    const int64_t elements = a.shape.ElementsUpper();
    if (args.n == ops::kUnbounded || args.k == ops::kUnbounded || elements == ops::kUnbounded) return;
    args.m = std::max<int64_t>(elements, 1);  // of a tall product; at least the rows of one
    if (dim(a.shape, trans_a_ ? -2 : -1) > 0 && a.shape.at(-1).exact())
      args.m = CeilDiv(args.m, std::max<int64_t>(args.k, 1));
    args.lda = trans_a_ ? args.m : args.k;
    args.ldb = trans_b_ ? args.k : args.n;
    args.ldc = args.n;
    const size_t bytes = dense::GemmScratchBytes(args, shapes.threads);
    if (bytes > 0) needs.push_back({bytes, 0, 64});
  }

  void Compute(KernelContext& context) const override {
    const TensorView& a = *context.input(0);
    const TensorView& b = *context.input(1);
    TensorView& c = *context.output(0);
    if (c.shape.elements() == 0) return;
    Stack stack;
    stack.Fill(a.shape, b.shape, trans_a_, trans_b_,
               b.shape.rank() > 1 ? b.shape.at(-2) * b.shape.at(-1) : b.shape.at(-1));
    dense::GemmArgs& args = stack.args;
    args.a = {a.data, a.dtype};
    args.b = {b_ ? static_cast<const void*>(context.prepacked(0)) : b.data, b.dtype};
    args.b_packed = b_ != nullptr;
    args.c = {c.data, c.dtype};
    args.alpha = alpha_;
    if (const TensorView* bias = gemm_ ? context.input(2) : nullptr; bias && bias->shape.elements() > 0) {
      args.bias = {bias->data, bias->dtype};
      args.beta = beta_;
      const Shape& s = bias->shape;
      const int64_t cols = s.rank() > 0 ? s.at(-1) : 1, rows = s.rank() > 1 ? s.at(-2) : 1;
      if ((cols != 1 && cols != args.n) || (rows != 1 && rows != args.m))
        Throw(Code::kInvalidModel, "C of shape ", s.ToString(), " does not spread over [", args.m, ",",
              args.n, "]");
      args.bias_col_stride = cols == 1 ? 0 : 1;
      args.bias_row_stride = rows == 1 ? 0 : cols;
    }
    size_t bytes = 0;
    void* scratch = context.GetPreallocatedWorkspace(0, &bytes);
    const size_t wanted = dense::GemmScratchBytes(args, context.threads().size());
    if (wanted > bytes) scratch = context.GetScratchBuffer(wanted);
    dense::Gemm(context.threads(), args, scratch);
  }

 private:
  bool gemm_ = false, trans_a_ = false, trans_b_ = false;
  float alpha_ = 1, beta_ = 1;
  graph::ConstantPtr b_;
  int64_t n_ = 0, k_ = 0;
};

}  // namespace

void RegisterMatMul(kernels::Registry& registry) {
  for (auto [domain, op] : {std::pair<std::string_view, std::string_view>{"", "MatMul"},
                            {"", "Gemm"},
                            {graph::kMsDomain, "FusedMatMul"}}) {
    kernels::KernelDef def;
    def.domain = domain;
    def.op = op;
    def.types = {kernels::kFloats, kernels::kFloats, kernels::kFloats};
    def.create = Make<MatMulKernel>;
    registry.Add(std::move(def));
  }
}

}  // namespace ullage::cpu
