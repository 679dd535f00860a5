/// Cases of single nodes in JSON: inputs, attributes and what somebody else computed from them
/// (tests/conformance/make_contrib_vectors.py).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "providers/cpu/kernels/node_runner.h"

namespace ullage::cpu {

using Json = nlohmann::json;

inline std::vector<std::byte> FromBase64(const std::string& text) {
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

inline TestTensor TensorOf(const Json& j) {
  TestTensor t;
  t.dtype = static_cast<DType>(j.at("dtype").get<int>());
  for (int64_t d : j.at("shape")) t.shape.push_back(d);
  if (const auto it = j.find("high16"); it != j.end()) {  // of floats whose lower halves are 0
    const std::vector<std::byte> halves = FromBase64(it->get<std::string>());
    t.bytes.resize(2 * halves.size());
    for (size_t i = 0; i < halves.size(); ++i) t.bytes[2 * (i - i % 2) + 2 + i % 2] = halves[i];
    return t;
  }
  t.bytes = FromBase64(j.at("data").get<std::string>());
  return t;
}

inline std::vector<Json> ReadCases(const std::string& path) {
  std::ifstream file(std::string(ULLAGE_SOURCE_DIR) + "/" + path);
  return Json::parse(file).at("cases").get<std::vector<Json>>();
}

inline NodeRunner RunnerOf(const Json& c, DType floats) {
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
    const std::string blocks = c.contains("blocks") ? c.at("blocks").value(std::to_string(i), "") : "";
    if (!blocks.empty()) run.Blocks(blocks, t.shape);
  }
  std::vector<bool> wanted(c.at("outputs").size(), false);
  for (size_t o : c.at("wanted")) wanted[o] = true;
  return run.Outputs(wanted);
}

/// Expects what the case says, within its tolerances.
inline void ExpectResults(const Json& c, const std::vector<TestTensor>& results) {
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

/// Relative error of a whole tensor.
inline double RelativeError(const TestTensor& result, const TestTensor& want) {
  const auto got = result.AsFloats(), expected = want.AsFloats();
  double error = got.size() == expected.size() ? 0 : 1e9, norm = 0;
  for (size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
    error += std::pow(static_cast<double>(got[i]) - static_cast<double>(expected[i]), 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  return norm > 0 ? std::sqrt(error / norm) : error;
}

}  // namespace ullage::cpu
