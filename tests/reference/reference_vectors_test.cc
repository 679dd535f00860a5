// The host's kernels behind the device ABI against what ONNX Runtime computed
// (tests/conformance/make_contrib_vectors.py).
#include "plugin_device.h"
#include "providers/cpu/kernels/vector_cases.h"

namespace ullage::cpu {
namespace {

const std::vector<Json>& Cases() {
  static const std::vector<Json> cases = ReadCases("tests/conformance/contrib_vectors.json");
  return cases;
}

class Reference : public testing::TestWithParam<size_t> {};

TEST_P(Reference, Agrees) {
  static PluginDevice* const device = PluginDevice::Open(ULLAGE_REFERENCE_PLUGIN, "reference").release();
  ASSERT_TRUE(device);
  const Json& c = Cases()[GetParam()];
  NodeRunner run = RunnerOf(c, DType::kFloat);
  ExpectResults(c, device->Run(run));
}

INSTANTIATE_TEST_SUITE_P(All, Reference, testing::Range<size_t>(0, Cases().size()),
                         [](const testing::TestParamInfo<size_t>& p) {
                           return Cases()[p.param].at("name").get<std::string>();
                         });

}  // namespace
}  // namespace ullage::cpu
