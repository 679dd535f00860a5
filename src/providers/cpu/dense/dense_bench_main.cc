// Speed of the dense kernels beside what the machine can do, measured in the same run: multiply-add peak and
// read bandwidth. Usage: dense_bench [threads...] (default 1 and 2).
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <random>
#include <vector>

#include "core/half.h"
#include "providers/cpu/dense/attention.h"
#include "providers/cpu/dense/gemm.h"
#include "providers/cpu/dense/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "providers/cpu/dense/dense_bench_main.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ullage::dense {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Floating-point operations done by `rounds` rounds of independent multiply-adds.
double Peak(int64_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  const auto a = hn::Set(d, 1.0f - *sink * 1e-9f), b = hn::Set(d, *sink);
  auto x0 = b, x1 = b, x2 = b, x3 = b, x4 = b, x5 = b, x6 = b, x7 = b, x8 = b, x9 = b;
  for (int64_t i = 0; i < rounds; ++i) {
    x0 = hn::MulAdd(x0, a, b);
    x1 = hn::MulAdd(x1, a, b);
    x2 = hn::MulAdd(x2, a, b);
    x3 = hn::MulAdd(x3, a, b);
    x4 = hn::MulAdd(x4, a, b);
    x5 = hn::MulAdd(x5, a, b);
    x6 = hn::MulAdd(x6, a, b);
    x7 = hn::MulAdd(x7, a, b);
    x8 = hn::MulAdd(x8, a, b);
    x9 = hn::MulAdd(x9, a, b);
  }
  const auto sum = hn::Add(hn::Add(hn::Add(x0, x1), hn::Add(x2, x3)),
                           hn::Add(hn::Add(hn::Add(x4, x5), hn::Add(x6, x7)), hn::Add(x8, x9)));
  *sink = hn::GetLane(sum) * 0 + 1;
  return static_cast<double>(rounds) * 20 * static_cast<double>(hn::Lanes(d));
}

/// Reads bytes/64 lines and returns something that depends on all of them.
uint32_t ReadAll(const uint32_t* p, size_t bytes) {
  const hn::ScalableTag<uint32_t> d;
  auto a = hn::Zero(d), b = a, c = a, e = a;
  const size_t lanes = hn::Lanes(d), n = bytes / 4;
  for (size_t i = 0; i + 4 * lanes <= n; i += 4 * lanes) {
    a = hn::Add(a, hn::LoadU(d, p + i));
    b = hn::Add(b, hn::LoadU(d, p + i + lanes));
    c = hn::Add(c, hn::LoadU(d, p + i + 2 * lanes));
    e = hn::Add(e, hn::LoadU(d, p + i + 3 * lanes));
  }
  return hn::GetLane(hn::Add(hn::Add(a, b), hn::Add(c, e)));
}

}  // namespace HWY_NAMESPACE
}  // namespace ullage::dense
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ullage::dense {
namespace {

HWY_EXPORT(Peak);
HWY_EXPORT(ReadAll);

/// Time of a team of one is the processor time of its thread, so that neighbours matter less; else wall time.
double Now(const ThreadTeam& team) {
  timespec t;
  clock_gettime(team.size() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Seconds of the fastest of several calls.
template <class Fn>
double Best(const ThreadTeam& team, const Fn& fn, double budget = 0.25) {
  double best = 1e30, total = 0;
  fn();
  for (int i = 0; i < 3 || (total < budget && i < 100000); ++i) {
    const double start = Now(team);
    fn();
    const double s = Now(team) - start;
    best = std::min(best, s);
    total += s;
  }
  return best;
}

struct AlignedBytes {
  explicit AlignedBytes(size_t n) : size(std::max<size_t>(n, 64)) {
    data = std::aligned_alloc(64, (size + 63) / 64 * 64);
    std::memset(data, 0, size);
  }
  ~AlignedBytes() { std::free(data); }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  size_t size;
  void* data;
};

void FillRandom(void* data, int64_t n, DType dtype, uint32_t seed) {
  std::mt19937 rng(seed);
  for (int64_t i = 0; i < n; ++i) {
    const float x = static_cast<float>(rng() % 2001) * 1e-3f - 1;
    if (dtype == DType::kFloat) {
      static_cast<float*>(data)[i] = x;
    } else {
      static_cast<uint16_t*>(data)[i] = dtype == DType::kFloat16 ? FloatToHalf(x) : FloatToBFloat16(x);
    }
  }
}

double PeakFlops(ThreadTeam& team) {
  float sinks[64] = {};
  double flops = 0;
  const double s = Best(
      team,
      [&] {
        double done[64];
        team.Run(team.size(), [&](int64_t task, int) {
          sinks[task] = 1;
          done[task] = HWY_DYNAMIC_DISPATCH(Peak)(20000, &sinks[task]);
        });
        flops = 0;
        for (int i = 0; i < team.size(); ++i) flops += done[i];
      },
      0.05);
  return flops / s;
}

double ReadBandwidth(ThreadTeam& team) {
  static const AlignedBytes memory(size_t{256} << 20);
  const size_t chunk = size_t{1} << 20;
  std::atomic<uint32_t> sink{0};
  const double s = Best(
      team,
      [&] {
        team.Run(static_cast<int64_t>(memory.size / chunk), [&](int64_t task, int) {
          const auto* start = static_cast<const std::byte*>(memory.data) + static_cast<size_t>(task) * chunk;
          sink.fetch_add(HWY_DYNAMIC_DISPATCH(ReadAll)(reinterpret_cast<const uint32_t*>(start), chunk));
        });
      },
      0.1);
  return static_cast<double>(memory.size) / s;
}

void BenchGemm(ThreadTeam& team, int64_t m, int64_t n, int64_t k, DType weights) {
  // One row: as many matrices as make 256 MB, so that the weights come from memory.
  const size_t one = PackedBBytes(n, k, weights);
  const int64_t copies = m == 1 ? std::max<int64_t>(1, static_cast<int64_t>((size_t{256} << 20) / one)) : 1;
  AlignedBytes a(static_cast<size_t>(m * k) * 4), b(static_cast<size_t>(n * k) * ElementBytes(weights));
  AlignedBytes packed(one * static_cast<size_t>(copies)), c(static_cast<size_t>(m * n) * 4);
  FillRandom(a.data, m * k, DType::kFloat, 1);
  FillRandom(b.data, n * k, weights, 2);
  for (int64_t i = 0; i < copies; ++i) {
    PackB(team, {b.data, weights}, true, k, n, k,
          static_cast<std::byte*>(packed.data) + static_cast<size_t>(i) * one);
  }
  GemmArgs g;
  g.m = m;
  g.n = n;
  g.k = k;
  g.a = {a.data, DType::kFloat};
  g.lda = k;
  g.b_packed = true;
  g.c = {c.data, DType::kFloat};
  g.ldc = n;
  g.b.dtype = weights;
  AlignedBytes scratch(GemmScratchBytes(g, team.size()));
  const double s =
      Best(team,
           [&] {
             for (int64_t i = 0; i < copies; ++i) {
               g.b = {static_cast<std::byte*>(packed.data) + static_cast<size_t>(i) * one, weights};
               Gemm(team, g, scratch.data);
             }
           }) /
      static_cast<double>(copies);
  const double peak = PeakFlops(team), bandwidth = ReadBandwidth(team);
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / s;
  const double bytes = static_cast<double>(one) / s;
  std::printf(
      "gemm %4ld x %5ld x %5ld  weights %-8s  %8.1f Gflop/s %3.0f%% of peak   %6.1f GB/s %3.0f%% of read "
      "bandwidth\n",
      static_cast<long>(m), static_cast<long>(n), static_cast<long>(k), std::string(NameOf(weights)).c_str(),
      flops * 1e-9, 100 * flops / peak, bytes * 1e-9, 100 * bytes / bandwidth);
}

/// One layer's attention of SmolLM2-135M (9 query heads, 3 key heads of 64), `layers` caches one after the
/// other.
void BenchAttention(ThreadTeam& team, int64_t seq, int64_t depth, DType kv) {
  constexpr int64_t kHeads = 9, kKvHeads = 3, kSize = 64;
  const int64_t layers = seq == 1 ? 30 : 1, cache = kKvHeads * depth * kSize;
  AlignedBytes k(static_cast<size_t>(layers * cache) * ElementBytes(kv)), v(k.size);
  AlignedBytes q(static_cast<size_t>(seq * kHeads * kSize) * 4), y(q.size);
  FillRandom(k.data, layers * cache, kv, 1);
  FillRandom(v.data, layers * cache, kv, 2);
  FillRandom(q.data, seq * kHeads * kSize, DType::kFloat, 3);
  AttentionArgs a;
  a.batch = 1;
  a.seq = seq;
  a.q_heads = kHeads;
  a.kv_heads = kKvHeads;
  a.head_size = a.v_head_size = kSize;
  a.max_keys = depth;
  a.scale = 0.125f;
  a.q = {q.data, DType::kFloat};
  a.q_layout = {seq * kHeads * kSize, kHeads * kSize, kSize};
  a.k.dtype = a.v.dtype = kv;
  a.k_layout = a.v_layout = {cache, kSize, depth * kSize};
  a.y = {y.data, DType::kFloat};
  a.y_layout = a.q_layout;
  AlignedBytes scratch(AttentionScratchBytes(a, team.size()));
  const double s = Best(team, [&] {
    for (int64_t i = 0; i < layers; ++i) {
      const auto offset = static_cast<size_t>(i * cache) * ElementBytes(kv);
      a.k.data = static_cast<std::byte*>(k.data) + offset;
      a.v.data = static_cast<std::byte*>(v.data) + offset;
      Attention(team, a, scratch.data);
    }
  });
  const double peak = PeakFlops(team), bandwidth = ReadBandwidth(team);
  const std::string type(NameOf(kv));
  if (seq == 1) {
    const double rate = static_cast<double>(k.size + v.size) / s;
    std::printf("attention decode @%ld, 30 layers, kv %-8s  %7.3f ms  %6.1f GB/s %3.0f%% of read bandwidth\n",
                static_cast<long>(depth), type.c_str(), s * 1e3, rate * 1e-9, 100 * rate / bandwidth);
  } else {
    const auto n = static_cast<double>(seq), past = static_cast<double>(depth - seq);
    const double flops = 4.0 * kHeads * kSize * (n * past + n * (n + 1) / 2) / s;
    std::printf(
        "attention prefill %ld of %ld, 1 layer, kv %-8s  %7.3f ms  %6.1f Gflop/s (visible keys) %3.0f%% of "
        "peak\n",
        static_cast<long>(seq), static_cast<long>(depth), type.c_str(), s * 1e3, flops * 1e-9,
        100 * flops / peak);
  }
}

int Main(int argc, char** argv) {
  std::vector<int> counts;
  for (int i = 1; i < argc; ++i) counts.push_back(std::max(1, std::atoi(argv[i])));
  if (counts.empty()) counts = {1, 2};
  for (const int threads : counts) {
    ThreadTeam team(std::min(threads, 64));
    std::printf(
        "%d thread(s): peak %.1f Gflop/s, read %.1f GB/s; both are measured again beside every line\n",
        threads, PeakFlops(team) * 1e-9, ReadBandwidth(team) * 1e-9);
    for (const DType kv : {DType::kFloat, DType::kFloat16, DType::kBFloat16}) {
      BenchAttention(team, 1, 32, kv);
      BenchAttention(team, 1, 1024, kv);
      BenchAttention(team, 1, 4096, kv);
      BenchAttention(team, 128, 128, kv);
      BenchAttention(team, 512, 512, kv);
      BenchAttention(team, 512, 2048, kv);
    }
    for (const DType w : {DType::kFloat, DType::kFloat16, DType::kBFloat16}) {
      for (const int64_t m : {1, 4, 16, 96, 512}) BenchGemm(team, m, 1536, 576, w);
      BenchGemm(team, 96, 576, 1536, w);
      BenchGemm(team, 96, 256, 256, w);
    }
  }
  return 0;
}

}  // namespace
}  // namespace ullage::dense

int main(int argc, char** argv) {
  return ullage::dense::Main(argc, argv);
}
#endif
