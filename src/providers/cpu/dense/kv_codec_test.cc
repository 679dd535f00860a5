#include "providers/cpu/dense/kv_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "providers/cpu/dense/attention.h"
#include "providers/cpu/dense/dense_test_util.h"
#include "providers/cpu/dense/kv_cache.h"

namespace ullage::dense {
namespace {

KvCodec Blocks(int64_t block) {
  KvCodec c;
  c.bits = 8;
  c.block = block;
  return c;
}

/// Fixed scales: one for all, or one per element of each head.
KvCodec Fixed(int bits, const std::vector<float>& scales, int64_t size) {
  KvCodec c;
  c.bits = bits;
  c.scales = scales.data();
  c.element_stride = scales.size() == 1 ? 0 : 1;
  c.head_stride = scales.size() == 1 ? 0 : size;
  return c;
}

std::vector<float> Numbers(int64_t n, uint32_t seed) {
  const Buffer b = Buffer::Random(DType::kFloat, n, seed, 3);
  std::vector<float> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(static_cast<float>(b[i]));
  return v;
}

TEST(KvCodec, RowsOfBlocksLieAsDocumented) {
  const std::vector<float> x = {127, -63.4f, 0.5f, 1.5f, 254, -2};
  std::vector<uint8_t> row(10);
  ASSERT_EQ(Blocks(4).RowWidth(6), 10);
  StoreKvRow(Blocks(4), 0, x.data(), 6, row.data());
  EXPECT_EQ(row, (std::vector<uint8_t>{127, 256 - 63, 0, 2, 127, 255, 0x00, 0x3c, 0x00, 0x40}));
}

TEST(KvCodec, FixedScalesClampAndPack) {
  const std::vector<float> scale = {0.5f}, each = {1, 2, 1, 1, 2, 4};
  const std::vector<float> x = {1, -100, 3};
  std::vector<uint8_t> row(3);
  StoreKvRow(Fixed(8, scale, 3), 0, x.data(), 3, row.data());
  EXPECT_EQ(row, (std::vector<uint8_t>{2, 128, 6}));
  ASSERT_EQ(Fixed(4, each, 3).RowWidth(3), 2);
  StoreKvRow(Fixed(4, each, 3), 0, x.data(), 3, row.data());  // codes 1, -8, 3, plus 8
  EXPECT_EQ(row[0], 9 | 0 << 4);
  EXPECT_EQ(row[1], 11);
  StoreKvRow(Fixed(4, each, 3), 1, x.data(), 3, row.data());  // codes 1, -8, 1
  EXPECT_EQ(row[1], 9);
}

TEST(KvCodec, NumbersThatAreNoneStayInRange) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {NAN, inf, -inf, 1e38f}, scale = {0};
  std::vector<uint8_t> row(12);
  StoreKvRow(Blocks(2), 0, x.data(), 4, row.data());
  StoreKvRow(Fixed(4, scale, 4), 0, x.data(), 4, row.data());
  EXPECT_EQ(row[0], 0x88);
}

TEST(KvCodec, LoadsWhatItStored) {
  ForEachTarget([] {
    for (const int64_t size : {1, 7, 32, 64, 80, 130}) {
      const auto x = Numbers(2 * size, 3);
      std::vector<float> scales(static_cast<size_t>(2 * size));
      for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.02f + 0.001f * static_cast<float>(i % 9);
      const std::vector<float> one = {0.03f};
      for (const KvCodec& c : {Blocks(32), Blocks(size), Blocks(5), Fixed(8, one, size),
                               Fixed(8, scales, size), Fixed(4, one, size), Fixed(4, scales, size)}) {
        const int64_t pitch = c.RowWidth(size) + 3;
        std::vector<uint8_t> rows(static_cast<size_t>(2 * pitch));
        for (int64_t r = 0; r < 2; ++r) StoreKvRow(c, 1, x.data() + r * size, size, rows.data() + r * pitch);
        std::vector<float> out(static_cast<size_t>(2 * size) + 16, -1);
        LoadKvRows(c, 1, rows.data(), pitch, 2, size, out.data());
        for (int64_t i = 0; i < 2 * size; ++i) {
          const float got = out[static_cast<size_t>(i)], want = x[static_cast<size_t>(i)];
          ASSERT_EQ(got, KvElement(c, 1, rows.data() + i / size * pitch, size, i % size));
          if (c.block > 0) {
            ASSERT_NEAR(got, want, 3.0 / 127 * 0.51 + 1e-4);
          } else {
            const float scale = c.scales[c.head_stride + i % size * c.element_stride],
                        top = c.bits == 8 ? 127 : 7;
            ASSERT_NEAR(got, std::clamp(want, -(top + 1) * scale, top * scale), 0.501 * scale);
          }
        }
        for (size_t i = static_cast<size_t>(2 * size); i < out.size(); ++i) ASSERT_EQ(out[i], -1);
      }
    }
  });
}

/// Appends to a cache of integers, whose rows must be those of the codec, and compares attention over it with
/// attention over the same numbers as floats.
void CheckAttention(const KvCodec& codec, int64_t seq, int64_t past, int64_t size, QkOutput qk_mode) {
  SCOPED_TRACE(testing::Message() << codec.bits << " bits, block " << codec.block << ", S " << seq << ", P "
                                  << past << ", H " << size);
  const int64_t heads = 4, kv = 2, keys = past + seq, capacity = keys + 2, width = codec.RowWidth(size);
  const Buffer q = Buffer::Random(DType::kFloat, seq * heads * size, 5),
               fresh = Buffer::Random(DType::kFloat16, seq * kv * size, 6, 2),
               old = Buffer::Random(DType::kFloat, kv * past * size, 7, 2);
  std::vector<uint8_t> cache(static_cast<size_t>(kv * capacity * width), 0xee);
  for (int64_t h = 0; h < kv; ++h)
    for (int64_t t = 0; t < past; ++t) {
      std::vector<float> row;
      for (int64_t i = 0; i < size; ++i) row.push_back(static_cast<float>(old[(h * past + t) * size + i]));
      StoreKvRow(codec, h, row.data(), size, cache.data() + (h * capacity + t) * width);
    }
  ThreadTeam team(2);
  AppendKvArgs append;
  append.batch = 1;
  append.seq = seq;
  append.kv_heads = kv;
  append.head_size = append.v_head_size = size;
  append.past_len_all = past;
  append.capacity = capacity;
  append.value = fresh.in();
  append.value_layout = {seq * kv * size, kv * size, size};
  append.present_value = {
      {cache.data(), DType::kInt8}, kv * capacity * width, capacity * width, width, codec};
  Scratch floats(AppendKvScratchBytes(1, seq, kv, size));
  append.scratch = floats.get();
  AppendKv(team, append);

  Buffer plain(DType::kFloat, kv * capacity * size);
  for (int64_t h = 0; h < kv; ++h)
    for (int64_t t = 0; t < keys; ++t) {
      const uint8_t* row = cache.data() + (h * capacity + t) * width;
      for (int64_t i = 0; i < size; ++i)
        plain.Set((h * capacity + t) * size + i, KvElement(codec, h, row, size, i));
      if (t < past) continue;
      std::vector<float> source;
      for (int64_t i = 0; i < size; ++i)
        source.push_back(static_cast<float>(fresh[((t - past) * kv + h) * size + i]));
      std::vector<uint8_t> want(static_cast<size_t>(width));
      StoreKvRow(codec, h, source.data(), size, want.data());
      ASSERT_TRUE(std::equal(want.begin(), want.end(), row));
    }
  AttentionArgs a;
  a.batch = 1;
  a.seq = seq;
  a.q_heads = heads;
  a.kv_heads = kv;
  a.head_size = a.v_head_size = size;
  a.max_keys = keys;
  a.q = q.in();
  a.q_layout = {seq * heads * size, heads * size, size};
  a.y_layout = a.q_layout;
  a.qk_mode = qk_mode;
  Buffer y[2] = {Buffer(DType::kFloat, q.size()), Buffer(DType::kFloat, q.size())};
  Buffer qk(DType::kFloat, heads * seq * keys);
  for (int i = 0; i < 2; ++i) {
    a.y = y[i].at();
    a.qk = qk.at();
    a.k = a.v = i == 0 ? ConstArray{cache.data(), DType::kInt8} : plain.in();
    a.k_codec = a.v_codec = i == 0 ? codec : KvCodec{};
    const int64_t row = i == 0 ? width : size;
    a.k_layout = a.v_layout = {kv * capacity * row, row, capacity * row};
    Scratch scratch(AttentionScratchBytes(a, 2));
    Attention(team, a, scratch.get());
  }
  EXPECT_TRUE(y[0] == y[1]);
  EXPECT_TRUE(std::isfinite(y[0][0]));
}

TEST(KvCodec, AttentionReadsTheCache) {
  const std::vector<float> one = {0.03f};
  std::vector<float> each(2 * 64);
  for (size_t i = 0; i < each.size(); ++i) each[i] = 0.02f + 0.001f * static_cast<float>(i % 11);
  ForEachTarget([&] {
    for (const auto& [seq, past] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 300}, {1, 0}, {70, 0}, {33, 200}})
      for (const KvCodec& codec : {Blocks(32), Blocks(64), Fixed(8, one, 64), Fixed(4, each, 64)})
        CheckAttention(codec, seq, past, 64, QkOutput::kNone);
    CheckAttention(Blocks(32), 1, 40, 20, QkOutput::kNone);
    CheckAttention(Blocks(32), 5, 40, 20, QkOutput::kNone);
    CheckAttention(Blocks(32), 3, 9, 20, QkOutput::kMasked);
  });
}

}  // namespace
}  // namespace ullage::dense
