#include "shapes/input_bounds.h"

#include <gtest/gtest.h>

#include "shapes/propagate.h"
#include "ullage/error.h"

namespace ullage::shapes {
namespace {

using graph::DeclaredShape;
using graph::Graph;
using graph::ValueId;
using ops::SymbolTable;

std::string ErrorOf(const auto& call) {
  try {
    call();
  } catch (const Error& e) {
    return std::string(CodeName(e.code())) + ": " + e.message();
  }
  return "";
}

TEST(MaxShapeOverride, Grammar) {
  EXPECT_TRUE(ParseMaxShapeOverride("").empty());
  const auto one = ParseMaxShapeOverride("x:[8,4]");
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].input, "x");
  EXPECT_EQ(one[0].dims, (std::vector<int64_t>{8, 4}));
  const auto blanks = ParseMaxShapeOverride("\t a b : [ 1 ,\t2 ] ;c:[]; in:0:[3]");
  ASSERT_EQ(blanks.size(), 3u);
  EXPECT_EQ(blanks[0].input, "a b");
  EXPECT_EQ(blanks[0].dims, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(blanks[1].input, "c");
  EXPECT_TRUE(blanks[1].dims.empty());
  EXPECT_EQ(blanks[2].input, "in:0");
}

TEST(MaxShapeOverride, ErrorsNameTheEntry) {
  for (const char* bad : {"x:[8,4",
                          "x[8,4]",
                          ":[8]",
                          " :[8]",
                          "x:[a]",
                          "x:[8.5]",
                          "x:[0]",
                          "x:[-1]",
                          "x:[8,]",
                          "x:[,8]",
                          "x:[8,,16]",
                          "x:[8];",
                          ";x:[8]",
                          "x:[8];;y:[4]",
                          "x:[8] y:[4]",
                          "x:8",
                          "x:[99999999999999999999]",
                          "x:[8]z",
                          "x",
                          ";",
                          "x:[8]; "}) {
    const std::string error = ErrorOf([&] { ParseMaxShapeOverride(bad); });
    EXPECT_EQ(error.rfind("usage: session.max_shape_override", 0), 0u) << bad << " -> " << error;
  }
  const std::string twice = ErrorOf([] { CollectLimits({}, "x:[8];y:[1];x:[8]"); });
  EXPECT_NE(twice.find("input x"), std::string::npos) << twice;
  EXPECT_NE(ErrorOf([] { CollectLimits({"x=8"}, "x:[8]"); }).find("twice"), std::string::npos);
}

TEST(ShapeFlag, Grammar) {
  EXPECT_EQ(ParseShapeFlag("image=1x3x640x640").dims, (std::vector<int64_t>{1, 3, 640, 640}));
  EXPECT_EQ(ParseShapeFlag("a=b=2").input, "a=b");
  EXPECT_TRUE(ParseShapeFlag("n=").dims.empty());
  for (const char* bad : {"x", "=1x2", "x=1x", "x=x1", "x=1xx2", "x=-1", "x=1,2", "x=1x2 ", "x=a"})
    EXPECT_EQ(ErrorOf([&] { ParseShapeFlag(bad); }).rfind("usage: --shape", 0), 0u) << bad;
}

Graph Inputs() {
  Graph g;
  g.AddInput("ids", DType::kInt64, DeclaredShape{{-1, "batch"}, {-1, "seq"}});
  g.AddInput("mask", DType::kInt64, DeclaredShape{{-1, "batch"}, {-1, "past + seq"}});
  g.AddInput("cache", DType::kFloat, DeclaredShape{{-1, "batch"}, {4, ""}, {-1, "past"}, {-1, ""}});
  g.AddInput("any", DType::kFloat, std::nullopt);
  return g;
}

TEST(CheckLimits, ComparesWithTheGraph) {
  const Graph g = Inputs();
  const auto check = [&](const char* text) {
    return ErrorOf([&] { CheckLimits(g, ParseMaxShapeOverride(text)); });
  };
  EXPECT_EQ(check("ids:[2,16];mask:[2,64];cache:[2,4,48,8]"), "");
  EXPECT_NE(check("idz:[2,16]").find("no input idz; it has ids, mask, cache, any"), std::string::npos);
  EXPECT_NE(check("ids:[2]").find("1 dimensions, the graph declares 2"), std::string::npos);
  EXPECT_NE(check("cache:[2,5,48,8]").find("dimension 1 is 5, the graph fixes it at 4"), std::string::npos);
  EXPECT_NE(check("any:[2]").find("does not declare its rank"), std::string::npos);
  EXPECT_NE(check("ids:[2,16];mask:[3,64]").find("(batch) is 3, but 2 for input ids"), std::string::npos);
}

TEST(BoundedInputFacts, LimitsReachEveryDimensionOfTheirLabel) {
  const Graph g = Inputs();
  SymbolTable table;
  const auto limits = ParseMaxShapeOverride("ids:[2,16];cache:[2,4,48,8]");
  const auto facts = BoundedInputFacts(g, limits, {}, /*labels=*/true, table);
  EXPECT_EQ(facts[0].shape.ToString(), "[1..2,1..16]");
  EXPECT_EQ(facts[1].shape.ToString(), "[1..2,1..64]");
  EXPECT_EQ(facts[2].shape.ToString(), "[1..2,4,0..48,1..8]");
  EXPECT_TRUE(ops::Same(facts[0].shape[0], facts[2].shape[0]));
  EXPECT_EQ(facts[3].shape.rank, -1);
  SymbolTable apart;
  const auto plain = BoundedInputFacts(g, limits, {}, /*labels=*/false, apart);
  EXPECT_EQ(plain[1].shape.ToString(), "[1..2,0..?]");
  EXPECT_FALSE(ops::Same(plain[0].shape[0], plain[2].shape[0]));
  std::vector<ops::ValueFacts> actual(4);
  const Shape shapes[] = {{1, 3}, {1, 10}, {1, 4, 7, 8}, {5}};
  for (size_t i = 0; i < 4; ++i) {
    actual[i].dtype = DType::kFloat;
    actual[i].shape = ops::BoundedShape::Of(shapes[i]);
  }
  SymbolTable exact;
  const auto with = BoundedInputFacts(g, ParseMaxShapeOverride("ids:[2,16]"), actual, false, exact);
  EXPECT_EQ(with[0].shape.ToString(), "[1..2,1..16]");
  EXPECT_EQ(with[1].shape.ToString(), "[1..2,10]");
  EXPECT_EQ(with[3].shape.ToString(), "[5]");
}

TEST(BoundedInputFacts, LimitsReachResultsAndLeaveTheGraphAsItIs) {
  Graph g;
  g.opsets = {{"", 21}};
  const ValueId x = g.AddInput("x", DType::kFloat, DeclaredShape{{-1, ""}, {4, ""}});
  const ValueId y = g.AddValue("y");
  g.AddNode("", "Identity", "same", {x}, {y});
  g.outputs = {y};
  SymbolTable table;
  const auto inputs = BoundedInputFacts(g, ParseMaxShapeOverride("x:[8,4]"), {}, true, table);
  const auto facts = Propagate(g, inputs, {}, table);
  EXPECT_EQ(facts.of(x).shape.ToString(), "[1..8,4]");
  EXPECT_EQ(facts.of(y).shape.ToString(), "[1..8,4]") << "the override is an upper end, never a size";
  EXPECT_EQ((*g.value(x).declared)[0].value, -1) << "the graph that runs is the same";
}

TEST(BoundedInputFacts, AStatedSumIsTighterThanItsParts) {
  const Graph g = Inputs();
  SymbolTable table;
  const auto limits = ParseMaxShapeOverride("ids:[1,16];mask:[1,50];cache:[1,4,48,8]");
  const auto facts = BoundedInputFacts(g, limits, {}, true, table);
  const ops::BoundMath math(&table);
  EXPECT_EQ(math.Add(facts[0].shape[1], facts[2].shape[2]).upper, 50);
}

TEST(DeclaredInputFacts, ZeroIsANumber) {
  Graph g;
  g.AddInput("x", DType::kFloat, DeclaredShape{{0, ""}, {4, ""}});
  SymbolTable table;
  EXPECT_EQ(DeclaredInputFacts(g, table)[0].shape.ToString(), "[0,4]");
}

TEST(InputRelations, NameWhatDiffers) {
  const Graph g = Inputs();
  SymbolTable table;
  const auto facts =
      BoundedInputFacts(g, ParseMaxShapeOverride("ids:[2,16];mask:[2,50];cache:[2,4,48,8]"), {}, true, table);
  const InputRelations relations(g, facts, table);
  const auto check = [&](std::vector<Shape> shapes) {
    return ErrorOf([&] { relations.Check([&](size_t i, int d) { return shapes[i][d]; }); });
  };
  EXPECT_EQ(check({{2, 3}, {2, 10}, {2, 4, 7, 8}, {5}}), "");
  const std::string batch = check({{2, 3}, {1, 10}, {2, 4, 7, 8}, {5}});
  EXPECT_NE(batch.find("dimension 0 of input mask is 1, dimension 0 of input ids is 2"), std::string::npos)
      << batch;
  EXPECT_EQ(batch.rfind("invalid_input", 0), 0u) << batch;
  EXPECT_NE(check({{2, 3}, {2, 11}, {2, 4, 7, 8}, {5}}).find("mask is 11"), std::string::npos);
  EXPECT_NE(check({{2, 16}, {2, 64}, {2, 4, 48, 8}, {5}}).find("within 0..50"), std::string::npos);
}

}  // namespace
}  // namespace ullage::shapes
