#include "llm/tokenizer/token_table.h"

#include "llm/tokenizer/added_tokens.h"
#include "llm/tokenizer/test_support.h"
#include "llm/tokenizer/token_trie.h"

namespace ullage::llm {
namespace {

TEST(TokenTable, FindsBothWays) {
  TokenTable table;
  for (int i = 0; i < 5000; ++i) table.Add("token number " + std::to_string(i), i * 3);
  table.Add("", 1);
  table.Freeze();
  EXPECT_EQ(table.size(), 5001u);
  EXPECT_EQ(table.id_limit(), 4999u * 3 + 1);
  EXPECT_EQ(table.max_bytes(), 17u);
  for (int i = 0; i < 5000; ++i) {
    const std::string text = "token number " + std::to_string(i);
    EXPECT_EQ(table.Find(text), i * 3);
    EXPECT_EQ(table.TextOf(i * 3), text);
  }
  EXPECT_EQ(table.Find(""), 1);
  EXPECT_EQ(table.Find("token number 5000"), kNoToken);
  EXPECT_EQ(table.TextOf(2), std::nullopt);
  EXPECT_EQ(table.TextOf(-1), std::nullopt);
  EXPECT_EQ(table.TextOf(1 << 30), std::nullopt);
  EXPECT_EQ(TokenTable().Find("a"), kNoToken);
}

TEST(TokenTable, RefusesBadIds) {
  TokenTable table;
  table.Add("a", 0);
  ExpectError(Code::kInvalidModel, "'a' occurs twice", [&] { table.Add("a", 1); });
  ExpectError(Code::kInvalidModel, "out of range", [&] { table.Add("b", -1); });
  ExpectError(Code::kInvalidModel, "out of range", [&] { table.Add("b", 4294967296); });
  table.Add("a", 1, TokenTable::Duplicate::kKeepFirst);
  table.Freeze();
  EXPECT_EQ(table.Find("a"), 0);
  EXPECT_EQ(table.TextOf(1), "a");
  TokenTable same;
  same.Add("a", 0);
  same.Add("b", 0);
  ExpectError(Code::kInvalidModel, "same id", [&] { same.Freeze(); });
  TokenTable sparse;
  sparse.Add("a", 2000000000);
  ExpectError(Code::kInvalidModel, "out of range", [&] { sparse.Freeze(); });
}

TEST(TokenTrie, LongestAndAll) {
  const TokenTrie trie({{"a", 1}, {"abc", 2}, {"abd", 3}, {"b", 4}, {"a", 5}, {"", 6}, {"é", 7}});
  EXPECT_EQ(trie.Longest("abcd", 0).value, 2);
  EXPECT_EQ(trie.Longest("abcd", 0).length, 3u);
  EXPECT_EQ(trie.Longest("abx", 0).value, 1);
  EXPECT_EQ(trie.Longest("xé", 1).value, 7);
  EXPECT_EQ(trie.Longest("x", 0).length, 0u);
  EXPECT_EQ(trie.Longest("x", 5).length, 0u);
  std::string seen;
  trie.Walk("abd", 0, [&](size_t length, int32_t value) {
    seen += std::to_string(length) + ":" + std::to_string(value) + " ";
  });
  EXPECT_EQ(seen, "1:1 3:3 ");
  EXPECT_TRUE(TokenTrie().empty());
  EXPECT_EQ(TokenTrie().Longest("a", 0).length, 0u);
}

std::string Sections(const std::vector<AddedToken>& tokens, std::string_view text,
                     bool parse_special = true) {
  std::vector<std::string> patterns;
  for (const AddedToken& t : tokens) patterns.push_back(t.content);
  std::vector<TextSection> sections;
  AddedTokenFinder(tokens, patterns).Split(text, parse_special, sections);
  std::string out;
  for (const TextSection& s : sections) {
    out += s.id == kNoToken ? "[" + std::string(text.substr(s.begin, s.end - s.begin)) + "]"
                            : std::to_string(s.id);
  }
  return out;
}

AddedToken Token(std::string content, TokenId id) {
  AddedToken token;
  token.content = std::move(content);
  token.id = id;
  return token;
}

TEST(AddedTokens, LeftmostLongest) {
  const std::vector<AddedToken> tokens{Token("<s>", 1), Token("<s>x", 2), Token("s>", 3)};
  EXPECT_EQ(Sections(tokens, "a<s>xb<s><s"), "[a]2[b]1[<s]");
  EXPECT_EQ(Sections(tokens, ""), "");
  EXPECT_EQ(Sections({}, "abc"), "[abc]");
}

TEST(AddedTokens, Flags) {
  AddedToken strip = Token("<m>", 1), word = Token("the", 2), special = Token("<s>", 3);
  strip.lstrip = strip.rstrip = true;
  word.single_word = true;
  special.special = true;
  EXPECT_EQ(Sections({strip}, "a \u2003<m>\n b"), "[a]1[b]");
  EXPECT_EQ(Sections({strip}, "<m>  <m>"), "11");
  EXPECT_EQ(Sections({word}, "the them other the"), "2[ them other ]2");
  EXPECT_EQ(Sections({word}, "éthe ²the the\u200D"), "[éthe ²]2[ the\u200D]");
  EXPECT_EQ(Sections({special}, "a<s>"), "[a]3");
  EXPECT_EQ(Sections({special}, "a<s>", false), "[a<s>]");
}

}  // namespace
}  // namespace ullage::llm
