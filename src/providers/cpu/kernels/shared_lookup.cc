/// ai.onnx:Gather from a constant matrix of floats that a product reads, too (tied embeddings): the packed
/// form of the product serves both, and the matrix is not read from the file again.
#include <algorithm>
#include <optional>
#include <string>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/dense/gemm.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"
#include "providers/cpu/kernels/linear_parts.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

/// The product's weight W [N, K], of which the node takes rows: axis 0 of [N, K], or axis 1 of [K, N].
std::optional<LinearPart> SharedTable(const KernelInfo& info) {
  WeightSpec table;
  table.data = info.constant(0);
  // What is computed once when the graph is made needs no table in memory.
  if (!table.data || table.data->shape.rank() != 2 || !table.data->block_type.empty() || info.constant(1))
    return std::nullopt;
  const int64_t axis = info.node.Int("axis", 0);
  const bool rows = axis == 0 || axis == -2;
  table.format = rows ? "dense_nk" : "dense_kn";
  table.n = table.data->shape[rows ? 0 : 1];
  table.k = table.data->shape[rows ? 1 : 0];
  return FindSharedPart(info, table);
}

class SharedLookupKernel final : public Kernel {
 public:
  explicit SharedLookupKernel(const KernelInfo& info) : part_(*SharedTable(info)) {}

  std::vector<kernels::PrepackRequirement> PlanPrepack() const override { return {part_.Requirement({0})}; }
  void Prepack(int, std::byte* out, ThreadTeam& team) override { part_.Pack(out, team); }

  void Compute(KernelContext& context) const override {
    const TensorView& index = *context.input(1);
    TensorView& y = *context.output(0);
    const std::byte* packed = context.prepacked(0);
    if (BitsOf(y.dtype) == 32)
      Take(context.threads(), reinterpret_cast<const uint32_t*>(packed), index, y.as<uint32_t>());
    else
      Take(context.threads(), reinterpret_cast<const uint16_t*>(packed), index, y.as<uint16_t>());
  }

 private:
  template <class T>
  void Take(ThreadTeam& team, const T* packed, const TensorView& index, T* y) const {
    const int64_t count = index.elements(), n = part_.weight.n, k = part_.weight.k;
    const bool rows = part_.weight.format == "dense_nk";
    const int64_t step = rows ? 1 : count, start = rows ? k : 1;
    constexpr int64_t kPerTask = 16;
    team.Run(CeilDiv(count, kPerTask), [&](int64_t task, int) {
      for (int64_t i = task * kPerTask; i < std::min(count, (task + 1) * kPerTask); ++i) {
        int64_t at = index.dtype == DType::kInt64 ? index.as<int64_t>()[i] : index.as<int32_t>()[i];
        if (at < -n || at >= n) Throw(Code::kInvalidInput, "index ", at, " is outside of an axis of ", n);
        if (at < 0) at += n;
        const T* from = packed + at / dense::kPanel * dense::kPanel * k + at % dense::kPanel;
        T* to = y + i * start;
        for (int64_t c = 0; c < k; ++c) to[c * step] = from[c * dense::kPanel];
      }
    });
  }

  LinearPart part_;
};

std::optional<std::string> Refuse(const KernelInfo& info) {
  if (SharedTable(info)) return std::nullopt;
  return "no product shares the table";
}

}  // namespace

void RegisterSharedLookup(kernels::Registry& registry) {
  kernels::KernelDef def;
  def.op = "Gather";
  def.types = {kernels::kFloats, kernels::TypeSet{DType::kInt32, DType::kInt64}};
  def.create = Make<SharedLookupKernel>;
  def.refuse = Refuse;
  registry.Add(std::move(def));
}

}  // namespace ullage::cpu
