#include "placement/widen.h"

#include <algorithm>

#include "core/error.h"
#include "graph/absent.h"
#include "graph/widened.h"
#include "placement/host_values.h"
#include "shapes/propagate.h"

namespace ullage::placement {

using graph::IsHalf;
using graph::kNone;
using graph::Node;
using graph::ValueId;

namespace {

ops::ValueFacts Wide(ops::ValueFacts facts) {
  if (IsHalf(facts.dtype)) facts.dtype = DType::kFloat;
  return facts;
}

bool TakesTypeFromAttribute(const Node& node) {
  return node.has_attr("to") || node.has_attr("dtype") || node.has_attr("output_dtype");
}

}  // namespace

const graph::ConstantPtr& WideWeights::Of(const graph::ConstantPtr& source) {
  auto& wide = wide_[graph::DataKey(*source) + source->shape.ToString()];
  if (!wide) {
    wide = graph::Widened(source, reserve_);
    sources_[wide] = source;
  }
  return wide;
}

std::unique_ptr<WideNode> Widen(const NodeRef& ref, const shapes::GraphFacts& facts, WideWeights* weights) {
  const auto halves = [&](const std::vector<ValueId>& values) {
    return std::any_of(values.begin(), values.end(),
                       [&](ValueId v) { return v != kNone && IsHalf(facts.of(v).dtype); });
  };
  if (!halves(ref->inputs) || !ref->captures.empty() || TakesTypeFromAttribute(*ref) ||
      !ref.graph->opsets.count("") || IsTableLookup(*ref.graph, *ref))
    return nullptr;
  auto wide = std::make_unique<WideNode>();
  graph::Graph& g = wide->graph;
  g.opsets = ref.graph->opsets;
  std::map<ValueId, ValueId> known;
  std::vector<ValueId> in, out;
  std::vector<ops::ValueFacts> given;
  for (ValueId v : ref->inputs) {
    if (v == kNone || known.count(v)) {
      in.push_back(v == kNone ? kNone : known[v]);
      continue;
    }
    const graph::Value& value = ref.graph->value(v);
    const ops::ValueFacts& f = facts.of(v);
    if (f.kind != graph::TypeKind::kTensor) return nullptr;
    if (value.constant) {
      known[v] = g.AddConstant(value.name,
                               IsHalf(value.constant->dtype) ? weights->Of(value.constant) : value.constant);
    } else {
      known[v] = g.AddInput(value.name, Wide(f).dtype, std::nullopt);
      given.push_back(Wide(f));
    }
    in.push_back(known[v]);
  }
  for (ValueId v : ref->outputs) out.push_back(v == kNone ? kNone : g.AddValue(ref.graph->value(v).name));
  Node& node = g.AddNode(ref->domain, ref->op, ref->name, in, out);
  node.attributes = ref->attributes;
  node.opset = ref->opset;
  for (ValueId v : out)
    if (v != kNone) g.outputs.push_back(v);
  try {
    ops::SymbolTable table;
    wide->facts = shapes::Propagate(g, given, {}, table);
  } catch (const Error&) {
    return nullptr;
  }
  for (size_t o = 0; o < out.size(); ++o) {
    if (out[o] == kNone) continue;
    ops::ValueFacts& made = wide->facts.values[static_cast<size_t>(out[o])];
    const ops::ValueFacts expected = Wide(facts.of(ref->outputs[o]));
    if (made.dtype != expected.dtype || made.kind != expected.kind) return nullptr;
    made = expected;
    g.value(out[o]).dtype = expected.dtype;
  }
  return wide;
}

std::unique_ptr<WideNode> CastOf(const graph::Graph& graph, const ops::ValueFacts& facts, DType to) {
  auto cast = std::make_unique<WideNode>();
  graph::Graph& g = cast->graph;
  g.opsets = graph.opsets;
  const ValueId in = g.AddInput("in", facts.dtype, std::nullopt), out = g.AddValue("out", to);
  g.AddNode("", "Cast", "cast", {in}, {out}).attributes["to"] = static_cast<int64_t>(to);
  g.outputs = {out};
  ops::SymbolTable table;
  cast->facts = shapes::Propagate(g, {facts}, {}, table);
  return cast;
}

}  // namespace ullage::placement
