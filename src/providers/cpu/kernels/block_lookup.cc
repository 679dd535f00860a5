/// Rows of quantised constant tables: ullage:BlockGather, and com.microsoft:GatherBlockQuantized where blocks
/// do not straddle rows. gather_blocks.cc has the other forms.
#include <algorithm>
#include <optional>
#include <string>

#include "core/checked.h"
#include "core/error.h"
#include "core/half.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"
#include "providers/cpu/kernels/linear_parts.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

int64_t IndexAt(const TensorView& v, int64_t i) {
  return v.dtype == DType::kInt64 ? v.as<int64_t>()[i] : v.as<int32_t>()[i];
}

/// One row per index, dequantised. A negative index counts from the end; an index outside gives zeros
/// (GatherBlockQuantized) or an error (BlockGather).
class BlockLookupKernel final : public Kernel {
 public:
  explicit BlockLookupKernel(const KernelInfo& info) {
    const graph::Node& n = info.node;
    weight_.data = info.constant(0);
    if (!weight_.data) info.Unsupported("the table must be a constant");
    const Shape& shape = weight_.data->shape;
    if (n.op == "BlockGather") {
      weight_.format = "ggml";
      if (shape.rank() != 2) info.Unsupported("a table of rank ", shape.rank());
      weight_.n = shape[0];
      weight_.k = shape[1];
      strict_ = true;
    } else {
      const int64_t bits = n.Int("bits", 4);
      const int rank = shape.rank();
      weight_.scales = info.constant(2);
      weight_.zero_points = info.constant(3);
      weight_.block_size = n.Int("block_size", 128);
      const bool packed_bytes = weight_.data->dtype == DType::kUInt8 && bits < 8;
      const int64_t columns = shape.at(-1) * (packed_bytes ? 8 / bits : 1);
      weight_.n = shape.elements(0, rank - 1);
      rows_per_index_ = shape.elements(1, rank - 1);
      weight_.k = columns;
      weight_.bits = bits;
      if (weight_.data->dtype == DType::kUInt8) {
        // Codes of a row lie densely, low bits first: MatMulNBits' layout when blocks divide the row.
        weight_.format = "nbits";
        if (columns < weight_.block_size) weight_.block_size = columns;
      } else {
        weight_.format = "qdq_nk";
      }
    }
    weight_.block_format();  // judges the sizes
    // What is computed once when the graph is made needs no table in memory.
    if (!info.constant(1)) shared_ = FindSharedPart(info, weight_);
  }

  std::vector<kernels::PrepackRequirement> PlanPrepack() const override {
    if (!shared_) return {};
    return {shared_->Requirement(strict_ ? std::vector<int>{0} : std::vector<int>{0, 2, 3})};
  }

  void Prepack(int, std::byte* out, ThreadTeam& team) override { shared_->Pack(out, team); }

  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    if (shapes.outputs[0].dtype != DType::kFloat)
      needs.push_back({static_cast<size_t>(shapes.threads) * static_cast<size_t>(weight_.k) * 4, 0, 64});
  }

  void Compute(KernelContext& context) const override {
    const TensorView& indices = *context.input(1);
    TensorView& out = *context.output(0);
    const BlockWeightView view = shared_ ? BlockWeightView{} : weight_.view();
    const std::byte* packed = shared_ ? context.prepacked(0) : nullptr;
    const int64_t count = indices.shape.elements(), rows = weight_.n / rows_per_index_, k = weight_.k;
    auto* scratch = static_cast<float*>(context.GetPreallocatedWorkspace(0));
    if (strict_)
      for (int64_t i = 0; i < count; ++i) {
        const int64_t index = IndexAt(indices, i);
        if (index < -rows || index >= rows)
          Throw(Code::kInvalidInput, "index ", index, " is outside of a table of ", rows, " rows");
      }
    context.threads().Run(count, [&](int64_t i, int worker) {
      int64_t index = IndexAt(indices, i);
      if (index < 0) index += rows;
      for (int64_t r = 0; r < rows_per_index_; ++r) {
        const int64_t at = (i * rows_per_index_ + r) * k;
        float* row = out.dtype == DType::kFloat ? out.as<float>() + at : scratch + worker * k;
        if (index < 0 || index >= rows) {
          std::fill(row, row + k, 0.0f);
        } else if (packed) {
          quant::DequantizePackedRow(shared_->layout, packed, index * rows_per_index_ + r, row);
        } else {
          DequantizeRow(view, index * rows_per_index_ + r, row);
        }
        if (out.dtype == DType::kFloat16)
          for (int64_t c = 0; c < k; ++c) out.as<uint16_t>()[at + c] = FloatToHalf(row[c]);
        else if (out.dtype == DType::kBFloat16)
          for (int64_t c = 0; c < k; ++c) out.as<uint16_t>()[at + c] = FloatToBFloat16(row[c]);
      }
    });
  }

 private:
  WeightSpec weight_;
  std::optional<LinearPart> shared_;  // a product reads the table, too: its packed form serves both
  int64_t rows_per_index_ = 1;
  bool strict_ = false;
};

/// Why a table is left to the general kernel.
std::optional<std::string> Refuse(const KernelInfo& info) {
  const graph::Node& n = info.node;
  if (n.op == "BlockGather") return std::nullopt;
  const auto data = info.constant(0);
  if (!data || !info.constant(2) || (n.has_input(3) && !info.constant(3))) return "the table is not constant";
  const int rank = data->shape.rank();
  const int64_t gather = n.Int("gather_axis", 0), axis = n.Int("quantize_axis", 1), bits = n.Int("bits", 4);
  if (rank < 2 || (gather < 0 ? gather + rank : gather) != 0 || (axis < 0 ? axis + rank : axis) != rank - 1)
    return "it gathers along an inner axis";
  const int64_t block = n.Int("block_size", 128);
  const int64_t columns =
      data->shape.at(-1) * (data->dtype == DType::kUInt8 && bits < 8 && bits > 0 ? 8 / bits : 1);
  if (block < 1 || columns < 1 || (columns % block != 0 && columns > block)) return "blocks straddle rows";
  if (columns < block && data->dtype != DType::kUInt8) return "a row is less than a block";
  const int64_t whole = std::min(columns, block);
  if (data->dtype == DType::kUInt8 && (whole < 16 || (whole & (whole - 1)) != 0))
    return "blocks of an odd size";
  return std::nullopt;
}

}  // namespace

void RegisterBlockLookup(kernels::Registry& registry) {
  for (auto [domain, op] :
       {std::pair<std::string_view, std::string_view>{graph::kUllageDomain, "BlockGather"},
        {graph::kMsDomain, "GatherBlockQuantized"}}) {
    kernels::KernelDef def;
    def.domain = domain;
    def.op = op;
    def.types = {kernels::TypeSet{DType::kUInt8, DType::kInt8, DType::kUInt4, DType::kInt4},
                 kernels::TypeSet{DType::kInt32, DType::kInt64}};
    def.create = Make<BlockLookupKernel>;
    def.refuse = Refuse;
    registry.Add(std::move(def));
  }
}

}  // namespace ullage::cpu
