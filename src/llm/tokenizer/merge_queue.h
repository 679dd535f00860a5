/// Joins the symbols of a piece, best pair first: the loop that byte pair encodings share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "llm/tokenizer/model.h"

namespace ullage::llm {

/// `rate(i)` sets rank and merged of symbol i for the pair that begins there, with rank kNoRank where it does
/// not merge. The pair with the lowest rank, and of equals the leftmost, is joined until none is left:
/// `join(left, right)` writes the result to `left`. `scratch.symbols` must be linked; a joined right half is
/// no longer reached by `next` and has rank kNoRank. Time: n log n.
template <class Rate, class Join>
void MergeByRank(ModelScratch& scratch, const Rate& rate, const Join& join) {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;  // rank in the upper half, place in the lower
  heap.clear();
  const auto add = [&](int32_t i) {
    rate(i);
    const uint32_t rank = symbols[static_cast<size_t>(i)].rank;
    if (rank == kNoRank) return false;
    heap.push_back((static_cast<uint64_t>(rank) << 32) | static_cast<uint32_t>(i));
    return true;
  };
  for (size_t i = 0; i < symbols.size(); ++i) add(static_cast<int32_t>(i));
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    const uint64_t top = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    const auto at = static_cast<int32_t>(static_cast<uint32_t>(top));
    auto& s = symbols[static_cast<size_t>(at)];
    if (s.rank != top >> 32) continue;  // the pair has changed since
    auto& right = symbols[static_cast<size_t>(s.next)];
    join(s, right);
    s.next = right.next;
    right.rank = kNoRank;
    if (s.next >= 0) symbols[static_cast<size_t>(s.next)].prev = at;
    for (const int32_t i : {at, s.prev})
      if (i >= 0 && add(i)) std::push_heap(heap.begin(), heap.end(), std::greater<>());
  }
}

}  // namespace ullage::llm
