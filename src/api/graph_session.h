/// Sessions over graphs that are loaded already: what the public Session and the command line share.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/options.h"
#include "session/session.h"
#include "ullage/session.h"

namespace ullage::api {

struct GraphOptions {
  OptionBag options;
  int threads = 0;
  std::optional<int64_t> cpu_limit;
  std::map<std::string, Shape> max_shapes, exact_shapes;  // as in SessionOptions
  std::vector<std::string> more_outputs;
  std::string model_folder;  ///< where relative paths in options start
  bool collect_node_stats = false;
  bool plan_only = false;
};

/// A session with one profile: what the model declares of its inputs, and the bounds. Throws kUsage for
/// bounds that contradict the model or name no input, and for unknown values in more_outputs.
std::unique_ptr<session::Session> CreateGraphSession(std::shared_ptr<graph::Graph> graph,
                                                     const std::string& name, const GraphOptions& options);

}  // namespace ullage::api

namespace ullage {

/// The public face of a session with one profile and no states.
Session WrapSession(std::unique_ptr<session::Session> session);

}  // namespace ullage
