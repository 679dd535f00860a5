// Tensor files against those that numpy and the onnx package write (tests/onnx/tensors).
#include "onnx/tensor_io.h"

#include <gtest/gtest.h>

#include "core/half.h"
#include "onnx/test_proto.h"

namespace ullage::onnx {
namespace {

using graph::TypeKind;
using test::AsBytes;
using test::ErrorOf;
using test::TempFolder;

std::string Path(const std::string& file) {
  return std::string(ULLAGE_SOURCE_DIR) + "/tests/onnx/tensors/" + file;
}

template <class T>
std::vector<T> Values(const HostTensor& t) {
  std::vector<T> out(t.bytes.size() / sizeof(T));
  std::memcpy(out.data(), t.bytes.data(), t.bytes.size());
  return out;
}

TEST(Npy, EveryTypeInBothOrders) {
  for (const char* dtype : {"bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
                            "float16", "float32", "float64", "complex64", "complex128"}) {
    SCOPED_TRACE(dtype);
    // The reference is the TensorProto that onnx makes of the same array.
    const HostValue pb = ReadValueProto(Path(std::string(dtype) + ".pb"), TypeKind::kTensor);
    const HostTensor c = ReadNpy(Path("c_" + std::string(dtype) + ".npy"));
    const HostTensor f = ReadNpy(Path("f_" + std::string(dtype) + ".npy"));
    EXPECT_EQ(NameOf(c.dtype), dtype);
    EXPECT_EQ(c.shape, Shape({2, 3, 4}));
    EXPECT_EQ(c.bytes, pb.tensors[0].bytes);
    EXPECT_EQ(f.bytes, c.bytes);
    EXPECT_EQ(f.shape, c.shape);
    // And what we write is what numpy writes, byte for byte.
    EXPECT_EQ(SerializeNpy(c), ReadFile(Path("c_" + std::string(dtype) + ".npy")));
    EXPECT_EQ(SerializeTensorProto(pb.tensors[0]), ReadFile(Path(std::string(dtype) + ".pb")));
    EXPECT_EQ(ParseTensorProto(AsBytes(SerializeTensorProto(c)), "x").bytes, c.bytes);
  }
  EXPECT_EQ(Values<int32_t>(ReadNpy(Path("f_int32.npy")))[7], 7);
  EXPECT_EQ(HalfToFloat(Values<uint16_t>(ReadNpy(Path("f_float16.npy")))[23]), 23.0f);
}

TEST(Npy, ShapesVersionsStrings) {
  const HostTensor scalar = ReadNpy(Path("scalar.npy"));
  EXPECT_EQ(scalar.shape.rank(), 0);
  EXPECT_EQ(Values<float>(scalar), std::vector<float>{2.5f});
  EXPECT_EQ(SerializeNpy(scalar), ReadFile(Path("scalar.npy")));
  const HostTensor empty = ReadNpy(Path("empty.npy"));
  EXPECT_EQ(empty.shape, Shape({0, 3}));
  EXPECT_EQ(SerializeNpy(empty), ReadFile(Path("empty.npy")));
  for (const char* v : {"version1.npy", "version2.npy", "version3.npy"})
    EXPECT_EQ(Values<float>(ReadNpy(Path(v)))[23], 23.0f) << v;
  const std::vector<std::string> words{"", "one", "zwei \u00fc", "\U0001f600"};
  for (const char* file : {"unicode.npy", "unicode_f.npy"}) {
    const HostTensor t = ReadNpy(Path(file));
    EXPECT_EQ(t.dtype, DType::kString);
    EXPECT_EQ(t.shape, Shape({2, 2}));
    EXPECT_EQ(t.strings, words) << file;
  }
  EXPECT_EQ(SerializeNpy(ReadNpy(Path("unicode.npy"))), ReadFile(Path("unicode.npy")));
  EXPECT_EQ(ReadNpy(Path("bytes.npy")).strings, (std::vector<std::string>{"ab", "", "c"}));
}

TEST(Npy, Refusals) {
  const auto fault = [](const std::string& file) { return ErrorOf([&] { ReadNpy(Path(file)); }); };
  EXPECT_NE(fault("big_endian.npy").find("element type '>i4' is big-endian"), std::string::npos);
  EXPECT_NE(fault("structured.npy").find("structured arrays"), std::string::npos);
  EXPECT_NE(fault("object.npy").find("element type '|O'"), std::string::npos);
  EXPECT_EQ(fault("nothing.npy").rfind("invalid_input: cannot read ", 0), 0u);

  const std::string whole = ReadFile(Path("c_int16.npy"));
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(ErrorOf([&] { ParseNpy(AsBytes(whole.substr(0, size)), "x"); }).rfind("invalid_input: x: ", 0),
              0u);
  EXPECT_NE(ErrorOf([&] { ParseNpy(AsBytes(whole + "z"), "x"); }).find("holds 49 bytes"), std::string::npos);

  const auto header = [](const std::string& text) {
    std::string file("\x93NUMPY\x01\x00", 8);
    file += static_cast<char>(text.size());
    file += '\0';
    file += text;
    return ErrorOf([&] { ParseNpy(AsBytes(file), "x"); });
  };
  EXPECT_EQ(header("{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }"), "");
  EXPECT_EQ(header("{ \"shape\" : (0L, 3) , \"fortran_order\":True,\"descr\":\"<f4\"}\n"), "");
  for (const char* broken :
       {"", "{", "{'descr'", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (0,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (0,0,0,0,0,0,0,0,0,0,0,0,0)}",
        "{'descr': '<U0', 'fortran_order': False, 'shape': (99999999,)}",
        "{'descr': '<f', 'fortran_order': False, 'shape': (0,)}",
        "{'descr': '<f3', 'fortran_order': False, 'shape': (0,)}",
        "{'descr': '<m8[ns]', 'fortran_order': False, 'shape': (0,)}", "{'other': 1}"})
    EXPECT_EQ(header(broken).rfind("invalid_input: x: ", 0), 0u) << broken << " -> " << header(broken);
}

TEST(Npy, TypesThatNumpyLacks) {
  HostTensor t;
  t.name = "logits";
  t.dtype = DType::kBFloat16;
  t.shape = {1};
  t.bytes.resize(2);
  EXPECT_FALSE(NumpyHas(DType::kBFloat16));
  EXPECT_FALSE(NumpyHas(DType::kInt4));
  EXPECT_TRUE(NumpyHas(DType::kFloat16));
  EXPECT_EQ(ErrorOf([&] { SerializeNpy(t); }),
            "unsupported: tensor logits: numpy has no element type bfloat16; write .pb files");
  t.dtype = DType::kString;
  t.strings = {std::string("a\0", 2)};
  EXPECT_NE(ErrorOf([&] { SerializeNpy(t); }).find("numpy cannot hold"), std::string::npos);
  for (const char* bad : {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"}) {
    t.strings = {bad};
    EXPECT_NE(ErrorOf([&] { SerializeNpy(t); }).find("numpy cannot hold"), std::string::npos) << bad;
  }
}

TEST(ValueProto, SequencesAndOptionals) {
  const auto read = [](const char* file, TypeKind kind) { return ReadValueProto(Path(file), kind); };
  const HostValue seq = read("sequence.pb", TypeKind::kSequence);
  ASSERT_EQ(seq.tensors.size(), 2u);
  EXPECT_EQ(seq.name, "s");
  EXPECT_EQ(Values<float>(seq.tensors[0]), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(seq.tensors[1].shape, Shape({2, 2}));
  EXPECT_TRUE(read("empty_sequence.pb", TypeKind::kSequence).tensors.empty());
  const HostValue some = read("optional_tensor.pb", TypeKind::kOptional);
  EXPECT_TRUE(some.present);
  EXPECT_EQ(some.inner, TypeKind::kTensor);
  EXPECT_EQ(Values<float>(some.tensors.at(0)), (std::vector<float>{0, 1, 2}));
  const HostValue list = read("optional_sequence.pb", TypeKind::kOptional);
  EXPECT_TRUE(list.present);
  EXPECT_EQ(list.inner, TypeKind::kSequence);
  EXPECT_EQ(list.tensors.size(), 2u);
  EXPECT_FALSE(read("optional_none.pb", TypeKind::kOptional).present);
  EXPECT_EQ(ErrorOf([&] { read("nested_sequence.pb", TypeKind::kSequence); }).rfind("unsupported: ", 0), 0u);

  // Written again and read again, everything is the same.
  for (const HostValue* v : {&seq, &some, &list}) {
    const HostValue again = ParseValueProto(AsBytes(SerializeValueProto(*v)), v->kind, "x");
    EXPECT_EQ(again.name, v->name);
    EXPECT_EQ(again.present, v->present);
    EXPECT_EQ(again.inner, v->inner);
    ASSERT_EQ(again.tensors.size(), v->tensors.size());
    for (size_t i = 0; i < v->tensors.size(); ++i) EXPECT_EQ(again.tensors[i].bytes, v->tensors[i].bytes);
  }
  HostValue strings = read("strings.pb", TypeKind::kTensor);
  EXPECT_EQ(strings.tensors[0].strings, (std::vector<std::string>{"one", std::string("\xff\0z", 3)}));
  EXPECT_EQ(*strings.tensors[0].view().as<std::string>(), "one");
  EXPECT_EQ(SerializeValueProto(strings), ReadFile(Path("strings.pb")));
}

TEST(ValueProto, SameBytesAsTheOnnxPackage) {
  for (const char* file : {"sequence.pb", "empty_sequence.pb"})
    EXPECT_EQ(SerializeValueProto(ReadValueProto(Path(file), TypeKind::kSequence)), ReadFile(Path(file)))
        << file;
  for (const char* file : {"optional_tensor.pb", "optional_sequence.pb", "optional_none.pb"})
    EXPECT_EQ(SerializeValueProto(ReadValueProto(Path(file), TypeKind::kOptional)), ReadFile(Path(file)))
        << file;
}

TEST(ValueProto, BrokenFilesAreInvalidInput) {
  const std::string whole = ReadFile(Path("sequence.pb"));
  size_t failures = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string e =
        ErrorOf([&] { ParseValueProto(AsBytes(whole.substr(0, size)), TypeKind::kSequence, "x"); });
    if (e.empty()) continue;
    ++failures;
    EXPECT_EQ(e.rfind("invalid_input: x: ", 0), 0u) << e;
  }
  EXPECT_GT(failures, whole.size() - 10);
  const std::string external = test::ExternalTensor("w", {1}, {{"location", "w.bin"}});
  EXPECT_NE(ErrorOf([&] { ParseTensorProto(AsBytes(external), "x"); }).find("external data are not allowed"),
            std::string::npos);
}

TEST(Folder, NamesAreEscaped) {
  EXPECT_EQ(EscapeName("/model/constants/INT64/[0, 1]"), "%2Fmodel%2Fconstants%2FINT64%2F%5B0%2C%201%5D");
  EXPECT_EQ(EscapeName("past_key_values.0.key-A_z9"), "past_key_values.0.key-A_z9");
  EXPECT_EQ(EscapeName("\xc3\xbc%"), "%C3%BC%25");
  EXPECT_EQ(UnescapeName("%2fa%2Fb"), "/a/b");
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  EXPECT_EQ(UnescapeName(EscapeName(all)), all);
  for (const char* broken : {"%", "%2", "a%2", "%G0", "%0G"})
    EXPECT_NE(ErrorOf([&] { UnescapeName(broken); }).find("broken escape"), std::string::npos) << broken;
}

graph::Graph TwoInputs() {
  graph::Graph g;
  g.AddInput("a/b", DType::kFloat, std::nullopt);
  const auto with_default = g.AddInput("d", DType::kFloat, std::nullopt);
  g.value(with_default).constant = graph::MakeFloats({1}, std::vector<float>{1});
  const auto seq = g.AddInput("s", DType::kFloat, std::nullopt);
  g.value(seq).kind = TypeKind::kSequence;
  return g;
}

TEST(Folder, ReadsProtobufInGraphOrder) {
  TempFolder dir;
  dir.Write("input_0.pb", ReadFile(Path("float32.pb")));
  dir.Write("input_1.pb", ReadFile(Path("sequence.pb")));
  dir.Write("output_0.pb", "ignored");
  dir.Write("status", "ignored");
  const auto folder = ReadInputsFolder(dir.str(), TwoInputs());
  EXPECT_EQ(folder.form, FileForm::kProtobuf);
  ASSERT_EQ(folder.values.size(), 2u);
  EXPECT_EQ(folder.values[0].name, "a/b");
  EXPECT_EQ(folder.values[0].tensors[0].name, "a/b");
  EXPECT_EQ(folder.values[1].name, "s");
  EXPECT_EQ(folder.values[1].tensors.size(), 2u);
}

TEST(Folder, ReadsNumpyByName) {
  graph::Graph g = TwoInputs();
  g.value(g.inputs[2]).kind = TypeKind::kTensor;
  TempFolder dir;
  dir.Write("a%2fb.npy", ReadFile(Path("c_float32.npy")));
  dir.Write("s.npy", ReadFile(Path("scalar.npy")));
  EXPECT_EQ(ReadInputsFolder(dir.str(), g).values.size(), 2u);
  dir.Write("d.npy", ReadFile(Path("scalar.npy")));
  const auto folder = ReadInputsFolder(dir.str(), g);
  EXPECT_EQ(folder.form, FileForm::kNumpy);
  ASSERT_EQ(folder.values.size(), 3u);
  EXPECT_EQ(folder.values[1].name, "d");
  EXPECT_EQ(folder.values[0].tensors[0].shape, Shape({2, 3, 4}));
}

TEST(Folder, Faults) {
  const auto fault = [](const TempFolder& dir) {
    return ErrorOf([&] { ReadInputsFolder(dir.str(), TwoInputs()); });
  };
  TempFolder empty;
  EXPECT_NE(fault(empty).find("invalid_input: input a/b is missing: no input_0.pb"), std::string::npos);
  TempFolder both;
  both.Write("input_0.pb", "");
  both.Write("x.npy", "");
  EXPECT_NE(fault(both).find("expected one form"), std::string::npos);
  TempFolder more;
  more.Write("input_0.pb", ReadFile(Path("float32.pb")));
  more.Write("input_1.pb", ReadFile(Path("sequence.pb")));
  more.Write("input_2.pb", ReadFile(Path("float32.pb")));
  EXPECT_NE(fault(more).find("input_2.pb: the graph has 2 inputs"), std::string::npos);
  TempFolder unknown;
  unknown.Write("a%2Fb.npy", ReadFile(Path("scalar.npy")));
  unknown.Write("typo.npy", ReadFile(Path("scalar.npy")));
  unknown.Write("s.npy", ReadFile(Path("scalar.npy")));
  EXPECT_NE(fault(unknown).find("unsupported: input s is no tensor"), std::string::npos);
  graph::Graph one;
  one.AddInput("a/b", DType::kFloat, std::nullopt);
  EXPECT_NE(ErrorOf([&] { ReadInputsFolder(unknown.str(), one); }).find("the graph has no input "),
            std::string::npos);
  EXPECT_NE(
      ErrorOf([&] { ReadInputsFolder("/nonexistent", one); }).find("cannot read the folder /nonexistent"),
      std::string::npos);
}

TEST(Folder, WritesOutputsInTheFormOfTheInputs) {
  TempFolder dir;
  HostValue tensor = ReadValueProto(Path("float32.pb"), TypeKind::kTensor);
  tensor.name = "present.0/key";
  const HostValue seq = ReadValueProto(Path("sequence.pb"), TypeKind::kSequence);
  const std::vector<HostValue> values{tensor, seq};
  WriteOutputsFolder(dir / "new/pb", FileForm::kProtobuf, values);
  EXPECT_EQ(ReadValueProto(dir / "new/pb/output_0.pb", TypeKind::kTensor).tensors[0].bytes,
            tensor.tensors[0].bytes);
  EXPECT_EQ(ReadValueProto(dir / "new/pb/output_1.pb", TypeKind::kSequence).tensors.size(), 2u);
  WriteOutputsFolder(dir / "npy", FileForm::kNumpy, {&values[0], 1});
  EXPECT_EQ(ReadFile(dir / "npy/present.0%2Fkey.npy"), ReadFile(Path("c_float32.npy")));
  EXPECT_NE(ErrorOf([&] {
              WriteOutputsFolder(dir / "npy", FileForm::kNumpy, values);
            }).find("unsupported: output s is no tensor"),
            std::string::npos);
  dir.Write("file", "");
  EXPECT_EQ(
      ErrorOf([&] { WriteOutputsFolder(dir / "file/x", FileForm::kNumpy, values); }).rfind("runtime: ", 0),
      0u);
}

}  // namespace
}  // namespace ullage::onnx
