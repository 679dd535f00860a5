// Models written by real exporters, against what the onnx package sees in them (tests/onnx/zoo_counts.tsv).
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "onnx/import.h"

namespace ullage::onnx {
namespace {

namespace fs = std::filesystem;
using graph::Graph;
using graph::Node;

std::string ZooFolder() {
  const char* shared = std::getenv("ULLAGE_SHARED");
  return (shared ? std::string(shared) : std::string(ULLAGE_SOURCE_DIR) + "/../shared") + "/data/zoo";
}

uint32_t Crc32(uint32_t crc, std::span<const std::byte> bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = (c & 1) ? 0xedb88320u ^ (c >> 1) : c >> 1;
      t[i] = c;
    }
    return t;
  }();
  crc = ~crc;
  for (const std::byte b : bytes) crc = table[(crc ^ std::to_integer<uint32_t>(b)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

struct Row {
  std::string path;
  size_t nodes = 0, constants = 0, captures = 0, inputs = 0, outputs = 0;
  uint32_t crc = 0;
  std::string ops;
};

std::vector<Row> Rows() {
  std::vector<Row> rows;
  std::ifstream file(std::string(ULLAGE_SOURCE_DIR) + "/tests/onnx/zoo_counts.tsv");
  std::string line;
  while (std::getline(file, line)) {
    Row r;
    std::istringstream in(line);
    std::string crc;
    std::getline(in, r.path, '\t');
    in >> r.nodes >> r.constants >> r.captures >> r.inputs >> r.outputs >> crc;
    in.ignore(1);
    std::getline(in, r.ops);
    r.crc = static_cast<uint32_t>(std::stoul(crc, nullptr, 16));
    rows.push_back(r);
  }
  return rows;
}

template <class Fn>
void ForEachNode(const Graph& g, const Fn& fn) {
  for (const auto id : g.Order()) {
    const Node& n = g.node(id);
    fn(n);
    for (const auto& [key, a] : n.attributes)
      if (const auto* sub = std::get_if<std::shared_ptr<Graph>>(&a)) ForEachNode(**sub, fn);
  }
}

TEST(OnnxZoo, AgreesWithTheOnnxPackage) {
  const auto rows = Rows();
  ASSERT_GT(rows.size(), 100u);
  if (!fs::exists(ZooFolder())) GTEST_SKIP() << "no exported models at " << ZooFolder();
  for (const Row& row : rows) {
    SCOPED_TRACE(row.path);
    const auto g = ImportOnnx(ZooFolder() + "/" + row.path);
    std::map<std::string, size_t> histogram;
    size_t nodes = 0, captures = 0;
    ForEachNode(*g, [&](const Node& n) {
      ++nodes;
      ++histogram[n.OpName()];
      captures += n.captures.size();
      EXPECT_FALSE(n.name.empty());
      EXPECT_GT(n.opset, 0);
    });
    std::string ops;
    for (const auto& [op, count] : histogram)
      ops += (ops.empty() ? "" : " ") + op + ":" + std::to_string(count);
    EXPECT_EQ(ops, row.ops);
    EXPECT_EQ(nodes, row.nodes);
    EXPECT_EQ(captures, row.captures);
    EXPECT_EQ(g->inputs.size(), row.inputs);
    EXPECT_EQ(g->outputs.size(), row.outputs);
  }
}

// The bytes of initializers and Constant nodes, wherever they lie.
TEST(OnnxZoo, ConstantsHoldTheBytesOfTheFile) {
  if (!fs::exists(ZooFolder())) GTEST_SKIP() << "no exported models at " << ZooFolder();
  for (const Row& row : Rows()) {
    SCOPED_TRACE(row.path);
    const auto g = ImportOnnx(ZooFolder() + "/" + row.path);
    std::map<std::string, graph::ConstantPtr> constants;
    for (size_t i = 0; i < g->value_count(); ++i) {
      const auto& v = g->value(static_cast<graph::ValueId>(i));
      if (v.constant) constants[v.name] = v.constant;
    }
    uint32_t crc = 0;
    for (const auto& [name, c] : constants) crc = Crc32(crc, c->data());
    EXPECT_EQ(crc, row.crc);
  }
}

// Planning from the .onnx files alone: every constant keeps type and shape, and those whose values are needed
// for shapes have them.
TEST(OnnxZoo, PlansWithoutWeightFiles) {
  if (!fs::exists(ZooFolder())) GTEST_SKIP() << "no exported models at " << ZooFolder();
  const fs::path folder = fs::temp_directory_path() / ("ullage_zoo_plan_" + std::to_string(getpid()));
  fs::create_directories(folder);
  size_t compared = 0, absent = 0;
  for (const Row& row : Rows()) {
    if (row.path.rfind("genai", 0) != 0) continue;
    SCOPED_TRACE(row.path);
    const auto full = ImportOnnx(ZooFolder() + "/" + row.path);
    const fs::path alone = folder / "model.onnx";
    fs::copy_file(ZooFolder() + "/" + row.path, alone, fs::copy_options::overwrite_existing);
    const auto plan = ImportOnnx(alone.string(), {.require_data = false});
    ASSERT_EQ(plan->value_count(), full->value_count());
    for (size_t i = 0; i < plan->value_count(); ++i) {
      const auto& a = plan->value(static_cast<graph::ValueId>(i));
      const auto& b = full->value(static_cast<graph::ValueId>(i));
      ASSERT_EQ(a.constant == nullptr, b.constant == nullptr);
      if (!a.constant) continue;
      EXPECT_EQ(a.constant->shape, b.constant->shape);
      EXPECT_EQ(a.constant->dtype, b.constant->dtype);
      EXPECT_EQ(a.constant->size_bytes, b.constant->size_bytes);
      if (a.name.find("/constants/") != std::string::npos) {
        EXPECT_TRUE(a.constant->available()) << a.name;
      }
      if (!a.constant->available()) {
        EXPECT_NE(a.constant->absent.find(".onnx.data"), std::string::npos);
        ++absent;
        continue;
      }
      ++compared;
      const auto x = a.constant->data(), y = b.constant->data();
      EXPECT_TRUE(std::equal(x.begin(), x.end(), y.begin(), y.end())) << a.name;
    }
  }
  fs::remove_all(folder);
  EXPECT_GT(compared, 100u);
  EXPECT_GT(absent, 1000u);
}

}  // namespace
}  // namespace ullage::onnx
