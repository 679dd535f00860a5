// Kernels of the OpenCL plugin against what others computed: ONNX Runtime (tests/conformance), numpy and the
// gguf package (make_vectors.py).
#include "plugin_device.h"
#include "providers/cpu/kernels/vector_cases.h"

namespace ullage::cpu {
namespace {

PluginDevice* Device() {
  static PluginDevice* const device = PluginDevice::Open(ULLAGE_OPENCL_PLUGIN, "opencl").release();
  return device;
}

#define OPENCL_OR_SKIP(name)           \
  PluginDevice* const name = Device(); \
  if (!name) GTEST_SKIP() << "there is no OpenCL device on this machine"

const std::vector<Json>& Cases() {
  static const std::vector<Json> cases = [] {
    auto all = ReadCases("tests/opencl/vectors.json");
    for (const Json& c : ReadCases("tests/conformance/contrib_vectors.json")) all.push_back(c);
    return all;
  }();
  return cases;
}

class OpenCl : public testing::TestWithParam<size_t> {};

/// Programs of further types take a second each to compile on a processor: about one case per kernel.
class OpenCl16Bits : public testing::TestWithParam<size_t> {};
std::vector<size_t> CasesIn16Bits() {
  std::vector<size_t> chosen;
  for (size_t i = 0; i < Cases().size(); ++i)
    if (Cases()[i].value("in_16_bits", Cases()[i].at("op") == "GroupQueryAttention")) chosen.push_back(i);
  return chosen;
}

TEST_P(OpenCl, Agrees) {
  OPENCL_OR_SKIP(d);
  const Json& c = Cases()[GetParam()];
  NodeRunner run = RunnerOf(c, DType::kFloat);
  try {
    ExpectResults(c, d->Run(run));
  } catch (const Error& e) {
    if (e.code() != Code::kUnsupported || c.value("must_run", false)) throw;
    GTEST_SKIP() << e.what();
  }
}

TEST_P(OpenCl16Bits, Agrees) {
  OPENCL_OR_SKIP(d);
  const Json& c = Cases()[GetParam()];
  const auto tolerance = c.value("tolerance16", 4e-3);
  for (const auto& [dtype, factor] : {std::pair{DType::kFloat16, 1.0}, {DType::kBFloat16, 8.0}}) {
    NodeRunner run = RunnerOf(c, dtype);
    std::vector<TestTensor> results;
    try {
      results = d->Run(run);
    } catch (const Error& e) {
      if (e.code() != Code::kUnsupported || c.value("must_run", false)) throw;
      GTEST_SKIP() << e.what();
    }
    for (size_t o = 0; o < results.size(); ++o) {
      if (c.at("outputs")[o].is_null()) continue;
      const TestTensor want = TensorOf(c.at("outputs")[o]);
      if (want.dtype != DType::kFloat) continue;
      ASSERT_EQ(results[o].dtype, dtype);
      EXPECT_LE(RelativeError(results[o], want), tolerance * factor) << NameOf(dtype) << ", output " << o;
    }
  }
}

std::string NameOfCase(const testing::TestParamInfo<size_t>& p) {
  return Cases()[p.param].at("name").get<std::string>();
}
INSTANTIATE_TEST_SUITE_P(All, OpenCl, testing::Range<size_t>(0, Cases().size()), NameOfCase);
INSTANTIATE_TEST_SUITE_P(All, OpenCl16Bits, testing::ValuesIn(CasesIn16Bits()), NameOfCase);

}  // namespace
}  // namespace ullage::cpu
