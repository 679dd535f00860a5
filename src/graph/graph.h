/// The intermediate representation: a graph of nodes and values, whatever file it came from.
///
/// Values and nodes are addressed by small integers that stay valid until the graph is compacted. Passes
/// change a graph only through a Patch (patch.h), which keeps producers, consumers, provenance and the
/// mutation log right. A graph is not thread-safe while it is changed; reading is.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/constant.h"

namespace ullage::graph {

class Graph;

using ValueId = int32_t;
using NodeId = int32_t;
/// "No value": an empty optional input or output; "no node": the producer of an input or constant.
inline constexpr int32_t kNone = -1;

/// Domain of operators that only our own passes and importers make.
inline constexpr std::string_view kUllageDomain = "ullage";
inline constexpr std::string_view kMsDomain = "com.microsoft";

using Attribute = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                               std::vector<std::string>, ConstantPtr, std::shared_ptr<Graph>,
                               std::vector<ConstantPtr>, std::vector<std::shared_ptr<Graph>>>;

/// One dimension as the model declares it: a number, or a label (possibly empty), which means nothing but
/// "unknown". Equal labels do NOT prove equal sizes: exporters get them wrong.
struct DeclaredDim {
  int64_t value = -1;  ///< -1: not a number
  std::string label;
};
using DeclaredShape = std::vector<DeclaredDim>;

/// kOptional is an optional tensor; kMap stands for every type that is none of these.
enum class TypeKind { kTensor, kSequence, kOptional, kMap, kOptionalSequence };

struct Value {
  std::string name;  ///< unique within its graph
  DType dtype = DType::kUndefined;
  TypeKind kind = TypeKind::kTensor;
  std::optional<DeclaredShape> declared;  ///< from the model; a hint, except on graph inputs
  NodeId producer = kNone;
  std::vector<NodeId>
      consumers;  ///< one entry per use, in order of use; uses from sub-graphs count for the outer node
  ConstantPtr constant;   ///< set for initializers and folded constants; may be a default of a graph input
  bool is_input = false;  ///< a graph input (or a capture, in a sub-graph)
};

struct Node {
  NodeId id = kNone;
  std::string domain;  ///< "" is ai.onnx
  std::string op;
  int opset = 0;  ///< version of the domain that the model imports: which rules hold
  std::string name;
  std::vector<ValueId> inputs;    ///< kNone where an optional input is left out
  std::vector<ValueId> outputs;   ///< kNone where an optional output is not wanted
  std::vector<ValueId> captures;  ///< outer values that the sub-graphs of this node read, each once
  std::map<std::string, Attribute, std::less<>> attributes;
  std::map<std::string, std::string, std::less<>> metadata;  ///< the model's metadata_props of the node
  std::string annotation;                                    ///< `layer_ann`, see placement rules
  std::vector<std::string> provenance;  ///< names of the model's own nodes that this one stands for, in order
  bool alive = true;

  bool Is(std::string_view d, std::string_view o) const { return op == o && domain == d; }
  /// "com.microsoft:MatMulNBits" or "Add".
  std::string OpName() const;
  bool has_input(size_t i) const { return i < inputs.size() && inputs[i] != kNone; }
  bool has_output(size_t i) const { return i < outputs.size() && outputs[i] != kNone; }
  ValueId input(size_t i) const { return i < inputs.size() ? inputs[i] : kNone; }
  ValueId output(size_t i) const { return i < outputs.size() ? outputs[i] : kNone; }
  bool has_attr(std::string_view key) const { return attributes.find(key) != attributes.end(); }

  /// Attribute or default. A value of another type throws kInvalidModel naming node and attribute.
  int64_t Int(std::string_view key, int64_t def) const;
  float Float(std::string_view key, float def) const;
  std::string Str(std::string_view key, std::string_view def) const;
  std::vector<int64_t> Ints(std::string_view key) const;  ///< empty when absent
  std::vector<float> Floats(std::string_view key) const;
  /// As the functions above, without a copy: valid as long as the attribute is.
  std::string_view StrView(std::string_view key, std::string_view def) const;
  std::span<const int64_t> IntsView(std::string_view key) const;
  std::span<const float> FloatsView(std::string_view key) const;
  ConstantPtr Tensor(std::string_view key) const;               ///< null when absent
  std::shared_ptr<Graph> Subgraph(std::string_view key) const;  ///< null when absent
  /// As Int(), but an absent attribute throws kInvalidModel.
  int64_t RequiredInt(std::string_view key) const;

 private:
  template <class T>
  const T* Find(std::string_view key, const char* type) const;
};

/// A change made by a pass: which nodes went and which came instead. Reservations follow these events.
struct Mutation {
  std::string pass;
  std::vector<NodeId> removed;
  std::vector<NodeId> added;
};

class Graph {
 public:
  std::string name;
  std::vector<ValueId> inputs;  ///< in the model's order; initializers that are listed as inputs are left out
  std::vector<ValueId> outputs;  ///< in the model's order
  /// Sub-graphs only: capture_values[i] is the value in here that stands for captures[i] of the owning node;
  /// so all sub-graphs of a node list the same captures, read or not. A captured constant shows as the
  /// constant of the value in here, too.
  std::vector<ValueId> capture_values;
  std::vector<std::string> capture_names;          ///< names in the outer graph, parallel to capture_values
  std::map<std::string, int, std::less<>> opsets;  ///< domain -> version
  std::map<std::string, std::string, std::less<>> metadata;
  std::vector<Mutation> log;

  // -- building: for importers. Passes use Patch. --
  /// A new value; an empty or taken name gets a number appended.
  ValueId AddValue(std::string_view name, DType dtype = DType::kUndefined);
  ValueId AddInput(std::string_view name, DType dtype, std::optional<DeclaredShape> shape);
  ValueId AddConstant(std::string_view name, ConstantPtr constant);
  /// A new node; registers it as producer and consumer. `provenance` starts with its own name. An unnamed
  /// node gets a name derived from its first output. Throws kInvalidModel when an output has a producer
  /// already.
  Node& AddNode(std::string_view domain, std::string_view op, std::string_view name,
                std::vector<ValueId> inputs, std::vector<ValueId> outputs);
  /// Registers captured outer values of a node with sub-graphs (once, after its sub-graphs are complete).
  void SetCaptures(Node& node, std::vector<ValueId> captures);
  /// Brings what the sub-graphs of a node know of captured values (name, type, constant) up to date, all
  /// levels down. Needed only where such a property of a captured value was changed directly.
  void SyncCaptures(Node& node);

  // -- reading --
  size_t value_count() const { return values_.size(); }
  size_t node_slots() const { return nodes_.size(); }
  const Value& value(ValueId id) const { return values_[static_cast<size_t>(id)]; }
  Value& value(ValueId id) { return values_[static_cast<size_t>(id)]; }
  const Node& node(NodeId id) const { return *nodes_[static_cast<size_t>(id)]; }
  Node& node(NodeId id) { return *nodes_[static_cast<size_t>(id)]; }
  /// kNone when there is no value of that name.
  ValueId FindValue(std::string_view name) const;
  bool IsOutput(ValueId id) const;
  /// The producing node, or null.
  const Node* ProducerOf(ValueId id) const;
  /// The constant behind a value, or null (also for kNone).
  const Constant* ConstantOf(ValueId id) const;
  /// Living nodes in an order in which every producer precedes its consumers, close to the order they were
  /// added in. A cycle throws kInvalidModel naming the nodes on it.
  std::vector<NodeId> Order() const;
  size_t LiveNodes() const;

  // -- used by Patch --
  void RemoveNode(NodeId id);
  /// All uses of `from`, graph outputs included, become uses of `to`.
  void ReplaceUses(ValueId from, ValueId to);
  void SetInput(Node& node, size_t index, ValueId value);
  std::string UniqueNodeName(std::string_view base);

 private:
  void AddUse(ValueId value, NodeId node);
  void RemoveUse(ValueId value, NodeId node);

  std::vector<Value> values_;
  std::vector<std::unique_ptr<Node>> nodes_;  // stable addresses
  std::map<std::string, ValueId, std::less<>> by_name_;
  std::map<std::string, int, std::less<>> value_suffixes_;  // last number appended to a wanted name
  std::map<std::string, int, std::less<>> node_names_;
};

/// Checks what every stage relies on: producers and consumers agree, one producer per value, inputs and
/// constants have none, outputs exist, captures match, no cycle. Throws kInvalidModel naming the fault.
void Verify(const Graph& graph);

/// Stable text, one line per node, for golden tests and `ullage inspect`.
std::string Dump(const Graph& graph);

}  // namespace ullage::graph
