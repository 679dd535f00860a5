// Hand-computed vectors and plain loops against the kernels of products, quantisation and selection.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "providers/cpu/kernels/node_runner.h"
#include "providers/cpu/kernels/small_types.h"

namespace ullage::cpu {
namespace {

void ExpectNear(const std::vector<float>& got, const std::vector<float>& want, float tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], tolerance) << "at " << i;
}

const std::vector<uint8_t> kRows = {0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe, 0x10, 0x32, 0,
                                    0,    0,    0,    0,    0,    0x43, 0x65, 0x87, 0xa9, 0xcb, 0xed,
                                    0x0f, 0x21, 0x43, 0x65, 0,    0,    0,    0,    0,    0};

TEST(Quantised, MatMulNBits) {
  std::vector<float> a(20);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i);
  for (bool zeros : {false, true})
    for (int64_t level : {0, 4}) {
      NodeRunner run(graph::kMsDomain, "MatMulNBits", 1);
      run.Attr("K", int64_t{20})
          .Attr("N", int64_t{2})
          .Attr("bits", int64_t{4})
          .Attr("block_size", int64_t{16});
      run.Attr("accuracy_level", level);
      run.Input(TestTensor::Floats({1, 20}, a))
          .Input(TestTensor::Bytes({2, 2, 8}, kRows), true)
          .Input(TestTensor::Floats({2, 2}, {1, 0.5f, -2, 0.25f}), true);
      if (zeros) run.Input(TestTensor::Bytes({2}, {0x78, 0x19}), true);
      const std::vector<float> want = zeros ? std::vector<float>{90, 366.5f} : std::vector<float>{55, 4};
      ExpectNear(run.Run()[0].AsFloats(), want, level == 4 ? 8.0f : 1e-3f);
      EXPECT_FALSE(run.overrun());
    }
}

TEST(Quantised, MatMulNBitsOfAnyNumberOfRows) {
  // Nothing bounds the rows: no workspace is declared, and the kernel asks for what it needs.
  std::vector<float> a(40, 1.0f);
  for (const DType dtype : {DType::kFloat, DType::kFloat16}) {
    NodeRunner run(graph::kMsDomain, "MatMulNBits", 1);
    run.Attr("K", int64_t{20}).Attr("N", int64_t{2}).Attr("bits", int64_t{4}).Attr("block_size", int64_t{16});
    run.Input(TestTensor::Floats({2, 20}, a, dtype)).UpTo({INT64_MAX, 20});
    run.Input(TestTensor::Bytes({2, 2, 8}, kRows), true)
        .Input(TestTensor::Floats({2, 2}, {1, 0.5f, -2, 0.25f}, dtype), true)
        .Input(std::nullopt)
        .Input(std::nullopt)
        .Input(TestTensor::Floats({2}, {100, 200}, dtype));
    const auto y = run.Run()[0];
    EXPECT_EQ(y.shape.ToString(), "[2,2]");
    ExpectNear(y.AsFloats(), {79, 212.5f, 79, 212.5f}, 0.1f);
    EXPECT_GT(run.scratch_calls(), 0);
    EXPECT_FALSE(run.overrun());
  }
}

TEST(Quantised, GatherBlockQuantized) {
  // As a constant, and as a tensor that is not: two kernels.
  for (bool constant : {true, false}) {
    NodeRunner run(graph::kMsDomain, "GatherBlockQuantized", 1);
    run.Attr("bits", int64_t{4}).Attr("block_size", int64_t{16});
    run.Input(TestTensor::Bytes({2, 16}, kRows), constant)
        .Input(TestTensor::Int64({4}, {1, -2, 2, -3}))
        .Input(TestTensor::Floats({2, 2}, {1, 0.5f, -2, 0.25f}), constant);
    const auto y = run.Run()[0];
    ASSERT_EQ(y.shape.ToString(), "[4,32]");
    const auto v = y.AsFloats();
    EXPECT_EQ(std::vector<float>(v.begin(), v.begin() + 4), (std::vector<float>{10, 8, 6, 4}));
    EXPECT_EQ(v[16], (3 - 8) * 0.25f);
    EXPECT_EQ(std::vector<float>(v.begin() + 32, v.begin() + 36), (std::vector<float>{-8, -7, -6, -5}));
    for (size_t i = 64; i < 128; ++i) EXPECT_EQ(v[i], 0) << "rows outside are zeros";
  }
}

TEST(Quantised, RowsThatNoBlockDivides) {
  // 12 columns in blocks of 16: one block, of which 4 do not exist; and 20 columns: a block and a quarter.
  for (int64_t columns : {12, 20})
    for (bool constant : {true, false}) {
      std::vector<uint8_t> data(static_cast<size_t>(columns)), zeros = {0x21, 0x43};
      for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 37);
      const int64_t blocks = (columns + 15) / 16;
      zeros.resize(static_cast<size_t>(2 * ((blocks + 1) / 2)));
      std::vector<float> scales;
      for (int64_t i = 0; i < 2 * blocks; ++i) scales.push_back(0.5f + static_cast<float>(i));
      NodeRunner run(graph::kMsDomain, "GatherBlockQuantized", 1);
      run.Attr("bits", int64_t{4}).Attr("block_size", int64_t{16});
      run.Input(TestTensor::Bytes({2, columns / 2}, data), constant)
          .Input(TestTensor::Int32({2}, {0, 1}))
          .Input(TestTensor::Floats({2, blocks}, scales), constant)
          .Input(TestTensor::Bytes({2, (blocks + 1) / 2}, zeros), constant);
      const auto v = run.Run()[0].AsFloats();
      for (int64_t r = 0; r < 2; ++r)
        for (int64_t c = 0; c < columns; ++c) {
          const int code = data[static_cast<size_t>((r * columns + c) / 2)] >> (4 * (c % 2)) & 15;
          const int64_t block = c / 16;
          const int zero = zeros[static_cast<size_t>(r * ((blocks + 1) / 2))] >> (4 * block) & 15;
          EXPECT_EQ(v[static_cast<size_t>(r * columns + c)],
                    static_cast<float>(code - zero) * scales[static_cast<size_t>(r * blocks + block)])
              << columns << " columns, " << r << ", " << c;
        }
    }
}

TEST(Quantised, DynamicQuantizeLinear) {
  NodeRunner run("", "DynamicQuantizeLinear", 11);
  run.Input(TestTensor::Floats({6}, {0, 2, -3, -2.5f, 1.34f, 0.5f})).Outputs({true, true, true});
  const auto y = run.Run();
  EXPECT_EQ(y[0].As<uint8_t>(), (std::vector<uint8_t>{153, 255, 0, 26, 221, 179}));
  EXPECT_FLOAT_EQ(y[1].AsFloats()[0], 0.019607844f);
  EXPECT_EQ(y[2].As<uint8_t>()[0], 153);
}

TEST(Quantised, BlockedInt4AlongTheFirstAxis) {
  // The form of QDQ weights: [K, N] int4, one scale per 2 rows.
  NodeRunner run("", "DequantizeLinear", 21);
  run.Attr("axis", int64_t{0}).Attr("block_size", int64_t{2});
  run.Input(TestTensor::Bytes({3, 2}, {0x7f, 0x8f, 0x10}, DType::kInt4))
      .Input(TestTensor::Floats({2, 2}, {1, 10, 0.5f, 0.25f}))
      .Input(TestTensor::Bytes({2, 2}, {0x01, 0x2f}, DType::kInt4));
  // Codes -1 7 | -1 -8 | 0 1; zero points 1 0 | -1 2.
  ExpectNear(run.Run()[0].AsFloats(), {-2, 70, -2, -80, 0.5f, -0.25f}, 0);
}

TEST(Quantised, RoundsHalvesToEvenAndSaturates) {
  NodeRunner run("", "QuantizeLinear", 13);
  run.Input(TestTensor::Floats({7}, {0.5f, 1.5f, 2.5f, -0.5f, 300, -300, NAN}))
      .Input(TestTensor::Floats({}, {1}))
      .Input(TestTensor::Bytes({}, {0}, DType::kInt8));
  EXPECT_EQ(run.Run()[0].As<int8_t>(), (std::vector<int8_t>{0, 2, 2, 0, 127, -128, 0}));
}

TEST(SmallTypes, KnownPatterns) {
  EXPECT_EQ(DecodeSmallFloat(DType::kFloat8E4M3FN, 0x7e), 448.0f);
  EXPECT_TRUE(std::isnan(DecodeSmallFloat(DType::kFloat8E4M3FN, 0x7f)));
  EXPECT_EQ(DecodeSmallFloat(DType::kFloat8E4M3FN, 0x01), 0x1p-9f);
  EXPECT_EQ(DecodeSmallFloat(DType::kFloat8E5M2, 0x7b), 57344.0f);
  EXPECT_TRUE(std::isinf(DecodeSmallFloat(DType::kFloat8E5M2, 0x7c)));
  EXPECT_EQ(DecodeSmallFloat(DType::kFloat8E4M3FNUZ, 0x7f), 240.0f);
  EXPECT_TRUE(std::isnan(DecodeSmallFloat(DType::kFloat8E4M3FNUZ, 0x80)));
  EXPECT_EQ(DecodeSmallFloat(DType::kFloat4E2M1, 0x7), 6.0f);
  EXPECT_EQ(DecodeSmallFloat(DType::kFloat4E2M1, 0x1), 0.5f);
  EXPECT_EQ(DecodeSmallFloat(DType::kFloat8E8M0, 127), 1.0f);
  EXPECT_EQ(EncodeSmallFloat(DType::kFloat8E4M3FN, 1e9f, true), 0x7e);
  EXPECT_EQ(EncodeSmallFloat(DType::kFloat8E4M3FN, 1e9f, false), 0x7f);
  EXPECT_EQ(EncodeSmallFloat(DType::kFloat8E4M3FN, 464.0f, false), 0x7e);  // a tie, to even
  EXPECT_EQ(EncodeSmallFloat(DType::kFloat8E5M2, -1e9f, false), 0xfc);
}

TEST(SmallTypes, EveryPatternComesBack) {
  for (DType type : {DType::kFloat8E4M3FN, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2, DType::kFloat8E5M2FNUZ,
                     DType::kFloat4E2M1, DType::kFloat8E8M0})
    for (int code = 0; code < (type == DType::kFloat4E2M1 ? 16 : 256); ++code) {
      const float v = DecodeSmallFloat(type, static_cast<uint8_t>(code));
      if (std::isnan(v)) continue;
      EXPECT_EQ(EncodeSmallFloat(type, v, false), code) << NameOf(type);
    }
}

std::vector<float> Numbers(size_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& v : values) v = normal(generator);
  return values;
}

/// The sum over all indices, in the plainest way.
std::vector<float> PlainEinsum(const std::string& a, const std::string& b, const std::string& out,
                               const std::map<char, int64_t>& size, const std::vector<float>& x,
                               const std::vector<float>& y) {
  std::map<char, int64_t> at;
  const auto offset = [&](const std::string& term) {
    int64_t n = 0;
    for (char c : term) n = n * size.at(c) + at[c];
    return static_cast<size_t>(n);
  };
  size_t count = 1;
  for (char c : out) count *= static_cast<size_t>(size.at(c));
  std::vector<double> sums(count);
  const std::function<void(std::map<char, int64_t>::const_iterator)> walk = [&](auto it) {
    if (it == size.end()) {
      sums[offset(out)] += static_cast<double>(x[offset(a)]) * static_cast<double>(y[offset(b)]);
      return;
    }
    for (int64_t i = 0; i < it->second; ++i) {
      at[it->first] = i;
      walk(std::next(it));
    }
  };
  walk(size.begin());
  return {sums.begin(), sums.end()};
}

TEST(Einsum, ProductsOfAllForms) {
  const std::map<char, int64_t> sizes = {{'b', 3}, {'h', 4}, {'i', 9}, {'j', 10}, {'k', 7}, {'d', 8}};
  const char* forms[][3] = {
      {"ik", "kj", "ij"},       {"ki", "kj", "ij"},       {"ik", "jk", "ij"},       {"ik", "kj", "ji"},
      {"bhid", "bhjd", "bhij"}, {"bihd", "bjhd", "bhij"}, {"bhij", "bhjd", "bihd"}, {"bhij", "bjhd", "bihd"},
      {"bik", "kj", "bij"},     {"bikd", "jkd", "bij"},   {"ikbd", "hkd", "bhi"},   {"bi", "jd", "bijd"},
      {"bhik", "hkj", "bhij"},  {"bkid", "hd", "bkih"},   {"bhid", "bhid", "bh"},   {"ibhd", "jbhd", "bhij"},
  };
  for (const auto& form : forms) {
    std::map<char, int64_t> used;
    const auto shape = [&](const std::string& term) {
      Shape s;
      for (char c : term) {
        used[c] = sizes.at(c);
        s.push_back(sizes.at(c));
      }
      return s;
    };
    const Shape sa = shape(form[0]), sb = shape(form[1]);
    const auto x = Numbers(static_cast<size_t>(sa.elements()), 1),
               y = Numbers(static_cast<size_t>(sb.elements()), 2);
    NodeRunner run("", "Einsum", 12);
    run.Attr("equation", std::string(form[0]) + ", " + form[1] + " -> " + form[2]);
    run.Input(TestTensor::Floats(sa, x)).Input(TestTensor::Floats(sb, y));
    const auto want = PlainEinsum(form[0], form[1], form[2], used, x, y);
    SCOPED_TRACE(std::string(form[0]) + "," + form[1] + "->" + form[2]);
    ExpectNear(run.Run()[0].AsFloats(), want, 2e-4f);
    EXPECT_EQ(run.scratch_calls(), 0);
    EXPECT_FALSE(run.overrun());
  }
}

TEST(Products, WorkspaceIsEnoughForAllShapesWithinTheBounds) {
  const auto floats = [](const Shape& shape, DType dtype) {
    return TestTensor::Floats(shape, Numbers(static_cast<size_t>(shape.elements()), 1), dtype);
  };
  for (DType dtype : {DType::kFloat, DType::kFloat16})
    for (int64_t m : {1, 2, 5, 13, 97, 130})
      for (int64_t k : {1, 40, 300}) {
        const auto run = [&](const Shape& a, const Shape& a_most, const Shape& b, const Shape& b_most,
                             int64_t transposed, bool constant) {
          NodeRunner product(a.rank() == 2 ? "" : "com.microsoft", a.rank() == 2 ? "Gemm" : "FusedMatMul",
                             a.rank() == 2 ? 13 : 1);
          product.Attr("transB", transposed);
          product.Input(floats(a, dtype)).UpTo(a_most).Input(floats(b, dtype), constant);
          if (!constant) product.UpTo(b_most);
          product.Run();
          EXPECT_EQ(product.scratch_calls(), 0) << a.ToString() << " x " << b.ToString();
          EXPECT_FALSE(product.overrun());
        };
        run({m, k}, {130, k}, {k, 33}, {k, 33}, 0, true);
        run({m, k}, {130, 300}, {k, 33}, {300, 64}, 0, false);
        run({2, m, k}, {2, 130, 300}, {2, 33, k}, {2, 64, 300}, 1, false);
        run({2, m, k}, {2, 130, 300}, {1, k, 7}, {2, 300, 64}, 0, false);
      }
}

TEST(Products, DoublesAndIntegers) {
  NodeRunner doubles("", "Gemm", 13);
  doubles.Attr("alpha", 2.0f).Attr("beta", 0.5f).Attr("transB", int64_t{1});
  doubles.Input(TestTensor::Of<double>(DType::kDouble, {1, 2}, {1, 1e-12}))
      .Input(TestTensor::Of<double>(DType::kDouble, {2, 2}, {1, 1, 3, 4}))
      .Input(TestTensor::Of<double>(DType::kDouble, {2}, {10, 20}));
  const auto d = doubles.Run()[0].As<double>();
  EXPECT_DOUBLE_EQ(d[0], 7 + 2e-12);
  EXPECT_DOUBLE_EQ(d[1], 16 + 8e-12);
  NodeRunner integers("", "MatMul", 13);
  integers.Input(TestTensor::Int64({2, 2}, {1, 2, 3, INT64_MAX})).Input(TestTensor::Int64({2}, {1, 2}));
  EXPECT_EQ(integers.Run()[0].As<int64_t>(), (std::vector<int64_t>{5, 1}));  // wraps around
  NodeRunner bytes("", "MatMulInteger", 10);
  bytes.Input(TestTensor::Bytes({2, 2}, {255, 0, 10, 20}))
      .Input(TestTensor::Of<int8_t>(DType::kInt8, {2, 2}, {-128, 1, 127, 2}))
      .Input(TestTensor::Bytes({2}, {1, 10}))
      .Input(TestTensor::Of<int8_t>(DType::kInt8, {2}, {-1, 1}));
  EXPECT_EQ(bytes.Run()[0].As<int32_t>(),
            (std::vector<int32_t>{254 * -127 + -1 * 128, 254 * 0 + -1 * 1, 10 * 128, 10 * 1}));
}

TEST(Selection, TopKBreaksTiesByIndex) {
  NodeRunner run("", "TopK", 11);
  run.Input(TestTensor::Floats({2, 4}, {1, 3, 3, 2, NAN, 0, 5, -1}))
      .Input(TestTensor::Int64({1}, {2}))
      .Outputs({true, true});
  const auto y = run.Run();
  EXPECT_EQ(y[1].As<int64_t>(), (std::vector<int64_t>{1, 2, 0, 2}));
  EXPECT_EQ(run.scratch_calls(), 0);
}

TEST(Selection, PadReflectsMoreThanOnce) {
  NodeRunner run("", "Pad", 18);
  run.Attr("mode", std::string("reflect"));
  run.Input(TestTensor::Floats({3}, {1, 2, 3})).Input(TestTensor::Int64({2}, {4, 5}));
  EXPECT_EQ(run.Run()[0].AsFloats(), (std::vector<float>{1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3, 2}));
}

TEST(Selection, NonZeroTellsHowManyThereAre) {
  NodeRunner run("", "NonZero", 13);
  run.Input(TestTensor::Floats({2, 3}, {0, 1, 0, -2, 0, NAN}));
  const auto y = run.Run()[0];
  EXPECT_EQ(y.shape.ToString(), "[2,3]");
  EXPECT_EQ(y.As<int64_t>(), (std::vector<int64_t>{0, 1, 1, 1, 0, 2}));
}

}  // namespace
}  // namespace ullage::cpu
