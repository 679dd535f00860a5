/// Helpers of the tokenizer tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/read_file.h"
#include "ullage/error.h"

namespace ullage::llm {

/// The folder of sample models; does not exist in every checkout.
inline std::filesystem::path ZooFolder() {
  const char* shared = std::getenv("ULLAGE_SHARED");
  const std::filesystem::path root = shared != nullptr ? shared : ULLAGE_SOURCE_DIR "/../shared";
  return root / "data" / "zoo";
}

inline std::vector<nlohmann::json> ReadJsonLines(const std::filesystem::path& path) {
  std::vector<nlohmann::json> rows;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) rows.push_back(nlohmann::json::parse(line));
  }
  return rows;
}

/// Expects fn() to throw an Error with this code whose message holds `part`.
template <class Fn>
void ExpectError(Code code, const std::string& part, const Fn& fn) {
  try {
    fn();
    ADD_FAILURE() << "no error; expected one with '" << part << "'";
  } catch (const Error& e) {
    EXPECT_EQ(CodeName(e.code()), CodeName(code)) << e.message();
    EXPECT_NE(e.message().find(part), std::string::npos) << e.message();
  }
}

}  // namespace ullage::llm
