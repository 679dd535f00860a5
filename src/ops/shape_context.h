/// What an operator's bound rule sees and sets.
#pragma once

#include <span>

#include "core/error.h"
#include "graph/graph.h"
#include "ops/bound.h"

namespace ullage::ops {

/// What is known of one value: its element type, a shape within bounds, and for small integer tensors the
/// contents.
struct ValueFacts {
  DType dtype = DType::kUndefined;
  BoundedShape shape;
  /// Null when nothing is known. Elements in row-major order; count == number of elements.
  std::shared_ptr<const BoundedValues> values;
  graph::TypeKind kind = graph::TypeKind::kTensor;
  /// Of a sequence: how many elements it has. Of an optional tensor: 0 or 1.
  Bound length;
};

/// One call of a rule, at planning time (bounds) or at run time (everything exact). The same rule serves
/// both, so a plan can never disagree with a run.
///
/// A rule must be sound: with inputs anywhere within their bounds, every output shape, and every output value
/// it states, lies within what it sets. What it cannot prove it leaves unknown (BoundedShape::Unknown(),
/// unbounded dimensions). Wrong models are reported through Fail(). Rules never touch the data of large
/// tensors.
class ShapeContext {
 public:
  virtual ~ShapeContext() = default;

  const graph::Node& node() const { return *node_; }
  const BoundMath& math() const { return math_; }

  int input_count() const { return static_cast<int>(node_->inputs.size()); }
  bool has(int i) const { return node_->has_input(static_cast<size_t>(i)); }
  /// Input facts; for an input that is left out: dtype kUndefined.
  virtual const BoundedShape& shape(int i) const = 0;
  virtual DType dtype(int i) const = 0;
  /// Tensor unless the context says otherwise. Of a sequence or optional, shape() and dtype() are those of
  /// any element.
  virtual graph::TypeKind kind(int) const { return graph::TypeKind::kTensor; }
  /// Number of elements of a sequence or optional.
  virtual Bound length(int) const { return Bound(); }
  /// Shape of element k of a sequence. While planning that of any element.
  virtual const BoundedShape& element(int i, int64_t /*k*/) const { return shape(i); }
  /// Contents of a small integer or bool input, or null when unknown. Valid until the rule returns.
  virtual const BoundedValues* values(int i) const = 0;
  /// A constant input with its data, or null (not constant, or data absent while planning).
  virtual const graph::Constant* constant(int i) const = 0;
  /// Contents of a floating-point or integer input as doubles, when they are known exactly (constants; at run
  /// time any host tensor of at most `out.size()` elements). Returns the number of elements, or -1 when
  /// unknown or too many.
  virtual int doubles(int i, std::span<double> out) const = 0;
  /// Facts of a value that a sub-graph of this node captures, and of sub-graph results, are handled by the
  /// caller for If, Loop and Scan; their rules use RunSubgraph. Returns the facts of the body's outputs for
  /// the given inputs.
  virtual std::vector<ValueFacts> RunSubgraph(const graph::Graph& body,
                                              std::span<const ValueFacts> inputs) = 0;
  /// States that no valid run takes this branch, and why.
  virtual void RefuseSubgraph(const graph::Graph& /*body*/, std::string_view /*reason*/) {}

  int output_count() const { return static_cast<int>(node_->outputs.size()); }
  bool wants(int o) const { return node_->has_output(static_cast<size_t>(o)); }
  virtual void Set(int o, DType dtype, const BoundedShape& shape) = 0;
  virtual void SetKind(int o, graph::TypeKind kind, const Bound& length) = 0;
  /// Contents of a small integer output. At run time this is ignored (the kernel computes them).
  virtual void SetValues(int o, const BoundedValues& values) = 0;

  /// False at run time: rules then skip the work of computing contents.
  virtual bool wants_values() const { return true; }
  /// A number within [lower, upper] that only a run determines (the rows of NonZero). Where numbers can be
  /// named it is a new symbol, so that its uses are known to be equal.
  virtual Bound Fresh(int64_t lower, int64_t upper) { return Bound::Between(lower, upper); }

  /// Throws kInvalidModel naming the node.
  template <class... Parts>
  [[noreturn]] void Fail(const Parts&... parts) const {
    Throw(Code::kInvalidModel, "node ", node_->name, " (", node_->OpName(), "): ", parts...);
  }
  /// Throws kUnsupported naming the node.
  template <class... Parts>
  [[noreturn]] void Unsupported(const Parts&... parts) const {
    Throw(Code::kUnsupported, "node ", node_->name, " (", node_->OpName(), "): ", parts...);
  }

  /// axis in [-rank, rank) made non-negative; fails otherwise.
  int Axis(int64_t axis, int rank) const;

 protected:
  ShapeContext(const graph::Node& node, BoundMath math) : node_(&node), math_(math) {}
  const graph::Node* node_;
  BoundMath math_;
};

}  // namespace ullage::ops
