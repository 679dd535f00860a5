#include "ops/families.h"

namespace ullage::ops {
namespace {

// scores [N, C, d..], target [N, d..], weight? -> loss (target's shape, or a scalar), log probabilities?
void ClassLoss(ShapeContext& c) {
  CheckRankAtLeast(c, 0, 2);
  const BoundedShape &x = c.shape(0), &target = c.shape(1);
  if (x.known_rank()) CheckRank(c, 1, x.rank - 1);
  const std::string_view reduction = c.node().StrView("reduction", "mean");
  BoundedShape out = BoundedShape::Scalar();
  if (reduction == "none") {
    out = target;
    if (x.known_rank() && target.known_rank())
      for (int i = 0; i < target.rank; ++i)
        out[i] = Equated(c, target[i], x[i ? i + 1 : 0], "scores and target");
  } else if (reduction != "mean" && reduction != "sum") {
    c.Fail("attribute reduction is ", reduction);
  }
  c.Set(0, c.dtype(0), out);
  if (c.wants(1)) SameShape(c, 0, 1);
}

}  // namespace

void RegisterLosses(Registry& ops) {
  ops.push_back({.name = "NegativeLogLikelihoodLoss",
                 .since = 12,
                 .min_inputs = 2,
                 .max_inputs = 3,
                 .rule = ClassLoss});
  ops.push_back({.name = "SoftmaxCrossEntropyLoss",
                 .since = 12,
                 .min_inputs = 2,
                 .max_inputs = 3,
                 .max_outputs = 2,
                 .rule = ClassLoss});
}

}  // namespace ullage::ops
