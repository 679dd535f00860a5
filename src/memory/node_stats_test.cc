#include "memory/node_stats.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "core/error.h"

namespace ullage::memory {
namespace {

using Names = std::vector<std::string_view>;

std::string MessageOf(std::string_view text) {
  try {
    ParseNodeStats(text, "stats.csv");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kInvalidInput);
    return e.message();
  }
  return "";
}

// The keys that ONNX Runtime 1.23.2 wrote for a graph with these nodes (graph optimisation off).
TEST(NodeStats, KeysAreThoseOfOnnxRuntime) {
  EXPECT_EQ(NodeStatsKey("clip", "Clip", Names{"y", "", "hi"}, Names{"z"}), "clip_2674632465217995756");
  EXPECT_EQ(NodeStatsKey("", "Relu", Names{"m"}, Names{"y"}), "Relu_8934248180534264568");
  EXPECT_EQ(NodeStatsKey("/layer/MatMul, with comma", "MatMul", Names{"x", "w"}, Names{"m"}),
            "/layer/MatMul, with comma_8407033655111712989");
}

TEST(NodeStats, RowsAreFoundByNameOrAsThoseOfAnUnnamedNode) {
  const Names in{"m"}, out{"y"};
  const NodeStatsTable table = {{NodeStatsKey("relu", "Relu", in, out), {1, 0, 0, 0, 0}},
                                {NodeStatsKey("", "Relu", in, out), {2, 0, 0, 0, 0}}};
  EXPECT_EQ(FindNodeStats(table, "relu", "Relu", in, out)->input_sizes, 1);
  EXPECT_EQ(FindNodeStats(table, "y", "Relu", in, out)->input_sizes, 2);
  EXPECT_EQ(FindNodeStats(table, "y", "Relu", out, in), nullptr);
}

TEST(NodeStats, TheFileHasTheAgreedColumns) {
  const NodeStatsTable table = {{"a_1", {1, 2, 3, 4, 5}}};
  EXPECT_EQ(FormatNodeStats(table, false),
            "#name,input_sizes,initializers_sizes,total_dynamic_sizes,total_temp_allocations\na_1,1,2,3,4\n");
  EXPECT_EQ(FormatNodeStats(table, true),
            "#name,input_sizes,initializers_sizes,total_dynamic_sizes,total_temp_allocations,"
            "peak_temp_allocations\na_1,1,2,3,4,5\n");
}

TEST(NodeStats, AnyKeyComesBack) {
  NodeStatsTable table;
  int64_t n = 0;
  for (const char* key :
       {"plain", "with, commas,, and more", "\"quoted\"", "half\"quoted", "# no comment", "new\nline",
        "carriage\r\nreturn", "   blanks ", "\xC3\xA4\xE6\xBC\xA2", ",", "\"", "a,\"b\"\n#c"})
    table[key] = {++n, 10 * n, 100 * n, 1000 * n, INT64_MAX - n};
  EXPECT_EQ(ParseNodeStats(FormatNodeStats(table, true), "t"), table);
  for (auto& [key, stats] : table) stats.peak_temp_allocations = 0;
  EXPECT_EQ(ParseNodeStats(FormatNodeStats(table, false), "t"), table);
}

TEST(NodeStats, FilesOfOtherWritersAreRead) {
  const NodeStatsTable table = ParseNodeStats(
      "#name,input_sizes,initializers_sizes,total_dynamic_sizes,total_temp_allocations\r\n"
      "\r\n# a remark, with commas\n"
      "/layer/MatMul, with comma_84,80,0,256,0\r\n"
      ",1,2,3,4\n"
      "twice,1,1,1,1\n"
      "say \"x\",5,6,7,8\n"
      "twice,2,2,2,2",
      "t");
  const NodeStatsTable expected = {{"/layer/MatMul, with comma_84", {80, 0, 256, 0, 0}},
                                   {"twice", {2, 2, 2, 2, 0}},
                                   {"say \"x\"", {5, 6, 7, 8, 0}}};
  EXPECT_EQ(table, expected);
  EXPECT_TRUE(ParseNodeStats("", "t").empty());
}

TEST(NodeStats, BrokenFilesAreRefusedWithTheirLine) {
  EXPECT_NE(MessageOf("a,1,2,3\n").find("line 1: expected 5 fields, found 4"), std::string::npos);
  EXPECT_NE(MessageOf("a,1,2,3,4\n\nb,1,2,x,4\n").find("line 3: expected a number of bytes, found \"x\""),
            std::string::npos);
  EXPECT_NE(MessageOf("a,1,2,3,-4\n").find("\"-4\""), std::string::npos);
  EXPECT_NE(MessageOf("a,1,2,3,99999999999999999999\n").find("99999999999999999999"), std::string::npos);
  EXPECT_NE(MessageOf("\"a,1,2,3,4\n").find("not closed"), std::string::npos);
  EXPECT_NE(MessageOf("\"a\"b,1,2,3,4\n").find("behind the closing quote"), std::string::npos);
  EXPECT_NE(MessageOf("\"a\",1,2,3,4,5\n").find("found 6"), std::string::npos);
  EXPECT_EQ(MessageOf("a\n").find("stats.csv: line 1"), 0u);
}

TEST(NodeStats, AnyBytesEndInATableOrAnError) {
  const std::string alphabet = "a,\"\n\r#1";
  uint32_t random = 1;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (int i = 0; i < 24; ++i) {
      random = random * 1664525u + 1013904223u;
      text += alphabet[random >> 29 < 7 ? random >> 29 : 0];
    }
    try {
      const NodeStatsTable table = ParseNodeStats(text, "t");
      EXPECT_EQ(ParseNodeStats(FormatNodeStats(table, true), "t"), table);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kInvalidInput);
    }
  }
}

TEST(NodeStats, RunsAreMergedByTheLargestOfEachField) {
  NodeStatsRecorder recorder;
  recorder.Merge({{"a", {10, 1, 5, 7, 3}}, {"b", {1, 1, 1, 1, 1}}});
  recorder.Merge({{"a", {2, 8, 5, 9, 1}}, {"a", {1, 1, 6, 1, 1}}});
  const NodeStatsTable expected = {{"a", {10, 8, 6, 9, 3}}, {"b", {1, 1, 1, 1, 1}}};
  EXPECT_EQ(recorder.table(), expected);
}

TEST(NodeStats, FilesAreReplacedAsAWhole) {
  const std::string path = testing::TempDir() + "/node_stats_test.csv";
  const NodeStatsTable one = {{"x,y", {1, 2, 3, 4, 0}}}, two = {{"z", {5, 6, 7, 8, 0}}};
  WriteNodeStats(path, one, false);
  EXPECT_EQ(ReadNodeStats(path), one);
  WriteNodeStats(path, two, false);
  EXPECT_EQ(ReadNodeStats(path), two);
  std::filesystem::remove(path);
  EXPECT_THROW(ReadNodeStats(path), Error);
  EXPECT_THROW(WriteNodeStats(testing::TempDir() + "/no/such/folder/x.csv", one, false), Error);
}

}  // namespace
}  // namespace ullage::memory
