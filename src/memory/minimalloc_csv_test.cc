#include "memory/minimalloc_csv.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/error.h"

namespace ullage::memory {
namespace {

std::filesystem::path SharedFolder() {
  const char* set = std::getenv("ULLAGE_SHARED");
  const std::filesystem::path folder =
      set != nullptr ? set : std::filesystem::path(ULLAGE_SOURCE_DIR) / ".." / "shared";
  return folder / "data" / "minimalloc";
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

std::string ErrorOf(std::string_view text) {
  try {
    ReadMinimallocCsv(text);
  } catch (const Error& e) {
    return e.message();
  }
  return "accepted";
}

TEST(MinimallocCsv, ReadsColumnsInAnyOrder) {
  const CsvProblem p = ReadMinimallocCsv("size, id ,upper,lower\r\n4,b1,3,0\r\n\n5,b \"2,9,3\n");
  ASSERT_EQ(p.buffers.size(), 2u);
  EXPECT_EQ(p.ids[1], "b \"2");
  EXPECT_EQ(p.buffers[0].size, 4);
  EXPECT_EQ(p.buffers[0].alignment, 1);
  EXPECT_EQ(p.buffers[1].first, 3);
  EXPECT_EQ(p.buffers[1].last, 9);
}

TEST(MinimallocCsv, OptionalColumns) {
  const CsvProblem p =
      ReadMinimallocCsv("id,lower,end,size,alignment,offset,hint\na,0,2,8,4,12,3\nb,0,2,8,,-1,\n");
  EXPECT_EQ(p.buffers[0].last, 3) << "'end' is inclusive";
  EXPECT_EQ(p.buffers[0].fixed_offset, 12);
  EXPECT_EQ(p.buffers[0].alignment, 4);
  EXPECT_FALSE(p.buffers[1].fixed_offset.has_value());
}

TEST(MinimallocCsv, BadLinesAreNamed) {
  EXPECT_NE(ErrorOf("").find("empty"), std::string::npos);
  EXPECT_NE(ErrorOf("id,lower,upper\n").find("line 1: column 'size' is missing"), std::string::npos);
  EXPECT_NE(ErrorOf("id,lower,size\n").find("'upper'"), std::string::npos);
  EXPECT_NE(ErrorOf("id,lower,upper,size,colour\n").find("unknown column 'colour'"), std::string::npos);
  EXPECT_NE(ErrorOf("id,id,lower,upper,size\n").find("twice"), std::string::npos);
  const std::string header = "id,lower,upper,size\n";
  EXPECT_NE(ErrorOf(header + "a,0,1,4\n\nb,0,1\n").find("line 4: has 3 fields"), std::string::npos);
  EXPECT_NE(ErrorOf(header + "a,0,1,4x\n").find("line 2: column 'size' holds '4x'"), std::string::npos);
  EXPECT_NE(ErrorOf(header + "a,0,1,99999999999999999999\n").find("64 bits"), std::string::npos);
  EXPECT_NE(ErrorOf(header + "a,0,1,\n").find("column 'size'"), std::string::npos);
  EXPECT_NE(ErrorOf(header + "a,5,1,4\n").find("ends (1) before it begins (5)"), std::string::npos);
  EXPECT_NE(ErrorOf(header + "a,0,1,-4\n").find("negative"), std::string::npos);
  EXPECT_NE(ErrorOf(header + "a,0,1,4\na,0,1,4\n").find("line 3: id 'a' is there twice"), std::string::npos);
  EXPECT_NE(ErrorOf("id,lower,upper,size,alignment\na,0,1,4,3\n").find("power of two"), std::string::npos);
  EXPECT_NE(ErrorOf("id,lower,upper,size,offset,alignment\na,0,1,4,3,2\n").find("multiple"),
            std::string::npos);
  EXPECT_NE(ErrorOf("id,lower,upper,size,gaps\na,0,1,4,0-1\n").find("gaps"), std::string::npos);
}

TEST(MinimallocCsv, PacksAndPrints) {
  const CsvPacking result = PackCsv("id,lower,upper,size\nb\"1,0,3,4\nb2,3,9,4\nb3,0,9,4\n", 1);
  EXPECT_EQ(result.packing.peak, 8);
  const std::string json = result.ToJson();
  EXPECT_EQ(json.find("{\"peak\":8,\"lower_bound\":8,\"offsets\":{\"b\\\"1\":"), 0u) << json;
  EXPECT_NE(json.find("\"proved_optimal\":true"), std::string::npos);
}

TEST(MinimallocCsv, CapacityIsARequirement) {
  const char* text = "id,lower,upper,size\na,0,3,4\nb,0,3,4\n";
  EXPECT_EQ(PackCsv(text, 0, 8).packing.peak, 8);
  try {
    PackCsv(text, 0, 7);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kDoesNotFit);
    EXPECT_NE(e.message().find("at least 8"), std::string::npos);
  }
}

class PublicInstance : public ::testing::TestWithParam<std::pair<const char*, int64_t>> {};

// Heights known to be optimal (the largest sum of live sizes), from the published set and its bound.
TEST_P(PublicInstance, ReachesItsOptimum) {
  const std::filesystem::path file = SharedFolder() / GetParam().first;
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not here";
  const CsvPacking result = PackCsv(ReadFile(file), 60);
  EXPECT_EQ(result.packing.peak, GetParam().second);
  EXPECT_TRUE(result.packing.proved_optimal);
}

INSTANTIATE_TEST_SUITE_P(Quick, PublicInstance,
                         ::testing::Values(std::pair("examples/input.12.csv", 12),
                                           std::pair("challenging/B.1048576.csv", 1048576),
                                           std::pair("challenging/C.1048576.csv", 1039360),
                                           std::pair("challenging/H.1048576.csv", 1048576)));

}  // namespace
}  // namespace ullage::memory
