#include "placement/rules.h"

#include <gtest/gtest.h>

#include "ullage/error.h"

namespace ullage::placement {
namespace {

RuleSet Annotation(const std::string& text) {
  return ParseRules(RuleMode::kAnnotation, text);
}
RuleSet Name(const std::string& text) {
  return ParseRules(RuleMode::kName, text);
}

/// The message of the refusal, "" when there is none.
std::string Refusal(RuleMode mode, const std::string& text) {
  try {
    ParseRules(mode, text);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kUsage) << text;
    return e.message();
  }
  return "";
}

TEST(Rules, EmptyTextsHaveNoRules) {
  for (const char* text : {"", "   ", ";", ";   ;", ";;;\t"}) {
    EXPECT_TRUE(Annotation(text).empty()) << text;
    EXPECT_TRUE(Name(text).empty()) << text;
    EXPECT_TRUE(Annotation(text).warnings.empty()) << text;
  }
}

TEST(Rules, OnePrefix) {
  const auto set = Annotation("EP1(Annotation1)");
  ASSERT_EQ(set.rules.size(), 1u);
  EXPECT_EQ(set.rules[0].device.text, "EP1");
  EXPECT_EQ(set.rules[0].pattern, "Annotation1");
  EXPECT_FALSE(set.rules[0].exact);
  EXPECT_EQ(set.rules[0].position, 4u);
}

TEST(Rules, SeveralPatternsAndDevices) {
  const auto one = Annotation("EP1(A1, A2)");
  ASSERT_EQ(one.rules.size(), 2u);
  EXPECT_EQ(one.rules[0].device.text, "EP1");
  EXPECT_EQ(one.rules[1].device.text, "EP1");
  EXPECT_EQ(one.rules[1].pattern, "A2");
  const auto two = Annotation("EP1(A1); EP2(A2)");
  ASSERT_EQ(two.rules.size(), 2u);
  EXPECT_EQ(two.rules[0].device.text, "EP1");
  EXPECT_EQ(two.rules[1].device.text, "EP2");
}

TEST(Rules, ExactHasNoEqualsSign) {
  const auto set = Annotation("EP1(=A1)");
  ASSERT_EQ(set.rules.size(), 1u);
  EXPECT_TRUE(set.rules[0].exact);
  EXPECT_EQ(set.rules[0].pattern, "A1");
}

TEST(Rules, BlanksDoNotMatter) {
  const auto set = Annotation("  EP1 (  A1 ,   =A2 )  ;  EP2 ( A 3 ) ; ");
  ASSERT_EQ(set.rules.size(), 3u);
  EXPECT_EQ(set.rules[0].pattern, "A1");
  EXPECT_FALSE(set.rules[0].exact);
  EXPECT_EQ(set.rules[1].pattern, "A2");
  EXPECT_TRUE(set.rules[1].exact);
  EXPECT_EQ(set.rules[2].pattern, "A 3");
  EXPECT_FALSE(set.rules[2].exact);
  EXPECT_EQ(set.rules[2].device.text, "EP2");
  EXPECT_EQ(Annotation("EP1(= A1)").rules[0].pattern, "A1");
}

TEST(Rules, PrefixAndExactOfOneTextAreTwoRules) {
  EXPECT_EQ(Annotation("EP1(A, =A)").rules.size(), 2u);
}

TEST(Rules, PatternMayHoldAnOpeningParenthesis) {
  const auto set = Annotation("EP1(a(b)");
  ASSERT_EQ(set.rules.size(), 1u);
  EXPECT_EQ(set.rules[0].pattern, "a(b");
}

TEST(Rules, MalformedEntriesAreRefusedWithTheirPosition) {
  const struct {
    const char* text;
    const char* says;
    const char* position;
  } cases[] = {
      {"EP1", "no parenthesis", "position 0,"},
      {"EP1(A1", "'(' without ')'", "position 3,"},
      {"EP1 A1)", "')' without '('", "position 6,"},
      {"EP1)A1(", "before '('", "position 3,"},
      {"(A1)", "no device", "position 0,"},
      {"gpu(a);   (A1)", "no device", "position 10,"},
      {"EP1(A1); EP2", "no parenthesis", "position 9,"},
      {"cpu(a) gpu(b)", "unexpected text \"gpu(b)\"", "position 7,"},
      {"cpu(a))", "unexpected text \")\"", "position 6,"},
      {"cpu(a) ; gpu(b) x", "unexpected text \"x\"", "position 16,"},
  };
  for (const auto& c : cases)
    for (RuleMode mode : {RuleMode::kAnnotation, RuleMode::kName}) {
      const std::string message = Refusal(mode, c.text);
      EXPECT_NE(message.find(c.says), std::string::npos) << c.text << ": " << message;
      EXPECT_NE(message.find(c.position), std::string::npos) << c.text << ": " << message;
      EXPECT_NE(message.find(OptionOf(mode)), std::string::npos) << message;
    }
}

TEST(Rules, DuplicatesAreRefused) {
  for (const char* text : {"EP1(A, A)", "EP1(A); EP2(A)", "EP1(A); EP1(B, A)"}) {
    EXPECT_NE(Refusal(RuleMode::kAnnotation, text).find("prefix pattern \"A\""), std::string::npos) << text;
    EXPECT_NE(Refusal(RuleMode::kName, text).find("pattern \"A\""), std::string::npos) << text;
  }
  for (const char* text : {"EP1(=A, =A)", "EP1(=A); EP2(= A)"})
    EXPECT_NE(Refusal(RuleMode::kAnnotation, text).find("exact pattern \"A\""), std::string::npos) << text;
}

TEST(Rules, NameRulesHaveNoExactForm) {
  EXPECT_NE(Refusal(RuleMode::kName, "gpu(layers.0/, =layers.1)").find("position 15,"), std::string::npos);
}

TEST(Rules, DevicesWithoutPatternsAreTold) {
  for (const char* text : {"gpu()", "gpu(,)", "gpu( , ,)"}) {
    const auto set = Annotation(text);
    EXPECT_TRUE(set.empty());
    ASSERT_EQ(set.warnings.size(), 1u) << text;
    EXPECT_NE(set.warnings[0].find("gpu has no patterns"), std::string::npos);
  }
  EXPECT_EQ(Annotation("gpu(a,,b)").rules.size(), 2u);
  EXPECT_EQ(Annotation("gpu(a,=)").warnings.size(), 1u);
}

TEST(Rules, DevicesThatMeanNothingAreRefused) {
  for (const char* text : {"gpu:(a)", "cuda:nvidia(a)", "npu:intel(a)", "cpu:x(a)", "gpu:1x(a)", ":1(a)",
                           "g pu(a)", "opencl:-1(a)", "gpu:99999999999999999999(a)", "accelerator:fast(a)"})
    EXPECT_NE(Refusal(RuleMode::kName, text), "") << text;
  EXPECT_NE(Refusal(RuleMode::kName, "cpu(x); npu:intel(a)").find("position 12,"), std::string::npos);
  for (const char* text : {"gpu:1(a)", "gpu:NVIDIA(a)", "opencl:0(a)", "cuda:1(a)", "GPU(a)", "my-ep.v2(a)"})
    EXPECT_EQ(Refusal(RuleMode::kName, text), "") << text;
}

TEST(Rules, RangesAreWholeNumbers) {
  const auto set = Name("gpu(layers.[0-15]/, h.[3-3].attn)");
  ASSERT_EQ(set.rules.size(), 2u);
  ASSERT_EQ(set.rules[0].parts.size(), 3u);
  EXPECT_EQ(set.rules[0].parts[0].text, "layers.");
  EXPECT_TRUE(set.rules[0].parts[1].is_range);
  EXPECT_EQ(set.rules[0].parts[1].first, 0);
  EXPECT_EQ(set.rules[0].parts[1].last, 15);
  EXPECT_EQ(set.rules[0].parts[2].text, "/");
  EXPECT_EQ(set.rules[1].parts[1].first, 3);
}

TEST(Rules, BracketsOfNamesAreNoRanges) {
  for (const char* pattern : {"/model/constants/INT64/[1]", "[", "a[b-c]", "x[-1]", "[0]", "[]"}) {
    const auto set = Name(std::string("cpu(") + pattern + ")");
    ASSERT_EQ(set.rules.size(), 1u);
    EXPECT_FALSE(set.rules[0].has_range()) << pattern;
    EXPECT_EQ(set.rules[0].parts[0].text, pattern);
  }
  // In annotations a bracket is a character.
  EXPECT_TRUE(Annotation("cpu(layer_[0-3])").rules[0].parts.empty());
}

TEST(Rules, BrokenRangesAreRefusedWithTheirPosition) {
  for (const char* text : {"gpu(layers.[3-1])", "gpu(layers.[0-)", "gpu(layers.[0-15)", "gpu(layers.[0-x])",
                           "gpu(layers.[0-15-20])", "gpu(layers.[0-99999999999999999999])"})
    EXPECT_NE(Refusal(RuleMode::kName, text).find("position 11,"), std::string::npos)
        << text << ": " << Refusal(RuleMode::kName, text);
  EXPECT_NE(Refusal(RuleMode::kName, "gpu([0-1][2-3])"), "");
}

TEST(Rules, NeverCrashOnGarbage) {
  // Every text of three characters from the grammar's alphabet, alone and within entries.
  const std::string alphabet = "a1(),;=[-]: ";
  for (size_t n = 0; n < 12 * 12 * 12; ++n) {
    std::string text;
    for (size_t k = n, i = 0; i < 3; ++i, k /= 12) text += alphabet[k % 12];
    for (const std::string& t : {text, "gpu(" + text + ")", text + "(a)", "gpu(x[1" + text})
      for (RuleMode mode : {RuleMode::kAnnotation, RuleMode::kName}) {
        try {
          for (const Rule& r : ParseRules(mode, t).rules) ASSERT_FALSE(r.pattern.empty());
        } catch (const Error& e) {
          ASSERT_EQ(e.code(), Code::kUsage) << t;
        }
      }
  }
}

}  // namespace
}  // namespace ullage::placement
