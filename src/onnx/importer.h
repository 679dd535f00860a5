/// The state of one import. Internal to src/onnx.
///
/// Two kinds of nesting are kept apart. A Level is a graph that is being built; it lies inside the level of
/// the node that owns it. A Scope says what names mean: every sub-graph and every inlined function body opens
/// one. A function body adds to the level of its call but sees none of its names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "onnx/import.h"
#include "onnx/model_pb.h"
#include "onnx/tensor_pb.h"

namespace ullage::onnx {

struct Level {
  std::shared_ptr<graph::Graph> graph;
  Level* outer = nullptr;
  int depth = 0;
  std::unordered_map<graph::ValueId, graph::ValueId> captured;  ///< outer value -> value in here
  std::vector<graph::ValueId> capture_order;                    ///< outer values, as they were met

  graph::Graph& operator*() const { return *graph; }
  graph::Graph* operator->() const { return graph.get(); }
};

struct Scope;

/// What the body of an inlined function sees of its call.
struct Call {
  struct Argument {
    const AttributePb* attribute;
    Scope* scope;  ///< where the attribute was written; null for a default
  };
  const FunctionPb* function = nullptr;
  const Call* outer = nullptr;
  int depth = 0;
  std::string prefix;  ///< name of the call node, unique
  std::string annotation;
  StringMap metadata;
  std::map<std::string_view, Argument> arguments;
};

struct Scope {
  Level* level = nullptr;
  Scope* parent = nullptr;     ///< the scope around it, for names that are not in here
  const Call* call = nullptr;  ///< null outside of function bodies
  const Opsets* opsets = nullptr;
  std::unordered_map<std::string_view, graph::ValueId> names;
};

class Importer {
 public:
  Importer(const Source& source, std::string folder, const ImportOptions& options)
      : source_(source), options_(options), external_(std::move(folder)) {}

  std::shared_ptr<graph::Graph> Run();

 private:
  struct FoundName {
    graph::ValueId id;
    bool found;
  };
  using SubLevels = std::vector<std::unique_ptr<Level>>;

  // -- importer_graph.cc --
  void Build(const GraphPb& pb, Scope& scope, bool top);
  void AddInputs(const GraphPb& pb, Scope& scope, bool top);
  void AddInitializers(const GraphPb& pb, Scope& scope, bool top);
  void ApplyHints(const GraphPb& pb, Scope& scope);
  /// Gives the outputs of the nodes their values; those of Constant nodes become constants.
  void Define(const std::vector<NodePb>& nodes, Scope& scope);
  void AddNodes(const std::vector<NodePb>& nodes, Scope& scope);
  void AddNode(const NodePb& pb, Scope& scope);
  void DefineConstant(const NodePb& pb, graph::ValueId id, Scope& scope);
  FoundName Lookup(std::string_view name, const Scope& scope, Level& level);
  graph::ValueId Bring(Level& to, Level& from, graph::ValueId id);
  graph::ValueId Capture(Level& level, graph::ValueId outer);
  void FinishCaptures(graph::Node& node, Level& level, SubLevels& subs);
  int OpsetOf(const Scope& scope, std::string_view domain) const;

  // -- importer_function.cc --
  void IndexFunctions();
  /// The function that a node calls and that is to be inlined, or null.
  const FunctionPb* FunctionOf(const NodePb& pb, const Scope& scope) const;
  void Inline(const NodePb& pb, const FunctionPb& function, std::vector<graph::ValueId> inputs,
              std::vector<graph::ValueId> outputs, Scope& scope);
  /// Counts what inlining and captures make of a small file, and stops it.
  void Charge(size_t nodes, size_t bytes, const Message& at);

  // -- importer_attribute.cc --
  /// Empty when it refers to an attribute that the call leaves out.
  std::optional<graph::Attribute> ImportAttribute(const AttributePb& pb, Scope& scope, Level& level,
                                                  std::string_view value_name, SubLevels* subs);
  std::shared_ptr<graph::Graph> ImportSubgraph(Message message, Scope& scope, Level& level, SubLevels* subs);
  TensorContext tensors() { return {&external_, options_.require_data}; }

  const Source& source_;
  const ImportOptions& options_;
  ExternalFiles external_;
  ModelPb model_;
  std::map<std::tuple<std::string_view, std::string_view, std::string_view>, const FunctionPb*> functions_;
  size_t inlined_nodes_ = 0;
  size_t charged_bytes_ = 0;
  size_t captures_ = 0;
};

}  // namespace ullage::onnx
