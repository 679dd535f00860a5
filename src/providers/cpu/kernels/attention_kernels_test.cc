// Attention: hand-computed cases, caches in place, and workspace that is enough for every shape within the
// bounds.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/error.h"
#include "providers/cpu/kernels/node_runner.h"

namespace ullage::cpu {
namespace {

TestTensor Random(const Shape& shape, unsigned seed, DType dtype = DType::kFloat) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (float& v : values) v = normal(generator);
  return TestTensor::Floats(shape, values, dtype);
}

void ExpectNear(const std::vector<float>& got, const std::vector<float>& want, float tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], tolerance) << "at " << i;
}

/// One head of size 1: scores are q * k = [1, 2], values pick one weight each.
std::vector<float> TwoKeys(bool smooth, std::optional<float> sink) {
  NodeRunner run(graph::kMsDomain, "GroupQueryAttention", 1);
  run.Attr("num_heads", int64_t{1}).Attr("kv_num_heads", int64_t{1}).Attr("scale", 1.0f);
  if (smooth) run.Attr("smooth_softmax", int64_t{1});
  std::vector<float> out;
  for (const auto& values : {std::vector<float>{1, 0}, std::vector<float>{0, 1}}) {
    NodeRunner one = run;
    one.Input(TestTensor::Floats({1, 2, 1}, {0, 1}))
        .Input(TestTensor::Floats({1, 2, 1}, {1, 2}))
        .Input(TestTensor::Floats({1, 2, 1}, values))
        .Input(std::nullopt)
        .Input(std::nullopt)
        .Input(TestTensor::Int32({1}, {1}))
        .Input(TestTensor::Int32({}, {2}));
    if (sink)
      one.Input(std::nullopt)
          .Input(std::nullopt)
          .Input(std::nullopt)
          .Input(std::nullopt)
          .Input(TestTensor::Floats({1}, {*sink}));
    out.push_back(one.Run()[0].AsFloats()[1]);
  }
  return out;
}

TEST(GroupQueryAttention, SoftmaxVariants) {
  ExpectNear(TwoKeys(false, std::nullopt), {0.26894f, 0.73106f}, 1e-5f);
  ExpectNear(TwoKeys(true, std::nullopt), {0.24473f, 0.66524f}, 1e-5f);
  ExpectNear(TwoKeys(false, 3.0f), {0.09003f, 0.24473f}, 1e-5f);
}

/// Which keys each query sees, read off an attention whose scores are all 0 and whose values are unit
/// vectors.
std::vector<std::vector<int>> Visible(NodeRunner run, int64_t seq, int64_t keys) {
  const auto y = run.Run()[0].AsFloats();
  std::vector<std::vector<int>> rows;
  for (int64_t s = 0; s < seq; ++s) {
    rows.emplace_back();
    for (int64_t k = 0; k < keys; ++k)
      if (y[static_cast<size_t>(s * keys + k)] > 0) rows.back().push_back(static_cast<int>(k));
  }
  return rows;
}

TestTensor Units(int64_t rows, int64_t first, int64_t size) {
  std::vector<float> v(static_cast<size_t>(rows * size));
  for (int64_t r = 0; r < rows; ++r) v[static_cast<size_t>(r * size + first + r)] = 1;
  return TestTensor::Floats({1, 1, rows, size}, v);
}
TestTensor Zeros(int64_t rows, int64_t size) {
  return TestTensor::Floats({1, 1, rows, size}, std::vector<float>(static_cast<size_t>(rows * size)));
}

using Rows = std::vector<std::vector<int>>;

TEST(StandardAttention, CausalRowsStandBehindThePast) {
  NodeRunner run("", "Attention", 24);
  run.Attr("is_causal", int64_t{1}).Input(Zeros(2, 4)).Input(Zeros(2, 4)).Input(Units(2, 3, 5));
  run.Input(std::nullopt).Input(Zeros(3, 4)).Input(Units(3, 0, 5)).Outputs({true, true, true});
  EXPECT_EQ(Visible(run, 2, 5), (Rows{{0, 1, 2, 3}, {0, 1, 2, 3, 4}}));
}

TEST(StandardAttention, WithoutAPastTheFirstQuerySeesTheFirstKey) {
  NodeRunner run("", "Attention", 23);
  run.Attr("is_causal", int64_t{1}).Input(Zeros(2, 4)).Input(Zeros(3, 4)).Input(Units(3, 0, 3));
  EXPECT_EQ(Visible(run, 2, 3), (Rows{{0}, {0, 1}}));
}

TEST(StandardAttention, ExternalCachesEndWhereTheyAreValid) {
  NodeRunner run("", "Attention", 24);
  run.Attr("is_causal", int64_t{1}).Input(Zeros(2, 4)).Input(Zeros(3, 4)).Input(Units(3, 0, 3));
  run.Input(std::nullopt).Input(std::nullopt).Input(std::nullopt).Input(TestTensor::Int64({1}, {1}));
  EXPECT_EQ(Visible(run, 2, 3), (Rows{{}, {0}}));
}

TEST(StandardAttention, WindowsAndShortMasks) {
  NodeRunner run("", "Attention", 25);
  run.Attr("left_window_size", int64_t{1}).Attr("right_window_size", int64_t{1});
  run.Input(Zeros(4, 4)).Input(Zeros(4, 4)).Input(Units(4, 0, 4));
  run.Input(TestTensor::Bytes({4, 3}, {1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1}, DType::kBool));
  EXPECT_EQ(Visible(run, 4, 4), (Rows{{0, 1}, {0, 1, 2}, {1, 2}, {2}}));
}

TEST(StandardAttention, RefusesShapesThatDoNotFit) {
  const auto with = [](const Shape& k, const Shape& v, std::optional<Shape> past) {
    NodeRunner run("", "Attention", 24);
    run.Input(Random({2, 4, 3, 8}, 1)).Input(Random(k, 2)).Input(Random(v, 3));
    if (past) run.Input(std::nullopt).Input(Random(*past, 4)).Input(Random(*past, 5));
    run.Outputs({true, past.has_value(), past.has_value()});
    return run.Run();
  };
  EXPECT_NO_THROW(with({2, 2, 5, 8}, {2, 2, 5, 8}, Shape{2, 2, 6, 8}));
  EXPECT_THROW(with({2, 3, 5, 8}, {2, 3, 5, 8}, std::nullopt), Error);
  EXPECT_THROW(with({2, 2, 5, 8}, {2, 1, 5, 8}, std::nullopt), Error);
  EXPECT_THROW(with({2, 2, 5, 8}, {1, 2, 5, 8}, std::nullopt), Error);
  EXPECT_THROW(with({2, 2, 5, 8}, {2, 2, 4, 8}, std::nullopt), Error);
  EXPECT_THROW(with({2, 2, 5, 8}, {2, 2, 5, 8}, Shape{2, 1, 6, 8}), Error);
  EXPECT_THROW(with({2, 2, 5, 8}, {2, 2, 5, 8}, Shape{1, 2, 6, 8}), Error);
  EXPECT_THROW(with({2, 2, 5, 8}, {2, 2, 5, 8}, Shape{2, 2, 6, 4}), Error);
}

/// An operator with a cache, and where its inputs go.
struct Cached {
  const char* domain;
  const char* op;
  int opset;
  bool flat;     ///< Q, K, V [B, S, N * H]
  int past;      ///< input of the past keys
  bool lengths;  ///< GroupQueryAttention's seqlens_k and total_sequence_length
  int64_t kv_heads;
};
std::ostream& operator<<(std::ostream& out, const Cached& c) {
  return out << c.op;
}

class Caches : public testing::TestWithParam<std::tuple<Cached, DType>> {
 protected:
  static constexpr int64_t kHeads = 4, kSize = 8;

  NodeRunner Build(int64_t batch, int64_t seq, int64_t past, int64_t room, unsigned seed) {
    const auto& [c, dtype] = GetParam();
    NodeRunner run(c.domain, c.op, c.opset);
    if (c.lengths || c.past == 6) run.Attr("num_heads", kHeads);
    if (c.lengths) run.Attr("kv_num_heads", c.kv_heads);
    if (c.flat && c.opset > 1) run.Attr("q_num_heads", kHeads).Attr("kv_num_heads", c.kv_heads);
    const auto rows = [&](int64_t heads, unsigned s) {
      return Random(c.flat ? Shape{batch, seq, heads * kSize} : Shape{batch, heads, seq, kSize}, s, dtype);
    };
    run.Input(rows(kHeads, seed)).Input(rows(c.kv_heads, seed + 1)).Input(rows(c.kv_heads, seed + 2));
    while (Count(run) < c.past) run.Input(std::nullopt);
    const Shape shape{batch, c.kv_heads, past, kSize};
    run.Input(Random(shape, seed + 3, dtype));
    if (room > 0) run.Cache(room, 1);
    run.Input(Random(shape, seed + 4, dtype));
    if (room > 0) run.Cache(room, 2);
    if (c.lengths) {
      std::vector<int32_t> lens(static_cast<size_t>(batch), static_cast<int32_t>(past + seq - 1));
      run.Input(TestTensor::Int32({batch}, lens));
      run.Input(TestTensor::Int32({}, {static_cast<int32_t>(past + seq)}));
    }
    return run.Outputs({true, true, true});
  }
  static int Count(const NodeRunner& run) { return run.inputs(); }
};

TEST_P(Caches, InPlaceIsTheSame) {
  for (int64_t seq : {1, 3})
    for (int64_t past : {0, 5}) {
      if (std::get<0>(GetParam()).lengths && seq > 1 && past > 0) continue;  // batches only
      NodeRunner apart = Build(2, seq, past, 0, 7), shared = Build(2, seq, past, 11, 7);
      const auto a = apart.Run(), b = shared.Run();
      EXPECT_FALSE(apart.overrun());
      EXPECT_FALSE(shared.overrun());
      EXPECT_EQ(apart.scratch_calls() + shared.scratch_calls(), 0);
      for (size_t o = 0; o < 3; ++o) {
        ASSERT_EQ(a[o].shape.ToString(), b[o].shape.ToString());
        EXPECT_EQ(a[o].bytes, b[o].bytes) << "output " << o << ", " << seq << " new after " << past;
      }
    }
}

TEST_P(Caches, PresentIsPastAndNew) {
  NodeRunner run = Build(1, 2, 3, 0, 20);
  const auto present = run.Run()[1];
  const auto& [c, dtype] = GetParam();
  ASSERT_EQ(present.shape.ToString(), (Shape{1, c.kv_heads, 5, kSize}).ToString());
  const auto all = present.AsFloats(), past = Random({1, c.kv_heads, 3, kSize}, 23, dtype).AsFloats();
  const auto fresh = Random({1, 2, c.kv_heads, kSize}, 21, dtype).AsFloats();
  for (int64_t h = 0; h < c.kv_heads; ++h)
    for (int64_t r = 0; r < 5; ++r)
      for (int64_t i = 0; i < kSize; ++i) {
        const int64_t at =
            r < 3 ? (h * 3 + r) * kSize + i : (c.flat ? (r - 3) * c.kv_heads + h : h * 2 + r - 3) * kSize + i;
        ASSERT_EQ(all[static_cast<size_t>((h * 5 + r) * kSize + i)],
                  (r < 3 ? past : fresh)[static_cast<size_t>(at)])
            << h << ", " << r << ", " << i;
      }
}

INSTANTIATE_TEST_SUITE_P(
    All, Caches,
    testing::Combine(testing::Values(Cached{"", "Attention", 23, false, 4, false, 2},
                                     Cached{"", "Attention", 24, true, 4, false, 4},
                                     Cached{"ullage", "CachedAttention", 1, false, 3, false, 2},
                                     Cached{"com.microsoft", "MultiHeadAttention", 1, true, 6, false, 4},
                                     Cached{"com.microsoft", "GroupQueryAttention", 1, true, 3, true, 2}),
                     testing::Values(DType::kFloat, DType::kFloat16, DType::kBFloat16)));

/// One new token after 3 for 2 batches of 2 beams; `beams` says where each past token comes from.
std::vector<float> Beams(const TestTensor& past_key, const TestTensor& past_value,
                         const std::optional<std::vector<int32_t>>& beams) {
  NodeRunner run(graph::kMsDomain, "MultiHeadAttention", 1);
  run.Attr("num_heads", int64_t{2});
  for (unsigned seed : {1, 2, 3}) run.Input(Random({4, 1, 16}, seed));
  for (int i = 0; i < 3; ++i) run.Input(std::nullopt);
  run.Input(past_key).Input(past_value);
  if (beams) run.Input(std::nullopt).Input(TestTensor::Int32({2, 2, 5}, *beams));
  const auto y = run.Outputs({true, true, true}).Run()[0].AsFloats();
  EXPECT_EQ(run.scratch_calls(), 0);
  EXPECT_FALSE(run.overrun());
  return y;
}

TEST(MultiHeadAttention, BeamsReadTheTokensTheyComeFrom) {
  const TestTensor keys = Random({4, 2, 3, 8}, 4), values = Random({4, 2, 3, 8}, 5);
  const std::vector<int32_t> beams = {0, 1, 1, 9, 9, 1, 1, 0, 9, 9, 0, 0, 0, 9, 9, 1, 0, 1, 9, 9};
  const auto gathered = [&](const TestTensor& t) {
    const auto all = t.AsFloats();
    std::vector<float> out;
    for (int64_t b = 0; b < 4; ++b)
      for (int64_t h = 0; h < 2; ++h)
        for (int64_t r = 0; r < 3; ++r) {
          const int64_t from = b / 2 * 2 + beams[static_cast<size_t>(b * 5 + r)];
          const auto first = all.begin() + ((from * 2 + h) * 3 + r) * 8;
          out.insert(out.end(), first, first + 8);
        }
    return TestTensor::Floats(t.shape, out);
  };
  EXPECT_EQ(Beams(keys, values, beams), Beams(gathered(keys), gathered(values), std::nullopt));
  auto bad = beams;
  bad[6] = 2;
  EXPECT_THROW(Beams(keys, values, bad), Error);
}

TEST(GroupQueryAttention, ScoresThatNothingAsksForAreRefused) {
  NodeRunner run(graph::kMsDomain, "GroupQueryAttention", 1);
  run.Attr("num_heads", int64_t{1}).Attr("kv_num_heads", int64_t{1});
  for (int i = 0; i < 3; ++i) run.Input(Random({1, 2, 8}, 1));
  run.Input(std::nullopt).Input(std::nullopt);
  run.Input(TestTensor::Int32({1}, {1})).Input(TestTensor::Int32({}, {2}));
  EXPECT_THROW(run.Outputs({true, true, true, true}).Run(), Error);
  run.Attr("qk_output", int64_t{2});
  const auto out = run.Outputs({true, true, true, true}).Run();
  const auto weights = out[3].AsFloats();
  ASSERT_EQ(weights.size(), 4u);
  EXPECT_NEAR(weights[2] + weights[3], 1, 1e-6);
  EXPECT_EQ(weights[1], 0);
}

/// Declares workspace for the largest shapes, then runs smaller ones with it.
TEST(Workspace, IsEnoughForAllShapesWithinTheBounds) {
  constexpr int64_t kSeq = 40, kKeys = 300;
  for (int64_t batch : {1, 2})
    for (int64_t seq : {1, 2, 7, 33, 40})
      for (int64_t keys : {1, 5, 64, 257, 300}) {
        NodeRunner attention("", "Attention", 24);
        attention.Attr("q_num_heads", int64_t{4}).Attr("kv_num_heads", int64_t{2});
        attention.Input(Random({batch, seq, 4 * 24}, 1)).UpTo({2, kSeq, 4 * 24});
        attention.Input(Random({batch, keys, 2 * 24}, 2)).UpTo({2, kKeys, 2 * 24});
        attention.Input(Random({batch, keys, 2 * 16}, 3)).UpTo({2, kKeys, 2 * 16});
        attention.Run();
        EXPECT_EQ(attention.scratch_calls(), 0) << "Attention " << batch << " " << seq << " " << keys;
        EXPECT_FALSE(attention.overrun());
        if (seq > keys) continue;
        NodeRunner heads(graph::kMsDomain, "MultiHeadAttention", 1);
        heads.Attr("num_heads", int64_t{2});
        heads.Input(Random({batch, seq, 48}, 1)).UpTo({2, kSeq, 48});
        for (unsigned i : {2, 3}) heads.Input(Random({batch, seq, 48}, i)).UpTo({2, kSeq, 48});
        heads.Input(Random({3 * 48}, 4));
        heads.Input(TestTensor::Int32({batch}, std::vector<int32_t>(static_cast<size_t>(batch), 3)))
            .UpTo({2});
        heads.Input(Random({1, 2, seq, keys}, 5)).UpTo({1, 2, kSeq, kKeys + kSeq});
        for (unsigned i : {6, 7}) heads.Input(Random({batch, 2, keys - seq, 24}, i)).UpTo({2, 2, kKeys, 24});
        heads.Run();
        EXPECT_EQ(heads.scratch_calls(), 0) << "MultiHeadAttention " << batch << " " << seq << " " << keys;
        EXPECT_FALSE(heads.overrun());
      }
}

TEST(Workspace, OfCachesOfIntegersIsEnough) {
  constexpr int64_t kSeq = 20, kPast = 140, kHead = 16, kRow = kHead + 2;
  for (int64_t seq : {1, 2, 20})
    for (int64_t past : {0, 3, 140})
      for (bool present : {true, false}) {
        NodeRunner run(graph::kMsDomain, "GroupQueryAttention", 1);
        run.Attr("num_heads", int64_t{4}).Attr("kv_num_heads", int64_t{2}).Attr("kv_block", int64_t{32});
        run.Input(Random({1, seq, 8 * kHead}, 1))
            .UpTo({1, kSeq, 8 * kHead})
            .Input(std::nullopt)
            .Input(std::nullopt);
        const std::vector<uint8_t> rows(static_cast<size_t>(2 * past * kRow), 0x12);
        for (int i = 0; i < 2; ++i)
          run.Input(TestTensor::Bytes({1, 2, past, kRow}, rows, DType::kInt8)).UpTo({1, 2, kPast, kRow});
        const auto total = static_cast<int32_t>(past + seq);
        run.Input(TestTensor::Int32({1}, {total - 1})).ValuesUpTo(kPast + kSeq);
        run.Input(TestTensor::Int32({}, {total})).ValuesUpTo(kPast + kSeq);
        const auto out = run.Outputs({true, present, present}).Run();
        EXPECT_EQ(run.scratch_calls(), 0) << seq << " new after " << past;
        EXPECT_FALSE(run.overrun());
        if (present) {
          EXPECT_EQ(out[1].shape.ToString(), (Shape{1, 2, total, kRow}).ToString());
        }
        for (float y : out[0].AsFloats()) ASSERT_TRUE(std::isfinite(y));
      }
}

TEST(Workspace, OfGroupQueryAttentionIsEnough) {
  constexpr int64_t kSeq = 40, kPast = 300, kHead = 16;
  const TestTensor cos = Random({512, kHead / 2}, 8), sin = Random({512, kHead / 2}, 9);
  for (DType dtype : {DType::kFloat, DType::kFloat16})
    for (int64_t seq : {1, 2, 7, 40})
      for (int64_t past : {0, 3, 255, 300})
        for (bool present : {true, false}) {
          const auto total = static_cast<int32_t>(past + seq);
          const auto table = [&](const TestTensor& t) {
            return TestTensor::Floats(t.shape, t.AsFloats(), dtype);
          };
          NodeRunner run(graph::kMsDomain, "GroupQueryAttention", 1);
          run.Attr("num_heads", int64_t{4}).Attr("kv_num_heads", int64_t{2}).Attr("do_rotary", int64_t{1});
          run.Input(Random({1, seq, 8 * kHead}, 1, dtype)).UpTo({1, kSeq, 8 * kHead});
          run.Input(std::nullopt).Input(std::nullopt);
          for (unsigned i : {4, 5})
            run.Input(Random({1, 2, past, kHead}, i, dtype)).UpTo({1, 2, kPast, kHead});
          run.Input(TestTensor::Int32({1}, {total - 1})).ValuesUpTo(kPast + kSeq - 1);
          run.Input(TestTensor::Int32({}, {total})).ValuesUpTo(kPast + kSeq);
          run.Input(table(cos)).Input(table(sin));
          run.Outputs({true, present, present});
          run.Run();
          EXPECT_EQ(run.scratch_calls(), 0) << seq << " new after " << past;
          EXPECT_FALSE(run.overrun()) << seq << " new after " << past;
        }
}

TEST(GroupQueryAttention, RefusesShapesThatDoNotFit) {
  const auto with = [](const Shape& key, const Shape& past, const Shape& past_value) {
    NodeRunner run(graph::kMsDomain, "GroupQueryAttention", 1);
    run.Attr("num_heads", int64_t{4}).Attr("kv_num_heads", int64_t{2});
    run.Input(Random({2, 1, 32}, 1)).Input(Random(key, 2)).Input(Random({2, 1, 16}, 3));
    run.Input(Random(past, 4)).Input(Random(past_value, 5));
    run.Input(TestTensor::Int32({2}, {3, 3})).Input(TestTensor::Int32({}, {4}));
    return run.Outputs({true, true, true}).Run();
  };
  EXPECT_NO_THROW(with({2, 1, 16}, {2, 2, 3, 8}, {2, 2, 3, 8}));
  EXPECT_THROW(with({1, 1, 16}, {2, 2, 3, 8}, {2, 2, 3, 8}), Error);
  EXPECT_THROW(with({2, 2, 16}, {2, 2, 3, 8}, {2, 2, 3, 8}), Error);
  EXPECT_THROW(with({2, 1, 16}, {1, 2, 3, 8}, {1, 2, 3, 8}), Error);
  EXPECT_THROW(with({2, 1, 16}, {2, 2, 3, 4}, {2, 2, 3, 4}), Error);
  EXPECT_THROW(with({2, 1, 16}, {2, 2, 3, 8}, {2, 2, 2, 8}), Error);
}

TEST(StandardAttention, WithoutKeysThereIsNothing) {
  for (int64_t seq : {1, 3}) {
    NodeRunner run("", "Attention", 23);
    run.Input(Random({2, 4, seq, 8}, 1)).Input(Random({2, 4, 0, 8}, 2)).Input(Random({2, 4, 0, 8}, 3));
    const auto y = run.Run()[0];
    ExpectNear(y.AsFloats(), std::vector<float>(static_cast<size_t>(2 * 4 * seq * 8)), 0);
    EXPECT_FALSE(run.overrun());
  }
}

TEST(Rotary, HandComputed) {
  // Angles 1 and 0.01.
  const float c0 = std::cos(1.0f), s0 = std::sin(1.0f), c1 = std::cos(0.01f), s1 = std::sin(0.01f);
  const TestTensor cos = TestTensor::Floats({2, 2}, {1, 1, c0, c1});
  const TestTensor sin = TestTensor::Floats({2, 2}, {0, 0, s0, s1});
  for (int64_t interleaved : {0, 1}) {
    const std::vector<float> want = interleaved ? std::vector<float>{-1.14264f, 1.92208f, 2.95985f, 4.02980f}
                                                : std::vector<float>{-1.98411f, 1.95990f, 2.46238f, 4.01980f};
    NodeRunner ms(graph::kMsDomain, "RotaryEmbedding", 1);
    ms.Attr("interleaved", interleaved)
        .Input(TestTensor::Floats({1, 1, 4}, {1, 2, 3, 4}))
        .Input(TestTensor::Int64({1}, {1}))
        .Input(cos)
        .Input(sin);
    ExpectNear(ms.Run()[0].AsFloats(), want, 1e-4f);
    NodeRunner onnx("", "RotaryEmbedding", 23);
    onnx.Attr("interleaved", interleaved)
        .Input(TestTensor::Floats({1, 1, 1, 4}, {1, 2, 3, 4}))
        .Input(cos)
        .Input(sin)
        .Input(TestTensor::Int64({1, 1}, {1}));
    ExpectNear(onnx.Run()[0].AsFloats(), want, 1e-4f);
  }
}

TEST(Rotary, PositionsBeyondTheTableAreRefused) {
  NodeRunner run(graph::kMsDomain, "RotaryEmbedding", 1);
  run.Input(Random({1, 2, 4}, 1))
      .Input(TestTensor::Int64({1, 2}, {0, 2}))
      .Input(Random({2, 2}, 2))
      .Input(Random({2, 2}, 3));
  EXPECT_THROW(run.Run(), Error);
}

TEST(Rotary, SectionsTakeTheirOwnPositions) {
  // One pair per section: pair i turns by the angle of position i.
  std::vector<float> cos, sin;
  for (int p = 0; p < 4; ++p)
    for (int i = 0; i < 3; ++i) {
      cos.push_back(std::cos(static_cast<float>(p)));
      sin.push_back(std::sin(static_cast<float>(p)));
    }
  NodeRunner run(graph::kMsDomain, "MRotaryEmbedding", 1);
  run.Attr("mrope_section", std::vector<int64_t>{1, 1, 1})
      .Attr("num_heads", int64_t{1})
      .Input(TestTensor::Floats({1, 1, 6}, {1, 1, 1, 0, 0, 0}))
      .Input(TestTensor::Int64({3, 1, 1}, {1, 2, 3}))
      .Input(TestTensor::Floats({4, 3}, cos))
      .Input(TestTensor::Floats({4, 3}, sin));
  ExpectNear(run.Run()[0].AsFloats(),
             {std::cos(1.0f), std::cos(2.0f), std::cos(3.0f), std::sin(1.0f), std::sin(2.0f), std::sin(3.0f)},
             1e-6f);
}

}  // namespace
}  // namespace ullage::cpu
