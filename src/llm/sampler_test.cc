#include "llm/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace ullage::llm {
namespace {

// Probabilities that are exact in binary, in an order that is not sorted.
const std::vector<float> kShares = {1 / 16.f, 1 / 2.f, 1 / 32.f, 1 / 4.f, 1 / 8.f, 1 / 32.f};

std::vector<float> Logits(const std::vector<float>& shares) {
  std::vector<float> out;
  for (float p : shares) out.push_back(std::log(p) + 3.0f);  // logits are known up to a constant
  return out;
}

/// How often each token comes in `draws` draws.
std::map<int32_t, double> Frequencies(const SamplingOptions& options, const std::vector<float>& logits,
                                      int draws, std::vector<int32_t> history = {}) {
  Sampler sampler(options, static_cast<int64_t>(logits.size()));
  std::map<int32_t, double> counts;
  for (int i = 0; i < draws; ++i) counts[sampler.Sample(logits, history)] += 1.0 / draws;
  return counts;
}

/// Expects these tokens, with probabilities in proportion to `weights`, and no others.
void ExpectDistribution(const std::map<int32_t, double>& got, const std::map<int32_t, double>& weights) {
  double sum = 0;
  for (const auto& [id, w] : weights) sum += w;
  for (const auto& [id, share] : got) EXPECT_TRUE(weights.contains(id)) << "token " << id << " at " << share;
  for (const auto& [id, w] : weights) {
    const auto it = got.find(id);
    EXPECT_NEAR(it == got.end() ? 0 : it->second, w / sum, 0.015) << "token " << id;
  }
}

constexpr int kDraws = 20000;  // standard deviation of a share: at most 0.0036

TEST(Sampler, GreedyTakesTheLargestAndTheFirstOfEquals) {
  EXPECT_EQ(Sampler({}, 4).Sample(std::vector<float>{1, 5, 2, 5}, {}), 1);
  SamplingOptions one;
  one.temperature = 2;
  one.top_k = 1;
  EXPECT_EQ(Sampler(one, 3).Sample(std::vector<float>{-3, -1, -2}, {}), 1);
}

TEST(Sampler, DrawsInProportionToTheSoftmax) {
  SamplingOptions o;
  o.temperature = 1;
  ExpectDistribution(Frequencies(o, Logits(kShares), kDraws),
                     {{0, 2}, {1, 16}, {2, 1}, {3, 8}, {4, 4}, {5, 1}});
}

TEST(Sampler, TemperatureIsAPowerOfTheProbabilities) {
  SamplingOptions o;
  o.temperature = 0.5f;  // squares
  ExpectDistribution(Frequencies(o, Logits(kShares), kDraws),
                     {{0, 4}, {1, 256}, {2, 1}, {3, 64}, {4, 16}, {5, 1}});
}

TEST(Sampler, TopKKeepsTheLargest) {
  SamplingOptions o;
  o.temperature = 1;
  o.top_k = 3;
  ExpectDistribution(Frequencies(o, Logits(kShares), kDraws), {{1, 4}, {3, 2}, {4, 1}});
  o.top_k = 100;  // more than there are
  EXPECT_EQ(Frequencies(o, Logits(kShares), 2000).size(), 6u);
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesTheSum) {
  SamplingOptions o;
  o.temperature = 1;
  o.top_p = 0.7f;  // 1/2 does not reach it, 1/2 + 1/4 does
  ExpectDistribution(Frequencies(o, Logits(kShares), kDraws), {{1, 2}, {3, 1}});
  o.top_p = 0.01f;  // never less than one
  ExpectDistribution(Frequencies(o, Logits(kShares), 100), {{1, 1}});
}

TEST(Sampler, TopPSeesWhatTopKAndTemperatureLeft) {
  SamplingOptions o;
  o.temperature = 1;
  o.top_k = 2;     // 2/3 and 1/3 after renormalisation
  o.top_p = 0.6f;  // reached by the first alone; of the whole distribution it would need both
  ExpectDistribution(Frequencies(o, Logits(kShares), 500), {{1, 1}});
}

TEST(Sampler, MinPIsAShareOfTheLargest) {
  SamplingOptions o;
  o.temperature = 1;
  o.min_p = 0.2f;  // 0.1 and more
  ExpectDistribution(Frequencies(o, Logits(kShares), kDraws), {{1, 4}, {3, 2}, {4, 1}});
  o.min_p = 1;
  ExpectDistribution(Frequencies(o, Logits(kShares), 100), {{1, 1}});
}

TEST(Sampler, ThePenaltyCountsEachTokenOnceAndHasNoMemory) {
  SamplingOptions o;
  o.repetition_penalty = 2;
  Sampler sampler(o, 3);
  const std::vector<float> logits = {3, 4, 1};
  // 4 / 2 < 3: the second token is passed over however often it stood there.
  EXPECT_EQ(sampler.Sample(logits, std::vector<int32_t>{1, 1, 1, 1}), 0);
  EXPECT_EQ(sampler.Sample(logits, {}), 1);
  // Negative logits become smaller.
  EXPECT_EQ(sampler.Sample(std::vector<float>{-2, -1.5, -9}, std::vector<int32_t>{1}), 0);
}

TEST(Sampler, TheSeedDecides) {
  SamplingOptions o;
  o.temperature = 1.5f;
  const auto logits = Logits(kShares);
  const auto draw = [&](uint64_t seed) {
    o.seed = seed;
    Sampler s(o, 6);
    std::vector<int32_t> ids;
    for (int i = 0; i < 64; ++i) ids.push_back(s.Sample(logits, {}));
    return ids;
  };
  EXPECT_EQ(draw(7), draw(7));
  EXPECT_NE(draw(7), draw(8));
}

TEST(Sampler, HiddenTokensAndLargeLogitsDoNotSpoilTheSum) {
  SamplingOptions o;
  o.temperature = 1;
  const float inf = std::numeric_limits<float>::infinity();
  ExpectDistribution(Frequencies(o, {-inf, 3e30f, 3e30f, -3e38f}, kDraws), {{1, 1}, {2, 1}});
}

TEST(Sampler, LargeVocabulariesAreNotSorted) {
  const int64_t n = 262144;
  std::vector<float> logits(static_cast<size_t>(n), -20.0f);
  logits[200000] = 1;
  logits[7] = 1;
  SamplingOptions o;
  o.temperature = 0.25f;
  const auto got = Frequencies(o, logits, 200);
  EXPECT_EQ(got.size(), 2u);
  EXPECT_LE(Sampler::Bytes(n), n * 16);
}

}  // namespace
}  // namespace ullage::llm
