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

  bool empty() const { return values_.empty(); }
  size_t memory_bytes() const {
    return children_.capacity() * sizeof(uint32_t) + values_.capacity() * sizeof(int32_t) + bytes_.capacity();
  }
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
      if (values_[node] >= 0) on_match(length, values_[node]);
      if (pos + length == text.size()) return;
      node = Child(node, static_cast<unsigned char>(text[pos + length]));
    }
  }

 private:
  // Nodes in the order of their depth, 0 is the root. Node n's children are children_[n] to children_[n + 1]
  // - 1, so that byte b - 1 leads to node b.
  uint32_t Child(uint32_t node, unsigned char byte) const;

  std::vector<uint32_t> children_;
  std::vector<int32_t> values_;
  std::vector<unsigned char> bytes_;  // sorted among the children of a node
  std::array<uint32_t, 256> first_{};
};

}  // namespace ullage::llm
