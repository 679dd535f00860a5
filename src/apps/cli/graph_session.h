/// Sessions over plain graphs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/cli/common.h"
#include "onnx/tensor_io.h"
#include "session/session.h"

namespace ullage::cli {

/// Plans the graph with the bounds "NAME=1x3x640x640" for its inputs. Throws kUnsupported with
/// details.unbounded when a size has no bound.
std::unique_ptr<session::Session> PlanGraph(const llm::ModelSource& source, const ModelOptions& options,
                                            const std::vector<std::string>& shapes);

/// Runs the graph once on the values (one per input, by name); `fetch` names more values to return behind the
/// outputs. `stats`, when given, gathers the nodes' memory statistics.
std::vector<onnx::HostValue> RunGraph(const std::shared_ptr<graph::Graph>& graph, const std::string& name,
                                      const ModelOptions& options, std::vector<onnx::HostValue>& inputs,
                                      const std::vector<std::string>& fetch,
                                      memory::NodeStatsTable* stats = nullptr);

}  // namespace ullage::cli
