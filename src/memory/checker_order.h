/// The part of the checker that follows streams and events. Internal to the checker.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "memory/checker.h"

namespace ullage::memory::internal {

/// A buffer as the judge sees it: views show the life and the bytes of their owner.
struct OrderedBuffer {
  int32_t owner = kNoBuffer;  ///< kNoBuffer: holds no bytes at any step
  int64_t first = 0;
  int64_t last = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

struct OrderFault {
  FaultKind kind = FaultKind::kUnordered;
  int32_t a = kNoBuffer;
  int32_t b = kNoBuffer;
  std::string message;
};

/// Uses outside lives, uses of one buffer that must be ordered and are not (one of them writes), and bytes
/// that a buffer takes while a stream may still use what lay there before. One entry per buffer of the
/// problem.
std::vector<OrderFault> FindOrderFaults(std::span<const OrderedBuffer> buffers, const StepOrder& order,
                                        size_t max_faults);

}  // namespace ullage::memory::internal
