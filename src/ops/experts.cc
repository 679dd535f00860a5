#include "ops/families.h"

namespace ullage::ops {
namespace {

// input [.., D], router_probs [tokens, E], weights ...
void Experts(ShapeContext& c) {
  CheckRankAtLeast(c, 0, 2);
  CheckRank(c, 1, 2);
  const BoundedShape &x = c.shape(0), &router = c.shape(1), &w = c.shape(2);
  if (router.known_rank() && w.known_rank() && w.rank >= 1)
    CheckEqual(c, router[1], w[0], "experts of the router and of the weights");
  if (x.known_rank() && router.known_rank()) {
    Bound tokens = Bound::Exactly(1);
    for (int i = 0; i + 1 < x.rank; ++i) tokens = c.math().Mul(tokens, x[i]);
    CheckEqual(c, tokens, router[0], "tokens of the input and the router");
  }
  SameAsInput(c);
}

}  // namespace

void RegisterExperts(Registry& ops) {
  const std::string_view ms = graph::kMsDomain;
  ops.push_back({.domain = ms, .name = "MoE", .min_inputs = 3, .max_inputs = 8, .rule = Experts});
  ops.push_back({.domain = ms, .name = "QMoE", .min_inputs = 3, .max_inputs = -1, .rule = Experts});
}

}  // namespace ullage::ops
