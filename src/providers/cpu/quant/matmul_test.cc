#include "providers/cpu/quant/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <vector>

#include "core/cpu_features.h"
#include "providers/cpu/quant/aligned_test_buffer.h"
#include "providers/cpu/quant/every_isa_test.h"
#include "providers/cpu/quant/quant_test_util.h"

namespace ullage::quant {
namespace {

class MatMulOnIsa : public EveryIsa {};
INSTANTIATE_TEST_SUITE_P(Quant, MatMulOnIsa, AllIsas(), IsaTestName);

std::vector<float> RandomValues(int64_t count, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<float> a(static_cast<size_t>(count));
  for (float& x : a) x = normal(rng);
  return a;
}

// A packed weight, activations and the product.
struct Product {
  Product(const TestWeight& w, Accuracy accuracy)
      : layout(PlanPack(w.format, w.n, w.k, accuracy, !w.g_idx.empty())), packed(layout.bytes) {
    Pack(w.view(), layout, 0, layout.groups, packed.data());
  }

  std::vector<float> Run(const std::vector<float>& a, int64_t m, int threads = 1, const float* bias = nullptr,
                         const float* residual = nullptr) {
    ThreadTeam team(threads);
    AlignedTestBuffer activations(ActivationBytes(layout.activations, m, layout.k));
    QuantizeActivations(layout.activations, a.data(), layout.k, m, layout.k, activations.data(), team);
    const int64_t ldo = layout.n + 3;
    std::vector<float> out(static_cast<size_t>(m * ldo), -77.0f);
    MatMulArgs args;
    args.layout = &layout;
    args.packed = packed.data();
    args.activations = activations.data();
    args.m = m;
    args.out = out.data();
    args.ldo = ldo;
    args.bias = bias;
    args.residual = residual;
    args.ldr = layout.n;
    MatMul(args, team);
    std::vector<float> dense;
    for (int64_t t = 0; t < m; ++t) {
      for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(out[static_cast<size_t>(t * ldo + layout.n + i)], -77.0f);
      dense.insert(dense.end(), out.begin() + t * ldo, out.begin() + t * ldo + layout.n);
    }
    return dense;
  }

  PackedLayout layout;
  AlignedTestBuffer packed;
};

// The activations as the product sees them: what the records stand for.
std::vector<double> ValuesOfRecords(Activations form, const std::vector<float>& a, int64_t m, int64_t k) {
  AlignedTestBuffer buffer(ActivationBytes(form, m, k));
  QuantizeActivationRows(form, a.data(), k, m, k, 0, m, buffer.data());
  std::vector<double> values(static_cast<size_t>(m * k));
  const int digits = DigitsOf(form);
  for (int64_t t = 0; t < m; ++t) {
    for (int64_t i = 0; i < k; ++i) {
      double& v = values[static_cast<size_t>(t * k + i)];
      if (form == Activations::kFloat) {
        v = a[static_cast<size_t>(t * k + i)];
        continue;
      }
      const ActivationBlock* record =
          reinterpret_cast<const ActivationBlock*>(buffer.data()) + (i / 32 * m + t) * digits;
      for (int d = 0; d < digits; ++d) v = v * 256 + record[d].q[i % 32];
      v *= record->scale;
    }
  }
  return values;
}

TEST_P(MatMulOnIsa, EveryFormatAgainstDoublePrecision) {
  for (const FormatCase& c : AllFormats()) {
    for (const auto& [n, k] : OddSizes(c)) {
      const TestWeight w = RandomWeight(c.format, n, k, static_cast<uint32_t>(n * 31 + k), c.g_idx);
      for (const Accuracy accuracy : {Accuracy::kInt8, Accuracy::kInt16, Accuracy::kFloat}) {
        Product product(w, accuracy);
        // Weights as packed: pack_test compares those with the source.
        std::vector<float> weights(static_cast<size_t>(n * k));
        for (int64_t i = 0; i < n; ++i)
          DequantizePackedRow(product.layout, product.packed.data(), i, weights.data() + i * k);
        for (const int64_t m : {1, 2, 15}) {
          SCOPED_TRACE(testing::Message()
                       << c.name << " " << product.layout.Name() << " [" << n << "," << k << "] m " << m);
          const std::vector<float> a = RandomValues(m * k, static_cast<uint32_t>(m));
          const std::vector<float> out = product.Run(a, m);
          // With exact activations where the product promises the accuracy of floats.
          const bool exact = accuracy == Accuracy::kFloat;
          const std::vector<double> seen = exact ? std::vector<double>(a.begin(), a.end())
                                                 : ValuesOfRecords(product.layout.activations, a, m, k);
          for (int64_t t = 0; t < m; ++t) {
            for (int64_t i = 0; i < n; ++i) {
              double sum = 0, magnitude = 0;
              for (int64_t j = 0; j < k; ++j) {
                const double x =
                    weights[static_cast<size_t>(i * k + j)] * seen[static_cast<size_t>(t * k + j)];
                sum += x;
                magnitude += std::fabs(x);
              }
              // Minima and products of codes cancel: their size counts, too.
              double cancel = 0;
              for (int64_t j = 0; j < k; ++j) cancel += std::fabs(seen[static_cast<size_t>(t * k + j)]);
              ASSERT_NEAR(out[static_cast<size_t>(t * n + i)], sum, magnitude * 2e-6 + cancel * 3e-6 + 1e-6)
                  << "token " << t << " row " << i;
            }
          }
        }
      }
    }
  }
}

TEST_P(MatMulOnIsa, SameBitsAsPortableCode) {
  for (const FormatCase& c : AllFormats()) {
    const int64_t n = 45, k = AlignUp<int64_t>(570, c.k_step);
    const TestWeight w = RandomWeight(c.format, n, k, 9, c.g_idx);
    for (const Accuracy accuracy : {Accuracy::kInt8, Accuracy::kInt16, Accuracy::kFloat}) {
      Product product(w, accuracy);
      for (const int64_t m : {1, 2, 27}) {
        SCOPED_TRACE(testing::Message() << c.name << " m " << m);
        const std::vector<float> a = RandomValues(m * k, 11);
        const std::vector<float> out = product.Run(a, m);
        ForceIsa(Isa::kScalar);
        const std::vector<float> expected = product.Run(a, m);
        ForceIsa(GetParam());
        ASSERT_EQ(std::memcmp(out.data(), expected.data(), out.size() * 4), 0);
      }
    }
  }
}

// The largest codes and digits: sums must not leave the range of the integers they are kept in.
TEST_P(MatMulOnIsa, LargestCodesAndDigits) {
  constexpr float kStep = 1.0f / 8355711;
  for (const FormatCase& c : AllFormats()) {
    const int64_t n = 16, k = AlignUp<int64_t>(64, c.k_step);
    TestWeight w = RandomWeight(c.format, n, k, 9, c.g_idx);
    if (c.format.kind != BlockKind::kGguf) std::fill(w.data.begin(), w.data.end(), std::byte{0xff});
    if (c.format.kind == BlockKind::kGguf && c.k_step == 32)
      for (size_t i = 0; i < w.data.size(); ++i)
        if (i % static_cast<size_t>(TraitsOf(c.format.gguf).bytes) >= 4) w.data[i] = std::byte{0xff};
    for (const Accuracy accuracy : {Accuracy::kInt8, Accuracy::kInt16, Accuracy::kFloat}) {
      Product product(w, accuracy);
      // All digits 127, all -127, and the digits 100, -128, -128 (with one 1 to fix the scale).
      for (const float value : {1.0f, -1.0f, kStep * (100 * 65536 - 128 * 256 - 128)}) {
        std::vector<float> a(static_cast<size_t>(2 * k), value);
        a[0] = 1;
        const std::vector<float> out = product.Run(a, 2), one = product.Run({a.begin(), a.begin() + k}, 1);
        ForceIsa(Isa::kScalar);
        const std::vector<float> expected = product.Run(a, 2);
        ForceIsa(GetParam());
        EXPECT_EQ(out, expected) << c.name << " value " << value;
        EXPECT_EQ(one, std::vector<float>(expected.begin(), expected.begin() + n))
            << c.name << " value " << value;
      }
    }
  }
}

TEST_P(MatMulOnIsa, SameBitsForAnyThreadsAndAnyCutOfTokens) {
  for (const FormatCase& c : AllFormats()) {
    SCOPED_TRACE(c.name);
    const int64_t n = 16 * 5 + 5, k = AlignUp<int64_t>(570, c.k_step), m = 151;
    const TestWeight w = RandomWeight(c.format, n, k, 4, c.g_idx);
    if (GetParam() == Isa::kScalar && c.format.zero_point == ZeroPoint::kMiddle)
      continue;  // portable code is slow
    for (const Accuracy accuracy : {Accuracy::kInt8, Accuracy::kInt16, Accuracy::kFloat}) {
      Product product(w, accuracy);
      const std::vector<float> a = RandomValues(m * k, 2);
      const std::vector<float> out = product.Run(a, m, 1);
      for (int threads : {2, 3, 4}) {
        const std::vector<float> again = product.Run(a, m, threads);
        ASSERT_EQ(std::memcmp(out.data(), again.data(), out.size() * 4), 0) << threads << " threads";
      }
      int64_t first = 0;
      for (int64_t count : {1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 31, 56}) {
        const std::vector<float> part(a.begin() + first * k, a.begin() + (first + count) * k);
        const std::vector<float> rows = product.Run(part, count, 2);
        ASSERT_EQ(std::memcmp(out.data() + first * n, rows.data(), rows.size() * 4), 0)
            << "tokens from " << first;
        first += count;
      }
      ASSERT_EQ(first, m);
    }
  }
}

TEST_P(MatMulOnIsa, BiasAndResidual) {
  const TestWeight w = RandomWeight(BlockFormat::NBits(4, 32, DType::kFloat, ZeroPoint::kMiddle), 37, 64, 1);
  Product product(w, Accuracy::kInt8);
  for (const int64_t m : {1, 20}) {
    const std::vector<float> a = RandomValues(m * 64, 1), bias = RandomValues(37, 2),
                             residual = RandomValues(m * 37, 3);
    const std::vector<float> plain = product.Run(a, m),
                             both = product.Run(a, m, 2, bias.data(), residual.data());
    for (int64_t t = 0; t < m; ++t)
      for (int64_t i = 0; i < 37; ++i) {
        const size_t j = static_cast<size_t>(t * 37 + i);
        EXPECT_EQ(both[j], plain[j] + bias[static_cast<size_t>(i)] + residual[j]);
      }
  }
}

TEST_P(MatMulOnIsa, SeveralProductsAtOnce) {
  ThreadTeam team(2);
  std::vector<TestWeight> weights;
  std::vector<std::unique_ptr<Product>> products;
  constexpr int64_t k = 512, m = 3;
  const std::vector<float> a = RandomValues(m * k, 5);
  AlignedTestBuffer activations(ActivationBytes(Activations::kInt8, m, k));
  QuantizeActivations(Activations::kInt8, a.data(), k, m, k, activations.data(), team);
  std::vector<std::vector<float>> outs;
  std::vector<MatMulArgs> batch;
  for (int i = 0; i < 20; ++i) {  // more than are handed out together
    const int64_t n = 16 + i * 13;
    const GgufType type = i % 2 == 0 ? GgufType::kQ4_K : GgufType::kQ6_K;
    weights.push_back(RandomWeight(BlockFormat::Gguf(type), n, k, static_cast<uint32_t>(i)));
    products.push_back(std::make_unique<Product>(weights.back(), Accuracy::kInt8));
    outs.emplace_back(static_cast<size_t>(m * n));
    MatMulArgs args;
    args.layout = &products.back()->layout;
    args.packed = products.back()->packed.data();
    args.activations = activations.data();
    args.m = m;
    args.out = outs.back().data();
    args.ldo = n;
    batch.push_back(args);
  }
  MatMul(batch, team);
  for (size_t i = 0; i < products.size(); ++i) EXPECT_EQ(outs[i], products[i]->Run(a, m)) << i;
}

TEST_P(MatMulOnIsa, NotANumberPoisonsItsTokenOnly) {
  for (const FormatCase& c : AllFormats()) {
    const int64_t k = AlignUp<int64_t>(64, c.k_step);
    const TestWeight w = RandomWeight(c.format, 20, k, 1, c.g_idx);
    Product product(w, Accuracy::kInt8);
    std::vector<float> a = RandomValues(3 * k, 1);
    a[static_cast<size_t>(k + 5)] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> out = product.Run(a, 3);
    for (size_t i = 0; i < 20; ++i) {
      EXPECT_TRUE(std::isfinite(out[i])) << c.name;
      EXPECT_TRUE(std::isnan(out[20 + i])) << c.name;
      EXPECT_TRUE(std::isfinite(out[40 + i])) << c.name;
    }
  }
}

// A=[0…19] times the weight of block_format_test's MatMulNBitsByHand.
TEST_P(MatMulOnIsa, MatMulNBitsByHand) {
  TestWeight w;
  w.format = BlockFormat::NBits(4, 16, DType::kFloat, ZeroPoint::kMiddle);
  w.n = 2;
  w.k = 20;
  w.data.resize(32);
  for (int n = 0; n < 2; ++n)
    for (int k = 0; k < 20; ++k)
      w.data[static_cast<size_t>(n * 16 + k / 2)] |= static_cast<std::byte>((k + 3 * n) % 16 << (k % 2 * 4));
  const float scales[4] = {1, 0.5f, -2, 0.25f};
  w.scales.resize(sizeof scales);
  std::memcpy(w.scales.data(), scales, sizeof scales);
  std::vector<float> a(20);
  for (int k = 0; k < 20; ++k) a[static_cast<size_t>(k)] = static_cast<float>(k);
  for (const Accuracy accuracy : {Accuracy::kInt8, Accuracy::kInt16, Accuracy::kFloat}) {
    const double slack = accuracy == Accuracy::kInt8 ? 6 : accuracy == Accuracy::kInt16 ? 0.03 : 1e-3;
    const std::vector<float> plain = Product(w, accuracy).Run(a, 1);
    EXPECT_NEAR(plain[0], 55, slack);
    EXPECT_NEAR(plain[1], 4, slack);
    TestWeight z = w;
    z.format.zero_point = ZeroPoint::kPacked;
    z.zero_points = {std::byte{0x78}, std::byte{0x19}};
    const std::vector<float> shifted = Product(z, accuracy).Run(a, 1);
    EXPECT_NEAR(shifted[0], 90, slack);
    EXPECT_NEAR(shifted[1], 366.5, slack);
  }
}

TEST_P(MatMulOnIsa, EmptySizes) {
  ThreadTeam team(2);
  const TestWeight w = RandomWeight(BlockFormat::NBits(4, 32, DType::kFloat, ZeroPoint::kMiddle), 3, 0, 1);
  Product product(w, Accuracy::kInt8);
  const float bias[3] = {1, 2, 3};
  EXPECT_EQ(product.Run({}, 1, 1, bias), (std::vector<float>{1, 2, 3}));
  EXPECT_TRUE(product.Run({}, 0).empty());
}

}  // namespace
}  // namespace ullage::quant
