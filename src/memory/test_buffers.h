/// Buffers and problems that the tests of the packer and of its checker share.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "memory/checker.h"
#include "memory/packing.h"

namespace ullage::memory {

inline Buffer MakeBuffer(int64_t id, int64_t size, int64_t first, int64_t last, int64_t alignment = 1) {
  Buffer b;
  b.id = id;
  b.size = size;
  b.first = first;
  b.last = last;
  b.alignment = alignment;
  return b;
}

/// Both have bytes and there is a step at which both are alive.
inline bool Meet(const Buffer& a, const Buffer& b) {
  return a.first < a.last && b.first < b.last && a.size > 0 && b.size > 0 && a.first < b.last &&
         b.first < a.last;
}

/// `n` buffers with lives within [0, 1.5 * steps), some of them empty.
inline std::vector<Buffer> RandomProblem(std::mt19937& random, size_t n, int64_t steps, int64_t max_size,
                                         bool aligned) {
  std::vector<Buffer> buffers;
  for (size_t i = 0; i < n; ++i) {
    const int64_t first = random() % steps;
    const int64_t size = random() % max_size;
    const int64_t last = first + random() % (steps / 2 + 1);
    buffers.push_back(
        MakeBuffer(static_cast<int64_t>(i), size, first, last, aligned ? 1 << (random() % 4) : 1));
  }
  return buffers;
}

/// Packs; throws unless the checker finds the result sound.
inline Packing PackSound(const std::vector<Buffer>& buffers, const PackLimits& limits = {}) {
  Packing packing = Pack(buffers, limits);
  RequireSound(buffers, packing);
  return packing;
}

}  // namespace ullage::memory
