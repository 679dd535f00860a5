// Normalisation, activations and casts: the forms that exporters write, and near misses.
#include "transforms/test_graph.h"

namespace ullage::transforms {
namespace {

using graph::kNone;
using graph::Node;
using graph::ValueId;
using test::StandsFor;
using test::TestGraph;

ValueId Mean(TestGraph& t, ValueId x, std::vector<int64_t> axes = {-1}, int64_t keepdims = 1) {
  Node& n = t.Add("ReduceMean", {x, t.Ints(axes)});
  n.attributes["keepdims"] = keepdims;
  return n.outputs[0];
}
ValueId CastTo(TestGraph& t, ValueId x, DType type) {
  Node& n = t.Add("Cast", {x});
  n.attributes["to"] = static_cast<int64_t>(type);
  return n.outputs[0];
}
/// x * 1/sqrt(mean(x^2) + eps)
ValueId Normalize(TestGraph& t, ValueId x) {
  const ValueId square = t.Op("Pow", {x, t.Scalar(2)});
  const ValueId root = t.Op("Sqrt", {t.Op("Add", {Mean(t, square), t.Scalar(1e-6f)})});
  return t.Op("Mul", {x, t.Op("Div", {t.Scalar(1), root})});
}

TEST(Norm, MatchesTheLlamaForm) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, -1, 8}), w = t.Zeros({8});
  const ValueId y = t.Op("Mul", {w, Normalize(t, x)});
  t.Output(y);
  EXPECT_EQ(t.Run(FuseNorm), 1);
  const Node* norm = t.Only("SimplifiedLayerNormalization");
  ASSERT_NE(norm, nullptr);
  EXPECT_EQ(t.Nodes(), 1u);
  EXPECT_EQ(norm->inputs, (std::vector<ValueId>{x, w}));
  EXPECT_EQ(norm->output(0), y);
  EXPECT_FLOAT_EQ(norm->Float("epsilon", 0), 1e-6f);
  EXPECT_TRUE(StandsFor(*norm, {"n/Pow", "n/ReduceMean", "n/Add", "n/Sqrt", "n/Div", "n/Mul", "n/Mul_2"}));
  EXPECT_NE(norm->name.find("n/Pow"), std::string::npos);
}

TEST(Norm, MatchesOtherSpellings) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, 8}), w = t.Zeros({8});
  const auto variance = [&](ValueId v) {
    return t.Op("Add", {t.Scalar(1e-5f), Mean(t, t.Op("Mul", {v, v}), {1})});
  };
  t.Output(t.Op("Mul", {t.Op("Mul", {t.Op("Reciprocal", {t.Op("Sqrt", {variance(x)})}), x}), w}));
  t.Output(t.Op("Mul", {t.Op("Div", {x, t.Op("Sqrt", {variance(x)})}), w}));
  t.Output(t.Op("Mul", {t.Op("Mul", {x, t.Op("Pow", {variance(x), t.Scalar(-0.5f)})}), w}));
  EXPECT_EQ(t.Run(FuseNorm), 3);
  EXPECT_EQ(t.Count("SimplifiedLayerNormalization"), 3);
  EXPECT_EQ(t.Nodes(), 3u);
}

TEST(Norm, TakesTheCastsAround) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, 8}, DType::kFloat16);
  // Llama: back to half, then the weight.
  const ValueId llama = CastTo(t, Normalize(t, CastTo(t, x, DType::kFloat)), DType::kFloat16);
  t.Output(t.Op("Mul", {t.Zeros({8}, DType::kFloat16), llama}));
  // Gemma: (1 + w) in float, then back.
  const ValueId scaled = t.Op("Mul", {Normalize(t, CastTo(t, x, DType::kFloat)), t.Input("w", {8})});
  t.Output(CastTo(t, scaled, DType::kFloat16));
  EXPECT_EQ(t.Run(FuseNorm), 2);
  EXPECT_EQ(t.Nodes(), 2u);
  for (ValueId out : t.g.outputs) {
    const Node& n = *t.g.ProducerOf(out);
    EXPECT_EQ(n.op, "SimplifiedLayerNormalization");
    EXPECT_EQ(n.input(0), x);
  }
}

TEST(Norm, RefusesNearMisses) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, -1, 8}), w = t.Zeros({8});
  const auto root = [&](ValueId mean, ValueId eps) { return t.Op("Sqrt", {t.Op("Add", {mean, eps})}); };
  const auto finish = [&](ValueId r) { t.Output(t.Op("Mul", {w, t.Op("Div", {x, r})})); };
  const ValueId two = t.Scalar(2), eps = t.Scalar(1e-6f);
  finish(root(Mean(t, t.Op("Pow", {x, t.Scalar(3)})), eps));                  // no square
  finish(root(Mean(t, t.Op("Pow", {x, two}), {1}), eps));                     // another axis
  finish(root(Mean(t, t.Op("Pow", {x, two}), {1, 2}), eps));                  // two axes
  finish(root(Mean(t, t.Op("Pow", {x, two})), t.Input("eps", {})));           // epsilon not constant
  finish(root(Mean(t, t.Op("Pow", {t.Input("z", {-1, -1, 8}), two})), eps));  // of another tensor
  t.Output(t.Op("Mul", {t.Zeros({1}), Normalize(t, x)}));                     // a weight of one element
  t.Output(t.Op("Mul", {t.Zeros({3, 8}), Normalize(t, t.Input("q", {-1, 3, 8}))}));  // a weight per row
  const ValueId mean = Mean(t, t.Op("Pow", {x, two}));
  finish(root(mean, eps));
  t.Output(mean);  // somebody wants the mean square
  EXPECT_EQ(t.Run(FuseNorm), 0);
}

TEST(Norm, MatchesLayerNormalization) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, -1, 8}), w = t.Zeros({8}), b = t.Zeros({8});
  const ValueId d = t.Op("Sub", {x, Mean(t, x)});
  const ValueId variance = Mean(t, t.Op("Pow", {d, t.Scalar(2)}));
  const ValueId n = t.Op("Div", {d, t.Op("Sqrt", {t.Op("Add", {variance, t.Scalar(1e-12f)})})});
  t.Output(t.Op("Add", {t.Op("Mul", {n, w}), b}));
  EXPECT_EQ(t.Run(FuseNorm), 1);
  const Node* norm = t.Only("LayerNormalization");
  ASSERT_NE(norm, nullptr);
  EXPECT_EQ(t.Nodes(), 1u);
  EXPECT_EQ(norm->inputs, (std::vector<ValueId>{x, w, b}));
  EXPECT_FLOAT_EQ(norm->Float("epsilon", 0), 1e-12f);
}

TEST(ResidualNorm, YieldsTheSumWhereItIsWanted) {
  TestGraph t;
  const ValueId r = t.Input("r", {2, -1, 8});
  const ValueId o = t.Op("Relu", {r}), w = t.Zeros({8});
  const ValueId sum = t.Op("Add", {r, o});
  Node& norm = t.Add("SimplifiedLayerNormalization", {sum, w});
  norm.attributes["epsilon"] = 1e-6f;
  const ValueId y = norm.outputs[0];
  t.Output(y);
  t.Output(t.Op("Neg", {sum}));
  EXPECT_EQ(t.Run(FuseResidualNorm), 1);
  const Node* skip = t.Only("com.microsoft:SkipSimplifiedLayerNormalization");
  ASSERT_NE(skip, nullptr);
  EXPECT_EQ(skip->outputs, (std::vector<ValueId>{y, kNone, kNone, sum}));
  EXPECT_EQ(skip->inputs, (std::vector<ValueId>{r, o, w}));
  EXPECT_FLOAT_EQ(skip->Float("epsilon", 0), 1e-6f);
}

TEST(ResidualNorm, RefusesSumsThatSpread) {
  TestGraph t;
  const ValueId r = t.Input("r", {2, -1, 8}), w = t.Zeros({8});
  t.Output(t.Op("SimplifiedLayerNormalization", {t.Op("Add", {r, t.Input("row", {1, 1, 8})}), w}));
  t.Output(
      t.Op("SimplifiedLayerNormalization", {t.Op("Add", {r, t.Input("o", {2, -1, 8})}), w}));  // unproved
  Node& whole = t.Add("LayerNormalization", {t.Op("Add", {r, r}), t.Zeros({8}), t.Zeros({8})}, 2);
  t.Output(whole.outputs[0]);
  t.Output(whole.outputs[1]);  // the mean is wanted
  EXPECT_EQ(t.Run(FuseResidualNorm), 0);
}

TEST(Gelu, MatchesTheErfForms) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, 8});
  const auto one_plus = [&](ValueId z) { return t.Op("Add", {t.Op("Erf", {z}), t.Scalar(1)}); };
  const ValueId script = one_plus(t.Op("Div", {x, t.Scalar(1.41421354f)}));
  t.Output(t.Op("Mul", {t.Op("Mul", {x, script}), t.Scalar(0.5f)}));
  const ValueId dynamo = one_plus(t.Op("Mul", {x, t.Scalar(0.70710677f)}));
  t.Output(t.Op("Mul", {t.Op("Mul", {t.Scalar(0.5f), x}), dynamo}));
  EXPECT_EQ(t.Run(FuseGelu), 2);
  EXPECT_EQ(t.Count("com.microsoft:Gelu"), 2);
  EXPECT_EQ(t.Nodes(), 2u);
}

TEST(Gelu, MatchesTheTanhForms) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, 8});
  for (bool power : {true, false}) {
    const ValueId cube = power ? t.Op("Pow", {x, t.Scalar(3)}) : t.Op("Mul", {x, t.Op("Mul", {x, x})});
    const ValueId sum = t.Op("Add", {x, t.Op("Mul", {cube, t.Scalar(0.044715f)})});
    const ValueId tanh = t.Op("Tanh", {t.Op("Mul", {t.Scalar(0.79788458f), sum})});
    t.Output(t.Op("Mul", {t.Op("Mul", {x, t.Scalar(0.5f)}), t.Op("Add", {t.Scalar(1), tanh})}));
  }
  EXPECT_EQ(t.Run(FuseGelu), 2);
  EXPECT_EQ(t.Count("com.microsoft:FastGelu"), 2);
  EXPECT_EQ(t.Nodes(), 2u);
}

TEST(Gelu, RefusesNearMisses) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, 8}), z = t.Input("z", {-1, 8});
  const auto gelu = [&](ValueId a, float divisor, float one, float half, ValueId b) {
    const ValueId erf = t.Op("Erf", {t.Op("Div", {a, t.Scalar(divisor)})});
    t.Output(t.Op("Mul", {t.Op("Mul", {b, t.Op("Add", {erf, t.Scalar(one)})}), t.Scalar(half)}));
  };
  gelu(x, 2, 1, 0.5f, x);
  gelu(x, 1.41421354f, 2, 0.5f, x);
  gelu(x, 1.41421354f, 1, 1, x);
  gelu(x, 1.41421354f, 1, 0.5f, z);
  EXPECT_EQ(t.Run(FuseGelu), 0);
}

TEST(Gated, MatchesSiluInAnyOrder) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, 8});
  for (int order = 0; order < 3; ++order) {
    const ValueId g = t.Op("Relu", {x}), u = t.Op("Neg", {x}), s = t.Op("Sigmoid", {g});
    t.Output(order == 0   ? t.Op("Mul", {t.Op("Mul", {g, s}), u})
             : order == 1 ? t.Op("Mul", {u, t.Op("Mul", {s, g})})
                          : t.Op("Mul", {g, t.Op("Mul", {u, s})}));
  }
  EXPECT_EQ(t.Run(FuseGated), 3);
  EXPECT_EQ(t.Count("ullage:SwiGLU"), 3);
  for (ValueId out : t.g.outputs) {
    const Node& n = *t.g.ProducerOf(out);
    EXPECT_EQ(t.g.ProducerOf(n.input(0))->op, "Relu");
    EXPECT_EQ(t.g.ProducerOf(n.input(1))->op, "Neg");
    EXPECT_EQ(n.Str("activation", ""), "silu");
  }
}

TEST(Gated, MatchesGeluAndPackedHalves) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, 16});
  Node& split = t.Add("Split", {x}, 2);
  split.attributes["axis"] = int64_t{-1};
  split.attributes["num_outputs"] = int64_t{2};
  const ValueId gate = split.outputs[0], up = split.outputs[1];
  Node& gelu = t.Add("Gelu", {gate});
  gelu.attributes["approximate"] = std::string("tanh");
  t.Output(t.Op("Mul", {gelu.outputs[0], up}));
  EXPECT_EQ(t.Run(FuseGated), 1);
  const Node* n = t.Only("ullage:SwiGLU");
  ASSERT_NE(n, nullptr);
  EXPECT_EQ(t.Nodes(), 1u);
  EXPECT_EQ(n->inputs, (std::vector<ValueId>{x}));
  EXPECT_EQ(n->Str("activation", ""), "gelu_tanh");
}

TEST(Gated, KeepsAGateOfAnotherShape) {
  TestGraph t;
  const ValueId g = t.Input("g", {-1, 8}), row = t.Input("row", {1, 8});
  t.Output(t.Op("Mul", {t.Op("Mul", {g, t.Op("Sigmoid", {g})}), row}));
  EXPECT_EQ(t.Run(FuseGated), 1);  // the activation alone
  EXPECT_EQ(t.Count("ullage:SwiGLU"), 0);
  const Node* silu = t.Only("com.microsoft:QuickGelu");
  ASSERT_NE(silu, nullptr);
  EXPECT_FLOAT_EQ(silu->Float("alpha", 0), 1);
}

TEST(Gated, ReadsAlphaOfQuickGelu) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, 8});
  t.Output(t.Op("Mul", {x, t.Op("Sigmoid", {t.Op("Mul", {x, t.Scalar(1.702f)})})}));
  const ValueId shared = t.Op("Sigmoid", {x});
  t.Output(t.Op("Mul", {x, shared}));
  t.Output(shared);
  EXPECT_EQ(t.Run(FuseGated), 1);
  EXPECT_FLOAT_EQ(t.Only("com.microsoft:QuickGelu")->Float("alpha", 0), 1.702f);
}

TEST(Casts, DropsWhatHasNoEffect) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, 8}), h = t.Input("h", {-1, 8}, DType::kFloat16);
  t.Output(t.Op("Relu", {CastTo(t, x, DType::kFloat)}));
  t.Output(t.Op("Relu", {CastTo(t, CastTo(t, h, DType::kFloat), DType::kFloat16)}));
  t.Output(t.Op("Relu", {t.Op("Identity", {x})}));
  EXPECT_EQ(t.Run(DropCasts), 3);
  EXPECT_EQ(t.Count("Cast"), 0);
  EXPECT_EQ(t.Nodes(), 3u);
  EXPECT_EQ(t.g.ProducerOf(t.g.outputs[1])->input(0), h);
}

TEST(Casts, KeepsThoseThatRoundAndNamesOfResults) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, 8});
  t.Output(t.Op("Relu", {CastTo(t, CastTo(t, x, DType::kFloat16), DType::kFloat)}));
  t.Output(CastTo(t, x, DType::kFloat));
  EXPECT_EQ(t.Run(DropCasts), 0);
  EXPECT_EQ(t.Count("Cast"), 3);
}

TEST(Common, MergesEqualNodesOnly) {
  TestGraph t;
  const ValueId x = t.Input("x", {-1, 8});
  const ValueId a = t.Op("Mul", {x, t.Scalar(2)}), b = t.Op("Mul", {x, t.Scalar(2)}),
                c = t.Op("Mul", {x, t.Scalar(3)});
  t.Output(t.Op("Neg", {a}));
  t.Output(t.Op("Abs", {b}));
  t.Output(t.Op("Abs", {c}));
  Node& random = t.Add("RandomNormalLike", {x});
  t.Output(t.Op("Neg", {random.outputs[0]}));
  t.Output(t.Op("Neg", {t.Op("RandomNormalLike", {x})}));
  EXPECT_EQ(t.Run(MergeCommon), 1);
  EXPECT_EQ(t.Count("Mul"), 2);
  EXPECT_EQ(t.Count("RandomNormalLike"), 2);
}

}  // namespace
}  // namespace ullage::transforms
