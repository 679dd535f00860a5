// Graph structure: what the importer makes of names, order, types, defaults and metadata.
#include "onnx/import.h"

#include <gtest/gtest.h>

#include "onnx/test_proto.h"

namespace ullage::onnx {
namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::TypeKind;
using test::ErrorOf;
using test::GraphMsg;
using test::Import;
using test::ModelMsg;
using test::ModelPath;
using test::NodeMsg;
using test::NodeNamed;
using test::Writer;

const graph::Value& ValueNamed(const Graph& g, std::string_view name) {
  return g.value(g.FindValue(name));
}

std::string Names(const Graph& g, const std::vector<graph::ValueId>& ids) {
  std::string out;
  for (const auto id : ids) out += (out.empty() ? "" : ",") + (id == kNone ? "_" : g.value(id).name);
  return out;
}

TEST(Import, ConstantNodesBecomeConstants) {
  const auto g = ImportOnnx(ModelPath("constants.onnx"));
  EXPECT_EQ(g->LiveNodes(), 1u);
  EXPECT_EQ(ValueNamed(*g, "c_tensor").constant->AsInts(), (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(ValueNamed(*g, "c_tensor").constant->shape, Shape({2, 2}));
  EXPECT_EQ(ValueNamed(*g, "c_sparse").constant->AsInts(), (std::vector<int64_t>{0, 0, 7, 0}));
  EXPECT_EQ(ValueNamed(*g, "c_int").constant->AsInts(), std::vector<int64_t>{-5});
  EXPECT_EQ(ValueNamed(*g, "c_int").constant->shape.rank(), 0);
  EXPECT_EQ(ValueNamed(*g, "c_ints").constant->AsInts(), (std::vector<int64_t>{1, -2, int64_t{1} << 40}));
  EXPECT_EQ(ValueNamed(*g, "c_float").constant->AsDoubles(), std::vector<double>{0.5});
  EXPECT_EQ(ValueNamed(*g, "c_floats").constant->AsDoubles(), (std::vector<double>{1, -2}));
  EXPECT_EQ(ValueNamed(*g, "c_zero").constant->shape, Shape({0}));
  const auto& strings = *ValueNamed(*g, "c_strings").constant;
  EXPECT_EQ(strings.shape, Shape({3}));
  EXPECT_EQ(reinterpret_cast<const std::string*>(strings.bytes)[2], "c");
  EXPECT_EQ(*reinterpret_cast<const std::string*>(ValueNamed(*g, "c_string").constant->bytes), "text");
  EXPECT_EQ(Names(*g, g->outputs), "y,c_tensor,x");
}

TEST(Import, InitializersListedAsInputsAreConstants) {
  const auto g = ImportOnnx(ModelPath("legacy.onnx"));
  EXPECT_EQ(Names(*g, g->inputs), "x");
  EXPECT_TRUE(ValueNamed(*g, "w").constant);
  EXPECT_FALSE(ValueNamed(*g, "w").is_input);
  const auto kept = ImportOnnx(ModelPath("legacy.onnx"), {.keep_default_inputs = true});
  EXPECT_EQ(Names(*kept, kept->inputs), "x,w");
  EXPECT_TRUE(ValueNamed(*kept, "w").is_input);
  EXPECT_EQ(ValueNamed(*kept, "w").constant->AsDoubles(), (std::vector<double>{1, 2, 3}));
}

TEST(Import, OddGraph) {
  const auto g = ImportOnnx(ModelPath("odd.onnx"));
  std::string order;
  for (const auto id : g->Order()) order += g->node(id).op + " ";
  EXPECT_EQ(order, "Relu Clip Add Dropout Custom SequenceAt ");
  // Two nodes of one name, and one without: named after its output.
  EXPECT_EQ(NodeNamed(*g, "twin").op, "Add");
  EXPECT_EQ(NodeNamed(*g, "twin_2").op, "Relu");
  EXPECT_EQ(NodeNamed(*g, "b").op, "Clip");
  EXPECT_EQ(Names(*g, NodeNamed(*g, "b").inputs), "a,_,limit");
  EXPECT_EQ(Names(*g, NodeNamed(*g, "only_mask").outputs), "_,mask");

  const Node& custom = NodeNamed(*g, "named");
  EXPECT_EQ(custom.OpName(), "org.example:Custom");
  EXPECT_EQ(custom.opset, 2);
  EXPECT_EQ(NodeNamed(*g, "b").opset, 17);
  EXPECT_EQ(custom.annotation, "decoder.3");
  EXPECT_EQ(custom.metadata.at("namespace"), "model/layers.3");
  EXPECT_EQ(custom.Str("note", ""), "hi");
  EXPECT_EQ(custom.Ints("list"), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(custom.Float("weight", 0), 0.5f);
  EXPECT_EQ(custom.provenance, std::vector<std::string>{"named"});

  EXPECT_EQ(Names(*g, g->inputs), "x,seq,opt,map");
  EXPECT_EQ(Names(*g, g->outputs), "d,e,limit,x,mask");
  EXPECT_EQ(ValueNamed(*g, "seq").kind, TypeKind::kSequence);
  EXPECT_EQ(ValueNamed(*g, "seq").dtype, DType::kFloat);
  EXPECT_EQ(ValueNamed(*g, "opt").kind, TypeKind::kOptionalSequence);
  EXPECT_EQ(ValueNamed(*g, "map").kind, TypeKind::kMap);
  const auto& x = *ValueNamed(*g, "x").declared;
  ASSERT_EQ(x.size(), 3u);
  EXPECT_EQ(x[0].label, "N");
  EXPECT_EQ(x[1].value, 3);
  EXPECT_EQ(x[2].value, -1);
  EXPECT_EQ(ValueNamed(*g, "a").declared->size(), 2u);
  EXPECT_EQ(g->metadata.at("author"), "nobody");
  EXPECT_EQ(g->metadata.at("graph_key"), "graph_value");
  EXPECT_EQ(g->opsets.at("com.microsoft.nchwc"), 1);
}

TEST(Import, OpsetsMayBeMissing) {
  const std::string graph = GraphMsg({{NodeMsg("Relu", {"x"}, {"y"})}, {}, {"x"}, {"y"}});
  const auto g = Import(test::Msg([&](Writer& w) { w.add_message(7, graph); }));
  EXPECT_EQ(g->node(0).opset, 1);
  const auto other =
      Import(ModelMsg(GraphMsg({{NodeMsg("Op", {"x"}, {"y"}, "", {}, "com.microsoft")}, {}, {"x"}, {"y"}})));
  EXPECT_EQ(other->node(0).opset, 1);
}

std::string Fault(const test::GraphParts& parts) {
  return ErrorOf([&] { Import(ModelMsg(GraphMsg(parts))); });
}

TEST(Import, FaultsNameThePlace) {
  EXPECT_EQ(Fault({{NodeMsg("Add", {"x", "position_ids"}, {"y"}, "/layers.0/Add")}, {}, {"x"}, {"y"}}),
            "invalid_model: test.onnx: node /layers.0/Add (Add): input position_ids is produced by nothing");
  EXPECT_NE(Fault({{}, {}, {"x"}, {"y"}}).find("output \"y\" is produced by nothing"), std::string::npos);
  EXPECT_NE(Fault({{NodeMsg("A", {"x"}, {"y"}, "n1"), NodeMsg("B", {"x"}, {"y"}, "n2")}, {}, {"x"}, {"y"}})
                .find("node n2 (B): value y is produced twice"),
            std::string::npos);
  EXPECT_NE(
      Fault({{NodeMsg("A", {"x"}, {"y", "y"}, "n1")}, {}, {"x"}, {"y"}}).find("value y is produced twice"),
      std::string::npos);
  EXPECT_NE(Fault({{NodeMsg("A", {"x"}, {"x"}, "n1")}, {}, {"x"}, {"x"}})
                .find("value x is an input or initializer"),
            std::string::npos);
  EXPECT_NE(Fault({{}, {}, {"x", "x"}, {"x"}}).find("input x is listed twice"), std::string::npos);
  const std::string w = test::FloatTensor("w", {1}, {1});
  EXPECT_NE(Fault({{}, {w, w}, {}, {"w"}}).find("initializer w is given twice"), std::string::npos);
  EXPECT_NE(Fault({{}, {test::FloatTensor("", {1}, {1})}, {}, {}}).find("an initializer has no name"),
            std::string::npos);
  EXPECT_NE(Fault({{NodeMsg("", {"x"}, {"y"}, "n")}, {}, {"x"}, {"y"}}).find("\"n\" has no op_type"),
            std::string::npos);
  EXPECT_NE(Fault({{NodeMsg("Constant", {}, {"y"}, "n")}, {}, {}, {"y"}})
                .find("node n (Constant): the Constant has no value"),
            std::string::npos);
  const std::string cycle =
      Fault({{NodeMsg("A", {"x", "c"}, {"a"}, "first"), NodeMsg("B", {"a"}, {"b"}, "second"),
              NodeMsg("C", {"b"}, {"c"}, "third")},
             {},
             {"x"},
             {"c"}});
  EXPECT_NE(cycle.find("has a cycle: "), std::string::npos);
  for (const char* name : {"first", "second", "third"})
    EXPECT_NE(cycle.find(name), std::string::npos) << cycle;
  EXPECT_EQ(ErrorOf([] { Import(""); }), "invalid_model: test.onnx: no graph: not an ONNX model, or cut off");
  EXPECT_NE(ErrorOf([] { ImportOnnx("/nonexistent/model.onnx"); }).find("/nonexistent/model.onnx"),
            std::string::npos);
}

std::string AttributeMsg(const std::string& name, const std::function<void(Writer&)>& fill) {
  return test::Msg([&](Writer& w) {
    w.add_string(1, name);
    fill(w);
  });
}

TEST(Import, Attributes) {
  const std::vector<std::string> attributes{
      AttributeMsg("untyped", [](Writer& w) { w.add_int64(3, 7); }),
      AttributeMsg("zero_int", [](Writer& w) { w.add_int32(20, 2); }),
      AttributeMsg("zero_string", [](Writer& w) { w.add_int32(20, 3); }),
      AttributeMsg("packed",
                   [](Writer& w) {
                     const std::vector<int64_t> v{1, -1};
                     w.add_packed_int64(8, v.begin(), v.end());
                     w.add_int64(8, 5);
                     w.add_int32(20, 7);
                   }),
      AttributeMsg("floats",
                   [](Writer& w) {
                     w.add_float(7, 1.5f);
                     w.add_float(7, -1);
                     w.add_int32(20, 6);
                   }),
      AttributeMsg("type",
                   [](Writer& w) {
                     w.add_message(14, test::Msg([](Writer& t) {
                                     Writer seq(t, 4);
                                     Writer element(seq, 1);
                                     Writer tensor(element, 1);
                                     tensor.add_int32(1, 1);
                                   }));
                     w.add_int32(20, 13);
                   }),
      AttributeMsg("tensors",
                   [](Writer& w) {
                     w.add_message(10, test::FloatTensor("t", {1}, {3}));
                     w.add_int32(20, 9);
                   }),
  };
  const auto g = Import(ModelMsg(GraphMsg({{NodeMsg("Op", {}, {"y"}, "n", attributes)}, {}, {}, {"y"}})));
  const Node& n = g->node(0);
  EXPECT_EQ(n.Int("untyped", 0), 7);
  EXPECT_EQ(n.Int("zero_int", 1), 0);
  EXPECT_EQ(n.Str("zero_string", "x"), "");
  EXPECT_EQ(n.Ints("packed"), (std::vector<int64_t>{1, -1, 5}));
  EXPECT_EQ(n.Floats("floats"), (std::vector<float>{1.5f, -1}));
  EXPECT_EQ(n.Str("type", ""), "seq(tensor(float))");
  EXPECT_EQ(std::get<std::vector<graph::ConstantPtr>>(n.attributes.at("tensors"))[0]->AsDoubles()[0], 3.0);

  const auto fault = [](const std::vector<std::string>& list) {
    return ErrorOf([&] {
      Import(ModelMsg(GraphMsg({{NodeMsg("Op", {}, {"y"}, "n", list)}, {}, {}, {"y"}})));
    });
  };
  EXPECT_NE(fault({attributes[0], attributes[0]}).find("attribute untyped is given twice"),
            std::string::npos);
  EXPECT_NE(fault({AttributeMsg("a", [](Writer& w) { w.add_int32(20, 77); })}).find("unknown type 77"),
            std::string::npos);
  EXPECT_NE(fault({AttributeMsg("a", [](Writer& w) { w.add_int32(20, 4); })}).find("holds no tensor"),
            std::string::npos);
  EXPECT_NE(fault({AttributeMsg("a", [](Writer&) {})}).find("neither type nor value"), std::string::npos);
  EXPECT_NE(
      fault({AttributeMsg("a", [](Writer& w) { w.add_string(21, "b"); })}).find("outside of a function"),
      std::string::npos);
}

}  // namespace
}  // namespace ullage::onnx
