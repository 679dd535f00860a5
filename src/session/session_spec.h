/// What a session is made of.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/options.h"
#include "graph/graph.h"
#include "memory/tags.h"
#include "providers/provider.h"
#include "shapes/input_bounds.h"

namespace ullage::session {

/// One set of bounds for the graph's inputs: a session is planned for all its profiles over the same weights.
struct ProfileSpec {
  std::string name;
  /// Facts per graph input, in the order of graph.inputs. Called once, with the profile's own table.
  std::function<std::vector<ops::ValueFacts>(const graph::Graph&, ops::SymbolTable&)> facts;
};

/// A value that an output hands on to an input of the next Run: caches, recurrent states.
struct StateSpec {
  std::string input;
  std::string output;
  /// The largest shape. With `grows`, axis 2 starts at 0 rows and gains what each Run adds; else the shape is
  /// fixed.
  Shape max_shape;
  bool grows = true;
};

/// Memory that the caller will use beside the session and wants planned and counted with it.
struct ExtraMemory {
  std::string name;
  memory::Tag tag = memory::Tag::kWorkspace;
  int64_t bytes = 0;
};

struct SessionSpec {
  std::string model_name;
  /// Where relative paths in options start.
  std::string model_folder;
  std::shared_ptr<graph::Graph> graph;
  OptionBag options;
  int threads = 0;  ///< 0: the option, or physical cores
  std::vector<ProfileSpec> profiles;
  /// Facts of the graph's inputs that hold in every Run, for the level-1 passes; empty: what the graph
  /// declares.
  std::function<std::vector<ops::ValueFacts>(const graph::Graph&, ops::SymbolTable&)> input_facts;
  std::vector<StateSpec> states;
  std::vector<ExtraMemory> extra;
  /// Graph output that is wanted for the last position only; empty: none.
  std::string last_token_output;
  std::optional<int64_t> cpu_limit;
  /// Who may run nodes; empty: every provider there is.
  std::vector<std::shared_ptr<const providers::Provider>> providers;
  /// Stop after planning: no weight is read, nothing is reserved.
  bool plan_only = false;
  /// Gather node_stats() although the options name no file for them.
  bool collect_node_stats = false;
  /// The graph is that of another session, whose passes ran with bounds that include these: it is taken as it
  /// is, its caches' types, too. Its outputs are then called so.
  std::vector<std::string> optimized_outputs;
};

}  // namespace ullage::session
