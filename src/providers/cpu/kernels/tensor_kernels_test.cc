// Convolutions, pools, images, signals and recurrent networks: workspace that is enough for every shape
// within the bounds, any number of threads, and refusals. Their values are tested by ONNX's own cases and by
// vectors.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "core/error.h"
#include "providers/cpu/kernels/node_runner.h"

namespace ullage::cpu {
namespace {

TestTensor Random(const Shape& shape, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (float& v : values) v = normal(generator);
  return TestTensor::Floats(shape, values);
}

struct Case {
  const char* name;
  const char* op;
  int opset;
  /// Adds inputs and attributes; `bounded`: with larger upper ends.
  std::function<void(NodeRunner&, bool bounded)> fill;
  std::vector<bool> outputs = {true};
};
std::ostream& operator<<(std::ostream& os, const Case& c) {
  return os << c.name;
}

void Up(NodeRunner& run, bool bounded, const Shape& upper) {
  if (bounded) run.UpTo(upper);
}

const std::vector<Case>& Cases() {
  using Ints = std::vector<int64_t>;
  static const std::vector<Case> cases = {
      {"conv", "Conv", 22,
       [](NodeRunner& run, bool bounded) {
         Up(run.Input(Random({1, 5, 9, 13}, 1)), bounded, {4, 5, 300, 200});
         run.Input(Random({7, 5, 3, 3}, 2), true).Input(Random({7}, 3));
         run.Attr("pads", Ints{1, 1, 1, 1}).Attr("strides", Ints{2, 1});
       }},
      {"conv_given_filters", "Conv", 22,
       [](NodeRunner& run, bool bounded) {
         Up(run.Input(Random({1, 6, 40}, 1)), bounded, {2, 6, 5000});
         Up(run.Input(Random({8, 3, 2}, 2)), bounded, {40, 3, 9});
         run.Attr("group", int64_t{2}).Attr("auto_pad", std::string("SAME_UPPER"));
       }},
      {"conv_integer", "ConvInteger", 10,
       [](NodeRunner& run, bool bounded) {
         Up(run.Input(TestTensor::Bytes({1, 2, 5, 5}, std::vector<uint8_t>(50, 200))), bounded,
            {3, 2, 90, 90});
         run.Input(TestTensor::Bytes({3, 2, 2, 2}, std::vector<uint8_t>(24, 100)), true);
         run.Input(TestTensor::Bytes({}, {7}));
       }},
      {"conv_transpose", "ConvTranspose", 22,
       [](NodeRunner& run, bool bounded) {
         Up(run.Input(Random({1, 4, 6, 5}, 1)), bounded, {3, 4, 100, 70});
         run.Input(Random({4, 3, 4, 3}, 2), true).Input(Random({3}, 3));
         run.Attr("strides", Ints{3, 2}).Attr("dilations", Ints{1, 2}).Attr("pads", Ints{1, 0, 2, 1});
       }},
      {"max_pool", "MaxPool", 22,
       [](NodeRunner& run, bool bounded) {
         Up(run.Input(Random({2, 3, 9, 10}, 1)), bounded, {2, 3, 50, 80});
         run.Attr("kernel_shape", Ints{3, 2}).Attr("strides", Ints{2, 2}).Attr("ceil_mode", int64_t{1});
       }},
      {"average_pool", "AveragePool", 22,
       [](NodeRunner& run, bool bounded) {
         Up(run.Input(Random({1, 3, 30}, 1)), bounded, {2, 3, 900});
         run.Attr("kernel_shape", Ints{4}).Attr("pads", Ints{1, 2}).Attr("count_include_pad", int64_t{1});
       }},
      {"resize", "Resize", 19,
       [](NodeRunner& run, bool bounded) {
         Up(run.Input(Random({1, 2, 9, 12}, 1)), bounded, {1, 2, 90, 120});
         run.Input(std::nullopt).Input(std::nullopt).Input(TestTensor::Int64({4}, {1, 2, 5, 30}));
         run.Attr("mode", std::string("linear"));
       }},
      {"resize_antialiased", "Resize", 19,
       [](NodeRunner& run, bool bounded) {
         Up(run.Input(Random({1, 1, 21, 40}, 1)), bounded, {1, 1, 210, 400});
         run.Input(std::nullopt).Input(std::nullopt).Input(TestTensor::Int64({4}, {1, 1, 5, 7}));
         run.Attr("mode", std::string("cubic")).Attr("antialias", int64_t{1});
       }},
      {"lstm",
       "LSTM",
       14,
       [](NodeRunner& run, bool bounded) {
         Up(run.Input(Random({7, 2, 5}, 1)), bounded, {900, 9, 5});
         run.Input(Random({2, 24, 5}, 2), true).Input(Random({2, 24, 6}, 3), true).Input(Random({2, 48}, 4));
         Up(run.Input(TestTensor::Int32({2}, {7, 3})), bounded, {9});
         run.Attr("direction", std::string("bidirectional")).Attr("hidden_size", int64_t{6});
       },
       {true, true, true}},
      {"gru",
       "GRU",
       14,
       [](NodeRunner& run, bool bounded) {
         Up(run.Input(Random({300, 1, 5}, 1)), bounded, {500, 1, 5});
         run.Input(Random({1, 18, 5}, 2)).Input(Random({1, 18, 6}, 3));
         run.Attr("direction", std::string("reverse")).Attr("hidden_size", int64_t{6});
       },
       {true, true}},
      {"dft", "DFT", 20,
       [](NodeRunner& run, bool bounded) {
         Up(run.Input(Random({2, 30, 1}, 1)), bounded, {4, 130, 1});
         run.Attr("onesided", int64_t{1});
       }},
      {"stft", "STFT", 17,
       [](NodeRunner& run, bool bounded) {
         Up(run.Input(Random({1, 500, 1}, 1)), bounded, {3, 5000, 1});
         run.Input(TestTensor::Int64({}, {40})).Input(Random({100}, 2));
       }},
      {"unique",
       "Unique",
       11,
       [](NodeRunner& run, bool bounded) {
         Up(run.Input(TestTensor::Floats({6}, {3, 1, 3, 2, 1, 3})), bounded, {60});
       },
       {true, true, true, true}},
      {"det", "Det", 22,
       [](NodeRunner& run, bool bounded) {
         Up(run.Input(Random({2, 4, 4}, 1)), bounded, {5, 9, 9});
       }},
  };
  return cases;
}

class TensorKernels : public testing::TestWithParam<Case> {};

TEST_P(TensorKernels, DeclareEnoughForEveryShapeWithinTheBounds) {
  const Case& c = GetParam();
  std::vector<std::vector<std::byte>> first;
  for (const bool bounded : {false, true}) {
    for (const int threads : {1, 3}) {
      NodeRunner run("", c.op, c.opset);
      c.fill(run, bounded);
      const auto results = run.Outputs(c.outputs).Threads(threads).Run();
      EXPECT_EQ(run.scratch_calls(), 0);
      EXPECT_FALSE(run.overrun());
      std::vector<std::vector<std::byte>> bytes;
      for (const TestTensor& t : results) bytes.push_back(t.bytes);
      if (first.empty()) first = bytes;
      EXPECT_EQ(bytes, first) << "bounded " << bounded << ", threads " << threads;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TensorKernels, testing::ValuesIn(Cases()),
                         [](const testing::TestParamInfo<Case>& p) { return std::string(p.param.name); });

TEST(TensorKernels, RefuseWhatDoesNotFit) {
  {
    NodeRunner run("", "MaxUnpool", 22);
    run.Input(Random({1, 1, 1, 2}, 1)).Input(TestTensor::Int64({1, 1, 1, 2}, {0, 99}));
    EXPECT_THROW(run.Attr("kernel_shape", std::vector<int64_t>{2, 2})
                     .Attr("strides", std::vector<int64_t>{2, 2})
                     .Run(),
                 Error);
  }
  {
    NodeRunner run("", "GRU", 14);  // weights of another width
    run.Input(Random({2, 1, 5}, 1)).Input(Random({1, 18, 4}, 2)).Input(Random({1, 18, 6}, 3));
    EXPECT_THROW(run.Attr("hidden_size", int64_t{6}).Run(), Error);
  }
  {
    NodeRunner run("", "LSTM", 14);
    run.Input(Random({2, 1, 5}, 1)).Input(Random({1, 24, 5}, 2)).Input(Random({1, 24, 6}, 3));
    EXPECT_THROW(run.Attr("activations", std::vector<std::string>{"Sigmoid", "Cosine", "Tanh"}).Run(), Error);
  }
  {
    NodeRunner run("", "ReverseSequence", 10);
    run.Input(Random({3, 2}, 1)).Input(TestTensor::Int64({2}, {1, 4}));
    EXPECT_THROW(run.Run(), Error);
  }
  {
    NodeRunner run("", "NegativeLogLikelihoodLoss", 13);
    run.Input(Random({2, 3}, 1)).Input(TestTensor::Int64({2}, {1, 3}));
    EXPECT_THROW(run.Run(), Error);
  }
  {
    NodeRunner run("", "RoiAlign", 16);
    run.Input(Random({1, 1, 4, 4}, 1)).Input(Random({1, 4}, 2)).Input(TestTensor::Int64({1}, {1}));
    EXPECT_THROW(run.Run(), Error);
  }
}

/// A tree whose nodes are each other's children would never end.
TEST(TensorKernels, RefuseTreesWithLoops) {
  NodeRunner run("ai.onnx.ml", "TreeEnsembleRegressor", 3);
  using Ints = std::vector<int64_t>;
  run.Input(Random({1, 2}, 1));
  run.Attr("nodes_treeids", Ints{0, 0})
      .Attr("nodes_nodeids", Ints{0, 1})
      .Attr("nodes_featureids", Ints{0, 1});
  run.Attr("nodes_truenodeids", Ints{1, 1}).Attr("nodes_falsenodeids", Ints{1, 0});
  run.Attr("nodes_values", std::vector<float>{0, 0});
  run.Attr("nodes_modes", std::vector<std::string>{"BRANCH_LEQ", "BRANCH_LEQ"});
  EXPECT_THROW(run.Run(), Error);
}

}  // namespace
}  // namespace ullage::cpu
