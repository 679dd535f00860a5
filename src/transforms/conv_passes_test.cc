#include <cmath>

#include "transforms/test_graph.h"

namespace ullage::transforms::test {
namespace {

std::vector<float> Ramp(int64_t n, float first, float step) {
  std::vector<float> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = first + step * static_cast<float>(i);
  return v;
}

struct ConvGraph : TestGraph {
  ValueId x = Input("x", {1, 4, -1, -1});
  ValueId weight = Floats(Ramp(24, 0.5f, 0.25f), {6, 4, 1, 1});
  ValueId bias = Floats(Ramp(6, -1, 0.5f), {6});

  ValueId Conv() { return Op("Conv", {x, weight, bias}); }
  std::vector<double> Contents(ValueId v) const { return g.ConstantOf(v)->AsDoubles(); }
};

TEST(ConvScale, TakesInBatchNormalisation) {
  ConvGraph t;
  const ValueId scale = t.Floats(Ramp(6, 1, 0.5f), {6}), shift = t.Floats(Ramp(6, 2, 1), {6}),
                mean = t.Floats(Ramp(6, 0, 0.25f), {6}), variance = t.Floats(Ramp(6, 1, 1), {6});
  Node& norm = t.Add("BatchNormalization", {t.Conv(), scale, shift, mean, variance});
  norm.attributes["epsilon"] = 0.5f;
  t.Output(norm.outputs[0]);
  EXPECT_EQ(t.Run(FoldConvScale), 1);
  const Node* conv = t.Only("Conv");
  ASSERT_TRUE(conv);
  EXPECT_EQ(t.Nodes(), 1u);
  EXPECT_TRUE(StandsFor(*conv, {"n/Conv", "n/BatchNormalization"}));
  const auto w = t.Contents(conv->input(1)), b = t.Contents(conv->input(2));
  for (size_t f = 0; f < 6; ++f) {
    const double i = static_cast<double>(f), factor = (1 + 0.5 * i) / std::sqrt(1.5 + i);
    EXPECT_NEAR(b[f], (-1 + 0.5 * i - 0.25 * i) * factor + 2 + i, 1e-5);
    for (size_t c = 0; c < 4; ++c)
      EXPECT_NEAR(w[f * 4 + c], (0.5 + 0.25 * static_cast<double>(f * 4 + c)) * factor, 1e-5);
  }
}

TEST(ConvScale, TakesInAChainOfArithmetic) {
  ConvGraph t;
  const ValueId scaled = t.Op("Mul", {t.Conv(), t.Floats(Ramp(6, 1, 1), {6, 1, 1})});
  const ValueId shifted = t.Op("Sub", {t.Scalar(3), scaled});
  t.Output(t.Op("Div", {shifted, t.Floats({2}, {1, 1, 1, 1})}));
  EXPECT_EQ(t.Run(FoldConvScale), 3);
  const Node* conv = t.Only("Conv");
  ASSERT_TRUE(conv);
  EXPECT_EQ(t.Nodes(), 1u);
  const auto b = t.Contents(conv->input(2));
  for (size_t f = 0; f < 6; ++f) {
    const double i = static_cast<double>(f);
    EXPECT_NEAR(b[f], (3 - (-1 + 0.5 * i) * (1 + i)) / 2, 1e-5);
  }
}

TEST(ConvScale, ScalesFiltersOfTransposedConvolutionsByGroup) {
  TestGraph t;
  const ValueId x = t.Input("x", {1, 4, -1});
  const ValueId weight = t.Floats(std::vector<float>(12, 1.0f), {4, 3, 1});  // 2 groups of 3 filters
  Node& conv = t.Add("ConvTranspose", {x, weight});
  conv.attributes["group"] = int64_t{2};
  t.Output(t.Op("Mul", {conv.outputs[0], t.Floats(Ramp(6, 1, 1), {6, 1})}));
  EXPECT_EQ(t.Run(FoldConvScale), 1);
  const auto w = t.g.ConstantOf(t.Only("ConvTranspose")->input(1))->AsDoubles();
  EXPECT_EQ(w, (std::vector<double>{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
}

TEST(ConvScale, LeavesWhatIsNotPerChannel) {
  {
    ConvGraph t;  // along the width
    t.Output(t.Op("Mul", {t.Conv(), t.Floats(Ramp(6, 1, 1), {6})}));
    EXPECT_EQ(t.Run(FoldConvScale), 0);
  }
  {
    ConvGraph t;  // more dimensions than the data
    t.Output(t.Op("Add", {t.Conv(), t.Floats({1}, {1, 1, 1, 1, 1})}));
    EXPECT_EQ(t.Run(FoldConvScale), 0);
  }
  {
    ConvGraph t;  // read twice
    const ValueId y = t.Conv();
    t.Output(t.Op("Mul", {y, t.Scalar(2)}));
    t.Output(t.Op("Relu", {y}));
    EXPECT_EQ(t.Run(FoldConvScale), 0);
  }
  {
    ConvGraph t;  // the quotient the other way around
    t.Output(t.Op("Div", {t.Scalar(2), t.Conv()}));
    EXPECT_EQ(t.Run(FoldConvScale), 0);
  }
  {
    ConvGraph t;  // a graph output
    const ValueId y = t.Conv();
    t.Output(y);
    t.Output(t.Op("Mul", {y, t.Scalar(2)}));
    EXPECT_EQ(t.Run(FoldConvScale), 0);
  }
  {
    ConvGraph t;  // statistics of this very batch
    const ValueId ones = t.Floats(Ramp(6, 1, 0), {6});
    Node& norm = t.Add("BatchNormalization", {t.Conv(), ones, ones, ones, ones});
    norm.attributes["training_mode"] = int64_t{1};
    t.Output(norm.outputs[0]);
    EXPECT_EQ(t.Run(FoldConvScale), 0);
  }
  {
    ConvGraph t;  // a division by 0 stays where it is
    t.Output(t.Op("Div", {t.Conv(), t.Scalar(0)}));
    EXPECT_EQ(t.Run(FoldConvScale), 0);
  }
}

std::string ActivationOf(const TestGraph& t) {
  const Node* fused = t.Only("com.microsoft:FusedConv");
  return fused ? fused->Str("activation", "none") : "no fused node";
}

TEST(ConvActivation, TakesInActivationsAndAddends) {
  {
    ConvGraph t;
    const ValueId other = t.Op("Conv", {t.x, t.weight});
    t.Output(t.Op("Relu", {t.Op("Add", {other, t.Conv()})}));
    EXPECT_EQ(t.Run(FuseConvActivation), 1);
    EXPECT_EQ(ActivationOf(t), "Relu");
    EXPECT_EQ(t.Nodes(), 2u);
    EXPECT_TRUE(t.Only("com.microsoft:FusedConv")->has_input(3));
  }
  {
    ConvGraph t;
    t.Output(t.Op("Clip", {t.Conv(), t.Scalar(0), t.Scalar(6)}));
    EXPECT_EQ(t.Run(FuseConvActivation), 1);
    const Node* fused = t.Only("com.microsoft:FusedConv");
    ASSERT_TRUE(fused);
    EXPECT_EQ(fused->Floats("activation_params"), (std::vector<float>{0, 6}));
    EXPECT_FALSE(fused->has_input(3));
  }
  {
    ConvGraph t;
    const ValueId y = t.Conv();
    t.Output(t.Op("Mul", {t.Op("Sigmoid", {y}), y}));
    EXPECT_EQ(t.Run(FuseConvActivation), 1);
    EXPECT_EQ(ActivationOf(t), "Silu");
    EXPECT_EQ(t.Nodes(), 1u);
  }
  for (bool inside : {true, false}) {
    ConvGraph t;
    const ValueId y = t.Conv();
    ValueId gate = t.Op("Clip", {t.Op("Add", {y, t.Scalar(3)}), t.Scalar(0), t.Scalar(6)});
    if (inside) gate = t.Op("Div", {gate, t.Scalar(6)});
    const ValueId product = t.Op("Mul", {y, gate});
    t.Output(inside ? product : t.Op("Mul", {product, t.Scalar(1.0f / 6)}));
    EXPECT_EQ(t.Run(FuseConvActivation), 1);
    EXPECT_EQ(ActivationOf(t), "HardSwish");
    EXPECT_EQ(t.Nodes(), 1u);
  }
}

TEST(ConvActivation, LeavesWhatIsReadElsewhere) {
  {
    ConvGraph t;
    const ValueId y = t.Conv();
    t.Output(t.Op("Relu", {y}));
    t.Output(t.Op("Tanh", {y}));
    EXPECT_EQ(t.Run(FuseConvActivation), 0);
  }
  {
    ConvGraph t;  // the gate is wanted, too
    const ValueId y = t.Conv(), gate = t.Op("Sigmoid", {y});
    t.Output(t.Op("Mul", {gate, y}));
    t.Output(gate);
    EXPECT_EQ(t.Run(FuseConvActivation), 0);
  }
  {
    ConvGraph t;  // another gate
    const ValueId y = t.Conv();
    const ValueId gate = t.Op("Clip", {t.Op("Add", {y, t.Scalar(2)}), t.Scalar(0), t.Scalar(6)});
    t.Output(t.Op("Mul", {t.Op("Mul", {y, gate}), t.Scalar(1.0f / 6)}));
    EXPECT_EQ(t.Run(FuseConvActivation), 0);
  }
  {
    ConvGraph t;  // bounds that only a run knows
    t.Output(t.Op("Clip", {t.Conv(), t.Input("low", {})}));
    EXPECT_EQ(t.Run(FuseConvActivation), 0);
  }
  {
    ConvGraph t;  // an addend that spreads
    t.Output(t.Op("Add", {t.Conv(), t.Input("z", {1, 6, 1, 1})}));
    EXPECT_EQ(t.Run(FuseConvActivation), 0);
  }
}

TEST(QLinear, BecomesTheOperatorOnNumbers) {
  TestGraph t;
  const ValueId a = t.Input("a", {2, 3}, DType::kUInt8), b = t.Zeros({3, 4}, DType::kUInt8);
  const ValueId scale = t.Scalar(0.5f), zero = t.Zeros({}, DType::kUInt8);
  t.Output(t.Op("QLinearMatMul",
                {a, scale, zero, b, t.Floats(Ramp(4, 1, 1), {4}), t.Zeros({4}, DType::kUInt8), scale, zero}));
  EXPECT_EQ(t.Run(ExpandQLinear), 1);
  EXPECT_EQ(t.Count("DequantizeLinear"), 2);
  ASSERT_TRUE(t.Only("MatMul"));
  EXPECT_EQ(t.g.ProducerOf(t.Only("MatMul")->input(1))->Int("axis", -1), 1);  // one scale per column
  EXPECT_TRUE(t.Only("QuantizeLinear"));
}

TEST(QLinear, LeavesScalesThatStandForNothing) {
  TestGraph t;
  const ValueId a = t.Input("a", {2, 3}, DType::kUInt8), zero = t.Zeros({}, DType::kUInt8);
  const ValueId many = t.Floats(Ramp(3, 1, 1), {3}), one = t.Scalar(1);
  t.Output(t.Op("com.microsoft:QLinearAdd", {a, many, zero, a, one, zero, one, zero}));
  EXPECT_EQ(t.Run(ExpandQLinear), 0);
}

}  // namespace
}  // namespace ullage::transforms::test
