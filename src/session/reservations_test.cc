/// What kernels declare once they exist, against what placement reserved and what was planned.
#include <gtest/gtest.h>

#include <cmath>

#include "session/plan.h"
#include "session/session.h"
#include "session/test_gpu.h"

namespace ullage::session {
namespace {

using graph::Graph;
using graph::ValueId;
using test::TestGpu;

std::shared_ptr<const providers::Provider> Host() {
  return {std::shared_ptr<void>(), &providers::CpuProvider()};
}

/// Kernels that want 512 bytes more than was estimated.
class Understating final : public providers::Provider {
 public:
  class Greedy final : public kernels::Kernel {
   public:
    explicit Greedy(std::unique_ptr<kernels::Kernel> inner) : inner_(std::move(inner)) {}
    std::vector<kernels::PrepackRequirement> PlanPrepack() const override { return inner_->PlanPrepack(); }
    void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                      std::vector<memory::WorkspaceRequirement>& slots) const override {
      inner_->DeclareWorkspaceRequirements(shapes, slots);
      memory::WorkspaceRequirement more;
      more.size_bytes = 512;
      more.slot_id = 31;
      slots.push_back(more);
    }
    void Compute(kernels::KernelContext& context) const override { inner_->Compute(context); }

   private:
    std::unique_ptr<kernels::Kernel> inner_;
  };

  Understating() : inner_("gpux", 1) {
    for (const auto& def : inner_.registry().all()) {
      kernels::KernelDef mine = def;
      mine.estimate = [](const kernels::KernelInfo&) {
        return kernels::WorkspaceEstimate{kernels::WorkspaceEstimate::Status::kExact, 0, 0};
      };
      mine.create = [&def](const kernels::KernelInfo& info) -> std::unique_ptr<kernels::Kernel> {
        return std::make_unique<Greedy>(def.create(info));
      };
      registry_.Add(std::move(mine));
    }
  }
  std::string_view name() const override { return inner_.name(); }
  std::vector<providers::DeviceInfo> devices() const override { return inner_.devices(); }
  const kernels::Registry& registry() const override { return registry_; }
  std::unique_ptr<providers::OpenDevice> Open(const providers::DeviceInfo& device) const override {
    return inner_.Open(device);
  }

 private:
  TestGpu inner_;
  kernels::Registry registry_;
};

std::shared_ptr<Graph> Chain() {
  auto g = std::make_shared<Graph>();
  g->opsets = {{"", 21}};
  ValueId x = g->AddInput("x", DType::kFloat, graph::DeclaredShape{{8, ""}});
  for (int i = 0; i < 3; ++i) {
    const ValueId y = g->AddValue("y" + std::to_string(i));
    g->AddNode("", i % 2 ? "Exp" : "Neg", "n" + std::to_string(i), {x}, {y});
    x = y;
  }
  g->outputs = {x};
  return g;
}

std::unique_ptr<Session> Make(const std::string& option, const std::string& value) {
  SessionSpec spec;
  spec.graph = Chain();
  spec.threads = 1;
  spec.profiles = {ExactProfile("run", {Shape{8}})};
  spec.providers = {std::make_shared<Understating>(), Host()};
  spec.options.Set("session.resource_partitioning_settings", "gpux:1MiB");
  spec.options.Set("session.pre_allocate_execution_buffers", "1");
  if (!option.empty()) spec.options.Set(option, value);
  return Session::Create(std::move(spec));
}

TEST(Reservations, AnExcessIsToldAndTheLimitStillHolds) {
  const auto s = Make("", "");
  ASSERT_EQ(s->placed().warnings().size(), 1u);
  EXPECT_EQ(s->placed().warnings()[0],
            "3 kernels declare more workspace than was reserved: n0 512 bytes, reserved 0, and others");
  EXPECT_EQ(s->device_plans()[0].tags[memory::Tag::kWorkspace], 512) << "planned as declared, and shared";
  EXPECT_EQ(s->peak_bytes(0), s->device_plans()[0].tags.Sum());
}

TEST(Reservations, StrictVerificationRefusesAnExcess) {
  for (const char* option : {"session.strict_workspace_verification", "session.strict"}) {
    try {
      Make(option, "1");
      ADD_FAILURE() << option;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kDoesNotFit);
      EXPECT_NE(error.message().find("n0 512 bytes, reserved 0"), std::string::npos) << error.message();
    }
  }
}

/// Three products one behind the other, each with scratch of its own.
TEST(Reservations, SequentialScratchIsPlannedBeforeTheFirstRunAndShared) {
  auto g = std::make_shared<Graph>();
  g->opsets = {{"", 21}, {"com.microsoft", 1}};
  ValueId x = g->AddInput("x", DType::kFloat, graph::DeclaredShape{{-1, "s"}, {64, ""}});
  for (int i = 0; i < 3; ++i) {
    const auto codes = graph::MakeConstant(DType::kUInt8, {64, 2, 16});
    for (size_t k = 0; k < 2048; ++k) codes.data[k] = static_cast<std::byte>((k * 37 + 11) & 0xff);
    const ValueId b = g->AddConstant("b" + std::to_string(i), codes.constant);
    const ValueId scales =
        g->AddConstant("s" + std::to_string(i), graph::MakeFloats({64, 2}, std::vector<float>(128, 0.01f)));
    const ValueId y = g->AddValue("y" + std::to_string(i));
    auto& node =
        g->AddNode("com.microsoft", "MatMulNBits", "product" + std::to_string(i), {x, b, scales}, {y});
    node.attributes["K"] = int64_t{64};
    node.attributes["N"] = int64_t{64};
    node.attributes["bits"] = int64_t{4};
    node.attributes["block_size"] = int64_t{32};
    x = y;
  }
  g->outputs = {x};
  SessionSpec spec;
  spec.graph = g;
  spec.threads = 1;
  spec.providers = {Host()};
  spec.options.Set("session.pre_allocate_execution_buffers", "1");
  spec.profiles = {{"rows", [](const Graph&, ops::SymbolTable& table) {
                      ops::ValueFacts f;
                      f.dtype = DType::kFloat;
                      f.shape = ops::BoundedShape::OfDims({table.Symbol("s", 1, 7), ops::Bound::Exactly(64)});
                      return std::vector<ops::ValueFacts>{f};
                    }}};
  const auto s = Session::Create(std::move(spec));
  int64_t largest = 0, sum = 0;
  for (const Step& step : s->program().steps()) {
    const auto slots = StepWorkspace(s->program(), step, s->facts(), 1);
    ASSERT_TRUE(slots);
    const auto bytes = static_cast<int64_t>(memory::WorkspaceTotal(*slots));
    largest = std::max(largest, bytes);
    sum += bytes;
  }
  ASSERT_GT(largest, 0);
  const auto& plan = *s->profile_plans()[0].plan;
  EXPECT_LE(plan.host().workspace_peak, largest);
  EXPECT_LT(plan.host().workspace_peak, sum);
  std::vector<std::vector<float>> results;
  for (int run = 0; run < 3; ++run) {
    std::vector<float> in(5 * 64);
    for (size_t i = 0; i < in.size(); ++i) in[i] = std::sin(static_cast<float>(i));
    const TensorView view{in.data(), DType::kFloat, {5, 64}, 0};
    const auto execution = s->Run(0, {&view, 1});
    const auto& out = execution.output(0);
    results.emplace_back(out.as<float>(), out.as<float>() + out.elements());
  }
  EXPECT_EQ(results[0], results[1]) << "the first run is planned as the others are";
  EXPECT_EQ(results[0], results[2]);
  EXPECT_EQ(s->allocations_during_run(), 0);
}

}  // namespace
}  // namespace ullage::session
