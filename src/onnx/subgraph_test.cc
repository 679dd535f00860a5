// Sub-graphs and their captures, model-local functions.
#include <gtest/gtest.h>

#include "onnx/import.h"
#include "onnx/test_proto.h"

namespace ullage::onnx {
namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::ValueId;
using test::ErrorOf;
using test::GraphAttribute;
using test::GraphMsg;
using test::Import;
using test::ModelMsg;
using test::ModelPath;
using test::Msg;
using test::NodeMsg;
using test::NodeNamed;
using test::Writer;

std::string Names(const Graph& g, const std::vector<ValueId>& ids) {
  std::string out;
  for (const auto id : ids) out += (out.empty() ? "" : ",") + (id == kNone ? "_" : g.value(id).name);
  return out;
}

std::string Join(const std::vector<std::string>& names) {
  std::string out;
  for (const auto& n : names) out += (out.empty() ? "" : ",") + n;
  return out;
}

TEST(Subgraphs, CapturesGoThroughAllLevels) {
  const auto g = ImportOnnx(ModelPath("subgraphs.onnx"));
  const Node& loop = NodeNamed(*g, "loop");
  EXPECT_EQ(Names(*g, loop.inputs), "n,_,x");
  const auto body = loop.Subgraph("body");
  EXPECT_EQ(Names(*body, body->inputs), "i,cond,state");
  // The body reads w (as an output, too), x and flag; state is its own input.
  EXPECT_EQ(Names(*g, loop.captures), "flag,x,w");
  EXPECT_EQ(Join(body->capture_names), "flag,x,w");
  ASSERT_EQ(body->capture_values.size(), 3u);
  EXPECT_EQ(Names(*body, body->outputs), "cond_out,next,w");
  EXPECT_EQ(body->outputs[2], body->capture_values[2]);
  EXPECT_EQ(body->value(body->capture_values[2]).constant->AsDoubles(), std::vector<double>{2});

  const Node& outer_if = NodeNamed(*body, "outer_if");
  const auto then_branch = outer_if.Subgraph("then_branch");
  const auto else_branch = outer_if.Subgraph("else_branch");
  EXPECT_EQ(Names(*body, outer_if.captures), Join(then_branch->capture_names));
  EXPECT_EQ(then_branch->capture_names, else_branch->capture_names);
  std::vector<std::string> sorted = then_branch->capture_names;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(Join(sorted), "flag,state,w,x");
  EXPECT_EQ(then_branch->value(then_branch->FindValue("own")).constant->AsDoubles(), std::vector<double>{9});

  const Node& inner_if = NodeNamed(*then_branch, "inner_if");
  const auto deep = inner_if.Subgraph("then_branch");
  const Node& add = NodeNamed(*deep, "deep_add");
  EXPECT_EQ(Names(*deep, add.inputs), "x,w");
  EXPECT_EQ(deep->value(add.inputs[1]).constant->AsDoubles(), std::vector<double>{2});
  EXPECT_EQ(deep->value(add.inputs[0]).producer, kNone);

  // "y" inside the else branch is the branch's own value, not the outer one.
  EXPECT_NE(else_branch->ProducerOf(else_branch->FindValue("y")), nullptr);
  EXPECT_EQ(std::count(else_branch->capture_names.begin(), else_branch->capture_names.end(), "y"), 0);
  graph::Verify(*g);
}

TEST(Subgraphs, NestingIsLimited) {
  const auto nested = [](int depth) {
    std::string g = GraphMsg({{NodeMsg("Relu", {"x"}, {"o"})}, {}, {}, {"o"}});
    for (int i = 0; i < depth; ++i)
      g = GraphMsg({{NodeMsg("If", {"x"}, {"o"}, "n", {GraphAttribute("then_branch", g)})}, {}, {}, {"o"}});
    return Msg([&](Writer& w) {
      w.add_message(
          7, GraphMsg(
                 {{NodeMsg("If", {"x"}, {"y"}, "n", {GraphAttribute("then_branch", g)})}, {}, {"x"}, {"y"}}));
    });
  };
  const auto fine = Import(nested(40));
  EXPECT_EQ(Names(*fine, NodeNamed(*fine, "n").captures), "x");
  EXPECT_NE(ErrorOf([&] { Import(nested(60)); }).find("nested more than 48 deep"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { Import(nested(2000)); }).find("nested more than 48 deep"), std::string::npos);
}

TEST(Subgraphs, FaultsInside) {
  const std::string sub = GraphMsg({{NodeMsg("Relu", {"nowhere"}, {"o"}, "inside")}, {}, {}, {"o"}});
  EXPECT_NE(
      ErrorOf([&] {
        Import(ModelMsg(GraphMsg(
            {{NodeMsg("If", {"x"}, {"y"}, "n", {GraphAttribute("then_branch", sub)})}, {}, {"x"}, {"y"}})));
      }).find("node inside (Relu): input nowhere is produced by nothing"),
      std::string::npos);
  const std::string names_nothing = GraphMsg({{}, {}, {}, {"nowhere"}});
  EXPECT_NE(
      ErrorOf([&] {
        Import(ModelMsg(GraphMsg(
            {{NodeMsg("If", {"x"}, {"y"}, "n", {GraphAttribute("b", names_nothing)})}, {}, {"x"}, {"y"}})));
      }).find("output \"nowhere\" is produced by nothing"),
      std::string::npos);
  // A cycle through a capture: the sub-graph of n reads what n makes.
  const std::string reads_y = GraphMsg({{NodeMsg("Relu", {"y"}, {"o"})}, {}, {}, {"o"}});
  EXPECT_NE(ErrorOf([&] {
              Import(ModelMsg(GraphMsg(
                  {{NodeMsg("If", {"x"}, {"y"}, "n", {GraphAttribute("b", reads_y)})}, {}, {"x"}, {"y"}})));
            }).find("has a cycle: n"),
            std::string::npos);
}

/// What a value is, as an expression over inputs and constants: equal for equal graphs, whatever their names
/// are.
std::string Expression(const Graph& g, ValueId id) {
  if (id == kNone) return "_";
  const auto& v = g.value(id);
  const Node* n = g.ProducerOf(id);
  if (v.constant) {
    std::string s = "const(";
    for (const double d : v.constant->AsDoubles()) s += std::to_string(d) + " ";
    return s + ")";
  }
  if (!n) return v.name;
  std::string s = n->OpName() + "." + std::to_string(n->opset) + "[";
  for (const auto& [key, a] : n->attributes) {
    s += key + "=";
    if (const auto* f = std::get_if<float>(&a)) s += std::to_string(*f);
    if (const auto* sub = std::get_if<std::shared_ptr<Graph>>(&a)) {
      const Graph& inner = **sub;
      std::string body = Expression(inner, inner.outputs[0]);
      // Names of captures stand for outer expressions.
      for (size_t i = 0; i < inner.capture_values.size(); ++i) {
        const std::string name = inner.value(inner.capture_values[i]).name;
        const std::string outer = Expression(g, n->captures[i]);
        for (size_t at = body.find(name); at != std::string::npos; at = body.find(name, at + outer.size()))
          body.replace(at, name.size(), outer);
      }
      s += "{" + body + "}";
    }
    s += ";";
  }
  s += "](";
  for (const ValueId in : n->inputs) s += Expression(g, in) + ",";
  return s + ")";
}

// The reference is onnx.inliner.
TEST(Functions, InlinedAsTheOnnxPackageDoes) {
  const auto ours = ImportOnnx(ModelPath("functions.onnx"));
  const auto reference = ImportOnnx(ModelPath("functions_inlined.onnx"));
  EXPECT_EQ(Expression(*ours, ours->outputs[0]), Expression(*reference, reference->outputs[0]));
  EXPECT_EQ(ours->LiveNodes(), reference->LiveNodes());
  EXPECT_NE(Expression(*ours, ours->outputs[0]).find("alpha=0.250000"), std::string::npos);
}

TEST(Functions, NamesAndAnnotationsComeFromTheCall) {
  const auto g = ImportOnnx(ModelPath("functions.onnx"));
  const Node& mul = NodeNamed(*g, "/layers.0/block/scale/mul");
  EXPECT_EQ(mul.annotation, "layer.0");
  EXPECT_EQ(NodeNamed(*g, "/layers.0/block/clip").annotation, "layer.0");
  EXPECT_EQ(NodeNamed(*g, "/layers.1/block/clip").annotation, "");
  EXPECT_EQ(NodeNamed(*g, "/layers.1/block/scale/mul").op, "Mul");
  EXPECT_EQ(NodeNamed(*g, "c/if").op, "If");
  EXPECT_EQ(Names(*g, NodeNamed(*g, "/layers.1/block/clip").inputs), "/layers.1/block/m,_,_");
}

TEST(Functions, KnownOnesStayOneNode) {
  ImportOptions options;
  options.is_known = [](std::string_view domain, std::string_view op, int version) {
    EXPECT_EQ(version, 1);
    return domain == "local" && op == "Scale";
  };
  const auto g = ImportOnnx(ModelPath("functions.onnx"), options);
  const Node& scale = NodeNamed(*g, "/layers.0/block/scale");
  EXPECT_EQ(scale.OpName(), "local:Scale");
  EXPECT_EQ(scale.Float("factor", 0), 2.0f);
}

struct FunctionParts {
  std::string name;
  std::vector<std::string> inputs, outputs, nodes;
};

std::string FunctionMsg(const FunctionParts& f) {
  return Msg([&](Writer& w) {
    w.add_string(1, f.name);
    for (const auto& i : f.inputs) w.add_string(4, i);
    for (const auto& o : f.outputs) w.add_string(5, o);
    for (const auto& n : f.nodes) w.add_message(7, n);
    w.add_string(10, "local");
  });
}

std::string Call(const std::string& op, const std::vector<std::string>& in,
                 const std::vector<std::string>& out, const std::string& name = "") {
  return NodeMsg(op, in, out, name, {}, "local");
}

TEST(Functions, OutputsThatAreInputsConstantsOrRepeated) {
  const std::string value = Msg([](Writer& w) {
    w.add_string(1, "value_float");
    w.add_float(2, 4);
    w.add_int32(20, 1);
  });
  const auto g = Import(ModelMsg(
      GraphMsg({{Call("F", {"x"}, {"p", "q", "r", "s"}, "f")}, {}, {"x"}, {"p", "q", "r", "s"}}),
      {FunctionMsg({"F",
                    {"a"},
                    {"a", "b", "b", "k"},
                    {NodeMsg("Relu", {"a"}, {"b"}), NodeMsg("Constant", {}, {"k"}, "", {value})}})}));
  EXPECT_EQ(Expression(*g, g->outputs[0]), "Identity.21[](x,)");
  EXPECT_EQ(Expression(*g, g->outputs[1]), "Relu.21[](x,)");
  EXPECT_EQ(Expression(*g, g->outputs[2]), "Identity.21[](Relu.21[](x,),)");
  EXPECT_EQ(g->value(g->outputs[3]).constant->AsDoubles(), std::vector<double>{4});
  EXPECT_EQ(Names(*g, g->outputs), "p,q,r,s");
}

std::string Fault(const std::string& node, const std::vector<std::string>& functions,
                  const ImportOptions& options = {}) {
  return ErrorOf([&] { Import(ModelMsg(GraphMsg({{node}, {}, {"x"}, {"y"}}), functions), options); });
}

TEST(Functions, FaultsAndBombs) {
  EXPECT_NE(Fault(Call("F", {"x"}, {"y"}), {FunctionMsg({"F", {"a"}, {"b"}, {Call("F", {"a"}, {"b"})}})})
                .find("function local:F calls itself"),
            std::string::npos);
  EXPECT_NE(Fault(Call("F", {"x"}, {"y"}), {FunctionMsg({"F", {"a"}, {"b"}, {Call("G", {"a"}, {"b"})}}),
                                            FunctionMsg({"G", {"a"}, {"b"}, {Call("F", {"a"}, {"b"})}})})
                .find("calls itself"),
            std::string::npos);
  const std::string plain = FunctionMsg({"F", {"a"}, {"b"}, {NodeMsg("Relu", {"a"}, {"b"})}});
  EXPECT_EQ(Fault(Call("F", {"x"}, {"y"}), {plain}), "");
  EXPECT_NE(Fault(Call("F", {"x"}, {"y"}), {plain, plain}).find("defined twice"), std::string::npos);
  EXPECT_NE(Fault(Call("F", {"x", "x"}, {"y"}), {plain}).find("takes 1 inputs, not 2"), std::string::npos);
  EXPECT_NE(Fault(Call("F", {"x"}, {"y", "z"}), {plain}).find("has 1 outputs, not 2"), std::string::npos);
  EXPECT_NE(Fault(Call("F", {"x"}, {"y"}), {FunctionMsg({"F", {"a"}, {"b"}, {}})})
                .find("does not produce its output b"),
            std::string::npos);
  // The body sees no names of the caller.
  EXPECT_NE(
      Fault(Call("F", {"x"}, {"y"}), {FunctionMsg({"F", {"a"}, {"b"}, {NodeMsg("Relu", {"x"}, {"b"})}})})
          .find("input x is produced by nothing"),
      std::string::npos);
  // A chain of functions, each calling the next one twice: 2^60 nodes.
  std::vector<std::string> bomb;
  for (int i = 0; i < 60; ++i)
    bomb.push_back(FunctionMsg({"F" + std::to_string(i),
                                {"a"},
                                {"b"},
                                {Call("F" + std::to_string(i + 1), {"a"}, {"m"}),
                                 Call("F" + std::to_string(i + 1), {"m"}, {"b"})}}));
  bomb.push_back(FunctionMsg({"F60", {"a"}, {"b"}, {NodeMsg("Relu", {"a"}, {"b"})}}));
  EXPECT_NE(Fault(Call("F0", {"x"}, {"y"}), bomb).find("inlining functions makes"), std::string::npos);
  // A long chain of calls.
  std::vector<std::string> chain;
  for (int i = 0; i < 5000; ++i)
    chain.push_back(FunctionMsg(
        {"F" + std::to_string(i), {"a"}, {"b"}, {Call("F" + std::to_string(i + 1), {"a"}, {"b"})}}));
  EXPECT_NE(Fault(Call("F0", {"x"}, {"y"}), chain).find("called more than 100 deep"), std::string::npos);
}

TEST(Functions, EqualNamesOfManyCallsStayDistinctAndFast) {
  std::vector<std::string> nodes;
  for (int i = 0; i < 20000; ++i) nodes.push_back(Call("F", {"x"}, {"y" + std::to_string(i)}, "same"));
  const auto g = Import(ModelMsg(
      GraphMsg({nodes, {}, {"x"}, {"y7"}}),
      {FunctionMsg(
          {"F", {"a"}, {"b"}, {NodeMsg("Relu", {"a"}, {"m"}, "n"), NodeMsg("Neg", {"m"}, {"b"}, "n")}})}));
  EXPECT_EQ(g->LiveNodes(), 40000u);
  EXPECT_EQ(NodeNamed(*g, "same_2/n").op, "Relu");
  EXPECT_EQ(NodeNamed(*g, "same_2/n_2").op, "Neg");
}

}  // namespace
}  // namespace ullage::onnx
