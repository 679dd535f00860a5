// The verifier notices every kind of fault.
#include <gtest/gtest.h>

#include <functional>

#include "core/error.h"
#include "graph/graph.h"

namespace ullage::graph {
namespace {

struct Sample {
  Graph g;
  std::shared_ptr<Graph> sub = std::make_shared<Graph>();
  ValueId x, a, y, c;
  Sample() {
    g.name = "sample";
    x = g.AddInput("x", DType::kFloat, std::nullopt);
    c = g.AddConstant("c", MakeFloats({}, std::vector<float>{1}));
    a = g.AddValue("a");
    y = g.AddValue("y");
    g.AddNode("", "Add", "add", {x, c}, {a});
    const ValueId captured = sub->AddValue("a");
    sub->value(captured).is_input = true;
    sub->capture_values = {captured};
    sub->capture_names = {"a"};
    sub->outputs = {captured};
    Node& n = g.AddNode("", "If", "if", {x}, {y});
    n.attributes.emplace("then_branch", sub);
    g.SetCaptures(n, {a});
    g.outputs = {y};
  }
};

/// What Verify says after `damage`.
std::string Fault(const std::function<void(Sample&)>& damage) {
  Sample s;
  damage(s);
  try {
    Verify(s.g);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kInvalidModel);
    return e.message();
  }
  return "";
}

void ExpectFault(const std::function<void(Sample&)>& damage, const std::string& part) {
  const std::string message = Fault(damage);
  EXPECT_NE(message.find(part), std::string::npos) << '"' << message << '"';
}

TEST(Verify, AcceptsASoundGraph) {
  EXPECT_EQ(Fault([](Sample&) {}), "");
}

TEST(Verify, Values) {
  ExpectFault([](Sample& s) { s.g.value(s.a).producer = 1; }, "value a names the wrong producer");
  ExpectFault([](Sample& s) { s.g.value(s.a).producer = kNone; }, "node if reads a, which nothing produces");
  ExpectFault([](Sample& s) { s.g.value(s.a).is_input = true; }, "value a is both produced and given");
  ExpectFault([](Sample& s) { s.g.value(s.a).constant = s.g.value(s.c).constant; },
              "value a is both produced and given");
  ExpectFault([](Sample& s) { s.g.value(s.x).consumers.push_back(1); },
              "value x lists a consumer that does not use it");
  ExpectFault([](Sample& s) { s.g.value(s.c).consumers.clear(); }, "value c does not list all its consumers");
  ExpectFault([](Sample& s) { s.g.value(s.c).constant = nullptr; },
              "node add reads c, which nothing produces");
}

TEST(Verify, Nodes) {
  ExpectFault([](Sample& s) { s.g.node(0).inputs[0] = 99; }, "node add reads a value that does not exist");
  ExpectFault([](Sample& s) { s.g.node(0).inputs[0] = -2; }, "node add reads a value that does not exist");
  ExpectFault([](Sample& s) { s.g.node(0).outputs[0] = 99; }, "node add writes a value that does not exist");
  ExpectFault([](Sample& s) { s.g.node(1).outputs[0] = s.a; }, "value a has two producers");
  ExpectFault([](Sample& s) { s.g.node(0).inputs[0] = s.c; }, "value ");
  ExpectFault([](Sample& s) { s.g.SetInput(s.g.node(0), 0, s.y); }, "has a cycle");
}

TEST(Verify, Outputs) {
  ExpectFault([](Sample& s) { s.g.outputs.push_back(99); }, "an output does not exist");
  ExpectFault([](Sample& s) { s.g.outputs.push_back(kNone); }, "an output does not exist");
  ExpectFault([](Sample& s) { s.g.outputs.push_back(s.g.AddValue("loose")); },
              "output loose is produced by nothing");
}

TEST(Verify, Inputs) {
  ExpectFault([](Sample& s) { s.g.inputs.push_back(99); }, "an input does not exist");
  ExpectFault([](Sample& s) { s.g.inputs.push_back(s.a); }, "input a is not marked as one");
}

TEST(Verify, Captures) {
  ExpectFault([](Sample& s) { s.sub->capture_names[0] = "b"; },
              "sub-graph then_branch reads b, which is not captured");
  ExpectFault([](Sample& s) { s.sub->capture_values.clear(); }, "sub-graph then_branch lists");
  ExpectFault([](Sample& s) { s.sub->capture_values[0] = 99; }, "has no value for the capture a");
  ExpectFault([](Sample& s) { s.g.node(1).captures[0] = kNone; }, "node if captures no value");
  ExpectFault([](Sample& s) { s.g.node(1).attributes["then_branch"] = std::shared_ptr<Graph>(); },
              "attribute then_branch is an empty sub-graph");
  ExpectFault([](Sample& s) { s.sub->outputs = {5}; }, "an output does not exist");
  ExpectFault(
      [](Sample& s) {
        s.g.node(1).attributes["branches"] = std::vector<std::shared_ptr<Graph>>{std::make_shared<Graph>()};
      },
      "sub-graph branches lists 0 captures; the node has 1");
}

}  // namespace
}  // namespace ullage::graph
