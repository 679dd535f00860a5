// Rules of sequences against counting: what random sequences within random bounds give lies within the
// results.
#include <gtest/gtest.h>

#include <random>

#include "ops/test_context.h"

namespace ullage::ops {
namespace {

using graph::TypeKind;

struct Op {
  graph::Graph graph;
  graph::Node* node;

  Op(const char* name, size_t inputs, std::map<std::string, int64_t> attributes = {}) {
    graph.opsets[""] = 21;
    std::vector<graph::ValueId> in;
    for (size_t i = 0; i < inputs; ++i) in.push_back(graph.AddInput("x", DType::kFloat, std::nullopt));
    node = &graph.AddNode("", name, "n", in, {graph.AddValue("y")});
    for (const auto& [key, value] : attributes) node->attributes[key] = value;
  }
};

class Random {
 public:
  int64_t Int(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  Bound Around(int64_t n) {
    switch (Int(0, 3)) {
      case 0:
        return Bound::Exactly(n);
      case 1:
        return Bound::Between(std::max<int64_t>(0, n - Int(0, 3)), kUnbounded);
      default:
        return Bound::Between(std::max<int64_t>(0, n - Int(0, 3)), n + Int(0, 3));
    }
  }
  BoundedShape Around(const Shape& shape) {
    BoundedShape s = BoundedShape::Scalar();
    for (int64_t d : shape) s.push_back(Around(d));
    return s;
  }
  BoundedValues Values(const std::vector<int64_t>& exact) {
    BoundedValues v;
    const bool wide = Int(0, 1) != 0;
    for (int64_t n : exact)
      v[v.count++] = wide ? Bound::Between(n - Int(0, 2), n + Int(0, 2)) : Bound::Exactly(n);
    return v;
  }

 private:
  std::mt19937 random_{5};
};

bool Within(const Bound& b, int64_t n) {
  return b.lower <= n && n <= b.upper;
}

TEST(Sequences, SplittingGivesNoPartOutsideOfTheBounds) {
  Random r;
  for (int round = 0; round < 4000; ++round) {
    const int rank = static_cast<int>(r.Int(1, 3)), axis = static_cast<int>(r.Int(0, rank - 1));
    Shape in;
    for (int d = 0; d < rank; ++d) in.push_back(r.Int(0, 6));
    const int form = static_cast<int>(r.Int(0, 2));  // one by one, a size, a list of sizes
    const bool keep = form != 0 || r.Int(0, 1);
    std::vector<int64_t> sizes, given;
    if (form == 2) {
      for (int64_t left = in[axis]; left > 0 || r.Int(0, 2) == 0;) {
        sizes.push_back(r.Int(0, left));
        left -= sizes.back();
      }
      given = sizes;
    } else {
      const int64_t part = form == 1 ? r.Int(1, 4) : 1;
      if (form == 1) given = {part};
      for (int64_t at = 0; at < in[axis]; at += part) sizes.push_back(std::min(part, in[axis] - at));
    }
    Op op("SplitToSequence", form == 0 ? 1 : 2, {{"axis", axis}, {"keepdims", keep}});
    TestContext c(*op.node);
    c.Input(0, DType::kFloat, r.Around(in));
    if (form != 0) {
      c.Input(1, DType::kInt64,
              form == 1 ? BoundedShape::Scalar()
                        : BoundedShape::OfDims({Bound::Exactly(static_cast<int64_t>(given.size()))}));
      if (given.size() <= BoundedValues::kMax && r.Int(0, 3) != 0) c.InputValues(1, r.Values(given));
    }
    ApplyRule(c);
    ASSERT_EQ(c.out_kind(0), TypeKind::kSequence);
    EXPECT_TRUE(Within(c.out_length(0), static_cast<int64_t>(sizes.size()))) << round;
    for (int64_t size : sizes) {
      Shape part;
      for (int d = 0; d < rank; ++d)
        if (d != axis || keep) part.push_back(d == axis ? size : in[d]);
      EXPECT_TRUE(c.out_shape(0).Contains(part)) << c.out_shape(0).ToString() << " " << part.ToString();
    }
  }
}

TEST(Sequences, JoiningStaysWithinTheBounds) {
  Random r;
  for (int round = 0; round < 4000; ++round) {
    const int rank = static_cast<int>(r.Int(1, 3));
    const bool fresh = r.Int(0, 1) != 0;
    const int axis = static_cast<int>(r.Int(0, rank - 1 + fresh));
    const int64_t count = r.Int(1, 5);
    Shape one;
    for (int d = 0; d < rank; ++d) one.push_back(r.Int(0, 5));
    BoundedShape any = r.Around(one);
    int64_t total = 0;
    for (int64_t k = 0; k < count; ++k) {
      const int64_t size = fresh ? 1 : r.Int(0, 5);
      total += size;
      if (!fresh) any[axis] = BoundMath().Union(any[axis], Bound::Exactly(size));
    }
    Shape joined;
    for (int d = 0, k = 0; d < rank + fresh; ++d) {
      joined.push_back(d == axis ? total : one[k]);
      if (d != axis || !fresh) ++k;
    }
    Op op("ConcatFromSequence", 1, {{"axis", r.Int(0, 1) ? axis : axis - rank - fresh}, {"new_axis", fresh}});
    TestContext c(*op.node);
    c.Input(0, DType::kFloat, any);
    c.InputKind(0, TypeKind::kSequence, r.Around(count));
    ApplyRule(c);
    EXPECT_TRUE(c.out_shape(0).Contains(joined)) << c.out_shape(0).ToString() << " " << joined.ToString();
    EXPECT_EQ(c.out_kind(0), TypeKind::kTensor);
  }
}

TEST(Sequences, LengthsAreCounted) {
  Random r;
  for (int round = 0; round < 500; ++round) {
    const int64_t count = r.Int(1, 5);
    for (const char* name : {"SequenceInsert", "SequenceErase"}) {
      Op op(name, 2);
      TestContext c(*op.node);
      c.Input(0, DType::kFloat, r.Around(Shape{2, 3}));
      c.InputKind(0, TypeKind::kSequence, r.Around(count));
      const bool insert = std::string_view(name) == "SequenceInsert";
      c.Input(1, insert ? DType::kFloat : DType::kInt64, BoundedShape::Of(insert ? Shape{4} : Shape{}));
      ApplyRule(c);
      EXPECT_TRUE(Within(c.out_length(0), insert ? count + 1 : count - 1)) << name;
      if (insert) {
        EXPECT_TRUE(c.out_shape(0).Contains(Shape{4}));
      }
      EXPECT_TRUE(c.out_shape(0).Contains(Shape{2, 3}));
    }
  }
  Op length("SequenceLength", 1);
  TestContext c(*length.node);
  c.InputKind(0, TypeKind::kSequence, Bound::Between(2, 7));
  ApplyRule(c);
  ASSERT_NE(c.out_values(0), nullptr);
  EXPECT_EQ((*c.out_values(0))[0].upper, 7);
}

TEST(Sequences, WrongUsesAreNamed) {
  const auto fails = [](const char* name, size_t inputs, auto give) {
    Op op(name, inputs);
    TestContext c(*op.node);
    give(c);
    EXPECT_THROW(ApplyRule(c), Error) << name;
  };
  fails("SequenceAt", 2, [](TestContext& c) { c.Input(0, DType::kFloat, BoundedShape::Scalar()); });
  fails("SequenceErase", 1, [](TestContext& c) { c.InputKind(0, TypeKind::kSequence, Bound::Exactly(0)); });
  fails("ConcatFromSequence", 1,
        [](TestContext& c) { c.InputKind(0, TypeKind::kSequence, Bound::Exactly(0)); });
  fails("OptionalGetElement", 1,
        [](TestContext& c) { c.InputKind(0, TypeKind::kOptional, Bound::Exactly(0)); });
  fails("SequenceInsert", 2, [](TestContext& c) {
    c.Input(0, DType::kFloat, BoundedShape::Scalar());
    c.InputKind(0, TypeKind::kSequence, Bound::Exactly(1));
    c.Input(1, DType::kInt64, BoundedShape::Scalar());
  });
}

}  // namespace
}  // namespace ullage::ops
