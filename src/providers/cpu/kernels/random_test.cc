// Random operators: moments, repeatability. And Conv in double, with the vectors of ONNX's documentation.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "core/error.h"
#include "providers/cpu/kernels/node_runner.h"

namespace ullage::cpu {
namespace {

constexpr int64_t kCount = 20000;

struct Moments {
  double mean = 0, deviation = 0;
};
template <class T>
Moments MomentsOf(const std::vector<T>& v) {
  const auto n = static_cast<double>(v.size());
  Moments m;
  for (T x : v) m.mean += static_cast<double>(x) / n;
  for (T x : v) m.deviation += (static_cast<double>(x) - m.mean) * (static_cast<double>(x) - m.mean) / n;
  m.deviation = std::sqrt(m.deviation);
  return m;
}

NodeRunner Generator(const char* op, float seed) {
  NodeRunner run("", op, 22);
  run.Attr("shape", std::vector<int64_t>{4, kCount / 4}).Attr("seed", seed);
  return run;
}

TEST(Random, HasTheMomentsAskedFor) {
  NodeRunner normal = Generator("RandomNormal", 3);
  normal.Attr("mean", 2.0f).Attr("scale", 0.5f);
  const auto n = MomentsOf(normal.Run()[0].AsFloats());
  EXPECT_NEAR(n.mean, 2, 0.02);
  EXPECT_NEAR(n.deviation, 0.5, 0.02);
  NodeRunner uniform = Generator("RandomUniform", 3);
  uniform.Attr("low", -1.0f).Attr("high", 3.0f);
  const auto values = uniform.Run()[0].AsFloats();
  EXPECT_GE(*std::min_element(values.begin(), values.end()), -1);
  EXPECT_LE(*std::max_element(values.begin(), values.end()), 3);
  const auto u = MomentsOf(values);
  EXPECT_NEAR(u.mean, 1, 0.04);
  EXPECT_NEAR(u.deviation, 4 / std::sqrt(12.0), 0.04);
}

TEST(Random, SeedsDecideAndThreadsDoNot) {
  const auto one = Generator("RandomNormal", 1).Threads(1).Run()[0].AsFloats();
  EXPECT_EQ(one, Generator("RandomNormal", 1).Threads(4).Run()[0].AsFloats());
  EXPECT_NE(one, Generator("RandomNormal", 2).Run()[0].AsFloats());
}

TEST(Random, LikeTakesShapeAndTypeOfItsInput) {
  NodeRunner run("", "RandomUniformLike", 22);
  run.Input(TestTensor::Of<double>(DType::kDouble, {3, 5}, std::vector<double>(15)));
  const auto y = run.Run()[0];
  EXPECT_EQ(y.dtype, DType::kDouble);
  EXPECT_EQ(y.shape.ToString(), "[3,5]");
  NodeRunner integers("", "RandomUniformLike", 22);
  integers.Input(TestTensor::Int64({2}, {0, 0}));
  EXPECT_THROW(integers.Run(), Error);
}

TEST(Random, BernoulliAndMultinomialFollowTheirProbabilities) {
  std::vector<float> p(kCount, 0.3f);
  p[0] = 0;
  p[1] = 1;
  NodeRunner bernoulli("", "Bernoulli", 15);
  bernoulli.Attr("dtype", int64_t{9}).Attr("seed", 5.0f).Input(TestTensor::Floats({kCount}, p));
  const auto flags = bernoulli.Run()[0];
  EXPECT_EQ(flags.dtype, DType::kBool);
  const auto bits = flags.As<uint8_t>();
  EXPECT_EQ(bits[0], 0);
  EXPECT_EQ(bits[1], 1);
  EXPECT_NEAR(MomentsOf(bits).mean, 0.3, 0.02);
  NodeRunner multinomial("", "Multinomial", 22);
  multinomial.Attr("sample_size", kCount).Attr("dtype", int64_t{7}).Attr("seed", 5.0f);
  const float never = -INFINITY;
  multinomial.Input(TestTensor::Floats({2, 3}, {std::log(1.0f), std::log(3.0f), never, never, never, 0}));
  const auto samples = multinomial.Run()[0].As<int64_t>();
  ASSERT_EQ(samples.size(), 2 * static_cast<size_t>(kCount));
  EXPECT_NEAR(std::accumulate(samples.begin(), samples.begin() + kCount, 0.0) / kCount, 0.75, 0.02);
  for (size_t i = kCount; i < samples.size(); ++i) ASSERT_EQ(samples[i], 2);
}

TEST(DoubleConv, WithPaddingAndStrides) {
  const auto conv = [](const Shape& shape, std::vector<int64_t> pads, std::vector<int64_t> strides) {
    std::vector<double> x(static_cast<size_t>(shape.elements()));
    std::iota(x.begin(), x.end(), 0.0);
    NodeRunner run("", "Conv", 22);
    run.Attr("pads", std::move(pads)).Attr("strides", std::move(strides));
    run.Input(TestTensor::Of(DType::kDouble, shape, x))
        .Input(TestTensor::Of(DType::kDouble, {1, 1, 3, 3}, std::vector<double>(9, 1)), true);
    return run.Run()[0].As<double>();
  };
  EXPECT_EQ(conv({1, 1, 5, 5}, {1, 1, 1, 1}, {1, 1}),
            (std::vector<double>{12,  21, 27, 33,  24,  33,  54,  63, 72,  51,  63,  99, 108,
                                 117, 81, 93, 144, 153, 162, 111, 72, 111, 117, 123, 84}));
  EXPECT_EQ(conv({1, 1, 7, 5}, {1, 1, 1, 1}, {2, 2}),
            (std::vector<double>{12, 27, 24, 63, 108, 81, 123, 198, 141, 112, 177, 124}));
  EXPECT_EQ(conv({1, 1, 7, 5}, {1, 0, 1, 0}, {2, 2}),
            (std::vector<double>{21, 33, 99, 117, 189, 207, 171, 183}));
}

}  // namespace
}  // namespace ullage::cpu
