// RMS and layer normalisation, alone and of sums.
#include "ops/norm.h"

#include "spread.h"

namespace ullage_opencl {
namespace {

enum Flag { kScale = 1, kShift = 2, kSkip = 4, kSkipBias = 8, kSum = 16, kMean = 32, kDeviation = 64 };

class Norm final : public Op {
 public:
  explicit Norm(const ullage_kernel_info& info) : Op(info) {
    const std::string op = node_.op();
    const Facts facts = node_.facts();
    skip_ = op == "SkipLayerNormalization" || op == "SkipSimplifiedLayerNormalization";
    rms_ = op != "LayerNormalization" && op != "SkipLayerNormalization";
    axis_ = node_.Int("axis", -1);
    epsilon_ = node_.Float("epsilon", skip_ ? 1e-12f : 1e-5f);
    if (node_.Int("stash_type", 1) != 1) node_.Unsupported("stash_type");
    for (size_t o : {1u, 2u})
      if (facts.out(o).present && facts.out(o).dtype != kFloat) node_.Unsupported("statistics of that type");
    const size_t scale = skip_ ? 2 : 1;
    const int32_t type = facts.in(0).dtype,
                  scale_type = facts.in(scale).present ? facts.in(scale).dtype : type;
    const bool skip_agrees =
        !skip_ ||
        (facts.in(1).dtype == type && (!facts.in(SkipBias()).present || facts.in(SkipBias()).dtype == type));
    const bool shift_agrees = rms_ || !facts.in(scale + 1).present || facts.in(scale + 1).dtype == scale_type;
    if (!skip_agrees || !shift_agrees) node_.Unsupported("operands of different types");
    kernel_ = &Use("norm.cl", NormOptions(type, scale_type, rms_, op == "RMSNormalization"), "norm");
  }

  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &y = *c.out(0);
    const int axis = skip_ ? x.rank - 1 : Axis(axis_, x.rank);
    const int64_t rows = x.elements(0, axis), columns = x.elements(axis, x.rank);
    const Tensor* skip = skip_ ? c.in(1) : nullptr;
    const Tensor* skip_bias = skip_ ? c.in(SkipBias()) : nullptr;
    const Tensor* scale = c.in(skip_ ? 2 : 1);
    const Tensor* shift = rms_ ? nullptr : c.in(skip_ ? 3 : 2);
    // Statistics: mean and inverse deviation; of SimplifiedLayerNormalization the deviation only.
    const Tensor* mean = skip_ || !rms_ ? c.out(1) : nullptr;
    const Tensor* deviation = c.out(skip_ || !rms_ ? 2 : 1);
    const Tensor* sum = skip_ ? c.out(3) : nullptr;
    for (const Tensor* t : {scale, shift, skip_bias})
      if (t && t->elements() != columns)
        node_.Invalid("a weight of shape " + t->ToString() + " for rows of " + std::to_string(columns));
    const int64_t skip_rows = skip && columns > 0 ? skip->elements() / columns : 1;
    if (rows > 0 && (skip_rows == 0 || rows % skip_rows != 0))
      node_.Invalid("skip of shape " + skip->ToString());
    if (y.elements() == 0) return;
    RunNorm(c, *kernel_, x, y, {skip, skip_bias, scale, shift, sum, mean, deviation}, rows, columns,
            epsilon_);
  }

 private:
  size_t SkipBias() const { return rms_ ? 3 : 4; }

  bool skip_ = false, rms_ = false;
  int64_t axis_ = -1;
  float epsilon_ = 0;
  KernelRef* kernel_;
};

}  // namespace

std::string NormOptions(int32_t type, int32_t scale_type, bool rms, bool rounded) {
  return Define("T", TypeCode(type)) + Define("W", TypeCode(scale_type)) + Define("RMS", rms) +
         Define("ROUND", rounded);
}

void RunNorm(const Context& c, const KernelRef& kernel, const Tensor& x, const Tensor& y,
             const NormTensors& t, int64_t rows, int64_t columns, float epsilon) {
  int flags = 0;
  const auto flag = [&](const Tensor* given, Flag f) { flags |= given ? f : 0; };
  flag(t.scale, kScale);
  flag(t.shift, kShift);
  flag(t.skip, kSkip);
  flag(t.skip_bias, kSkipBias);
  flag(t.sum, kSum);
  flag(t.mean, kMean);
  flag(t.deviation, kDeviation);
  c.Start(kernel)
      .Add(x)
      .Add(t.skip)
      .Add(t.skip_bias)
      .Add(t.scale)
      .Add(t.shift)
      .Add(y)
      .Add(t.sum)
      .Add(t.mean)
      .Add(t.deviation)
      .Value(Count(columns))
      .Value(Count(t.skip ? t.skip->elements() / columns : 1))
      .Float(epsilon)
      .Int(flags)
      .Run(rows, 1, 1, 64);
}

void AddNorm(std::vector<OpEntry>& ops) {
  AddEmbedNorm(ops);
  const auto add = [&](const char* domain, const char* name, bool skip) {
    OpEntry e;
    e.domain = domain;
    e.op = name;
    e.types.assign(skip ? 5 : 3, kFloats);
    e.make = Make<Norm>;
    e.may_alias = {{0, 0}};
    ops.push_back(e);
  };
  add("", "SimplifiedLayerNormalization", false);
  add(kMicrosoft, "SimplifiedLayerNormalization", false);
  add("", "RMSNormalization", false);
  add("", "LayerNormalization", false);
  add(kMicrosoft, "SkipSimplifiedLayerNormalization", true);
  add(kMicrosoft, "SkipLayerNormalization", true);
}

}  // namespace ullage_opencl
