/// What nodes cost on a device, and whether they may have it.
///
/// Costs are sums without regard to which results live at the same time: they decide placement before there
/// is a schedule. The plan that is made afterwards is exact (session/plan.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "kernels/estimate.h"
#include "placement/buffers.h"
#include "shapes/propagate.h"

namespace ullage::placement {

/// A node of one of the graphs of a model (the main graph or a sub-graph).
struct NodeRef {
  const graph::Graph* graph = nullptr;
  graph::NodeId node = graph::kNone;

  const graph::Node& operator*() const { return graph->node(node); }
  const graph::Node* operator->() const { return &graph->node(node); }
  friend bool operator<(const NodeRef& a, const NodeRef& b) {
    return a.graph != b.graph ? a.graph < b.graph : a.node < b.node;
  }
  friend bool operator==(const NodeRef& a, const NodeRef& b) = default;
};

/// What somebody measured for a node, in bytes (a row of the statistics file).
struct NodeProfile {
  int64_t inputs = 0;
  int64_t initializers = 0;
  int64_t dynamic_outputs = 0;
  int64_t temporary = 0;
};

/// Where the workspace part of a cost comes from.
enum class CostSource : uint8_t { kEstimator, kProfile, kBoth, kFallback };

struct NodeCost {
  int64_t initializers = 0;  ///< that no earlier node was charged for
  int64_t outputs = 0;       ///< with a profile: inputs and outputs as measured
  int64_t workspace = 0;
  int64_t prepack = 0;
  int64_t temporary_prepack = 0;  ///< not part of total()
  CostSource source = CostSource::kFallback;

  int64_t total() const;
};

/// The allowance where nobody knows a workspace: half of what the node holds otherwise, so that the whole is
/// 1.5 times the base.
int64_t ApplyWorkspaceHeuristic(int64_t base_bytes);

/// Counts for one device. Not thread-safe.
///
/// Weights are charged once per buffer, to the first node that is asked about; a pass that ends without
/// commit (BeginPass) forgets what it charged.
class ResourceAccountant {
 public:
  /// Facts of a graph, or null when nothing is known of it.
  using FactsOf = std::function<const shapes::GraphFacts*(const graph::Graph&)>;
  /// What was measured for a node; null function: no profile.
  using ProfileOf = std::function<std::optional<NodeProfile>(const NodeRef&)>;

  ResourceAccountant(std::optional<int64_t> limit_bytes, FactsOf facts, ProfileOf profile = nullptr);

  /// Bytes of the node's initializers that were not charged yet, and of its results at their upper bounds
  /// (0 where nothing bounds them). No allowance for scratch. Bit i of `replaced_inputs`: the source of input
  /// i does not stay on the device, so it is not charged. Throws kInvalidModel on overflow.
  NodeCost ComputeResourceCount(const NodeRef& node, uint32_t replaced_inputs = 0);
  /// The whole cost: the base, and the workspace by estimate, profile or, with neither, the heuristic. The
  /// larger of estimate and profile counts: they measure the same memory. A node that the profile does not
  /// know is estimated like one without a profile.
  NodeCost ComputeNodeCostForBudget(const NodeRef& node, const kernels::NodeEstimate& estimate);

  /// Starts a pass: pending weights and the stop are forgotten, what is committed stays.
  void BeginPass();
  /// The node would fit behind what is consumed and `pending` (equality fits).
  bool Fits(const NodeCost& cost, int64_t pending = 0) const;
  void SetStopAssignment() { stopped_ = true; }
  bool stopped() const { return stopped_; }
  /// Consumes the cost and makes the node's weights committed.
  void Commit(const NodeRef& node, const NodeCost& cost);
  /// The device takes back what a node had consumed but its weights.
  void Release(const NodeCost& cost);

  std::optional<int64_t> limit_bytes() const { return limit_; }
  int64_t consumed_bytes() const { return consumed_; }

 private:
  std::optional<int64_t> limit_;
  FactsOf facts_;
  ProfileOf profile_;
  int64_t consumed_ = 0;
  bool stopped_ = false;
  std::set<BufferKey> pending_, committed_;
  std::map<NodeRef, std::vector<BufferKey>> pending_of_;
};

}  // namespace ullage::placement
