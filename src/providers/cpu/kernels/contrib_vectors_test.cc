// Kernels against ONNX Runtime's results (tests/conformance/make_contrib_vectors.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "providers/cpu/kernels/node_runner.h"

namespace ullage::cpu {
namespace {

using Json = nlohmann::json;

std::vector<std::byte> FromBase64(const std::string& text) {
  std::vector<std::byte> out;
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    int v = c >= 'A' && c <= 'Z'   ? c - 'A'
            : c >= 'a' && c <= 'z' ? c - 'a' + 26
            : c >= '0' && c <= '9' ? c - '0' + 52
            : c == '+'             ? 62
            : c == '/'             ? 63
                                   : -1;
    if (v < 0) break;
    bits = bits << 6 | static_cast<uint32_t>(v);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out.push_back(static_cast<std::byte>(bits >> count & 255));
  }
  return out;
}

TestTensor TensorOf(const Json& j) {
  TestTensor t;
  t.dtype = static_cast<DType>(j.at("dtype").get<int>());
  for (int64_t d : j.at("shape")) t.shape.push_back(d);
  t.bytes = FromBase64(j.at("data").get<std::string>());
  return t;
}

const std::vector<Json>& Cases() {
  static const std::vector<Json> cases = [] {
    std::ifstream file(std::string(ULLAGE_SOURCE_DIR) + "/tests/conformance/contrib_vectors.json");
    return Json::parse(file).at("cases").get<std::vector<Json>>();
  }();
  return cases;
}

NodeRunner RunnerOf(const Json& c, DType floats) {
  NodeRunner run(c.at("domain").get<std::string>(), c.at("op").get<std::string>(), c.at("opset").get<int>());
  for (const auto& [key, value] : c.at("attributes").items()) {
    if (value.is_string())
      run.Attr(key, value.get<std::string>());
    else if (value.is_array() && value.at(0).is_number_float())
      run.Attr(key, value.get<std::vector<float>>());
    else if (value.is_array())
      run.Attr(key, value.get<std::vector<int64_t>>());
    else if (value.is_number_integer())
      run.Attr(key, value.get<int64_t>());
    else
      run.Attr(key, value.get<float>());
  }
  for (size_t i = 0; i < c.at("inputs").size(); ++i) {
    const Json& j = c.at("inputs")[i];
    if (j.is_null()) {
      run.Input(std::nullopt);
      continue;
    }
    TestTensor t = TensorOf(j);
    if (t.dtype == DType::kFloat && floats != DType::kFloat)
      t = TestTensor::Floats(t.shape, t.AsFloats(), floats);
    const auto& constant = c.at("constant");
    run.Input(t, std::find(constant.begin(), constant.end(), i) != constant.end());
  }
  std::vector<bool> wanted(c.at("outputs").size(), false);
  for (size_t o : c.at("wanted")) wanted[o] = true;
  return run.Outputs(wanted);
}

class ContribVectors : public testing::TestWithParam<size_t> {};

TEST_P(ContribVectors, Agree) {
  const Json& c = Cases()[GetParam()];
  NodeRunner run = RunnerOf(c, DType::kFloat);
  const auto results = run.Run();
  EXPECT_EQ(run.scratch_calls(), 0);
  EXPECT_FALSE(run.overrun());
  const float rtol = c.at("rtol"), atol = c.at("atol");
  for (size_t o = 0; o < results.size(); ++o) {
    if (c.at("outputs")[o].is_null()) continue;
    const TestTensor want = TensorOf(c.at("outputs")[o]);
    ASSERT_EQ(results[o].dtype, want.dtype);
    ASSERT_EQ(results[o].shape.ToString(), want.shape.ToString());
    if (want.dtype != DType::kFloat) {
      EXPECT_EQ(results[o].bytes, want.bytes) << "output " << o;
      continue;
    }
    const auto got = results[o].AsFloats(), expected = want.AsFloats();
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], expected[i], atol + rtol * std::abs(expected[i])) << "output " << o << " at " << i;
  }
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
      const auto got = results[o].AsFloats(), expected = want.AsFloats();
      ASSERT_EQ(got.size(), expected.size());
      double error = 0, norm = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        error += std::pow(static_cast<double>(got[i]) - static_cast<double>(expected[i]), 2);
        norm += std::pow(static_cast<double>(expected[i]), 2);
      }
      EXPECT_LE(std::sqrt(error), tolerance * std::sqrt(norm)) << NameOf(dtype) << ", output " << o;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ContribVectors, testing::Range<size_t>(0, Cases().size()),
                         [](const testing::TestParamInfo<size_t>& p) {
                           return Cases()[p.param].at("name").get<std::string>();
                         });

}  // namespace
}  // namespace ullage::cpu
