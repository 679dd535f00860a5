#include "providers/cpu/dense/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "providers/cpu/dense/dense_test_util.h"
#include "providers/cpu/dense/kv_cache.h"
#include "ullage/error.h"

namespace ullage::dense {
namespace {

/// cos and sin of position * 10000^(-2i/rot).
struct Table {
  Table(DType dtype, int64_t rows, int64_t rot) : cos(dtype, rows * (rot / 2)), sin(dtype, rows * (rot / 2)) {
    for (int64_t p = 0; p < rows; ++p)
      for (int64_t i = 0; i < rot / 2; ++i) {
        const double angle = static_cast<double>(p) *
                             std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(rot));
        cos.Set(p * (rot / 2) + i, static_cast<float>(std::cos(angle)));
        sin.Set(p * (rot / 2) + i, static_cast<float>(std::sin(angle)));
      }
    table.cos = cos.in();
    table.sin = sin.in();
    table.rows = rows;
    table.pitch = rot / 2;
    table.rotary_dim = rot;
  }
  Buffer cos, sin;
  RopeTable table;
};

struct Problem {
  int64_t batch = 2, seq = 3, heads = 2, head_size = 16, rot = 16;
  DType src = DType::kFloat, dst = DType::kFloat, table = DType::kFloat, weight = DType::kFloat;
  bool interleaved = false, norm = false, bias = false, bnsh = false, ids = false;
  float scale = 1;
};

void Check(const Problem& p) {
  SCOPED_TRACE(testing::Message() << "H " << p.head_size << " rot " << p.rot << " interleaved "
                                  << p.interleaved << " norm " << p.norm << " types " << NameOf(p.src) << ' '
                                  << NameOf(p.dst));
  const int64_t n = p.batch * p.seq * p.heads * p.head_size;
  const Buffer src = Buffer::Random(p.src, n, 1);
  const Buffer weight = Buffer::Random(p.weight, p.head_size, 2),
               bias = Buffer::Random(p.weight, p.heads * p.head_size, 3);
  Buffer dst(p.dst, n);
  Table table(p.table, 64, std::max<int64_t>(p.rot, 2));
  std::vector<int64_t> ids, start;
  for (int64_t b = 0; b < p.batch; ++b) {
    start.push_back(5 * b + 1);
    for (int64_t s = 0; s < p.seq; ++s) ids.push_back((7 * b + 3 * s) % 40);
  }
  ThreadTeam team(2);
  HeadTransformArgs a;
  a.batch = p.batch;
  a.seq = p.seq;
  a.heads = p.heads;
  a.head_size = p.head_size;
  a.src = src.in();
  a.src_layout = {p.seq * p.heads * p.head_size, p.heads * p.head_size, p.head_size};
  a.dst = dst.at();
  a.dst_layout =
      p.bnsh ? HeadLayout{p.seq * p.heads * p.head_size, p.head_size, p.seq * p.head_size} : a.src_layout;
  if (p.norm) a.norm_weight = weight.in();
  if (p.bias) a.bias = bias.in();
  a.norm_epsilon = 1e-3f;
  if (p.rot > 0) a.rope = table.table;
  a.rope.interleaved = p.interleaved;
  if (p.ids) {
    a.positions.ids = ids.data();
    a.positions.ids_batch_stride = p.seq;
  } else {
    a.positions.start = start.data();
  }
  a.scale = p.scale;
  TransformHeads(team, a);
  EXPECT_TRUE(dst.GuardIntact());

  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t s = 0; s < p.seq; ++s)
      for (int64_t h = 0; h < p.heads; ++h) {
        std::vector<double> v(static_cast<size_t>(p.head_size)), want;
        double squares = 0;
        for (int64_t i = 0; i < p.head_size; ++i) {
          double& e = v[static_cast<size_t>(i)];
          e = src[((b * p.seq + s) * p.heads + h) * p.head_size + i] +
              (p.bias ? bias[h * p.head_size + i] : 0);
          squares += e * e;
        }
        if (p.norm) {
          const double f = 1 / std::sqrt(squares / static_cast<double>(p.head_size) + 1e-3f);
          for (int64_t i = 0; i < p.head_size; ++i) v[static_cast<size_t>(i)] *= f * weight[i];
        }
        want = v;
        const int64_t position =
            p.ids ? ids[static_cast<size_t>(b * p.seq + s)] : start[static_cast<size_t>(b)] + s;
        for (int64_t i = 0; i < p.rot / 2; ++i) {
          const auto x = static_cast<size_t>(p.interleaved ? 2 * i : i);
          const auto y = static_cast<size_t>(p.interleaved ? 2 * i + 1 : i + p.rot / 2);
          const double c = table.cos[position * (p.rot / 2) + i], sn = table.sin[position * (p.rot / 2) + i];
          want[x] = v[x] * c - v[y] * sn;
          want[y] = v[y] * c + v[x] * sn;
        }
        for (int64_t i = 0; i < p.head_size; ++i) {
          const double w = want[static_cast<size_t>(i)] * p.scale;
          const int64_t at = p.bnsh ? ((b * p.heads + h) * p.seq + s) * p.head_size + i
                                    : ((b * p.seq + s) * p.heads + h) * p.head_size + i;
          ASSERT_NEAR(dst[at], w, 2e-6 + 1.01 * RoundingOf(p.dst) * std::abs(w)) << b << s << h << ' ' << i;
        }
      }
}

TEST(Rope, Forms) {
  ForEachTarget([] {
    for (const bool interleaved : {false, true}) {
      Check({.interleaved = interleaved});
      Check({.head_size = 64, .rot = 64, .interleaved = interleaved, .norm = true});
      Check({.head_size = 80, .rot = 32, .interleaved = interleaved, .bnsh = true});
      Check({.head_size = 7,
             .rot = 6,
             .interleaved = interleaved,
             .norm = true,
             .bias = true,
             .ids = true,
             .scale = 0.5f});
      Check({.head_size = 100, .rot = 50, .interleaved = interleaved, .bias = true});
      Check({.head_size = 33, .rot = 0, .interleaved = interleaved, .norm = true});
      for (const DType src : kTypes)
        for (const DType dst : kTypes)
          Check({.head_size = 24,
                 .rot = 16,
                 .src = src,
                 .dst = dst,
                 .table = src,
                 .weight = dst,
                 .interleaved = interleaved,
                 .norm = true,
                 .bias = true});
    }
    Check({.seq = 0});
    Check({.heads = 0});
    Check({.batch = 3, .seq = 30, .heads = 9, .head_size = 64, .rot = 64});
  });
}

TEST(Rope, HandVector) {
  ForEachTarget([] {
    for (const bool interleaved : {false, true}) {
      Buffer x = Buffer::Of(DType::kFloat, {1, 2, 3, 4});
      const Buffer cos = Buffer::Of(DType::kFloat, {std::cos(1.0f), std::cos(0.01f)});
      const Buffer sin = Buffer::Of(DType::kFloat, {std::sin(1.0f), std::sin(0.01f)});
      HeadTransformArgs a;
      a.batch = a.seq = a.heads = 1;
      a.head_size = 4;
      a.src = x.in();
      a.dst = x.at();  // in place
      a.rope = {cos.in(), sin.in(), 1, 2, 4, interleaved};
      ThreadTeam team(1);
      TransformHeads(team, a);
      const double half[] = {-1.98411, 1.95990, 2.46238, 4.01980},
                   pairs[] = {-1.14264, 1.92208, 2.95985, 4.02980};
      for (int64_t i = 0; i < 4; ++i) EXPECT_NEAR(x[i], interleaved ? pairs[i] : half[i], 1e-5);
    }
  });
}

TEST(Rope, SectionsTakeTheirOwnPositions) {
  const Table table(DType::kFloat, 20, 8);
  const Buffer src = Buffer::Random(DType::kFloat, 2 * 8, 1);
  Buffer dst(DType::kFloat, 2 * 8);
  const int64_t ids[] = {1, 2, 5, 6, 9, 10};
  const uint8_t sections[] = {0, 1, 2, 1};
  HeadTransformArgs a;
  a.batch = a.heads = 1;
  a.seq = 2;
  a.head_size = 8;
  a.src = src.in();
  a.src_layout = {16, 8, 8};
  a.dst = dst.at();
  a.dst_layout = a.src_layout;
  a.rope = table.table;
  a.positions.ids = ids;
  a.positions.section_of_pair = sections;
  a.positions.ids_section_stride = 2;
  ThreadTeam team(1);
  TransformHeads(team, a);
  for (int64_t s = 0; s < 2; ++s)
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t position = ids[sections[i] * 2 + s];
      const double c = table.cos[position * 4 + i], sn = table.sin[position * 4 + i];
      EXPECT_NEAR(dst[s * 8 + i], src[s * 8 + i] * c - src[s * 8 + 4 + i] * sn, 1e-6);
      EXPECT_NEAR(dst[s * 8 + 4 + i], src[s * 8 + 4 + i] * c + src[s * 8 + i] * sn, 1e-6);
    }
}

TEST(Rope, PositionBeyondTheTableIsRefused) {
  const Table table(DType::kFloat, 4, 4);
  const Buffer src = Buffer::Random(DType::kFloat, 8, 1);
  Buffer dst(DType::kFloat, 8);
  HeadTransformArgs a;
  a.batch = a.heads = 1;
  a.seq = 2;
  a.head_size = 4;
  a.src = src.in();
  a.src_layout = a.dst_layout = {8, 4, 4};
  a.dst = dst.at();
  a.rope = table.table;
  ThreadTeam team(1);
  a.positions.offset = 2;
  EXPECT_NO_THROW(TransformHeads(team, a));
  a.positions.offset = 3;
  EXPECT_THROW(TransformHeads(team, a), Error);
  a.positions.offset = -1;
  EXPECT_THROW(TransformHeads(team, a), Error);
}

TEST(KvCache, AppendsBehindThePast) {
  ForEachTarget([] {
    for (const DType cache : kTypes) {
      for (const bool shared : {false, true}) {
        const int64_t batch = 2, seq = 3, heads = 2, h = 12, hv = 10, capacity = 9;
        const int64_t past_len[] = {4, 6};
        const Buffer packed = Buffer::Random(DType::kFloat, batch * seq * 60, 1);  // q | k | v, row pitch 60
        Buffer past_k = Buffer::Random(cache, batch * heads * capacity * h, 2);
        Buffer past_v = Buffer::Random(cache, batch * heads * 7 * hv, 3);
        const Buffer before_k = past_k;
        Buffer present_k(cache, batch * heads * capacity * h),
            present_v(cache, batch * heads * capacity * hv);
        const Table table(DType::kFloat, 16, 8);
        AppendKvArgs a;
        a.batch = batch;
        a.seq = seq;
        a.kv_heads = heads;
        a.head_size = h;
        a.v_head_size = hv;
        a.past_len = past_len;
        a.capacity = capacity;
        a.key = packed.in(8);
        a.key_layout = {seq * 60, 60, h};
        a.value = packed.in(8 + heads * h);
        a.value_layout = {seq * 60, 60, hv};
        a.rope = table.table;
        a.present_key = {shared ? past_k.at() : present_k.at(), heads * capacity * h, capacity * h};
        if (!shared) a.past_key = {past_k.at(), heads * capacity * h, capacity * h};
        a.past_value = {past_v.at(), heads * 7 * hv, 7 * hv};
        a.present_value = {present_v.at(), heads * capacity * hv, capacity * hv};
        ThreadTeam team(2);
        AppendKv(team, a);
        const Buffer& k = shared ? past_k : present_k;
        for (int64_t b = 0; b < batch; ++b)
          for (int64_t n = 0; n < heads; ++n) {
            for (int64_t t = 0; t < past_len[b]; ++t) {
              for (int64_t i = 0; i < h; ++i) {
                const int64_t at = ((b * heads + n) * capacity + t) * h + i;
                ASSERT_EQ(k[at], before_k[at]);
              }
              for (int64_t i = 0; i < hv; ++i) {
                ASSERT_EQ(present_v[((b * heads + n) * capacity + t) * hv + i],
                          past_v[((b * heads + n) * 7 + t) * hv + i]);
              }
            }
            for (int64_t s = 0; s < seq; ++s) {
              const int64_t row = past_len[b] + s, src = (b * seq + s) * 60 + 8;
              for (int64_t i = 0; i < h; ++i) {
                double want = packed[src + n * h + i];
                if (i < 8) {
                  const int64_t pair = i % 4;
                  const double c = table.cos[row * 4 + pair], sn = table.sin[row * 4 + pair];
                  const double x = packed[src + n * h + pair], y = packed[src + n * h + pair + 4];
                  want = i < 4 ? x * c - y * sn : y * c + x * sn;
                }
                ASSERT_NEAR(k[((b * heads + n) * capacity + row) * h + i], want,
                            1e-6 + 1.01 * RoundingOf(cache) * std::abs(want));
              }
              for (int64_t i = 0; i < hv; ++i) {
                const double want = packed[src + heads * h + n * hv + i];
                ASSERT_NEAR(present_v[((b * heads + n) * capacity + row) * hv + i], want,
                            1.01 * RoundingOf(cache) * std::abs(want));
              }
            }
          }
      }
    }
  });
}

TEST(KvCache, FullCacheIsRefused) {
  Buffer cache = Buffer::Random(DType::kFloat, 4 * 4, 1);
  const Buffer before = cache;
  const Buffer key = Buffer::Random(DType::kFloat, 2 * 4, 2);
  AppendKvArgs a;
  a.batch = a.kv_heads = 1;
  a.seq = 2;
  a.head_size = 4;
  a.past_len_all = 3;
  a.capacity = 4;
  a.key = key.in();
  a.key_layout = {8, 4, 4};
  a.present_key = {cache.at(), 16, 16};
  ThreadTeam team(1);
  EXPECT_THROW(AppendKv(team, a), Error);
  EXPECT_TRUE(cache == before);
  a.past_len_all = 2;
  EXPECT_NO_THROW(AppendKv(team, a));
  EXPECT_EQ(cache[8], key[0]);
}

}  // namespace
}  // namespace ullage::dense
