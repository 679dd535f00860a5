// quant_bench [COLD_MIB [FORMAT [THREADS]]]
// Speed of products with quantised weights beside the machine's limits, on 1 to THREADS (2) threads:
//  - one token: weights in huge pages, rotated through COLD_MIB (512) so that they come from memory; GB/s of
//  packed
//    weight, and its share of the plain read bandwidth of a buffer of that size, measured before and after;
//  - 512 tokens: Gop/s (a multiplication and an addition are two), and its share of the peak of VPDPBUSD.
#include <sys/mman.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/checked.h"
#include "core/cpu_features.h"
#include "core/gguf_block.h"
#include "core/half.h"
#include "providers/cpu/quant/matmul.h"

namespace ullage::quant {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// For one thread the time that it ran, so that other processes matter less.
double ThreadNow() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Memory in huge pages where there are some.
class Pages {
 public:
  explicit Pages(size_t bytes) : bytes_(AlignUp<size_t>(bytes, size_t{1} << 21)) {
    data_ = static_cast<uint8_t*>(
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (data_ == MAP_FAILED) std::abort();
    madvise(data_, bytes_, MADV_HUGEPAGE);
    std::memset(data_, 1, bytes_);
  }
  ~Pages() { munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  uint8_t* data() { return data_; }
  size_t size() const { return bytes_; }

 private:
  size_t bytes_;
  uint8_t* data_;
};

// The lower quartile of the durations of `calls` calls of fn(i): other processes on the machine only ever add
// to them.
template <class Fn>
double Seconds(const ThreadTeam& team, int64_t calls, const Fn& fn) {
  const auto now = team.size() == 1 ? ThreadNow : Now;
  std::vector<double> seconds(static_cast<size_t>(calls));
  for (int64_t i = 0; i < calls; ++i) {
    const double start = now();
    fn(i);
    seconds[static_cast<size_t>(i)] = now() - start;
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 4];
}

double ReadBandwidth(Pages& buffer, ThreadTeam& team) {
  typedef uint64_t Line __attribute__((vector_size(64)));
  constexpr size_t kPart = size_t{1} << 17, kParts = 32;
  const double seconds = Seconds(team, static_cast<int64_t>(buffer.size() / kPart / kParts), [&](int64_t i) {
    team.Run(kParts, [&](int64_t task, int) {
      const Line* p =
          reinterpret_cast<const Line*>(buffer.data() + static_cast<size_t>(i * kParts + task) * kPart);
      Line sum = {};
      for (size_t j = 0; j < kPart / sizeof(Line); j += 4) {
        for (size_t l = 0; l < 4; ++l) __builtin_prefetch(p + j + 48 + l);
        sum += (p[j] ^ p[j + 1]) + (p[j + 2] ^ p[j + 3]);
      }
      volatile uint64_t sink = sum[0] + sum[7];
      (void)sink;
    });
  });
  return static_cast<double>(kPart * kParts) / seconds * 1e-9;
}

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512vnni"))) void DotLoop(int64_t rounds) {
  __m512i a = _mm512_set1_epi8(1), sums[16];
  for (__m512i& s : sums) s = a;
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < 16; ++j) asm volatile("vpdpbusd %1, %1, %0" : "+v"(sums[j]) : "v"(a));
  }
}
#endif

// Gop/s of the 8-bit dot product of 512-bit vectors; 0 where there is none.
double Int8Peak([[maybe_unused]] ThreadTeam& team) {
#if defined(__x86_64__)
  if (!Cpu().avx512_vnni) return 0;
  constexpr int64_t kRounds = 5000;
  const double seconds =
      Seconds(team, 100, [&](int64_t) { team.Run(team.size() * 4, [](int64_t, int) { DotLoop(kRounds); }); });
  return team.size() * 4.0 * kRounds * 16 * 128 / seconds * 1e-9;
#else
  return 0;
#endif
}

struct Shape {
  int64_t n, k;
};

std::vector<std::byte> RandomBytes(size_t bytes) {
  std::mt19937 rng(1);
  std::vector<std::byte> v(bytes);
  for (std::byte& b : v) b = static_cast<std::byte>(rng() & 63);
  return v;
}

void Bench(const char* name, const BlockFormat& format, Shape shape, Accuracy accuracy, Pages& memory,
           int max_threads) {
  const auto [n, k] = shape;
  const PackedLayout layout = PlanPack(format, n, k, accuracy);
  const std::vector<std::byte> data = RandomBytes(format.DataBytes(n, k));
  std::vector<float> scale_values(format.ScaleBytes(n, k) / 4);
  for (size_t i = 0; i < scale_values.size(); ++i)
    scale_values[i] = 0.01f + static_cast<float>(i % 61) * 1e-4f;
  const std::span<const std::byte> scales = std::as_bytes(std::span(scale_values));
  const BlockWeightView view = {format, n, k, data, scales, {}, {}};
  const size_t step = AlignUp<size_t>(layout.bytes, 64);
  const int64_t copies = static_cast<int64_t>(memory.size() / step);
  const double pack_start = ThreadNow();
  Pack(view, layout, 0, layout.groups, memory.data());
  const double pack_seconds = ThreadNow() - pack_start;
  for (int64_t i = 1; i < copies; ++i)
    std::memcpy(memory.data() + static_cast<size_t>(i) * step, memory.data(), layout.bytes);
  std::printf("%-8s %6lld x %-5lld %-5s pack %5.2f GB/s", name, static_cast<long long>(n),
              static_cast<long long>(k), accuracy == Accuracy::kInt8 ? "int8" : "float",
              static_cast<double>(data.size()) / pack_seconds * 1e-9);
  for (int threads = 1; threads <= max_threads; ++threads) {
    ThreadTeam team(threads);
    const auto run = [&](int64_t m, int64_t calls) {
      std::vector<float> a(static_cast<size_t>(m * k), 0.5f), out(static_cast<size_t>(m * n));
      Pages activations(ActivationBytes(layout.activations, m, k));
      QuantizeActivations(layout.activations, a.data(), k, m, k, activations.data(), team);
      MatMulArgs args;
      args.layout = &layout;
      args.activations = activations.data();
      args.m = m;
      args.out = out.data();
      args.ldo = n;
      return Seconds(team, calls, [&](int64_t i) {
        args.packed = memory.data() + static_cast<size_t>(i % copies) * step;
        MatMul(args, team);
      });
    };
    const double before = ReadBandwidth(memory, team);
    const double decode = run(1, copies);
    const double after = ReadBandwidth(memory, team);
    const double bandwidth = (before + after) / 2, rate = static_cast<double>(layout.bytes) / decode * 1e-9;
    const double peak = Int8Peak(team);
    const double prefill =
        run(512, std::clamp<int64_t>(static_cast<int64_t>(5e9 / static_cast<double>(n * k * 512)), 3, 50));
    const double speed = 2.0 * static_cast<double>(n * k) * 512 / prefill * 1e-9;
    std::printf(" | %dt: %6.1f us %5.1f GB/s %3.0f%% of %5.1f, prefill %6.0f Gop/s %3.0f%% of %5.0f", threads,
                decode * 1e6, rate, rate / bandwidth * 100, bandwidth, speed,
                peak > 0 ? speed / peak * 100 : 0, peak);
  }
  std::printf("\n");
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  const size_t mib = argc > 1 ? static_cast<size_t>(std::atoll(argv[1])) : 512;
  const std::string only = argc > 2 ? argv[2] : "";
  const int max_threads = argc > 3 ? std::max(1, std::atoi(argv[3])) : 2;
  Pages memory(mib << 20);
  std::printf("instruction set %s, cold weights %zu MiB\n", std::string(NameOf(ActiveIsa())).c_str(), mib);
  struct Case {
    const char* name;
    BlockFormat format;
    Accuracy accuracy;
  };
  std::vector<Case> cases;
  for (GgufType type : {GgufType::kQ4_0, GgufType::kQ4_1, GgufType::kQ5_0, GgufType::kQ8_0})
    cases.push_back({TraitsOf(type).name, BlockFormat::Gguf(type), Accuracy::kInt8});
  const BlockFormat nbits = BlockFormat::NBits(4, 32, DType::kFloat, ZeroPoint::kMiddle);
  cases.push_back({"nbits4", nbits, Accuracy::kInt8});
  cases.push_back({"nbits4", nbits, Accuracy::kFloat});
  for (const Case& c : cases)
    for (const Shape shape : {Shape{576, 576}, Shape{1536, 576}, Shape{576, 1536}, Shape{49152, 576}})
      if (only.empty() || only == c.name) Bench(c.name, c.format, shape, c.accuracy, memory, max_threads);
  for (GgufType type : {GgufType::kQ2_K, GgufType::kQ3_K, GgufType::kQ4_K, GgufType::kQ5_K, GgufType::kQ6_K,
                        GgufType::kIQ4_NL, GgufType::kIQ4_XS}) {
    const char* name = TraitsOf(type).name;
    if (only.empty() || only == name)
      Bench(name, BlockFormat::Gguf(type), {4096, 2048}, Accuracy::kInt8, memory, max_threads);
  }
  return 0;
}

}  // namespace
}  // namespace ullage::quant

int main(int argc, char** argv) {
  return ullage::quant::Main(argc, argv);
}
