// Tensors of every element type and every encoding, sparse ones, strings, and the faults they can have.
#include "onnx/tensor_pb.h"

#include <gtest/gtest.h>

#include "onnx/test_proto.h"

namespace ullage::onnx {
namespace {

using test::AsBytes;
using test::ErrorOf;
using test::Msg;
using test::TensorMsg;
using test::Writer;
using ::testing::Test;

graph::ConstantPtr Read(const std::string& message) {
  const Source source{"t.pb", AsBytes(message), nullptr, Code::kInvalidModel};
  return MakeTensor(ParseTensor(Message(source, "TensorProto")), "", {});
}

std::string Fault(const std::string& message) {
  return ErrorOf([&] { Read(message); });
}

const graph::Constant& Named(const graph::Graph& g, const std::string& name) {
  const graph::ValueId id = g.FindValue(name);
  EXPECT_NE(id, graph::kNone) << name;
  EXPECT_NE(g.value(id).constant, nullptr) << name;
  return *g.value(id).constant;
}

template <class T>
std::vector<T> Values(const graph::Constant& c) {
  const auto data = c.data();
  std::vector<T> out(data.size() / sizeof(T));
  std::memcpy(out.data(), data.data(), data.size());
  return out;
}

// raw_data as numpy writes it is the reference for the typed fields.
TEST(TensorPb, TypedFieldsEqualRawDataForEveryType) {
  const auto g = ImportOnnx(test::ModelPath("types.onnx"));
  int types = 0;
  for (size_t i = 0; i < g->value_count(); ++i) {
    const auto& v = g->value(static_cast<graph::ValueId>(i));
    if (v.name.rfind("typed_", 0) != 0) continue;
    ++types;
    const auto& raw = Named(*g, "raw_" + v.name.substr(6));
    EXPECT_EQ(v.constant->dtype, raw.dtype) << v.name;
    EXPECT_EQ(v.constant->shape, raw.shape) << v.name;
    EXPECT_EQ(Values<uint8_t>(*v.constant), Values<uint8_t>(raw)) << v.name;
    EXPECT_EQ(raw.size_bytes, BytesOf(raw.dtype, raw.elements()));
  }
  EXPECT_EQ(types, 25);
  EXPECT_EQ(Values<float>(Named(*g, "typed_FLOAT"))[2], 3.25f);
  EXPECT_EQ(Named(*g, "typed_INT64").AsInts(), (std::vector<int64_t>{0, INT64_MIN, INT64_MAX, 7}));
  EXPECT_EQ(Named(*g, "typed_FLOAT16").AsDoubles()[3], 65504.0);
  EXPECT_EQ(Values<uint8_t>(Named(*g, "typed_INT4")), (std::vector<uint8_t>{0x10, 0x8f, 0x07}));
}

TEST(TensorPb, StringsEmptyScalarAndSparse) {
  const auto g = ImportOnnx(test::ModelPath("types.onnx"));
  const auto& strings = Named(*g, "strings");
  EXPECT_EQ(strings.dtype, DType::kString);
  ASSERT_EQ(strings.size_bytes, 4 * sizeof(std::string));
  const auto* s = reinterpret_cast<const std::string*>(strings.data().data());
  EXPECT_EQ(s[1], "one");
  EXPECT_EQ(s[3], std::string("\0\xff", 2));
  EXPECT_TRUE(Named(*g, "no_strings").data().empty());
  EXPECT_EQ(Named(*g, "empty").shape, Shape({0, 3}));
  EXPECT_EQ(Named(*g, "scalar").shape, Shape());
  EXPECT_EQ(Named(*g, "scalar").AsDoubles(), std::vector<double>{4.5});
  const std::vector<float> dense{0, 1.5f, 0, 0, 0, 2.5f, 0, 0, 0, 0, 0, 3.5f};
  EXPECT_EQ(Values<float>(Named(*g, "sparse_linear")), dense);
  EXPECT_EQ(Values<float>(Named(*g, "sparse_pairs")), dense);
  EXPECT_EQ(Named(*g, "sparse_pairs").shape, Shape({3, 4}));
  EXPECT_EQ(Values<uint8_t>(Named(*g, "sparse_int4")), (std::vector<uint8_t>{0x01, 0xe0, 0x03}));
}

TEST(TensorPb, LargeTensorsAreViewsSmallOnesAreAligned) {
  const auto g = ImportOnnx(test::ModelPath("types.onnx"));
  const auto& large = Named(*g, "large");
  EXPECT_EQ(large.size_bytes, 8000u);
  EXPECT_EQ(large.file, test::ModelPath("types.onnx"));
  const std::string file = ReadFile(large.file);
  EXPECT_EQ(std::memcmp(file.data() + large.file_offset, large.data().data(), large.size_bytes), 0);
  EXPECT_EQ(large.AsDoubles()[1999], 1999.0);
  const auto& small = Named(*g, "raw_DOUBLE");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(small.bytes) % alignof(double), 0u);
}

TEST(TensorPb, UnpackedAndSplitTypedFields) {
  const auto unpacked = Read(TensorMsg("t", {3}, 7, [](Writer& w) {
    w.add_int64(7, -1);
    const std::vector<int64_t> two{5, INT64_MAX};
    w.add_packed_int64(7, two.begin(), two.end());
  }));
  EXPECT_EQ(unpacked->AsInts(), (std::vector<int64_t>{-1, 5, INT64_MAX}));
  const auto floats = Read(TensorMsg("t", {2}, 1, [](Writer& w) {
    w.add_float(4, 1.5f);
    w.add_float(4, -2.5f);
  }));
  EXPECT_EQ(floats->AsDoubles(), (std::vector<double>{1.5, -2.5}));
  // The type may come after the data.
  const auto late = Read(Msg([](Writer& w) {
    w.add_int32(5, 300);
    w.add_int32(2, 5);
    w.add_int64(1, 1);
  }));
  EXPECT_EQ(late->dtype, DType::kInt16);
  EXPECT_EQ(late->AsInts(), std::vector<int64_t>{300});
}

TEST(TensorPb, FaultsNameFileTensorAndSizes) {
  const auto nothing = [](Writer&) {};
  EXPECT_EQ(Fault(TensorMsg("w", {2, 3}, 1, nothing)),
            "invalid_model: t.pb: tensor w: float_data holds 0 values; shape [2,3] of float32 needs 6");
  EXPECT_EQ(Fault(TensorMsg("w", {2}, 1, [](Writer& w) { w.add_bytes(9, "1234567"); })),
            "invalid_model: t.pb: tensor w: raw_data has 7 bytes; shape [2] of float32 needs 8");
  EXPECT_EQ(Fault(TensorMsg("w", {-4}, 1, nothing)),
            "invalid_model: t.pb: tensor w: dimension -4 in shape [-4]");
  EXPECT_NE(
      Fault(TensorMsg("w", {int64_t{1} << 62, 4}, 1, nothing)).find("more elements than can be counted"),
      std::string::npos);
  EXPECT_NE(Fault(TensorMsg("w", {int64_t{1} << 62}, 1, nothing)).find("more bytes than can be counted"),
            std::string::npos);
  EXPECT_NE(Fault(TensorMsg("w", {int64_t{1} << 50}, 1, nothing)).find("holds 0 values"), std::string::npos);
  EXPECT_EQ(Fault(TensorMsg("w", {1}, 99, nothing)),
            "invalid_model: t.pb: tensor w: unknown element type 99");
  EXPECT_NE(Fault(TensorMsg("w", {}, 0, nothing)).find("unknown element type 0"), std::string::npos);
  EXPECT_NE(Fault(TensorMsg("w", std::vector<int64_t>(13, 1), 1, nothing)).find("rank above 12"),
            std::string::npos);
  EXPECT_NE(
      Fault(TensorMsg("w", {1}, 2, [](Writer& w) { w.add_int32(5, 256); })).find("value 256 in int32_data"),
      std::string::npos);
  EXPECT_NE(Fault(TensorMsg("w", {1}, 3, [](Writer& w) { w.add_int32(5, 128); })).find("is no int8"),
            std::string::npos);
  EXPECT_NE(Fault(TensorMsg("w", {1}, 12, [](Writer& w) { w.add_uint64(11, uint64_t{1} << 32); }))
                .find("no uint32"),
            std::string::npos);
  EXPECT_NE(
      Fault(TensorMsg("w", {1}, 8, [](Writer& w) { w.add_bytes(9, "x"); })).find("strings cannot be raw"),
      std::string::npos);
  EXPECT_NE(Fault(TensorMsg("w", {1}, 1,
                            [](Writer& w) {
                              w.add_float(4, 1);
                              w.add_bytes(9, "1234");
                            }))
                .find("raw_data and typed data"),
            std::string::npos);
  // A varint where bytes belong, and floats of a length that is no multiple of four.
  EXPECT_NE(
      Fault(TensorMsg("w", {1}, 1, [](Writer& w) { w.add_int32(9, 1); })).find("(raw_data) is a varint"),
      std::string::npos);
  EXPECT_NE(
      Fault(TensorMsg("w", {1}, 1, [](Writer& w) { w.add_bytes(4, "12345"); })).find("no multiple of 4"),
      std::string::npos);
}

std::string SparseFault(const std::vector<int64_t>& dims, const std::vector<int64_t>& index_dims,
                        const std::vector<int64_t>& indices) {
  const std::string message = Msg([&](Writer& w) {
    w.add_message(1, test::FloatTensor("s", {2}, {1, 2}));
    w.add_message(2, TensorMsg("i", index_dims, 7,
                               [&](Writer& t) { t.add_packed_int64(7, indices.begin(), indices.end()); }));
    w.add_packed_int64(3, dims.begin(), dims.end());
  });
  const Source source{"s.pb", AsBytes(message), nullptr, Code::kInvalidModel};
  return ErrorOf([&] { MakeSparseTensor(Message(source, "SparseTensorProto"), {}); });
}

TEST(TensorPb, SparseFaults) {
  EXPECT_EQ(SparseFault({4}, {2}, {0, 3}), "");
  EXPECT_NE(SparseFault({4}, {2}, {0, 4}).find("index 4 in 4 elements"), std::string::npos);
  EXPECT_NE(SparseFault({4}, {2}, {-1, 3}).find("index -1"), std::string::npos);
  EXPECT_NE(SparseFault({4, 4}, {2, 2}, {0, 0, 1, 4}).find("index 4 on axis 1"), std::string::npos);
  EXPECT_NE(SparseFault({4}, {1}, {0}).find("indices are int64[1]"), std::string::npos);
  EXPECT_NE(SparseFault({-4}, {2}, {0, 1}).find("impossible shape"), std::string::npos);
  EXPECT_NE(SparseFault({1 << 20, 1 << 20}, {2}, {0, 1}).find("when dense"), std::string::npos);
}

TEST(BuilderNames, StateTheirValues) {
  using V = std::vector<int64_t>;
  EXPECT_EQ(ValuesFromBuilderName("/model/constants/INT64/[1]"), V{1});
  EXPECT_EQ(ValuesFromBuilderName("/model/constants/INT64/[0, 0, -1, 128]"), (V{0, 0, -1, 128}));
  EXPECT_EQ(ValuesFromBuilderName("/model/constants/INT32/2"), V{2});
  EXPECT_EQ(ValuesFromBuilderName("/model/constants/INT64/[9223372036854775807]"), V{INT64_MAX});
  EXPECT_EQ(ValuesFromBuilderName("/model/constants/TensorProto.INT64/1D/0, 1"), (V{0, 1}));
  EXPECT_EQ(ValuesFromBuilderName("/model/constants/TensorProto.INT64/0D/1"), V{1});
  EXPECT_EQ(ValuesFromBuilderName("/model/constants/INT64/[]"), V{});
  for (const char* name :
       {"", "/model/layers.0/Add", "/model/constants/INT64", "/model/constants/INT64/",
        "/model/constants/INT64/[1, x]", "/model/constants/FLOAT/0.25", "/constants/INT64/1, 2",
        "/constants/TensorProto.INT64/2D/1", "/constants/INT64/99999999999999999999"})
    EXPECT_EQ(ValuesFromBuilderName(name), std::nullopt) << name;
}

}  // namespace
}  // namespace ullage::onnx
