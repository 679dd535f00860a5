// Pools, batch and instance normalisation.
#include "ops/window.h"
#include "spread.h"

namespace ullage_opencl {
namespace {

/// As pool.cl declares it.
struct PoolArgs {
  Window window;
  int32_t count_padding = 0, room = 0;
};

class Pool final : public Op {
 public:
  explicit Pool(const ullage_kernel_info& info) : Op(info), window_(node_) {
    const std::string op = node_.op();
    global_ = op.rfind("Global", 0) == 0;
    if (node_.has_output(1)) node_.Unsupported("indices of the largest");
    count_padding_ = node_.Int("count_include_pad", 0) != 0;
    const bool largest = op == "MaxPool" || op == "GlobalMaxPool";
    kernel_ =
        &Use("pool.cl", Define("T", TypeCode(node_.facts().in(0).dtype)) + Define("MODE", largest ? 0 : 1),
             "pool");
  }
  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &y = *c.out(0);
    if (y.elements() == 0) return;
    const int spatial = x.rank - 2;
    if (!global_ && window_.kernel().size() != static_cast<size_t>(spatial)) node_.Invalid("kernel_shape");
    PoolArgs args;
    args.window =
        window_.For(node_, spatial, &x.dims[2], &y.dims[2], global_ ? &x.dims[2] : window_.kernel().data());
    args.count_padding = count_padding_ ? 1 : 0;
    c.Start(*kernel_).Add(x).Add(y).Value(Count(y.elements())).Value(args).RunOver(y.elements());
  }

 private:
  WindowAttributes window_;
  bool global_ = false, count_padding_ = false;
  KernelRef* kernel_;
};

class BatchNorm final : public Op {
 public:
  explicit BatchNorm(const ullage_kernel_info& info) : Op(info) {
    const Facts facts = node_.facts();
    if (node_.Int("training_mode", 0) != 0 || node_.has_output(1)) node_.Unsupported("training_mode");
    epsilon_ = node_.Float("epsilon", 1e-5f);
    if (facts.in(2).dtype != facts.in(1).dtype || facts.in(4).dtype != facts.in(3).dtype)
      node_.Unsupported("operands of different types");
    kernel_ = &Use("pool.cl",
                   Define("T", TypeCode(facts.in(0).dtype)) + Define("W", TypeCode(facts.in(1).dtype)) +
                       Define("V", TypeCode(facts.in(3).dtype)),
                   "batch_norm");
  }
  void Compute(const Context& c) const override {
    const Tensor& x = *c.in(0);
    if (x.elements() == 0) return;
    auto launch = c.Start(*kernel_);
    launch.Add(x);
    for (size_t i = 1; i < 5; ++i) launch.Add(c.in(i));
    launch.Add(c.out(0))
        .Value(Count(x.elements()))
        .Value(Count(x.rank > 1 ? x[1] : 1))
        .Value(Count(x.elements(2, std::max(x.rank, 2))))
        .Float(epsilon_)
        .RunOver(x.elements());
  }

 private:
  float epsilon_ = 0;
  KernelRef* kernel_;
};

class InstanceNorm final : public Op {
 public:
  explicit InstanceNorm(const ullage_kernel_info& info) : Op(info), epsilon_(node_.Float("epsilon", 1e-5f)) {
    const std::string type = Define("T", TypeCode(node_.facts().in(0).dtype));
    kernel_ = &Use("pool.cl", type + Define("W", 0) + Define("V", 0), "instance_norm");
  }
  void Compute(const Context& c) const override {
    const Tensor& x = *c.in(0);
    if (x.elements() == 0) return;
    c.Start(*kernel_)
        .Add(x)
        .Add(c.in(1))
        .Add(c.in(2))
        .Add(c.out(0))
        .Value(Count(x[1]))
        .Value(Count(x.elements(2, x.rank)))
        .Float(epsilon_)
        .Run(x[0] * x[1], 1, 1, 64);
  }

 private:
  float epsilon_ = 0;
  KernelRef* kernel_;
};

}  // namespace

void AddPool(std::vector<OpEntry>& ops) {
  const auto add = [&](const char* name, std::vector<uint64_t> types, MakeOp make, int32_t since) {
    OpEntry e;
    e.op = name;
    e.types = std::move(types);
    e.make = make;
    e.since = since;
    ops.push_back(e);
  };
  for (const char* name : {"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"})
    add(name, {kFloats}, Make<Pool>, 1);
  add("BatchNormalization", {kFloats, kFloats, kFloats, kFloats, kFloats}, Make<BatchNorm>, 9);
  add("InstanceNormalization", {kFloats, kFloats, kFloats}, Make<InstanceNorm>, 6);
}

}  // namespace ullage_opencl
