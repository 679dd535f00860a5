#include "llm/tokenizer/added_tokens.h"

#include <utf8proc.h>

#include <algorithm>

#include "llm/tokenizer/regex.h"
#include "llm/tokenizer/unicode.h"

namespace ullage::llm {
namespace {

bool IsWordCharacter(char32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  if (c == 0xB2 || c == 0xB3 || c == 0xB9 || (c >= 0xBC && c <= 0xBE)) return false;
  static const Regex kWord = Regex::Compile("\\A[\\w\\u200C\\u200D]");
  std::string text;
  AppendUtf8(text, c);
  size_t begin, end;
  return Regex::Matcher(kWord, text).Next(begin, end);
}

bool WordBefore(std::string_view text, size_t pos) {
  if (pos == 0) return false;
  size_t at = PreviousBoundary(text, pos);
  return IsWordCharacter(NextCodePoint(text, at));
}

bool WordAfter(std::string_view text, size_t pos) {
  return pos < text.size() && IsWordCharacter(NextCodePoint(text, pos));
}

size_t SpaceBefore(std::string_view text, size_t pos, size_t least) {
  while (pos > least) {
    const size_t before = PreviousBoundary(text, pos);
    size_t at = before;
    if (!IsWhiteSpace(NextCodePoint(text, at))) break;
    pos = before;
  }
  return pos;
}

size_t SpaceAfter(std::string_view text, size_t pos) {
  while (pos < text.size()) {
    size_t next = pos;
    if (!IsWhiteSpace(NextCodePoint(text, next))) break;
    pos = next;
  }
  return pos;
}

}  // namespace

size_t MemoryBytes(const std::vector<AddedToken>& tokens) {
  size_t bytes = tokens.capacity() * sizeof(AddedToken);
  for (const AddedToken& token : tokens)
    if (token.content.capacity() >= sizeof(std::string) / 2) bytes += token.content.capacity();
  return bytes;
}

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens, const std::vector<std::string>& patterns)
    : tokens_(std::move(tokens)) {
  std::vector<std::pair<std::string, int32_t>> entries;
  for (size_t i = 0; i < patterns.size(); ++i) entries.emplace_back(patterns[i], static_cast<int32_t>(i));
  trie_ = TokenTrie(std::move(entries));
}

size_t AddedTokenFinder::memory_bytes() const {
  return MemoryBytes(tokens_) + trie_.memory_bytes();
}

void AddedTokenFinder::Split(std::string_view text, bool parse_special, std::vector<TextSection>& out) const {
  size_t done = 0;
  for (size_t pos = 0; pos < text.size() && !trie_.empty();) {
    const TokenTrie::Match match = trie_.CanStart(text[pos]) ? trie_.Longest(text, pos) : TokenTrie::Match();
    if (match.length == 0) {
      ++pos;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(match.value)];
    size_t begin = pos, end = pos + match.length;
    pos = end;
    if (token.special && !parse_special) continue;
    if (token.single_word && (WordBefore(text, begin) || WordAfter(text, end))) continue;
    if (token.lstrip && begin > done) begin = SpaceBefore(text, begin, done);
    if (token.rstrip) end = SpaceAfter(text, end);
    if (done < begin) out.push_back({kNoToken, done, begin});
    out.push_back({token.id, begin, end});
    done = end;
  }
  if (done < text.size()) out.push_back({kNoToken, done, text.size()});
}

}  // namespace ullage::llm
