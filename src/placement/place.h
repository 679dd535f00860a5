/// Placement: from a graph, devices, rules and budgets to a device for every node.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/options.h"
#include "placement/accountant.h"
#include "placement/budget.h"
#include "placement/coverage.h"
#include "placement/groups.h"
#include "placement/layering_index.h"
#include "placement/ledger.h"
#include "providers/provider.h"

namespace ullage::placement {

/// Why a node is where it is.
enum class Reason : uint8_t {
  kRule,       ///< its rule names the device
  kBudget,     ///< a device before it had no bytes left
  kNoKernel,   ///< a device before it cannot run it
  kAutomatic,  ///< the first device that would take it
  kDefault,    ///< there is only one device, or only the host does this
};
/// "rule", "budget", "no_kernel", "automatic", "default".
std::string_view ReasonName(Reason reason);

struct PlacedNode {
  size_t device = 0;
  Reason reason = Reason::kDefault;
  std::optional<size_t> rule;
  int64_t layer = -1;
  std::optional<size_t> group;  ///< place in PlacedGraph::groups()
  bool wide = false;            ///< the device has a kernel in float32 only: it needs casts (casts.h)
};

/// A device did not take a node that it was offered.
struct Fallback {
  enum class Kind : uint8_t { kNoKernel, kType, kShape, kBudget };
  NodeRef node;
  size_t from = 0;
  Kind kind = Kind::kNoKernel;
  bool by_rule = false;  ///< the node's rule named the device
  std::string text;
};
/// "no_kernel", "type", "shape", "budget".
std::string_view FallbackName(Fallback::Kind kind);

struct PlacedDevice {
  providers::Device device;
  DeviceBudget budget;
  int64_t nodes = 0;
  int64_t consumed_bytes = 0;                   ///< by the accountant's sums; 0 without a budget
  int64_t exact = 0, bound = 0, heuristic = 0;  ///< how the nodes' workspaces were known; with a budget
};

/// A graph whose nodes, and those of its sub-graphs, have devices. Refers to the graph, which must outlive
/// it. Immutable but for Sync(); reading is thread-safe.
class PlacedGraph {
 public:
  const graph::Graph& graph() const { return *graph_; }
  const std::vector<PlacedDevice>& devices() const { return devices_; }
  /// Throws kRuntime for a node that was not placed.
  const PlacedNode& of(const NodeRef& node) const;
  const kernels::Registry& registry(const NodeRef& node) const;
  /// Every node: sub-graphs first, in topological order.
  const std::vector<NodeRef>& nodes() const { return nodes_; }

  const RuleSet& rules() const { return rules_; }
  const std::vector<RuleCoverage>& coverage() const { return coverage_; }
  /// Nodes of no rule, where there are rules.
  int64_t unmatched_nodes() const { return unmatched_; }
  const std::vector<Fallback>& fallbacks() const { return fallbacks_; }
  /// For people: problems of rules, fallbacks by device and reason.
  const std::vector<std::string>& warnings() const { return warnings_; }
  void Warn(std::string text) { warnings_.push_back(std::move(text)); }
  const ReservationLedger& ledger() const { return ledger_; }
  /// Nodes that run as one, as their providers proposed.
  const std::vector<NodeGroup>& groups() const { return groups_; }

  /// Follows changes of the graph: nodes that were added get the device of those that they replace, or of
  /// what they read; reservations follow.
  void Sync();
  /// The layers of the nodes on a device: "0-15,17".
  std::string LayerRange(size_t device) const;

 private:
  friend class Placer;
  friend class CastInserter;
  /// Speaks of the copies of graphs from now on.
  void Move(const std::map<const graph::Graph*, const graph::Graph*>& copies);
  const graph::Graph* graph_ = nullptr;
  std::vector<PlacedDevice> devices_;
  std::vector<NodeRef> nodes_;
  std::map<NodeRef, PlacedNode> placed_;
  std::map<const graph::Graph*, size_t> log_read_;
  RuleSet rules_;
  std::vector<RuleCoverage> coverage_;
  int64_t unmatched_ = 0;
  std::vector<Fallback> fallbacks_;
  std::vector<std::string> warnings_;
  ReservationLedger ledger_;
  std::vector<NodeGroup> groups_;
};

struct PlaceRequest {
  const graph::Graph* graph = nullptr;
  /// Union over the profiles.
  const shapes::GraphFacts* facts = nullptr;
  /// In order of preference. The last one takes what nobody else does; its budget is not enforced here: the
  /// plan that follows is exact.
  std::vector<providers::Device> devices;
  /// What the accountants hand out instead of the limits, by device, when not empty.
  std::vector<std::optional<int64_t>> allowances;
  const OptionBag* options = nullptr;  ///< null: defaults
  int threads = 1;
  std::string model_folder;  ///< statistics files are relative to it
  /// Inputs and outputs of the graph whose memory the session keeps: they have the types that they have.
  std::set<graph::ValueId> states;
};

/// Rules of the options; both kinds set, or a fault in one, throws kUsage.
RuleSet ReadRules(const OptionBag& options);
/// Devices that the option `session.devices` names, in its order, the host last; without it every device
/// but those that must be named. Throws kUnsupported naming those there are.
std::vector<providers::Device> ReadDevices(
    const OptionBag& options, const std::vector<std::shared_ptr<const providers::Provider>>& providers);

/// For each device in order: the nodes that its rules or no rules claim, as long as its kernels and budget
/// allow; a node that does not fit ends the device's turn. A provider that proposes gets the groups that it
/// names, each wholly or not at all, and single nodes only if it wants the rest. What a rule's device does
/// not take goes to later devices, then to earlier ones. Throws kUsage (rules; in strict mode also rules
/// without effect), kUnsupported (a device that is not there; a node that nobody can run; in strict mode a
/// missing kernel or an unknown workspace on a device with a budget) and, in strict mode, kDoesNotFit (a
/// rule's device has no bytes left).
std::unique_ptr<PlacedGraph> Place(const PlaceRequest& request);

}  // namespace ullage::placement
