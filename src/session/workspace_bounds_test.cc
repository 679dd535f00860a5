/// What kernels declare for the bounds is enough for every shape within them, whichever way they take there.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "session/plan.h"
#include "session/session.h"

namespace ullage::session {
namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::ValueId;

using Dims = std::vector<int64_t>;  // -1: s

/// One node over inputs of float32, some of them constants.
struct Case {
  std::string name;
  std::string domain, op;
  std::vector<Dims> inputs;
  std::vector<Dims> constants;
  std::function<void(Node&)> attributes;
};

std::vector<Case> Cases() {
  const auto none = [](Node&) {};
  const auto ints = [](const char* key, std::vector<int64_t> v) {
    return [key, v](Node& n) { n.attributes[key] = v; };
  };
  const auto number = [](const char* key, int64_t v) { return [key, v](Node& n) { n.attributes[key] = v; }; };
  return {{"linear", "", "MatMul", {{-1, 48}}, {{48, 40}}, none},
          {"product", "", "MatMul", {{-1, 48}, {48, -1}}, {}, none},
          {"batches", "", "MatMul", {{3, -1, 16}, {3, 16, 20}}, {}, none},
          {"gemm", "", "Gemm", {{-1, 32}}, {{24, 32}, {24}}, number("transB", 1)},
          {"softmax rows", "", "Softmax", {{-1, 33}}, {}, number("axis", 1)},
          {"softmax columns", "", "Softmax", {{33, -1}}, {}, number("axis", 0)},
          {"conv", "", "Conv", {{1, 3, -1, -1}}, {{8, 3, 3, 3}}, ints("pads", {1, 1, 1, 1})},
          {"strided conv",
           "",
           "Conv",
           {{1, 4, 16, -1}},
           {{20, 4, 3, 3}},
           [](Node& n) {
             n.attributes["strides"] = std::vector<int64_t>{2, 2};
             n.attributes["pads"] = std::vector<int64_t>{1, 1, 1, 1};
           }},
          {"pointwise conv", "", "Conv", {{1, 64, -1, -1}}, {{32, 64, 1, 1}}, none},
          {"depthwise conv",
           "",
           "Conv",
           {{1, 16, -1, 9}},
           {{16, 1, 3, 3}},
           [](Node& n) {
             n.attributes["group"] = int64_t{16};
             n.attributes["pads"] = std::vector<int64_t>{1, 1, 1, 1};
           }},
          {"transposed conv", "", "ConvTranspose", {{1, 4, -1, -1}}, {{4, 8, 3, 3}}, ints("strides", {2, 2})},
          {"attention",
           "com.microsoft",
           "MultiHeadAttention",
           {{2, -1, 64}, {2, -1, 64}, {2, -1, 64}},
           {},
           number("num_heads", 4)},
          {"lstm", "", "LSTM", {{-1, 2, 8}}, {{1, 48, 8}, {1, 48, 12}}, number("hidden_size", 12)},
          {"gru", "", "GRU", {{-1, 2, 8}}, {{1, 36, 8}, {1, 36, 12}}, number("hidden_size", 12)},
          {"reduce", "", "ReduceLogSumExp", {{-1, 7, -1}}, {}, none},
          {"average",
           "",
           "AveragePool",
           {{1, 3, -1, -1}},
           {},
           [](Node& n) {
             n.attributes["kernel_shape"] = std::vector<int64_t>{3, 3};
             n.attributes["pads"] = std::vector<int64_t>{1, 1, 1, 1};
           }},
          {"normal", "", "MeanVarianceNormalization", {{1, 3, -1, -1}}, {}, none},
          {"einsum",
           "",
           "Einsum",
           {{-1, 12}, {12, -1}},
           {},
           [](Node& n) { n.attributes["equation"] = std::string("ij,jk->ki"); }},
          {"transpose", "", "Transpose", {{4, -1, 6}}, {}, ints("perm", {2, 1, 0})}};
}

constexpr int64_t kMost = 70;

std::shared_ptr<Graph> Build(const Case& c) {
  auto g = std::make_shared<Graph>();
  g->opsets = {{"", 17}, {"com.microsoft", 1}, {"ullage", 1}};
  std::vector<ValueId> in;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    graph::DeclaredShape declared;
    for (int64_t d : c.inputs[i]) declared.push_back({d, d < 0 ? "s" : ""});
    in.push_back(g->AddInput("x" + std::to_string(i), DType::kFloat, declared));
  }
  for (const Dims& dims : c.constants) {
    const Shape shape{std::span<const int64_t>(dims)};
    in.push_back(g->AddConstant(
        "w" + std::to_string(in.size()),
        graph::MakeFloats(shape, std::vector<float>(static_cast<size_t>(shape.elements()), 0.5f))));
  }
  const ValueId y = g->AddValue("y");
  c.attributes(g->AddNode(c.domain, c.op, c.name, in, {y}));
  g->outputs = {y};
  return g;
}

std::vector<ops::ValueFacts> Inputs(const Case& c, const ops::Bound& s) {
  std::vector<ops::ValueFacts> all;
  for (const Dims& dims : c.inputs) {
    std::vector<ops::Bound> bounds;
    for (int64_t d : dims) bounds.push_back(d < 0 ? s : ops::Bound::Exactly(d));
    ops::ValueFacts f;
    f.dtype = DType::kFloat;
    f.shape.rank = static_cast<int>(bounds.size());
    for (size_t d = 0; d < bounds.size(); ++d) f.shape[static_cast<int>(d)] = bounds[d];
    all.push_back(f);
  }
  return all;
}

TEST(WorkspaceBounds, HoldForEveryShapeWithin) {
  int64_t with_scratch = 0;
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    SessionSpec spec;
    spec.graph = Build(c);
    spec.threads = 3;
    spec.plan_only = true;
    spec.profiles = {{"all", [&](const Graph&, ops::SymbolTable& table) {
                        return Inputs(c, table.Symbol("s", 1, kMost));
                      }}};
    const auto s = Session::Create(std::move(spec));
    for (int64_t n = 1; n <= kMost; ++n) {
      ops::SymbolTable table;
      const auto exact = shapes::Propagate(s->graph(), Inputs(c, ops::Bound::Exactly(n)), {}, table);
      for (const Step& step : s->program().steps()) {
        if (!step.kernel) continue;
        const auto most = StepWorkspace(s->program(), step, s->facts(), 3);
        const auto now = StepWorkspace(s->program(), step, exact, 3);
        ASSERT_TRUE(most && now);
        for (const auto& slot : *now) {
          if (slot.status != memory::WorkspaceStatus::kKnown || slot.size_bytes == 0) continue;
          ++with_scratch;
          const auto planned = std::find_if(most->begin(), most->end(),
                                            [&](const auto& m) { return m.slot_id == slot.slot_id; });
          ASSERT_NE(planned, most->end()) << "slot " << slot.slot_id << " at " << n;
          EXPECT_LE(slot.size_bytes, planned->size_bytes) << "slot " << slot.slot_id << " at " << n;
        }
      }
    }
  }
  EXPECT_GT(with_scratch, 8 * kMost);
}

}  // namespace
}  // namespace ullage::session
