#include "llm/tokenizer/regex.h"

#include "llm/tokenizer/test_support.h"

namespace ullage::llm {
namespace {

/// Matches and gaps, as a split with behaviour "isolated" shows them.
std::vector<std::string> Split(std::string_view pattern, std::string_view text) {
  const Regex regex = Regex::Compile(pattern);
  Regex::Matcher matcher(regex, text);
  std::vector<std::string> out;
  size_t done = 0;
  for (size_t begin, end; matcher.Next(begin, end); done = end) {
    if (begin > done) out.emplace_back(text.substr(done, begin - done));
    if (end > begin) out.emplace_back(text.substr(begin, end - begin));
  }
  if (done < text.size()) out.emplace_back(text.substr(done));
  return out;
}

struct Case {
  const char *pattern, *text;
  std::vector<std::string> parts;
};

// Expected values: tokenizers 0.23.3, pre_tokenizers.Split(Regex(pattern), "isolated").
TEST(Regex, MatchesAsOniguruma) {
  const Case cases[] = {
      {"a{2}+", "aaaaa", {"aaaa", "a"}},
      {"a{,2}", "aaaaa", {"aa", "aa", "a"}},
      {"a{2}?", "aaaaa", {"aa", "aa", "a"}},
      {"a{1,2}?", "aaa", {"a", "a", "a"}},
      {"a{1,3}+b", "aaab", {"aaab"}},
      {"a++ab", "aaab", {"aaab"}},
      {"a?+ab", "ab", {"ab"}},
      {"a**", "aaa", {"aaa"}},
      {"^b", "a\nb", {"a\n", "b"}},
      {"a$", "a\nb", {"a", "\nb"}},
      {"\\Aa", "aaa", {"a", "aa"}},
      {"a\\z", "aa", {"a", "a"}},
      {"a\\Z", "aa\n", {"a", "a", "\n"}},
      {"(?m:a.b)", "a\nb", {"a\nb"}},
      {"(?i)abc", "xABCx", {"x", "ABC", "x"}},
      {"(?i:'s)", "a'ſ", {"a", "'ſ"}},
      {"x(?i)a|b", "xAxbxBb", {"xA", "xb", "xB", "b"}},
      {"[a-z&&[^b]]+", "abc", {"a", "b", "c"}},
      {"[[:alpha:]]+", "1é2", {"1", "é", "2"}},
      {"[[:punct:]]", "$a!", {"$", "a", "!"}},
      {"\\x{e9}|\\u00e9", "é", {"é"}},
      {"\\p{^Lu}", "aB", {"a", "B"}},
      {"\\p{Letter}", "a1", {"a", "1"}},
      {"\\pL+", "ab1", {"ab1"}},
      {"(?<=a)b", "ab", {"a", "b"}},
      {"(?<!a)b", "abcb", {"abc", "b"}},
      {"\\h+", "afg", {"af", "g"}},
      {"x*", "axb", {"a", "x", "b"}},
      {"\\d{1,3}(?=(?:\\d{3})*\\b)", "1234567", {"1", "234", "567"}},
      {"[]a]", "a]", {"a", "]"}},
      {"[\\w-]", "a-", {"a", "-"}},
      {"a{x}", "a{x}", {"a{x}"}},
      {"[^\\S\\r\\n]+", "a \n", {"a", " ", "\n"}},
      {"\\b", "ab cd", {"ab", " ", "cd"}},
      {"\\w+", "a\u200Db e\u0301 _ ‿", {"a", "\u200D", "b", " ", "e\u0301", " ", "_", " ", "‿"}},
      {"\\w", "=²", {"=", "²"}},
      {"[\\w]+|[^\\w]+", "=²", {"=²"}},
      {"\\s+", "a\u180E\u2003\u0085b", {"a\u180E", "\u2003\u0085", "b"}},
      {"\\p{Han}+", "漢字、かな", {"漢字", "、かな"}},
      {"[a[bc]]+", "abcd", {"abc", "d"}},
      {"\\v", "\v\n", {"\v", "\n"}},
      {"\\012", "\n", {"\n"}},
      {"(?#c)a(?x: b # comment\n c)", "abc", {"abc"}},
      {"\\p{S}", "\U0001FAE8x", {"\U0001FAE8", "x"}},  // a symbol of Unicode 15
  };
  for (const Case& c : cases) EXPECT_EQ(Split(c.pattern, c.text), c.parts) << c.pattern << " on " << c.text;
}

TEST(Regex, UntranslatablePatternsAreUnsupported) {
  ExpectError(Code::kUnsupported, "absence", [] { Regex::Compile("(?~ab)"); });
  ExpectError(Code::kUnsupported, "raw byte", [] { Regex::Compile("\\xe9"); });
  ExpectError(Code::kUnsupported, "'Foo'", [] { Regex::Compile("\\p{Foo}"); });
  ExpectError(Code::kUnsupported, "not closed", [] { Regex::Compile("(a"); });
  ExpectError(Code::kUnsupported, "unmatched", [] { Regex::Compile("a)"); });
  ExpectError(Code::kUnsupported, "not closed", [] { Regex::Compile("[a-"); });
  ExpectError(Code::kUnsupported, "[:foo:]", [] { Regex::Compile("[[:foo:]]"); });
  ExpectError(Code::kUnsupported, "end of a range", [] { Regex::Compile("[a-\\d]"); });
  ExpectError(Code::kUnsupported, "repeat", [] { Regex::Compile("*a"); });
  ExpectError(Code::kUnsupported, "(?s", [] { Regex::Compile("(?s:a.b)"); });
  ExpectError(Code::kUnsupported, "nested",
              [] { Regex::Compile(std::string(5000, '(') + std::string(5000, ')')); });
  ExpectError(Code::kUnsupported, "nested", [] { Regex::Compile(std::string(5000, '[')); });
  std::string words;
  for (int i = 0; i < 20000; ++i) words += "\\w";
  ExpectError(Code::kUnsupported, "too long", [&] { Regex::Compile(words); });
  ExpectError(Code::kUnsupported, "too large", [&] { Regex::Compile("[" + words + "]"); });
  ExpectError(Code::kUnsupported, "bytes", [] { Regex::Compile(std::string(1 << 20, 'a')); });
}

TEST(Regex, RunawayPatternsStop) {
  const Regex regex = Regex::Compile("(?:a+)+$");
  const std::string text = std::string(100, 'a') + "b";
  size_t begin, end;
  ExpectError(Code::kInvalidInput, "(?:a+)+$", [&] { Regex::Matcher(regex, text).Next(begin, end); });
}

TEST(Regex, LongRunsNeedNoStack) {
  std::string text;
  for (int i = 0; i < 300000; ++i) text += "é ";
  text += '1';
  const Regex regex = Regex::Compile("(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+");
  size_t begin, end;
  ASSERT_TRUE(Regex::Matcher(regex, text).Next(begin, end));
  EXPECT_EQ(begin, 0u);
  EXPECT_EQ(end, text.size() - 2);
}

}  // namespace
}  // namespace ullage::llm
