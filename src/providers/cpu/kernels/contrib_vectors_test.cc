// Kernels against ONNX Runtime's results (tests/conformance/make_contrib_vectors.py).
#include "providers/cpu/kernels/vector_cases.h"

namespace ullage::cpu {
namespace {

const std::vector<Json>& Cases() {
  static const std::vector<Json> cases = ReadCases("tests/conformance/contrib_vectors.json");
  return cases;
}

class ContribVectors : public testing::TestWithParam<size_t> {};

TEST_P(ContribVectors, Agree) {
  const Json& c = Cases()[GetParam()];
  NodeRunner run = RunnerOf(c, DType::kFloat);
  const auto results = run.Run();
  EXPECT_EQ(run.scratch_calls(), 0);
  EXPECT_FALSE(run.overrun());
  ExpectResults(c, results);
}

/// The same inputs rounded to 16 bits: the relative error of a whole tensor stays within what the rounding of
/// inputs and outputs makes plausible.
TEST_P(ContribVectors, AgreeIn16Bits) {
  const Json& c = Cases()[GetParam()];
  if (c.at("op") == "QuantizeLinear") GTEST_SKIP() << "codes jump";
  if (c.at("op") == "DynamicQuantizeLSTM") GTEST_SKIP() << "floats only";
  for (const auto& [dtype, tolerance] : {std::pair{DType::kFloat16, 4e-3}, {DType::kBFloat16, 3e-2}}) {
    NodeRunner run = RunnerOf(c, dtype);
    const auto results = run.Run();
    EXPECT_EQ(run.scratch_calls(), 0);
    EXPECT_FALSE(run.overrun());
    for (size_t o = 0; o < results.size(); ++o) {
      if (c.at("outputs")[o].is_null()) continue;
      const TestTensor want = TensorOf(c.at("outputs")[o]);
      if (want.dtype != DType::kFloat) continue;
      ASSERT_EQ(results[o].dtype, dtype);
      EXPECT_LE(RelativeError(results[o], want), tolerance) << NameOf(dtype) << ", output " << o;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ContribVectors, testing::Range<size_t>(0, Cases().size()),
                         [](const testing::TestParamInfo<size_t>& p) {
                           return Cases()[p.param].at("name").get<std::string>();
                         });

}  // namespace
}  // namespace ullage::cpu
