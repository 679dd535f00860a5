/// Level-1 passes: rewrites that hold on every device. One pass per file; pipeline.cc is the page that lists
/// them.
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "shapes/propagate.h"

namespace ullage::transforms {

/// Computes one node whose inputs are all constants (null where an input is left out); returns its outputs,
/// or an empty list when it cannot. Given by the session, which owns the kernels.
using Evaluator = std::function<std::vector<graph::ConstantPtr>(const graph::Node&, const graph::Graph&,
                                                                std::span<const graph::ConstantPtr>)>;

struct PassOptions {
  /// Names of passes that are switched off ("all" switches every optional pass off).
  std::set<std::string, std::less<>> disabled;
  /// Logits are wanted for the last position only: the graph output with this name gets one row per batch.
  /// Empty: keep.
  std::string last_token_output;
  /// Facts of the graph's inputs, in order, with symbols of the given table. They must hold in every run.
  /// Empty: as the graph declares them.
  std::function<std::vector<ops::ValueFacts>(const graph::Graph&, ops::SymbolTable&)> input_facts;
  Evaluator evaluate;
  /// The evaluator answers for constants without contents, too.
  bool evaluate_absent = false;
  /// Constants larger than this are not folded into being.
  size_t max_folded_bytes = 64 << 20;
};

/// Shared by the passes of one pipeline run: the model's graph, or the body of a node with its context
/// outside.
class PassContext {
 public:
  PassContext(graph::Graph& graph, const PassOptions& options) : graph_(graph), options_(options) {}
  /// For sub-graph `key` of node `owner` of the outer graph.
  PassContext(PassContext& outer, graph::NodeId owner, std::string key, graph::Graph& body)
      : graph_(body), options_(outer.options_), outer_(&outer), owner_(owner), key_(std::move(key)) {}
  graph::Graph& graph() { return graph_; }
  const PassOptions& options() const { return options_; }
  bool is_body() const { return outer_ != nullptr; }
  bool enabled(std::string_view pass) const {
    return !options_.disabled.count("all") && options_.disabled.find(pass) == options_.disabled.end();
  }
  /// Facts of the graph as it was at the first call since the last Changed(); of a body that is never run,
  /// nothing is known.
  const shapes::GraphFacts& facts();
  /// Drops the facts, those of the outer graphs included.
  void Changed();

 private:
  graph::Graph& graph_;
  const PassOptions& options_;
  PassContext* outer_ = nullptr;
  graph::NodeId owner_ = graph::kNone;
  std::string key_;
  ops::SymbolTable symbols_;
  shapes::GraphFacts facts_;
  bool valid_ = false;
};

/// A pass returns how many rewrites it made. It leaves a graph that Verify() accepts.
using PassFn = int (*)(PassContext&);

struct Pass {
  std::string_view name;
  PassFn run;
  std::string_view doc;
  bool required = false;  ///< cannot be switched off (it makes the graph runnable, not faster)
};

/// The passes in the order in which they run.
std::span<const Pass> Pipeline();

struct PassTiming {
  std::string_view name;
  int rewrites = 0;
  double seconds = 0;
};

/// Runs the pipeline over the graph and its sub-graphs, verifying after each pass that changed something.
/// Unknown names in `disabled` are a usage error that lists the passes.
std::vector<PassTiming> RunPipeline(graph::Graph& graph, const PassOptions& options);

}  // namespace ullage::transforms
