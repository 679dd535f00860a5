/// Runs a test once for each instruction set.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "core/cpu_features.h"

namespace ullage::quant {

/// Skips what this processor does not support.
class EveryIsa : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!IsSupported(GetParam())) GTEST_SKIP() << NameOf(GetParam()) << " is not supported here";
    ForceIsa(GetParam());
  }
  void TearDown() override { ForceIsa(std::nullopt); }
};

inline auto AllIsas() {
  return testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512Vnni, Isa::kAmxInt8,
                         Isa::kNeon);
}

inline std::string IsaTestName(const testing::TestParamInfo<Isa>& param) {
  std::string name(NameOf(param.param));
  std::erase(name, '-');
  return name;
}

}  // namespace ullage::quant
