/// Sessions over plain graphs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/cli/common.h"
#include "onnx/tensor_io.h"
#include "session/session.h"

namespace ullage::cli {

/// Plans the graph with the bounds "NAME=1x3x640x640" for its inputs and those of the option
/// session.max_shape_override. Throws kUnsupported with details.unbounded when a size has no bound.
std::unique_ptr<session::Session> PlanGraph(const llm::ModelSource& source, const ModelOptions& options,
                                            const std::vector<std::string>& shape_flags);

struct GraphRequest {
  /// Bounds as for PlanGraph. Inputs larger than theirs are refused; an input without a bound is planned for
  /// its own shape.
  std::vector<std::string> shapes;
  std::vector<std::string> fetch;  ///< more values to return behind the outputs
};

/// Runs the graph once on the values (one per input, by name). `memory_json` becomes the array that is
/// printed under "memory"; `stats`, when given, gathers the nodes' memory statistics.
std::vector<onnx::HostValue> RunGraph(const std::shared_ptr<graph::Graph>& graph, const std::string& name,
                                      const ModelOptions& options, std::vector<onnx::HostValue>& inputs,
                                      const GraphRequest& request, std::string* memory_json,
                                      memory::NodeStatsTable* stats = nullptr);

/// Throws kDoesNotFit, with the account, where that run would not fit the limit. The graph may have been read
/// without its weights.
void RequireFit(const std::shared_ptr<graph::Graph>& graph, const std::string& name,
                const ModelOptions& options, std::vector<onnx::HostValue>& inputs,
                const GraphRequest& request);

}  // namespace ullage::cli
