#include "placement/matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace ullage::placement {
namespace {

AnnotationMatcher Annotations(const std::string& text) {
  return AnnotationMatcher(ParseRules(RuleMode::kAnnotation, text).rules);
}
SubstringMatcher Names(const std::string& text) {
  return SubstringMatcher(ParseRules(RuleMode::kName, text).rules);
}
using R = std::optional<size_t>;

TEST(AnnotationMatcher, Exact) {
  const auto m = Annotations("d(=Annotation1, =Annotation2)");
  EXPECT_EQ(m.Match("Annotation1"), R(0));
  EXPECT_EQ(m.Match("Annotation2"), R(1));
  EXPECT_EQ(m.Match("Annotation3"), R());
  EXPECT_EQ(m.Match("Annotation"), R());
  EXPECT_EQ(m.Match("Annotation11"), R());
}

TEST(AnnotationMatcher, Prefix) {
  const auto m = Annotations("d(Prefix1, Pre)");
  EXPECT_EQ(m.Match("Prefix1Suffix"), R(0));
  EXPECT_EQ(m.Match("PreSuffix"), R(1));
  EXPECT_EQ(m.Match("Other"), R());
  EXPECT_EQ(m.Match("Pre"), R(1));
  EXPECT_EQ(m.Match("XPre"), R());
  EXPECT_EQ(m.Match("pre"), R());
}

TEST(AnnotationMatcher, PrefixBeatsExact) {
  EXPECT_EQ(Annotations("d(A, =AB)").Match("AB"), R(0));
  EXPECT_EQ(Annotations("d(=AB, A)").Match("AB"), R(1));
}

TEST(AnnotationMatcher, EarliestPrefixWinsWhateverItsLength) {
  EXPECT_EQ(Annotations("d(A, AB)").Match("ABC"), R(0));
  EXPECT_EQ(Annotations("d(AB, A)").Match("ABC"), R(0));
}

TEST(AnnotationMatcher, FirstOfEqualRules) {
  Rule exact;
  exact.pattern = "A";
  exact.exact = true;
  EXPECT_EQ(AnnotationMatcher({exact, exact}).Match("A"), R(0));
  exact.exact = false;
  EXPECT_EQ(AnnotationMatcher({exact, exact}).Match("A"), R(0));
}

TEST(AnnotationMatcher, EmptyMatchesNothing) {
  EXPECT_EQ(Annotations("d(A, =B)").Match(""), R());
}

TEST(SubstringMatcher, LongestThenEarliest) {
  EXPECT_EQ(Names("d(layers.0)").Match("/model/layers.0/attn/MatMul"), R(0));
  const auto m = Names("d(layers.1, layers.10)");
  EXPECT_EQ(m.Match("/model/layers.10/x"), R(1));
  EXPECT_EQ(m.Match("/model/layers.1/x"), R(0));
  EXPECT_EQ(m.Match("/model/layers.12/x"), R(0));  // the known ambiguity; coverage reports it
  EXPECT_EQ(Names("d(attn, proj)").Match("/layers.0/attn/q_proj"), R(0));
  EXPECT_EQ(Names("d(proj, attn)").Match("/layers.0/attn/q_proj"), R(0));
  EXPECT_EQ(m.Match("/lm_head/MatMul"), R());
  EXPECT_EQ(m.Match(""), R());
  EXPECT_EQ(Names("d(layers.1/)").Match("/model/layers.10/x"), R());
}

TEST(SubstringMatcher, RangesTakeWholeNumbers) {
  const auto m = Names("d(layers.[0-15])");
  for (int n = 0; n < 200; ++n)
    EXPECT_EQ(m.Match("/model/layers." + std::to_string(n) + "/attn/x"), n <= 15 ? R(0) : R()) << n;
  EXPECT_EQ(m.Match("/model/layers.150"), R());
  EXPECT_EQ(m.Match("/model/layers.015"), R(0));
  EXPECT_EQ(m.Match("layers."), R());
  EXPECT_EQ(m.Match("layers.99999999999999999999999"), R());
  EXPECT_EQ(Names("d([3-4])").Match("x13"), R());
  EXPECT_EQ(Names("d([3-4])").Match("x13.4"), R(0));
  EXPECT_EQ(Names("d(layers.[0-3]/mlp/experts.[8-9]/)").Match("/layers.2/mlp/experts.9/w"), R(0));
  EXPECT_EQ(Names("d(layers.[0-3]/mlp/experts.[8-9]/)").Match("/layers.4/mlp/experts.9/w"), R());
}

TEST(SubstringMatcher, RangesAndTextsTogether) {
  const auto m = Names("a(layers.[0-15]/); b(layers.5/); c(layers.[0-15]/mlp); d(layers.1)");
  EXPECT_EQ(m.Match("/layers.4/attn"), R(0));
  EXPECT_EQ(m.Match("/layers.5/attn"), R(1));  // equally long: the exception without a range
  EXPECT_EQ(m.Match("/layers.5/mlp/x"), R(2));
  EXPECT_EQ(m.Match("/layers.10/attn"), R(0));  // "layers.10/" is longer than "layers.1"
  EXPECT_EQ(m.Match("/layers.16/attn"), R(3));
}

TEST(SubstringMatcher, MaskedNumbersAreNoLayers) {
  const auto m = Names("a(layers.[0-9]/); b(layers.2/); c(final_norm)");
  const std::string name = "/model/layers.2/final_norm_layernorm";
  const size_t number = name.find('2');
  EXPECT_EQ(m.Find(name, {number, number + 1})->rule, 2u);
  EXPECT_EQ(m.Match("/model/layers.2/other"), R(1));
  EXPECT_EQ(Names("a(layers.[0-9]/)").Find(name, {number, number + 1}), std::nullopt);
  EXPECT_EQ(Names("a(layers.2/)").Find(name, {number, number + 1})->rule, 0u);  // written out: meant
}

/// The definition, without any cleverness.
R Reference(const std::vector<std::string>& patterns, const std::string& name) {
  R best;
  for (size_t i = 0; i < patterns.size(); ++i)
    if (name.find(patterns[i]) != std::string::npos && (!best || patterns[i].size() > patterns[*best].size()))
      best = i;
  return best;
}

TEST(SubstringMatcher, AgreesWithTheDefinition) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    const auto word = [&](size_t most) {
      std::string s;
      for (size_t n = 1 + random() % most; n > 0; --n) s += "ab1"[random() % 3];
      return s;
    };
    std::vector<std::string> patterns;
    std::vector<Rule> rules;
    for (size_t n = 1 + random() % 5; n > 0; --n) {
      patterns.push_back(word(4));
      Rule rule;
      rule.pattern = patterns.back();
      rules.push_back(rule);
    }
    const SubstringMatcher m(rules);
    for (int k = 0; k < 4; ++k) {
      const std::string name = word(9);
      ASSERT_EQ(m.Match(name), Reference(patterns, name)) << name;
    }
  }
}

TEST(AnnotationMatcher, AgreesWithTheDefinition) {
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    const auto word = [&](size_t most) {
      std::string s;
      for (size_t n = 1 + random() % most; n > 0; --n) s += "ab"[random() % 2];
      return s;
    };
    std::vector<Rule> rules;
    for (size_t n = 1 + random() % 6; n > 0; --n) {
      Rule rule;
      rule.pattern = word(4);
      rule.exact = random() % 3 == 0;
      rules.push_back(rule);
    }
    const AnnotationMatcher m(rules);
    for (int k = 0; k < 4; ++k) {
      const std::string text = word(5);
      R prefix, exact;
      for (size_t i = 0; i < rules.size(); ++i) {
        if (!rules[i].exact && !prefix && text.rfind(rules[i].pattern, 0) == 0) prefix = i;
        if (rules[i].exact && !exact && text == rules[i].pattern) exact = i;
      }
      ASSERT_EQ(m.Match(text), prefix ? prefix : exact) << text;
    }
  }
}

}  // namespace
}  // namespace ullage::placement
