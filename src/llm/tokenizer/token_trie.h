/// Longest match of many strings at one place of a text.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ullage::llm {

/// A trie over bytes. Immutable once built, thread-safe.
class TokenTrie {
 public:
  TokenTrie() = default;
  /// Empty strings are left out; of equal strings the first counts.
  explicit TokenTrie(std::vector<std::pair<std::string, int32_t>> entries);

  bool empty() const { return nodes_.empty(); }
  bool CanStart(char c) const { return !empty() && first_[static_cast<unsigned char>(c)] != 0; }
  struct Match {
    size_t length = 0;  ///< 0 if nothing matches
    int32_t value = -1;
  };
  Match Longest(std::string_view text, size_t pos) const {
    Match best;
    Walk(text, pos, [&](size_t length, int32_t value) { best = {length, value}; });
    return best;
  }
  /// Calls on_match(length, value) for every entry that text has at pos, shortest first.
  template <class Fn>
  void Walk(std::string_view text, size_t pos, const Fn& on_match) const {
    if (pos >= text.size() || empty()) return;
    uint32_t node = first_[static_cast<unsigned char>(text[pos])];
    for (size_t length = 1; node != 0; ++length) {
      if (nodes_[node].value >= 0) on_match(length, nodes_[node].value);
      if (pos + length == text.size()) return;
      node = Child(node, static_cast<unsigned char>(text[pos + length]));
    }
  }

 private:
  struct Node {
    uint32_t children_begin = 0, children_end = 0;  // in edges_, sorted by byte
    int32_t value = -1;
  };
  struct Edge {
    unsigned char byte;
    uint32_t node;
  };
  uint32_t Child(uint32_t node, unsigned char byte) const;

  std::vector<Node> nodes_;  // 0 is the root
  std::vector<Edge> edges_;
  std::array<uint32_t, 256> first_{};
};

}  // namespace ullage::llm
