/// Pieces of text that decoding works with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ullage::llm {

/// Turns bytes that arrive bit by bit into valid UTF-8, the same as ToValidUtf8 of all of them. Holds at most
/// three bytes.
class Utf8Stream {
 public:
  void Push(std::string_view bytes, std::string& out);
  void Finish(std::string& out);

 private:
  std::string pending_;
};

/// Replaces a literal in text that arrives bit by bit; leftmost first, not overlapping. An empty literal is
/// nowhere. Holds less than the literal's length.
class LiteralReplacer {
 public:
  LiteralReplacer(std::string literal, std::string replacement);
  void Push(std::string_view text, std::string& out);
  /// Gives out what was held and begins anew.
  void Finish(std::string& out);

 private:
  std::string literal_, replacement_;
  std::vector<size_t> failure_;  // Knuth-Morris-Pratt
  size_t matched_ = 0;
};

void ReplaceAll(std::string& text, std::string_view from, std::string_view to);
/// Takes out the spaces before punctuation and English contractions, as the WordPiece decoder does.
void CleanUpSpaces(std::string& text);
/// Throws Error(kInvalidInput) when one token decodes to more than 16 MiB: a chain of replacements could
/// double it.
void CheckDecodedSize(size_t bytes);

}  // namespace ullage::llm
