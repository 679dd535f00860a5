#include "providers/cpu/dense/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "providers/cpu/dense/dense_test_util.h"
#include "ullage/error.h"

namespace ullage::dense {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

enum class Mask { kNone, kFloat, kHalf, kBool };

struct Problem {
  int64_t batch = 1, seq = 1, heads = 1, kv_heads = 1, h = 8, hv = 8, keys = 1;
  DType q = DType::kFloat, kv = DType::kFloat, y = DType::kFloat;
  int64_t left = -1, right = 0;
  float softcap = 0;
  Mask mask = Mask::kNone;
  bool mask_per_head = false;
  int64_t mask_keys = -1;
  bool sink = false, smooth = false;
  std::vector<int64_t> key_len = {}, offset = {};
  QkOutput qk = QkOutput::kNone;
  uint32_t seed = 1;
};

/// The arrays of one problem: queries [B,S,N*H] with a row pitch, caches [B,Nkv,capacity,H].
struct Data {
  explicit Data(const Problem& p)
      : capacity(p.keys + 3),
        q_pitch(p.heads * p.h + 5),
        q(Buffer::Random(p.q, p.batch * p.seq * q_pitch, p.seed, 2)),
        k(Buffer::Random(p.kv, p.batch * p.kv_heads * capacity * p.h, p.seed + 1, 2)),
        v(Buffer::Random(p.kv, p.batch * p.kv_heads * capacity * p.hv, p.seed + 2)),
        mask(Buffer::Random(p.mask == Mask::kHalf ? DType::kFloat16 : DType::kFloat,
                            p.batch * (p.mask_per_head ? p.heads : 1) * p.seq * p.keys, p.seed + 3)),
        sink(Buffer::Random(DType::kFloat16, p.heads, p.seed + 4, 3)) {
    std::mt19937 rng(p.seed);
    for (int64_t i = 0; i < mask.size(); ++i) {
      keep.push_back(rng() % 3 != 0);
      if (rng() % 5 == 0) mask.Set(i, -std::numeric_limits<float>::infinity());
    }
    // what no query may see is poison
    for (int64_t b = 0; b < p.batch; ++b) {
      const int64_t len = p.key_len.empty() ? p.keys : p.key_len[static_cast<size_t>(b)];
      for (int64_t n = 0; n < p.kv_heads; ++n)
        for (int64_t t = len; t < capacity; ++t) {
          for (int64_t i = 0; i < p.h; ++i) k.Set(((b * p.kv_heads + n) * capacity + t) * p.h + i, NAN);
          for (int64_t i = 0; i < p.hv; ++i) v.Set(((b * p.kv_heads + n) * capacity + t) * p.hv + i, NAN);
        }
    }
  }
  int64_t capacity, q_pitch;
  Buffer q, k, v, mask, sink;
  std::vector<uint8_t> keep;
};

AttentionArgs ArgsOf(const Problem& p, const Data& d, Buffer& y, Buffer& qk) {
  AttentionArgs a;
  a.batch = p.batch;
  a.seq = p.seq;
  a.q_heads = p.heads;
  a.kv_heads = p.kv_heads;
  a.head_size = p.h;
  a.v_head_size = p.hv;
  a.max_keys = p.keys;
  a.q = d.q.in();
  a.q_layout = {p.seq * d.q_pitch, d.q_pitch, p.h};
  a.k = d.k.in();
  a.k_layout = {p.kv_heads * d.capacity * p.h, p.h, d.capacity * p.h};
  a.v = d.v.in();
  a.v_layout = {p.kv_heads * d.capacity * p.hv, p.hv, d.capacity * p.hv};
  a.y = y.at();
  a.y_layout = {p.seq * p.heads * p.hv, p.heads * p.hv, p.hv};
  a.key_len = p.key_len.empty() ? nullptr : p.key_len.data();
  a.query_offset = p.offset.empty() ? nullptr : p.offset.data();
  a.left_window = p.left;
  a.right_window = p.right;
  a.scale = 0.4f;
  a.softcap = p.softcap;
  if (p.mask != Mask::kNone) {
    a.bias = p.mask == Mask::kBool ? ConstArray{d.keep.data(), DType::kBool} : d.mask.in();
    const int64_t heads = p.mask_per_head ? p.heads : 1;
    a.bias_batch_stride = heads * p.seq * p.keys;
    a.bias_head_stride = p.mask_per_head ? p.seq * p.keys : 0;
    a.bias_seq_stride = p.keys;
    a.bias_keys = p.mask_keys;
  }
  if (p.sink) a.head_sink = d.sink.in();
  a.smooth_softmax = p.smooth;
  a.qk_mode = p.qk;
  a.qk = qk.at();
  return a;
}

void Compute(const AttentionArgs& a, int threads) {
  ThreadTeam team(threads);
  Scratch scratch(AttentionScratchBytes(a, threads));
  Attention(team, a, scratch.get());
}

Buffer Attend(const Problem& p, const Data& d, int threads, Buffer* qk_out = nullptr) {
  Buffer y(p.y, p.batch * p.seq * p.heads * p.hv);
  Buffer qk(DType::kFloat, p.qk == QkOutput::kNone ? 0 : p.batch * p.heads * p.seq * p.keys);
  const AttentionArgs a = ArgsOf(p, d, y, qk);
  Compute(a, threads);
  EXPECT_TRUE(y.GuardIntact() && qk.GuardIntact());
  if (qk_out != nullptr) *qk_out = qk;
  return y;
}

/// Compares with a double-precision evaluation of the definition.
Buffer Check(const Problem& p, int threads = 2) {
  SCOPED_TRACE(testing::Message() << "B " << p.batch << " S " << p.seq << " N " << p.heads << "/"
                                  << p.kv_heads << " H " << p.h << "/" << p.hv << " T " << p.keys
                                  << " window " << p.left << "," << p.right << " types " << NameOf(p.q) << ' '
                                  << NameOf(p.kv) << ' ' << NameOf(p.y) << " mask "
                                  << static_cast<int>(p.mask) << " cap " << p.softcap << " sink " << p.sink
                                  << p.smooth);
  const Data d(p);
  Buffer qk(DType::kFloat, 0);
  const Buffer y = Attend(p, d, threads, &qk);
  int wrong = 0;
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t n = 0; n < p.heads; ++n)
      for (int64_t s = 0; s < p.seq && wrong == 0; ++s) {
        const int64_t len = p.key_len.empty() ? p.keys : p.key_len[static_cast<size_t>(b)];
        const int64_t i = (p.offset.empty() ? len - p.seq : p.offset[static_cast<size_t>(b)]) + s;
        const int64_t kvn = n / (p.heads / p.kv_heads);
        std::vector<double> x(static_cast<size_t>(len)), stage[5];
        const double sink = p.sink ? d.sink[n] : 0;
        double top = p.sink || p.smooth ? sink : -kInf;
        for (int64_t j = 0; j < len; ++j) {
          double e = 0;
          for (int64_t c = 0; c < p.h; ++c) {
            e += d.q[(b * p.seq + s) * d.q_pitch + n * p.h + c] *
                 d.k[((b * p.kv_heads + kvn) * d.capacity + j) * p.h + c];
          }
          e *= 0.4f;
          stage[1].push_back(e);
          if (p.softcap > 0) e = p.softcap * std::tanh(e / p.softcap);
          stage[2].push_back(e);
          const int64_t m = ((p.mask_per_head ? b * p.heads + n : b) * p.seq + s) * p.keys + j;
          bool seen = (p.left < 0 || j >= i - p.left) && (p.right < 0 || j <= i + p.right);
          if (p.mask != Mask::kNone && p.mask_keys >= 0 && j >= p.mask_keys) seen = false;
          if (!seen) {
            e = -kInf;
          } else if (p.mask == Mask::kBool) {
            if (!d.keep[static_cast<size_t>(m)]) e = -kInf;
          } else if (p.mask != Mask::kNone) {
            e += d.mask[m];
          }
          stage[3].push_back(e);
          x[static_cast<size_t>(j)] = e;
          top = std::max(top, e);
        }
        double sum = p.sink || p.smooth ? std::exp(sink - top) : 0;
        for (double& e : x) {
          e = top == -kInf ? 0 : std::exp(e - top);
          sum += e;
        }
        for (double& e : x) e = sum == 0 ? 0 : e / sum;
        stage[4] = x;
        for (int64_t c = 0; c < p.hv; ++c) {
          double want = 0;
          for (int64_t j = 0; j < len; ++j) {
            if (x[static_cast<size_t>(j)] != 0)
              want += x[static_cast<size_t>(j)] * d.v[((b * p.kv_heads + kvn) * d.capacity + j) * p.hv + c];
          }
          const double got = y[((b * p.seq + s) * p.heads + n) * p.hv + c];
          if (!(std::abs(got - want) <= 4e-6 + 1.01 * RoundingOf(p.y) * std::abs(want)) && wrong++ == 0) {
            ADD_FAILURE() << "b " << b << " n " << n << " s " << s << " column " << c << ": " << got
                          << " instead of " << want;
          }
        }
        if (p.qk == QkOutput::kNone) continue;
        for (int64_t j = 0; j < p.keys; ++j) {
          const double got = qk[((b * p.heads + n) * p.seq + s) * p.keys + j];
          const double want = j < len ? stage[static_cast<size_t>(p.qk)][static_cast<size_t>(j)] : 0;
          EXPECT_TRUE(got == want || std::abs(got - want) < 1e-5)
              << "scores " << got << " instead of " << want;
        }
      }
  return y;
}

TEST(Attention, OneRow) {
  ForEachTarget([] {
    for (const int64_t keys : {1, 3, 17, 256, 257, 700}) Check({.heads = 3, .kv_heads = 3, .keys = keys});
    for (const auto& [n, kv] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {2, 1}, {9, 3}, {14, 2}, {5, 1}, {8, 8}}) {
      Check({.batch = 2, .heads = n, .kv_heads = kv, .h = 64, .hv = 64, .keys = 300});
      Check({.batch = 2, .heads = n, .kv_heads = kv, .h = 20, .hv = 36, .keys = 40});
    }
    Check({.heads = 4, .kv_heads = 2, .h = 1, .hv = 1, .keys = 30});
    Check({.heads = 4, .kv_heads = 1, .h = 96, .hv = 128, .keys = 30});
  });
}

TEST(Attention, SeveralRows) {
  ForEachTarget([] {
    for (const int64_t seq : {2, 5, 33, 70}) {
      Check({.seq = seq, .heads = 3, .kv_heads = 1, .h = 16, .hv = 16, .keys = seq});
      Check({.batch = 2, .seq = seq, .heads = 2, .kv_heads = 2, .h = 20, .hv = 7, .keys = seq + 131});
      Check({.seq = seq, .heads = 2, .kv_heads = 1, .h = 24, .hv = 130, .keys = 90, .right = -1});
    }
    Check({.seq = 40, .heads = 9, .kv_heads = 3, .h = 64, .hv = 64, .keys = 300});
    Check({.seq = 150, .heads = 2, .kv_heads = 2, .h = 5, .hv = 3, .keys = 150});
  });
}

TEST(Attention, Types) {
  ForEachTarget([] {
    for (const DType q : kTypes)
      for (const DType kv : kTypes)
        for (const DType y : kTypes)
          for (const int64_t seq : {1, 9}) {
            Check({.seq = seq,
                   .heads = 4,
                   .kv_heads = 2,
                   .h = 20,
                   .hv = 20,
                   .keys = 35,
                   .q = q,
                   .kv = kv,
                   .y = y});
          }
  });
}

TEST(Attention, WindowsAndSoftcap) {
  ForEachTarget([] {
    for (const int64_t seq : {1, 2, 45}) {
      for (const int64_t left : {0, 3, 40, 300}) {
        Check({.seq = seq,
               .heads = 2,
               .kv_heads = 1,
               .h = 16,
               .hv = 16,
               .keys = 400,
               .left = left,
               .softcap = 2});
        Check({.seq = seq,
               .heads = 2,
               .kv_heads = 1,
               .h = 16,
               .hv = 16,
               .keys = 60,
               .left = left,
               .right = 5,
               .offset = {20}});
        Check({.seq = seq, .heads = 1, .kv_heads = 1, .keys = 60, .left = left, .right = -1, .offset = {9}});
      }
    }
  });
}

TEST(Attention, Masks) {
  ForEachTarget([] {
    for (const int64_t seq : {1, 3, 40}) {
      for (const Mask mask : {Mask::kFloat, Mask::kHalf, Mask::kBool}) {
        for (const bool per_head : {false, true}) {
          Check({.batch = 2,
                 .seq = seq,
                 .heads = 4,
                 .kv_heads = 2,
                 .keys = 150,
                 .right = -1,
                 .softcap = 3,
                 .mask = mask,
                 .mask_per_head = per_head});
        }
        Check({.batch = 2, .seq = seq, .heads = 2, .kv_heads = 2, .keys = 61, .mask = mask, .mask_keys = 50});
      }
    }
  });
}

TEST(Attention, SinksAndSmoothSoftmax) {
  ForEachTarget([] {
    for (const int64_t seq : {1, 6}) {
      Check({.seq = seq, .heads = 4, .kv_heads = 2, .keys = 300, .sink = true});
      Check({.seq = seq, .heads = 4, .kv_heads = 2, .keys = 30, .smooth = true});
      Check({.seq = seq, .heads = 4, .kv_heads = 2, .keys = 30, .left = 4, .sink = true, .smooth = true});
      Check({.seq = seq, .heads = 1, .kv_heads = 1, .keys = 30, .sink = true, .offset = {-40}});
    }
  });
}

TEST(Attention, LengthsPerRow) {
  ForEachTarget([] {
    // right-padded prompts of 3 and 5 tokens, then one step
    Check({.batch = 2, .seq = 5, .heads = 2, .kv_heads = 1, .keys = 5, .key_len = {3, 5}, .offset = {0, 0}});
    Check({.batch = 2, .seq = 1, .heads = 2, .kv_heads = 1, .keys = 6, .key_len = {4, 6}, .offset = {3, 5}});
    Check({.batch = 3,
           .seq = 1,
           .heads = 3,
           .kv_heads = 1,
           .h = 32,
           .hv = 32,
           .keys = 600,
           .key_len = {0, 1, 600}});
    Check({.batch = 3, .seq = 40, .heads = 3, .kv_heads = 1, .keys = 300, .key_len = {0, 41, 300}});
    // chunked prompt: 4 past, 3 new
    Check({.seq = 3, .heads = 2, .kv_heads = 1, .keys = 7, .offset = {4}});
    // more queries than keys: the first rows see nothing
    Check({.seq = 2, .heads = 1, .kv_heads = 1, .keys = 1});
    Check({.seq = 50, .heads = 1, .kv_heads = 1, .keys = 10});
  });
}

TEST(Attention, ScoresOutput) {
  for (const QkOutput mode :
       {QkOutput::kScaled, QkOutput::kSoftcapped, QkOutput::kMasked, QkOutput::kSoftmax}) {
    Check({.batch = 2,
           .seq = 4,
           .heads = 4,
           .kv_heads = 2,
           .keys = 20,
           .softcap = 2,
           .mask = Mask::kFloat,
           .key_len = {11, 20},
           .qk = mode});
    Check({.seq = 1,
           .heads = 2,
           .kv_heads = 1,
           .h = 3,
           .hv = 5,
           .keys = 9,
           .left = 3,
           .sink = true,
           .qk = mode});
    Check({.seq = 2, .heads = 2, .kv_heads = 1, .keys = 1, .qk = mode});
  }
}

TEST(Attention, EmptyDimensions) {
  ForEachTarget([] {
    Check({.batch = 0, .seq = 3, .keys = 4});
    Check({.seq = 0, .keys = 4});
    Check({.heads = 0, .kv_heads = 0, .keys = 4});
    for (const int64_t seq : {1, 2}) {
      Check({.seq = seq, .keys = 0});
      Check({.seq = seq, .hv = 0, .keys = 4});
      Check({.seq = seq, .h = 0, .keys = 4});
      Check({.seq = seq, .keys = 0, .sink = true});
    }
  });
}

TEST(Attention, SameBitsForAnyThreads) {
  ForEachTarget([] {
    for (const int64_t seq : {1, 2, 75}) {
      const Problem p{.batch = 2,
                      .seq = seq,
                      .heads = 6,
                      .kv_heads = 2,
                      .h = 32,
                      .hv = 32,
                      .keys = 700,
                      .kv = DType::kFloat16};
      const Buffer one = Check(p, 1);
      const Data d(p);
      for (int threads = 2; threads <= 4; ++threads) EXPECT_TRUE(one == Attend(p, d, threads)) << threads;
    }
  });
}

TEST(Attention, ChunksOfAPromptGiveTheSame) {
  ForEachTarget([] {
    Problem p{.seq = 200, .heads = 3, .kv_heads = 1, .h = 32, .hv = 32, .keys = 200};
    for (const int64_t left : {-1, 70}) {
      p.left = left;
      const Data d(p);
      const Buffer whole = Attend(p, d, 2);
      for (const std::vector<int64_t>& cuts :
           std::vector<std::vector<int64_t>>{{0, 100, 200}, {0, 7, 130, 198, 199, 200}}) {
        Buffer parts(DType::kFloat, whole.size());
        Buffer unused(DType::kFloat, 0);
        for (size_t i = 0; i + 1 < cuts.size(); ++i) {
          AttentionArgs a = ArgsOf(p, d, parts, unused);
          a.seq = cuts[i + 1] - cuts[i];
          a.max_keys = cuts[i + 1];
          a.q = d.q.in(cuts[i] * d.q_pitch);
          a.y = parts.at(cuts[i] * p.heads * p.hv);
          Compute(a, 2);
          for (int64_t e = cuts[i] * p.heads * p.hv; e < cuts[i + 1] * p.heads * p.hv; ++e) {
            if (a.seq > 1) {
              ASSERT_EQ(parts[e], whole[e]) << "rows " << cuts[i] << " to " << cuts[i + 1];
            } else {
              ASSERT_NEAR(parts[e], whole[e], 1e-5);
            }
          }
        }
      }
    }
  });
}

TEST(Attention, HandVectors) {
  // scores [1, 2], values the unit vectors: the output is the softmax itself
  struct Case {
    bool smooth, sink;
    double first, second;
  };
  ForEachTarget([] {
    for (const Case& c : {Case{false, false, 0.26894, 0.73106}, Case{true, false, 0.24473, 0.66524},
                          Case{false, true, 0.09003, 0.24473}}) {
      for (const int64_t seq : {1, 2}) {
        const Buffer q = Buffer::Of(DType::kFloat, {1, 1}), k = Buffer::Of(DType::kFloat, {1, 2});
        const Buffer v = Buffer::Of(DType::kFloat, {1, 0, 0, 1}), sink = Buffer::Of(DType::kFloat, {3});
        Buffer y(DType::kFloat, 4);
        AttentionArgs a;
        a.batch = a.q_heads = a.kv_heads = a.head_size = 1;
        a.seq = seq;
        a.v_head_size = a.max_keys = 2;
        a.right_window = -1;
        a.q = q.in();
        a.q_layout = {2, 1, 1};
        a.k = k.in();
        a.k_layout = {2, 1, 2};
        a.v = v.in();
        a.v_layout = {4, 2, 4};
        a.y = y.at();
        a.y_layout = {4, 2, 2};
        a.smooth_softmax = c.smooth;
        if (c.sink) a.head_sink = sink.in();
        Compute(a, 1);
        EXPECT_NEAR(y[2 * (seq - 1)], c.first, 1e-5);
        EXPECT_NEAR(y[2 * (seq - 1) + 1], c.second, 1e-5);
      }
    }
  });
}

TEST(Attention, EmptyRowsCanBeNaN) {
  for (const int64_t seq : {1, 2}) {
    Problem p{.seq = seq, .keys = 3, .offset = {-10}};
    const Data d(p);
    Buffer y(DType::kFloat, seq * p.hv), qk(DType::kFloat, 0);
    AttentionArgs a = ArgsOf(p, d, y, qk);
    a.empty_row = EmptyRow::kNaN;
    Compute(a, 1);
    for (int64_t i = 0; i < y.size(); ++i) EXPECT_TRUE(std::isnan(y[i]));
  }
}

TEST(Attention, NotANumberIsKept) {
  ForEachTarget([] {
    for (const int64_t seq : {1, 3}) {
      Problem p{.seq = seq, .h = 16, .hv = 16, .keys = 50};
      Data d(p);
      d.k.Set(10 * p.h, NAN);
      const Buffer y = Attend(p, d, 1);
      for (int64_t i = 0; i < y.size(); ++i) EXPECT_TRUE(std::isnan(y[i]));
    }
  });
}

TEST(Attention, BadLengthsAreRefused) {
  Problem p{.keys = 4, .key_len = {5}};
  Problem fine = p;
  fine.key_len = {4};
  const Data d(fine);
  Buffer y(DType::kFloat, p.hv), qk(DType::kFloat, 0);
  ThreadTeam team(1);
  AttentionArgs a = ArgsOf(p, d, y, qk);
  Scratch scratch(AttentionScratchBytes(a, 1));
  EXPECT_THROW(Attention(team, a, scratch.get()), Error);
  p.key_len = {-1};
  EXPECT_THROW(Attention(team, ArgsOf(p, d, y, qk), scratch.get()), Error);
}

}  // namespace
}  // namespace ullage::dense
