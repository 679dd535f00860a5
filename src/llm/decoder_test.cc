#include "llm/decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <tuple>

#include "core/error.h"

namespace ullage::llm {
namespace {

std::string Zoo(const std::string& name) {
  return ULLAGE_SOURCE_DIR "/tests/zoo/" + name;
}

std::unique_ptr<Decoder> Open(const std::string& name, DecoderOptions options = {}) {
  if (options.context == 0) options.context = 48;
  return Decoder::Create(FindModel(Zoo(name), "", false), options);
}

std::vector<int32_t> Ids(int n, int seed) {
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) ids[static_cast<size_t>(i)] = (i * 37 + seed * 11 + 5) % 400;
  return ids;
}

std::vector<float> LogitsAfter(Decoder& d, std::span<const int32_t> ids) {
  d.Feed(ids);
  const auto row = d.logits();
  return {row.begin(), row.end()};
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::fabs(double{a[i]} - double{b[i]}));
  return a.size() == b.size() ? most : 1e30;
}

/// Different exporters' graphs: genai with shared buffers, windows, MultiHeadAttention, decomposed attention.
class DecoderTest : public ::testing::TestWithParam<const char*> {};

TEST_P(DecoderTest, ManyChunksAreOneChunk) {
  const auto ids = Ids(23, 1);
  DecoderOptions whole;
  whole.chunk = 32;
  const auto want = LogitsAfter(*Open(GetParam(), whole), ids);
  for (int64_t chunk : {1, 5}) {
    DecoderOptions o;
    o.chunk = chunk;
    EXPECT_LT(Distance(LogitsAfter(*Open(GetParam(), o), ids), want), 2e-3) << "chunk " << chunk;
  }
}

TEST_P(DecoderTest, RewindingForgetsTheRest) {
  const auto d = Open(GetParam());
  const auto ids = Ids(20, 2), other = Ids(6, 9);
  std::vector<int32_t> joined(ids.begin(), ids.begin() + 12);
  joined.insert(joined.end(), other.begin(), other.end());
  const auto want = LogitsAfter(*Open(GetParam()), joined);

  d->Feed(ids);
  const int64_t kept = d->Rewind(12);
  EXPECT_TRUE(kept == 12 || kept == 0);
  EXPECT_EQ(static_cast<int64_t>(d->tokens().size()), kept);
  EXPECT_LT(Distance(LogitsAfter(*d, std::span(joined).subspan(static_cast<size_t>(kept))), want), 2e-3);
  EXPECT_EQ(d->tokens(), joined);
}

TEST_P(DecoderTest, ARefusedPromptChangesNothing) {
  const auto d = Open(GetParam());
  const auto ids = Ids(10, 3);
  d->Feed(std::span(ids).first(6));
  for (const auto& bad : {std::vector<int32_t>(100, 1), std::vector<int32_t>{3, -1},
                          std::vector<int32_t>{static_cast<int32_t>(d->vocabulary())}}) {
    EXPECT_THROW(d->Feed(bad), Error);
    EXPECT_EQ(d->tokens().size(), 6u);
  }
  EXPECT_LT(Distance(LogitsAfter(*d, std::span(ids).subspan(6)), LogitsAfter(*Open(GetParam()), ids)), 2e-3);
}

TEST_P(DecoderTest, PlannedIsMeasured) {
  const auto d = Open(GetParam());
  d->Feed(Ids(30, 4));
  for (int32_t id : Ids(8, 5)) d->Feed(std::span(&id, 1));
  EXPECT_EQ(d->session().allocations_during_run(), 0);
}

TEST_P(DecoderTest, CachesOfOtherTypes) {
  const auto ids = Ids(23, 7);
  DecoderOptions o;
  o.options.Set("session.kv_type", "float32");
  const auto exact = Open(GetParam(), o);
  const auto want = LogitsAfter(*exact, ids);
  const double range = Distance(want, std::vector<float>(want.size()));
  for (const auto& [name, tolerance, share] :
       {std::tuple{"float16", 2e-3, 0.5}, std::tuple{"bfloat16", 2e-2, 0.5}, std::tuple{"int8", 3e-2, 0.35},
        std::tuple{"int8_head", 3e-2, 0.35}}) {
    o.options.Set("session.kv_type", name);
    o.chunk = 20;  // several rows, then one at a time
    const auto d = Open(GetParam(), o);
    LogitsAfter(*d, std::span(ids).first(20));
    for (size_t i = 20; i + 1 < ids.size(); ++i) d->Feed(std::span(ids).subspan(i, 1));
    const auto got = LogitsAfter(*d, std::span(ids).last(1));
    EXPECT_LT(Distance(got, want), tolerance * range) << name;
    EXPECT_LE(static_cast<double>(d->session().kv_bytes()),
              share * static_cast<double>(exact->session().kv_bytes()))
        << name;
    EXPECT_EQ(d->session().allocations_during_run(), 0);
    // Rows of another width go back like others.
    const int64_t kept = d->Rewind(15);
    EXPECT_LT(Distance(LogitsAfter(*d, std::span(ids).subspan(static_cast<size_t>(kept))), want),
              tolerance * range)
        << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Exporters, DecoderTest,
                         ::testing::Values("genai-llama-int4-cpu", "genai-gemma3-fp32-cpu",
                                           "genai-phi3longrope-int4-cpu", "genai-qwen2-fp16-cuda",
                                           "genai-llama128-int4-qdq", "optimum-llama",
                                           "ortq-llama-q4-gather"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Decoder, WindowedCachesGoBackAsFarAsTheyReach) {
  // Windows of 8 tokens: 16 are kept at least, of at most 24.
  for (const char* type : {"float32", "int8"}) {
    DecoderOptions o;
    o.options.Set("session.kv_type", type);
    const auto ids = Ids(40, 8), other = Ids(5, 3);
    for (int64_t have : {20, 24, 25, 33, 34, 40})
      for (int64_t back : {1, 5, 8, 9, 15, 19}) {
        const auto d = Open("genai-gemma3-fp32-cpu", o);
        d->Feed(std::span(ids).first(static_cast<size_t>(have)));
        const int64_t kept = d->Rewind(have - back);
        if (back <= 8 || have <= 24) {
          EXPECT_EQ(kept, have - back) << have << " tokens";
        }
        std::vector<int32_t> joined(ids.begin(), ids.begin() + (have - back));
        joined.insert(joined.end(), other.begin(), other.end());
        const auto got = LogitsAfter(*d, std::span(joined).subspan(static_cast<size_t>(kept)));
        EXPECT_LT(Distance(got, LogitsAfter(*Open("genai-gemma3-fp32-cpu", o), joined)), 2e-3)
            << have << " tokens, back by " << back << ", " << type;
      }
  }
}

TEST(Decoder, UnknownCacheTypesAreRefused) {
  DecoderOptions o;
  o.options.Set("session.kv_type", "int3");
  EXPECT_THROW(Open("genai-llama-int4-cpu", o), Error);
}

TEST(Decoder, AContextBeyondTheModelIsRefusedWithBothNumbers) {
  DecoderOptions o;
  o.context = 100000;
  try {
    Open("genai-llama-int4-cpu", o);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kUsage);
    EXPECT_NE(e.message().find("100000"), std::string::npos) << e.message();
    EXPECT_NE(e.message().find("256"), std::string::npos) << e.message();
  }
}

TEST(Decoder, ALimitThatIsTooSmallIsRefusedBeforeAnythingIsLoaded) {
  DecoderOptions o;
  o.cpu_limit = 1000;
  try {
    Open("genai-llama-int4-cpu", o);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kDoesNotFit);
  }
}

TEST(Decoder, AllLogitsEndWithTheLastOnes) {
  DecoderOptions o;
  o.all_logits = true;
  const auto d = Open("genai-llama-int4-cpu", o);
  const auto ids = Ids(7, 6);
  const auto last = LogitsAfter(*d, ids);
  ASSERT_EQ(d->logit_rows(), 7);
  std::vector<float> all(static_cast<size_t>(7 * d->vocabulary()));
  d->CopyLogits(all.data());
  EXPECT_EQ(std::vector<float>(all.end() - d->vocabulary(), all.end()), last);
  const auto first = LogitsAfter(*Open("genai-llama-int4-cpu"), std::span(ids).first(1));
  all.resize(static_cast<size_t>(d->vocabulary()));
  EXPECT_LT(Distance(all, first), 2e-3);
}

}  // namespace
}  // namespace ullage::llm
