/// After its first token, decoding allocates nothing: malloc and mmap are interposed, on all threads.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "llm/generator.h"
#include "llm/model_source.h"

namespace {
std::atomic<bool> g_counting{false};
std::atomic<int64_t> g_allocations{0};
void Count() {
  if (g_counting.load(std::memory_order_relaxed)) g_allocations.fetch_add(1, std::memory_order_relaxed);
}
}  // namespace

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t n) {
  Count();
  return __libc_malloc(n);
}
void* calloc(size_t a, size_t b) {
  Count();
  return __libc_calloc(a, b);
}
void* realloc(void* p, size_t n) {
  Count();
  return __libc_realloc(p, n);
}
void* aligned_alloc(size_t a, size_t n) {
  Count();
  return __libc_memalign(a, n);
}
int posix_memalign(void** out, size_t a, size_t n) {
  Count();
  *out = __libc_memalign(a, n);
  return *out ? 0 : 12;
}
void* mmap(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
  Count();
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, length, protection, flags, fd, offset));
}
}

namespace ullage::llm {
namespace {

void DecodeWithoutAllocating(const std::string& path, int threads, int64_t context, int tokens) {
  const ModelSource source = FindModel(path, "", false);
  DecoderOptions options;
  options.threads = threads;
  options.context = context;
  const auto decoder = Decoder::Create(source, options);
  Sampler sampler({.temperature = 0.7f,
                   .top_k = 40,
                   .top_p = 0.9f,
                   .min_p = 0.01f,
                   .repetition_penalty = 1.1f,
                   .seed = 7},
                  decoder->vocabulary());
  std::vector<int32_t> history = {1, 2, 3, 4, 5};
  history.reserve(static_cast<size_t>(context) + 1);
  decoder->Feed(history);
  int32_t id = sampler.Sample(decoder->logits(), history);
  history.push_back(id);
  decoder->Feed({&id, 1});
  g_allocations = 0;
  g_counting = true;
  for (int t = 0; t < tokens; ++t) {
    id = sampler.Sample(decoder->logits(), history);
    history.push_back(id);
    decoder->Feed({&id, 1});
  }
  g_counting = false;
  EXPECT_EQ(g_allocations.load(), 0);
  EXPECT_EQ(decoder->session().allocations_during_run(), 0);
  EXPECT_EQ(decoder->session().peak_bytes(), decoder->session().device_plan().tags.Sum());
  // The hook itself works.
  g_counting = true;
  std::free(std::malloc(100));
  g_counting = false;
  EXPECT_GE(g_allocations.load(), 1);
}

TEST(Allocation, DecodingSmallModels) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ULLAGE_SOURCE_DIR "/tests/gguf/models")) {
    if (entry.path().extension() != ".gguf") continue;
    ++found;
    for (int threads : {1, 3}) {
      SCOPED_TRACE(entry.path().string() + " with " + std::to_string(threads) + " threads");
      DecodeWithoutAllocating(entry.path().string(), threads, 64, 50);
    }
  }
  EXPECT_GT(found, 0);
}

TEST(Allocation, DecodingTheDefaultModel) {
  const std::string path = ModelStore() + "/smollm2.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  DecodeWithoutAllocating(path, 2, 512, 200);
}

}  // namespace
}  // namespace ullage::llm
