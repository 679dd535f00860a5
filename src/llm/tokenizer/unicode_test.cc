#include "llm/tokenizer/unicode.h"

#include <gtest/gtest.h>

#include "llm/tokenizer/decode_text.h"

namespace ullage::llm {
namespace {

TEST(Utf8, ReplacesMaximalInvalidParts) {
  // The examples of the Unicode standard, section 3.9, "U+FFFD Substitution of Maximal Subparts".
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(ToValidUtf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(ToValidUtf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(ToValidUtf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(ToValidUtf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
  EXPECT_EQ(ToValidUtf8("é日👍\xF0\x9F\x91"), "é日👍" + r);
  EXPECT_TRUE(IsValidUtf8("0123456789é日👍\xF4\x8F\xBF\xBF"));
  EXPECT_FALSE(IsValidUtf8("\xF4\x90\x80\x80"));
  EXPECT_EQ(ValidUtf8Prefix("01234567\xE6\x97"), 8u);
}

TEST(Utf8, StreamEqualsWhole) {
  const std::string text = "a\xC3\xA9\xE6\x97\xA5\xF0\x9F\x91\x8D\xF0\x9F\x41\xFF\xE1\x80\xE2z\xF0\x91\x92";
  for (size_t chunk = 1; chunk <= text.size(); ++chunk) {
    Utf8Stream stream;
    std::string out;
    for (size_t at = 0; at < text.size(); at += chunk) {
      stream.Push(text.substr(at, chunk), out);
      EXPECT_TRUE(IsValidUtf8(out));
    }
    stream.Finish(out);
    EXPECT_EQ(out, ToValidUtf8(text)) << chunk;
  }
}

TEST(Utf8, WalksBothWays) {
  const std::string text = "aé日👍";
  std::vector<char32_t> forward, backward;
  for (size_t pos = 0; pos < text.size();) forward.push_back(NextCodePoint(text, pos));
  for (size_t pos = text.size(); pos > 0;) {
    pos = PreviousBoundary(text, pos);
    size_t at = pos;
    backward.insert(backward.begin(), NextCodePoint(text, at));
  }
  EXPECT_EQ(forward, (std::vector<char32_t>{U'a', U'é', U'日', U'👍'}));
  EXPECT_EQ(backward, forward);
  std::string again;
  for (char32_t c : forward) AppendUtf8(again, c);
  EXPECT_EQ(again, text);
  EXPECT_EQ(CountCodePoints(text), 4u);
}

TEST(Unicode, Properties) {
  EXPECT_TRUE(IsWhiteSpace(0x85));
  EXPECT_TRUE(IsWhiteSpace(0x3000));
  EXPECT_FALSE(IsWhiteSpace(0x180E));
  EXPECT_FALSE(IsWhiteSpace(0x200B));
  EXPECT_TRUE(IsNumeric(U'½'));
  EXPECT_TRUE(IsNumeric(U'Ⅷ'));
  EXPECT_FALSE(IsNumeric(U'五'));
  EXPECT_TRUE(IsPunctuation(U'$'));
  EXPECT_TRUE(IsPunctuation(U'。'));
  EXPECT_FALSE(IsPunctuation(U'€'));
  EXPECT_TRUE(IsMark(0x301));
  EXPECT_TRUE(IsMark(0x903));
  EXPECT_FALSE(IsNonspacingMark(0x903));
  EXPECT_TRUE(IsControl(0x200D));
  EXPECT_FALSE(IsControl(U'\n'));
  std::string lower;
  for (char32_t c : {U'A', U'É', U'Σ', U'İ', U'ǅ', char32_t{0x1C89}}) AppendLowercase(lower, c);
  EXPECT_EQ(lower, "aéσi̇ǆ\u1C8A");
}

// Expected values: Python's unicodedata.normalize.
TEST(NormalForms, KnownTexts) {
  struct Case {
    const char *text, *nfc, *nfd, *nfkc, *nfkd;
  };
  const Case cases[] = {
      {"Ångström", "Ångström", "A\u030Angstro\u0308m", "Ångström", "A\u030Angstro\u0308m"},
      {"A\u030A", "Å", "A\u030A", "Å", "A\u030A"},
      {"ﬁ²", "ﬁ²", "ﬁ²", "fi2", "fi2"},
      {"q\u0307\u0323", "q\u0323\u0307", "q\u0323\u0307", "q\u0323\u0307", "q\u0323\u0307"},
      {"\u1112\u1161\u11AB글", "한글", "\u1112\u1161\u11AB\u1100\u1173\u11AF", "한글",
       "\u1112\u1161\u11AB\u1100\u1173\u11AF"},
      {"\uAC00\u11A7\u0301x\uAC00\u11A8", "\uAC00\u11A7\u0301x\uAC01",
       "\u1100\u1161\u11A7\u0301x\u1100\u1161\u11A8", "\uAC00\u11A7\u0301x\uAC01",
       "\u1100\u1161\u11A7\u0301x\u1100\u1161\u11A8"},
      {"か\u3099", "が", "か\u3099", "が", "か\u3099"},
      {"\u0958", "\u0915\u093C", "\u0915\u093C", "\u0915\u093C", "\u0915\u093C"},
      {"<\u0338 x", "≮ x", "<\u0338 x", "≮ x", "<\u0338 x"},
      {"plain text 漢字 👍", "plain text 漢字 👍", "plain text 漢字 👍", "plain text 漢字 👍",
       "plain text 漢字 👍"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(Normalized(c.text, NormalForm::kNfc), c.nfc) << c.text;
    EXPECT_EQ(Normalized(c.text, NormalForm::kNfd), c.nfd) << c.text;
    EXPECT_EQ(Normalized(c.text, NormalForm::kNfkc), c.nfkc) << c.text;
    EXPECT_EQ(Normalized(c.text, NormalForm::kNfkd), c.nfkd) << c.text;
  }
}

TEST(NormalForms, LongRunsOfMarksAreSorted) {
  std::string text = "a", expected = "a";
  for (int i = 0; i < 20000; ++i) text += "\u0301\u0323";
  const std::string normal = Normalized(text, NormalForm::kNfd);
  ASSERT_EQ(normal.size(), text.size());
  EXPECT_EQ(normal.substr(1, 2), "\u0323");
  EXPECT_EQ(normal.substr(normal.size() - 2), "\u0301");
}

TEST(LiteralReplacer, EqualsReplaceAllForEveryCut) {
  const std::string text = "aabaabaaabaaab▁▁x▁";
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"aab", "<>"}, {"aa", "b"}, {"▁", " "}, {"baa", ""}, {"zz", "y"}, {"", "q"}}) {
    std::string whole = text;
    ReplaceAll(whole, from, to);
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      LiteralReplacer replacer(from, to);
      std::string out;
      replacer.Push(text.substr(0, cut), out);
      replacer.Push(text.substr(cut), out);
      replacer.Finish(out);
      EXPECT_EQ(out, whole) << from << " " << cut;
    }
  }
}

}  // namespace
}  // namespace ullage::llm
