/// Sessions over plain graphs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/graph_session.h"
#include "apps/cli/common.h"
#include "onnx/tensor_io.h"

namespace ullage::cli {

/// Reads the model's graph, which must outlive it.
api::GraphLoader LoaderOf(const llm::ModelSource& source, const ModelOptions& options);

/// With the bounds "NAME=1x3x640x640" of --shape.
api::GraphOptions GraphOptionsOf(const llm::ModelSource& source, const ModelOptions& options,
                                 const std::vector<std::string>& shape_flags);

/// Plans the graph with the bounds "NAME=1x3x640x640" for its inputs and those of the option
/// session.max_shape_override. Throws kUnsupported with details.unbounded when a size has no bound.
/// `remedies`, when given, gets what would help where it does not fit.
std::unique_ptr<session::Session> PlanGraph(const llm::ModelSource& source, const ModelOptions& options,
                                            const std::vector<std::string>& shape_flags,
                                            std::vector<session::Remedy>* remedies = nullptr);

struct GraphRequest {
  /// Bounds as for PlanGraph. Inputs larger than theirs are refused; an input without a bound is planned for
  /// its own shape.
  std::vector<std::string> shapes;
  std::vector<std::string> fetch;  ///< more values to return behind the outputs
};

/// One value per input of the graph, by name.
using InputReader = std::function<std::vector<onnx::HostValue>(const graph::Graph&)>;

/// Runs the graph once. `memory_json` becomes the array that is printed under "memory"; `stats`, when given,
/// gathers the nodes' memory statistics. Throws kDoesNotFit, with the account and what would help, before any
/// weight is read.
std::vector<onnx::HostValue> RunGraph(const llm::ModelSource& source, const ModelOptions& options,
                                      const InputReader& read, const GraphRequest& request,
                                      std::string* memory_json, memory::NodeStatsTable* stats = nullptr);

}  // namespace ullage::cli
