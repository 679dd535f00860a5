// ullage_packing_bench [--time-limit SECONDS] [FILE.csv...]: peak, lower bound and seconds for each file,
// then for graphs made up here.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <random>
#include <sstream>

#include "core/error.h"
#include "memory/checker.h"
#include "memory/minimalloc_csv.h"

namespace {

using ullage::memory::Buffer;
using ullage::memory::Packing;
using ullage::memory::PackLimits;

void Report(const char* name, size_t buffers, const Packing& p, double seconds) {
  std::printf("%-28s %6zu buffers  peak %12lld  bound %12lld  ratio %.4f  %7.3f s  %9lld nodes  %s\n", name,
              buffers, static_cast<long long>(p.peak), static_cast<long long>(p.lower_bound),
              p.lower_bound > 0 ? static_cast<double>(p.peak) / static_cast<double>(p.lower_bound) : 1.0,
              seconds, static_cast<long long>(p.nodes), p.method.c_str());
  std::fflush(stdout);
}

void Measure(const char* name, const std::vector<Buffer>& buffers, const PackLimits& limits) {
  const std::clock_t start = std::clock();
  const Packing packing = ullage::memory::Pack(buffers, limits);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  ullage::memory::RequireSound(buffers, packing);
  Report(name, buffers.size(), packing, seconds);
}

// A decoder: `layers` equal layers of values that live for a few steps, a residual stream, and masks that
// live throughout.
std::vector<Buffer> Decoder(int layers, int per_layer, uint32_t seed) {
  std::mt19937 random(seed);
  struct Shape {
    int64_t size, delay, life;
  };
  std::vector<Shape> shapes;
  for (int i = 0; i < per_layer; ++i)
    shapes.push_back(
        {static_cast<int64_t>(random() % 64 + 1) * 4096, i, static_cast<int64_t>(random() % 6 + 1)});
  shapes.push_back({64 * 4096, 0, per_layer});
  std::vector<Buffer> buffers;
  const auto add = [&](int64_t size, int64_t first, int64_t last) {
    Buffer b;
    b.id = static_cast<int64_t>(buffers.size());
    b.size = size;
    b.first = first;
    b.last = last;
    buffers.push_back(b);
  };
  for (int layer = 0; layer < layers; ++layer)
    for (const Shape& s : shapes)
      add(s.size, layer * per_layer + s.delay, layer * per_layer + s.delay + s.life);
  for (int i = 0; i < 4; ++i) add(8 * 4096, 0, static_cast<int64_t>(layers) * per_layer + 8);
  return buffers;
}

// A graph without structure: lives mostly short, sizes over four orders of magnitude.
std::vector<Buffer> Random(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Buffer> buffers(count);
  for (size_t i = 0; i < count; ++i) {
    Buffer& b = buffers[i];
    b.id = static_cast<int64_t>(i);
    b.size = int64_t{1} << (random() % 14 + 6);
    b.size += random() % static_cast<uint32_t>(b.size);
    b.first = static_cast<int64_t>(i);
    b.last = b.first + 1 + random() % (random() % 50 == 0 ? 2000 : 12);
  }
  return buffers;
}

}  // namespace

int main(int, char** argv) {
  PackLimits limits;
  bool files = false;
  try {
    for (++argv; *argv != nullptr; ++argv) {
      if (std::strcmp(*argv, "--work-limit") == 0 && argv[1] != nullptr) {
        limits.work_limit = std::strtoll(*++argv, nullptr, 10);
        continue;
      }
      std::ifstream in(*argv, std::ios::binary);
      std::ostringstream text;
      text << in.rdbuf();
      const char* slash = std::strrchr(*argv, '/');
      Measure(slash == nullptr ? *argv : slash + 1, ullage::memory::ReadMinimallocCsv(text.str()).buffers,
              limits);
      files = true;
    }
  } catch (const ullage::Error& error) {
    std::fprintf(stderr, "ullage_packing_bench: %s: %s\n", *argv, error.what());
    return ullage::ExitStatus(error.code());
  }
  if (files) return 0;
  Measure("decoder 32 x 40", Decoder(32, 40, 1), limits);
  Measure("decoder 100 x 200", Decoder(100, 200, 2), limits);
  Measure("random 300", Random(300, 3), limits);
  Measure("random 2000", Random(2000, 4), limits);
  Measure("random 20000", Random(20000, 5), limits);
  return 0;
}
