// QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, MatMulInteger.
#include <algorithm>

#include "gemm.h"
#include "spread.h"

namespace ullage_opencl {
namespace {

constexpr uint64_t kBytes = Bit(kUInt8) | Bit(kInt8), kWords = Bit(kUInt16) | Bit(kInt16);
constexpr uint64_t kNibbles = Bit(kUInt4) | Bit(kInt4);

/// As quantize.cl numbers them.
int CodeType(int32_t dtype) {
  return dtype == kUInt4 ? 20 : dtype == kInt4 ? 21 : TypeCode(dtype);
}

/// As quantize.cl declares it.
struct ScaleArgs {
  uint32_t count = 0, axis = 1, inner = 1, block = 0;
  int32_t zeros = 0;
};

class Scaled final : public Op {
 public:
  explicit Scaled(const ullage_kernel_info& info) : Op(info) {
    const Facts facts = node_.facts();
    quantizes_ = node_.op() == "QuantizeLinear";
    axis_ = node_.Int("axis", 1);
    block_ = node_.Int("block_size", 0);
    if (block_ < 0) node_.Invalid("block_size " + std::to_string(block_));
    const int32_t x = facts.in(0).dtype, scale = facts.in(1).dtype, y = facts.out(0).dtype;
    const int32_t codes = quantizes_ ? y : x;
    if (!((kBytes | kWords | (quantizes_ ? 0 : kNibbles | Bit(kInt32))) & Bit(codes)))
      node_.Unsupported("codes of type " + std::to_string(codes));
    if (!quantizes_ && !(kFloats & Bit(y))) node_.Unsupported("results of type " + std::to_string(y));
    if (facts.in(2).present && facts.in(2).dtype != codes) node_.Unsupported("zero points of another type");
    std::string options = Define("X", CodeType(x)) + Define("S", CodeType(scale)) + Define("Y", CodeType(y)) +
                          Define("Z", CodeType(codes));
    if (quantizes_) {
      const auto precision = static_cast<int32_t>(node_.Int("precision", 0));
      const int32_t type = precision != 0 ? precision : scale;
      const bool wide = (kWords & Bit(codes)) != 0, has_sign = codes == kInt8 || codes == kInt16;
      const int64_t span = wide ? 65536 : 256;
      options += "-DQUANTIZE " + Define("PRECISION", kFloats & Bit(type) ? TypeCode(type) : 0) +
                 Define("LOW", has_sign ? -span / 2 : 0) + Define("HIGH", (has_sign ? span / 2 : span) - 1);
    } else {
      options += "-DDEQUANTIZE ";
    }
    kernel_ = &Use("quantize.cl", options, quantizes_ ? "quantize" : "dequantize");
  }

  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &scale = *c.in(1);
    const Tensor* zeros = c.in(2);
    if (x.elements() == 0) return;
    if (zeros && zeros->elements() != scale.elements())
      node_.Invalid("zero points of shape " + zeros->ToString());
    ScaleArgs args;
    args.count = args.inner = Count(x.elements());
    args.zeros = zeros ? 1 : 0;
    if (scale.elements() != 1 || block_ > 0) {
      const int axis = x.rank == 1 && axis_ == 1 ? 0 : Axis(axis_, x.rank);
      if (axis >= x.rank) node_.Invalid("an axis of a scalar");
      const int64_t blocks = block_ > 0 ? (x[axis] + block_ - 1) / block_ : x[axis];
      const int64_t wanted = block_ > 0 ? x.elements() / x[axis] * blocks : blocks;
      if (scale.elements() != wanted) node_.Invalid("scales of shape " + scale.ToString());
      args.axis = Count(x[axis]);
      args.inner = Count(x.elements(axis + 1, x.rank));
      args.block = Count(block_);
    }
    c.Start(*kernel_).Add(x).Add(scale).Add(zeros).Add(c.out(0)).Value(args).RunOver(x.elements());
  }

 private:
  bool quantizes_ = false;
  int64_t axis_ = 1, block_ = 0;
  KernelRef* kernel_;
};

class DynamicQuantize final : public Op {
 public:
  explicit DynamicQuantize(const ullage_kernel_info& info)
      : Op(info),
        range_(&Use("quantize.cl", "", "range_of")),
        quantize_(&Use("quantize.cl", "", "dynamic")) {}

  void Declare(const Facts&, std::vector<Slot>& slots) const override { slots.push_back({0, kPartBytes}); }

  void Compute(const Context& c) const override {
    const Tensor& x = *c.in(0);
    const uint32_t count = Count(x.elements());
    const ullage_region parts = c.Workspace(0, kPartBytes);
    c.Start(*range_).Add(x).Add(parts).Value(count).Run(kParts, 1, 1, kGroup);
    c.Start(*quantize_)
        .Add(x)
        .Add(parts)
        .Add(c.out(0))
        .Add(c.out(1))
        .Add(c.out(2))
        .Value(count)
        .Int((c.out(1) ? 1 : 0) | (c.out(2) ? 2 : 0))
        .Run(std::max<int64_t>(1, (x.elements() + kGroup - 1) / kGroup), 1, 1, kGroup);
  }

 private:
  // As quantize.cl has them.
  static constexpr int64_t kParts = 64, kGroup = 128, kPartBytes = 2 * kParts * 4;
  KernelRef *range_, *quantize_;
};

/// As integer.cl declares it.
struct IntegerArgs {
  int32_t m = 0, n = 0, k = 0, a_zeros = 0, w_zeros = 0;
};

class MatMulInteger final : public Op {
 public:
  explicit MatMulInteger(const ullage_kernel_info& info) : Op(info) {
    const Facts facts = node_.facts();
    if (facts.in(1).rank() != 2) node_.Unsupported("a right factor that is no matrix");
    if (facts.in(0).rank() < 2) node_.Unsupported("a vector");
    for (size_t i : {2u, 3u})
      if (facts.in(i).present && facts.in(i).dtype != facts.in(i - 2).dtype)
        node_.Unsupported("zero points of another type");
    kernel_ =
        &Use("integer.cl",
             Define("A", TypeCode(facts.in(0).dtype)) + Define("W", TypeCode(facts.in(1).dtype)), "tiles");
  }
  void Compute(const Context& c) const override {
    const Tensor &a = *c.in(0), &w = *c.in(1), &y = *c.out(0);
    if (y.elements() == 0) return;
    IntegerArgs args;
    args.m = Int32(a.elements(0, a.rank - 1), "rows of a product");
    args.k = Int32(a.back(), "K of a product");
    args.n = Int32(w[1], "columns of a product");
    if (w[0] != args.k) node_.Invalid("factors of shapes " + a.ToString() + " and " + w.ToString());
    const auto zeros = [&](const Tensor* t, int64_t each) {
      if (!t) return 0;
      if (t->elements() != 1 && t->elements() != each) node_.Invalid("zero points of shape " + t->ToString());
      return t->elements() == 1 ? 1 : 2;
    };
    // Matrices of a stack share the zero points of their rows, unless each has its own.
    if (c.in(2) && a.rank > 2 && c.in(2)->elements() != 1 && c.in(2)->elements() != args.m)
      node_.Unsupported("zero points shared by the matrices of a stack");
    args.a_zeros = zeros(c.in(2), args.m);
    args.w_zeros = zeros(c.in(3), args.n);
    c.Start(*kernel_).Add(a).Add(w).Add(c.in(2)).Add(c.in(3)).Add(y).Value(args).Run(
        (args.n + 63) / 64, (args.m + 31) / 32, 1, 16, 8);
  }

 private:
  KernelRef* kernel_;
};

}  // namespace

void AddQuantize(std::vector<OpEntry>& ops) {
  for (const char* domain : {"", kMicrosoft}) {
    OpEntry e;
    e.domain = domain;
    e.make = Make<Scaled>;
    e.op = "DequantizeLinear";
    const uint64_t codes = kBytes | kWords | kNibbles | Bit(kInt32);
    e.types = {codes, kFloats, codes};
    ops.push_back(e);
    e.op = "QuantizeLinear";
    e.types = {kFloats | Bit(kInt32), kFloats | Bit(kInt32), kBytes | kWords};
    ops.push_back(e);
  }
  OpEntry e;
  e.op = "DynamicQuantizeLinear";
  e.types = {Bit(kFloat)};
  e.make = Make<DynamicQuantize>;
  ops.push_back(e);
  e.op = "MatMulInteger";
  e.types = {kBytes, kBytes, kBytes, kBytes};
  e.make = Make<MatMulInteger>;
  ops.push_back(e);
}

}  // namespace ullage_opencl
