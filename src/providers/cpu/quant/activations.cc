#include "providers/cpu/quant/activations.h"

#include <algorithm>

#include "core/checked.h"
#include "core/cpu_features.h"
#include "providers/cpu/quant/kernels.h"

namespace ullage::quant {
namespace {

constexpr int64_t kElementsPerTask = 16384;

}  // namespace

size_t ActivationBytes(Activations form, int64_t m, int64_t k) {
  const size_t records =
      CheckedMul(static_cast<size_t>(m), static_cast<size_t>(CeilDiv(k, kBlock)), "quantised activations");
  return CheckedMul(records, RecordBytes(form), "quantised activations");
}

void QuantizeActivationRows(Activations form, const float* a, int64_t lda, int64_t m, int64_t k,
                            int64_t first, int64_t last, void* out) {
  const auto quantize = KernelsFor(ActiveIsa()).quantize;
  const int64_t record = static_cast<int64_t>(RecordBytes(form)), blocks = CeilDiv(k, kBlock);
  uint8_t* base = static_cast<uint8_t*>(out);
  for (int64_t b = 0; b < blocks; ++b)
    for (int64_t t = first; t < last; ++t)
      quantize(form, a + t * lda + b * kBlock, std::min(kBlock, k - b * kBlock), base + (b * m + t) * record);
}

void QuantizeActivations(Activations form, const float* a, int64_t lda, int64_t m, int64_t k, void* out,
                         ThreadTeam& team) {
  const int64_t rows = std::clamp<int64_t>(kElementsPerTask / std::max<int64_t>(k, 1), 1, 8);
  team.Run(CeilDiv(m, rows), [&](int64_t task, int) {
    QuantizeActivationRows(form, a, lda, m, k, task * rows, std::min(m, (task + 1) * rows), out);
  });
}

}  // namespace ullage::quant
