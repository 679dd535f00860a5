/// Chooses the next token from logits.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace ullage::llm {

struct SamplingOptions {
  float temperature = 0;  ///< 0: the largest logit (greedy)
  int64_t top_k = 0;      ///< keep the k largest; 0: all
  float top_p = 1;        ///< then the smallest set of largest probabilities with this sum; 0 or 1: all
  float min_p = 0;        ///< then those with at least this share of the largest probability
  float repetition_penalty =
      1;  ///< each distinct token of the history: logit < 0 times it, else divided by it
  uint64_t seed = 0;
};

/// Steps: penalty, top-k, temperature, softmax, top-p, min-p, draw. Greedy ignores all but the penalty. Not
/// thread-safe; Sample() allocates nothing. The vocabulary is never sorted.
class Sampler {
 public:
  /// Most candidates that are kept where top_k is 0: probabilities beyond are too small to be drawn.
  static constexpr int64_t kMostCandidates = 4096;

  Sampler(const SamplingOptions& options, int64_t vocabulary);
  /// Bytes of the buffers of a sampler for that vocabulary: part of the memory plan.
  static int64_t Bytes(int64_t vocabulary);

  /// The next token. `history` is what the penalty looks at: prompt and answer so far.
  int32_t Sample(std::span<const float> logits, std::span<const int32_t> history);
  const SamplingOptions& options() const { return options_; }

 private:
  SamplingOptions options_;
  int64_t candidates_ = 0;
  std::mt19937_64 random_;
  std::vector<float> adjusted_;
  std::vector<uint8_t> seen_;
  std::vector<int64_t> indices_;
  std::vector<float> values_;
  std::vector<std::byte> scratch_;
};

}  // namespace ullage::llm
