#include "llm/tokenizer/token_trie.h"

#include <algorithm>

namespace ullage::llm {

TokenTrie::TokenTrie(std::vector<std::pair<std::string, int32_t>> entries) {
  std::erase_if(entries, [](const auto& e) { return e.first.empty(); });
  if (entries.empty()) return;
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  entries.erase(
      std::unique(entries.begin(), entries.end(), [](auto& a, auto& b) { return a.first == b.first; }),
      entries.end());
  // Breadth first: each work item is a node and the entries that share its path.
  struct Item {
    uint32_t node;
    size_t begin, end, depth;
  };
  std::vector<Item> queue{{0, 0, entries.size(), 0}};
  nodes_.emplace_back();
  for (size_t q = 0; q < queue.size(); ++q) {
    const Item item = queue[q];
    size_t i = item.begin;
    if (entries[i].first.size() == item.depth) nodes_[item.node].value = entries[i++].second;
    nodes_[item.node].children_begin = static_cast<uint32_t>(edges_.size());
    while (i < item.end) {
      const auto byte = static_cast<unsigned char>(entries[i].first[item.depth]);
      size_t end = i + 1;
      while (end < item.end && static_cast<unsigned char>(entries[end].first[item.depth]) == byte) ++end;
      const auto child = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
      edges_.push_back({byte, child});
      queue.push_back({child, i, end, item.depth + 1});
      i = end;
    }
    nodes_[item.node].children_end = static_cast<uint32_t>(edges_.size());
  }
  for (uint32_t e = nodes_[0].children_begin; e < nodes_[0].children_end; ++e)
    first_[edges_[e].byte] = edges_[e].node;
}

uint32_t TokenTrie::Child(uint32_t node, unsigned char byte) const {
  uint32_t low = nodes_[node].children_begin, high = nodes_[node].children_end;
  while (low < high) {
    const uint32_t mid = (low + high) / 2;
    if (edges_[mid].byte == byte) return edges_[mid].node;
    if (edges_[mid].byte < byte) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return 0;
}

}  // namespace ullage::llm
