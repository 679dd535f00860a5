// Products with constant weights (ullage:Linear, ullage:MultiLinear, com.microsoft:MatMulNBits), and look-ups
// in quantised tables (ullage:BlockGather, com.microsoft:GatherBlockQuantized), which share the packed
// weights.
#include <algorithm>

#include "spread.h"
#include "weights.h"

namespace ullage_opencl {
namespace {

constexpr size_t kInputsPerPart = 5;

class Linear final : public Op {
 public:
  explicit Linear(const ullage_kernel_info& info) : Op(info) {
    const bool multi = node_.op() == "MultiLinear";
    k_ = node_.Int("K", 0);
    const auto ns = multi ? node_.Ints("N") : std::vector<int64_t>{node_.Int("N", 0)};
    const auto bits = multi ? node_.Ints("bits") : std::vector<int64_t>{node_.Int("bits", 4)};
    const auto blocks = multi ? node_.Ints("block_size") : std::vector<int64_t>{node_.Int("block_size", 0)};
    const auto formats =
        multi ? node_.Strings("format")
              : std::vector<std::string>{node_.op() == "MatMulNBits" ? "nbits" : node_.Str("format", "")};
    if (k_ < 1 || ns.empty() || bits.size() != ns.size() || blocks.size() != ns.size() ||
        formats.size() != ns.size())
      node_.Invalid("attributes K, N, format, bits and block_size disagree");
    const Facts facts = node_.facts();
    const std::string type = Define("T", TypeCode(facts.in(0).dtype));
    const RowBounds rows = RowsOf(facts.in(0), 0);
    for (size_t p = 0; p < ns.size(); ++p) {
      const size_t base = 1 + p * kInputsPerPart;
      if (node_.has_input(base + 3)) node_.Unsupported("a group index");
      Part part;
      part.data = base;
      part.bias = node_.has_input(base + 4) ? base + 4 : SIZE_MAX;
      if (part.bias != SIZE_MAX && facts.in(part.bias).dtype != facts.in(0).dtype)
        node_.Unsupported("a bias of another type");
      part.args.m = 0;
      part.args.a_row = k_;
      part.args.y_row = ns[p];
      part.args.beta = part.bias == SIZE_MAX ? 0.0f : 1.0f;
      part.args.c_column = 1;
      std::string options = type;
      if (formats[p] == "dense_nk" || formats[p] == "dense_kn") {
        part.form = formats[p] == "dense_nk" ? kRowsN : kRowsK;
        const int32_t weight = facts.in(base).dtype;
        if (!(kFloats & Bit(weight))) node_.Unsupported("a weight of that type");
        if (weight != facts.in(0).dtype) options += Define("WT", TypeCode(weight));
        part.args.n = Int32(ns[p], "columns of a product");
        part.args.k = Int32(k_, "K of a product");
        part.args.w_row = part.form == kRowsN ? k_ : ns[p];
        options += Define("FORM", part.form);
      } else {
        const auto input = [&](size_t i) { return node_.has_input(base + i) ? base + i : SIZE_MAX; };
        part.weight = std::make_unique<QuantisedWeight>(
            node_,
            QuantisedWeight::Source{formats[p], ns[p], k_, bits[p], blocks[p], base, input(1), input(2)});
        part.block = packed_++;
        part.weight->Describe(&part.args);
        options += part.weight->options();
      }
      part.kernels =
          GemmKernels::Of(rows, options, [&](const std::string& all, const char* kernel) -> KernelRef& {
            return Use("gemm.cl", all, kernel);
          });
      parts_.push_back(std::move(part));
    }
  }

  std::vector<Block> Blocks() const override {
    std::vector<Block> blocks;
    for (const Part& part : parts_)
      if (part.weight)
        blocks.push_back({part.weight->bytes(), part.weight->inputs(), part.weight->share_key()});
    return blocks;
  }
  void Prepack(size_t index, const ullage_region& target) override {
    for (const Part& part : parts_)
      if (part.weight && part.block == index) part.weight->Pack(node_, device_, target);
  }

  void Compute(const Context& c) const override {
    const Tensor& a = *c.in(0);
    const int64_t m = a.elements() / k_;
    if (m == 0) return;
    for (size_t p = 0; p < parts_.size(); ++p) {
      const Part& part = parts_[p];
      const Tensor* y = c.out(p);
      if (!y) continue;
      GemmArgs args = part.args;
      args.m = Int32(m, "rows of a product");
      const Tensor* bias = part.bias == SIZE_MAX ? nullptr : c.in(part.bias);
      if (part.weight)
        RunGemm(c, part.kernels, kQuantised, a, block(part.block), bias, *y, args);
      else
        RunGemm(c, part.kernels, part.form, a, *c.in(part.data), bias, *y, args);
    }
  }

 private:
  struct Part {
    std::unique_ptr<QuantisedWeight> weight;  ///< null: dense
    WeightForm form = kQuantised;
    size_t data = 0, bias = SIZE_MAX, block = 0;
    GemmArgs args;
    GemmKernels kernels;
  };
  int64_t k_ = 0;
  size_t packed_ = 0;
  std::vector<Part> parts_;
};

class LookUp final : public Op {
 public:
  explicit LookUp(const ullage_kernel_info& info) : Op(info) {
    const Facts facts = node_.facts();
    const ValueFacts& data = facts.in(0);
    QuantisedWeight::Source source;
    source.data = 0;
    int32_t type = kFloat;
    if (node_.op() == "BlockGather") {
      source.format = "ggml";
      source.n = data.Fixed(0);
      source.k = data.Fixed(1);
    } else {
      if (node_.Int("gather_axis", 0) != 0 || data.rank() != 2 || Axis(node_.Int("quantize_axis", 1), 2) != 1)
        node_.Unsupported("look-ups along other than the first of two axes");
      source.bits = node_.Int("bits", 4);
      source.block_size = node_.Int("block_size", 128);
      source.n = data.Fixed(0);
      source.k = data.Fixed(1);
      const bool bytes = data.dtype == kUInt8;
      if (bytes && source.bits < 8 && source.k > 0) source.k *= 8 / source.bits;
      // Bytes are as MatMulNBits has them, where rows are whole blocks; smaller integers as DequantizeLinear.
      source.format = bytes ? "nbits" : "qdq_nk";
      if (bytes && source.k % std::max<int64_t>(source.block_size, 1) != 0)
        node_.Unsupported("partial blocks");
      source.scales = 2;
      source.zero_points = node_.has_input(3) ? 3 : SIZE_MAX;
      type = facts.in(2).dtype;
    }
    if (source.n < 1 || source.k < 1) node_.Unsupported("a table of unknown shape");
    weight_ = std::make_unique<QuantisedWeight>(node_, source);
    weight_->Describe(&args_);
    kernel_ = &Use("gemm.cl",
                   "-DGATHER " + Define("T", TypeCode(type)) + Define("I", TypeCode(facts.in(1).dtype)) +
                       weight_->options(),
                   "look_up");
  }
  std::vector<Block> Blocks() const override {
    return {{weight_->bytes(), weight_->inputs(), weight_->share_key()}};
  }
  void Prepack(size_t, const ullage_region& target) override { weight_->Pack(node_, device_, target); }
  void Compute(const Context& c) const override {
    const int64_t count = c.in(1)->elements();
    if (count == 0) return;
    c.Start(*kernel_)
        .Add(block(0))
        .Add(c.in(1))
        .Add(c.out(0))
        .Value(args_)
        .Value(Count(count))
        .RunOver(count * ((args_.k + 7) / 8));
  }

 private:
  std::unique_ptr<QuantisedWeight> weight_;
  GemmArgs args_;
  KernelRef* kernel_;
};

}  // namespace

int32_t Int32(int64_t value, const char* what) {
  if (value < 0 || value > INT32_MAX) Fail(ULLAGE_UNSUPPORTED, std::to_string(value) + " " + what);
  return static_cast<int32_t>(value);
}

RowBounds RowsOf(const ValueFacts& a, size_t first) {
  RowBounds rows;
  if (a.rank() < 1) return rows;
  rows.least = rows.most = 1;
  for (size_t i = first; i + 1 < a.upper.size(); ++i) {
    rows.least = Product({rows.least, std::max<int64_t>(a.lower[i], 0)});
    rows.most = Product({rows.most, a.upper[i]});
  }
  return rows;
}

void AddLinear(std::vector<OpEntry>& ops) {
  const auto add = [&](const char* domain, const char* name, std::vector<uint64_t> types, MakeOp make) {
    OpEntry e;
    e.domain = domain;
    e.op = name;
    e.types = std::move(types);
    e.make = make;
    ops.push_back(e);
  };
  add(kUllage, "Linear", {kFloats}, Make<Linear>);
  add(kUllage, "MultiLinear", {kFloats}, Make<Linear>);
  add(kMicrosoft, "MatMulNBits", {kFloats}, Make<Linear>);
  add(kUllage, "BlockGather", {kAnyType, kIndices}, Make<LookUp>);
  add(kMicrosoft, "GatherBlockQuantized", {kAnyType, kIndices, kFloats}, Make<LookUp>);
}

}  // namespace ullage_opencl
