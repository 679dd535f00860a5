/// Sessions over plain graphs: what the public Session and the command line share.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/options.h"
#include "session/report.h"
#include "session/session.h"
#include "shapes/input_bounds.h"
#include "ullage/session.h"

namespace ullage::api {

struct GraphOptions {
  OptionBag options;
  int threads = 0;
  std::optional<int64_t> cpu_limit;
  /// Upper bounds of inputs, beside those of session.max_shape_override.
  std::vector<shapes::InputLimit> limits;
  /// Empty, or one entry per graph input: what holds in every Run; dtype kUndefined where nothing is known.
  std::vector<ops::ValueFacts> actual;
  /// `actual` is of the inputs of the only Run: where they break the graph's labels, the labels are not used.
  bool one_run = false;
  std::vector<std::string> more_outputs;
  std::string model_folder;  ///< where relative paths in options start
  bool collect_node_stats = false;
};

/// "[batch,3,?]".
std::string DeclaredText(const graph::DeclaredShape& declared);

/// Facts of inputs that always have exactly these shapes, for GraphOptions::actual. Throws kUsage for shapes
/// that contradict the model or name no input.
std::vector<ops::ValueFacts> ExactFacts(const graph::Graph& graph,
                                        const std::map<std::string, Shape>& shapes);

/// The graph, read anew: without its weights, when that is asked for.
using GraphLoader = std::function<std::shared_ptr<graph::Graph>(bool plan_only)>;

/// A session with one profile: what the model declares of its inputs, and the bounds. With a limit it is
/// planned first: when the plan does not fit, kDoesNotFit is thrown with the account and the remedies before
/// any weight is read and anything large is allocated. Throws kUsage for bounds that contradict the model or
/// name no input, and for unknown values in more_outputs.
std::unique_ptr<session::Session> CreateGraphSession(const GraphLoader& load, const std::string& name,
                                                     const GraphOptions& options);

/// The session planned. When it does not fit, it is returned all the same, with what would help in
/// `remedies`. Throws kUnsupported with details.unbounded when a size has no bound.
std::unique_ptr<session::Session> PlanGraphSession(const GraphLoader& load, const std::string& name,
                                                   const GraphOptions& options,
                                                   std::vector<session::Remedy>* remedies);

}  // namespace ullage::api

namespace ullage {

/// The public face of a session with one profile and no states.
Session WrapSession(std::unique_ptr<session::Session> session);

}  // namespace ullage
