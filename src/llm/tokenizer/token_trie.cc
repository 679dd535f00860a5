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
    size_t begin, end, depth;
  };
  std::vector<Item> queue{{0, entries.size(), 0}};
  for (size_t q = 0; q < queue.size(); ++q) {
    const Item item = queue[q];
    size_t i = item.begin;
    values_.push_back(entries[i].first.size() == item.depth ? entries[i++].second : -1);
    children_.push_back(static_cast<uint32_t>(queue.size()));
    while (i < item.end) {
      const auto byte = static_cast<unsigned char>(entries[i].first[item.depth]);
      size_t end = i + 1;
      while (end < item.end && static_cast<unsigned char>(entries[end].first[item.depth]) == byte) ++end;
      bytes_.push_back(byte);
      queue.push_back({i, end, item.depth + 1});
      i = end;
    }
  }
  children_.push_back(static_cast<uint32_t>(queue.size()));
  for (uint32_t child = children_[0]; child < children_[1]; ++child) first_[bytes_[child - 1]] = child;
  children_.shrink_to_fit();
  values_.shrink_to_fit();
  bytes_.shrink_to_fit();
}

uint32_t TokenTrie::Child(uint32_t node, unsigned char byte) const {
  uint32_t low = children_[node], high = children_[node + 1];
  while (low < high) {
    const uint32_t mid = (low + high) / 2;
    if (bytes_[mid - 1] == byte) return mid;
    if (bytes_[mid - 1] < byte) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return 0;
}

}  // namespace ullage::llm
