/// The page that lists the passes, in the order in which they run.
#include <algorithm>
#include <chrono>

#include "core/error.h"
#include "graph/patch.h"
#include "shapes/input_bounds.h"
#include "transforms/pass.h"
#include "transforms/passes.h"

namespace ullage::transforms {
namespace {

constexpr Pass kPipeline[] = {
    {"dead-nodes", RemoveDead, "Removes nodes whose results nobody uses."},
    {"qlinear", ExpandQLinear, "Operators on 8-bit tensors, in terms of dequantised ones.", true},
    {"constant-folding", FoldConstants, "Computes nodes whose inputs are all constant."},
    {"inline-if", InlineConditionals, "Puts the only possible branch of an If in its place."},
    {"select", SelectConstants, "An If between constants becomes a choice without a sub-graph."},
    {"cast", DropCasts, "Drops casts to the same type and widening casts that are undone."},
    {"tied-embedding", GatherTransposed, "Reads rows of a transposed weight without transposing it."},
    {"linear", MakeLinear, "Products with constant weights, quantised or not, and their biases."},
    {"norm", FuseNorm, "Decomposed RMS and layer normalisation."},
    {"gelu", FuseGelu, "Decomposed GELU, erf and tanh forms."},
    {"conv-scale", FoldConvScale, "Batch normalisation and the like in the filters of a convolution."},
    {"conv-activation", FuseConvActivation, "Convolutions with what is added to them and their activation."},
    {"rope", FuseRotary, "Decomposed rotary embedding."},
    {"shape-folding", FoldShapes, "Sizes are read where they are known first, and once."},
    {"constant-folding", FoldConstants,
     "Again, for numbers that are computed from sizes (attention scales)."},
    {"attention", FuseAttention, "Decomposed attention over a growing cache, appended in place."},
    {"swiglu", FuseGated, "Gated activations: SiLU or GELU of one product times another."},
    {"residual-norm", FuseResidualNorm, "A sum and the normalisation of it."},
    {"multi-linear", MergeLinears, "Products that read the same activations (Q, K, V; gate and up)."},
    {"last-token", KeepLastToken,
     "Computes the head for the last token only, where that is all that is wanted."},
    {"shape-folding", FoldShapes, "Again, for what the fusions laid bare."},
    {"common-subexpressions", MergeCommon, "Equal computations are done once."},
    {"constant-folding", FoldRemaining, "What is left of arithmetic on weights."},
    {"dead-nodes", RemoveDead, "Removes nodes whose results nobody uses."},
};

/// Calls fn(owner, key, body) for every sub-graph of the graph's nodes.
template <class Fn>
void ForEachBody(graph::Graph& graph, const Fn& fn) {
  for (graph::NodeId id : graph.Order()) {
    for (auto& [key, attribute] : graph.node(id).attributes) {
      if (const auto* body = std::get_if<std::shared_ptr<graph::Graph>>(&attribute)) fn(id, key, **body);
    }
  }
}

int RunOn(const Pass& pass, PassContext& context) {
  int rewrites = pass.run(context);
  if (rewrites > 0) context.Changed();
  ForEachBody(context.graph(), [&](graph::NodeId owner, const std::string& key, graph::Graph& body) {
    PassContext inner(context, owner, key, body);
    rewrites += RunOn(pass, inner);
  });
  return rewrites;
}

}  // namespace

const shapes::GraphFacts& PassContext::facts() {
  if (outer_) {
    static const shapes::GraphFacts kNothing;
    const auto& bodies = outer_->facts().bodies;
    const auto it = bodies.find({owner_, key_});
    return it == bodies.end() ? kNothing : *it->second;
  }
  if (!valid_) {
    const auto inputs = options_.input_facts ? options_.input_facts(graph_, symbols_)
                                             : shapes::DeclaredInputFacts(graph_, symbols_);
    facts_ = shapes::Propagate(graph_, inputs, {}, symbols_);
    valid_ = true;
  }
  return facts_;
}

void PassContext::Changed() {
  valid_ = false;
  if (outer_) outer_->Changed();
}

int RemoveDead(PassContext& context) {
  return static_cast<int>(graph::RemoveDeadNodes(context.graph()));
}

std::span<const Pass> Pipeline() {
  return kPipeline;
}

std::vector<PassTiming> RunPipeline(graph::Graph& graph, const PassOptions& options) {
  for (const auto& name : options.disabled) {
    bool known = name == "all";
    std::vector<std::string_view> names;
    for (const Pass& pass : kPipeline) {
      known = known || pass.name == name;
      if (std::find(names.begin(), names.end(), pass.name) == names.end()) names.push_back(pass.name);
    }
    if (known) continue;
    std::string list;
    for (auto n : names) list += (list.empty() ? "" : ", ") + std::string(n);
    Throw(Code::kUsage, "there is no pass ", name, "; the passes are ", list);
  }
  std::vector<PassTiming> timings;
  PassContext context(graph, options);
  for (const Pass& pass : kPipeline) {
    if (!pass.required && !context.enabled(pass.name)) continue;
    const auto start = std::chrono::steady_clock::now();
    const int rewrites = RunOn(pass, context);
    if (rewrites > 0) graph::Verify(graph);
    timings.push_back({pass.name, rewrites,
                       std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()});
  }
  return timings;
}

}  // namespace ullage::transforms
