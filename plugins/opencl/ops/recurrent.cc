// RNN, GRU and LSTM of float with their usual activations.
#include <algorithm>
#include <cctype>

#include "gemm.h"
#include "spread.h"

namespace ullage_opencl {
namespace {

enum Input : size_t { kX, kW, kR, kBias, kLengths, kState, kCells, kPeepholes };

/// As recurrent.cl declares it.
struct RecurrentArgs {
  int32_t steps = 0, batch = 0, directions = 1, reverse = 0;
  int32_t biased = 0, lengths = 0, begun = 0, filled = 0;
  int32_t all = 0, last = 0, cells = 0, linear = 0;
};

class Recurrent final : public Op {
 public:
  explicit Recurrent(const ullage_kernel_info& info) : Op(info) {
    const Facts facts = node_.facts();
    gates_ = node_.op() == "RNN" ? 1 : node_.op() == "GRU" ? 3 : 4;
    const std::string direction = node_.Str("direction", "forward");
    directions_ = direction == "bidirectional" ? 2 : 1;
    reverse_ = direction == "reverse";
    linear_ = node_.Int("linear_before_reset", 0) != 0;
    const ValueFacts& r = facts.in(kR);
    hidden_ = r.Fixed(2);
    if (hidden_ < 1 || hidden_ > 1024)
      node_.Unsupported("states of " + std::to_string(hidden_) + " elements");
    if (r.Fixed(0) != directions_ || r.Fixed(1) != gates_ * hidden_)
      node_.Invalid("weights that do not fit the state");
    if (facts.in(kPeepholes).present) node_.Unsupported("peepholes");
    if (node_.Int("layout", 0) != 0) node_.Unsupported("layout 1");
    if (node_.Int("input_forget", 0) != 0) node_.Unsupported("input_forget");
    if (node_.HasFloat("clip")) node_.Unsupported("clip");
    const auto names = node_.Strings("activations");
    for (size_t i = 0; i < names.size(); ++i) {
      const size_t each = gates_ == 4 ? 3 : gates_ == 3 ? 2 : 1;
      const char* usual = gates_ > 1 && i % each == 0 ? "sigmoid" : "tanh";
      std::string name = names[i];
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      if (name != usual) node_.Unsupported("activation " + names[i]);
    }
    product_ =
        GemmKernels::Of(RowsOf(facts.in(kX), 0), Define("T", TypeCode(kFloat)) + Define("FORM", kRowsN),
                        [&](const std::string& options, const char* kernel) -> KernelRef& {
                          return Use("gemm.cl", options, kernel);
                        });
    kernel_ = &Use("recurrent.cl", Define("CELL", gates_) + Define("HIDDEN", hidden_), "recurrent");
  }

  void Declare(const Facts& shapes, std::vector<Slot>& slots) const override {
    const RowBounds rows = RowsOf(shapes.in(kX), 0);
    slots.push_back({0, rows.most < 0 ? -1 : Bytes(rows.most)});
  }

  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(kX), &w = *c.in(kW), &r = *c.in(kR);
    const int64_t steps = x.rank == 3 ? x[0] : 0, batch = x.rank == 3 ? x[1] : 0;
    const int64_t columns = directions_ * gates_ * hidden_;
    const auto expect = [&](const Tensor* t, int64_t elements) {
      if (t && t->elements() != elements) node_.Invalid("an operand of shape " + t->ToString());
    };
    if (x.rank != 3) node_.Invalid("an input of shape " + x.ToString());
    expect(&w, columns * x[2]);
    expect(&r, columns * hidden_);
    expect(c.in(kBias), 2 * columns);
    expect(c.in(kLengths), batch);
    expect(c.in(kState), directions_ * batch * hidden_);
    expect(c.in(kCells), directions_ * batch * hidden_);
    if (batch == 0) return;
    const ullage_region region = c.Workspace(0, Bytes(steps * batch));
    Tensor products;
    products.dtype = kFloat;
    products.buffer = region.buffer;
    products.offset = region.offset;
    if (steps > 0) {
      GemmArgs gemm;
      gemm.m = Int32(steps * batch, "rows of a product");
      gemm.n = Int32(columns, "columns of a product");
      gemm.k = Int32(x[2], "K of a product");
      gemm.a_row = gemm.w_row = x[2];
      gemm.y_row = columns;
      gemm.beta = 0;
      RunGemm(c, product_, kRowsN, x, w, nullptr, products, gemm);
    }
    RecurrentArgs args;
    args.steps = Int32(steps, "steps");
    args.batch = Int32(batch, "sequences");
    args.directions = static_cast<int32_t>(directions_);
    args.reverse = reverse_ ? 1 : 0;
    args.biased = c.in(kBias) ? 1 : 0;
    args.lengths = c.in(kLengths) ? 1 : 0;
    args.begun = c.in(kState) ? 1 : 0;
    args.filled = c.in(kCells) ? 1 : 0;
    args.all = c.out(0) ? 1 : 0;
    args.last = c.out(1) ? 1 : 0;
    args.cells = c.out(2) ? 1 : 0;
    args.linear = linear_ ? 1 : 0;
    auto launch = c.Start(*kernel_);
    launch.Add(region).Add(r).Add(c.in(kBias)).Add(c.in(kLengths)).Add(c.in(kState)).Add(c.in(kCells));
    launch.Add(c.out(0)).Add(c.out(1)).Add(c.out(2)).Value(args).Run(batch, directions_, 1, 128);
  }

 private:
  int64_t Bytes(int64_t rows) const { return Product({rows, directions_ * gates_ * hidden_, 4}); }

  int64_t gates_ = 1, directions_ = 1, hidden_ = 0;
  bool reverse_ = false, linear_ = false;
  GemmKernels product_;
  KernelRef* kernel_;
};

}  // namespace

void AddRecurrent(std::vector<OpEntry>& ops) {
  for (const char* name : {"RNN", "GRU", "LSTM"}) {
    OpEntry e;
    e.op = name;
    e.types.assign(8, Bit(kFloat));
    e.types[kLengths] = Bit(kInt32);
    e.since = 7;
    e.make = Make<Recurrent>;
    ops.push_back(e);
  }
}

}  // namespace ullage_opencl
