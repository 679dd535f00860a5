/// What the passes share: questions that patterns ask, and the step that replaces matched nodes.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/patch.h"
#include "transforms/pass.h"

namespace ullage::transforms {

using graph::kMsDomain;
using graph::kNone;
using graph::kUllageDomain;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

/// Questions about a graph. Facts are computed when first asked for; of values that were added since then,
/// nothing is known but what the graph itself says.
class Lens {
 public:
  explicit Lens(PassContext& context) : context_(context), graph_(context.graph()) {}

  /// The constant behind a value; null for none, and for a graph input that only has a default.
  graph::ConstantPtr constant(ValueId v) const;
  /// The only element of a constant of numbers whose data are there.
  std::optional<double> Scalar(ValueId v) const;
  /// True for a scalar within a relative distance of 1e-3 of `expected` (constants of fp16 models are
  /// rounded).
  bool IsNear(ValueId v, double expected) const;
  /// Integers that are known exactly, from a constant or from the facts.
  std::optional<std::vector<int64_t>> Ints(ValueId v) const;

  /// Read once, by one node, and no graph output.
  bool OneUse(ValueId v) const;
  bool Unused(ValueId v) const {
    return v == kNone || (graph_.value(v).consumers.empty() && !graph_.IsOutput(v));
  }
  /// The producing node when it is of this operator (ai.onnx unless told otherwise), else null.
  const Node* From(ValueId v, std::string_view op, std::string_view domain = {}) const;
  /// As From(), for a value within a pattern: nobody else may read it.
  const Node* Inner(ValueId v, std::string_view op, std::string_view domain = {}) const;

  const ops::ValueFacts& facts(ValueId v) const;
  DType dtype(ValueId v) const;
  /// The last dimension when it is a known number, else -1.
  int64_t LastDim(ValueId v) const;
  /// Both have the same known rank and certainly the same dimensions.
  bool SameShape(ValueId a, ValueId b) const;

 private:
  PassContext& context_;
  graph::Graph& graph_;
};

/// Puts one node in place of the matched ones: it takes over `outputs`, and the matched nodes go unless
/// somebody else still reads them. Imports the domain where the model does not. `suffix` may be empty.
Node& Fuse(graph::Patch& patch, std::string_view domain, std::string_view op, std::string_view suffix,
           std::vector<ValueId> inputs, std::vector<ValueId> outputs, std::vector<NodeId> matched);

/// The value, which nothing produces (any more), is this constant from now on, in sub-graphs too.
void BecomeConstant(graph::Graph& graph, ValueId v, graph::ConstantPtr constant);

/// Replaces every use of `from`, which its producer's removal will follow, by `to`. False, without a change,
/// when `from` is a graph output, whose name must stay.
bool Redirect(graph::Patch& patch, ValueId from, ValueId to);

/// True when `v` is computed from what node `source` produces.
bool DependsOn(const graph::Graph& graph, ValueId v, const std::vector<NodeId>& sources);

/// Key or value heads that are repeated for their group of query heads: Unsqueeze(2), Expand to
/// [B, Nkv, G, T, H], Reshape to [B, Nkv * G, T, H].
struct Repeat {
  ValueId source = kNone;  ///< [B, Nkv, T, H]
  NodeId expand = kNone, unsqueeze = kNone;
  ops::Bound rows;  ///< T
};
std::optional<Repeat> ReadRepeat(const Lens& lens, const Node& reshape);

/// An axis attribute or element, made non-negative; -1 when it does not fit the rank.
inline int64_t AxisOf(int64_t axis, int rank) {
  const int64_t a = axis < 0 ? axis + rank : axis;
  return a >= 0 && a < rank ? a : -1;
}

/// Axes of a reduction or (Un)squeeze: the attribute of older versions or the input of newer ones. Nothing
/// when they are not known or do not fit.
std::optional<std::vector<int64_t>> AxesOf(const Lens& lens, const Node& node, size_t input, int rank);

}  // namespace ullage::transforms
