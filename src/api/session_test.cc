#include "ullage/session.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "core/temp_folder.h"
#include "onnx/test_proto.h"

namespace ullage {
namespace {

using onnx::test::ErrorOf;
using onnx::test::Msg;
using onnx::test::Writer;

/// A value of floats; negative dimensions are labelled "rows".
std::string Floats(const std::string& name, const std::vector<int64_t>& dims) {
  return Msg([&](Writer& w) {
    w.add_string(1, name);
    Writer type(w, 2);
    Writer tensor(type, 1);
    tensor.add_int32(1, 1);
    Writer shape(tensor, 2);
    for (int64_t d : dims) {
      Writer dim(shape, 1);
      if (d < 0)
        dim.add_string(2, "rows");
      else
        dim.add_int64(1, d);
    }
  });
}

/// y = relu(x w) and s = x + x, with x [rows, 4], w [4, 3].
class SessionTest : public testing::Test {
 protected:
  SessionTest() {
    std::vector<float> w(12);
    for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i) * 0.25f - 1;
    const std::string graph = Msg([&](Writer& g) {
      g.add_message(1, onnx::test::NodeMsg("MatMul", {"x", "w"}, {"m"}, "product"));
      g.add_message(1, onnx::test::NodeMsg("Relu", {"m"}, {"y"}, "relu"));
      g.add_message(1, onnx::test::NodeMsg("Add", {"x", "x"}, {"s"}, "sum"));
      g.add_string(2, "g");
      g.add_message(5, onnx::test::FloatTensor("w", {4, 3}, w));
      g.add_message(11, Floats("x", {-1, 4}));
      g.add_message(12, Floats("y", {-1, 3}));
      g.add_message(12, Floats("s", {-1, 4}));
    });
    folder_.Write("m.onnx", onnx::test::ModelMsg(graph));
  }

  Session Load(int64_t rows, const std::map<std::string, std::string>& values = {}) const {
    SessionOptions options;
    options.values = values;
    options.values["session.intra_op_num_threads"] = "2";
    if (rows > 0) options.max_shapes["x"] = Shape{rows, 4};
    return Session::Load(path(), options);
  }
  std::string path() const { return folder_ / "m.onnx"; }

  test::TempFolder folder_;
};

std::vector<float> Ramp(int64_t rows) {
  std::vector<float> x(static_cast<size_t>(rows * 4));
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::cos(static_cast<float>(i));
  return x;
}

InputTensor Input(const std::vector<float>& x) {
  return {"x", x.data(), DType::kFloat, Shape{static_cast<int64_t>(x.size() / 4), 4}};
}

void ExpectY(std::span<const float> y, const std::vector<float>& x) {
  ASSERT_EQ(y.size(), x.size() / 4 * 3);
  for (size_t r = 0; r < x.size() / 4; ++r)
    for (size_t j = 0; j < 3; ++j) {
      double sum = 0;
      for (size_t k = 0; k < 4; ++k) sum += x[r * 4 + k] * (static_cast<double>(k * 3 + j) * 0.25 - 1);
      ASSERT_NEAR(y[r * 3 + j], std::max(sum, 0.0), 1e-5) << r << "," << j;
    }
}

TEST_F(SessionTest, TellsWhatItTakesAndGives) {
  const Session s = Load(8);
  ASSERT_EQ(s.inputs().size(), 1u);
  EXPECT_EQ(s.inputs()[0].name, "x");
  EXPECT_EQ(s.inputs()[0].dtype, DType::kFloat);
  ASSERT_EQ(s.inputs()[0].dims.size(), 2u);
  EXPECT_EQ(s.inputs()[0].dims[0].upper, 8);
  EXPECT_EQ(s.inputs()[0].dims[0].label, "rows");
  EXPECT_EQ(s.inputs()[0].dims[1].lower, 4);
  ASSERT_EQ(s.outputs().size(), 2u);
  EXPECT_EQ(s.outputs()[0].name, "y");
  EXPECT_EQ(s.outputs()[0].dims[0].upper, 8);
  EXPECT_EQ(s.outputs()[1].dims[1].upper, 4);
  EXPECT_EQ(Load(0).outputs()[0].dims[0].upper, kNoBound);
}

TEST_F(SessionTest, ReturnsTensorsOrFillsTheCallersMemory) {
  for (int64_t bound : {0, 8})
    for (const char* pre_allocate : {"0", "1"}) {
      if (bound == 0 && pre_allocate[0] == '1') continue;
      const Session s = Load(bound, {{"session.pre_allocate_execution_buffers", pre_allocate}});
      for (int64_t rows : {8, 1, 5}) {
        const auto x = Ramp(rows);
        const InputTensor in = Input(x);
        auto out = s.Run({&in, 1});
        ASSERT_EQ(out.size(), 2u);
        EXPECT_EQ(out[0].name, "y");
        ExpectY(out[0].tensor.as<float>(), x);
        EXPECT_EQ(out[1].tensor.shape(), (Shape{rows, 4}));
        EXPECT_FLOAT_EQ(out[1].tensor.as<float>()[3], 2 * x[3]);

        std::vector<float> y(24, -1);
        OutputTensor mine{"y", y.data(), y.size() * 4};
        s.Run({&in, 1}, {&mine, 1});
        EXPECT_EQ(mine.shape, (Shape{rows, 3}));
        EXPECT_EQ(mine.dtype, DType::kFloat);
        ExpectY({y.data(), static_cast<size_t>(rows * 3)}, x);

        const std::string_view only = "s";
        EXPECT_EQ(s.Run({&in, 1}, {.outputs = {&only, 1}}).at(0).name, "s");
      }
    }
}

TEST_F(SessionTest, NamesTheCulprit) {
  const Session s = Load(8);
  const auto x = Ramp(9), small = Ramp(2);
  const auto run = [&](const InputTensor& in) { return ErrorOf([&] { s.Run({&in, 1}); }); };
  EXPECT_NE(run(Input(x)).find("invalid_input: input x: shape [9,4]"), std::string::npos) << run(Input(x));
  InputTensor in = Input(small);
  in.name = "z";
  EXPECT_NE(run(in).find("no input z; it has x"), std::string::npos) << run(in);
  in = Input(small);
  in.dtype = DType::kInt32;
  EXPECT_NE(run(in).find("expected type float32, found int32"), std::string::npos) << run(in);
  in.dtype = DType::kString;
  EXPECT_NE(run(in).find("input x"), std::string::npos);
  in = Input(small);
  in.data = nullptr;
  EXPECT_NE(run(in).find("input x has no data"), std::string::npos);
  in = Input(small);
  in.data = reinterpret_cast<const char*>(small.data()) + 1;
  EXPECT_NE(run(in).find("aligned"), std::string::npos);
  in = Input(small);
  in.shape = Shape{-2, 4};
  EXPECT_NE(run(in).find("invalid_input"), std::string::npos) << run(in);
  EXPECT_NE(ErrorOf([&] { s.Run({}); }).find("input x is missing"), std::string::npos);
  const InputTensor twice[] = {Input(small), Input(small)};
  EXPECT_NE(ErrorOf([&] { s.Run(twice); }).find("given twice"), std::string::npos);
  in = Input(small);
  const std::string_view wanted = "nothing";
  EXPECT_NE(ErrorOf([&] {
              s.Run({&in, 1}, {.outputs = {&wanted, 1}});
            }).find("no output nothing"),
            std::string::npos);
  std::vector<float> y(5);
  OutputTensor out{"y", y.data(), y.size() * 4};
  EXPECT_NE(ErrorOf([&] {
              s.Run({&in, 1}, {&out, 1});
            }).find("takes 24 bytes, the memory given has 20"),
            std::string::npos);
  // Nothing of this harmed the session.
  ExpectY(s.Run({&in, 1})[0].tensor.as<float>(), small);
}

TEST_F(SessionTest, LoadNamesTheCulprit) {
  EXPECT_NE(ErrorOf([&] {
              Load(8, {{"session.nonsense", "1"}});
            }).find("usage: unknown option session.nonsense"),
            std::string::npos);
  EXPECT_NE(ErrorOf([&] { Session::Load(folder_ / "none.onnx"); }).find("none.onnx"), std::string::npos);
  EXPECT_NE(ErrorOf([&] {
              Load(0, {{"session.pre_allocate_execution_buffers", "1"}});
            }).find("unsupported"),
            std::string::npos);
  SessionOptions options;
  options.max_shapes["x"] = Shape{8, 5};
  EXPECT_NE(ErrorOf([&] { Session::Load(path(), options); }).find("usage"), std::string::npos);
  options.max_shapes = {{"q", Shape{1}}};
  EXPECT_NE(ErrorOf([&] { Session::Load(path(), options); }).find("q"), std::string::npos);
  options = {};
  options.limits["cpu"] = 10;
  EXPECT_NE(ErrorOf([&] { Session::Load(path(), options); }).find("does_not_fit"), std::string::npos);
  options.limits = {{"gpu", 10}};
  EXPECT_NE(ErrorOf([&] { Session::Load(path(), options); }).find("unsupported"), std::string::npos);
}

TEST_F(SessionTest, PlansWithoutRunning) {
  SessionOptions options;
  options.plan_only = true;
  options.max_shapes["x"] = Shape{8, 4};
  const Session s = Session::Load(path(), options);
  const DeviceMemory m = s.memory().at(0);
  int64_t sum = 0;
  for (const auto& [tag, bytes] : m.tags) sum += bytes;
  EXPECT_EQ(sum, m.planned_bytes);
  EXPECT_EQ(m.peak_bytes, 0);
  EXPECT_NE(s.PlanJson(true).find("\"relu\""), std::string::npos);
  const auto x = Ramp(2);
  const InputTensor in = Input(x);
  EXPECT_NE(ErrorOf([&] { s.Run({&in, 1}); }).find("usage"), std::string::npos);
  const Session made = Load(8);
  EXPECT_EQ(made.memory().at(0).planned_bytes, m.planned_bytes);
  EXPECT_EQ(made.memory().at(0).peak_bytes, m.planned_bytes);
}

TEST_F(SessionTest, MoreOutputsAreValuesInside) {
  SessionOptions options;
  options.more_outputs = {"m"};
  const Session s = Session::Load(path(), options);
  const auto x = Ramp(3);
  const InputTensor in = Input(x);
  const auto out = s.Run({&in, 1});
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[2].name, "m");
  for (size_t i = 0; i < 9; ++i)
    EXPECT_FLOAT_EQ(out[0].tensor.as<float>()[i], std::max(0.0f, out[2].tensor.as<float>()[i]));
}

TEST_F(SessionTest, ThreadsRunItSideBySide) {
  for (int64_t bound : {0, 8}) {
    const Session s = Load(bound);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 40; ++i) {
          const auto x = Ramp(1 + (t + i) % 8);
          const InputTensor in = Input(x);
          ExpectY(s.Run({&in, 1})[0].tensor.as<float>(), x);
        }
      });
    for (auto& t : threads) t.join();
    s.Trim();
  }
}

std::string Value(const std::string& name, int32_t type, int64_t dim) {
  return Msg([&](Writer& w) {
    w.add_string(1, name);
    Writer outer(w, 2);
    Writer tensor(outer, 1);
    tensor.add_int32(1, type);
    Writer shape(tensor, 2);
    Writer(shape, 1).add_int64(1, dim);
  });
}

TEST_F(SessionTest, TakesAndGivesStrings) {
  constexpr int32_t kString = 8;
  folder_.Write("s.onnx", onnx::test::ModelMsg(Msg([&](Writer& g) {
                  g.add_message(1, onnx::test::NodeMsg("StringConcat", {"a", "b"}, {"y"}, "join"));
                  g.add_string(2, "g");
                  g.add_message(11, Value("a", kString, 3));
                  g.add_message(11, Value("b", kString, 3));
                  g.add_message(12, Value("y", kString, 3));
                })));
  const Session s = Session::Load(folder_ / "s.onnx");
  EXPECT_EQ(s.inputs()[0].dtype, DType::kString);
  const std::vector<std::string> a = {"", "long enough for the heap, not for the object", "c"},
                                 b = {"x", "y", ""};
  const InputTensor in[] = {{"b", b.data(), DType::kString, Shape{3}},
                            {"a", a.data(), DType::kString, Shape{3}}};
  auto out = s.Run(in);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].tensor.dtype(), DType::kString);
  EXPECT_EQ(out[0].tensor.bytes(), 0u);
  const Tensor copy = out[0].tensor.Clone();
  out.clear();
  ASSERT_EQ(copy.strings().size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(copy.strings()[i], a[i] + b[i]);
  EXPECT_NE(ErrorOf([&] { copy.as<char>(); }), "");
  std::string memory[3];
  OutputTensor mine{"y", memory, sizeof memory};
  EXPECT_NE(ErrorOf([&] {
              s.Run(in, {&mine, 1});
            }).find("unsupported: output y: strings"),
            std::string::npos);
}

TEST_F(SessionTest, RefusesSequences) {
  const auto sequence = [](const std::string& name) {
    return Msg([&](Writer& w) {
      w.add_string(1, name);
      Writer type(w, 2);
      Writer of(type, 4);
      Writer element(of, 1);
      Writer tensor(element, 1);
      tensor.add_int32(1, 1);
    });
  };
  folder_.Write("q.onnx", onnx::test::ModelMsg(Msg([&](Writer& g) {
                  g.add_message(1, onnx::test::NodeMsg("SequenceConstruct", {"x", "x"}, {"q"}, "pair"));
                  g.add_message(1, onnx::test::NodeMsg("Relu", {"x"}, {"y"}, "relu"));
                  g.add_string(2, "g");
                  g.add_message(11, Floats("x", {1, 4}));
                  g.add_message(12, sequence("q"));
                  g.add_message(12, Floats("y", {1, 4}));
                })));
  const Session s = Session::Load(folder_ / "q.onnx");
  EXPECT_FALSE(s.outputs()[0].is_tensor);
  const auto x = Ramp(1);
  const InputTensor in = Input(x);
  EXPECT_NE(ErrorOf([&] { s.Run({&in, 1}); }).find("unsupported: output q is a sequence"), std::string::npos);
  const std::string_view only = "y";
  EXPECT_EQ(s.Run({&in, 1}, {.outputs = {&only, 1}}).at(0).name, "y");
  folder_.Write("in.onnx", onnx::test::ModelMsg(Msg([&](Writer& g) {
                  g.add_message(1, onnx::test::NodeMsg("SequenceLength", {"q"}, {"n"}, "length"));
                  g.add_string(2, "g");
                  g.add_message(11, sequence("q"));
                  g.add_message(12, Value("n", 7, 1));
                })));
  EXPECT_NE(ErrorOf([&] { Session::Load(folder_ / "in.onnx"); }).find("unsupported: input q is a sequence"),
            std::string::npos);
}

TEST_F(SessionTest, SaysWhatWouldFit) {
  SessionOptions options;
  options.max_shapes["x"] = Shape{4096, 4};
  const int64_t need = Session::Load(path(), options).memory().at(0).planned_bytes;
  options.limits["cpu"] = need / 2;
  try {
    Session::Load(path(), options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kDoesNotFit);
    EXPECT_NE(error.details_json().find("--shape x="), std::string::npos) << error.details_json();
  }
}

TEST(Tensor, OwnsItsElements) {
  const std::vector<int32_t> numbers = {1, 2, 3, 4, 5, 6};
  Tensor t = Tensor::Of<int32_t>(DType::kInt32, {2, 3}, numbers);
  EXPECT_EQ(t.bytes(), 24u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data()) % 64, 0u);
  Tensor copy = t.Clone();
  t.as<int32_t>()[0] = 9;
  EXPECT_EQ(copy.as<int32_t>()[0], 1);
  EXPECT_NE(ErrorOf([&] { t.as<int64_t>(); }), "");
  EXPECT_NE(ErrorOf([&] { Tensor::Of<int32_t>(DType::kInt32, {7}, numbers); }), "");
  EXPECT_NE(ErrorOf([&] { Tensor(DType::kString, {1}); }), "");
  EXPECT_NE(ErrorOf([&] { Tensor(DType::kFloat, {-1}); }), "");
  EXPECT_EQ(Tensor(DType::kFloat, {0, 3}).bytes(), 0u);
  EXPECT_EQ(Tensor(DType::kInt4, {3}).bytes(), 2u);
}

}  // namespace
}  // namespace ullage
