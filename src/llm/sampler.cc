#include "llm/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "providers/cpu/dense/sampling.h"

namespace ullage::llm {

Sampler::Sampler(const SamplingOptions& options, int64_t vocabulary)
    : options_(options), random_(options.seed) {
  candidates_ = std::min(vocabulary, options.top_k > 0 ? options.top_k : kMostCandidates);
  adjusted_.resize(static_cast<size_t>(vocabulary));
  seen_.resize(static_cast<size_t>(vocabulary));
  indices_.resize(static_cast<size_t>(candidates_));
  values_.resize(static_cast<size_t>(candidates_));
  scratch_.resize(dense::TopKScratchBytes(vocabulary, candidates_) + dense::kScratchAlignment);
}

int64_t Sampler::Bytes(int64_t vocabulary) {
  const int64_t k = std::min(vocabulary, kMostCandidates);
  return vocabulary * 5 + k * 12 +
         static_cast<int64_t>(dense::TopKScratchBytes(vocabulary, k) + dense::kScratchAlignment);
}

int32_t Sampler::Sample(std::span<const float> logits, std::span<const int32_t> history) {
  const auto n = static_cast<int64_t>(logits.size());
  if (options_.repetition_penalty != 1.0f) {
    std::memcpy(adjusted_.data(), logits.data(), logits.size_bytes());
    for (int32_t id : history) {
      const auto i = static_cast<size_t>(id);
      if (seen_[i]) continue;
      seen_[i] = 1;
      adjusted_[i] = adjusted_[i] < 0 ? adjusted_[i] * options_.repetition_penalty
                                      : adjusted_[i] / options_.repetition_penalty;
    }
    for (int32_t id : history) seen_[static_cast<size_t>(id)] = 0;
    logits = adjusted_;
  }
  const dense::ConstArray array{logits.data(), DType::kFloat};
  if (options_.temperature <= 0 || options_.top_k == 1) return static_cast<int32_t>(dense::ArgMax(array, n));

  void* scratch = scratch_.data();
  size_t space = scratch_.size();
  std::align(dense::kScratchAlignment, 1, scratch, space);
  int64_t count = dense::TopK(array, n, candidates_, indices_.data(), values_.data(), scratch);
  // Probabilities of what was kept; the largest comes first.
  const float top = values_[0];
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    float& v = values_[static_cast<size_t>(i)];
    v = std::exp((v - top) / options_.temperature);
    sum += v;
  }
  if (options_.top_p > 0 && options_.top_p < 1) {
    const double wanted = sum * static_cast<double>(options_.top_p);
    double reached = 0;
    for (int64_t i = 0; i < count; ++i) {
      reached += values_[static_cast<size_t>(i)];
      if (reached >= wanted) {
        count = i + 1;
        sum = reached;
        break;
      }
    }
  }
  if (options_.min_p > 0) {
    sum = 0;
    int64_t kept = 0;
    while (kept < count && (kept == 0 || values_[static_cast<size_t>(kept)] >= options_.min_p * values_[0]))
      sum += values_[static_cast<size_t>(kept++)];
    count = kept;
  }
  const double draw = static_cast<double>(random_() >> 11) * 0x1p-53 * sum;
  double reached = 0;
  for (int64_t i = 0; i < count; ++i) {
    reached += values_[static_cast<size_t>(i)];
    if (draw < reached) return static_cast<int32_t>(indices_[static_cast<size_t>(i)]);
  }
  return static_cast<int32_t>(indices_[static_cast<size_t>(count - 1)]);
}

}  // namespace ullage::llm
