// Broken files: every truncation and many flipped bits end in a graph that verifies, or in an Error. Nothing
// else.
#include <gtest/gtest.h>

#include <random>

#include "onnx/import.h"
#include "onnx/test_proto.h"

namespace ullage::onnx {
namespace {

using test::ModelPath;

/// Throws whatever is no Error.
bool Survives(const std::string& bytes, bool require_data) {
  ImportOptions options;
  options.require_data = require_data;
  options.max_inlined_nodes = 5000;
  try {
    const auto g = test::Import(bytes, options, std::string(ULLAGE_SOURCE_DIR) + "/tests/onnx/models");
    graph::Dump(*g);
    return true;
  } catch (const Error& e) {
    EXPECT_FALSE(e.message().empty());
    return false;
  }
}

std::vector<std::string> Models() {
  std::vector<std::string> models;
  for (const char* name : {"types", "constants", "legacy", "odd", "subgraphs", "functions", "external"})
    models.push_back(ModelPath(std::string(name) + ".onnx"));
  const char* shared = std::getenv("ULLAGE_SHARED");
  const std::string zoo =
      (shared ? std::string(shared) : std::string(ULLAGE_SOURCE_DIR) + "/../shared") + "/data/zoo/";
  for (const char* name :
       {"ts-control-op16", "dynamo-cond-op20", "genai-llama-int4-cpu", "genai-phi3longrope-int4-cpu"})
    if (const std::string path = zoo + name + "/model.onnx"; std::filesystem::exists(path))
      models.push_back(path);
  return models;
}

TEST(Corrupt, EveryTruncation) {
  for (const auto& path : Models()) {
    SCOPED_TRACE(path);
    const std::string whole = ReadFile(path);
    ASSERT_FALSE(whole.empty());
    EXPECT_TRUE(Survives(whole, false));
    const size_t step = std::max<size_t>(1, whole.size() / 2000);
    size_t failures = 0, cuts = 0;
    for (size_t size = 0; size < whole.size(); size += step, ++cuts)
      failures += !Survives(whole.substr(0, size), size % 2 == 0);
    EXPECT_GE(failures + 100, cuts);  // only a cut between fields of the model may go unnoticed
  }
}

TEST(Corrupt, FlippedBitsAndOverwrittenBytes) {
  std::mt19937 random(1);
  for (const auto& path : Models()) {
    SCOPED_TRACE(path);
    const std::string whole = ReadFile(path);
    for (int round = 0; round < 1000; ++round) {
      std::string broken = whole;
      const int changes = 1 + static_cast<int>(random() % 3);
      for (int i = 0; i < changes; ++i) {
        char& c = broken[random() % broken.size()];
        switch (random() % 3) {
          case 0:
            c = static_cast<char>(c ^ (1 << random() % 8));
            break;
          case 1:
            c = static_cast<char>(random());
            break;
          default:
            c = '\xff';
        }
      }
      Survives(broken, round % 2 == 0);
    }
  }
}

TEST(Corrupt, WireFaultsNameFieldAndByte) {
  const auto fault = [](const std::string& bytes) { return test::ErrorOf([&] { test::Import(bytes); }); };
  EXPECT_EQ(fault("\x3a\x05x"),
            "invalid_model: test.onnx: ModelProto at byte 0: field 7 claims 5 bytes, but only 1 are left");
  EXPECT_EQ(fault("\x08\x0a\x38\x01"),
            "invalid_model: test.onnx: ModelProto at byte 2: field 7 (graph) is a varint; expected bytes");
  EXPECT_NE(fault("\x08").find("ModelProto at byte 0: broken varint in field 1"), std::string::npos);
  EXPECT_NE(fault(std::string(11, '\xff')).find("broken varint"), std::string::npos);
  EXPECT_NE(fault("\x03").find("field number 0"), std::string::npos);
  EXPECT_NE(fault("\x0b").find("wire type 3"), std::string::npos);
  // A length that wraps around in 32 bits.
  EXPECT_NE(fault("\x3a\x80\x80\x80\x80\x10").find("claims 4294967296 bytes"), std::string::npos);
}

TEST(Corrupt, TypesNestedDeeply) {
  std::string type;
  for (int i = 0; i < 10000; ++i)
    type = test::Msg([&](test::Writer& w) {
      w.add_message(4, test::Msg([&](test::Writer& s) { s.add_message(1, type); }));
    });
  const std::string input = test::Msg([&](test::Writer& w) {
    w.add_string(1, "x");
    w.add_message(2, type);
  });
  const std::string graph = test::Msg([&](test::Writer& w) { w.add_message(11, input); });
  EXPECT_NE(
      test::ErrorOf([&] { test::Import(test::ModelMsg(graph)); }).find("types nested more than 16 deep"),
      std::string::npos);
}

TEST(Corrupt, CapturesThatMultiply) {
  // Many values read at the bottom of deep nesting, with sixteen sub-graphs at every level.
  std::vector<std::string> reads;
  for (int i = 0; i < 2000; ++i) reads.push_back("v" + std::to_string(i));
  std::string g = test::GraphMsg({{test::NodeMsg("Sum", reads, {"o"})}, {}, {}, {"o"}});
  const std::string other = test::GraphMsg({{}, {}, {}, {"v0"}});
  for (int level = 0; level < 40; ++level) {
    std::vector<std::string> attributes{test::GraphAttribute("a0", g)};
    for (int i = 1; i < 16; ++i) attributes.push_back(test::GraphAttribute("a" + std::to_string(i), other));
    g = test::GraphMsg({{test::NodeMsg("If", {}, {"o"}, "n", attributes)}, {}, {}, {"o"}});
  }
  const std::string graph = test::Msg([&](test::Writer& w) {
    w.add_message(1, test::NodeMsg("If", {}, {"y"}, "n", {test::GraphAttribute("a", g)}));
    for (const auto& r : reads) w.add_message(11, test::ValueInfoMsg(r));
    w.add_message(12, test::ValueInfoMsg("y"));
  });
  EXPECT_NE(
      test::ErrorOf([&] { test::Import(test::ModelMsg(graph)); }).find("read more than 500000 outer values"),
      std::string::npos);
}

}  // namespace
}  // namespace ullage::onnx
