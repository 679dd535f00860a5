#include "gguf/gguf_file.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "gguf/test_writer.h"

namespace ullage::gguf {
namespace {

using W = TestWriter;

void ExpectBroken(const W& w, const std::vector<std::string>& parts, bool require_data = true) {
  ExpectError(Code::kInvalidModel, parts, [&] { w.Parse(require_data); });
}

W EveryType() {
  W w;
  w.Start(0, 17);
  w.Key("u8", ValueType::kUInt8).Put<uint8_t>(200);
  w.Key("i8", ValueType::kInt8).Put<int8_t>(-5);
  w.Key("u16", ValueType::kUInt16).Put<uint16_t>(60000);
  w.Key("i16", ValueType::kInt16).Put<int16_t>(-300);
  w.U32("u32", 4000000000u);
  w.Key("i32", ValueType::kInt32).Put<int32_t>(-7);
  w.F32("f32", 0.5f);
  w.Bool("yes", true).Bool("no", false);
  w.String("text", "caf\xc3\xa9");
  w.Key("u64", ValueType::kUInt64).Put<uint64_t>(1ull << 40);
  w.Key("big", ValueType::kUInt64).Put<uint64_t>(~0ull);
  w.Key("i64", ValueType::kInt64).Put<int64_t>(-(1ll << 40));
  w.Key("f64", ValueType::kFloat64).Put<double>(-0.25);
  w.Strings("words", {"a", "", "bc"});
  w.Array("shorts", ValueType::kInt16, 3).Put<int16_t>(1).Put<int16_t>(-2).Put<int16_t>(3);
  w.Array("doubles", ValueType::kFloat64, 2).Put(1.5).Put(-2.5);
  return w;
}

TEST(GgufFile, ReadsEveryValueType) {
  const auto f = EveryType().Parse();
  EXPECT_EQ(f->version(), 3u);
  EXPECT_EQ(f->metadata().size(), 17u);
  EXPECT_EQ(f->Int("u8"), 200);
  EXPECT_EQ(f->Int("i8"), -5);
  EXPECT_EQ(f->Int("u16"), 60000);
  EXPECT_EQ(f->Int("i16"), -300);
  EXPECT_EQ(f->Int("u32"), 4000000000);
  EXPECT_EQ(f->Int("i32"), -7);
  EXPECT_EQ(f->Int("u64"), 1ll << 40);
  EXPECT_EQ(f->Int("i64"), -(1ll << 40));
  EXPECT_EQ(f->Float("f32"), 0.5);
  EXPECT_EQ(f->Float("f64"), -0.25);
  EXPECT_EQ(f->Bool("yes"), true);
  EXPECT_EQ(f->Bool("no"), false);
  EXPECT_EQ(f->String("text"), "caf\xc3\xa9");
  EXPECT_EQ(f->Strings("words"), (std::vector<std::string_view>{"a", "", "bc"}));
  EXPECT_EQ(f->Ints("shorts"), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(f->Floats("doubles"), (std::vector<float>{1.5f, -2.5f}));
  EXPECT_EQ(f->Int("nothing"), std::nullopt);
  EXPECT_EQ(f->Strings("nothing"), std::nullopt);
}

TEST(GgufFile, RefusesValuesOfAnotherType) {
  const auto f = EveryType().Parse();
  const auto broken = [](const std::vector<std::string>& parts, const std::function<void()>& fn) {
    ExpectError(Code::kInvalidModel, parts, fn);
  };
  broken({"test.gguf", "key text", "expected an integer", "found string"}, [&] { f->Int("text"); });
  broken({"key yes", "expected an integer", "found bool"}, [&] { f->Int("yes"); });
  broken({"key big", "63 bits"}, [&] { f->Int("big"); });
  broken({"key u8", "expected a float"}, [&] { f->Float("u8"); });
  broken({"key u8", "expected a bool"}, [&] { f->Bool("u8"); });
  broken({"key words", "expected a string", "an array of 3 string"}, [&] { f->String("words"); });
  broken({"key words", "expected an array of integers"}, [&] { f->Ints("words"); });
  broken({"key shorts", "expected an array of floats"}, [&] { f->Floats("shorts"); });
  broken({"key shorts", "expected an array of strings"}, [&] { f->Strings("shorts"); });
  broken({"key f32", "expected an array of floats", "found float32"}, [&] { f->Floats("f32"); });
  broken({"general.architecture is missing"}, [&] { f->architecture(); });
}

TEST(GgufFile, NestedArraysAreSkippedUpToALimit) {
  W w;
  w.Start(0, 2).Array("nested", ValueType::kArray, 2);
  w.Put(static_cast<uint32_t>(ValueType::kUInt8)).Put<uint64_t>(2).Put<uint8_t>(1).Put<uint8_t>(2);
  w.Put(static_cast<uint32_t>(ValueType::kString)).Put<uint64_t>(1).Text("x");
  w.U32("after", 7);
  EXPECT_EQ(w.Parse()->Int("after"), 7);

  W deep;
  deep.Start(0, 1).Array("deep", ValueType::kArray, 1);
  for (int i = 0; i < 1000; ++i) deep.Put(static_cast<uint32_t>(ValueType::kArray)).Put<uint64_t>(1);
  ExpectBroken(deep, {"key deep", "nested deeper"});
}

TEST(GgufFile, ReadsTensors) {
  W w;
  w.Start(3, 1).U32("general.alignment", 64);
  w.Tensor("a", {3, 2}, 0, 0).Tensor("b", {64, 3}, 3, 64).Tensor("c", {5}, 1, 192);
  w.Data(202, 64);
  const auto f = w.Parse();
  EXPECT_EQ(f->alignment(), 64u);
  EXPECT_EQ(f->data_offset() % 64, 0u);
  const TensorInfo* a = f->FindTensor("a");
  ASSERT_TRUE(a);
  EXPECT_EQ(a->shape, (Shape{2, 3}));
  EXPECT_EQ(a->size_bytes, 24u);
  const auto ca = f->ConstantOf(*a);
  EXPECT_EQ(ca->dtype, DType::kFloat);
  EXPECT_EQ(ca->data()[0], std::byte{1});
  EXPECT_EQ(ca->file_offset, f->data_offset());
  EXPECT_EQ(ca->file, "test.gguf");
  const auto cb = f->ConstantOf(*f->FindTensor("b"));
  EXPECT_EQ(cb->dtype, DType::kUInt8);
  EXPECT_EQ(cb->block_type, "q4_1");
  EXPECT_EQ(cb->shape, (Shape{3, 64}));
  EXPECT_EQ(cb->size_bytes, 3u * 2 * 20);
  EXPECT_EQ(cb->data()[0], std::byte{65});
  const auto rows = f->RowsOf(*f->FindTensor("b"), 1, 2);
  EXPECT_EQ(rows->shape, (Shape{2, 64}));
  EXPECT_EQ(rows->size_bytes, 80u);
  EXPECT_EQ(rows->bytes, cb->bytes + 40);
  EXPECT_EQ(rows->file_offset, cb->file_offset + 40);
  EXPECT_THROW(f->RowsOf(*f->FindTensor("b"), 2, 2), Error);
  EXPECT_EQ(f->FindTensor("d"), nullptr);
}

TEST(GgufFile, ConstantsKeepTheirMemory) {
  W w;
  w.Start(1, 0).Tensor("a", {4}, 0, 0).Data(16);
  graph::ConstantPtr c;
  {
    const auto f = w.Parse();
    c = f->ConstantOf(f->tensors()[0]);
  }
  EXPECT_EQ(c->data()[15], std::byte{16});
}

TEST(GgufFile, PlansFromTheHeaderAlone) {
  W w;
  w.Start(2, 0).Tensor("a", {32}, 0, 0).Tensor("b", {32}, 0, 128);
  const size_t header = w.bytes.size();
  w.Data(256);
  W cut = w;
  cut.bytes.resize(header);
  ExpectBroken(cut, {"tensor a", "beyond the end of the file"});
  const auto f = cut.Parse(false);
  const auto c = f->ConstantOf(*f->FindTensor("b"));
  EXPECT_FALSE(c->available());
  EXPECT_EQ(c->size_bytes, 128u);
  ExpectError(Code::kInvalidModel, {"tensor b", "not in the file"}, [&] { c->data(); });
  // What lies inside the file is there.
  cut = w;
  cut.bytes.resize(w.bytes.size() - 1);
  const auto part = cut.Parse(false);
  EXPECT_TRUE(part->ConstantOf(*part->FindTensor("a"))->available());
  EXPECT_FALSE(part->ConstantOf(*part->FindTensor("b"))->available());
}

TEST(GgufFile, RefusesOtherFiles) {
  ExpectBroken(W().Put<uint32_t>(0x08074b50), {"not a GGUF file"});
  ExpectBroken(W(), {"not a GGUF file"});
  const auto unsupported = [](const W& w, const std::vector<std::string>& parts) {
    ExpectError(Code::kUnsupported, parts, [&] { w.Parse(); });
  };
  unsupported(W().Start(0, 0, 0x03000000), {"big-endian"});
  unsupported(W().Start(0, 0, 1), {"version 1"});
  unsupported(W().Start(0, 0, 4), {"version 4", "expected 2 or 3"});
  EXPECT_EQ(W().Start(0, 0, 2).Parse()->version(), 2u);
  unsupported(W().Start(1, 0).Tensor("t", {256}, 16, 0).Data(1), {"tensor t", "iq2_xxs", "(16)", "q4_k"});
  unsupported(W().Start(1, 0).Tensor("t", {256}, 39, 0).Data(1), {"tensor t", "mxfp4 (39)"});
  unsupported(W().Start(1, 0).Tensor("t", {256}, 1000, 0).Data(1), {"unknown (1000)"});
  unsupported(W().Start(0, 1).Key("split.count", ValueType::kUInt16).Put<uint16_t>(3),
              {"3 parts", "split.count"});
  EXPECT_NO_THROW(W().Start(0, 1).Key("split.count", ValueType::kUInt16).Put<uint16_t>(1).Parse());
}

TEST(GgufFile, RefusesLyingCounts) {
  const uint64_t huge = ~0ull;
  ExpectBroken(W().Start(huge, 0), {"tensors are announced", "at byte 8"});
  ExpectBroken(W().Start(0, huge), {"keys are announced", "at byte 16"});
  ExpectBroken(W().Start(0, 1).Put(huge).Put<uint64_t>(0), {"key 0 of 1", "ends inside a key"});
  ExpectBroken(W().Start(0, 1).Array("a", ValueType::kString, huge), {"key a", "strings are announced"});
  ExpectBroken(W().Start(0, 1).Array("a", ValueType::kArray, huge), {"key a", "arrays are announced"});
  ExpectBroken(W().Start(0, 1).Array("a", ValueType::kFloat64, huge / 8 + 2),
               {"key a", "ends inside a value"});
  ExpectBroken(W().Start(0, 1).Key("s", ValueType::kString).Put(huge), {"key s", "ends inside a string"});
  ExpectBroken(W().Start(0, 1).Text("k").Put<uint32_t>(13).Put<uint32_t>(0),
               {"key k", "unknown value type 13"});
  ExpectBroken(W().Start(0, 1).Key("b", ValueType::kBool).Put<uint8_t>(2), {"key b", "a bool is 2"});
  ExpectBroken(W().Start(0, 1).Text("").Put<uint32_t>(0).Put<uint32_t>(0), {"a key is empty"});
  ExpectBroken(W().Start(0, 2).U32("k", 1).U32("k", 2), {"key k", "twice"});
}

TEST(GgufFile, RefusesBrokenTensors) {
  ExpectBroken(W().Start(2, 0).Tensor("t", {1}, 0, 0).Tensor("t", {1}, 0, 32).Data(64),
               {"tensor t", "twice"});
  ExpectBroken(W().Start(1, 0).Tensor("", {1}, 0, 0).Data(4), {"name is empty"});
  ExpectBroken(W().Start(1, 0).Tensor("t", {1, 1, 1, 1, 1}, 0, 0).Data(4), {"tensor t", "5 dimensions"});
  ExpectBroken(W().Start(1, 0).Tensor("t", {4, 0}, 0, 0).Data(4), {"tensor t", "dimension 1 is 0"});
  ExpectBroken(W().Start(1, 0).Tensor("t", {1ull << 63}, 0, 0).Data(4), {"tensor t", "dimension 0"});
  ExpectBroken(W().Start(1, 0).Tensor("t", {1ull << 40, 1ull << 40}, 0, 0).Data(4), {"tensor t", "overflows"},
               false);
  ExpectBroken(W().Start(1, 0).Tensor("t", {1ull << 62}, 0, 0).Data(4), {"tensor t", "overflows"}, false);
  ExpectBroken(W().Start(1, 0).Tensor("t", {33}, 2, 0).Data(99),
               {"tensor t", "33 elements", "q4_0 blocks of 32"});
  ExpectBroken(W().Start(1, 0).Tensor("t", {8}, 0, 0).Data(31), {"tensor t", "beyond the end"});
  ExpectBroken(W().Start(1, 0).Tensor("t", {8}, 0, 33).Data(99), {"tensor t", "offset 33", "alignment 32"});
  ExpectBroken(W().Start(1, 0).Tensor("t", {8}, 0, ~0ull - 31).Data(32), {"tensor t", "overflows"}, false);
  ExpectBroken(W().Start(2, 0).Tensor("t", {16}, 0, 0).Tensor("u", {8}, 0, 32).Data(64),
               {"tensor u", "overlap", "t"});
  ExpectBroken(W().Start(0, 1).U32("general.alignment", 48), {"general.alignment", "power of two", "48"});
  ExpectBroken(W().Start(0, 1).U32("general.alignment", 0), {"general.alignment", "found 0"});
  ExpectBroken(W().Start(0, 1).F32("general.alignment", 32), {"general.alignment", "expected an integer"});
}

TEST(GgufFile, EveryTruncationIsAnErrorOrPlans) {
  W w = EveryType();
  w.bytes[8] = std::byte{2};  // tensors
  w.Tensor("a", {32, 2}, 8, 0).Tensor("b", {4}, 0, 96);
  const size_t header = w.bytes.size();
  w.Data(112);
  EXPECT_NO_THROW(w.Parse());
  for (size_t size = 0; size < w.bytes.size(); ++size) {
    W cut = w;
    cut.bytes.resize(size);
    EXPECT_THROW(cut.Parse(), Error) << size;
    if (size < header) {
      EXPECT_THROW(cut.Parse(false), Error) << size;
    } else {
      EXPECT_NO_THROW(cut.Parse(false)) << size;
    }
  }
}

TEST(GgufFile, EveryFlippedBitIsHandled) {
  W w = EveryType();
  w.bytes[8] = std::byte{2};
  w.Tensor("a", {32, 2}, 8, 0).Tensor("b", {4}, 0, 96);
  const size_t header = w.bytes.size();
  w.Data(112);
  int refused = 0;
  for (size_t bit = 0; bit < header * 8; ++bit) {
    W flipped = w;
    flipped.bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    for (bool require_data : {true, false}) {
      try {
        const auto f = flipped.Parse(require_data);
        for (const auto& t : f->tensors()) f->ConstantOf(t);
        for (const auto& v : f->metadata())
          if (v.is_array() && v.element == ValueType::kString) f->Strings(v.key);
      } catch (const Error& e) {
        ++refused;
        EXPECT_NE(e.message().find("test.gguf"), std::string::npos) << e.what();
      }
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(GgufFile, NamesArePrintedSafely) {
  EXPECT_EQ(Printable("blk.0"), "blk.0");
  EXPECT_EQ(Printable("a\n\x1b\xff\\"), "a\\x0a\\x1b\\xff\\x5c");
  EXPECT_EQ(Printable(std::string(1000, 'x')).size(), 83u);
  ExpectBroken(W().Start(0, 2).U32("k\n", 1).U32("k\n", 2), {"key k\\x0a"});
}

TEST(GgufFile, OpenNamesTheFile) {
  ExpectError(Code::kInvalidModel, {"/nonexistent/model.gguf"},
              [] { GgufFile::Open("/nonexistent/model.gguf"); });
}

}  // namespace
}  // namespace ullage::gguf
