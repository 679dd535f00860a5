// External data: where it may lie, what may be missing.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "onnx/import.h"
#include "onnx/test_proto.h"

namespace ullage::onnx {
namespace {

namespace fs = std::filesystem;
using test::ErrorOf;
using test::ExternalTensor;
using test::GraphMsg;
using test::ModelMsg;
using test::ModelPath;
using test::TempFolder;

const graph::Constant& Named(const graph::Graph& g, const std::string& name) {
  return *g.value(g.FindValue(name)).constant;
}

void CopyModel(const TempFolder& to, std::initializer_list<const char*> files) {
  for (const char* f : files) fs::copy_file(ModelPath(f), to / f);
}

TEST(External, SeveralFilesOddOffsetsMissingLength) {
  const auto g = ImportOnnx(ModelPath("external.onnx"));
  const std::string part0 = ReadFile(ModelPath("part0.bin"));
  const std::string part2 = ReadFile(ModelPath("part2.bin"));
  const auto& a = Named(*g, "a");
  EXPECT_EQ(a.file_offset, 3u);
  EXPECT_EQ(a.size_bytes, 40u * 32 * 4);
  EXPECT_EQ(std::memcmp(a.data().data(), part0.data() + 3, a.size_bytes), 0);
  EXPECT_NE(reinterpret_cast<uintptr_t>(a.bytes) % 4, 0u);  // a view, misaligned as the file says
  for (const double d : a.AsDoubles()) EXPECT_TRUE(d >= -9 && d < 9 && d == static_cast<int>(d));
  const auto& c = Named(*g, "c");
  EXPECT_EQ(std::memcmp(c.data().data(), part2.data() + 17, c.size_bytes), 0);
  EXPECT_EQ(std::memcmp(Named(*g, "d_out").data().data(), part0.data() + 3 + 5120, 16), 0);
  const auto sub = g->node(0).Subgraph("then_branch");
  EXPECT_EQ(std::memcmp(Named(*sub, "e").data().data(), part2.data() + 17 + 4800, 20), 0);
  EXPECT_EQ(Named(*g, "/model/constants/INT64/[1]").AsInts(), std::vector<int64_t>{1});
}

TEST(External, DataStayMappedWhileAConstantLives) {
  TempFolder folder;
  CopyModel(folder, {"external.onnx", "part0.bin", "part1.bin", "part2.bin"});
  graph::ConstantPtr a;
  {
    const auto g = ImportOnnx(folder / "external.onnx");
    a = g->value(g->FindValue("a")).constant;
  }
  fs::remove(folder / "part0.bin");
  const std::string part0 = ReadFile(ModelPath("part0.bin"));
  EXPECT_EQ(std::memcmp(a->data().data(), part0.data() + 3, a->size_bytes), 0);
}

TEST(External, MissingFilesFailOrAreAbsent) {
  TempFolder folder;
  CopyModel(folder, {"external.onnx", "part2.bin"});
  const std::string message = ErrorOf([&] { ImportOnnx(folder / "external.onnx"); });
  EXPECT_NE(message.find(folder / "external.onnx"), std::string::npos) << message;
  EXPECT_NE(message.find("tensor a"), std::string::npos) << message;
  EXPECT_NE(message.find("part0.bin: the file is missing"), std::string::npos) << message;

  const auto g = ImportOnnx(folder / "external.onnx", {.require_data = false});
  const auto& a = Named(*g, "a");
  EXPECT_FALSE(a.available());
  EXPECT_EQ(a.shape, Shape({40, 32}));
  EXPECT_EQ(a.size_bytes, 5120u);
  EXPECT_NE(ErrorOf([&] { a.data(); }).find("invalid_model: "), std::string::npos);
  EXPECT_NE(a.absent.find("tensor a"), std::string::npos);
  EXPECT_NE(a.absent.find("part0.bin"), std::string::npos);
  EXPECT_TRUE(Named(*g, "c").available());
  EXPECT_EQ(Named(*g, "/model/constants/INT64/[1]").AsInts(), std::vector<int64_t>{1});
  EXPECT_EQ(Named(*g, "/model/constants/TensorProto.INT32/0D/2").AsInts(), std::vector<int64_t>{2});
}

TEST(External, TruncatedAndSparseFiles) {
  TempFolder folder;
  CopyModel(folder, {"external.onnx", "part0.bin", "part1.bin", "part2.bin"});
  fs::resize_file(folder / "part0.bin", 5122);
  const std::string message = ErrorOf([&] { ImportOnnx(folder / "external.onnx"); });
  EXPECT_NE(message.find("it has 5122 bytes, the tensor lies at 3 + 5120"), std::string::npos) << message;
  EXPECT_FALSE(Named(*ImportOnnx(folder / "external.onnx", {.require_data = false}), "a").available());
  // A file of holes: what names state is believed when planning only.
  fs::resize_file(folder / "part1.bin", 0);
  fs::resize_file(folder / "part1.bin", 24);
  fs::resize_file(folder / "part0.bin", 5139);
  EXPECT_EQ(Named(*ImportOnnx(folder / "external.onnx"), "/model/constants/INT64/[1]").AsInts(),
            std::vector<int64_t>{0});
  EXPECT_EQ(
      Named(*ImportOnnx(folder / "external.onnx", {.require_data = false}), "/model/constants/INT64/[1]")
          .AsInts(),
      std::vector<int64_t>{1});
}

TEST(External, ModelsAboveTwoGigabytes) {
  TempFolder folder;
  const uint64_t offset = (uint64_t{5} << 30) + 1;
  folder.Write("w.bin", "");
  fs::resize_file(folder / "w.bin", offset);  // a hole
  {
    std::ofstream out(folder / "w.bin", std::ios::binary | std::ios::app);
    const std::vector<float> values(2000, 2.5f);
    out.write(reinterpret_cast<const char*>(values.data()), 8000);
  }
  folder.Write(
      "m.onnx",
      ModelMsg(GraphMsg(
          {{},
           {ExternalTensor("w", {2000},
                           {{"location", "w.bin"}, {"offset", std::to_string(offset)}, {"length", "8000"}})},
           {},
           {"w"}})));
  EXPECT_EQ(Named(*ImportOnnx(folder / "m.onnx"), "w").AsDoubles()[1999], 2.5);
}

// A graph field of more than 2 GiB, embedded weights and all; the file is a hole with its ends written.
TEST(External, EmbeddedDataAboveFourGigabytes) {
  TempFolder folder;
  const uint64_t raw = (uint64_t{4} << 30) + 4096;
  const auto varint = [](uint64_t v) {
    std::string s;
    for (; v >= 0x80; v >>= 7) s += static_cast<char>(0x80 | (v & 0x7f));
    return s + static_cast<char>(v);
  };
  std::string tensor_head;
  {
    test::Writer w(tensor_head);
    w.add_int64(1, static_cast<int64_t>(raw));
    w.add_int32(2, 2);
    w.add_string(8, "w");
  }
  tensor_head += std::string(1, 9 << 3 | 2) + varint(raw);
  std::string graph_head = std::string(1, 5 << 3 | 2) + varint(tensor_head.size() + raw) + tensor_head;
  const std::string tail = GraphMsg({{}, {}, {}, {"w"}});
  std::string head = std::string(1, 7 << 3 | 2) + varint(graph_head.size() + raw + tail.size()) + graph_head;
  folder.Write("m.onnx", head);
  fs::resize_file(folder / "m.onnx", head.size() + raw - 1);
  std::ofstream(folder / "m.onnx", std::ios::binary | std::ios::app) << '\x2a' << tail;
  const auto g = ImportOnnx(folder / "m.onnx");
  EXPECT_EQ(Named(*g, "w").size_bytes, raw);
  EXPECT_EQ(Named(*g, "w").bytes[raw - 1], std::byte{0x2a});
  EXPECT_EQ(Named(*g, "w").bytes[raw / 2], std::byte{0});
}

TEST(External, HubCachesOfLinks) {
  TempFolder folder;
  fs::create_directories(folder / "snapshots/1/onnx");
  folder.Write("blobs/aa", ReadFile(ModelPath("external.onnx")));
  for (const char* part : {"part0.bin", "part1.bin", "part2.bin"}) {
    folder.Write(std::string("blobs/") + part, ReadFile(ModelPath(part)));
    fs::create_symlink(std::string("../../../blobs/") + part,
                       folder / ("snapshots/1/onnx/" + std::string(part)));
  }
  fs::create_symlink("../../../blobs/aa", folder / "snapshots/1/onnx/model.onnx");
  const auto g = ImportOnnx(folder / "snapshots/1/onnx/model.onnx");
  EXPECT_TRUE(Named(*g, "a").available());
}

std::string LocationFault(const TempFolder& folder, const std::string& location, bool require_data = true) {
  folder.Write("m.onnx",
               ModelMsg(GraphMsg({{}, {ExternalTensor("w", {1}, {{"location", location}})}, {}, {"w"}})));
  return ErrorOf([&] { ImportOnnx(folder / "m.onnx", {.require_data = require_data}); });
}

TEST(External, LocationsThatAreRefused) {
  TempFolder folder;
  folder.Write("sub/w.bin", "1234");
  folder.Write("w.bin", "1234");
  fs::create_directory_symlink("/", folder / "away");
  fs::create_directory_symlink("sub", folder / "near");
  EXPECT_EQ(LocationFault(folder, "w.bin"), "");
  EXPECT_EQ(LocationFault(folder, "./w.bin"), "");
  EXPECT_EQ(LocationFault(folder, "sub/w.bin"), "");
  EXPECT_EQ(LocationFault(folder, "near/w.bin"), "");
  for (const bool require_data : {true, false}) {
    EXPECT_NE(LocationFault(folder, "/etc/hostname", require_data).find("is absolute"), std::string::npos);
    EXPECT_NE(LocationFault(folder, "../w.bin", require_data).find("leads out of"), std::string::npos);
    EXPECT_NE(LocationFault(folder, "sub/../w.bin", require_data).find("leads out of"), std::string::npos);
    EXPECT_NE(LocationFault(folder, "away/etc/hostname", require_data).find("through a link"),
              std::string::npos);
    EXPECT_NE(LocationFault(folder, std::string("w.bin\0x", 7), require_data).find("NUL"), std::string::npos);
    EXPECT_NE(LocationFault(folder, "", require_data).find("no location"), std::string::npos);
  }
  EXPECT_NE(LocationFault(folder, "sub").find("not a regular file"), std::string::npos);
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_NE(LocationFault(folder, "pipe").find("not a regular file"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { ImportOnnx(folder / "pipe"); }).find("is not a regular file"), std::string::npos);
}

TEST(External, BrokenEntries) {
  TempFolder folder;
  folder.Write("w.bin", "12345678");
  const auto fault = [&](const std::vector<std::pair<std::string, std::string>>& entries) {
    folder.Write("m.onnx", ModelMsg(GraphMsg({{}, {ExternalTensor("w", {1}, entries)}, {}, {"w"}})));
    return ErrorOf([&] { ImportOnnx(folder / "m.onnx"); });
  };
  EXPECT_EQ(fault({{"location", "w.bin"}, {"checksum", "whatever"}, {"other", "?"}, {"offset", "4"}}), "");
  EXPECT_NE(fault({{"location", "w.bin"}, {"offset", "-4"}}).find("offset is \"-4\""), std::string::npos);
  EXPECT_NE(fault({{"location", "w.bin"}, {"offset", "99999999999999999999"}}).find("expected a number"),
            std::string::npos);
  EXPECT_NE(fault({{"location", "w.bin"}, {"offset", "18446744073709551615"}}).find("it has 8 bytes"),
            std::string::npos);
  EXPECT_NE(fault({{"location", "w.bin"}, {"length", "5"}})
                .find("external length is 5 bytes; shape [1] of float32 needs 4"),
            std::string::npos);
  EXPECT_NE(fault({{"location", "w.bin"}, {"offset", ""}}).find("offset is empty"), std::string::npos);
  EXPECT_NE(fault({}).find("names no location"), std::string::npos);
}

}  // namespace
}  // namespace ullage::onnx
