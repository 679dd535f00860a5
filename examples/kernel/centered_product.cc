#include "centered_product.h"

#include <cstring>

#include "core/checked.h"

namespace example {

using namespace ullage;

namespace {

void Bound(ops::ShapeContext& c) {
  const ops::BoundedShape &x = c.shape(0), &w = c.shape(1);
  if (!x.known_rank() || !w.known_rank()) return c.Set(0, c.dtype(0), ops::BoundedShape::Unknown());
  if (x.rank < 1 || w.rank != 2) c.Fail("expected X of rank 1 or more and W of rank 2");
  ops::BoundedShape y = x;
  y[y.rank - 1] = w[1];
  c.Set(0, c.dtype(0), y);
}

class CenteredProduct final : public kernels::Kernel {
 public:
  explicit CenteredProduct(const kernels::KernelInfo& info) : weight_(info.constant(1)) {
    k_ = weight_->shape[0];
    n_ = weight_->shape[1];
  }

  /// W transposed, so that a result is a product of two rows.
  std::vector<kernels::PrepackRequirement> PlanPrepack() const override {
    return {{BytesOf(DType::kFloat, CheckedMul(k_, n_)), 64, {1}, "example.transposed"}};
  }
  void Prepack(int, std::byte* out, ThreadTeam&) override {
    auto* const to = reinterpret_cast<float*>(out);
    const std::byte* from = weight_->bytes;  // of a file: aligned to nothing
    for (int64_t i = 0; i < k_; ++i)
      for (int64_t j = 0; j < n_; ++j, from += sizeof(float))
        std::memcpy(to + j * k_ + i, from, sizeof(float));
  }

  /// A row per thread.
  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& slots) const override {
    memory::WorkspaceRequirement rows;
    rows.slot_id = kRows;
    rows.size_bytes = BytesOf(DType::kFloat, CheckedMul<int64_t>(k_, shapes.threads));
    slots.push_back(rows);
  }

  void Compute(kernels::KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    if (x.shape.at(-1) != k_) Throw(Code::kInvalidInput, "rows of ", x.shape.at(-1), ", expected ", k_);
    const auto* const w = reinterpret_cast<const float*>(context.prepacked(0));
    auto* const rows = static_cast<float*>(context.GetPreallocatedWorkspace(kRows));
    context.threads().Run(x.shape.elements(0, x.shape.rank() - 1), [&](int64_t r, int worker) {
      const float* const from = x.as<float>() + r * k_;
      float* const row = rows + worker * k_;
      float sum = 0;
      for (int64_t i = 0; i < k_; ++i) sum += from[i];
      for (int64_t i = 0; i < k_; ++i) row[i] = from[i] - sum / static_cast<float>(k_);
      for (int64_t j = 0; j < n_; ++j) {
        float dot = 0;
        for (int64_t i = 0; i < k_; ++i) dot += row[i] * w[j * k_ + i];
        y.as<float>()[r * n_ + j] = dot;
      }
    });
  }

 private:
  static constexpr int kRows = 0;
  graph::ConstantPtr weight_;
  int64_t k_ = 0, n_ = 0;
};

}  // namespace

const ops::OpInfo kCenteredProduct = {
    .domain = "com.example", .name = "CenteredProduct", .min_inputs = 2, .max_inputs = 2, .rule = Bound};

void RegisterCenteredProduct(kernels::Registry& registry) {
  kernels::KernelDef def;
  def.domain = kCenteredProduct.domain;
  def.op = kCenteredProduct.name;
  def.types = {kernels::kFloat32, kernels::kFloat32};
  def.refuse = [](const kernels::KernelInfo& info) -> std::optional<std::string> {
    const auto w = info.constant(1);
    if (!w || w->shape.rank() != 2) return "W is no constant matrix";
    return std::nullopt;
  };
  def.create = [](const kernels::KernelInfo& info) { return std::make_unique<CenteredProduct>(info); };
  registry.Add(std::move(def));
}

}  // namespace example
